//! How exact the link emulator is on this machine: rate, delay and loss over a grid, measured from outside with UDP and
//! TCP and the kernel's own arrival times. As root:
//!
//! ```text
//! cargo run --release -p windlass-lab --example accuracy [SPIN_US]
//! ```

use anyhow::{Context, Result};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use windlass_lab::{Family, LinkStats, Topology};
use windlass_scenario::Scenario;

const PORT: u16 = 5000;
const FULL_PAYLOAD_BYTES: usize = 1472;
/// IPv4, UDP and Ethernet headers.
const HEADER_BYTES: usize = 42;
/// Of an Ethernet packet full of TCP data, with timestamps.
const TCP_SHARE: f64 = 1448.0 / 1514.0;
const SILENCE: Duration = Duration::from_millis(1500);

/// A packet that arrived.
struct Arrival {
    number: u64,
    /// From before send() to the receiving kernel.
    took_ns: i64,
    at_ns: i64,
}

fn scenario(link: &str) -> Result<Scenario> {
    let text = format!(
        "name = \"accuracy\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{link}\n"
    );
    Ok(Scenario::parse("accuracy", &text)?)
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
    // the kernel writes a timespec behind the header of the only control message that was asked for.
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

/// Sends `count` packets at a constant rate from a to b; returns what arrived and what the emulator says.
fn udp(
    link: &str,
    payload: usize,
    packets_ps: f64,
    count: u64,
    spin_us: u64,
) -> Result<(Vec<Arrival>, LinkStats)> {
    let topology = Topology::create(&scenario(link)?, spin_us, Family::V4)?;
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn quantile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(((values.len() as f64 - 1.0) * q) as usize).copied().unwrap_or(f64::NAN)
}

/// One line of the grid: rate of a saturated link, and delay of an idle one.
fn rate_and_delay(rate_mbps: f64, rtt_ms: f64, spin_us: u64) -> Result<()> {
    let network = format!("rate = \"{rate_mbps} Mbit/s\"\ndelay = \"{} ms\"\n", rtt_ms / 2.0);
    let wire_bits = ((FULL_PAYLOAD_BYTES + HEADER_BYTES) * 8) as f64;
    let packets_ps = rate_mbps * 1e6 / wire_bits * 1.2;
    // deep enough that the link stays busy while the sender is not scheduled
    let busy = format!("{network}buffer = \"20000 packets\"");
    let (arrivals, stats) = udp(&busy, FULL_PAYLOAD_BYTES, packets_ps, (packets_ps * 3.0) as u64, spin_us)?;
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        anyhow::bail!("nothing arrived");
    };
    let rate_bps = (arrivals.len() - 1) as f64 * wire_bits * 1e9 / (last.at_ns - first.at_ns) as f64;

    let payload = 58;
    let sending_ms = ((payload + HEADER_BYTES) * 8) as f64 / rate_mbps / 1e3;
    let (arrivals, idle) = udp(&network, payload, 300.0, 600, spin_us)?;
    let errors: Vec<f64> =
        arrivals.iter().map(|a| a.took_ns as f64 / 1e6 - rtt_ms / 2.0 - sending_ms).collect();
    println!(
        "{rate_mbps:>6} Mbit/s {rtt_ms:>4} ms | rate {:>8.4} of nominal | one-way delay error median {:>6.3} ms, \
         99 % {:>6.3} ms | own lateness p50 {:>5.0}/{:>5.0} us, own drops {}",
        rate_bps / (rate_mbps * 1e6),
        median(errors.clone()),
        quantile(errors, 0.99),
        stats.late_p50_us,
        idle.late_p50_us,
        stats.drops_device + stats.drops_refused + idle.drops_device + idle.drops_refused
    );
    Ok(())
}

