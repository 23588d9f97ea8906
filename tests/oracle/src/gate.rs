//! Where packets are given to the datapath, and all that comes out is judged.

use crate::{
    ledger::{Check, Fault, Ledger},
    programs::{Programs, Verdict},
    wire::{Parsed, SYN, Segment, Tuple},
};
use anyhow::Result;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt, thread,
    time::{Duration, Instant},
};

/// Only lest a failing run wait for ever.
const CAPTURE_LIMIT: Duration = Duration::from_secs(10);
/// Packets of one connection that are kept for reports.
const HISTORY: usize = 40;
/// Of a packet with wrong bytes, in reports.
const FIRST_BYTES: usize = 32;
/// Faults of one kind that are reported in full.
const FULL_OF_KIND: usize = 2;

/// One packet, for reports. Numbers are offsets in the two streams.
#[derive(Clone, Debug)]
struct Event {
    number: u64,
    at_us: u64,
    what: &'static str,
    seq: u32,
    ack: u32,
    len: usize,
    flags: u8,
    window: u16,
    verdict: Option<Verdict>,
    /// Acknowledgement and window that a server was shown.
    shown: Option<(u32, u16)>,
    /// Counters that it raised, where that is requested.
    counted: String,
}

/// The last packets of one connection.
#[derive(Clone, Debug, Default)]
pub struct History(VecDeque<Event>);

impl History {
    fn add(&mut self, event: Event) {
        if self.0.len() == HISTORY {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    fn lines(&self, ledger: &Ledger) -> String {
        let line = |e: &Event| {
            let is_from_server = e.what.contains("server");
            let (seq_base, ack_base) = if is_from_server {
                (ledger.terms.server_seq(0), ledger.terms.client_seq(0))
            } else {
                (ledger.terms.client_seq(0), ledger.terms.server_seq(0))
            };
            format!(
                "    {:>9} {:>11} us {:<22} seq {:>8} len {:>5} ack {:>8} win {:>5} flags {:#04x} {}{}\n",
                e.number,
                e.at_us,
                e.what,
                e.seq.wrapping_sub(seq_base) as i32,
                e.len,
                e.ack.wrapping_sub(ack_base) as i32,
                e.window,
                e.flags,
                match (e.verdict, e.shown) {
                    (Some(Verdict::Pass), Some((ack, window))) => {
                        format!("Pass as ack {} win {window}", ack.wrapping_sub(ack_base) as i32)
                    }
                    (Some(verdict), _) => format!("{verdict:?}"),
                    (None, _) => String::new(),
                },
                e.counted,
            )
        };
        self.0.iter().map(line).collect()
    }
}

/// The faults found in one run.
#[derive(Debug, Default)]
pub struct Findings {
    /// How many of each kind, and the first ones in full.
    kinds: BTreeMap<&'static str, (u64, Vec<String>)>,
}

impl Findings {
    /// Adds a fault.
    pub fn add(&mut self, kind: &'static str, text: String) {
        let (count, full) = self.kinds.entry(kind).or_default();
        *count += 1;
        if full.len() < FULL_OF_KIND {
            full.push(text);
        }
    }

    /// Adds those of another run.
    pub fn merge(&mut self, other: Findings) {
        for (kind, (count, full)) in other.kinds {
            let mine = self.kinds.entry(kind).or_default();
            mine.0 += count;
            mine.1.extend(full);
            mine.1.truncate(FULL_OF_KIND);
        }
    }

    /// Was none found?
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The kinds that were found.
    pub fn kinds(&self) -> Vec<&'static str> {
        self.kinds.keys().copied().collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, (count, full)) in &self.kinds {
            writeln!(f, "{kind}: {count} times")?;
            for text in full {
                writeln!(f, "  {text}")?;
            }
        }
        Ok(())
    }
}

/// A connection as the gate knows it.
#[derive(Debug)]
pub struct Account {
    pub ledger: Ledger,
    pub history: History,
    /// A fault was found: no more are looked for.
    pub is_condemned: bool,
}

impl Account {
    pub fn new(ledger: Ledger) -> Account {
        Account { ledger, history: History::default(), is_condemned: false }
    }
}

/// What the datapath has sent by itself.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Which connection's, as it was named to [`Gate::name`].
    pub account: usize,
    pub is_to_server: bool,
    pub seq: u32,
    pub len: usize,
    pub flags: u8,
    pub tsval: Option<u32>,
}

/// How long programs took at packets of one kind.
pub type Durations = BTreeMap<&'static str, Vec<u32>>;

