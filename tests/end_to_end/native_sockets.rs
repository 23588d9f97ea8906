//! Connections of our own with the native home's algorithms: what they go on from, as their kernel reports it.

use crate::{native::Loaded, scenario};
use libbpf_rs::{MapCore, MapFlags, MapHandle, query::MapInfoIter};
use std::{
    fs,
    io::{Read, Write},
    mem,
    net::{TcpListener, TcpStream},
    os::fd::AsRawFd,
    thread,
    time::Instant,
};
use windlass_core::abi::{wl_bbr, wl_kcubic};
use windlass_lab::{Family, Topology, tcp_counters};
use windlass_tests::{
    is_root_or_skip,
    process::{LIMIT, until},
};

/// Where no route sets it there is no threshold (TCP_INFINITE_SSTHRESH).
const NO_THRESHOLD: u32 = 0x7fff_ffff;
const PORT: u16 = 7000;

/// A network whose server has a way to its client that can be changed.
struct Way(Topology);

impl Way {
    fn new(link: &str) -> Way {
        let way = Way(Topology::create(&scenario("way", link, ""), 0, Family::V4).expect("a network"));
        // sockets have it when they connect; BBR, which may be the default, would lift the threshold
        way.sysctl("net.ipv4.tcp_congestion_control=reno");
        way
    }

    fn ip(&self, words: &[&str]) -> String {
        let out = self.0.host("server").run(&[&["ip", "-o"], words].concat()).expect("iproute2");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Gives the server's route to the client a metric.
    fn set(&self, metric: &str, value: &[&str]) {
        let route = self.ip(&["route", "show", &self.0.address_of("client")]);
        let words = ["route", "change"].into_iter().chain(route.split_whitespace());
        self.ip(&words.chain([metric]).chain(value.iter().copied()).collect::<Vec<_>>());
    }

    /// Bounds a metric of the server's route to the client.
    fn lock(&self, metric: &str, value: &str) {
        self.sysctl("net.ipv4.tcp_no_ssthresh_metrics_save=0");
        self.set(metric, &["lock", value]);
        // connections go by it once one to the same peer has ended
        self.sender("reno").send(10_000);
        let bound = format!("{metric} {value}");
        until(&bound, || self.ip(&["tcp_metrics", "show"]).contains(&bound));
    }

    fn sysctl(&self, setting: &str) {
        self.0.host("server").run(&["sysctl", "-qw", setting]).expect("sysctl");
    }

    /// Whether packets go through, or are dropped between server and client.
    fn set_open(&self, is_open: bool) {
        let write = || Ok(fs::write("/proc/sys/net/ipv4/ip_forward", if is_open { "1" } else { "0" })?);
        self.0.host("box").enter(write).expect("a router");
    }

    fn counter(&self, name: &str) -> u64 {
        tcp_counters(self.0.host("server")).expect("the kernel's counters").get(name).copied().unwrap_or(0)
    }

    /// A connection from the server to the client, which takes all that it is sent.
    fn sender(&self, algorithm: &str) -> Sender {
        let address = self.0.address_of("client");
        let listen = || Ok(TcpListener::bind((address.as_str(), PORT))?);
        let listener = self.0.host("client").enter(listen).expect("a free port");
        let connect = || Ok(TcpStream::connect((address.as_str(), PORT))?);
        let stream = self.0.host("server").enter(connect).expect("a connection");
        let mut taken = listener.accept().expect("a connection").0;
        thread::spawn(move || {
            let mut block = vec![0; 1 << 16];
            while matches!(taken.read(&mut block), Ok(1..)) {}
        });
        stream.set_write_timeout(Some(LIMIT)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        let sender = Sender(stream);
        sender.choose(algorithm);
        sender
    }
}

/// The sending end of a connection.
struct Sender(TcpStream);

impl Sender {
    fn choose(&self, algorithm: &str) {
        // SAFETY: the name is live for the call.
        let result = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                algorithm.as_ptr().cast(),
                algorithm.len() as u32,
            )
        };
        assert_eq!(result, 0, "{algorithm}: {}", std::io::Error::last_os_error());
    }

