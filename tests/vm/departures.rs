//! `fq` on the uplink of the guest spaces packets by the departure times that the datapath gives them.

use crate::{
    PAYLOAD, counter,
    guest::{Guest, Image},
};
use windlass_lab::netns::{self, Netns};

/// server -- guest -- wan -- client, in namespaces of the guest: 20 ms and 20 Mbit/s from wan to client, no loss. The
/// guest's uplink, with fq, is v2.
const NETWORK: [&str; 20] = [
    "ip netns add server && ip netns add wan && ip netns add client",
    "ip link add v1 type veth peer name eth0 netns server",
    "ip link add v2 type veth peer name near netns wan",
    "ip -n wan link add far type veth peer name eth0 netns client",
    "ip addr add 10.80.1.1/24 dev v1 && ip link set v1 up",
    "ip addr add 10.80.2.1/24 dev v2 && ip link set v2 up",
    "ip -n server addr add 10.80.1.2/24 dev eth0 && ip -n server link set eth0 up",
    "ip -n wan addr add 10.80.2.2/24 dev near && ip -n wan link set near up",
    "ip -n wan addr add 10.80.3.1/24 dev far && ip -n wan link set far up",
    "ip -n client addr add 10.80.3.2/24 dev eth0 && ip -n client link set eth0 up",
    "ip -n server route add default via 10.80.1.1",
    "ip -n client route add default via 10.80.3.1",
    "ip -n wan route add default via 10.80.2.1",
    "ip route add default via 10.80.2.2",
    "echo 1 >/proc/sys/net/ipv4/ip_forward",
    "ip netns exec wan sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'",
    "tc qdisc add dev v2 root fq",
    "ip netns exec wan tc qdisc add dev far root netem delay 20ms rate 20mbit limit 1000",
    "mkfifo /run/said /run/dump",
    "ip netns exec server nginx -c /etc/nginx.conf",
];

const LOSSY: &str =
    "ip netns exec wan tc qdisc change dev far root netem delay 20ms rate 20mbit limit 1000 loss 1%";
const ACKS_IN_BUNCHES: &str = "ip netns exec wan tc qdisc change dev far root netem delay 20ms rate 20mbit limit 1000 loss 0% && \
     ip netns exec client tc qdisc add dev eth0 root netem slot 10ms 10ms";

const RATE_BYTES_PS: f64 = 20e6 / 8.0;
const SEGMENT_BYTES: usize = 1448;
/// What may leave within a millisecond: what is due, 2.2 segments while BBR probes, as much again if the sender was late,
/// and the rest of a packet of the sender's TSO, which goes by its own idea of the rate.
const MOST_SEGMENTS: usize = 10;

/// What one transfer showed.
#[derive(Debug)]
struct Seen {
    /// Payload that left the box within one millisecond, counted at each packet of the second half; sorted.
    bursts: Vec<usize>,
    window_updates: u64,
    departures_set: u64,
    repaired_segs: u64,
    repair_departures_set: u64,
    /// Packets that fq held back.
    throttled: u64,
    goodput_bytes_ps: f64,
}

impl Seen {
    fn burst_segs(&self, percentile: usize) -> usize {
        self.bursts[(self.bursts.len() - 1) * percentile / 100].div_ceil(SEGMENT_BYTES)
    }
}

/// Packets that fq on v2 has held back so far.
fn throttled(guest: &mut Guest) -> u64 {
    let printed = guest.run("tc -s qdisc show dev v2");
    // "flows 3 (inactive 1 throttled 0)" is about now, what comes after it about all time
    let words: Vec<&str> = printed.split(|c: char| !c.is_alphanumeric()).collect();
    let at = words.iter().rposition(|w| *w == "throttled").expect("fq's statistics");
    words[at + 1].parse().expect("a number")
}

/// When, in microseconds, and how much: from lines like `12.345678 IP 10.80.1.2.80 > 10.80.3.2.4711: tcp 2896`.
fn packets(dump: &str) -> Vec<(u64, usize)> {
    dump.lines()
        .filter_map(|line| {
            let (time, rest) = line.split_once(' ')?;
            let (seconds, micros) = time.split_once('.')?;
            let bytes: usize = rest.rsplit(' ').next()?.trim().parse().ok()?;
            let at_us = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
            (bytes > 0).then_some((at_us, bytes))
        })
        .collect()
}

