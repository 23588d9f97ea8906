//! Packets in the names of a connection's ends that neither of them has sent. A blind forger knows addresses and ports and guesses
//! numbers; an insider knows the numbers, too, but what he sends gets no further than the box.

use crate::{
    dice::Dice,
    ledger::Ledger,
    wire::{ACK, Checksum, FIN, PSH, RST, SYN, Segment, TcpOptions, URG},
};

const MACS: [[u8; 6]; 3] = [[2, 0x66, 0, 0, 0, 1], [2, 0x77, 0, 0, 0, 2], [0xff; 6]];
/// How far near guesses are off, and how far those are that a box may take for the connection's.
const NEAR_BYTES: i64 = 1 << 17;
const FAR: [i64; 6] = [1 << 20, 5_000_000, 1 << 23, 1 << 29, 1 << 30, -(1 << 30)];

/// What the forger knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    Blind,
    Insider,
}

fn guess(right: u32, knowledge: Knowledge, dice: &mut Dice) -> u32 {
    match (knowledge, dice.between(0, 9)) {
        (Knowledge::Insider, 0..=5) => right,
        (_, 0..=2) => dice.bits(),
        (_, 3) => right.wrapping_add(dice.one_of(&FAR) as u32),
        (Knowledge::Insider, _) => right.wrapping_add(dice.between(0, 100_000) as u32),
        (Knowledge::Blind, 4..=7) => {
            right.wrapping_add(dice.one_of(&FAR) as u32).wrapping_add(dice.bits() & 0xffff)
        }
        (Knowledge::Blind, _) => right.wrapping_add(dice.between(-NEAR_BYTES, NEAR_BYTES) as u32),
    }
}

/// One forged packet.
pub fn forge(ledger: &Ledger, knowledge: Knowledge, dice: &mut Dice) -> Segment {
    let t = &ledger.terms;
    let is_from_server = dice.permille(500);
    let mut options = TcpOptions::default();
    let server_next = t.server_seq(ledger.sent_end);
    let client_next = t.client_seq(ledger.client_sent_end);
    let shown = t.server_seq(dice.between(ledger.shown_una, ledger.sent_end.max(ledger.shown_una)));
    // one number may be guessed right
    let half = dice.permille(200);
    let (mut seq, mut ack) = if is_from_server {
        (guess(server_next, knowledge, dice), guess(client_next, knowledge, dice))
    } else {
        (guess(client_next, knowledge, dice), guess(shown, knowledge, dice))
    };
    if half && knowledge == Knowledge::Blind {
        let (right_seq, right_ack) =
            if is_from_server { (server_next, client_next) } else { (client_next, shown) };
        // the other one is far off, so that the addressee would not take it
        if dice.permille(500) {
            (seq, ack) =
                (right_seq.wrapping_add(dice.between(0, 20_000) as u32), right_ack.wrapping_add(3 << 29));
        } else {
            (seq, ack) = (right_seq.wrapping_add(3 << 29), right_ack);
        }
    }
    let (flags, len) = match dice.between(0, 19) {
        0..=5 => (ACK, 0),
        6..=13 => (ACK | PSH, dice.between(1, i64::from(t.mss_bytes))),
        14 => (ACK | FIN, dice.between(0, 100)),
        15 => (RST | ACK, 0),
        16 => (RST, 0),
        17 if is_from_server => (SYN | ACK, 0),
        17 => (SYN, 0),
        18 => (ACK | URG, dice.between(1, 100)),
        _ => (dice.bits() as u8, dice.between(0, 64)),
    };
    if flags & SYN != 0 {
        options.push(&[2, 4, 5, 0xb4, 1, 3, 3, dice.between(0, 15) as u8]);
        if dice.permille(500) {
            options.push(&[4, 2]);
        }
    } else {
        if dice.permille(if t.has_timestamps { 700 } else { 50 }) {
            let near = if dice.permille(500) { dice.between(-1000, 100_000) as u32 } else { dice.bits() };
            let base = if is_from_server { t.server_ts } else { t.client_ts };
            options.timestamps(base.wrapping_add(near), dice.bits());
        }
        if !is_from_server && dice.permille(400) {
            let start = shown.wrapping_add(dice.between(0, 100_000) as u32);
            let blocks = [(start, start.wrapping_add(dice.between(1, 50_000) as u32)); 2];
            options.sack(&blocks[..dice.between(1, 2) as usize]);
        }
    }
    let true_macs = if is_from_server { [t.server_mac, t.client_mac] } else { [t.client_mac, t.server_mac] };
    let is_true = dice.permille(400);
    Segment {
        is_from_server,
        seq,
        ack,
        flags,
        window: if dice.permille(300) { t.server_window } else { dice.bits() as u16 },
        has_ae: false,
        urgent: (flags & URG != 0).into(),
        options,
        key: t.forger_key(),
        offset: if is_from_server { ledger.offset_of_server(seq) } else { 0 },
        len: len as usize,
        ttl: if is_true { t.ttl } else { dice.one_of(&[1, 64, 255]) },
        source_mac: if is_true { true_macs[0] } else { dice.one_of(&MACS) },
        destination_mac: if is_true { true_macs[1] } else { dice.one_of(&MACS) },
        checksum: if dice.permille(950) { Checksum::Full } else { Checksum::Damaged },
        gso_bytes: 0,
    }
}
