//! Packet scripts: attacks and accidents that were found, kept as text and judged like everything else. A line is one step; what
//! stands behind a `#` is for readers. Numbers of streams are offsets from their first byte.
//!
//! ```text
//! setup ALGORITHM flows N store-kib N
//! connection NAME server N client N ports N N isns N N window N    # N: its field, in units of 128 bytes
//! open NAME                             # with a round trip of some milliseconds
//! server NAME OFFSET LEN [urgent]       # data, in segments of at most 1460 bytes
//! server NAME OFFSET LEN passes         # the same, of which the box must absorb none
//! server NAME reset
//! client NAME ACK [sack START END]...
//! forged-server NAME OFFSET LEN acks N  # N: how far its acknowledgement is from the right one
//! forged-client NAME ACK seqs N         # N: how far its sequence number is from the right one
//! ... disguised                         # the same from the right addresses, with the right TTL
//! clock MS                              # rounds of the clock for so long
//! repeat N STEP LINE                    # the line N times, its first offset further by STEP each time
//! ```

use crate::{
    gate::{Account, Findings, Gate},
    ledger::{Fault, Ledger, NOT_HANDED_BACK},
    programs::{Programs, Setup, Verdict},
    stream::Key,
    terms::Terms,
    wire::{RST, Segment, TcpOptions, Tuple, URG, mapped},
};
use anyhow::{Context, Result, bail};
use std::{collections::HashMap, time::Instant};

const ROUND_TRIP_MS: u64 = 20;
const DISGUISED: &str = "disguised";
const FORGER_MAC: [u8; 6] = [2, 0x77, 0, 0, 0, 1];

struct Script {
    gate: Gate,
    accounts: Vec<Account>,
    names: HashMap<String, usize>,
    /// Of the clients, by connection.
    windows: Vec<u16>,
    began: Instant,
}

fn number(words: &[&str], at: usize) -> Result<i64> {
    let word = words.get(at).with_context(|| format!("a number is missing: {words:?}"))?;
    let value = match word.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    value.with_context(|| format!("{word}: no number"))
}

fn setup(words: &[&str]) -> Result<Setup> {
    let [_, algorithm, "flows", _, "store-kib", _] = words else { bail!("setup: {words:?}") };
    Ok(Setup {
        algorithm: (*algorithm).to_string(),
        flows_max: number(words, 3)? as u32,
        store_bytes: (number(words, 5)? as u64) << 10,
        idle_timeout_s: 300,
        pace_by_fq: false,
        controls_paced: true,
    })
}

impl Script {
    fn connection(&mut self, words: &[&str]) -> Result<()> {
        let [_, name, "server", _, "client", _, "ports", _, _, "isns", _, _, "window", _] = words else {
            bail!("connection: {words:?}")
        };
        let (server, client) = (number(words, 3)? as u8, number(words, 5)? as u8);
        let terms = Terms {
            tuple: Tuple {
                server: mapped([192, 0, 2, server]),
                client: mapped([198, 51, 100, client]),
                server_port: number(words, 7)? as u16,
                client_port: number(words, 8)? as u16,
            },
            key: Key(0x5eed).variant(self.accounts.len() as u64 + 1000),
            server_isn: number(words, 10)? as u32,
            client_isn: number(words, 11)? as u32,
            server_mac: [2, 0, 0, 0, 1, server],
            client_mac: [2, 0, 0, 0, 2, client],
            ..Terms::plain()
        };
        self.windows.push(number(words, 13)? as u16);
        self.names.insert((*name).to_string(), self.accounts.len());
        self.accounts.push(Account::new(Ledger::new(terms)));
        Ok(())
    }

    fn index(&self, words: &[&str]) -> Result<usize> {
        let name = words.get(1).with_context(|| format!("whose is it? {words:?}"))?;
        self.names.get(*name).copied().with_context(|| format!("{name}: no such connection"))
    }

    fn open(&mut self, words: &[&str]) -> Result<()> {
        let index = self.index(words)?;
        let terms = self.accounts[index].ledger.terms;
        self.gate.name(terms.tuple, index);
        self.gate.client_sends(&mut self.accounts[index], &terms.syn(), terms.client_ts)?;
        self.gate.server_sends(&mut self.accounts[index], &terms.syn_ack(), terms.server_ts)?;
        self.clock(ROUND_TRIP_MS)?;
        self.client(&["client", words[1], "0"])
    }

    fn of_server(&self, index: usize, offset: i64) -> Segment {
        let ledger = &self.accounts[index].ledger;
        Segment {
            seq: ledger.terms.server_seq(offset),
            ack: ledger.terms.client_seq(ledger.client_sent_end),
            offset,
            ..ledger.terms.segment(true, TcpOptions::default())
        }
    }