/// One transfer under `attach` with these options, captured where it comes in from the uplink.
fn transfer(guest: &mut Guest, options: &str, expected: &str) -> Seen {
    guest.run(&format!(
        "windlass attach v1 --alg bbr --store-mib 64 --json {options} >/run/said & attach=$!; exec 3</run/said"
    ));
    let said = guest.run("read -r first <&3; echo $first");
    assert!(said.contains(&format!("\"pace_by\":\"{expected}\"")), "{said}");
    guest.run(
        "ip netns exec wan tcpdump -Z root -i near -n -q -tt -s 96 -w /run/pcap 'src host 10.80.1.2 and tcp' \
         2>/run/dump & tcpdump=$!; exec 4</run/dump",
    );
    let listening = guest.run("read -r first <&4; echo $first");
    assert!(listening.contains("listening"), "{listening}");
    let held_before = throttled(guest);
    let sent = guest.run("sha256sum </srv/payload");
    let got = guest.run("ip netns exec client curl -sS --fail http://10.80.1.2/payload | sha256sum");
    assert_eq!(sent, got);
    let throttled = throttled(guest) - held_before;
    guest.run("kill -TERM $tcpdump; cat <&4; wait $tcpdump || true");
    let dump = guest.run("tcpdump -Z root -r /run/pcap -n -q -tt 2>/dev/null");
    let said = guest.run("kill -TERM $attach; cat <&3; wait $attach");

    let packets = packets(&dump);
    let total: usize = packets.iter().map(|p| p.1).sum();
    let steady = &packets[packets.len() / 2..];
    let within = |from: u64| steady.iter().filter(move |p| (from..from + 1000).contains(&p.0)).map(|p| p.1);
    let mut bursts: Vec<usize> = steady.iter().map(|p| within(p.0).sum()).collect();
    bursts.sort_unstable();
    Seen {
        bursts,
        window_updates: counter(&said, "window_updates"),
        departures_set: counter(&said, "departures_set"),
        repaired_segs: counter(&said, "repaired_segs"),
        repair_departures_set: counter(&said, "repair_departures_set"),
        throttled,
        goodput_bytes_ps: total as f64 * 1e6 / (packets[packets.len() - 1].0 - packets[0].0) as f64,
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn packets_leave_spaced_by_fq_with_few_window_updates() {
    let test = "packets_leave_spaced_by_fq_with_few_window_updates";
    let Some((image, _turn)) = Image::get_or_skip(test) else { return };
    let host = Netns::create(netns::next_run(), "departs").expect("a namespace");
    let mut guest = Guest::boot_in_own_time(image, &host);
    guest.run(PAYLOAD);
    for line in NETWORK {
        guest.run(line);
    }
    let clock = transfer(&mut guest, "--pace-by clock", "clock");
    let fq = transfer(&mut guest, "", "fq");
    guest.run(LOSSY);
    let lossy = transfer(&mut guest, "--pace-by fq", "fq");
    guest.run(ACKS_IN_BUNCHES);
    let bunched_watched = transfer(&mut guest, "--mode watch", "fq");
    let bunched_clock = transfer(&mut guest, "--pace-by clock", "clock");
    let bunched_fq = transfer(&mut guest, "", "fq");
    for (name, seen) in [
        ("clock", &clock),
        ("fq", &fq),
        ("fq, 1 % lost", &lossy),
        ("bunched ACKs, only watched", &bunched_watched),
        ("bunched ACKs, clock", &bunched_clock),
        ("bunched ACKs, fq", &bunched_fq),
    ] {
        println!(
            "{name}: segments within 1 ms: median {}, 99 % {}, largest {}; {} window updates; {} departures set, {} \
             of {} repairs among them; {} throttled by fq; {:.2} Mbit/s",
            seen.burst_segs(50),
            seen.burst_segs(99),
            seen.burst_segs(100),
            seen.window_updates,
            seen.departures_set,
            seen.repair_departures_set,
            seen.repaired_segs,
            seen.throttled,
            seen.goodput_bytes_ps * 8e-6,
        );
    }
    for seen in [&clock, &bunched_watched, &bunched_clock] {
        assert_eq!((seen.departures_set, seen.throttled), (0, 0), "nothing was to be held");
    }
    // since the clock grants several segments at a time (core/flow/pacing.h) it needs hardly more
    assert!(fq.window_updates < clock.window_updates);
    assert!(bunched_fq.window_updates < bunched_clock.window_updates);
    assert!(lossy.repair_departures_set > 0);
    for seen in [&fq, &lossy, &bunched_fq] {
        assert!(seen.departures_set > 0 && seen.throttled > 0);
        assert!(seen.burst_segs(99) <= MOST_SEGMENTS);
        assert!(seen.goodput_bytes_ps > 0.8 * RATE_BYTES_PS);
    }
    // each bunch of ACKs lets out the data of 10 ms
    assert!(2 * bunched_watched.burst_segs(99) > 3 * bunched_fq.burst_segs(99));
}
