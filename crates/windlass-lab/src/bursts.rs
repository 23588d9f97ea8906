//! How many segments of a connection reach a link at one instant: what its sender lets out in a burst.

use crate::packet::Segments;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// Segments that follow each other faster are of one burst: a stack hands them over within microseconds, and on links of
/// some Mbit/s those that are let out one by one come a millisecond apart.
const GAP_NS: u64 = 200_000;

/// The sender and the receiver.
pub type Pair = [IpAddr; 2];

/// The longest burst of any connection of each pair of addresses, in segments.
pub type Longest = BTreeMap<Pair, u32>;

#[derive(Clone, Copy, Debug)]
struct Run {
    /// Sequence number behind the newest segment.
    end_seq: u32,
    at_ns: u64,
    segs: u32,
    /// The longest so far of this connection.
    longest_segs: u32,
}

/// Watches one direction of a link.
#[derive(Debug)]
pub struct Bursts {
    runs: HashMap<(Pair, [u16; 2]), Run>,
    longest: Arc<Mutex<Longest>>,
}

impl Bursts {
    /// Has not seen anything; the longest bursts go into `longest`.
    pub fn new(longest: Arc<Mutex<Longest>>) -> Bursts {
        Bursts { runs: HashMap::new(), longest }
    }

    /// Segments have arrived. Those retransmitted belong to no burst.
    pub fn on_segments(&mut self, segments: &Segments, now_ns: u64) {
        let end_seq = segments.seq.wrapping_add(segments.payload_bytes);
        let start = Run { end_seq: segments.seq, at_ns: now_ns, segs: 0, longest_segs: 0 };
        let run = self.runs.entry((segments.addresses, segments.ports)).or_insert(start);
        if segments.is_syn {
            *run = start;
            return;
        }
        if end_seq.wrapping_sub(run.end_seq) as i32 <= 0 {
            return;
        }
        let is_same = now_ns.saturating_sub(run.at_ns) < GAP_NS;
        run.segs = if is_same { run.segs } else { 0 } + segments.count;
        (run.end_seq, run.at_ns) = (end_seq, now_ns);
        if run.segs <= run.longest_segs {
            return;
        }
        run.longest_segs = run.segs;
        let mut longest = self.longest.lock().unwrap_or_else(PoisonError::into_inner);
        let of_pair = longest.entry(segments.addresses).or_insert(0);
        *of_pair = run.segs.max(*of_pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Pair = [IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), IpAddr::V4(std::net::Ipv4Addr::BROADCAST)];

    fn data(port: u16, seq: u32, count: u32) -> Segments {
        Segments {
            addresses: PAIR,
            ports: [80, port],
            seq,
            payload_bytes: 1000 * count,
            count,
            is_syn: false,
        }
    }

    #[test]
    fn the_longest_stretch_of_new_segments_counts() {
        let longest = Arc::new(Mutex::new(Longest::new()));
        let mut bursts = Bursts::new(longest.clone());
        let longest = || longest.lock().unwrap()[&PAIR];
        let wrapping = 0u32.wrapping_sub(1500);
        bursts.on_segments(&data(1, wrapping, 2), 1_000_000);
        bursts.on_segments(&data(1, wrapping.wrapping_add(2000), 1), 1_100_000);
        assert_eq!(longest(), 3);
        // another connection, one retransmitted, and one that comes later
        bursts.on_segments(&data(2, 0, 1), 1_150_000);
        bursts.on_segments(&data(1, wrapping, 1), 1_160_000);
        bursts.on_segments(&data(1, wrapping.wrapping_add(3000), 2), 1_400_000);
        assert_eq!(longest(), 3);
        bursts.on_segments(&data(1, wrapping.wrapping_add(5000), 2), 1_500_000);
        assert_eq!(longest(), 4);
    }
}
