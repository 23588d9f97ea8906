//! Memory of a process that lives long.

/// Whether this process, and what it starts, has from now on the pages of 2 MiB that the allocator asks for. What waits most of the
/// time needs little, and would have three or four of them, the first ones before it has read its arguments.
pub fn allow_huge_pages(is_allowed: bool) {
    // SAFETY: a setting of this process. Where the kernel knows none, there are no such pages.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!is_allowed), 0, 0, 0) };
}

/// The C library calls it before main, and before the allocator's own (priority 101), which would fill a first page of 2 MiB.
extern "C" fn begin() {
    allow_huge_pages(false);
}

// SAFETY: a function that takes and returns nothing is what stands in this section; it allocates nothing.
#[used]
#[unsafe(link_section = ".init_array.00100")]
static BEGIN: extern "C" fn() = begin;

/// Gives the kernel back what was needed only to begin: both allocators, Rust's and C's, keep pages that are free again. To be
/// called once a process waits for what comes.
pub fn give_back() {
    // SAFETY: both only look for pages that no object is in.
    unsafe {
        libmimalloc_sys::mi_collect(true);
        libc::malloc_trim(0);
    }
}
