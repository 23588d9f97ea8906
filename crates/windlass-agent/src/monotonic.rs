//! The kernel's clock, as the BPF programs read it.

/// CLOCK_MONOTONIC in microseconds.
pub(crate) fn monotonic_long_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// The same as TCP has it; wraps after 71 minutes.
pub fn monotonic_us() -> u32 {
    monotonic_long_us() as u32
}