/// Loss of `count` packets against the interval in which 95 % of honest coins fall.
fn loss(name: &str, settings: &str, expected: f64, spread: f64, count: u64, spin_us: u64) -> Result<()> {
    let link = format!("delay = \"5 ms\"\n{settings}");
    let (arrivals, stats) = udp(&link, 200, 8000.0, count, spin_us)?;
    let distinct = arrivals.iter().map(|a| a.number).collect::<std::collections::BTreeSet<_>>().len() as u64;
    let lost = (count - distinct) as f64 / count as f64;
    let half = 1.96 * spread * (expected * (1.0 - expected) / count as f64).sqrt();
    println!(
        "{name:<28} | lost {:.4} %, expected {:.4} % +- {:.4} % ({}); link says {} of {}, own drops {}",
        lost * 100.0,
        expected * 100.0,
        half * 100.0,
        if (lost - expected).abs() <= half { "within" } else { "OUTSIDE" },
        stats.drops_random,
        stats.packets,
        stats.drops_device + stats.drops_refused
    );
    Ok(())
}

/// A bulk TCP transfer, whose packets reach the emulator as super-packets: goodput from the third second on.
fn tcp(rate_mbps: f64, rtt_ms: f64, spin_us: u64) -> Result<()> {
    let link = format!("rate = \"{rate_mbps} Mbit/s\"\ndelay = \"{} ms\"\nbuffer = \"2 BDP\"", rtt_ms / 2.0);
    let topology = Topology::create(&scenario(&link)?, spin_us, Family::V4)?;
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
        let mut block = vec![0u8; 1 << 18];
        let begin = Instant::now();
        let (mut from, mut bytes) = (begin, 0);
        while begin.elapsed() < Duration::from_secs(6) {
            let n = sink.read(&mut block)?;
            if begin.elapsed() > Duration::from_secs(2) {
                if bytes == 0 {
                    from = Instant::now();
                    bytes = 1;
                    continue;
                }
                bytes += n;
            }
        }
        stop.store(true, Ordering::Relaxed);
        Ok((bytes - 1) as f64 * 8.0 / from.elapsed().as_secs_f64())
    })?;
    let stats = topology.finish()?.remove(0).1[0].clone();
    println!(
        "{rate_mbps:>6} Mbit/s {rtt_ms:>4} ms | TCP goodput {:>7.4} of possible | own lateness p50 {:>5.0} us, p99 {:>6.0} us, \
         tail drops {}, own drops {}",
        goodput_bps / (rate_mbps * 1e6 * TCP_SHARE),
        stats.late_p50_us,
        stats.late_p99_us,
        stats.drops_tail,
        stats.drops_device + stats.drops_refused
    );
    Ok(())
}

fn main() -> Result<()> {
    let spin_us = std::env::args().nth(1).map_or(Ok(0), |a| a.parse()).context("SPIN_US is a number")?;
    for rate_mbps in [1.0, 20.0, 100.0, 1000.0] {
        for rtt_ms in [1.0, 40.0, 300.0] {
            rate_and_delay(rate_mbps, rtt_ms, spin_us)?;
        }
    }
    for (rate_mbps, rtt_ms) in [(20.0, 40.0), (100.0, 20.0), (1000.0, 1.0), (1000.0, 20.0)] {
        tcp(rate_mbps, rtt_ms, spin_us)?;
    }
    for percent in [0.1, 1.0, 5.0] {
        let settings = format!("loss = \"{percent} %\"");
        loss(&format!("independent, {percent} %"), &settings, percent / 100.0, 1.0, 20_000, spin_us)?;
    }
    // losses that come in bursts of mean length 1 / 0.25 spread wider than coins: by (1 + r) / (1 - r), where r = 1 -
    // 0.25 - 0.0025 is the correlation of one packet's state with the next one's
    let bursts = "bursts = { to_bad = \"0.25 %\", to_good = \"25 %\", loss_bad = \"100 %\" }";
    let r: f64 = 1.0 - 0.25 - 0.0025;
    loss(
        "Gilbert-Elliott, mean 0.99 %",
        bursts,
        0.0025 / 0.2525,
        ((1.0 + r) / (1.0 - r)).sqrt(),
        20_000,
        spin_us,
    )
}
