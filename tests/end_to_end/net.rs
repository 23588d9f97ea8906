//! A server, a box and a client over plain cables, and an endless transfer between them.

use anyhow::Context;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde_json::Value;
use std::{
    fs,
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};
use windlass_agent::GroupHome;
use windlass_core::abi::wl_group;
use windlass_lab::netns::{self, Netns};
use windlass_tests::{
    process::{LIMIT, Process, until},
    windlass_path,
};

const PORT: u16 = 7000;
const CHUNK: usize = 64 << 10;
/// Of the server's own cable: as much as any test needs, and leaves the processors to the rest.
const SERVER_RATE: &str = "400mbit";

/// Folder of the groups that the interfaces of a namespace share, if they share some.
pub fn shared_groups(namespace: u64) -> Option<PathBuf> {
    let of_namespace = format!("groups-{namespace}-");
    let mut pins = fs::read_dir("/sys/fs/bpf/windlass").into_iter().flatten().flatten();
    let shared = pins.find(|e| e.file_name().to_string_lossy().starts_with(&of_namespace))?;
    Some(shared.path())
}

/// server -- box -- client over cables.
pub struct Net {
    pub server: Netns,
    pub middle: Netns,
    pub client: Netns,
}

impl Net {
    /// The server sends with the congestion control `algorithm`.
    pub fn create(algorithm: &str) -> Net {
        let run = netns::next_run();
        let create = |host| Netns::create(run, host).expect("a namespace");
        let net = Net { server: create("server"), middle: create("box"), client: create("client") };
        net.connect(&net.server, 1, algorithm);
        net.connect(&net.client, 2, algorithm);
        net.limit_server();
        net.middle.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]).expect("sysctl");
        net
    }

    /// Lays the cable from a host to the box's interface r1 or r2.
    fn connect(&self, host: &Netns, subnet: u8, algorithm: &str) {
        let device = format!("r{subnet}");
        let (own, gateway) = (format!("10.79.{subnet}.2/24"), format!("10.79.{subnet}.1"));
        let (middle, inner) = (&self.middle, format!("{gateway}/24"));
        let (here, there) = (["ip", "link", "add", "eth0"], ["type", "veth", "peer", "name", &device]);
        let commands: [(&Netns, &[&str]); 6] = [
            (host, &[&here[..], &there, &["netns", middle.name()]].concat()),
            (host, &["ip", "addr", "add", &own, "dev", "eth0"]),
            (host, &["ip", "link", "set", "eth0", "up"]),
            (middle, &["ip", "addr", "add", &inner, "dev", &device]),
            (middle, &["ip", "link", "set", &device, "up"]),
            (host, &["ip", "route", "add", "default", "via", &gateway, "congctl", algorithm]),
        ];
        for (ns, words) in commands {
            ns.run(words).expect("iproute2");
        }
    }

    /// Puts another interface of its name in the place of the one that faces the server, as when a machine starts anew.
    pub fn replace_interface(&self, algorithm: &str) {
        self.middle.run(&["ip", "link", "del", "r1"]).expect("iproute2");
        self.connect(&self.server, 1, algorithm);
        self.limit_server();
    }

    /// The server's stack waits for its cable, which loses nothing.
    fn limit_server(&self) {
        let words = format!("tc qdisc add dev eth0 root tbf rate {SERVER_RATE} burst 128kb limit 8mb");
        self.server.run(&words.split(' ').collect::<Vec<_>>()).expect("tc");
    }

    /// Inode of the box's namespace, by which it is known.
    pub fn namespace(&self) -> u64 {
        self.middle.enter(|| Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())).expect("its number")
    }

    /// Where the datapath of the interface that faces the server is pinned.
    pub fn pins(&self) -> PathBuf {
        self.pins_of("r1")
    }

    /// The same of any of the box's interfaces.
    pub fn pins_of(&self, iface: &str) -> PathBuf {
        Path::new("/sys/fs/bpf/windlass").join(self.namespace().to_string()).join(iface)
    }

    /// The symbolic link among the pins by which it is known what their state is.
    pub fn noted_state(&self) -> PathBuf {
        self.pins().join("state")
    }

    /// What is known of it beside the pins themselves.
    pub fn record(&self, what: &str) -> PathBuf {
        self.record_of("r1", what)
    }

    /// The same of any of the box's interfaces.
    pub fn record_of(&self, iface: &str, what: &str) -> PathBuf {
        PathBuf::from(format!("/run/windlass/{}-{iface}{what}", self.namespace()))
    }

    /// Has the interface another clock than these, and is its datapath pinned? The record of the process that pinned it comes last.
    pub fn is_controlled_anew(&self, clocks: &[String]) -> bool {
        let now = self.clocks();
        now.len() == 2 && now != clocks && self.record("").exists()
    }

    /// Are there groups that the box's interfaces could share?
    pub fn has_groups(&self) -> bool {
        shared_groups(self.namespace()).is_some()
    }

    /// The first group that the box's interfaces share.
    pub fn group(&self) -> wl_group {
        let path = shared_groups(self.namespace()).expect("groups are shared").join("wl_groups");
        let map = MapHandle::from_pinned_path(path).expect("a map");
        let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).expect("readable").expect("there");
        assert!(bytes.len() >= size_of::<GroupHome>());
        // SAFETY: plain data of at most this length, valid for any bytes.
        unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<GroupHome>()) }.group
    }

    /// Connections between the client and a program on the server that has sent some bytes over each and sends no more.
    pub fn idle_connections(&self, count: usize) -> Vec<[TcpStream; 2]> {
        let listener = self.server.enter(|| Ok(TcpListener::bind(("0.0.0.0", PORT))?)).expect("a free port");
        let connect = |_| {
            let client = self.client.enter(|| Ok(connect()?));
            let mut ends = [accept(&listener), client.expect("a connection")];
            ends[0].write_all(&[7; CHUNK]).expect("sent");
            ends[1].read_exact(&mut [0; CHUNK]).expect("received");
            ends
        };
        (0..count).map(connect).collect()
    }

    /// Names of the clocks' devices on the box.
    pub fn clocks(&self) -> Vec<String> {
        let links = self.middle.run(&["ip", "-o", "link"]).expect("iproute2").stdout;
        let links = String::from_utf8_lossy(&links);
        // 7: wlc5a@wlc5b: <...; what is behind the @ changes as the pair goes
        let names = links.lines().filter_map(|l| l.split([' ', '@']).nth(1));
        names.filter(|n| n.starts_with("wlc")).map(String::from).collect()
    }

    /// Deletes the clock, of which there is one.
    pub fn delete_clock(&self) {
        let shaped = self.clocks().into_iter().find(|n| n.ends_with('a')).expect("a clock");
        self.middle.run(&["ip", "link", "del", &shaped]).expect("iproute2");
    }

    /// Index of the clock's far end, and how many frames came to its program; None: the clock is away.
    pub fn clock(&self) -> Option<(u64, u64)> {
        let far = self.clocks().into_iter().find(|n| n.ends_with('b'))?;
        let out = self.middle.run(&["ip", "-s", "-j", "link", "show", &far]).ok()?.stdout;
        let link: Value = serde_json::from_slice(&out).expect("JSON");
        Some((link[0]["ifindex"].as_u64()?, link[0]["stats64"]["rx"]["packets"].as_u64()?))
    }

    /// `windlass` on the box. What controls has little memory, unless `words` have how much: to make that of an operator's box takes
    /// as long as all else of a short test.
    pub fn windlass(&self, words: &[&str]) -> Command {
        let mut command = self.middle.command(windlass_path().to_str().expect("UTF-8"));
        command.args(words).stdin(Stdio::null());
        if matches!(words, ["attach" | "agent", ..]) && !words.contains(&"--native") {
            let has = |option| words.contains(&option);
            command.args(["--flows", "2048"].iter().filter(|_| !has("--flows")));
            command.args(["--store-mib", "32"].iter().filter(|_| !has("--store-mib")));
        }
        command
    }

    /// Its output; it must succeed.
    pub fn answer(&self, words: &[&str]) -> String {
        let out = self.windlass(words).output().expect("windlass runs");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Starts the agent and waits until it reports `expected`.
    pub fn agent(&self, policy: &Path, expected: &str) -> Process {
        self.agent_with(policy, &[], expected)
    }

    /// The same with further words.
    pub fn agent_with(&self, policy: &Path, words: &[&str], expected: &str) -> Process {
        let own = ["agent", "--policy", policy.to_str().expect("UTF-8")];
        let agent = Process::start(&mut self.windlass(&[&own, words].concat()));
        agent.says(expected);
        agent
    }

    pub fn flows(&self) -> Vec<Value> {
        let value: Value = serde_json::from_str(&self.answer(&["flows", "--json"])).expect("JSON");
        value["flows"].as_array().expect("a list").clone()
    }

    /// Has the box lose what comes too fast for the client.
    pub fn bottleneck(&self) {
        self.bottleneck_of("200mbit");
    }

    /// The same at another rate.
    pub fn bottleneck_of(&self, rate: &str) {
        let words = format!("tc qdisc add dev r2 root tbf rate {rate} burst 20kb limit 60kb");
        self.middle.run(&words.split(' ').collect::<Vec<_>>()).expect("tc");
    }

    /// How many segments were repaired of the only flow, which must be controlled.
    pub fn repaired(&self) -> u64 {
        let flows = self.flows();
        assert_eq!(flows.len(), 1, "still the same flow: {flows:?}");
        assert_eq!((&flows[0]["mode"], &flows[0]["only_watched"]), (&"transparent".into(), &Value::Null));
        flows[0]["repaired_segs"].as_u64().expect("a number")
    }

    /// Waits until some segment more was repaired.
    pub fn repairs_go_on(&self, progress: &dyn Fn()) {
        let before = self.repaired();
        until("a repair", || {
            progress();
            self.repaired() != before
        });
    }
}