    fn info(&self) -> libc::tcp_info {
        // SAFETY: plain data, valid as zeros; the kernel writes no more than the length it is given.
        unsafe {
            let mut info: libc::tcp_info = mem::zeroed();
            let mut length = size_of::<libc::tcp_info>() as u32;
            let result = libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &mut length,
            );
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
            info
        }
    }

    /// The algorithm's own state, with which the native home's record of a socket begins.
    fn state<T: Default>(&self) -> T {
        let key = self.0.as_raw_fd().to_ne_bytes();
        let maps = MapInfoIter::default().filter(|map| map.name == "wl_sockets");
        let found =
            maps.filter_map(|map| MapHandle::from_map_id(map.id).ok()?.lookup(&key, MapFlags::ANY).ok()?);
        let bytes = found.last().expect("one of ours runs");
        assert!(bytes.len() >= size_of::<T>());
        // SAFETY: plain data of at most this length, valid for any bytes.
        unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<T>()) }
    }

    /// Sends so many bytes and waits until all has been acknowledged. Returns what the kernel reports then.
    fn send(&mut self, bytes: usize) -> libc::tcp_info {
        self.0.write_all(&vec![7; bytes]).expect("sent");
        let mut info = self.info();
        until("all is acknowledged", || {
            info = self.info();
            let mut unsent: libc::c_int = 0;
            // SAFETY: the kernel writes one number.
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &mut unsent) };
            unsent == 0
        });
        info
    }
}

/// Of no more than it takes in here.
const WIDE: &str = "rate = \"200 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"4 BDP\"";

#[test]
fn a_socket_begins_with_the_threshold_of_its_route() {
    if !is_root_or_skip("a_socket_begins_with_the_threshold_of_its_route") {
        return;
    }
    let loaded = Loaded::new();
    let way = Way::new(WIDE);
    way.lock("ssthresh", "20");
    for algorithm in ["reno", "cubic", "kcubic"] {
        // in slow start the window would be half of it
        let info = way.sender(&loaded.name(algorithm)).send(500_000);
        assert_eq!(info.tcpi_snd_ssthresh, 20, "{algorithm}");
        assert!((20..50).contains(&info.tcpi_snd_cwnd), "{algorithm}: {} segments", info.tcpi_snd_cwnd);
    }
}

#[test]
fn a_socket_that_changes_its_algorithm_keeps_its_threshold() {
    if !is_root_or_skip("a_socket_that_changes_its_algorithm_keeps_its_threshold") {
        return;
    }
    let loaded = Loaded::new();
    let way = Way::new("rate = \"20 Mbit/s\"\ndelay = \"10 ms\"\nbuffer = \"1 BDP\"");
    let mut sender = way.sender("cubic");
    let mut info = sender.send(2_000_000);
    assert_ne!(info.tcpi_snd_ssthresh, NO_THRESHOLD, "slow start has ended with a loss");
    for name in [loaded.name("reno"), loaded.name("cubic"), "reno".into(), loaded.name("kcubic")] {
        sender.choose(&name);
        let now = sender.info();
        assert_eq!(
            (now.tcpi_snd_ssthresh, now.tcpi_snd_cwnd),
            (info.tcpi_snd_ssthresh, info.tcpi_snd_cwnd),
            "{name}"
        );
        info = sender.send(200_000);
        assert_ne!(info.tcpi_snd_ssthresh, NO_THRESHOLD, "{name}");
    }
}

/// As tcp_cwnd_restart() in Linux.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_window_begins_after_a_pause_with_its_routes_initial_window() {
    if !is_root_or_skip("a_window_begins_after_a_pause_with_its_routes_initial_window") {
        return;
    }
    let loaded = Loaded::new();
    let way = Way::new(WIDE);
    way.set("initcwnd", &["40"]);
    for algorithm in ["reno", "cubic"] {
        let mut sender = way.sender("reno");
        sender.choose(&loaded.name(algorithm));
        let before = sender.send(1_000_000).tcpi_snd_cwnd;
        assert!(before > 80, "{algorithm}: {before} segments");
        // halved for each of these seconds at least
        until("three seconds go by", || sender.info().tcpi_last_data_sent >= 3000);
        let after = sender.send(1000).tcpi_snd_cwnd;
        assert!((40..=42).contains(&after), "{algorithm}: {before} segments became {after}");
    }
}

