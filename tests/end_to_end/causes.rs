//! Causes planted on real kernels: the first one that `windlass why` names must be the one that was planted.
//!
//!     server --- box ~~~ link ~~~ client
//!
//! All run in `make test-long`; `make test` has one of each kind that takes no emulated path of its own.

use crate::scenario;
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    mem,
    net::{TcpListener, TcpStream},
    os::fd::AsRawFd,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use windlass_lab::{Family, Topology, netns::Netns};
use windlass_tests::{
    is_root_or_skip,
    process::{LIMIT, Process, until},
    windlass_path,
};

const PORT: u16 = 7000;
/// How long a flow goes on before it is asked about.
const GROWN: Duration = Duration::from_secs(6);
const LONG: &str = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"";
const WIDE: &str = "rate = \"100 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"4 BDP\"";

/// A socket option of an integer.
type Option3 = (i32, i32, i32);

/// What is planted, and the cause that must be named.
#[derive(Clone, Copy)]
struct Planted {
    name: &'static str,
    cause: &'static str,
    /// Of the link to the client.
    link: &'static str,
    /// Of the link to the server; a plain cable if it is empty.
    server_link: &'static str,
    /// What a rule has besides its interface.
    rule: &'static str,
    /// Of the agent.
    words: &'static [&'static str],
    /// Of all hosts' TCP.
    tcp: &'static str,
    server_options: &'static [Option3],
    client_options: &'static [Option3],
    /// Congestion control of the server's socket.
    server_algorithm: &'static str,
    /// What the server writes at a time, and how long it waits in between.
    write: (usize, Duration),
    /// How much the client reads at a time, and how long it waits in between.
    read: (usize, Duration),
    /// The server sends so much and no more.
    most_bytes: u64,
    /// The connection is older than the agent.
    is_older: bool,
    /// Connections that share the path, or the group.
    connections: usize,
}

const BULK: (usize, Duration) = (64 << 10, Duration::ZERO);

/// Whether a server paces itself is judged by its pauses, of which an application makes some, too: only one plant is about that.
const CUBIC: &str = "algorithm = \"cubic\"\npaced_servers = \"control\"";
const BBR: &str = "algorithm = \"bbr\"\npaced_servers = \"control\"";
const RENO: &str = "algorithm = \"reno\"\npaced_servers = \"control\"";

const PLAIN: Planted = Planted {
    name: "",
    cause: "",
    link: LONG,
    server_link: "",
    rule: CUBIC,
    words: &[],
    tcp: "",
    server_options: &[],
    client_options: &[],
    server_algorithm: "cubic",
    write: BULK,
    read: BULK,
    most_bytes: u64::MAX,
    is_older: false,
    connections: 1,
};

const fn planted(name: &'static str, cause: &'static str) -> Planted {
    Planted { name, cause, ..PLAIN }
}

const SOL_TCP: i32 = libc::IPPROTO_TCP;
const ECN: &str = "[tcp]\necn = \"classic\"\n";

/// All of them.
fn all() -> Vec<Planted> {
    vec![
        Planted {
            write: (20_000, Duration::from_millis(100)),
            ..planted("application writes seldom", "application")
        },
        Planted {
            write: (3_000, Duration::from_millis(11)),
            ..planted("application writes often", "application")
        },
        Planted { most_bytes: 500_000, ..planted("application has ended its answer", "application") },
        Planted {
            link: WIDE,
            server_options: &[(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 400_000)],
            ..planted("the socket's rate is limited", "application")
        },
        Planted {
            link: WIDE,
            client_options: &[(libc::SOL_SOCKET, libc::SO_RCVBUF, 40_000)],
            ..planted("small receive buffer", "receiver")
        },
        Planted {
            link: WIDE,
            read: (20_000, Duration::from_millis(40)),
            ..planted("client reads slowly", "receiver")
        },
        Planted {
            link: WIDE,
            server_options: &[(libc::SOL_SOCKET, libc::SO_SNDBUF, 60_000)],
            ..planted("small send buffer", "send_buffer")
        },
        Planted { link: POLICED, ..planted("policer, cubic", "policer") },
        Planted { link: POLICED, rule: RENO, ..planted("policer, reno", "policer") },
        Planted { link: POLICED, rule: BBR, ..planted("policer, bbr", "policer") },
        Planted { link: BLOATED, ..planted("bufferbloat, cubic", "bufferbloat") },
        Planted { link: BLOATED, rule: RENO, ..planted("bufferbloat, reno", "bufferbloat") },
        Planted { link: LOSSY, ..planted("random losses, cubic", "loss") },
        Planted { link: LOSSY, rule: RENO, ..planted("random losses, reno", "loss") },
        Planted {
            link: WIDE,
            rule: "algorithm = \"cubic\"\ngroup = { name = \"tenants\", rule = \"fse\" }",
            connections: 4,
            ..planted("share of a group", "group")
        },
        Planted {
            link: "rate = \"100 Mbit/s\"\ndelay = \"1 ms\"\nbuffer = \"4 BDP\"",
            server_link: "rate = \"1 Gbit/s\"\ndelay = \"30 ms\"\nbuffer = \"2 BDP\"",
            ..planted("far server", "far_server")
        },
        Planted {
            rule: "algorithm = \"cubic\"",
            server_algorithm: "bbr",
            ..planted("the server paces itself", "self_paced")
        },
        Planted { rule: "mode = \"watch\"", ..planted("rule watches", "rule_watch") },
        Planted { rule: "mode = \"off\"", ..planted("rule leaves alone", "rule_off") },
        Planted { is_older: true, ..planted("older than the agent", "mid_stream") },
        Planted {
            link: "rate = \"1 Gbit/s\"\ndelay = \"40 ms\"\nbuffer = \"2 BDP\"",
            words: &["--store-mib", "1", "--flows", "16"],
            connections: 6,
            ..planted("store too small", "bypass")
        },
        Planted {
            link: "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"4 BDP\"\necn = \"20 kB\"",
            tcp: ECN,
            ..planted("marks", "marks")
        },
        Planted { rule: BBR, ..planted("full bottleneck, bbr", "bottleneck") },
    ]
}

