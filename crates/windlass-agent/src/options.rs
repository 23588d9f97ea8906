//! What a datapath is loaded with.

use crate::{Error, Policy, Result, error::bpf};
use windlass_core::abi;

/// Sizes and rates, fixed when the datapath is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Flows at once, behind all interfaces of the datapath; more pass unwatched. 1 to 2^20.
    pub flows_max: u32,
    /// Memory for stored data, allocated at once for all interfaces of the datapath, in steps of 16 MiB. Less than 4 GiB.
    pub store_bytes: u64,
    /// Rounds of the clock per second, 250 to 20000: repairs and pacing are as fine as this.
    pub clock_hz: u32,
    /// A flow without packets for so long is forgotten, 1 to 1800 s; if it goes on then, it is only watched.
    pub idle_timeout_s: u32,
    /// The uplink's `fq` spaces packets, by departure times, not the clock: see [`Pacing`](crate::Pacing). Without
    /// such an `fq`, or before Linux 5.18, where the programs are refused then, leave it false.
    pub pace_by_fq: bool,
    /// Flows of all interfaces of the namespace can be in one group, even if the first policy names none: the policy may
    /// change. Otherwise so it is if the first policy names groups.
    pub shares_groups: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            flows_max: 32768,
            store_bytes: 256 << 20,
            clock_hz: abi::WL_CLOCK_HZ,
            idle_timeout_s: 300,
            pace_by_fq: false,
            shares_groups: false,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        let say = |what: String| Err(Error::Invalid(what));
        if !(1..=1 << 20).contains(&self.flows_max) {
            return say(format!("--flows {}: 1 to 1048576", self.flows_max));
        }
        if self.store_bytes == 0 || self.store_bytes >= 4 << 30 {
            return say(format!("--store-mib {}: 1 to 4095", self.store_bytes >> 20));
        }
        if !(250..=20000).contains(&self.clock_hz) {
            return say(format!("--clock-hz {}: 250 to 20000 rounds a second", self.clock_hz));
        }
        let most_s = abi::WL_IDLE_MAX_S;
        if !(1..=most_s).contains(&self.idle_timeout_s) {
            return say(format!("--idle-timeout-s {}: 1 to {most_s} s", self.idle_timeout_s));
        }
        Ok(())
    }

    pub(crate) fn shares(&self, policy: &Policy) -> bool {
        self.shares_groups || !policy.groups().is_empty()
    }

    pub(crate) fn banks(&self) -> u32 {
        self.store_bytes.div_ceil(u64::from(abi::WL_BANK_BYTES)) as u32
    }

    pub(crate) fn chunks(&self) -> u32 {
        // banks are the grain of what is allocated, chunks of what is used
        self.store_bytes.div_ceil(u64::from(abi::WL_CHUNK_BYTES)).min(u16::MAX.into()) as u32
    }

    /// Half-open connections that are remembered: twice as many as flows, within bounds. A flood of SYNs fills the map.
    pub(crate) fn handshakes(&self) -> u32 {
        (2 * self.flows_max).clamp(1 << 14, 1 << 17)
    }

    /// What one CPU keeps others cannot have: a sixteenth of the store at most, all CPUs together.
    pub(crate) fn spare_chunks(&self) -> Result<u32> {
        let cpus = libbpf_rs::num_possible_cpus().map_err(bpf("counting CPUs"))? as u32;
        Ok((self.chunks() / 16 / cpus).min(abi::WL_SPARE_CHUNKS))
    }
}
