//! Random stacks, links, traffic and upsets, for what is in no other test: all that is sent arrives, and the box has
//! everything back when no host sends any more. WINDLASS_RANDOM_SEED and WINDLASS_RANDOM_COUNT give other situations
//! and more; one that failed prints what it is, and how to have it alone (WINDLASS_RANDOM_ONLY).

use crate::{
    flow,
    net::Net,
    scenario,
    site::{has_connections, nothing_is_left},
};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::{
    cell::{Cell, RefCell},
    env, fs,
    io::{Read, Write},
    iter,
    net::{IpAddr, Shutdown, TcpListener, TcpStream},
    os::fd::AsRawFd,
    path::Path,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use windlass_core::GroupRule;
use windlass_lab::{
    Wan, Wire,
    netns::{self, Netns},
};
use windlass_scenario::LinkModel;
use windlass_tests::{is_root_or_skip, process::Process};

const SEED: u64 = 1;
const COUNT: u64 = 24;
/// Boxes at work at a time, which share the situations out.
const BOXES: u64 = 4;
/// Of what is sent in one situation, whatever the rate.
const MOST_BYTES: u64 = 2_000_000;
const SECONDS: f64 = 0.4;
const FIRST_PORT: u16 = 7000;
/// Nothing is judged by it: only lest a failing test wait for ever.
const READ_LIMIT: Duration = Duration::from_secs(60);
const STORE_MIB: usize = 16;
const STORE_CHUNKS: usize = STORE_MIB * 16;
/// Of a store that is nearly nothing.
const FEW_CHUNKS: usize = 3;

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// Those of one situation.
    fn of(seed: u64, number: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed << 32 ^ number))
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.between(1, 100) <= chance
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.random_range(0..of.len())]
    }
}

/// What a box has room for.
#[derive(Clone, Copy)]
struct Room {
    flows: usize,
    is_store_tiny: bool,
}

impl Room {
    fn of(number: u64) -> Room {
        Room { flows: if number & 1 == 0 { 1024 } else { 4 }, is_store_tiny: number & 2 != 0 }
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    /// The server has sent all, and then the client closes too.
    Server,
    /// The client closes its half as soon as it has sent all.
    ClientEarly,
    /// The client resets it when it has got half.
    Reset,
}

/// A connection, or some, one after the other.
#[derive(Clone, Copy, Debug)]
struct Talk {
    down_bytes: u64,
    up_bytes: u64,
    /// What the two write at a time.
    write_bytes: usize,
    times: u64,
    ending: Ending,
    is_urgent: bool,
    keeps_alive: bool,
    /// The client reads nothing for so long, when it has got some.
    pause_ms: u64,
}

/// What happens while they talk.
#[derive(Clone, Copy, Debug)]
enum Upset {
    Policy,
    /// Killed, and another one takes over.
    Agent,
    /// Killed, and the clock goes with it: nothing is made anew while any host sends.
    AgentAndClock,
    /// The interface is given back and taken again.
    Detached,
    ClientMtu(u32),
}

#[derive(Debug)]
struct Situation {
    is_ipv6: bool,
    link: String,
    server_mtu: u32,
    wan_mtu: u32,
    server_sysctls: Vec<(&'static str, &'static str)>,
    client_sysctls: Vec<(&'static str, &'static str)>,
    /// In one packet that the server hands to its NIC.
    server_segments: u32,
    policies: [String; 2],
    talks: Vec<Talk>,
    /// With how long to wait before.
    upsets: Vec<(u64, Upset)>,
}

fn policy(dice: &mut Dice) -> String {
    let algorithm = dice.one_of(&["reno", "cubic", "bbr", "kcubic", "bbr3"]);
    let rest = match dice.between(0, 9) {
        0 => "mode = \"watch\"\n".to_string(),
        1 => "mode = \"off\"\n".to_string(),
        2..=4 if !algorithm.starts_with("bbr") => {
            let rule = dice.one_of(&GroupRule::all().collect::<Vec<_>>());
            let weight = if rule.has_shares() { dice.between(1, 9) } else { 1 };
            let (name, rule) = (dice.one_of(&["g", "h"]), rule.name());
            format!("group = {{ name = \"{name}\", rule = \"{rule}\", weight = {weight} }}\n")
        }
        _ => String::new(),
    };
    let paced = dice.one_of(&["control", "stand-aside"]);
    format!(
        "[[rule]]\nname = \"all\"\nmatch = {{ iface = \"r1\" }}\nalgorithm = \"{algorithm}\"\n\
         paced_servers = \"{paced}\"\n{rest}"
    )
}

fn link(dice: &mut Dice) -> (String, u64) {
    let rate = dice.between(3, 60);
    let delay_ms = dice.one_of(&[1, 2, 5, 10, 20, 40]);
    let buffer = dice.one_of(&["8 packets", "20 packets", "100 packets", "1 MB"]);
    let mut text = format!("rate = \"{rate} Mbit/s\"\ndelay = \"{delay_ms} ms\"\nbuffer = \"{buffer}\"\n");
    match dice.between(0, 3) {
        0 => {}
        1 => text += "bursts = { to_bad = \"0.5 %\", to_good = \"30 %\", loss_bad = \"60 %\" }\n",
        _ => text += &format!("loss = \"{}.{} %\"\n", dice.between(0, 3), dice.between(1, 9)),
    }
    if dice.percent(30) {
        text += &format!("loss_back = \"{} %\"\n", dice.between(1, 5));
    }
    if dice.percent(30) {
        text += &format!("jitter = \"{delay_ms} ms\"\nreorder = {}\n", dice.percent(50));
    }
    if dice.percent(20) {
        text += "ecn = \"6 packets\"\n";
    }
    (text, rate * 1_000_000 / 8)
}

/// What either side may have received.
fn sysctls(
    dice: &mut Dice,
    path: &'static [(&'static str, &'static [&'static str])],
) -> Vec<(&'static str, &'static str)> {
    path.iter().map(|(name, values)| (*name, dice.one_of(values))).collect()
}