/// Each short answer on a connection that rests between them is a pause of a round trip and a little more.
#[test]
fn cubics_window_follows_its_curve_after_many_short_answers() {
    if !is_root_or_skip("cubics_window_follows_its_curve_after_many_short_answers") {
        return;
    }
    let loaded = Loaded::new();
    let way = Way::new(WIDE);
    way.sysctl("net.ipv4.tcp_slow_start_after_idle=0");
    way.lock("ssthresh", "20");
    for algorithm in ["cubic", "kcubic"] {
        let mut sender = way.sender(&loaded.name(algorithm));
        // the epoch begins
        let before = sender.send(100_000).tcpi_snd_cwnd;
        for _ in 0..20 {
            sender.send(1000);
        }
        let after = sender.send(500_000).tcpi_snd_cwnd;
        // a segment a round trip, and not the half of the window that an hour on the curve would be worth
        assert!(after <= before + 25, "{algorithm}: {before} segments became {after}");
    }
}

/// What its route does not allow a socket never sends: a loss takes nothing away from that, but from what is in use.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_window_that_its_route_bounds_shrinks_with_a_loss() {
    if !is_root_or_skip("a_window_that_its_route_bounds_shrinks_with_a_loss") {
        return;
    }
    let loaded = Loaded::new();
    let way = Way::new("rate = \"200 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"4 BDP\"\nloss = \"0.2 %\"");
    way.lock("cwnd", "20");
    for algorithm in ["reno", "cubic", "kcubic", "kreno", "dctcp", "l2dct", "trim"] {
        let info = way.sender(&loaded.name(algorithm)).send(4_000_000);
        assert!(info.tcpi_total_retrans > 0, "{algorithm}: nothing was lost");
        assert!(info.tcpi_snd_ssthresh < 20, "{algorithm}: {} segments", info.tcpi_snd_ssthresh);
    }
}

/// Sends over a lossy path until everything stops in the middle of a recovery, and then waits for the timeout in which that
/// ends. What the kernel reports of the connection then, which is still cut off.
fn stop_in_recovery(way: &Way, sender: &mut Sender) -> libc::tcp_info {
    const RECOVERY: u8 = 3;
    const LOSS: u8 = 4;
    let end = Instant::now() + LIMIT;
    sender.0.set_nonblocking(true).expect("a socket");
    let feed = |sender: &mut Sender| {
        let _ = sender.0.write(&[7; 1 << 16]);
        assert!(Instant::now() < end, "no timeout in a recovery");
        sender.info()
    };
    loop {
        while feed(sender).tcpi_ca_state != RECOVERY {}
        let before = way.counter("TCPSackRecoveryFail");
        way.set_open(false);
        let info = loop {
            let info = feed(sender);
            if info.tcpi_ca_state != RECOVERY {
                break info;
            }
        };
        if info.tcpi_ca_state == LOSS && way.counter("TCPSackRecoveryFail") > before {
            // again, as the kernel reads the window before it waits for the timer
            return sender.info();
        }
        // it was over before
        way.set_open(true);
    }
}

/// A segment that is lost once more ends a recovery with a timeout, for which the kernel requests no new threshold.
#[test]
fn a_timeout_in_recovery_is_reported_with_what_it_found_lost() {
    if !is_root_or_skip("a_timeout_in_recovery_is_reported_with_what_it_found_lost") {
        return;
    }
    let loaded = Loaded::new();
    let way = Way::new("rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"\nloss = \"1 %\"");
    let mut sender = way.sender(&loaded.name("kcubic"));
    let info = stop_in_recovery(&way, &mut sender);
    assert_eq!(sender.state::<wl_kcubic>().w_max_segs, 0, "the curve before is forgotten");
    let pipe = info.tcpi_unacked + info.tcpi_retrans - info.tcpi_sacked - info.tcpi_lost;
    assert_eq!(info.tcpi_snd_cwnd, pipe, "what was in flight, and the segment that is sent again");
    way.set_open(true);
    let mut sender = way.sender(&loaded.name("bbr"));
    let probes_before = way.counter("TCPLossProbes");
    let info = stop_in_recovery(&way, &mut sender);
    let state: wl_bbr = sender.state();
    assert_eq!(state.full_bw, 0, "the pipe is judged anew");
    let told = state.lost_bytes / info.tcpi_snd_mss;
    // whatever is retransmitted was lost, but for probes, and what is lost has not all been retransmitted
    let probes = (way.counter("TCPLossProbes") - probes_before) as u32;
    let lost = (info.tcpi_total_retrans + info.tcpi_lost).saturating_sub(probes + info.tcpi_retrans);
    println!("{told} of {lost} losses told, {} by the timeout, {probes} probes", info.tcpi_lost);
    assert!(told >= lost && told <= lost + probes + 2, "{told} losses told of {lost}");
}
