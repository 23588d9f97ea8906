//! Has the kernel run a program once, by hand (BPF_PROG_TEST_RUN).

use crate::{Result, error::bpf};
use libbpf_rs::libbpf_sys as sys;
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    thread,
    time::Duration,
};

/// A program that could not do all of its work, as something was locked, runs again, so many times.
const TRIES: u32 = 100;

/// Of struct __sk_buff (linux/bpf.h): the words up to the last one that is given, and which are which.
const CONTEXT_WORDS: usize = 9;
const MARK: usize = 2;
const PRIORITY: usize = 8;

/// Runs the program with some packet of this mark and priority until it returns that nothing is left to do, or gives up; `what` is
/// what it does.
pub(crate) fn run_until_done(program: BorrowedFd<'_>, mark: u32, priority: u32, what: &str) -> Result<()> {
    for _ in 0..TRIES {
        if run(program, mark, priority, what)? == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns what the program returns.
fn run(program: BorrowedFd<'_>, mark: u32, priority: u32, what: &str) -> Result<u32> {
    // any packet: such programs do not look at it
    let frame = [0u8; 60];
    let mut context = [0u32; CONTEXT_WORDS];
    (context[MARK], context[PRIORITY]) = (mark, priority);
    let mut run = sys::bpf_test_run_opts {
        sz: size_of::<sys::bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        ctx_in: (&raw const context).cast(),
        ctx_size_in: size_of_val(&context) as u32,
        ..Default::default()
    };
    // SAFETY: the program is open during the call, and frame and context live as long.
    if unsafe { sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut run) } != 0 {
        return Err(bpf(what)(io::Error::last_os_error().into()));
    }
    Ok(run.retval)
}
