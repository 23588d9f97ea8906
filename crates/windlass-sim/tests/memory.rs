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

/// At most 4 KiB for each of ten thousand connections at any time, the report of the run included.
#[test]
fn an_idle_connection_takes_4_kib_at_most() {
    let load = Load::idle();
    let before = NOW_BYTES.load(Ordering::Relaxed);
    MOST_BYTES.store(before, Ordering::Relaxed);
    let cost = load.measure(&AtomicBool::new(false)).unwrap();
    let each = (MOST_BYTES.load(Ordering::Relaxed) - before) / load.connections;
    assert!(cost.is_complete);
    assert!(each <= 4096, "{each} bytes for each connection");
}
