//! SYNs from addresses that do not exist, 200,000 a second.

use super::{
    Control, Stage, Tally,
    clients::Pace,
    frame::{SYN, Segment, syn_options},
    socket::PacketSocket,
};
use anyhow::Result;
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

/// SYNs a second, as far as the machine can.
pub const SYNS_PS: u64 = 200_000;
/// Addresses that no host has: RFC 2544 has 198.18.0.0/15 for measurements.
pub const NETWORK: (Ipv4Addr, u32) = (Ipv4Addr::new(198, 18, 0, 0), 15);
/// Half a second's SYNs fill every queue of half-open connections.
const RAMP_UP: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_micros(100);

fn random_source(random: &mut impl RngCore) -> SocketAddrV4 {
    let (network, prefix_bits) = NETWORK;
    let host = random.next_u32() >> prefix_bits;
    let port = 1024 + (random.next_u32() % (65_536 - 1024)) as u16;
    SocketAddrV4::new(Ipv4Addr::from(u32::from(network) | host), port)
}

/// Sends them until it is stopped.
pub fn play(stage: &Stage, mut socket: PacketSocket, control: &Control) -> Result<Tally> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(stage.seed);
    let mut syns = Pace::new(SYNS_PS);
    let options = syn_options(1460, 7);
    let began = Instant::now();
    while !control.is_over(began) {
        for _ in 0..syns.due(began.elapsed().as_nanos() as u64) {
            let bare = Segment::bare(random_source(&mut random), stage.target, SYN, random.next_u32(), 0);
            socket.push(&Segment { options: &options, ..bare })?;
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
    fn sources_of_a_flood_are_of_its_network_and_differ() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut sources: Vec<SocketAddrV4> = (0..1000).map(|_| random_source(&mut random)).collect();
        for source in &sources {
            assert!(
                matches!(source.ip().octets(), [198, 18 | 19, _, _]) && source.port() >= 1024,
                "{source}"
            );
        }
        sources.sort();
        sources.dedup();
        assert!(sources.len() > 990);
    }
}