/// The datapath, and the judge of what it does.
pub struct Gate {
    pub programs: Programs,
    pub findings: Findings,
    /// Packets given to the programs; the clock's are not counted.
    pub packets: u64,
    pub ticks: u64,
    /// What the programs' counters must have been raised to.
    packets_from_server: u64,
    sent_by_box: u64,
    pub durations: Option<Durations>,
    /// All counters after the last packet, if reports are to name those that each packet has raised.
    pub counters: Option<BTreeMap<String, u64>>,
    /// Kind under which these are kept, in place of what the packet is.
    pub kind: Option<&'static str>,
    /// What names the run in reports.
    label: String,
    names: HashMap<Tuple, usize>,
    frame: Vec<u8>,
    now_us: u64,
}

impl Gate {
    pub fn new(programs: Programs, label: &str) -> Gate {
        Gate {
            programs,
            findings: Findings::default(),
            packets: 0,
            ticks: 0,
            packets_from_server: 0,
            sent_by_box: 0,
            durations: None,
            counters: None,
            kind: None,
            label: label.to_string(),
            names: HashMap::new(),
            frame: Vec::new(),
            now_us: 0,
        }
    }

    /// What is sent in that name is of connection `account`.
    pub fn name(&mut self, tuple: Tuple, account: usize) {
        self.names.insert(tuple, account);
    }

    pub fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    fn judge(&mut self, account: &mut Account, check: Check) {
        let Err(fault) = check else { return };
        self.condemn(account, fault);
    }

    /// Keeps a fault of that connection.
    pub fn condemn(&mut self, account: &mut Account, fault: Fault) {
        if account.is_condemned {
            return;
        }
        account.is_condemned = true;
        let insider = if account.ledger.is_insiders { " (a forger was near)" } else { "" };
        let text = format!(
            "{}, packet {}{insider}: {}\n  {:x?}\n{}",
            self.label,
            self.packets,
            fault.detail,
            account.ledger.terms,
            account.history.lines(&account.ledger)
        );
        self.findings.add(fault.kind, text);
    }

    fn time(&mut self, what: &'static str) {
        if let Some(durations) = &mut self.durations {
            durations.entry(self.kind.unwrap_or(what)).or_default().push(self.programs.duration_ns);
        }
    }

    fn run(&mut self, account: &mut Account, segment: &Segment, what: &'static str) -> Result<Verdict> {
        segment.write(&account.ledger.terms.tuple, &mut self.frame);
        let verdict = self.programs.run(segment.is_from_server, &self.frame, segment.gso_bytes)?;
        self.packets += 1;
        self.packets_from_server += u64::from(segment.is_from_server);
        self.time(what);
        let shown = if segment.is_from_server { None } else { Parsed::of(&self.programs.out) };
        account.history.add(Event {
            shown: shown.map(|p| (p.ack, p.window)),
            number: self.packets,
            at_us: self.now_us,
            what,
            seq: segment.seq,
            ack: segment.ack,
            len: segment.len,
            flags: segment.flags,
            window: segment.window,
            verdict: Some(verdict),
            counted: self.counted()?,
        });
        Ok(verdict)
    }

    /// What the last packet raised; empty unless it is requested, as reading all counters takes longer than the packet.
    fn counted(&mut self) -> Result<String> {
        let Some(before) = &mut self.counters else { return Ok(String::new()) };
        let now = self.programs.counters()?;
        let raised = |(name, count): (&String, &u64)| {
            let is_more = *count > before.get(name).copied().unwrap_or(0);
            is_more.then(|| format!(" {name}"))
        };
        let text = now.iter().filter_map(raised).collect();
        *before = now;
        Ok(text)
    }

    /// A packet of the server itself. `tsval`: of its timestamp, or its clock's first.
    pub fn server_sends(&mut self, account: &mut Account, segment: &Segment, tsval: u32) -> Result<Verdict> {
        account.ledger.note_from_server(segment, tsval);
        let what = if segment.len > 0 { "server" } else { "server, no data" };
        let verdict = self.run(account, segment, what)?;
        let check =
            account.ledger.check_from_server(segment, false, verdict, &self.frame, &self.programs.out);
        self.judge(account, check);
        Ok(verdict)
    }

    /// A packet of the client itself.
    pub fn client_sends(&mut self, account: &mut Account, segment: &Segment, tsval: u32) -> Result<Verdict> {
        account.ledger.note_from_client(segment, tsval);
        let what = if segment.len > 0 { "client, data" } else { "client" };
        let verdict = self.run(account, segment, what)?;
        if !account.is_condemned && segment.flags & SYN == 0 {
            let check = account.ledger.check_to_server(segment, verdict, &self.programs.out);
            self.judge(account, check);
        }
        Ok(verdict)
    }

