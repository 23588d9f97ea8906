//! How exact the link emulator is on this machine: rate, delay and loss over a grid, measured from outside with UDP and
//! TCP and the kernel's own arrival times.

use crate::{claim::Verdict, report::Outcome, settings::Settings, stats};
use anyhow::{Context, Result, ensure};
use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use windlass_lab::{Family, LinkStats, Topology, netns};
use windlass_scenario::{LATE_US, Scenario};

const RATES_MBPS: [f64; 4] = [1.0, 20.0, 100.0, 1000.0];
const RTTS_MS: [f64; 3] = [1.0, 40.0, 300.0];
/// The links of TCP: rate in Mbit/s and RTT in ms.
const TCP_LINKS: [(f64, f64); 4] = [(20.0, 40.0), (100.0, 20.0), (1000.0, 1.0), (1000.0, 20.0)];
/// A packet that took so much longer than the way of an idle link was behind another.
const WAITED_NS: i64 = 1_000_000;
/// How far the rate may be from what it should be.
const RATE_BOUND_PERCENT: f64 = 1.0;
/// ... and the one-way delay, at the median.
const DELAY_BOUND_MS: f64 = LATE_US / 1e3;
/// Of a normal distribution, so many standard deviations to each side hold 95 %.
const SPREAD_95: f64 = 1.96;
/// Emulators spin for exactness: each is alone on this machine.
const SPIN_US: u64 = 100;

const PORT: u16 = 5000;
const FULL_PAYLOAD_BYTES: usize = 1472;
const SMALL_PAYLOAD_BYTES: usize = 58;
/// IPv4, UDP and Ethernet headers.
const HEADER_BYTES: usize = 42;
/// Of an Ethernet packet full of TCP data, with timestamps.
const TCP_SHARE: f64 = 1448.0 / 1514.0;
/// After so long nothing more comes.
const SILENCE: Duration = Duration::from_millis(700);
const RATE_SECONDS: f64 = 2.0;
const DELAY_PACKETS: u64 = 300;
const DELAY_PACKETS_PS: f64 = 300.0;
const LOSS_PACKETS: u64 = 20_000;
const LOSS_PACKETS_PS: f64 = 8000.0;
/// Slow start is over by then.
const TCP_WARM_UP: Duration = Duration::from_secs(2);
const TCP_TIME: Duration = Duration::from_secs(4);

/// A packet that arrived.
struct Arrival {
    number: u64,
    /// From before send() to the receiving kernel.
    took_ns: i64,
    at_ns: i64,
}

fn scenario(link: &str) -> Result<Scenario> {
    let text = format!(
        "name = \"emulator\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{link}\n"
    );
    Ok(Scenario::parse("emulator", &text)?)
}

fn realtime_ns() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

fn set_option(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> Result<()> {
    // SAFETY: the value is a live int of the length given.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const value).cast(), 4)
    };
    if done != 0 {
        return Err(std::io::Error::last_os_error()).context("setsockopt");
    }
    Ok(())
}

/// One packet with the kernel's time of its arrival; none after a silence.
fn receive(socket: &UdpSocket) -> Option<Arrival> {
    let mut payload = [0u8; 2048];
    let mut control = [0u64; 16];
    let mut part = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    // SAFETY: an all-zero msghdr is valid; all it is then made to point to lives until the end of the function, and
    // the kernel writes a timespec behind the header of the only control message that was requested.
    let (bytes, at) = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let bytes = libc::recvmsg(socket.as_raw_fd(), &mut message, 0);
        let header = libc::CMSG_FIRSTHDR(&message);
        if bytes < 16 || header.is_null() {
            return None;
        }
        (bytes as usize, libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned())
    };
    let word = |i: usize| Some(i64::from_le_bytes(payload[..bytes].get(i..i + 8)?.try_into().ok()?));
    let at_ns = at.tv_sec * 1_000_000_000 + at.tv_nsec;
    Some(Arrival { number: word(0)? as u64, took_ns: at_ns - word(8)?, at_ns })
}

