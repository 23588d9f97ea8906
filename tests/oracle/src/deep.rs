//! What single packets cost that are made to cost much: flows with all that the store keeps of one in flight, in records of one KiB.
//! A report, with nothing asserted: times are the machine's.

use crate::{
    dice::Dice,
    gate::{Account, Durations, Gate},
    ledger::Ledger,
    programs::{Programs, Setup},
    report::table,
    stream::Key,
    terms::Terms,
    wire::{Segment, TcpOptions, mapped},
};
use anyhow::Result;
use windlass_core::abi;

const SEGMENT_BYTES: i64 = 1024;
/// As much as eight flows can have in the store with room for what comes next.
const IN_FLIGHT_BYTES: i64 = (8 << 20) - 4 * abi::WL_CHUNK_BYTES as i64;
/// Of a client whose window is of no account.
const SHIFT: u8 = 14;
const PACKETS: u64 = 200_000;

struct Deep {
    gate: Gate,
    accounts: Vec<Account>,
    dice: Dice,
}

impl Deep {
    fn open(&mut self, number: usize) -> Result<()> {
        let mut terms = Terms { key: Key(number as u64), client_shift: Some(SHIFT), ..Terms::plain() };
        terms.tuple.server = mapped([192, 0, 2, 1]);
        terms.tuple.client = mapped([198, 51, 100, number as u8 + 1]);
        self.gate.name(terms.tuple, number);
        let mut account = Account::new(Ledger::new(terms));
        self.gate.client_sends(&mut account, &terms.syn(), terms.client_ts)?;
        self.gate.server_sends(&mut account, &terms.syn_ack(), terms.server_ts)?;
        self.accounts.push(account);
        self.client(number, "handshake", &[])?;
        for at in (0..IN_FLIGHT_BYTES).step_by(SEGMENT_BYTES as usize) {
            self.server(number, "server, next", at, SEGMENT_BYTES)?;
        }
        Ok(())
    }

    fn client(&mut self, number: usize, kind: &'static str, blocks: &[(i64, i64)]) -> Result<()> {
        let terms = self.accounts[number].ledger.terms;
        let blocks: Vec<_> = blocks.iter().map(|b| (terms.server_seq(b.0), terms.server_seq(b.1))).collect();
        let mut options = TcpOptions::default();
        options.sack(&blocks);
        let segment = Segment {
            seq: terms.client_seq(0),
            ack: terms.server_seq(0),
            window: u16::MAX,
            ..terms.segment(false, options)
        };
        self.gate.kind = Some(kind);
        self.gate.client_sends(&mut self.accounts[number], &segment, terms.client_ts).map(drop)
    }

    fn server(&mut self, number: usize, kind: &'static str, offset: i64, len: i64) -> Result<()> {
        let terms = self.accounts[number].ledger.terms;
        let segment = Segment {
            seq: terms.server_seq(offset),
            ack: terms.client_seq(0),
            offset,
            len: len as usize,
            ..terms.segment(true, TcpOptions::default())
        };
        self.gate.kind = Some(kind);
        self.gate.server_sends(&mut self.accounts[number], &segment, terms.server_ts).map(drop)
    }

    fn attack(&mut self) -> Result<()> {
        let number = self.dice.between(0, self.accounts.len() as i64 - 1) as usize;
        let end = self.accounts[number].ledger.sent_end;
        let at = self.dice.between(1, end - 2 * SEGMENT_BYTES);
        match self.dice.between(0, 9) {
            0..=2 => {
                let blocks = [(); 4].map(|()| {
                    let start = self.dice.between(1, end - SEGMENT_BYTES);
                    (start, (start + self.dice.magnitude(1, 1 << 20)).min(end))
                });
                self.client(number, "client, four SACK blocks", &blocks)
            }
            3 => self.client(number, "client, a DSACK", &[(at, at + 1), (1, end)]),
            4 => self.client(number, "client, a duplicate ACK", &[]),
            5 | 6 => {
                let len = self.dice.between(1, SEGMENT_BYTES);
                self.server(number, "server, once more", at, len)
            }
            7 => self.server(number, "server, the oldest once more", 0, SEGMENT_BYTES),
            8 => self.server(number, "server, short and next", end, 1),
            _ => self.server(number, "server, short and behind a hole", end + 2, 1),
        }
    }
}

/// A table of durations, with so many flows of 8 MiB in flight.
pub fn times_in_deep_flows(flows: usize) -> Result<String> {
    let setup = Setup {
        algorithm: "cubic".to_string(),
        flows_max: 64,
        store_bytes: 128 << 20,
        idle_timeout_s: 300,
        pace_by_fq: false,
        controls_paced: true,
    };
    let gate = Gate::new(Programs::attach(&setup)?, "deep flows");
    let mut deep = Deep { gate, accounts: Vec::new(), dice: Dice::new(1, 1) };
    deep.gate.durations = Some(Durations::new());
    for number in 0..flows {
        deep.open(number)?;
    }
    let mut sent = Vec::new();
    for number in 0..PACKETS {
        deep.attack()?;
        if number % 64 == 0 {
            deep.gate.kind = Some("clock");
            deep.gate.tick(&mut deep.accounts, &mut sent)?;
        }
    }
    Ok(table(&deep.gate.durations.take().unwrap_or_default()))
}
