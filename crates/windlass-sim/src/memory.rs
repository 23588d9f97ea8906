//! How much memory a run may need, found out before it begins.

use crate::{
    error::SimError,
    fetch::{Fetch, LINGER_NS},
    link::{Flight, Flights, Link},
    packet::Slot,
    session::Session,
    tcp::{Config, SEGMENT_BYTES, WRITE_BYTES},
};
use std::{fs, num::NonZeroU64};
use windlass_scenario::{
    Application, Buffer, Bytes, Connections, Dist, Flow, Response, Scenario, Size, Train,
};

/// A packet in a link model's queue: its departure and its length.
const QUEUED_BYTES: u64 = 16;
/// What a direction of a link has besides: its times in the queue, mostly.
const LINK_TABLES_BYTES: u64 = 16 << 10;
/// The same of a direction with a discipline: the queues of FQ-CoDel, mostly.
const DISCIPLINE_BYTES: u64 = 256 << 10;
/// A packet in a discipline's queue, besides what it is on a link.
const WAITING_BYTES: u64 = 64;
/// Places for segments that an idle connection keeps, a report of it, and its timers.
const IDLE_BYTES: u64 = 1024;

/// Standard deviations of a Poisson process above its mean where nothing was written.
const RARELY: f64 = 8.0;

/// The most that a run of the scenario may need, in bytes: all its connections open at once, as much in flight as
/// their windows and the links' buffers allow. `config`: of hosts that the scenario does not configure;
/// `interval_ns`: length of the intervals in which it is recorded, none: only sums are.
pub fn needed_bytes(scenario: &Scenario, config: &Config, interval_ns: Option<NonZeroU64>) -> u64 {
    let config = &config.with(&scenario.tcp, &scenario.parameters);
    let connections = scenario.flows.iter().map(|f| connections(f, scenario)).fold(0, u64::saturating_add);
    let responses = scenario.flows.iter().map(|f| answered(f, scenario)).fold(0, u64::saturating_add);
    let per_connection = (size_of::<Fetch>() + size_of::<Session>()) as u64 + IDLE_BYTES;
    let per_link = 2 * ((size_of::<Link>() + size_of::<Flights>()) as u64 + LINK_TABLES_BYTES);
    // lists have up to twice the room that they need
    let disciplines = disciplines(scenario);
    let waiting_bytes = if disciplines > 0 { WAITING_BYTES } else { 0 };
    let per_packet =
        2 * ((size_of::<Slot>() + size_of::<Flight>() + SEGMENT_BYTES) as u64 + QUEUED_BYTES + waiting_bytes);
    let in_flight = packets_of_windows(scenario, config).min(packets_on_links(scenario));
    let on_links =
        (scenario.links.len() as u64 * per_link).saturating_add(in_flight.saturating_mul(per_packet));
    let on_links = on_links.saturating_add(disciplines * DISCIPLINE_BYTES);
    // the report's, and lists have up to twice the room that they need
    let reported = responses.saturating_mul(2 * size_of::<Response>() as u64);
    let reported = reported.saturating_add(interval_ns.map_or(0, |ns| recorded_bytes(scenario, ns)));
    connections.saturating_mul(per_connection).saturating_add(on_links).saturating_add(reported)
}

/// What is recorded of flows and links in all intervals of a run; lists have up to twice the room that they need.
fn recorded_bytes(scenario: &Scenario, interval_ns: NonZeroU64) -> u64 {
    let directions = 2 * scenario.links.iter().filter(|l| l.is_emulated()).count();
    let each = 2 * (scenario.flows.len() * size_of::<u64>() + directions * size_of::<u32>());
    (scenario.time_limit.ns() / interval_ns + 1).saturating_mul(each as u64)
}

/// Directions of links that have a discipline.
fn disciplines(scenario: &Scenario) -> u64 {
    let of_links = scenario.links.iter().any(|link| link.discipline.is_some());
    if !of_links && scenario.switches.iter().all(|switch| switch.ports.discipline.is_none()) {
        return 0;
    }
    let has = |index, backward| u64::from(scenario.port(index, backward).discipline.is_some());
    (0..scenario.links.len()).map(|index| has(index, false) + has(index, true)).sum()
}

