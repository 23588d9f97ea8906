//! What the datapath costs: the kernel's run-time statistics of its programs, the verifier's work on them, and the memory of
//! its maps.

use crate::{Error, Result, error::bpf};
use libbpf_rs::{Map, Object, Program, libbpf_sys};
use serde::Serialize;
use std::{
    fs,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    path::PathBuf,
};

/// Has the kernel time every run of every BPF program of this machine while this value lives. That costs some 20 ns a
/// run, so it is off by default. Linux 5.8.
#[derive(Debug)]
pub struct RunTimeStats {
    _switch: OwnedFd,
}

impl RunTimeStats {
    /// Turns the statistics on.
    pub fn enable() -> Result<RunTimeStats> {
        // SAFETY: plain call; the result is checked.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            let why = libbpf_rs::Error::from_raw_os_error(-fd);
            return Err(bpf("turning run-time statistics on (Linux 5.8)")(why));
        }
        // SAFETY: the kernel just gave us this descriptor.
        Ok(RunTimeStats { _switch: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// How often a program ran, and for how long in all; zero while statistics were off.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RunTime {
    /// Runs: packets, or rounds of the clock.
    pub runs: u64,
    /// Nanoseconds in all of them.
    pub run_ns: u64,
}

/// A program that the kernel has taken.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// The program.
    pub name: String,
    /// Instructions it has.
    pub insns: u32,
    /// Instructions that the verifier went through, on all paths. It gives up at a million.
    pub verified_insns: u32,
}

/// The programs of an object, which is loaded.
pub(crate) fn verified(object: &Object) -> Result<Vec<Verified>> {
    let of_program = |p: Program| {
        let (name, insns) = (p.name().to_string_lossy().into_owned(), p.insn_cnt() as u32);
        Ok(Verified { name, insns, verified_insns: info(&p)?.verified_insns })
    };
    object.progs().map(of_program).collect()
}

pub(crate) fn run_time(program: &Program) -> Result<RunTime> {
    let info = info(program)?;
    Ok(RunTime { runs: info.run_cnt, run_ns: info.run_time_ns })
}

/// What the kernel knows of a program.
fn info(program: &Program) -> Result<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    let fd = program.as_fd().as_raw_fd();
    // SAFETY: `info` is a live local of the length given.
    let err = unsafe { libbpf_sys::bpf_obj_get_info_by_fd(fd, (&raw mut info).cast(), &raw mut len) };
    if err != 0 {
        return Err(bpf("reading a program's statistics")(libbpf_rs::Error::from_raw_os_error(-err)));
    }
    Ok(info)
}

/// Bytes of kernel memory that a map takes, by its descriptor's fdinfo (exact since Linux 6.4).
pub(crate) fn memory_bytes(map: &Map) -> Result<u64> {
    of_fd(map.as_fd())
}

fn of_fd(fd: BorrowedFd) -> Result<u64> {
    let path = PathBuf::from(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()));
    let text = fs::read_to_string(&path).map_err(|why| Error::Io { path, why })?;
    let memory = text.lines().find_map(|l| l.strip_prefix("memlock:")).and_then(|v| v.trim().parse().ok());
    Ok(memory.unwrap_or(0))
}
