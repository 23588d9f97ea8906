//! Both homes side by side: the programs in this kernel and the native core. Whatever comes by, both must do the same with it, to the byte,
//! and know the same of its flow afterwards.

use crate::{
    home::{Home, Mode, Sent},
    loaded::Loaded,
    native::Native,
    script::BoxSetup,
};
use anyhow::Result;
use std::{collections::HashSet, fmt};
use windlass_core::abi::{self, wl_flow, wl_flow_key};
use windlass_oracle::wire::{Parsed, Tuple};

/// Bytes of a frame that a difference is shown with: all headers.
const SHOWN_BYTES: usize = 110;
/// Rounds of the clock after which all flows are compared, whether something was sent or not.
const ROUNDS_PER_LOOK: u32 = 64;

/// Something that the two homes do differently.
#[derive(Debug)]
pub struct Difference(String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Difference {}

/// The two homes; what they do is what the programs do.
pub struct Pair {
    programs: Loaded,
    native: Native,
    tuples: HashSet<Tuple>,
    rounds: u32,
}

fn hex(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "nothing".to_string() };
    let shown: String = bytes.iter().take(SHOWN_BYTES).map(|b| format!("{b:02x}")).collect();
    format!("{} bytes {shown}", bytes.len())
}

fn same_bytes(what: &str, programs: Option<&[u8]>, native: Option<&[u8]>) -> Result<()> {
    if programs == native {
        return Ok(());
    }
    let text =
        format!("the two homes differ: {what}\n  programs: {}\n  natively: {}", hex(programs), hex(native));
    Err(Difference(text).into())
}

/// The flow without what is each home's own: locks, numbers of chunks and accounts, which checksums came incomplete.
fn comparable(flow: &wl_flow) -> wl_flow {
    wl_flow {
        lock: 0,
        key: wl_flow_key::default(),
        blocks: flow.blocks.map(|block| block >> abi::WL_BLOCK_BITS << 1 | u32::from(block != 0)),
        tables: flow.tables.map(|table| u16::from(table != 0)),
        server_share: 0,
        client_share: 0,
        snd_partial: 0,
        rcv_partial: 0,
        ..*flow
    }
}

/// Lines in which the two differ.
fn differing_lines(programs: &str, native: &str) -> String {
    let lines = programs.lines().zip(native.lines()).filter(|(a, b)| a != b);
    lines.map(|(a, b)| format!("\n  programs: {}\n  natively: {}", a.trim(), b.trim())).collect()
}

impl Pair {
    /// Attaches the programs; the calling thread stays in their namespace.
    pub fn attach(setup: &BoxSetup) -> Result<Pair> {
        let programs = Loaded::attach(&setup.of_programs())?;
        programs.keep_ledgers()?;
        let native = Native::new(setup)?.with_ledgers();
        Ok(Pair { programs, native, tuples: HashSet::new(), rounds: 0 })
    }

    fn same_flow(&self, tuple: &Tuple) -> Result<()> {
        let programs = self.programs.flow(tuple)?.as_ref().map(comparable);
        let native = self.native.flow(tuple).map(|flow| comparable(flow.state()));
        if programs == native {
            return self.same_ledger(tuple);
        }
        let lines = differing_lines(&format!("{programs:#?}"), &format!("{native:#?}"));
        Err(Difference(format!("the two homes differ in what they know of the flow:{lines}")).into())
    }

    fn same_ledger(&self, tuple: &Tuple) -> Result<()> {
        let programs = self.programs.ledger(tuple)?;
        let native = self.native.flow(tuple).and_then(|flow| flow.ledger().copied());
        if programs == native {
            return Ok(());
        }
        let lines = differing_lines(&format!("{programs:#?}"), &format!("{native:#?}"));
        Err(Difference(format!("the two homes differ in the flow's ledger:{lines}")).into())
    }

    /// Is the packet damaged, and of a flow that is only watched? The programs look at such a flow's packets in a short way
    /// (`bpf/box/quick.h`), which costs no checksum: what they learn of a damaged one is mended by the next. It counts as lost before it
    /// arrives.
    fn is_damaged_and_watched(&self, is_from_server: bool, frame: &[u8]) -> bool {
        let Some(parsed) = Parsed::of(frame).filter(|p| !p.is_tcp_sum_right) else { return false };
        let tuple = if is_from_server { parsed.tuple } else { parsed.turned().tuple };
        self.native.flow(&tuple).is_some_and(|flow| u32::from(flow.state().state) == abi::WL_FLOW_WATCHED)
    }

    fn same_flows(&self) -> Result<()> {
        self.tuples.iter().try_for_each(|tuple| self.same_flow(tuple))
    }
}

impl Home for Pair {
    fn set_now(&mut self, now_us: u64) -> Result<()> {
        self.native.set_now(now_us)?;
        self.programs.set_now(now_us)
    }

    fn pass(&mut self, is_from_server: bool, frame: &[u8], gso_bytes: u32) -> Result<Option<Vec<u8>>> {
        if self.is_damaged_and_watched(is_from_server, frame) {
            return Ok(None);
        }
        let programs = self.programs.pass(is_from_server, frame, gso_bytes)?;
        let native = self.native.pass(is_from_server, frame, gso_bytes)?;
        same_bytes(&format!("of {}", hex(Some(frame))), programs.as_deref(), native.as_deref())?;
        if let Some(parsed) = Parsed::of(frame) {
            let tuple = if is_from_server { parsed.tuple } else { parsed.turned().tuple };
            self.tuples.insert(tuple);
            self.same_flow(&tuple)?;
        }
        Ok(programs)
    }

    fn tick(&mut self) -> Result<Vec<Sent>> {
        let programs = self.programs.tick()?;
        let native = self.native.tick()?;
        // what the kernel takes in and what it sends out are captured in any order
        for is_to_server in [false, true] {
            let way = |sent: &[Sent]| -> Vec<Vec<u8>> {
                sent.iter().filter(|s| s.is_to_server == is_to_server).map(|s| s.frame.clone()).collect()
            };
            let (programs, native) = (way(&programs), way(&native));
            for i in 0..programs.len().max(native.len()) {
                let [a, b] = [&programs, &native].map(|sent| sent.get(i).map(Vec::as_slice));
                same_bytes(&format!("packet {i} of a round of the clock"), a, b)?;
            }
        }
        self.rounds += 1;
        if !programs.is_empty() || self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            self.same_flows()?;
        }
        Ok(programs)
    }

    fn set_policy(&mut self, mode: Mode, controls_paced: bool) -> Result<()> {
        self.native.set_policy(mode, controls_paced)?;
        self.programs.set_policy(mode, controls_paced)
    }

    fn flows(&mut self) -> Result<usize> {
        let (programs, native) = (self.programs.flows()?, self.native.flows()?);
        if programs != native {
            let text = format!("the two homes differ: {programs} flows in the programs, {native} natively");
            return Err(Difference(text).into());
        }
        if programs == 0 {
            self.tuples.clear();
        }
        Ok(programs)
    }
}
