//! What thousands of connections cost, counted by the allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};
use windlass_sim::bench::Load;

struct Counting;

static NOW_BYTES: AtomicUsize = AtomicUsize::new(0);
static MOST_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST_BYTES.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        NOW_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// At most 4 KiB for each of ten thousand connections at any time, the report of the run included; and the estimate before the run
/// is neither less, nor so much more that a machine would refuse what fits.
#[test]
fn an_idle_connection_takes_4_kib_at_most_and_is_estimated_so() {
    let load = Load::idle();
    let before = NOW_BYTES.load(Ordering::Relaxed);
    MOST_BYTES.store(before, Ordering::Relaxed);
    let cost = load.measure(&AtomicBool::new(false)).unwrap();
    let took_bytes = MOST_BYTES.load(Ordering::Relaxed) - before;
    let each = took_bytes / load.connections;
    let needed_bytes = load.needed_bytes() as usize;
    assert!((took_bytes..4 * took_bytes).contains(&needed_bytes), "{needed_bytes} for {took_bytes}");
    assert!(cost.is_complete);
    assert!(each <= 4096, "{each} bytes for each connection");
}
