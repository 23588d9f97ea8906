//! Memory of a process that lives long.

/// Takes pages of 4 KiB from now on, not those of 2 MiB that the allocator asks for: what waits most of the time needs little, and
/// would have three or four of them. To be called by what lives long, first of all.
pub fn stay_small() {
    // SAFETY: a setting of this process. Where the kernel knows none, there are no such pages.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// Gives the kernel back what was needed only to begin: both allocators, Rust's and C's, keep pages that are free again. To be
/// called once a process waits for what comes.
pub fn give_back() {
    // SAFETY: both only look for pages that no object is in.
    unsafe {
        libmimalloc_sys::mi_collect(true);
        libc::malloc_trim(0);
    }
}
