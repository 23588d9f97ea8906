//! The datapath, attached to an interface of a namespace of its own, and what it does with one packet (BPF_PROG_TEST_RUN).

use crate::capture::Capture;
use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::{
    Map, MapCore, MapFlags, Object, TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder,
    libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    process::Command,
};
use windlass_agent::{Mode, Options, Policy};
use windlass_core::{Algorithm, abi};
use windlass_lab::netns::{Netns, checked, next_run};

/// The interface that faces the servers.
const UPLINK: &str = "uplink";
/// The longest frame that a test run takes: a page less what the kernel puts around it.
pub const FRAME_MAX_BYTES: usize = 3500;
/// Verdicts: the packet goes on as if the programs were not there (TC_ACT_UNSPEC), or no further.
const PASS: u32 = u32::MAX;
const DROP: u32 = 2;
/// Where struct __sk_buff has what a test run may set.
const CONTEXT_BYTES: usize = 192;
const CONTEXT_IFINDEX: usize = 40;
const CONTEXT_GSO_SEGS: usize = 164;
const CONTEXT_GSO_SIZE: usize = 176;

/// How the datapath is loaded.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Congestion control of all flows, by name.
    pub algorithm: String,
    /// Entries of the flow table.
    pub flows_max: u32,
    /// Room for the bytes in flight of all flows.
    pub store_bytes: u64,
    /// After so long without a packet a flow loses its entry.
    pub idle_timeout_s: u32,
    /// The uplink keeps departure times.
    pub pace_by_fq: bool,
    /// Senders that pace themselves are controlled, too.
    pub controls_paced: bool,
}

/// What became of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on, maybe rewritten.
    Pass,
    /// It goes no further.
    Drop,
}

/// The datapath at work.
pub struct Programs {
    object: Object,
    from_sender: RawFd,
    to_sender: RawFd,
    clock: RawFd,
    ifindex: u32,
    capture: Capture,
    hooks: Vec<TcHook>,
    /// What the last packet has become.
    pub out: Vec<u8>,
    /// Time in the program at the last run.
    pub duration_ns: u32,
    setup: Setup,
    _host: Netns,
}

