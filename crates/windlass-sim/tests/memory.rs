//! What thousands of connections cost, counted by the allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};
use windlass_scenario::Scenario;
use windlass_sim::{RunOptions, run};

struct Counting;

static NOW_BYTES: AtomicUsize = AtomicUsize::new(0);
static MOST_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST_BYTES.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
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

/// Ten thousand connections, each of which transfers 20 kB within the first four seconds and the same once more after a
/// pause of four to eight: all are idle in between. At most 4 KiB each at any time, the report of the run included.
#[test]
fn an_idle_connection_takes_4_kib_at_most() {
    const CONNECTIONS: usize = 10_000;
    let text = format!(
        "name = \"idle\"\ntime_limit = \"20 s\"\n[topology]\nshape = \"many-to-one\"\nsenders = 10\n\
         edge = {{ rate = \"1 Gbit/s\", delay = \"50 us\" }}\n\
         bottleneck = {{ rate = \"10 Gbit/s\", delay = \"50 us\", buffer = \"1 MB\" }}\n\
         [[flow]]\nfrom = \"sender-*\"\nto = \"receiver\"\ncount = {}\nstart = {{ uniform = [\"0 s\", \"4 s\"] }}\n\
         [[flow.train]]\ncount = 2\nsize = \"20 kB\"\ngap = {{ uniform = [\"4 s\", \"8 s\"] }}\n",
        CONNECTIONS / 10
    );
    let scenario = Scenario::parse("idle", &text).unwrap_or_else(|e| panic!("{e}"));
    let before = NOW_BYTES.load(Ordering::Relaxed);
    MOST_BYTES.store(before, Ordering::Relaxed);
    let outcome = run(&scenario, &RunOptions::default()).unwrap();
    let each = (MOST_BYTES.load(Ordering::Relaxed) - before) / CONNECTIONS;
    assert!(outcome.report.is_complete());
    assert!(each <= 4096, "{each} bytes for each connection");
}
