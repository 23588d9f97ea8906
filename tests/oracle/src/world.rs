//! Many connections at once through one datapath: servers, clients and forgers by the dice of one run.

use crate::{
    client::{CLIENT_KINDS, ClientKind},
    dice::Dice,
    forger::{Knowledge, forge},
    gate::{Account, Durations, Gate, Sent},
    peer::{Path, Peer, account},
    programs::{Programs, Setup},
    report::{Report, Run},
    server::{SERVER_KINDS, ServerKind},
    stream::Key,
    terms::Terms,
    wire::{Tuple, mapped},
};
use anyhow::Result;
use std::{thread, time::Instant};

const ALGORITHMS: [&str; 4] = ["reno", "cubic", "bbr", "bbr3"];
/// Between rounds of the clock, which is 2000 times a second elsewhere.
const TICK_US: u64 = 400;
/// A turn that took longer than this was not the datapath's: the machine was busy with something else.
const PAUSE_US: u64 = 50_000;
const PACKETS_OF_SLOT: u64 = 5_000;
const PACKETS_MAX: u64 = 1_000_000;
/// The longest delay of a path, for each of so many connections: with few of them the datapath would rest.
const DELAY_OF_SLOT_US: i64 = 100;
/// For how long connections may go on when no new ones are opened.
const DRAIN_US: u64 = 3_000_000;
const LONGEST_DRAIN_US: u64 = 60_000_000;

struct World {
    gate: Gate,
    accounts: Vec<Account>,
    peers: Vec<Option<Peer>>,
    dice: Dice,
    began: Instant,
    /// Time that passed for the connections: without what the machine was busy with something else.
    now_us: u64,
    raw_us: u64,
    tick_at_us: u64,
    connections: u64,
    insiders: u64,
    forged_permille: u32,
    hostile_permille: u32,
    is_honest_path: bool,
    longest_delay_us: i64,
}

fn setup_of(dice: &mut Dice, number: u64) -> Setup {
    // small ones, whose chunks and entries are used again all the time, and now and then what attach makes by itself
    let (flows_max, store_bytes) = match number % 8 {
        0 | 1 => (64, 1 << 20),
        2 | 3 => (48, 4 << 20),
        4 | 5 => (256, 16 << 20),
        6 => (16, 256 << 10),
        _ => (32_768, 256 << 20),
    };
    Setup {
        algorithm: ALGORITHMS[(number as usize / 2) % ALGORITHMS.len()].to_string(),
        flows_max,
        store_bytes,
        idle_timeout_s: 2,
        pace_by_fq: dice.permille(150),
        controls_paced: true,
    }
}

fn slots_of(setup: &Setup, dice: &mut Dice) -> usize {
    (dice.between(i64::from(setup.flows_max) / 2, i64::from(setup.flows_max) * 5 / 4) as usize).min(300)
}

/// Packets of a run until no new connections are opened: fewer of few connections, which mostly wait.
pub fn planned_packets(run: &Run) -> u64 {
    let mut dice = Dice::new(run.seed, run.number);
    let setup = setup_of(&mut dice, run.number);
    (slots_of(&setup, &mut dice) as u64 * PACKETS_OF_SLOT).min(PACKETS_MAX)
}

impl World {
    fn tuple(index: usize, is_ipv6: bool) -> Tuple {
        let (server, client) = ((index % 7) as u8 + 1, (index / 7) as u8 + 1);
        let (server, client) = if is_ipv6 {
            let mut addresses = [[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, server]; 2];
            addresses[1][7] = 1;
            addresses[1][15] = client;
            (addresses[0], addresses[1])
        } else {
            (mapped([192, 0, 2, server]), mapped([198, 51, 100, client]))
        };
        Tuple { server, client, server_port: 80, client_port: 40_000 + (index % 5) as u16 }
    }

