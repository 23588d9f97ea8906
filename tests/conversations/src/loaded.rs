//! The box as its programs in this kernel, every packet a run of one of them (BPF_PROG_TEST_RUN).

use crate::home::{Home, Mode, Sent};
use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::{
    thread,
    time::{Duration, Instant},
};
use windlass_core::abi::{self, wl_flow, wl_flow_key, wl_ledger, wl_policy_head, wl_rule};
use windlass_oracle::{
    programs::{Programs, Setup, Verdict},
    wire::Tuple,
};

/// The same sources as of the datapath in use, and another clock (`set_clock.h`).
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/set_clock.bpf.o"));

const FIRST: [u8; 4] = [0; 4];
/// Only lest a failing run wait for ever.
const CAPTURE_LIMIT: Duration = Duration::from_secs(10);

/// Programs that are loaded and attached in a network namespace of this thread's.
pub struct Loaded {
    programs: Programs,
    clock: MapHandle,
    counters: MapHandle,
    now_us: u64,
    /// Frames of the box that were captured so far.
    captured: u64,
}

impl Loaded {
    /// Attaches them; the calling thread stays in their namespace.
    pub fn attach(setup: &Setup) -> Result<Loaded> {
        let programs = Programs::attach_object(setup, OBJECT)?;
        let clock = MapHandle::try_from(&programs.map(".data.set_clock")?)?;
        let counters = MapHandle::try_from(&programs.map("wl_counters")?)?;
        Ok(Loaded { programs, clock, counters, now_us: 0, captured: 0 })
    }

    /// Frames that the programs count as sent.
    fn counted(&self) -> Result<u64> {
        let of_cpus = self.counters.lookup_percpu(&FIRST, MapFlags::ANY)?;
        let of_cpu = |counts: &Vec<u8>, counter: u32| {
            let at = 8 * counter as usize;
            u64::from_ne_bytes(counts[at..at + 8].try_into().expect("eight bytes"))
        };
        let all = |counts: &Vec<u8>| {
            of_cpu(counts, abi::WL_C_REPAIRED_SEGS) + of_cpu(counts, abi::WL_C_WINDOW_UPDATES)
        };
        Ok(of_cpus.unwrap_or_default().iter().map(all).sum())
    }

    /// Has ledgers of all flows kept that begin.
    pub fn keep_ledgers(&self) -> Result<()> {
        self.change("wl_ledgers_kept", |keeps: &mut u32| *keeps = abi::WL_KEEPS_ALL)
    }

    /// The ledger of that connection's flow; none: the box has none.
    pub fn ledger(&self, tuple: &Tuple) -> Result<Option<wl_ledger>> {
        let Some(id) = self.number(tuple)? else { return Ok(None) };
        let Some(ledger) = self.programs.map("wl_ledgers")?.lookup(&id, MapFlags::ANY)? else {
            return Ok(None);
        };
        ensure!(ledger.len() == size_of::<wl_ledger>(), "an entry of {} bytes", ledger.len());
        // SAFETY: the entry is a ledger, plain data that is valid for any bytes, and as long as one.
        Ok(Some(unsafe { std::ptr::read_unaligned(ledger.as_ptr().cast()) }))
    }

    /// The number of that connection's flow.
    fn number(&self, tuple: &Tuple) -> Result<Option<Vec<u8>>> {
        let key = wl_flow_key {
            snd_addr: tuple.server,
            rcv_addr: tuple.client,
            snd_port_be: tuple.server_port.to_be(),
            rcv_port_be: tuple.client_port.to_be(),
            ifindex: self.programs.ifindex(),
        };
        // SAFETY: a key is plain data without padding; the slice lives no longer than the key.
        let key = unsafe { std::slice::from_raw_parts((&raw const key).cast(), size_of::<wl_flow_key>()) };
        Ok(self.programs.map("wl_flow_ids")?.lookup(key, MapFlags::ANY)?)
    }

    /// The flow of that connection; none: the box knows none.
    pub fn flow(&self, tuple: &Tuple) -> Result<Option<wl_flow>> {
        let Some(id) = self.number(tuple)? else { return Ok(None) };
        let flow = self.programs.map("wl_flows")?.lookup(&id, MapFlags::ANY)?;
        let flow = flow.context("the number of a flow is that of an entry")?;
        ensure!(flow.len() == size_of::<wl_flow>(), "an entry of {} bytes", flow.len());
        // SAFETY: the entry is a flow, plain data that is valid for any bytes, and as long as one.
        Ok(Some(unsafe { std::ptr::read_unaligned(flow.as_ptr().cast()) }))
    }

    /// Changes the only entry of an array.
    fn change<T: Copy>(&self, map: &str, change: impl FnOnce(&mut T)) -> Result<()> {
        let map = self.programs.map(map)?;
        let mut bytes = map.lookup(&FIRST, MapFlags::ANY)?.context("an array has its first entry")?;
        ensure!(bytes.len() == size_of::<T>(), "an entry of {} bytes", bytes.len());
        // SAFETY: the entry is a T, plain data that is valid for any bytes, and as long as one.
        let mut value: T = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        change(&mut value);
        // SAFETY: likewise; the buffer is as long as a T.
        unsafe { std::ptr::write_unaligned(bytes.as_mut_ptr().cast(), value) };
        Ok(map.update(&FIRST, &bytes, MapFlags::ANY)?)
    }
}

impl Home for Loaded {
    fn set_now(&mut self, now_us: u64) -> Result<()> {
        self.now_us = now_us;
        let now_ns = (now_us * 1000).to_ne_bytes();
        Ok(self.clock.update(&FIRST, &now_ns, MapFlags::ANY)?)
    }

    fn pass(&mut self, is_from_server: bool, frame: &[u8], gso_bytes: u32) -> Result<Option<Vec<u8>>> {
        let verdict = self.programs.run(is_from_server, frame, gso_bytes)?;
        Ok((verdict == Verdict::Pass).then(|| self.programs.out.clone()))
    }

    fn tick(&mut self) -> Result<Vec<Sent>> {
        self.programs.tick()?;
        let began = Instant::now();
        let counted = self.counted()?;
        let mut sent = Vec::new();
        // the kernel may hand over what was sent a little later
        while self.captured < counted {
            if let Some((frame, is_to_server)) = self.programs.next_sent() {
                sent.push(Sent { frame: frame.to_vec(), is_to_server });
                self.captured += 1;
            } else {
                let missing = counted - self.captured;
                ensure!(began.elapsed() < CAPTURE_LIMIT, "{missing} frames of the box were not captured");
                thread::yield_now();
            }
        }
        Ok(sent)
    }

    fn set_policy(&mut self, mode: Mode, controls_paced: bool) -> Result<()> {
        let mode = match mode {
            Mode::Control => abi::WL_MODE_ENFORCE,
            Mode::Watch => abi::WL_MODE_WATCH,
            Mode::Off => abi::WL_MODE_OFF,
        };
        let on_paced = if controls_paced { abi::WL_PACED_CONTROL } else { abi::WL_PACED_STAND_ASIDE };
        let now_us = self.now_us as u32;
        self.change("wl_rules", |rule: &mut wl_rule| {
            (rule.mode, rule.on_paced_sender) = (mode as u8, on_paced as u8);
        })?;
        self.change("wl_policy", |head: &mut wl_policy_head| {
            head.generation += 1;
            head.changed_at_us = now_us;
        })
    }

    fn flows(&mut self) -> Result<usize> {
        self.programs.flows()
    }
}
