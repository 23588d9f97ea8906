//! The native home in a guest: its flows report what they want, and a group outside this kernel answers what they may have.

use crate::{
    Native, Result,
    error::bpf,
    map_value::{bytes_of, from_bytes},
    monotonic_us,
};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};
use serde::Serialize;
use std::{cell::RefCell, fmt, os::fd::RawFd, rc::Rc};
use windlass_core::abi::{wl_guest_grant, wl_guest_report, wl_guest_stats};

/// What the flows of this kernel did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuestStats {
    /// Reports that they made.
    pub reports: u64,
    /// Reports for which the ring had no room.
    pub lost: u64,
    /// Answers that they took for their window.
    pub taken: u64,
    /// Times that a flow went on by itself because it was not answered.
    pub fallbacks: u64,
}

/// The algorithms, loaded so that their flows are coupled from outside. Dropped, they are unloaded.
pub struct GuestFlows {
    ring: RingBuffer<'static>,
    queue: Rc<RefCell<Vec<wl_guest_report>>>,
    grants: MapHandle,
    epoch_map: MapHandle,
    epoch: u32,
    native: Native,
}

impl fmt::Debug for GuestFlows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestFlows").field("native", &self.native).field("epoch", &self.epoch).finish()
    }
}

impl GuestFlows {
    /// Registers all algorithms under `prefix`.
    pub fn load(prefix: &str) -> Result<GuestFlows> {
        let native = Native::load_in_guest(prefix)?;
        let queue = Rc::new(RefCell::new(Vec::new()));
        let filled = queue.clone();
        let mut builder = RingBufferBuilder::new();
        let reports = native.map("wl_guest_reports")?;
        builder
            .add(&reports, move |bytes| {
                filled.borrow_mut().extend(from_bytes::<wl_guest_report>(bytes));
                0
            })
            .map_err(bpf("reading the flows' reports"))?;
        Ok(GuestFlows {
            ring: builder.build().map_err(bpf("reading the flows' reports"))?,
            queue,
            grants: native.map("wl_guest_grants")?,
            epoch_map: native.map(".bss.guest")?,
            epoch: 0,
            native,
        })
    }

    /// What is registered.
    pub fn names(&self) -> Vec<String> {
        self.native.names()
    }

    /// Readable when there are reports.
    pub fn fd(&self) -> RawFd {
        self.ring.epoll_fd()
    }

    /// What the flows have reported since, in order.
    pub fn reports(&mut self) -> Result<Vec<wl_guest_report>> {
        self.ring.consume().map_err(bpf("reading the flows' reports"))?;
        Ok(self.queue.take())
    }

    /// Answers the flow's report `seq`. Without values the flow goes on with its own window. Returns whether the answer is
    /// there for the flow: it need not be, as when memory is short or there are more flows than expected, and those without go
    /// on by themselves.
    pub fn grant(&mut self, flow: u64, seq: u32, values: Option<(u32, u32)>) -> Result<bool> {
        let (cwnd_bytes, ssthresh_bytes) = values.unwrap_or((0, 0));
        let grant = wl_guest_grant {
            id: flow,
            seq,
            epoch: self.epoch,
            at_us: monotonic_us(),
            is_change: values.is_some().into(),
            cwnd_bytes,
            ssthresh_bytes,
        };
        let result = self.grants.update(&flow.to_ne_bytes(), bytes_of(&grant), MapFlags::ANY);
        unless_busy(result).map_err(bpf("answering a flow"))
    }

    /// Forgets a flow that has ended. Where that fails now, its place stays taken.
    pub fn forget(&mut self, flow: u64) -> Result<()> {
        unless_busy(self.grants.delete(&flow.to_ne_bytes())).map_err(bpf("forgetting a flow"))?;
        Ok(())
    }

    /// Makes all answers so far void, at once.
    pub fn revoke_all(&mut self) -> Result<()> {
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch_map
            .update(&0u32.to_ne_bytes(), &self.epoch.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("revoking answers"))
    }

    /// Reports what the flows did, also while another thread works with them.
    pub fn watch(&self) -> Result<GuestWatch> {
        Ok(GuestWatch { stats: self.native.map("wl_guest_stats")? })
    }
}

/// Whether a map was changed. That may fail at any time for want of memory, or of a lock (Linux 6.16): the next time it may not.
/// What is an error is that it is no map of ours, or not to be changed.
fn unless_busy(result: libbpf_rs::Result<()>) -> libbpf_rs::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => Err(e),
        Err(_) => Ok(false),
    }
}

/// What the flows of this kernel do; see [`GuestFlows::watch`].
#[derive(Debug)]
pub struct GuestWatch {
    stats: MapHandle,
}

impl GuestWatch {
    /// So far.
    pub fn stats(&self) -> Result<GuestStats> {
        let value = self
            .stats
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("reading what flows did"))?
            .unwrap_or_default();
        let all: wl_guest_stats = from_bytes(&value).unwrap_or_default();
        Ok(GuestStats { reports: all.reports, lost: all.lost, taken: all.taken, fallbacks: all.fallbacks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::Error;

    #[test]
    fn what_may_succeed_the_next_time_ends_no_agent() {
        for code in [libc::ENOMEM, libc::EBUSY, libc::ETIMEDOUT, libc::EDEADLK, libc::E2BIG, libc::ENOENT] {
            assert!(matches!(unless_busy(Err(Error::from_raw_os_error(code))), Ok(false)), "{code}");
        }
        for code in [libc::EPERM, libc::EINVAL] {
            assert!(unless_busy(Err(Error::from_raw_os_error(code))).is_err(), "{code}");
        }
        assert!(matches!(unless_busy(Ok(())), Ok(true)));
    }
}