    fn terms(&mut self, index: usize) -> Terms {
        let dice = &mut self.dice;
        let before = self.accounts.get(index).map(|a| a.ledger.terms);
        let edge_of_space = |dice: &mut Dice| match dice.between(0, 3) {
            0 => u32::MAX.wrapping_sub(dice.magnitude(1, 1 << 20) as u32),
            1 => (1u32 << 31).wrapping_sub(dice.magnitude(1, 1 << 20) as u32),
            _ => dice.bits(),
        };
        let mut server_isn = edge_of_space(dice);
        let mut client_isn = edge_of_space(dice);
        if let Some(before) = before.filter(|_| dice.permille(300)) {
            // the same would be a retransmission
            server_isn = before.server_isn.wrapping_add(dice.magnitude(1, 1 << 22) as u32);
            client_isn = before.client_isn.wrapping_add(dice.magnitude(1, 1 << 16) as u32);
        }
        let has_ecn = dice.permille(150);
        let shift = |dice: &mut Dice| dice.permille(850).then(|| dice.between(0, 14) as u8);
        Terms {
            tuple: Self::tuple(index, index % 4 == 3),
            key: Key(dice.long_bits()),
            server_isn,
            client_isn,
            server_mac: [2, 0, 0, 0, 1, (index % 7) as u8],
            client_mac: [2, 0, 0, 0, 2, (index / 7) as u8],
            ttl: dice.one_of(&[64, 63, 128, 255, 30]),
            mss_bytes: dice.one_of(&[1460, 1460, 1460, 536, 1220, 3000, 88]),
            client_shift: shift(dice),
            server_shift: shift(dice),
            has_timestamps: dice.permille(600),
            has_sack: dice.permille(800),
            has_ecn,
            server_window: dice.magnitude(500, 65535) as u16,
            // whether a changed flag is in a sum that is not complete cannot be checked
            has_sums: has_ecn || dice.permille(400),
            server_ts: dice.bits() | 1,
            client_ts: dice.bits() | 1,
            server_changes: false,
            client_shrinks: false,
        }
    }

    fn known(&self) -> Vec<i64> {
        self.accounts.iter().map(|a| a.ledger.shown_una).collect()
    }

    fn open(&mut self, index: usize) -> Result<()> {
        if index < self.accounts.len() {
            // what was sent for the connection before is not of this one
            let (known, mut sent) = (self.known(), Vec::new());
            self.gate.settle(&mut self.accounts, &mut sent)?;
            self.deliver(&sent, &known);
        }
        let mut terms = self.terms(index);
        let kinds = if self.dice.permille(self.hostile_permille) {
            (self.dice.one_of(&SERVER_KINDS), self.dice.one_of(&CLIENT_KINDS))
        } else {
            (
                ServerKind::Honest,
                self.dice.one_of(&[ClientKind::Honest, ClientKind::Honest, ClientKind::SlowReader]),
            )
        };
        terms.server_changes = kinds.0 == ServerKind::ChangesBytes;
        terms.client_shrinks = kinds.1 == ClientKind::Shrinks;
        let path = Path {
            delay_us: self.dice.magnitude(100, self.longest_delay_us) as u64,
            loss_permille: self.dice.one_of(&[0, 1, 5, 20, 50]),
            reorder_permille: if self.is_honest_path { 0 } else { self.dice.one_of(&[0, 0, 10, 100]) },
            damage_permille: self.dice.one_of(&[0, 0, 5]),
            has_outages: self.dice.permille(200),
        };
        let mut account = account(terms);
        let peer = Peer::open(&mut self.gate, &mut account, kinds, path, self.now_us, &mut self.dice)?;
        self.gate.name(terms.tuple, index);
        self.connections += 1;
        if index < self.accounts.len() {
            self.insiders += u64::from(self.accounts[index].ledger.is_insiders);
            self.accounts[index] = account;
            self.peers[index] = Some(peer);
        } else {
            self.accounts.push(account);
            self.peers.push(Some(peer));
        }
        Ok(())
    }

    fn clock(&mut self) {
        let raw_us = self.began.elapsed().as_micros() as u64;
        let passed_us = raw_us - self.raw_us;
        self.raw_us = raw_us;
        self.now_us += passed_us.min(PAUSE_US);
        self.gate.set_now(self.now_us);
    }

