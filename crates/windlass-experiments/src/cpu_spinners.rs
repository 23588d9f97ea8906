//! Threads that keep CPUs from idling. On a virtual machine waking a halted CPU takes the host, and for longer than a packet
//! takes: what a benchmark sees then is mostly how often its CPUs happened to halt.

use anyhow::{Context, Result};
use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// CPUs that this process may run on, in order.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    // SAFETY: an all-zero set is the empty one.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the set is a live local of the length given.
    let err = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    if err != 0 {
        return Err(io::Error::last_os_error()).context("sched_getaffinity");
    }
    // SAFETY: reads bits below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// While it lives, each of its CPUs has something to do, of the lowest class there is (SCHED_IDLE): any other process
/// with work takes the CPU at once.
#[derive(Debug)]
pub struct CpuSpinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl CpuSpinners {
    /// Starts one on each of these CPUs.
    pub fn start(cpus: &[usize]) -> Result<CpuSpinners> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut spinners = CpuSpinners { stop: stop.clone(), threads: Vec::new() };
        for &cpu in cpus {
            let stop = stop.clone();
            let name = format!("spin/{cpu}");
            let thread = thread::Builder::new().name(name).spawn(move || {
                // a thread that may not idle here must not compete with what is measured
                if stay_idle_on(cpu).is_ok() {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            });
            spinners.threads.push(thread.context("starting a thread")?);
        }
        Ok(spinners)
    }
}

impl Drop for CpuSpinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // it does not panic
            let _ = thread.join();
        }
    }
}

/// Has the calling thread run on that CPU only, and only when no other process wants to.
fn stay_idle_on(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero set is the empty one; `cpu` is below CPU_SETSIZE, as allowed_cpus() has it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    };
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: both calls read live locals and concern the calling thread.
    let err = unsafe {
        libc::sched_setaffinity(0, size_of_val(&set), &set)
            | libc::sched_setscheduler(0, libc::SCHED_IDLE, &param)
    };
    if err == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_kept_awake_and_let_go() {
        let cpus = allowed_cpus().unwrap();
        assert!(!cpus.is_empty());
        drop(CpuSpinners::start(&cpus).unwrap());
    }

    #[test]
    fn an_idle_thread_is_of_the_lowest_class() {
        let cpu = allowed_cpus().unwrap()[0];
        let class = thread::spawn(move || {
            stay_idle_on(cpu).unwrap();
            // SAFETY: plain calls about the calling thread.
            (allowed_cpus().unwrap(), unsafe { libc::sched_getscheduler(0) })
        });
        assert_eq!(class.join().unwrap(), (vec![cpu], libc::SCHED_IDLE));
    }
}
