//! Segments in the name of one end of other hosts' connections, whose addresses and ports are known and whose sequence numbers are
//! not: each sweep covers all of them, in steps of less than a window.

use super::{
    Control, Stage, Tally,
    clients::Pace,
    frame::{ACK, PSH, RST, SYN, Segment, TTL, sack},
    socket::PacketSocket,
};
use anyhow::Result;
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::{
    net::SocketAddrV4,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

/// From one number of a sweep to the next: 4 MiB, half of what a box stores of one flow.
const STEP: u32 = 1 << 22;
const STEPS: u64 = 1 << (32 - STEP.trailing_zeros());
const SEGMENTS_PS: u64 = 20_000;
const PAYLOAD: [u8; 536] = [0x66; 536];
const PAUSE: Duration = Duration::from_micros(500);
const RAMP_UP: Duration = Duration::from_millis(200);

/// What is forged, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// With the lowest hop limit that arrives at a box, and a window of its own.
    Ack,
    Data,
    Reset,
    Sack,
    Syn,
    SynAck,
}

const KINDS: [Kind; 6] = [Kind::Ack, Kind::Data, Kind::Reset, Kind::Sack, Kind::Syn, Kind::SynAck];

/// The segment of that number; what is not swept is chosen at random.
struct Forger {
    random: Xoshiro256PlusPlus,
    options: Vec<u8>,
}

impl Forger {
    fn segment(&mut self, number: u64, from: SocketAddrV4, to: SocketAddrV4) -> Segment<'_> {
        let kind = KINDS[(number / STEPS) as usize % KINDS.len()];
        let swept = ((number % STEPS) as u32).wrapping_mul(STEP).wrapping_add(self.random.next_u32() % STEP);
        let other = self.random.next_u32();
        let (flags, seq, ack, ttl) = match kind {
            Kind::Ack => (ACK, other, swept, 1),
            Kind::Data => (ACK | PSH, swept, other, TTL),
            Kind::Reset => (RST, swept, 0, TTL),
            Kind::Sack => (ACK, other, swept, TTL),
            Kind::Syn => (SYN, swept, 0, 1),
            Kind::SynAck => (SYN | ACK, swept, other, TTL),
        };
        self.options = if kind == Kind::Sack {
            sack(&[[swept.wrapping_add(1448), swept.wrapping_add(STEP)]])
        } else {
            vec![]
        };
        let payload = if kind == Kind::Data { &PAYLOAD[..] } else { &[] };
        Segment {
            ttl,
            window: 1,
            payload,
            options: &self.options,
            ..Segment::bare(from, to, flags, seq, ack)
        }
    }
}

/// Forges them until it is stopped: in the servers' name if `as_servers`, else in the clients'.
pub fn play(stage: &Stage, mut socket: PacketSocket, as_servers: bool, control: &Control) -> Result<Tally> {
    let mut forger = Forger { random: Xoshiro256PlusPlus::seed_from_u64(stage.seed), options: Vec::new() };
    let mut segments = Pace::new(SEGMENTS_PS);
    let began = Instant::now();
    let mut number = 0;
    while !control.is_over(began) {
        for _ in 0..segments.due(began.elapsed().as_nanos() as u64) {
            // a sweep of one connection, then one of the next
            let victims = stage.victims.len() as u64;
            let victim = &stage.victims[(number / STEPS % victims) as usize];
            let (from, to) =
                if as_servers { (victim.server, victim.client) } else { (victim.client, victim.server) };
            let own = number / (STEPS * victims) * STEPS + number % STEPS;
            socket.push(&forger.segment(own, from, to))?;
            number += 1;
        }
        socket.flush()?;
        control.is_ready.fetch_or(began.elapsed() > RAMP_UP, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
    Ok(Tally { sent: socket.sent(), seconds: began.elapsed().as_secs_f64(), ..Tally::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_of_forged_acks_leaves_no_window_out() {
        let (from, to) = ("10.0.0.1:80".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
        let mut forger = Forger { random: Xoshiro256PlusPlus::seed_from_u64(1), options: Vec::new() };
        let mut acks: Vec<u32> = (0..STEPS).map(|n| forger.segment(n, from, to).ack).collect();
        acks.sort_unstable();
        assert!(acks.windows(2).all(|pair| pair[1] - pair[0] < 2 * STEP));
        assert!(acks[0] < STEP && acks[acks.len() - 1] >= STEP.wrapping_neg());
    }

    #[test]
    fn every_kind_is_forged_in_turn() {
        let (from, to) = ("10.0.0.1:80".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
        let mut forger = Forger { random: Xoshiro256PlusPlus::seed_from_u64(1), options: Vec::new() };
        let flags: Vec<u8> = (0..6).map(|kind| forger.segment(kind * STEPS, from, to).flags).collect();
        assert_eq!(flags, [ACK, ACK | PSH, RST, ACK, SYN, SYN | ACK]);
        assert!(forger.segment(3 * STEPS, from, to).options.len() == 12);
    }
}
