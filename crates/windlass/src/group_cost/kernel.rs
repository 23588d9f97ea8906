//! What an acknowledgement costs in the kernel: the transparent programs, attached to nothing, are handed packets of flows
//! that are in groups (BPF_PROG_TEST_RUN), and the kernel reports how long each run took.
//!
//! All loads have as many flows, so that what the flows themselves take from the caches is the same: once in one group, once
//! in groups of ten, once in none.

use anyhow::{Context, Result, bail};
use etherparse::PacketBuilder;
use libbpf_rs::{MapCore, MapFlags, Object, ProgramInput};
use std::mem::offset_of;
use windlass_agent::{GroupHome, Options, Policy};
use windlass_core::{
    Group, GroupRule,
    abi::{self, wl_group, wl_group_config, wl_rule},
};

/// A test run sees its packets on the loopback device.
const IFINDEX: u32 = 1;
const SERVER: [u8; 4] = [192, 0, 2, 1];
const SERVER_PORT: u16 = 80;
const CLIENT_PORT: u16 = 40_000;
const SERVER_ISN: u32 = 1_000_000;
const CLIENT_ISN: u32 = 7_000_000;
const SEGMENT: usize = 1460;
/// MSS, SACK permitted, window scale 7.
const SYN_OPTIONS: [u8; 12] = [2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 0, 0];
const WINDOW: u16 = 65_535;
/// So many flows have a rule, and so a group, of their own at least.
const GROUP_FLOWS: usize = 10;
const RULES: usize = 100;
/// Room for every flow and every packet that is on its way.
const STORE_BYTES: u64 = 256 << 20;

/// One flow of the load; the client has acknowledged `acked` bytes.
struct Flow {
    client: [u8; 4],
    acked: u32,
}

/// The programs with their flows.
pub struct Load {
    object: Object,
    flows: Vec<Flow>,
    next: usize,
}

/// How flows are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Each on its own.
    None,
    /// So many in each group, a divisor of all.
    Of(usize),
}

fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: used for the core's plain structs only, which have no padding; the slice lives no longer than the value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