const OF_BOTH: &[(&str, &[&str])] = &[
    ("tcp_sack", &["1", "1", "1", "0"]),
    ("tcp_dsack", &["1", "1", "0"]),
    ("tcp_timestamps", &["1", "1", "0"]),
    ("tcp_window_scaling", &["1", "1", "1", "0"]),
    ("tcp_ecn", &["0", "1", "2"]),
];
const OF_CLIENT: &[(&str, &[&str])] = &[
    (
        "tcp_rmem",
        &[
            "4096 131072 6291456",
            "4096 131072 6291456",
            "4096 8192 16384",
            "4096 32768 65536",
            "4096 131072 1073741824",
        ],
    ),
    ("tcp_shrink_window", &["0", "0", "0", "1"]),
    // so few that connections soon have the names of older ones
    ("ip_local_port_range", &["32768 60999", "40000 40009"]),
];

impl Talk {
    fn draw(dice: &mut Dice, most_bytes: u64) -> Talk {
        let bytes = dice.between(1, most_bytes);
        let is_short = dice.percent(20);
        let ending = dice.one_of(&[Ending::Server, Ending::Server, Ending::ClientEarly, Ending::Reset]);
        let write_bytes = dice.one_of(&[200, 1_000, 16_384, 100_000]);
        let most_writes = 500 * write_bytes as u64;
        Talk {
            down_bytes: if is_short { dice.between(1, 20_000) } else { bytes }.min(most_writes),
            up_bytes: if dice.percent(40) { bytes / dice.between(1, 10) } else { 1 }.min(most_writes),
            write_bytes,
            times: if is_short { dice.between(3, 8) } else { 1 },
            ending: if is_short { Ending::Server } else { ending },
            is_urgent: dice.percent(15),
            keeps_alive: dice.percent(20),
            pause_ms: if dice.percent(20) { dice.between(20, 400) } else { 0 },
        }
    }
}

