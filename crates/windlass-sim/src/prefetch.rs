//! Memory that will be needed soon: with thousands of connections most of it has left the processor's caches.

/// What a processor fetches at once.
const LINE_BYTES: usize = 64;

/// Requests the beginning of `what`, without waiting for it.
#[inline(always)]
pub fn prefetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing into the program, and every x86_64 processor has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

/// Requests what stands behind it, which may be the end of what there is.
#[inline(always)]
pub fn prefetch_next<T>(what: &T) {
    // SAFETY: a prefetch reads nothing into the program.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).wrapping_add(1).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

/// Requests all of it.
#[inline(always)]
pub fn prefetch_all<T>(what: &T) {
    let begin = std::ptr::from_ref(what).cast::<[u8; LINE_BYTES]>();
    for line in 0..size_of::<T>().div_ceil(LINE_BYTES) {
        // SAFETY: a prefetch reads nothing into the program, so the last line may reach beyond the end.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(begin.wrapping_add(line).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (begin, line);
    }
}
