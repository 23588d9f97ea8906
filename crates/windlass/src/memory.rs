//! Memory of a process that lives long.

/// Gives the kernel back what was needed only to begin: both allocators, Rust's and C's, keep pages that are free again. To be
/// called once a process waits for what comes.
pub fn give_back() {
    // SAFETY: both only look for pages that no object is in.
    unsafe {
        libmimalloc_sys::mi_collect(true);
        libc::malloc_trim(0);
    }
}