impl Situation {
    fn draw(seed: u64, number: u64) -> Situation {
        let dice = &mut Dice::of(seed, number);
        let is_ipv6 = dice.percent(25) && has_ipv6();
        let smallest = if is_ipv6 { 1280 } else { 576 };
        let (link, rate_bytes_ps) = link(dice);
        let count = dice.between(1, 5);
        let most_bytes = ((rate_bytes_ps as f64 * SECONDS) as u64).min(MOST_BYTES) / count;
        let mut client_sysctls = sysctls(dice, OF_BOTH);
        client_sysctls.extend(sysctls(dice, OF_CLIENT));
        let is_window_small = client_sysctls.contains(&("tcp_rmem", "4096 8192 16384"));
        if is_window_small {
            // Linux' own: shrunk for packets of 9000 bytes, such a window may never open again, without any box too
            client_sysctls.retain(|(name, _)| *name != "tcp_shrink_window");
        }
        let most_bytes = if is_window_small { most_bytes / 8 } else { most_bytes };
        let upset = |dice: &mut Dice| {
            let upset = match dice.between(0, 15) {
                0 => Upset::Agent,
                1 => Upset::Detached,
                2 => Upset::AgentAndClock,
                3..=6 => Upset::ClientMtu(dice.between(smallest, 1500) as u32),
                _ => Upset::Policy,
            };
            (dice.between(20, 300), upset)
        };
        Situation {
            is_ipv6,
            link,
            server_mtu: dice.one_of(&[1500, 1500, 1500, 1300, 9000, 65_535]),
            wan_mtu: dice.one_of(&[1500, 1500, 1500, smallest as u32, 1400, 9000]),
            server_sysctls: sysctls(dice, OF_BOTH),
            client_sysctls,
            server_segments: dice.one_of(&[1, 3, 64, 64]),
            policies: [policy(dice), policy(dice)],
            talks: (0..count).map(|_| Talk::draw(dice, most_bytes.max(1))).collect(),
            upsets: (0..dice.one_of(&[0, 0, 1, 1, 2])).map(|_| upset(dice)).collect(),
        }
    }

    fn server(&self) -> IpAddr {
        let text = if self.is_ipv6 { "fd81:0:0:1::2" } else { "10.81.1.2" };
        text.parse().expect("an address")
    }
}

/// The byte at `offset` of what connection `key` carries one way: any loss, gap or repetition shows.
fn pattern(key: u64, offset: u64) -> u8 {
    (key ^ offset ^ offset >> 8 ^ offset >> 16) as u8
}

fn set<T>(stream: &TcpStream, level: i32, name: i32, value: &T) {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is a live local of that length, the socket is open.
    let failed =
        unsafe { libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const *value).cast(), len) };
    assert_eq!(failed, 0, "setsockopt({level}, {name})");
}

/// Sends so many bytes; urgent: one every now and then, which the other end reads in its place.
fn send(talk: &Talk, mut to: &TcpStream, key: u64, bytes: u64) -> std::io::Result<()> {
    let mut block = vec![0; talk.write_bytes];
    let mut sent = 0;
    for i in 0.. {
        let is_urgent = talk.is_urgent && i % 16 == 8;
        let most = if is_urgent { 1 } else { talk.write_bytes };
        let block = &mut block[..most.min((bytes - sent) as usize)];
        if block.is_empty() {
            break;
        }
        (sent..).zip(block.iter_mut()).for_each(|(at, byte)| *byte = pattern(key, at));
        sent += block.len() as u64;
        if !is_urgent {
            to.write_all(block)?;
            continue;
        }
        let flags = libc::MSG_OOB | libc::MSG_NOSIGNAL;
        // SAFETY: the block is live and of that length, the socket is open.
        if unsafe { libc::send(to.as_raw_fd(), block.as_ptr().cast(), 1, flags) } != 1 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Receives to the end of the stream, or so many bytes, and checks each. Returns how many.
fn receive(mut from: &TcpStream, key: u64, most: u64, pause_ms: u64) -> std::io::Result<u64> {
    let mut block = vec![0; 16 << 10];
    let mut got = 0;
    while got < most {
        let n = from.read(&mut block)?;
        if n == 0 {
            break;
        }
        if got == 0 && pause_ms > 0 {
            thread::sleep(Duration::from_millis(pause_ms));
        }
        for (at, byte) in (got..).zip(&block[..n]) {
            assert_eq!(*byte, pattern(key, at), "byte {at}");
        }
        got += n as u64;
    }
    Ok(got)
}

/// Both ends of one connection, from its beginning to its end.
fn converse(talk: &Talk, key: u64, server: &TcpStream, client: TcpStream) {
    let (down, up) = (key << 1, key << 1 | 1);
    let is_reset = talk.ending == Ending::Reset;
    for end in [server, &client] {
        end.set_read_timeout(Some(READ_LIMIT)).expect("a timeout");
        end.set_write_timeout(Some(READ_LIMIT)).expect("a timeout");
        set(end, libc::SOL_SOCKET, libc::SO_OOBINLINE, &1);
        set(end, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &i32::from(talk.keeps_alive));
        set(end, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &1);
        set(end, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &1);
    }
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            send(talk, server, down, talk.down_bytes)?;
            server.shutdown(Shutdown::Write)
        });
        let heard = scope.spawn(|| receive(server, up, u64::MAX, 0));
        let asker = client.try_clone().expect("a descriptor");
        let asking = scope.spawn(move || {
            send(talk, &asker, up, talk.up_bytes)?;
            if talk.ending == Ending::ClientEarly { asker.shutdown(Shutdown::Write) } else { Ok(()) }
        });
        let most = if is_reset { talk.down_bytes.div_ceil(2) } else { u64::MAX };
        let got = receive(&client, down, most, talk.pause_ms).expect("what the server sent");
        if is_reset {
            client.shutdown(Shutdown::Read).expect("open until now");
            set(&client, libc::SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: 1, l_linger: 0 });
        }
        asking.join().expect("no panic").expect("the client sends");
        if is_reset {
            // what the server is still to send, and to read, ends by that
            drop(client);
            return;
        }
        assert_eq!(got, talk.down_bytes, "to the client");
        if talk.ending == Ending::Server {
            client.shutdown(Shutdown::Write).expect("open until now");
        }
        serving.join().expect("no panic").expect("the server sends");
        assert_eq!(
            heard.join().expect("right bytes").expect("what the client sent"),
            talk.up_bytes,
            "to the server"
        );
    });
}