/// Whether so much may be had.
pub fn check(needed_bytes: u64) -> Result<(), SimError> {
    match available_bytes() {
        Some(available_bytes) if available_bytes < needed_bytes => {
            Err(SimError::TooLarge { needed_bytes, available_bytes })
        }
        _ => Ok(()),
    }
}

/// The most connections of a flow that are open at once, or keep their place for a while after that.
fn connections(flow: &Flow, scenario: &Scenario) -> u64 {
    if flow.connections == Connections::Persistent {
        return 1;
    }
    // requested by the clock, all may wait; one after the other, only those last over have a place, each of which
    // took two round trips at least, with its connection's
    let of_each = |train: &Train| match &train.size {
        Size::Page(page) => page.objects_most().min(page.connections.into()),
        _ => 1,
    };
    let at_once = |train: &Train| match train.interval {
        Some(_) => responses(train, duration_s(train, flow, scenario), 0.0),
        None => responses(train, LINGER_NS as f64 * 1e-9, 4.0 * least_delay_s(scenario)),
    };
    // the flow's own has a place besides, though nothing uses it
    flow.trains.iter().map(|train| at_once(train).saturating_mul(of_each(train))).fold(1, u64::saturating_add)
}

/// The most responses of a flow in a whole run.
fn answered(flow: &Flow, scenario: &Scenario) -> u64 {
    let least_s = |train: &Train| if train.interval.is_some() { 0.0 } else { 2.0 * least_delay_s(scenario) };
    let in_all = |train: &Train| responses(train, duration_s(train, flow, scenario), least_s(train));
    flow.trains.iter().map(in_all).fold(0, u64::saturating_add)
}

/// The most responses of a train during a time, of which each takes at least so long, pauses apart.
fn responses(train: &Train, during_s: f64, least_s: f64) -> u64 {
    let most = train.count.map_or(u64::MAX, u64::from);
    let pause_s = train.interval.as_ref().or(train.gap.as_ref()).map_or(0.0, |p| p.mean().0);
    let every_s = pause_s + least_s;
    // pauses may be shorter than their mean all the time, but not by much for long; between links without delay, no time
    // need pass
    let expected = during_s / every_s;
    most.min(((expected + RARELY * expected.sqrt()) as u64).saturating_add(2))
}

/// How long a train may go on.
fn duration_s(train: &Train, flow: &Flow, scenario: &Scenario) -> f64 {
    let ends = [train.until, flow.stop].into_iter().flatten().map(|s| s.0);
    let begin_s = train.start.map_or(flow.start.0, |s| s.0.max(flow.start.0));
    (ends.fold(scenario.time_limit.0, f64::min) - begin_s).max(0.0)
}

fn least_delay_s(scenario: &Scenario) -> f64 {
    scenario.links.iter().map(|l| l.delay.0).reduce(f64::min).unwrap_or(0.0)
}

/// As many packets as the senders' buffers, the receivers' windows and what is there to send allow.
fn packets_of_windows(scenario: &Scenario, config: &Config) -> u64 {
    let packets = |flow: &Flow| {
        if flow.application == Application::Udp {
            // nothing holds their sender back
            let at_least = |train: &Train| responses(train, duration_s(train, flow, scenario), 0.0);
            let packets = |train: &Train| {
                let each = size_bytes(train).unwrap_or(0).div_ceil(config.datagram_bytes);
                at_least(train).saturating_mul(each)
            };
            return flow.trains.iter().map(packets).fold(0, u64::saturating_add);
        }
        let window = flow.receive_window_max.map_or(config.rcv_window_max_bytes.into(), Bytes::count);
        // one write may go beyond the buffer
        let most = window.min(u64::from(config.snd_buffer_bytes) + WRITE_BYTES);
        let at_once = |train: &Train| {
            // requested by the clock on one connection, all may wait for their way; else one follows the other
            let is_queued = flow.connections == Connections::Persistent && train.interval.is_some();
            let count = if is_queued { responses(train, duration_s(train, flow, scenario), 0.0) } else { 1 };
            size_bytes(train).map_or(most, |bytes| bytes.saturating_mul(count))
        };
        // the end of a train may still be on its way when the next one begins
        let bytes = flow.trains.iter().map(at_once).fold(0, u64::saturating_add).min(most);
        connections(flow, scenario).saturating_mul(bytes.div_ceil(config.mss_bytes.into()) + 1)
    };
    scenario.flows.iter().map(packets).fold(0, u64::saturating_add)
}