/// Sends `count` packets at a constant rate from a to b; returns what arrived and what the emulator reports.
fn udp(link: &str, payload: usize, packets_ps: f64, count: u64) -> Result<(Vec<Arrival>, LinkStats)> {
    let topology = Topology::create(&scenario(link)?, SPIN_US, Family::V4)?;
    let to = (topology.address_of("b"), PORT);
    let sink = topology.host("b").enter(|| Ok(UdpSocket::bind(("0.0.0.0", PORT))?))?;
    set_option(&sink, libc::SO_RCVBUFFORCE, 256 << 20)?;
    set_option(&sink, libc::SO_TIMESTAMPNS, 1)?;
    sink.set_read_timeout(Some(SILENCE))?;
    let source = topology.host("a").enter(|| Ok(UdpSocket::bind(("0.0.0.0", 0))?))?;
    source.connect((to.0.as_str(), to.1))?;
    let arrivals = thread::scope(|scope| {
        let receiver = scope.spawn(|| std::iter::from_fn(|| receive(&sink)).collect::<Vec<_>>());
        let begin = Instant::now();
        let mut packet = vec![0u8; payload];
        for number in 0..count {
            let due = begin + Duration::from_secs_f64(number as f64 / packets_ps);
            let early = due.saturating_duration_since(Instant::now());
            if early > Duration::from_micros(500) {
                thread::sleep(early);
            }
            packet[..8].copy_from_slice(&number.to_le_bytes());
            packet[8..16].copy_from_slice(&realtime_ns().to_le_bytes());
            // what the device refuses is missing at the receiver, and counted there
            let _ = source.send(&packet);
        }
        receiver.join().unwrap_or_default()
    });
    let stats = topology.finish()?.remove(0).1[0].clone();
    Ok((arrivals, stats))
}

/// Packets that the emulator lost for reasons of its own.
fn own_drops(stats: &LinkStats) -> u64 {
    stats.drops_device + stats.drops_refused
}

fn verdict(id: String, ours: Option<f64>, bound: Option<f64>, unit: &str, note: String) -> Verdict {
    Verdict {
        id,
        ours,
        bound: bound.map_or("none".into(), |b| format!("<= {b}")),
        holds: ours.is_some_and(|ours| bound.is_none_or(|b| ours <= b)),
        unit: unit.into(),
        runs: 1,
        note,
        ..Verdict::default()
    }
}

/// How far the rate of a link is off, by the packets that waited for others: where a busy machine keeps the sender from sending
/// more than the link takes, there are gaps which are not the link's.
fn rate(id: String, rate_mbps: f64, rtt_ms: f64) -> Result<Verdict> {
    let wire_bits = ((FULL_PAYLOAD_BYTES + HEADER_BYTES) * 8) as f64;
    let packets_ps = rate_mbps * 1e6 / wire_bits * 1.2;
    // deep enough that the link stays busy while the sender is not scheduled
    let link =
        format!("rate = \"{rate_mbps} Mbit/s\"\ndelay = \"{} ms\"\nbuffer = \"20000 packets\"", rtt_ms / 2.0);
    let count = (packets_ps * RATE_SECONDS) as u64;
    let (arrivals, stats) = udp(&link, FULL_PAYLOAD_BYTES, packets_ps, count)?;
    let way_ns = (rtt_ms / 2.0 * 1e6 + wire_bits * 1e3 / rate_mbps) as i64;
    let gaps_ns =
        arrivals.windows(2).filter(|w| w[1].took_ns > way_ns + WAITED_NS).map(|w| w[1].at_ns - w[0].at_ns);
    let (waited, busy_ns) = gaps_ns.fold((0u64, 0i64), |(n, sum), gap_ns| (n + 1, sum + gap_ns));
    ensure!(waited > 0, "{id}: no packet waited for another: the sender is too slow on this machine");
    let rate_bps = waited as f64 * wire_bits * 1e9 / busy_ns as f64;
    let share = rate_bps / (rate_mbps * 1e6);
    let note = format!(
        "{share:.4} of the rate, by {waited} of {} packets that waited; late by {:.0} us at the median, own drops {}",
        arrivals.len(),
        stats.late_p50_us,
        own_drops(&stats)
    );
    Ok(verdict(id, Some((share - 1.0).abs() * 100.0), Some(RATE_BOUND_PERCENT), "%", note))
}