/// Bytes of the stream that differ in their last eight bits of offset alone.
const RUN: usize = 256;

/// The stream from `offset` to the end of its run, whose byte is `offset ^ offset >> 8 ^ offset >> 16`: any loss, gap or repetition
/// shows. Whole runs at once, as this build is not optimised, and bytes one by one would take most of a processor.
fn pattern(offset: u64) -> &'static [u8] {
    static RUNS: LazyLock<Vec<[u8; RUN]>> =
        LazyLock::new(|| (0..=u8::MAX).map(|run| std::array::from_fn(|i| i as u8 ^ run)).collect());
    let run = (offset >> 8 ^ offset >> 16) as u8;
    &RUNS[usize::from(run)][offset as usize % RUN..]
}

/// Makes `block` what the stream has at `offset`.
fn write_pattern(mut block: &mut [u8], mut offset: u64) {
    while !block.is_empty() {
        let run = pattern(offset);
        let len = run.len().min(block.len());
        let (now, rest) = block.split_at_mut(len);
        now.copy_from_slice(&run[..len]);
        (block, offset) = (rest, offset + len as u64);
    }
}

/// `block` must be what the stream has at `offset`.
fn check_pattern(mut block: &[u8], mut offset: u64) {
    while !block.is_empty() {
        let run = pattern(offset);
        let (now, rest) = block.split_at(run.len().min(block.len()));
        assert_eq!(now, &run[..now.len()], "bytes from {offset} on");
        (block, offset) = (rest, offset + now.len() as u64);
    }
}