fn enter(host: &Netns) -> Result<()> {
    let there = File::open(host.path())?;
    // SAFETY: setns() changes the namespace of this thread only; the descriptor is open.
    if unsafe { libc::setns(there.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
        bail!("entering a network namespace: {} (root is needed)", io::Error::last_os_error());
    }
    Ok(())
}

impl Programs {
    /// Attached in a new namespace, which the calling thread stays in.
    pub fn attach(setup: &Setup) -> Result<Programs> {
        Self::attach_by(setup, windlass_agent::load)
    }

    /// The same of another build of the datapath, a BPF object file.
    pub fn attach_object(setup: &Setup, object: &[u8]) -> Result<Programs> {
        Self::attach_by(setup, |iface, ifindex, policy, options, clock_ifindex| {
            windlass_agent::load_object(object, iface, ifindex, policy, options, clock_ifindex)
        })
    }

    fn attach_by(
        setup: &Setup,
        load: impl FnOnce(&str, u32, &Policy, &Options, u32) -> windlass_agent::Result<Object>,
    ) -> Result<Programs> {
        let host = Netns::create(next_run(), "oracle")?;
        enter(&host)?;
        checked(Command::new("ip").args(["link", "add", UPLINK, "type", "veth", "peer", "name", "servers"]))?;
        for device in [UPLINK, "servers"] {
            // neighbour discovery would be captured, too
            checked(
                Command::new("ip").args(["link", "set", device, "addrgenmode", "none", "arp", "off"]).args([
                    "multicast",
                    "off",
                    "mtu",
                    "65535",
                    "up",
                ]),
            )?;
        }
        let ifindex = windlass_agent::interface_index(UPLINK).context("an interface just made")?;
        let algorithm = Algorithm::by_name(&setup.algorithm)
            .with_context(|| format!("{}: no such algorithm", setup.algorithm))?;
        let policy = Policy::simple(algorithm, Mode::Transparent, vec![], setup.controls_paced)?;
        let options = Options {
            flows_max: setup.flows_max,
            store_bytes: setup.store_bytes,
            idle_timeout_s: setup.idle_timeout_s,
            pace_by_fq: setup.pace_by_fq,
            ..Options::default()
        };
        // the clock's frame goes nowhere: each round is a test run
        let object = load(UPLINK, ifindex, &policy, &options, ifindex)?;
        let mut programs = Programs {
            from_sender: program(&object, "wl_from_sender")?,
            to_sender: program(&object, "wl_to_sender")?,
            clock: program(&object, "wl_clock")?,
            object,
            ifindex,
            capture: Capture::open(ifindex)?,
            hooks: Vec::new(),
            out: Vec::new(),
            duration_ns: 0,
            setup: setup.clone(),
            _host: host,
        };
        for (name, point) in [("wl_from_sender", TC_INGRESS), ("wl_to_sender", TC_EGRESS)] {
            programs.hook(name, point)?;
        }
        Ok(programs)
    }

    /// What the datapath sends passes its own programs, too.
    fn hook(&mut self, name: &str, point: u32) -> Result<()> {
        let program = self.object.progs().find(|p| p.name() == name).context("a program of the datapath")?;
        let mut builder = TcHookBuilder::new(program.as_fd());
        let mut hook = builder.ifindex(self.ifindex as i32).replace(true).handle(1).priority(1).hook(point);
        hook.create()?;
        self.hooks.push(hook.attach()?);
        Ok(())
    }

    /// Gives the program of that side a frame; what it has become is in `out`.
    pub fn run(&mut self, is_from_server: bool, frame: &[u8], gso_bytes: u32) -> Result<Verdict> {
        let program = if is_from_server { self.from_sender } else { self.to_sender };
        match self.run_program(program, frame, gso_bytes)? {
            PASS => Ok(Verdict::Pass),
            DROP => Ok(Verdict::Drop),
            verdict => bail!("a verdict that the programs do not have: {verdict:#x}"),
        }
    }

    fn run_program(&mut self, program: RawFd, frame: &[u8], gso_bytes: u32) -> Result<u32> {
        let mut context = [0u8; CONTEXT_BYTES];
        context[CONTEXT_IFINDEX..][..4].copy_from_slice(&self.ifindex.to_ne_bytes());
        if gso_bytes > 0 {
            let segments = (frame.len() as u32).div_ceil(gso_bytes);
            context[CONTEXT_GSO_SEGS..][..4].copy_from_slice(&segments.to_ne_bytes());
            context[CONTEXT_GSO_SIZE..][..4].copy_from_slice(&gso_bytes.to_ne_bytes());
        }
        self.out.resize(2 * FRAME_MAX_BYTES, 0);
        let mut options = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as _,
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            data_out: self.out.as_mut_ptr().cast(),
            data_size_out: self.out.len() as u32,
            ctx_in: context.as_ptr().cast(),
            ctx_size_in: context.len() as u32,
            ..bpf_test_run_opts::default()
        };
        // SAFETY: the options name their own size and buffers of the lengths given, which live for the call.
        let result = unsafe { bpf_prog_test_run_opts(program, &mut options) };
        if result != 0 {
            let bytes = frame.len();
            bail!("BPF_PROG_TEST_RUN of {bytes} bytes: {}", io::Error::from_raw_os_error(-result));
        }
        self.out.truncate(options.data_size_out as usize);
        self.duration_ns = options.duration;
        Ok(options.retval)
    }

    /// One round of the clock.
    pub fn tick(&mut self) -> Result<()> {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&(abi::WL_ETH_P_CLOCK as u16).to_be_bytes());
        self.run_program(self.clock, &frame, 0).map(drop)
    }

    /// The next frame that the datapath has sent, and whether it goes to a server.
    pub fn next_sent(&mut self) -> Option<(&[u8], bool)> {
        self.capture.next()
    }

    /// Frames that the capture had no room for since the last look.
    pub fn dropped_by_capture(&self) -> u32 {
        self.capture.dropped()
    }

    /// All counters by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>> {
        Ok(windlass_agent::read_counters(&self.map("wl_counters")?)?)
    }

    /// The interface that faces the servers.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// One of the datapath's maps.
    pub fn map(&self, name: &str) -> Result<Map<'_>> {
        self.object.maps().find(|m| m.name() == name).with_context(|| format!("bpf/flow/maps.h has {name}"))
    }

    /// Entries of the flow table that have a name.
    pub fn flows(&self) -> Result<usize> {
        Ok(self.map("wl_flow_ids")?.keys().count())
    }

    /// Takes all out of a list of numbers.
    fn drained(&self, list: &str) -> Result<Vec<u32>> {
        let list = self.map(list)?;
        let mut all = Vec::new();
        while let Ok(Some(number)) = list.lookup_and_delete(&[]) {
            all.push(u32_at(&number, 0));
        }
        Ok(all)
    }

    /// Every flow's entry and every chunk of the store is free, once. Takes the lists apart: nothing works afterwards.
    pub fn check_all_is_free(&mut self) -> Result<()> {
        let flows = self.drained("wl_free_flows")?;
        ensure_each_once("entries of the flow table", flows, self.setup.flows_max)?;
        let mut chunks = self.drained("wl_free_chunks")?;
        let spare = self.map("wl_spare_chunks")?.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        let mut split = self.drained("wl_split_chunks")?;
        for of_cpu in spare.unwrap_or_default() {
            // struct wl_spare: the count, then the chunks, then one of which blocks are given out
            chunks.extend((0..u32_at(&of_cpu, 0) as usize).map(|i| u32_at(&of_cpu, 4 + 4 * i)));
            split.extend(u32_at(&of_cpu, 4 + 4 * abi::WL_SPARE_CHUNKS as usize).checked_sub(1));
        }
        for chunk in split {
            let free =
                self.map("wl_splits")?.lookup(&chunk.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
            let all = (1 << abi::WL_CHUNK_BLOCKS) - 1;
            ensure!(u32_at(&free, 0) & all == all, "not all blocks of chunk {chunk} are free");
            chunks.push(chunk);
        }
        let tables = self.drained("wl_free_tables")?;
        let all = self.setup.store_bytes.div_ceil(u64::from(abi::WL_CHUNK_BYTES)).min(u16::MAX.into());
        ensure_each_once("tables of chunks", tables, all as u32)?;
        ensure_each_once("chunks of the store", chunks, all as u32)
    }
}

fn ensure_each_once(what: &str, mut numbers: Vec<u32>, all: u32) -> Result<()> {
    let found = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    ensure!(found == numbers.len(), "of {what} {} are free twice", found - numbers.len());
    ensure!(found == all as usize, "{found} of {all} {what} are free when every flow has ended");
    Ok(())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn program(object: &Object, name: &str) -> Result<RawFd> {
    let program = object.progs().find(|p| p.name() == name).context("a program of the datapath")?;
    Ok(program.as_fd().as_raw_fd())
}

impl Drop for Programs {
    fn drop(&mut self) {
        for hook in &mut self.hooks {
            // they go with the namespace, too
            let _ = hook.detach();
        }
    }
}