const POLICED: &str = "rate = \"1 Gbit/s\"\ndelay = \"20 ms\"\nbuffer = \"2 BDP\"\npolicer = { rate = \"10 Mbit/s\", burst = \"60 kB\" }";
const BLOATED: &str = "rate = \"20 Mbit/s\"\ndelay = \"10 ms\"\nbuffer = \"10 BDP\"";
const LOSSY: &str = "rate = \"200 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"2 BDP\"\nloss = \"1 %\"";

fn set(stream: &impl AsRawFd, options: &[Option3]) {
    for (level, name, value) in options {
        // SAFETY: an open socket and a live integer.
        let set = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                *level,
                *name,
                (value as *const i32).cast(),
                size_of::<i32>() as u32,
            )
        };
        assert_eq!(set, 0, "option {name}");
    }
}

fn set_algorithm(stream: &impl AsRawFd, name: &str) {
    // SAFETY: an open socket and a live string.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            SOL_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as u32,
        )
    };
    assert_eq!(set, 0, "{name} is there");
}

/// Writes as planted until stopped.
fn serve(planted: &Planted, mut stream: TcpStream, is_over: &AtomicBool) {
    let (bytes, pause) = planted.write;
    let block = vec![7; bytes];
    let mut left = planted.most_bytes;
    while !is_over.load(Ordering::Relaxed) {
        if left > 0 {
            let n = block.len().min(left as usize);
            if stream.write_all(&block[..n]).is_err() {
                return;
            }
            left -= n as u64;
        }
        if left == 0 || !pause.is_zero() {
            thread::sleep(pause.max(Duration::from_millis(1)));
        }
    }
}

/// Reads as planted until stopped.
fn fetch(planted: &Planted, mut stream: TcpStream, is_over: &AtomicBool) {
    let (bytes, pause) = planted.read;
    let mut block = vec![0; bytes];
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
    while !is_over.load(Ordering::Relaxed) {
        if matches!(stream.read(&mut block), Ok(0)) {
            return;
        }
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
}

/// A client that connects with its options set before.
fn connect(planted: &Planted, address: &str) -> TcpStream {
    let address: std::net::Ipv4Addr = address.parse().expect("an address");
    // SAFETY: makes a socket, which nothing else owns.
    let stream = unsafe {
        use std::os::fd::FromRawFd;
        TcpStream::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))
    };
    set(&stream, planted.client_options);
    // SAFETY: all zero is a valid address.
    let mut to: libc::sockaddr_in = unsafe { mem::zeroed() };
    to.sin_family = libc::AF_INET as u16;
    to.sin_port = PORT.to_be();
    to.sin_addr.s_addr = u32::from(address).to_be();
    until("the client connects", || {
        // SAFETY: an open socket and a live address.
        let connected =
            unsafe { libc::connect(stream.as_raw_fd(), (&raw const to).cast(), size_of_val(&to) as u32) };
        connected == 0
    });
    stream
}