/// Has a program that waits for this connection fail where it stands still.
fn limited(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Connects to the server, from the client's namespace.
fn connect() -> io::Result<TcpStream> {
    limited(TcpStream::connect_timeout(&([10, 79, 1, 2], PORT).into(), LIMIT)?)
}

/// Waits for the client.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket");
    let mut taken = None;
    until("the client connects", || {
        taken = listener.accept().ok();
        taken.is_some()
    });
    let (stream, _) = taken.expect("it has connected");
    stream.set_nonblocking(false).and_then(|()| limited(stream)).expect("a socket")
}

/// Sends from the server's namespace until stopped; returns how much.
fn serve(net: &Net, stop_at: &AtomicU64) -> u64 {
    net.server
        .enter(|| {
            let mut stream = accept(&TcpListener::bind(("0.0.0.0", PORT))?);
            let mut sent = 0;
            let mut block = vec![0; CHUNK];
            while sent < stop_at.load(Ordering::Relaxed) {
                write_pattern(&mut block, sent);
                stream.write_all(&block).context("sending")?;
                sent += CHUNK as u64;
            }
            stream.shutdown(Shutdown::Write)?;
            stream.read_to_end(&mut Vec::new()).context("waiting for the client's end")?;
            Ok(sent)
        })
        .unwrap_or_else(|e| panic!("the server: {e:#}"))
}

/// Receives and checks every byte; returns how many.
fn fetch(net: &Net, received: &AtomicU64) -> u64 {
    net.client
        .enter(|| {
            let mut connected = None;
            until("the server listens", || {
                connected = connect().ok();
                connected.is_some()
            });
            let mut stream = connected.expect("it is connected");
            let mut block = vec![0; CHUNK];
            let mut total = 0;
            loop {
                let n = stream.read(&mut block).with_context(|| format!("receiving after {total} bytes"))?;
                if n == 0 {
                    return Ok(total);
                }
                check_pattern(&block[..n], total);
                total += n as u64;
                received.store(total, Ordering::Relaxed);
            }
        })
        .unwrap_or_else(|e| panic!("the client: {e:#}"))
}

/// Ends a transfer when it goes out of scope, so that a failed test does not wait for it.
struct Stop<'a>(&'a AtomicU64);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Runs `during` while a transfer is under way; makes sure that the transfer goes on before and after each of its steps.
pub fn with_transfer(net: &Net, during: impl FnOnce(&dyn Fn())) {
    let stop_at = AtomicU64::new(u64::MAX);
    let received = AtomicU64::new(0);
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(net, &stop_at));
        let client = scope.spawn(|| fetch(net, &received));
        let progress = || {
            let goal = received.load(Ordering::Relaxed) + (1 << 20);
            until("the transfer goes on", || {
                assert!(!client.is_finished(), "the transfer broke off");
                received.load(Ordering::Relaxed) >= goal
            });
        };
        let stop = Stop(&stop_at);
        progress();
        during(&progress);
        progress();
        drop(stop);
        let (sent, got) = (server.join().expect("served"), client.join().expect("fetched"));
        assert_eq!(sent, got);
    });
}