impl Load {
    /// `flows` connections with the algorithm "reno", all members of their groups of `rule`.
    pub fn new(rule: GroupRule, flows: usize, grouping: Grouping) -> Result<Load> {
        // flow n has the client 10.66.rule.number
        let of_rule = flows.div_ceil(RULES).max(GROUP_FLOWS);
        let rules = flows.div_ceil(of_rule);
        let text: String = (0..rules)
            .map(|i| {
                format!(
                    "[[rule]]\nname = \"{i}\"\nmatch = {{ client = \"10.66.{i}.0/24\" }}\nalgorithm = \"reno\"\n\
                     paced_servers = \"control\"\n"
                )
            })
            .collect();
        let policy = Policy::parse("bench", &text)?;
        let options =
            Options { flows_max: (2 * flows) as u32, store_bytes: STORE_BYTES, ..Options::default() };
        let object = windlass_agent::load("lo", IFINDEX, &policy, &options, 0)?;
        let flows = (0..flows)
            .map(|n| Flow { client: [10, 66, (n / of_rule) as u8, (n % of_rule + 1) as u8], acked: 0 })
            .collect();
        let mut load = Load { object, flows, next: 0 };
        if let Grouping::Of(members) = grouping {
            load.make_groups(rule, rules, (members / of_rule).max(1))?;
        }
        for n in 0..load.flows.len() {
            load.open(n)?;
        }
        // each speaks often enough to have joined and to be through with its share
        for _ in 0..8 * load.flows.len() {
            load.report_ns()?;
        }
        load.check(grouping)?;
        Ok(load)
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>> {
        self.object.maps().find(|m| m.name() == name).with_context(|| format!("bpf/ has no map {name}"))
    }

    /// Writes the groups into the maps, as an agent does with those that all interfaces of a namespace share: these
    /// here are not shared.
    fn make_groups(&mut self, rule: GroupRule, rules: usize, rules_of_group: usize) -> Result<()> {
        let config = wl_group_config { rule: rule.id(), ..Default::default() };
        let group = Group::new(&config).map_err(|e| anyhow::anyhow!("{}: {e}", rule.name()))?;
        let (groups_map, rules_map) = (self.map("wl_groups")?, self.map("wl_rules")?);
        for number in 0..rules.div_ceil(rules_of_group) {
            let home = GroupHome { key: number as u64 + 1, group: *group.state(), ..GroupHome::default() };
            groups_map.update(&(number as u32).to_ne_bytes(), bytes_of(&home), MapFlags::ANY)?;
        }
        for number in 0..rules {
            let key = (number as u32).to_ne_bytes();
            let mut value = rules_map.lookup(&key, MapFlags::ANY)?.context("a rule of the policy")?;
            let group = (number / rules_of_group + 1) as u32;
            value[offset_of!(wl_rule, group)..][..4].copy_from_slice(&group.to_ne_bytes());
            value[offset_of!(wl_rule, weight)..][..2].copy_from_slice(&1u16.to_ne_bytes());
            rules_map.update(&key, &value, MapFlags::ANY)?;
        }
        Ok(())
    }

    /// Whether every flow is a member where it should be: else the numbers were those of something else.
    fn check(&self, grouping: Grouping) -> Result<()> {
        let groups = self.map("wl_groups")?;
        let mut members = Vec::new();
        for number in 0..abi::WL_MAX_GROUPS {
            let home = groups.lookup(&number.to_ne_bytes(), MapFlags::ANY)?.context("a group's place")?;
            let at = offset_of!(GroupHome, group) + offset_of!(wl_group, members);
            members.push(u32::from_ne_bytes(home[at..at + 4].try_into()?) as usize);
        }
        members.retain(|n| *n > 0);
        let expected = match grouping {
            Grouping::None => vec![],
            Grouping::Of(n) => vec![n; self.flows.len() / n],
        };
        if members != expected {
            bail!("groups have {members:?} members, not {expected:?}");
        }
        Ok(())
    }

    fn frame(
        &self,
        n: usize,
        is_from_server: bool,
        flags: Flags,
        seq: u32,
        ack: u32,
        payload: usize,
    ) -> Vec<u8> {
        let client = self.flows[n].client;
        let (macs, addresses, ports) = if is_from_server {
            ([0x51, 0xc1], (SERVER, client), (SERVER_PORT, CLIENT_PORT))
        } else {
            ([0xc1, 0x51], (client, SERVER), (CLIENT_PORT, SERVER_PORT))
        };
        let mac = |last| [2, 0, 0, 0, 0, last];
        let mut tcp = PacketBuilder::ethernet2(mac(macs[0]), mac(macs[1]))
            .ipv4(addresses.0, addresses.1, 60)
            .tcp(ports.0, ports.1, seq, WINDOW);
        if flags.ack {
            tcp = tcp.ack(ack);
        }
        if flags.syn {
            tcp = tcp.syn().options_raw(&SYN_OPTIONS).expect("short enough");
        }
        let mut frame = Vec::with_capacity(tcp.size(payload));
        tcp.write(&mut frame, &vec![0x55; payload]).expect("a vector takes all");
        frame
    }

    /// Has the program of that side see a frame; returns how long it took.
    fn run_ns(&mut self, is_from_server: bool, frame: &[u8]) -> Result<f64> {
        let name = if is_from_server { "wl_from_sender" } else { "wl_to_sender" };
        let program =
            self.object.progs_mut().find(|p| p.name() == name).context("bpf/transparent.bpf.c has it")?;
        let input = ProgramInput { data_in: Some(frame), ..ProgramInput::default() };
        let output = program.test_run(input).with_context(|| format!("BPF_PROG_TEST_RUN of {name}"))?;
        Ok(output.duration.as_nanos() as f64)
    }

    /// The handshake of flow `n`.
    fn open(&mut self, n: usize) -> Result<()> {
        let (syn, ack) = (Flags { syn: true, ack: false }, Flags { syn: false, ack: true });
        let both = Flags { syn: true, ack: true };
        let frames = [
            (false, self.frame(n, false, syn, CLIENT_ISN, 0, 0)),
            (true, self.frame(n, true, both, SERVER_ISN, CLIENT_ISN + 1, 0)),
            (false, self.frame(n, false, ack, CLIENT_ISN + 1, SERVER_ISN + 1, 0)),
        ];
        frames.iter().try_for_each(|(is_from_server, frame)| self.run_ns(*is_from_server, frame).map(|_| ()))
    }

    /// The next flow's server sends a segment and its client acknowledges it; what the acknowledgement takes, in ns.
    fn report_ns(&mut self) -> Result<f64> {
        let n = self.next;
        self.next = (n + 1) % self.flows.len();
        let seq = (SERVER_ISN + 1).wrapping_add(self.flows[n].acked);
        let is_ack = Flags { syn: false, ack: true };
        let data = self.frame(n, true, is_ack, seq, CLIENT_ISN + 1, SEGMENT);
        self.run_ns(true, &data)?;
        self.flows[n].acked = self.flows[n].acked.wrapping_add(SEGMENT as u32);
        let ack = self.frame(n, false, is_ack, CLIENT_ISN + 1, seq.wrapping_add(SEGMENT as u32), 0);
        self.run_ns(false, &ack)
    }

    /// The mean of that many acknowledgements, of flows in turn, in ns.
    pub fn mean_ns(&mut self, reports: usize) -> Result<f64> {
        let mut sum = 0.0;
        for _ in 0..reports {
            sum += self.report_ns()?;
        }
        Ok(sum / reports as f64)
    }
}

#[derive(Clone, Copy)]
struct Flags {
    syn: bool,
    ack: bool,
}