/// Connections of the planted kind, until dropped.
struct Traffic {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Traffic {
    fn start(planted: Planted, net: &Topology) -> Traffic {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let listener =
            net.host("server").enter(|| Ok(TcpListener::bind(("0.0.0.0", PORT))?)).expect("a free port");
        // as windows are scaled, and whether the socket is paced, is what the listener has
        set_algorithm(&listener, planted.server_algorithm);
        set(
            &listener,
            &planted.server_options.iter().filter(|o| o.1 == libc::SO_SNDBUF).copied().collect::<Vec<_>>(),
        );
        let address = net.address_of("server");
        for _ in 0..planted.connections {
            let client = net.host("client").enter(|| Ok(connect(&planted, &address))).expect("a client");
            let (server, _) = listener.accept().expect("a server");
            set(&server, planted.server_options);
            let (serves, fetches) = (is_over.clone(), is_over.clone());
            threads.push(thread::spawn(move || serve(&planted, server, &serves)));
            threads.push(thread::spawn(move || fetch(&planted, client, &fetches)));
        }
        Traffic { is_over, threads }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn windlass(host: &Netns, words: &[&str]) -> std::process::Command {
    let mut command = host.command(windlass_path().to_str().expect("UTF-8"));
    command.args(words).stdin(Stdio::null());
    command
}

/// What is named of the busiest flow, and all that is known of it.
fn named(planted: Planted) -> (String, Value) {
    let scene = format!("{}\n", planted.tcp);
    let mut scene = scenario("causes", planted.link, &scene);
    if !planted.server_link.is_empty() {
        let text = format!(
            "name = \"causes\"\ntime_limit = \"60 s\"\n[[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n[[host]]\nname = \"client\"\n\
             [[link]]\nbetween = [\"server\", \"box\"]\n{}\n[[link]]\nbetween = [\"box\", \"client\"]\n{}\n[windlass]\nat = \"box\"\nfacing = \"server\"\n",
            planted.server_link, planted.link
        );
        scene = windlass_scenario::Scenario::parse("causes", &text).expect("a sound scenario");
    }
    let net = Topology::create(&scene, 0, Family::V4).expect("a network");
    let iface = net.interface("box", "server").expect("a link");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    let policy =
        format!("[[rule]]\nname = \"planted\"\nmatch = {{ iface = \"{iface}\" }}\n{}\n", planted.rule);
    fs::write(&file, policy).expect("writable");
    let start = || {
        let file = file.to_str().expect("UTF-8");
        let mut words = vec!["agent", "--policy", file, "--detach-on-exit"];
        words.extend(if planted.words.is_empty() {
            &["--store-mib", "64", "--flows", "64"]
        } else {
            planted.words
        });
        let agent = Process::start(&mut windlass(net.host("box"), &words));
        agent.says("under control");
        agent
    };
    let traffic;
    let mut agent;
    if planted.is_older {
        traffic = Traffic::start(planted, &net);
        agent = start();
    } else {
        agent = start();
        traffic = Traffic::start(planted, &net);
    }
    // a ledger from now on, as it has no agent that keeps records
    let begun = Instant::now();
    let wait_ms = GROWN.as_millis().to_string();
    let out = windlass(net.host("box"), &["why", "planted", "--json", "--wait-ms", &wait_ms]);
    let mut last = String::new();
    let mut out = out;
    let value = loop {
        let answer = out.output().expect("windlass runs");
        if answer.status.success() {
            break serde_json::from_slice::<Value>(&answer.stdout).expect("JSON");
        }
        last = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(begun.elapsed() < LIMIT, "{}: {last}", planted.name);
        thread::sleep(Duration::from_millis(50));
    };
    drop(traffic);
    agent.end(libc::SIGINT);
    let flow = value["flows"][0].clone();
    (flow["cause"].as_str().unwrap_or(&last).to_string(), flow)
}

fn report(planted: &Planted, named: &str, flow: &Value) {
    let right = if named == planted.cause { "right" } else { "WRONG" };
    println!("{right}: {}: {named} (planted: {})", planted.name, planted.cause);
    if named != planted.cause {
        let mut shown = flow.clone();
        shown["decisions"] = Value::Null;
        println!("    {shown}");
    }
}

#[test]
#[ignore = "twenty transfers of some seconds each"]
fn causes_that_are_planted_are_named_first() {
    if !is_root_or_skip("causes_that_are_planted_are_named_first") {
        return;
    }
    let only = std::env::var("WINDLASS_CAUSE").unwrap_or_default();
    let all: Vec<Planted> = all().into_iter().filter(|p| p.name.contains(&only)).collect();
    let mut right = 0;
    for planted in &all {
        let (named, flow) = named(*planted);
        report(planted, &named, &flow);
        right += usize::from(named == planted.cause);
    }
    println!("{right} of {} causes named first", all.len());
    assert!(right * 20 >= all.len() * 18, "{right} of {}", all.len());
}

#[test]
fn causes_of_application_receiver_and_rule_are_named() {
    if !is_root_or_skip("causes_of_application_receiver_and_rule_are_named") {
        return;
    }
    let quick = ["application writes seldom", "small receive buffer", "rule watches"];
    let threads: Vec<_> = all()
        .into_iter()
        .filter(|planted| quick.contains(&planted.name))
        .map(|planted| thread::spawn(move || (planted, named(planted))))
        .collect();
    for thread in threads {
        let (planted, (named, flow)) = thread.join().expect("no panic");
        report(&planted, &named, &flow);
        assert_eq!(named, planted.cause, "{}: {flow}", planted.name);
    }
}