/// A random length without a bound is as good as never so many times its mean.
const MEANS_MOST: u64 = 64;

fn longest_bytes(size: &Dist<Bytes>) -> u64 {
    let longest = size.most().map(Bytes::count);
    longest.unwrap_or(size.mean().count().saturating_mul(MEANS_MOST))
}

/// The longest response of a train; none: there is no bound.
fn size_bytes(train: &Train) -> Option<u64> {
    match &train.size {
        Size::Bytes(size) => Some(longest_bytes(size)),
        // on each connection of a page one object is on its way
        Size::Page(page) => Some(longest_bytes(page.each())),
        Size::RestOf(size) => Some(size.count()),
        Size::Unlimited | Size::CdfFile(_) => None,
    }
}

/// As many packets as fit on all links and into their buffers; without limit if a buffer has none, or what has a delay has no
/// rate.
fn packets_on_links(scenario: &Scenario) -> u64 {
    let mut packets = 0u64;
    for index in 0..scenario.links.len() {
        for backward in [false, true] {
            let port = scenario.port(index, backward);
            let way_s = port.delay.0 + port.jitter().0;
            let Some(rate) = port.rate else {
                if way_s > 0.0 {
                    return u64::MAX;
                }
                continue;
            };
            let fastest_bps = port.rate_steps.iter().map(|step| step.rate.0).fold(rate.0, f64::max);
            let on_its_way = fastest_bps / 8.0 * way_s / port.packet_bytes as f64;
            packets += on_its_way as u64 + 1;
            packets += match port.buffer.map(|b| port.resolve(b)) {
                None => return u64::MAX,
                Some(Buffer::Packets(n)) => n,
                Some(Buffer::Bytes(n)) => n / port.packet_bytes,
                // resolved above
                Some(Buffer::Bdp(_)) => 0,
            };
        }
    }
    packets
}