    /// A forger's packet, which neither end gets.
    pub fn forged(&mut self, account: &mut Account, segment: &Segment) -> Result<Verdict> {
        account.ledger.note_forged(segment);
        let what = if segment.is_from_server { "forged as server" } else { "forged as client" };
        let verdict = self.run(account, segment, what)?;
        if segment.is_from_server {
            let check =
                account.ledger.check_from_server(segment, true, verdict, &self.frame, &self.programs.out);
            self.judge(account, check);
        }
        Ok(verdict)
    }

    /// One round of the clock. `sent`: what the datapath has sent meanwhile.
    pub fn tick(&mut self, accounts: &mut [Account], sent: &mut Vec<Sent>) -> Result<()> {
        self.programs.tick()?;
        self.ticks += 1;
        self.time("clock");
        self.collect(accounts, sent)
    }

    /// Judges what the datapath has sent.
    fn collect(&mut self, accounts: &mut [Account], sent: &mut Vec<Sent>) -> Result<()> {
        let mut faults = Vec::new();
        sent.clear();
        while let Some((frame, is_to_server)) = self.programs.next_sent() {
            self.sent_by_box += 1;
            let Some(parsed) = Parsed::of(frame) else {
                self.findings.add("a frame of the box that is no TCP", format!("{frame:02x?}"));
                continue;
            };
            let parsed = if is_to_server { parsed.turned() } else { parsed };
            let Some(index) = self.names.get(&parsed.tuple).copied() else {
                self.findings.add("a frame of the box for no connection", format!("{parsed:x?}"));
                continue;
            };
            let account = &mut accounts[index];
            account.history.add(Event {
                number: self.packets,
                at_us: self.now_us,
                what: if is_to_server { "box, as the client" } else { "box, as the server" },
                seq: parsed.seq,
                ack: parsed.ack,
                len: parsed.payload.len(),
                flags: parsed.flags,
                window: parsed.window,
                verdict: None,
                shown: None,
                counted: String::new(),
            });
            sent.push(Sent {
                account: index,
                is_to_server,
                seq: parsed.seq,
                len: parsed.payload.len(),
                flags: parsed.flags,
                tsval: parsed.timestamps().map(|t| t.0),
            });
            if account.is_condemned {
                continue;
            }
            let check = if is_to_server {
                account.ledger.check_update(&parsed)
            } else {
                account.ledger.check_repair(&parsed)
            };
            if let Err(mut fault) = check {
                let first = &parsed.payload[..parsed.payload.len().min(FIRST_BYTES)];
                fault.detail.push_str(&format!("; begins with {first:02x?}"));
                faults.push((index, fault));
            }
        }
        for (index, fault) in faults {
            self.condemn(&mut accounts[index], fault);
        }
        Ok(())
    }

    /// Waits until all that the datapath counts as sent is captured: the kernel may hand it over a little later. `sent`: as of
    /// [`Gate::tick`].
    pub fn settle(&mut self, accounts: &mut [Account], sent: &mut Vec<Sent>) -> Result<()> {
        let began = Instant::now();
        let mut all = Vec::new();
        loop {
            self.collect(accounts, sent)?;
            all.append(sent);
            let counters = self.programs.counters()?;
            let is_all = counters["repaired_segs"] + counters["window_updates"] <= self.sent_by_box;
            if is_all || began.elapsed() > CAPTURE_LIMIT {
                *sent = all;
                return Ok(());
            }
            thread::yield_now();
        }
    }

    /// All that the datapath counts as sent was captured, all that it was given was counted once, and it had no error.
    pub fn check_counters(&mut self, accounts: &mut [Account]) -> Result<()> {
        self.settle(accounts, &mut Vec::new())?;
        let counters = self.programs.counters()?;
        let sent = counters["repaired_segs"] + counters["window_updates"];
        if sent != self.sent_by_box {
            let dropped = self.programs.dropped_by_capture();
            let text =
                format!("{}: {} captured, {dropped} dropped, {sent} sent", self.label, self.sent_by_box);
            self.findings.add("frames of the box lost by the capture", text);
        }
        let given = counters["packets_from_sender"];
        if given != self.packets_from_server {
            let text = format!("{}: {} given, {given} counted", self.label, self.packets_from_server);
            self.findings.add("packets of servers counted wrongly", text);
        }
        if counters["pass_internal"] + counters["state_illegal"] > 0 {
            let text = format!("{}: {counters:?}", self.label);
            self.findings.add("internal errors", text);
        }
        Ok(())
    }
}