/// How far the delay of a link is off on which no packet waits for another.
fn delay(id: String, rate_mbps: f64, rtt_ms: f64) -> Result<Verdict> {
    let link = format!("rate = \"{rate_mbps} Mbit/s\"\ndelay = \"{} ms\"\n", rtt_ms / 2.0);
    let sending_ms = ((SMALL_PAYLOAD_BYTES + HEADER_BYTES) * 8) as f64 / rate_mbps / 1e3;
    let (arrivals, stats) = udp(&link, SMALL_PAYLOAD_BYTES, DELAY_PACKETS_PS, DELAY_PACKETS)?;
    let error_ms = |a: &Arrival| a.took_ns as f64 / 1e6 - rtt_ms / 2.0 - sending_ms;
    let errors: Vec<f64> = arrivals.iter().map(error_ms).collect();
    let note = format!(
        "99 % within {:.3} ms; late by {:.0} us at the median, own drops {}",
        stats::quantile(&errors, 0.99).unwrap_or(f64::NAN),
        stats.late_p50_us,
        own_drops(&stats)
    );
    Ok(verdict(id, stats::median(&errors).map(f64::abs), Some(DELAY_BOUND_MS), "ms", note))
}

/// A way to lose packets.
struct Loss {
    name: &'static str,
    /// The link's settings.
    settings: &'static str,
    /// Share of packets.
    expected: f64,
    /// How much wider the number lost spreads than with independent losses.
    spread: f64,
}

fn losses() -> [Loss; 4] {
    // losses in bursts spread wider than coins: by (1 + r) / (1 - r), where r = 1 - 0.25 - 0.0025 is the correlation of one
    // packet's state with the next one's
    let r: f64 = 1.0 - 0.25 - 0.0025;
    let alone = |name, settings, expected| Loss { name, settings, expected, spread: 1.0 };
    [
        alone("0.1%", "loss = \"0.1 %\"", 0.001),
        alone("1%", "loss = \"1 %\"", 0.01),
        alone("5%", "loss = \"5 %\"", 0.05),
        Loss {
            name: "bursts-1%",
            settings: "bursts = { to_bad = \"0.25 %\", to_good = \"25 %\", loss_bad = \"100 %\" }",
            expected: 0.0025 / 0.2525,
            spread: ((1.0 + r) / (1.0 - r)).sqrt(),
        },
    ]
}

/// How many of `count` packets are lost, and the interval that holds 95 % of such numbers.
fn loss(id: String, loss: &Loss, count: u64) -> Result<Verdict> {
    let link = format!("delay = \"5 ms\"\n{}", loss.settings);
    let (arrivals, stats) = udp(&link, 200, LOSS_PACKETS_PS, count)?;
    let arrived = arrivals.iter().map(|a| a.number).collect::<BTreeSet<_>>().len() as u64;
    let share = (count - arrived) as f64 / count as f64;
    let half = SPREAD_95 * loss.spread * (loss.expected * (1.0 - loss.expected) / count as f64).sqrt();
    Ok(Verdict {
        bound: format!("{:.3} +- {:.3}", loss.expected * 100.0, half * 100.0),
        holds: (share - loss.expected).abs() <= half,
        ..verdict(
            id,
            Some(share * 100.0),
            None,
            "%",
            format!(
                "of {count} packets; the link says {}, own drops {}",
                stats.drops_random,
                own_drops(&stats)
            ),
        )
    })
}

/// Goodput of a bulk TCP transfer, whose packets reach the emulator as super-packets, as a share of what fits.
fn tcp(id: String, rate_mbps: f64, rtt_ms: f64) -> Result<Verdict> {
    let link = format!("rate = \"{rate_mbps} Mbit/s\"\ndelay = \"{} ms\"\nbuffer = \"2 BDP\"", rtt_ms / 2.0);
    let topology = Topology::create(&scenario(&link)?, SPIN_US, Family::V4)?;
    let to = (topology.address_of("b"), PORT);
    let listener = topology.host("b").enter(|| Ok(TcpListener::bind(("0.0.0.0", PORT))?))?;
    let stop = AtomicBool::new(false);
    let source = topology.host("a").enter(|| Ok(TcpStream::connect((to.0.as_str(), to.1))?))?;
    source.set_write_timeout(Some(Duration::from_millis(200)))?;
    let (mut sink, _) = listener.accept()?;
    let goodput_bps = thread::scope(|scope| -> Result<f64> {
        scope.spawn(|| {
            let block = vec![0u8; 1 << 18];
            while !stop.load(Ordering::Relaxed) {
                let _ = (&source).write(&block);
            }
        });
        let goodput = goodput_bps(&mut sink);
        stop.store(true, Ordering::Relaxed);
        goodput
    })?;
    let stats = topology.finish()?.remove(0).1[0].clone();
    let note = format!(
        "late by {:.0} us at the median, {:.0} us at most of 99 %; tail drops {}, own drops {}",
        stats.late_p50_us,
        stats.late_p99_us,
        stats.drops_tail,
        own_drops(&stats)
    );
    Ok(verdict(id, Some(goodput_bps / (rate_mbps * 1e6 * TCP_SHARE)), None, "ratio", note))
}

