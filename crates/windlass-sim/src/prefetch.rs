//! Memory that will be needed soon: with thousands of connections most of it has left the processor's caches.

/// What a processor fetches at once.
const LINE_BYTES: usize = 64;

/// Requests the line of this address, which may be beyond the end of what there is, without waiting for it.
#[inline(always)]
fn request<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing into the program, whatever the address, and every x86_64 processor has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Requests the beginning of `what`.
#[inline(always)]
pub fn prefetch<T>(what: &T) {
    request(what);
}

/// Requests what stands behind it, which may be the end of what there is.
#[inline(always)]
pub fn prefetch_next<T>(what: &T) {
    request(std::ptr::from_ref(what).wrapping_add(1));
}

/// Requests all of it; the last line may reach beyond the end.
#[inline(always)]
pub fn prefetch_all<T>(what: &T) {
    let begin = std::ptr::from_ref(what).cast::<[u8; LINE_BYTES]>();
    (0..size_of::<T>().div_ceil(LINE_BYTES)).for_each(|line| request(begin.wrapping_add(line)));
}