fn ok(ns: &Netns, words: &[&str]) {
    ns.run(words).unwrap_or_else(|e| panic!("{e:#}"));
}

/// Sets what this kernel has.
fn sysctl(ns: &Netns, path: &str, value: &str) {
    let path = Path::new("/proc/sys/net").join(path);
    let set = || if path.exists() { Ok(fs::write(&path, value)?) } else { Ok(()) };
    ns.enter(set).unwrap_or_else(|e| panic!("{} = {value}: {e:#}", path.display()));
}

fn has_ipv6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

fn addressed(ns: &Netns, is_ipv6: bool, lan: u32, host: u32, device: &str) {
    if !is_ipv6 {
        return ok(ns, &["ip", "addr", "add", &format!("10.81.{lan}.{host}/24"), "dev", device]);
    }
    ok(ns, &["ip", "addr", "add", &format!("fd81:0:0:{lan}::{host}/64"), "dev", device, "nodad"]);
}

fn routed(ns: &Netns, is_ipv6: bool, lan: u32) {
    let via = if is_ipv6 { format!("fd81:0:0:{lan}::1") } else { format!("10.81.{lan}.1") };
    ok(ns, &["ip", "route", "add", "default", "via", &via]);
}

/// Takes all there is in one of the box's free lists.
pub fn free(net: &Net, list: &str) -> Vec<Vec<u8>> {
    let map = MapHandle::from_pinned_path(net.pins().join(list)).expect("a map");
    iter::from_fn(|| map.lookup_and_delete(&[]).expect("readable")).collect()
}

/// Chunks of the store that were given out by blocks, all of which are free. Nothing works afterwards.
pub fn split_chunks(net: &Net) -> Vec<Vec<u8>> {
    let own = |spare: &[u8]| u32::from_ne_bytes(spare[20..24].try_into().expect("a number")).checked_sub(1);
    let own_by_cpus =
        spare_by_cpus(net).iter().filter_map(|spare| own(spare)).map(|chunk| chunk.to_ne_bytes().to_vec());
    let chunks: Vec<_> = own_by_cpus.chain(free(net, "wl_split_chunks")).collect();
    let splits = MapHandle::from_pinned_path(net.pins().join("wl_splits")).expect("a map");
    for chunk in &chunks {
        let free = splits.lookup(chunk, MapFlags::ANY).expect("readable").expect("there");
        assert_eq!(free[..2], [0xff, 0xff], "blocks of {chunk:?} are not free");
    }
    chunks
}

fn spare_by_cpus(net: &Net) -> Vec<Vec<u8>> {
    let map = MapHandle::from_pinned_path(net.pins().join("wl_spare_chunks")).expect("a map");
    map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).expect("readable").expect("there")
}