/// What arrives between the end of the warm-up and the end of the time.
fn goodput_bps(sink: &mut TcpStream) -> Result<f64> {
    let mut block = vec![0u8; 1 << 18];
    let begin = Instant::now();
    let (mut from, mut bytes) = (begin, 0);
    while begin.elapsed() < TCP_TIME {
        let n = sink.read(&mut block)?;
        if begin.elapsed() < TCP_WARM_UP {
            from = Instant::now();
        } else {
            bytes += n;
        }
    }
    Ok(bytes as f64 * 8.0 / from.elapsed().as_secs_f64())
}

type Measurement = (String, Box<dyn Fn(String) -> Result<Verdict>>);

/// All measurements, by name.
fn measurements() -> Vec<Measurement> {
    let mut all: Vec<Measurement> = Vec::new();
    for rate_mbps in RATES_MBPS {
        for rtt_ms in RTTS_MS {
            let link = format!("{rate_mbps}M-{rtt_ms}ms");
            all.push((format!("rate-{link}"), Box::new(move |id| rate(id, rate_mbps, rtt_ms))));
            all.push((format!("delay-{link}"), Box::new(move |id| delay(id, rate_mbps, rtt_ms))));
        }
    }
    for way in losses() {
        all.push((format!("loss-{}", way.name), Box::new(move |id| loss(id, &way, LOSS_PACKETS))));
    }
    for (rate_mbps, rtt_ms) in TCP_LINKS {
        let id = format!("tcp-{rate_mbps}M-{rtt_ms}ms");
        all.push((id, Box::new(move |id| tcp(id, rate_mbps, rtt_ms))));
    }
    all
}

/// Measures what has a name that begins with `only`, and judges it. Takes the machine for itself, a minute and a half for all.
pub fn bench_emulator(only: &str, settings: &Settings) -> Result<Outcome> {
    netns::check_root()?;
    let wanted: Vec<Measurement> =
        measurements().into_iter().filter(|(id, _)| id.starts_with(only)).collect();
    ensure!(
        !wanted.is_empty(),
        "--only {only}: no measurement begins so; names begin with \"rate-\", \"delay-\", \"loss-\" or \"tcp-\", as rate-20M-40ms"
    );
    let mut verdicts = Vec::new();
    for (id, measure) in wanted {
        settings.check_stopped()?;
        let verdict = measure(id.clone()).with_context(|| id)?;
        if !settings.quiet {
            eprintln!("{verdict}");
        }
        verdicts.push(verdict);
    }
    let title = "how far emulated links are from what they should be".into();
    Ok(Outcome { name: "emulator".into(), title, verdicts, tables: Vec::new(), runs: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which packets are lost is a matter of their numbers: no clock has an effect.
    #[test]
    fn as_many_packets_are_lost_as_should_be() {
        if !netns::is_root() {
            println!("skipped: as_many_packets_are_lost_as_should_be: needs root");
            return;
        }
        for way in losses() {
            let verdict = loss(way.name.into(), &way, 5000).unwrap_or_else(|e| panic!("{e:#}"));
            assert!(verdict.holds, "{verdict}");
        }
    }

    #[test]
    fn every_measurement_has_a_name_of_its_own() {
        let all = measurements();
        let names: BTreeSet<&str> = all.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.contains("rate-20M-40ms") && names.contains("loss-bursts-1%"), "{names:?}");
    }

    #[test]
    fn what_is_beyond_a_bound_fails() {
        let of = |ours, bound| verdict("v".into(), ours, bound, "%", String::new()).holds;
        assert!(of(Some(1.0), Some(1.0)) && of(Some(9.0), None));
        assert!(!of(Some(1.01), Some(1.0)) && !of(None, Some(1.0)) && !of(None, None));
    }
}