    fn turn(&mut self, index: usize, opens: bool) -> Result<()> {
        self.clock();
        if self.now_us >= self.tick_at_us {
            self.tick()?;
        }
        let Some(peer) = &mut self.peers[index] else {
            return if opens { self.open(index) } else { Ok(()) };
        };
        peer.step(&mut self.gate, &mut self.accounts[index], self.now_us, &mut self.dice)?;
        peer.check_progress(&mut self.gate, &mut self.accounts[index], self.now_us);
        if peer.is_over() {
            self.peers[index] = None;
        }
        if self.dice.permille(self.forged_permille) {
            // a forger keeps to some connections, which insiders and guesses do not spoil for all others
            let knowledge = match index % 8 {
                0 => Knowledge::Insider,
                1..=4 => Knowledge::Blind,
                _ => return Ok(()),
            };
            for _ in 0..self.dice.between(1, 4) {
                let segment = forge(&self.accounts[index].ledger, knowledge, &mut self.dice);
                self.gate.forged(&mut self.accounts[index], &segment)?;
            }
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        self.tick_at_us = self.now_us + TICK_US;
        let known = self.known();
        let mut sent = Vec::new();
        self.gate.tick(&mut self.accounts, &mut sent)?;
        self.deliver(&sent, &known);
        Ok(())
    }

    /// What the datapath has sent reaches the ends of connections. `known`: what servers knew to be acknowledged before.
    fn deliver(&mut self, sent: &[Sent], known: &[i64]) {
        for one in sent {
            if let Some(peer) = &mut self.peers[one.account] {
                let account = &self.accounts[one.account];
                peer.on_sent(one, account, known[one.account], self.now_us, &mut self.dice);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.peers.iter().all(Option::is_none)
    }

    /// Lets all connections end, then sees that nothing of them is left.
    fn drain(&mut self) -> Result<()> {
        let began_us = self.now_us;
        while !self.is_idle() && self.now_us - began_us < DRAIN_US {
            for index in 0..self.peers.len() {
                self.turn(index, false)?;
            }
        }
        for index in 0..self.peers.len() {
            if let Some(mut peer) = self.peers[index].take() {
                peer.reset(&mut self.gate, &mut self.accounts[index], self.now_us)?;
            }
        }
        // what the box has not seen the end of it forgets after a silence
        let began = Instant::now();
        while self.gate.programs.flows()? > 0 && began.elapsed().as_micros() < LONGEST_DRAIN_US.into() {
            for _ in 0..1000 {
                self.clock();
                self.tick()?;
            }
        }
        self.gate.check_counters(&mut self.accounts)?;
        if let Err(why) = self.gate.programs.check_all_is_free() {
            self.gate.findings.add("not all is free at the end", why.to_string());
        }
        Ok(())
    }
}

/// Runs one world to its end.
pub fn run(run: &Run, has_times: bool, has_counted: bool) -> Result<Report> {
    let mut dice = Dice::new(run.seed, run.number);
    let setup = setup_of(&mut dice, run.number);
    let slots = slots_of(&setup, &mut dice);
    let packets = planned_packets(run);
    let label = format!("seed {} run {} ({setup:?})", run.seed, run.number);
    let mut gate = Gate::new(Programs::attach(&setup)?, &label);
    gate.durations = has_times.then(Durations::new);
    gate.counters = has_counted.then(Default::default);
    let mut world = World {
        gate,
        accounts: Vec::new(),
        peers: Vec::new(),
        forged_permille: dice.one_of(&[0, 50, 200]),
        hostile_permille: dice.one_of(&[0, 300, 800]),
        is_honest_path: dice.permille(300),
        longest_delay_us: slots as i64 * DELAY_OF_SLOT_US,
        dice,
        began: Instant::now(),
        now_us: 0,
        raw_us: 0,
        tick_at_us: 0,
        connections: 0,
        insiders: 0,
    };
    for index in 0..slots {
        world.open(index)?;
    }
    while world.gate.packets < packets {
        let before = world.gate.packets;
        for index in 0..slots {
            world.turn(index, true)?;
        }
        if world.gate.packets == before {
            // all wait: another world's turn
            thread::yield_now();
        }
    }
    let busy_us = world.raw_us;
    world.drain()?;
    let counters = world.gate.programs.counters()?;
    Ok(Report {
        packets: world.gate.packets,
        connections: world.connections,
        repairs: counters["repaired_segs"],
        updates: counters["window_updates"],
        ticks: world.gate.ticks,
        insiders: world.insiders,
        busy_us,
        durations: world.gate.durations.take().unwrap_or_default(),
        findings: world.gate.findings,
    })
}