    fn server(&mut self, words: &[&str]) -> Result<()> {
        let index = self.index(words)?;
        let account = &self.accounts[index];
        let tsval = account.ledger.terms.server_ts;
        if words.get(2) == Some(&"reset") {
            let mut segment = self.of_server(index, account.ledger.sent_end);
            segment.flags |= RST;
            return self.gate.server_sends(&mut self.accounts[index], &segment, tsval).map(drop);
        }
        let (from, len) = (number(words, 2)?, number(words, 3)?);
        let mss = i64::from(account.ledger.terms.mss_bytes);
        let mut at = from;
        while at < from + len {
            let mut segment = self.of_server(index, at);
            segment.len = mss.min(from + len - at) as usize;
            if words.get(4) == Some(&"urgent") {
                segment.flags |= URG;
                segment.urgent = 1;
            }
            let verdict = self.gate.server_sends(&mut self.accounts[index], &segment, tsval)?;
            if words.get(4) == Some(&"passes") && verdict == Verdict::Drop {
                let detail = format!("[{at}, {}) absorbed once more", at + segment.len as i64);
                let fault = Fault { kind: NOT_HANDED_BACK, detail };
                self.gate.condemn(&mut self.accounts[index], fault);
            }
            at += mss;
        }
        Ok(())
    }

    fn client(&mut self, words: &[&str]) -> Result<()> {
        let index = self.index(words)?;
        let terms = self.accounts[index].ledger.terms;
        let mut blocks = Vec::new();
        for at in (3..words.len()).step_by(3) {
            let [start, end] = [number(words, at + 1)?, number(words, at + 2)?];
            blocks.push((terms.server_seq(start), terms.server_seq(end)));
        }
        let mut options = TcpOptions::default();
        options.sack(&blocks);
        let segment = Segment {
            seq: terms.client_seq(0),
            ack: terms.server_seq(number(words, 2)?),
            window: self.windows[index],
            ..terms.segment(false, options)
        };
        self.gate.client_sends(&mut self.accounts[index], &segment, terms.client_ts).map(drop)
    }

    fn forged_server(&mut self, words: &[&str]) -> Result<()> {
        let index = self.index(words)?;
        let offset = number(words, 2)?;
        let mut segment = self.of_server(index, offset);
        segment.key = self.accounts[index].ledger.terms.forger_key();
        segment.len = number(words, 3)? as usize;
        segment.ack = segment.ack.wrapping_add(number(words, 5)? as u32);
        if words.last() != Some(&DISGUISED) {
            segment.ttl = 1;
            segment.source_mac = FORGER_MAC;
            segment.destination_mac = FORGER_MAC;
        }
        self.gate.forged(&mut self.accounts[index], &segment).map(drop)
    }

    fn forged_client(&mut self, words: &[&str]) -> Result<()> {
        let index = self.index(words)?;
        let terms = self.accounts[index].ledger.terms;
        let mut segment = Segment {
            seq: terms.client_seq(number(words, 4)?),
            ack: terms.server_seq(number(words, 2)?),
            window: self.windows[index],
            ..terms.segment(false, TcpOptions::default())
        };
        if words.last() != Some(&DISGUISED) {
            segment.source_mac = FORGER_MAC;
        }
        self.gate.forged(&mut self.accounts[index], &segment).map(drop)
    }

    fn clock(&mut self, ms: u64) -> Result<()> {
        let until = Instant::now() + std::time::Duration::from_millis(ms);
        let mut sent = Vec::new();
        while Instant::now() < until {
            self.gate.set_now(self.began.elapsed().as_micros() as u64);
            self.gate.tick(&mut self.accounts, &mut sent)?;
        }
        Ok(())
    }

    fn step(&mut self, words: &[&str]) -> Result<()> {
        match words[0] {
            "connection" => self.connection(words),
            "open" => self.open(words),
            "server" => self.server(words),
            "client" => self.client(words),
            "forged-server" => self.forged_server(words),
            "forged-client" => self.forged_client(words),
            "clock" => self.clock(number(words, 1)? as u64),
            "repeat" => self.repeat(words),
            other => bail!("{other}: no such step"),
        }
    }

    fn repeat(&mut self, words: &[&str]) -> Result<()> {
        let (times, step) = (number(words, 1)?, number(words, 2)?);
        for i in 0..times {
            let offset = (number(words, 5)? + i * step).to_string();
            let mut line = words[3..].to_vec();
            line[2] = &offset;
            self.step(&line)?;
        }
        Ok(())
    }
}

/// Runs a script; `name` is for reports. The oracle's findings are the result.
pub fn run_script(name: &str, text: &str) -> Result<Findings> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut script: Option<Script> = None;
    for (at, line) in lines.enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let step = match (&mut script, words.first()) {
            (_, None) => Ok(()),
            (None, Some(&"setup")) => {
                let gate = Gate::new(Programs::attach(&setup(&words)?)?, name);
                script = Some(Script {
                    gate,
                    accounts: Vec::new(),
                    names: HashMap::new(),
                    windows: Vec::new(),
                    began: Instant::now(),
                });
                Ok(())
            }
            (None, Some(_)) => Err(anyhow::anyhow!("a script begins with its setup")),
            (Some(script), Some(_)) => script.step(&words),
        };
        step.with_context(|| format!("{name}, line {}", at + 1))?;
    }
    let mut script = script.with_context(|| format!("{name}: nothing to do"))?;
    script.gate.check_counters(&mut script.accounts)?;
    Ok(script.gate.findings)
}
