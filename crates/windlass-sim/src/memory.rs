//! How much memory a run may need, found out before it begins.

use crate::{
    fetch::Fetch,
    link::{Flight, Link},
    packet::{MSS_BYTES, Slot},
    session::Session,
    tcp::{Config, SEGMENT_BYTES},
};
use std::fs;
use windlass_scenario::{Buffer, Scenario};

/// Bytes of a full packet on the wire.
const PACKET_BYTES: u64 = 1514;
/// A packet in a link model's queue: its departure and its length.
const QUEUED_BYTES: u64 = 16;
/// What a direction of a link has besides: its times in the queue, mostly.
const LINK_TABLES_BYTES: u64 = 32 << 10;
/// Places for segments that an idle connection keeps, a report of it, and its timers.
const IDLE_BYTES: u64 = 1024;

/// The most that a run of the scenario may need, in bytes: all its connections open at once, as much in flight as
/// their windows and the links' buffers allow.
pub fn needed_bytes(scenario: &Scenario, config: &Config) -> u64 {
    let connections = scenario.flows.len() as u64;
    let per_connection = (size_of::<Fetch>() + size_of::<Session>()) as u64 + IDLE_BYTES;
    let per_link = 2 * (size_of::<Link>() as u64 + LINK_TABLES_BYTES);
    // lists have up to twice the room that they need
    let per_packet = 2 * ((size_of::<Slot>() + size_of::<Flight>() + SEGMENT_BYTES) as u64 + QUEUED_BYTES);
    let in_flight = packets_of_windows(scenario, config).min(packets_on_links(scenario));
    connections * per_connection + scenario.links.len() as u64 * per_link + in_flight * per_packet
}

/// As many packets as the senders' buffers and what is there to send allow.
fn packets_of_windows(scenario: &Scenario, config: &Config) -> u64 {
    let most = u64::from(config.snd_buffer_bytes);
    let bytes = |flow: &windlass_scenario::Flow| flow.single_size().unwrap_or(most).min(most);
    scenario.flows.iter().map(|f| bytes(f).div_ceil(MSS_BYTES.into()) + 1).sum()
}

/// As many packets as fit on all links and into their buffers; without limit if a buffer has none.
fn packets_on_links(scenario: &Scenario) -> u64 {
    let mut packets = 0u64;
    for index in 0..scenario.links.len() {
        for backward in [false, true] {
            let port = scenario.port(index, backward);
            let Some(rate) = port.rate else { continue };
            let on_its_way = rate.0 / 8.0 * (port.delay.0 + port.jitter.0) / PACKET_BYTES as f64;
            packets += on_its_way as u64 + 1;
            packets += match port.buffer.map(|b| port.resolve(b)) {
                None => return u64::MAX,
                Some(Buffer::Packets(n)) => n,
                Some(Buffer::Bytes(n)) => n / PACKET_BYTES,
                // resolved above
                Some(Buffer::Bdp(_)) => 0,
            };
        }
    }
    packets
}

/// What the machine has to give, in bytes; none: it does not say.
pub fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(buffer: &str, count: u32, size: &str) -> u64 {
        let text = format!(
            "name = \"t\"\n[topology]\nshape = \"many-to-one\"\nsenders = 10\n\
             edge = {{ rate = \"1 Gbit/s\", delay = \"50 us\"{buffer} }}\n\
             bottleneck = {{ rate = \"1 Gbit/s\", delay = \"50 us\"{buffer} }}\n\
             [[flow]]\nfrom = \"sender-*\"\nto = \"receiver\"\ncount = {count}\nsize = \"{size}\"\n"
        );
        needed_bytes(&Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}")), &Config::default())
    }

    #[test]
    fn connections_and_buffers_count() {
        let small = needed(", buffer = \"100 packets\"", 1, "1 MB");
        assert!(small < 8 << 20, "{small}");
        // ten thousand connections need less than 4 KiB each
        let many = needed(", buffer = \"100 packets\"", 1000, "1 MB");
        assert!((many - small) / 9990 <= 4096, "{many}");
        // without buffers, what is there to send is the limit: 700 segments each
        let unlimited = needed("", 1000, "1 MB") - many;
        assert!(unlimited > 10_000 * 690 * 200, "{unlimited}");
        assert!(needed("", 1000, "1 kB") < many + (16 << 20));
    }

    #[test]
    fn the_machine_says_what_it_has() {
        assert!(available_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