/// What the machine has to give, in bytes; none: it does not report it.
pub fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a scenario of which only sums are kept.
    fn of_text(text: &str) -> u64 {
        let scenario = Scenario::parse("t", text).unwrap_or_else(|e| panic!("{e}"));
        needed_bytes(&scenario, &Config::default(), None)
    }

    fn needed(buffer: &str, count: u32, size: &str) -> u64 {
        let text = format!(
            "name = \"t\"\n[topology]\nshape = \"many-to-one\"\nsenders = 10\n\
             edge = {{ rate = \"1 Gbit/s\", delay = \"50 us\"{buffer} }}\n\
             bottleneck = {{ rate = \"1 Gbit/s\", delay = \"50 us\"{buffer} }}\n\
             [[flow]]\nfrom = \"sender-*\"\nto = \"receiver\"\ncount = {count}\nsize = \"{size}\"\n"
        );
        of_text(&text)
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

    /// A connection whose responses follow each other has one of them on its way; requested by the clock, all may wait.
    #[test]
    fn a_connection_needs_no_more_than_its_responses() {
        let of = |train: &str| {
            let text = format!(
                "name = \"t\"\n[topology]\nshape = \"many-to-one\"\nsenders = 10\n\
                 edge = {{ rate = \"1 Gbit/s\", delay = \"50 us\" }}\n\
                 bottleneck = {{ rate = \"1 Gbit/s\", delay = \"50 us\" }}\n\
                 [[flow]]\nfrom = \"sender-*\"\nto = \"receiver\"\ncount = 100\n[[flow.train]]\nsize = \"20 kB\"\n{train}\n"
            );
            of_text(&text) / 1000
        };
        let queued = |count: u32| of(&format!("count = {count}\ninterval = \"1 ms\""));
        let one = queued(1);
        assert!(of("count = 100\ngap = \"1 s\"") < one + 100 * 64, "{one}");
        assert!(queued(10) > 4 * (one - 4096), "{} {one}", queued(10));
        let unlimited = of("count = 100000\ninterval = \"1 ms\"");
        assert!(unlimited > 2800 * 200, "{unlimited}");
    }

    /// What is kept of each response for the report counts on a connection that is there all the time, too.
    #[test]
    fn responses_of_one_connection_count() {
        let of = |count: u32| {
            let text = format!(
                "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
                 [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Gbit/s\"\nbuffer = \"9 packets\"\n\
                 [[flow]]\nfrom = \"a\"\nto = \"b\"\n[[flow.train]]\ncount = {count}\nsize = \"1 B\"\n"
            );
            of_text(&text)
        };
        assert!(of(4_000_000_000) > 96_000_000_000, "{}", of(4_000_000_000));
        assert!(of(1000) < 1 << 20, "{}", of(1000));
    }

    /// Whatever is behind it, a way of 100 ms takes all that senders let out at once: 2890 segments of 4 MiB each, or what their
    /// receivers' windows allow.
    #[test]
    fn a_delay_without_a_rate_holds_whole_windows() {
        let of = |delay: &str, window: &str| {
            let text = format!(
                "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"r\"\n[[host]]\nname = \"b\"\n\
                 [[link]]\nbetween = [\"a\", \"r\"]\n{delay}\n\
                 [[link]]\nbetween = [\"r\", \"b\"]\nrate = \"1 Mbit/s\"\nbuffer = \"9 packets\"\n\
                 [[flow]]\nfrom = \"a\"\nto = \"b\"\ncount = 100\nsize = \"1 GB\"\n{window}\n"
            );
            of_text(&text)
        };
        let cable = of("", "");
        assert!(cable < 1 << 20, "{cable}");
        for delay in ["delay = \"100 ms\"", "jitter = \"100 ms\""] {
            let whole = of(delay, "") - cable;
            assert!(whole > 100 * 2800 * 200, "{delay}: {whole}");
            let some = of(delay, "receive_window_max = \"17520 B\"") - cable;
            assert!(some < whole / 200, "{delay}: {some} of {whole}");
        }
    }

    /// A second of intervals of 1 us: 8 bytes of a flow, and 4 of each direction of one of the two links.
    #[test]
    fn what_is_recorded_in_intervals_counts() {
        let text = "name = \"t\"\ntime_limit = \"1 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"r\"\n[[host]]\n\
                    name = \"b\"\n[[link]]\nbetween = [\"a\", \"r\"]\n[[link]]\nbetween = [\"r\", \"b\"]\n\
                    rate = \"1 Mbit/s\"\nbuffer = \"9 packets\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\n";
        let scenario = Scenario::parse("t", text).unwrap_or_else(|e| panic!("{e}"));
        let of = |interval_ns| needed_bytes(&scenario, &Config::default(), NonZeroU64::new(interval_ns));
        let (sums, intervals) = (of(0), of(1000));
        assert!((16_000_000..=2 * 16_000_100).contains(&(intervals - sums)), "{sums} {intervals}");
    }

    fn per_response(train: &str) -> u64 {
        let text = format!(
            "name = \"t\"\ntime_limit = \"10 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
             [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\nbuffer = \"9 packets\"\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nconnections = \"per-response\"\n\
             [[flow.train]]\nsize = \"10 kB\"\n{train}\n"
        );
        of_text(&text)
    }

    #[test]
    fn responses_by_the_clock_may_all_wait_at_once() {
        let by_the_clock = |count: u32| per_response(&format!("count = {count}\ninterval = \"1 us\""));
        let (few, many) = (by_the_clock(10), by_the_clock(100_010));
        assert!((2048..=4096).contains(&((many - few) / 100_000)), "{few} {many}");
        // in ten seconds, a thousand and hardly more than two hundred besides
        let timed = per_response("interval = { exponential = \"10 ms\" }\nuntil = \"9999 ms\"") - few;
        assert!((1000 * 2048..=1300 * 4096).contains(&timed), "{timed}");
        // one after the other, those of one second have a place, at 4 ms each at least, and those of ten are reported
        let queued = per_response("count = 100010") - few;
        assert!(queued <= 400 * 4096 + 6000 * 48, "{queued}");
    }

    #[test]
    fn what_no_machine_has_is_refused() {
        // ten million of the four billion begin before the run ends
        let some = per_response("count = 4000000000\ninterval = \"1 us\"");
        assert!(some > 10_000_000 * 2048, "{some}");
        let all = per_response("count = 4000000000\ninterval = \"0 us\"");
        assert!(matches!(check(all), Err(SimError::TooLarge { .. })), "{all}");
    }

    #[test]
    fn the_machine_reports_its_memory() {
        assert!(available_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