/// Chunks of the store that CPUs keep for themselves (`struct wl_spare`: how many, and which).
pub fn spare_chunks(net: &Net) -> Vec<Vec<u8>> {
    let of_cpu = |spare: &Vec<u8>| {
        let (count, chunks) = spare.split_first_chunk().expect("a number");
        let count = u32::from_ne_bytes(*count) as usize;
        chunks.chunks_exact(4).take(count).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    spare_by_cpus(net).iter().flat_map(of_cpu).collect()
}

fn give(net: &Net, list: &str, what: &[Vec<u8>]) {
    let map = MapHandle::from_pinned_path(net.pins().join(list)).expect("a map");
    what.iter().for_each(|one| map.update(&[], one, MapFlags::ANY).expect("room"));
}

/// One talk of a situation, or one after the other: as many connections as it has.
fn talk(talk: &Talk, place: u64, server: &Netns, client: &Netns, address: IpAddr) {
    let port = FIRST_PORT + place as u16;
    let listener = server.enter(|| Ok(TcpListener::bind((address, port))?)).expect("a free port");
    for i in 0..talk.times {
        let asking = client.enter(|| Ok(TcpStream::connect((address, port))?)).expect("a connection");
        let (serving, _) = listener.accept().expect("a connection");
        converse(talk, place << 8 | i, &serving, asking);
    }
}

/// A server and a box that last, while clients come and go.
struct World {
    net: Net,
    room: Room,
    /// Of its store, all of which must come back.
    chunks: Cell<usize>,
    folder: TempDir,
    agent: RefCell<Option<Process>>,
    /// Device of the link in use: what is left of the one before may take a moment to go.
    wan: String,
}

impl World {
    fn new(room: Room) -> World {
        let run = netns::next_run();
        let create = |host| Netns::create(run, host).expect("a namespace");
        let net = Net { server: create("server"), middle: create("box"), client: create("client") };
        let words =
            ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "r1", "netns", net.middle.name()];
        ok(&net.server, &words);
        for forwarding in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            sysctl(&net.middle, forwarding, "1");
        }
        for (ns, host, device) in [(&net.middle, 1, "r1"), (&net.server, 2, "eth0")] {
            ok(ns, &["ip", "link", "set", device, "up"]);
            addressed(ns, false, 1, host, device);
            if has_ipv6() {
                addressed(ns, true, 1, host, device);
            }
        }
        routed(&net.server, false, 1);
        if has_ipv6() {
            routed(&net.server, true, 1);
        }
        let chunks = Cell::new(if room.is_store_tiny { FEW_CHUNKS } else { STORE_CHUNKS });
        let folder = tempfile::tempdir().expect("a folder");
        World { net, room, chunks, folder, agent: RefCell::default(), wan: String::new() }
    }

    fn put(&self, policy: &str) {
        let (file, draft) = (self.folder.path().join("policy.toml"), self.folder.path().join("draft.toml"));
        fs::write(&draft, policy).expect("a writable folder");
        fs::rename(&draft, &file).expect("the same folder");
        if let Some(agent) = &*self.agent.borrow() {
            agent.signal(libc::SIGHUP);
        }
    }

    fn start(&self, expected: &str) {
        let (flows, store) = (self.room.flows.to_string(), STORE_MIB.to_string());
        let words = ["--flows", &flows, "--store-mib", &store];
        let agent = self.net.agent_with(&self.folder.path().join("policy.toml"), &words, expected);
        self.agent.replace(Some(agent));
    }

    /// Takes the interface under control.
    fn begin(&self) {
        self.start("under control");
        let chunks = free(&self.net, "wl_free_chunks");
        give(&self.net, "wl_free_chunks", &chunks[..self.chunks.get()]);
    }

    /// The agent, if one runs.
    fn kill(&self) {
        if let Some(mut agent) = self.agent.take() {
            agent.end(libc::SIGKILL);
        }
    }

    fn upset(&self, upset: Upset, policy: &str) {
        match upset {
            Upset::Policy => self.put(policy),
            Upset::Agent => {
                self.kill();
                self.start("taken over");
            }
            Upset::AgentAndClock => {
                self.kill();
                if let Some(end) = self.net.clocks().first() {
                    ok(&self.net.middle, &["ip", "link", "del", end]);
                }
            }
            Upset::Detached => {
                self.kill();
                self.net.answer(&["detach", "r1"]);
                // from a connection that is at work nothing is taken away
                self.start("under control");
                self.chunks.set(STORE_CHUNKS);
            }
            Upset::ClientMtu(mtu) => {
                for ns in [&self.net.middle, &self.net.client] {
                    ok(ns, &["ip", "link", "set", &self.wan, "mtu", &mtu.to_string()]);
                }
            }
        }
    }

    /// The situation from its beginning to its end.
    fn live(&mut self, situation: &Situation, number: u64) {
        self.wan = format!("wan{number}");
        self.net.client = Netns::create(netns::next_run(), "client").expect("a namespace");
        let Net { server, middle, client } = &self.net;
        let link = scenario("wan", &situation.link, &flow("1 kB", "cubic")).links.remove(1);
        let models = [false, true].map(|backward| LinkModel::new(&link, backward, number));
        let wire = Wire::open(models, [middle, client], [&self.wan, &self.wan]).expect("a link");
        let _wan = Wan::start(vec![wire], 0).expect("its emulator");
        for (ns, host) in [(middle, 1), (client, 2)] {
            ok(ns, &["ip", "link", "set", &self.wan, "mtu", &situation.wan_mtu.to_string()]);
            addressed(ns, situation.is_ipv6, 2, host, &self.wan);
        }
        routed(client, situation.is_ipv6, 2);
        for (ns, device) in [(server, "eth0"), (middle, "r1")] {
            ok(ns, &["ip", "link", "set", device, "mtu", &situation.server_mtu.to_string()]);
        }
        ok(server, &["ip", "link", "set", "eth0", "gso_max_segs", &situation.server_segments.to_string()]);
        for (ns, sysctls) in [(server, &situation.server_sysctls), (client, &situation.client_sysctls)] {
            sysctls.iter().for_each(|(name, value)| sysctl(ns, &format!("ipv4/{name}"), value));
        }
        self.put(&situation.policies[0]);
        let address = situation.server();
        thread::scope(|scope| {
            for (place, of) in (0..).zip(&situation.talks) {
                scope.spawn(move || talk(of, place, server, client, address));
            }
            for (after_ms, upset) in &situation.upsets {
                thread::sleep(Duration::from_millis(*after_ms));
                self.upset(*upset, &situation.policies[1]);
            }
        });
        if self.agent.borrow().is_none() {
            self.start("taken over");
        }
        let end = Instant::now() + READ_LIMIT;
        while [server, client].into_iter().any(has_connections) || !self.net.flows().is_empty() {
            assert!(Instant::now() < end, "connections or flows that do not end: {:?}", self.net.flows());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the box, which must have everything back.
    fn end(self) {
        self.kill();
        let chunks =
            [free(&self.net, "wl_free_chunks"), spare_chunks(&self.net), split_chunks(&self.net)].concat();
        let flows = free(&self.net, "wl_free_flows");
        for (mut left, expected, what) in
            [(chunks, self.chunks.get(), "free chunks"), (flows, self.room.flows, "free flows")]
        {
            assert_eq!(left.len(), expected, "{what}");
            left.sort();
            left.dedup();
            assert_eq!(left.len(), expected, "{what}, given twice");
        }
        self.net.answer(&["detach", "--all"]);
        nothing_is_left(&self.net.middle, "r1");
    }
}

impl Drop for World {
    /// A failed test leaves no agent behind.
    fn drop(&mut self) {
        if let Some(agent) = self.agent.take() {
            drop(agent);
            // it may have been released already
            let _ = self.net.windlass(&["detach", "--all"]).output();
        }
    }
}

/// Reports what failed, if it does.
struct Told<'a>(&'a Situation, u64, u64);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let Told(situation, seed, number) = self;
        if thread::panicking() {
            eprintln!(
                "WINDLASS_RANDOM_SEED={seed} WINDLASS_RANDOM_ONLY={number} has this situation again: {situation:#?}"
            );
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name}={v}: no number")))
}

#[test]
fn random_situations() {
    if !is_root_or_skip("random_situations") {
        return;
    }
    let seed = setting("WINDLASS_RANDOM_SEED").unwrap_or(SEED);
    let numbers: Vec<u64> = match setting("WINDLASS_RANDOM_ONLY") {
        Some(number) => vec![number],
        None => (0..setting("WINDLASS_RANDOM_COUNT").unwrap_or(COUNT)).collect(),
    };
    thread::scope(|scope| {
        for place in 0..BOXES {
            let mine: Vec<u64> = numbers.iter().copied().filter(|n| n % BOXES == place).collect();
            if mine.is_empty() {
                continue;
            }
            scope.spawn(move || {
                let mut world = World::new(Room::of(place));
                world.put(&Situation::draw(seed, mine[0]).policies[0]);
                world.begin();
                for number in mine {
                    let situation = Situation::draw(seed, number);
                    let _told = Told(&situation, seed, number);
                    world.live(&situation, number);
                }
                world.end();
            });
        }
    });
}
