//! A site: servers, the box in front of them, and a client across a WAN. How the servers hang on the box is what
//! deployments differ in.
//!
//!     server0 ... --- (place) --- gateway ~~~ WAN ~~~ client

use crate::{flow, net::shared_groups, scenario};
use libbpf_rs::libbpf_sys as sys;
use std::{
    collections::BTreeMap,
    fs, io, mem,
    net::{TcpListener, TcpStream},
    os::fd::AsRawFd,
    path::Path,
    thread,
};
use windlass_lab::{
    BoxProcess, Cgroup, Client, Family, LinkStats, Server, Wan, Wire, clean_leftovers, files,
    netns::{self, Netns},
    tcp_counters,
};
use windlass_scenario::LinkModel;
use windlass_tests::{
    process::{LIMIT, until},
    windlass_path,
};

/// Retransmissions that a busy machine may wring from a server, by a timer that fired late.
pub const HARDLY_ANY: u64 = 2;
/// Of so many windows at most a server may have to see to the losses, and so many may be lost of one.
const MOST_GAPS: u64 = 3;
const LOST_IN_A_WINDOW: u64 = 5;
/// An emulator that is later than this does not get the CPU it needs.
pub const BUSY_US: f64 = 10_000.0;
/// Of our own servers; nginx has 80.
const PORT: u16 = 7000;
const CONNECTIONS: usize = 64;
const VLAN: &str = "42";

/// Between the servers and the gateway. The box is on the gateway unless set otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A cable for each server, routed: a container's veth, or a machine on a router's port.
    Routed,
    /// A veth for each server, all in a bridge that has the gateway's address, as container engines do it.
    Bridged,
    /// A switch, and one port of the gateway.
    Switched,
    /// A bridge of its own host, without addresses, and the box on it.
    Transparent,
    /// The same, all frames on it with a VLAN tag.
    TransparentTagged,
    /// A cable with tagged frames and the VLAN's device on it; controlled where the tags are on.
    TaggedPort,
    /// The same; controlled on the VLAN's device, where they are off.
    VlanDevice,
}

/// Address translation on the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nat {
    None,
    /// The server is reached by an address of the gateway.
    Server,
    /// ... and takes all clients for the gateway.
    Both,
}

/// What a site is made of.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub place: Place,
    pub family: Family,
    pub nat: Nat,
    pub servers: usize,
    /// Settings of the WAN, as in a scenario.
    pub link: &'static str,
    /// Sysctls of servers and client, which decide what they negotiate.
    pub server_sysctls: &'static [(&'static str, &'static str)],
    pub client_sysctls: &'static [(&'static str, &'static str)],
    /// Of tags: 802.1Q, or 802.1ad for service tags.
    pub vlan_protocol: &'static str,
    pub server_mtu: u32,
    /// The longest super-packets of IPv6 that the servers' stacks make (BIG TCP); 0: what is usual, 64 KiB.
    pub server_gso_bytes: u32,
    /// The servers' stacks send each segment by itself.
    pub is_without_gso: bool,
    /// Of both ends of the WAN: of the gateway and of the client.
    pub wan_mtus: [u32; 2],
    /// Has bridges hand their packets to the packet filter, where the kernel can.
    pub bridge_filter: bool,
    /// Each server in a cgroup of its own.
    pub has_cgroups: bool,
}

/// Loses one packet in fifty on the way to the client.
pub const LOSSY: &str = "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"2 BDP\"\nloss = \"2 %\"";

pub const PLAIN: Setup = Setup {
    place: Place::Routed,
    family: Family::V4,
    nat: Nat::None,
    servers: 1,
    link: LOSSY,
    server_sysctls: &[],
    client_sysctls: &[],
    vlan_protocol: "802.1Q",
    server_mtu: 1500,
    server_gso_bytes: 0,
    is_without_gso: false,
    wan_mtus: [1500, 1500],
    bridge_filter: false,
    has_cgroups: false,
};

/// This kernel, or this machine, cannot do it.
#[derive(Debug)]
pub struct Missing(pub String);

pub type Possibly<T> = Result<T, Missing>;

/// The site, or none after a word on why the test is skipped.
pub fn site_or_skip(test: &str, setup: Setup) -> Option<Site> {
    if !windlass_tests::is_root_or_skip(test) {
        return None;
    }
    match Site::new(setup) {
        Ok(site) => Some(site),
        Err(Missing(why)) => {
            println!("skipped: {test}: {why}");
            None
        }
    }
}

pub struct Site {
    setup: Setup,
    wan: Wan,
    /// One for each interface that is controlled.
    processes: Vec<BoxProcess>,
    pub servers: Vec<Netns>,
    nginx: Vec<Server>,
    /// Of the servers, if they have any.
    pub cgroups: Vec<Cgroup>,
    pub gateway: Netns,
    pub client: Netns,
    /// Switches, and the host of a bridge.
    between: Vec<Netns>,
    /// Where the box controls.
    ifaces: Vec<String>,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub counters: BTreeMap<String, u64>,
    /// The WAN towards the client, and back.
    pub wan: [LinkStats; 2],
    /// Data that the servers' own kernels retransmitted.
    pub server_retrans_segs: u64,
}

pub fn ok(ns: &Netns, words: &[&str]) {
    ns.run(words).unwrap_or_else(|e| panic!("{e:#}"));
}

/// Runs what needs a feature that not every kernel has.
pub fn feature(ns: &Netns, what: &str, words: &[&str]) -> Possibly<()> {
    ns.run(words).map(drop).map_err(|e| {
        let said = e.to_string();
        // the command's output, without the command
        Missing(format!("{what}: {}", said.rsplit("failed: ").next().unwrap_or(&said).replace('\n', " ")))
    })
}

pub fn cable(a: &Netns, a_dev: &str, b: &Netns, b_dev: &str) {
    ok(a, &["ip", "link", "add", a_dev, "type", "veth", "peer", "name", b_dev, "netns", b.name()]);
    ok(a, &["ip", "link", "set", a_dev, "up"]);
    ok(b, &["ip", "link", "set", b_dev, "up"]);
}

pub fn bridge(ns: &Netns, ports: &[String]) -> Possibly<()> {
    feature(ns, "no bridges", &["ip", "link", "add", "br0", "type", "bridge"])?;
    for port in ports {
        ok(ns, &["ip", "link", "set", port, "master", "br0"]);
    }
    ok(ns, &["ip", "link", "set", "br0", "up"]);
    Ok(())
}

fn vlan(ns: &Netns, on: &str, protocol: &str) -> Possibly<String> {
    let device = format!("{on}.{VLAN}");
    feature(
        ns,
        "no VLAN devices",
        &["ip", "link", "add", "link", on, "name", &device, "type", "vlan", "proto", protocol, "id", VLAN],
    )?;
    ok(ns, &["ip", "link", "set", &device, "up"]);
    Ok(device)
}

/// Puts a tag on all that leaves by this device, and takes it off what comes in.
fn tag_all(ns: &Netns, device: &str, protocol: &str) -> Possibly<()> {
    run_at(ns, device, &["ingress", "egress"], if protocol == "802.1ad" { "classifier" } else { "tc" })
}

/// Runs a program of bpf/tests/tagger.bpf.c, named by its section, on those sides of a device.
pub fn run_at(ns: &Netns, device: &str, sides: &[&str], section: &str) -> Possibly<()> {
    ok(ns, &["tc", "qdisc", "add", "dev", device, "clsact"]);
    for side in sides {
        let object = concat!(env!("OUT_DIR"), "/tagger.bpf.o");
        let program = ["bpf", "direct-action", "obj", object, "sec", section];
        let words = [&["tc", "filter", "add", "dev", device, side], &program[..]].concat();
        feature(ns, "tc without BPF", &words)?;
    }
    Ok(())
}

/// Sets a sysctl of a namespace by its path below /proc/sys.
pub fn sysctl(ns: &Netns, path: &str, value: &str) -> io::Result<()> {
    ns.enter(|| Ok(fs::write(Path::new("/proc/sys").join(path), value))).expect("entering a namespace")
}

/// Addresses: `lan` 1 to 9 are the site's own, 99 is the WAN.
fn address(family: Family, lan: usize, host: usize) -> String {
    match family {
        Family::V4 => format!("10.80.{lan}.{host}"),
        Family::V6 => format!("fd80:0:0:{lan:x}::{host:x}"),
    }
}

fn add_address(ns: &Netns, family: Family, lan: usize, host: usize, device: &str) {
    let own = address(family, lan, host);
    match family {
        Family::V4 => ok(ns, &["ip", "addr", "add", &format!("{own}/24"), "dev", device]),
        // unique by construction: there is no need to wait until that is detected
        Family::V6 => ok(ns, &["ip", "addr", "add", &format!("{own}/64"), "dev", device, "nodad"]),
    }
}

/// Everything else goes by `via`, and with that congestion control: no global setting decides for a test.
fn default_route(ns: &Netns, family: Family, via: &str) -> Possibly<()> {
    let flag = if family == Family::V4 { "-4" } else { "-6" };
    feature(ns, "no CUBIC", &["ip", flag, "route", "add", "default", "via", via, "congctl", "cubic"])
}

const WAN_LAN: usize = 99;
const GATEWAY: usize = 1;
const FIRST_HOST: usize = 10;

impl Site {
    fn new(setup: Setup) -> Possibly<Site> {
        if setup.family == Family::V6 && !Path::new("/proc/net/if_inet6").exists() {
            return Err(Missing("this kernel has no IPv6".into()));
        }
        clean_leftovers();
        let run = netns::next_run();
        let create = |host: &str| Netns::create(run, host).unwrap_or_else(|e| panic!("{e:#}"));
        let (gateway, client) = (create("gateway"), create("client"));
        let servers: Vec<_> = (0..setup.servers).map(|i| create(&format!("server{i}"))).collect();
        let mut between = Vec::new();
        let (ifaces, homes) = connect(&setup, &servers, &gateway, &mut between, &create)?;
        for (i, server) in servers.iter().enumerate() {
            let (lan, device) = (homes[i].lan, homes[i].device.as_str());
            add_address(server, setup.family, lan, FIRST_HOST + i, device);
            ok(server, &["ip", "link", "set", device, "mtu", &setup.server_mtu.to_string()]);
            if setup.server_gso_bytes != 0 {
                let gso = setup.server_gso_bytes.to_string();
                feature(
                    server,
                    "super-packets of this length",
                    &["ip", "link", "set", device, "gso_max_size", &gso],
                )?;
            }
            if setup.is_without_gso {
                feature(server, "segments one by one", &["ip", "link", "set", device, "gso_max_segs", "1"])?;
            }
            default_route(server, setup.family, &address(setup.family, lan, GATEWAY))?;
            for (path, value) in setup.server_sysctls {
                sysctl(server, path, value).map_err(|e| Missing(format!("{path}: {e}")))?;
            }
        }
        for (path, value) in setup.client_sysctls {
            sysctl(&client, path, value).map_err(|e| Missing(format!("{path}: {e}")))?;
        }
        for forwarding in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            sysctl(&gateway, forwarding, "1").unwrap_or_else(|e| panic!("{forwarding}: {e}"));
        }
        let wan = connect_wan(&setup, &gateway, &client)?;
        translate(&setup, &gateway, &address(setup.family, homes[0].lan, FIRST_HOST))?;
        let cgroups = if setup.has_cgroups { servers.len() } else { 0 };
        let cgroups: Vec<_> = (0..cgroups)
            .map(|i| Cgroup::create(run, &format!("server{i}")).map_err(|e| Missing(format!("{e:#}"))))
            .collect::<Possibly<_>>()?;
        let start = |(i, s)| Server::start_in(s, CONNECTIONS, cgroups.get(i)).expect("nginx");
        let nginx = servers.iter().enumerate().map(start).collect();
        Ok(Site {
            setup,
            wan,
            processes: Vec::new(),
            servers,
            nginx,
            cgroups,
            gateway,
            client,
            between,
            ifaces,
        })
    }

    /// The host that the box runs on.
    pub fn box_host(&self) -> &Netns {
        match self.setup.place {
            Place::Transparent | Place::TransparentTagged => &self.between[0],
            _ => &self.gateway,
        }
    }

    /// Puts the box to work.
    pub fn control(&mut self, algorithm: &str) {
        // none of these servers paces itself, though on a busy machine one may look like it
        let args = ["--alg", algorithm, "--paced-servers", "control"].map(String::from);
        self.start(0, &args);
    }

    /// Puts a box to work on each interface that faces a server, under that policy.
    pub fn control_all(&mut self, policy: &Path) {
        let args = ["--policy", policy.to_str().expect("UTF-8")].map(String::from);
        (0..self.ifaces.len()).for_each(|iface| self.start(iface, &args));
    }

    fn start(&mut self, iface: usize, args: &[String]) {
        let started = BoxProcess::start(self.box_host(), &windlass_path(), &self.ifaces[iface], args);
        self.processes.push(started.unwrap_or_else(|e| panic!("{e:#}")));
    }

    /// Where the client finds a server.
    pub fn address_of(&self, server: usize) -> String {
        if self.setup.nat != Nat::None {
            return address(self.setup.family, WAN_LAN, GATEWAY);
        }
        address(self.setup.family, lan_of(self.setup.place, server), FIRST_HOST + server)
    }

    /// A connection between the client and a program of ours on the first server: the client's end, the server's.
    pub fn connection(&self) -> (TcpStream, TcpStream) {
        let listen = || Ok(TcpListener::bind((self.address_of(0).as_str(), PORT))?);
        let listener = self.servers[0].enter(listen).expect("a free port");
        let client = self.client.enter(|| Ok(TcpStream::connect((self.address_of(0).as_str(), PORT))?));
        let ends = (client.expect("a connection"), listener.accept().expect("a connection").0);
        for end in [&ends.0, &ends.1] {
            // only lest a failing test wait for ever
            end.set_read_timeout(Some(LIMIT)).expect("a timeout");
            end.set_write_timeout(Some(LIMIT)).expect("a timeout");
        }
        ends
    }

    /// The client fetches so many bytes from each server with curl, all at once; every payload is checked.
    pub fn fetch(&self, bytes: u64) {
        let file = files::file_of(bytes).expect("a file to serve");
        let sum = files::digest_of(&file).expect("its checksum");
        let fetches: Vec<_> = (0..self.servers.len())
            .map(|i| Client::start(&self.client, &self.address_of(i), &file, LIMIT).expect("curl"))
            .collect();
        for fetch in fetches {
            let fetched = fetch.finish(None).unwrap_or_else(|e| panic!("{:?}: {e:#}", self.setup));
            assert_eq!((fetched.bytes, &fetched.sha256), (bytes, &sum), "{:?}", self.setup);
        }
    }

    /// The client fetches from servers by their number and so many bytes, all at once; every payload is checked. Returns
    /// how long each took, in seconds.
    pub fn fetch_each(&self, fetches: &[(usize, u64)]) -> Vec<f64> {
        let setup = self.setup;
        thread::scope(|scope| {
            let running: Vec<_> = fetches
                .iter()
                .map(|(server, bytes)| {
                    let file = files::file_of(*bytes).expect("a file to serve");
                    let sum = files::digest_of(&file).expect("its checksum");
                    let address = self.address_of(*server);
                    let fetch = Client::start(&self.client, &address, &file, LIMIT).expect("curl");
                    // each reads what it gets at once
                    scope.spawn(move || {
                        let fetched = fetch.finish(None).unwrap_or_else(|e| panic!("{setup:?}: {e:#}"));
                        assert_eq!((fetched.bytes, fetched.sha256), (*bytes, sum), "{setup:?}");
                        fetched.completion_s
                    })
                })
                .collect();
            running.into_iter().map(|r| r.join().expect("whole")).collect()
        })
    }

    /// What a server's kernel counts, by the names of /proc/net/snmp and netstat.
    pub fn counter_of(&self, host: &Netns, name: &str) -> u64 {
        tcp_counters(host).expect("counters").get(name).copied().unwrap_or(0)
    }

    /// Packets that connection tracking on the box's host could make nothing of.
    pub fn invalid_packets(&self) -> u64 {
        let words = ["nft", "list", "counter", "inet", "watch", "invalid"];
        let said = self.box_host().run(&words).expect("nft").stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        let count = said.split_whitespace().skip_while(|w| *w != "packets").nth(1);
        count.and_then(|c| c.parse().ok()).unwrap_or_else(|| panic!("nft says: {said}"))
    }

    /// Waits until the servers' connections have ended, ends control and makes sure that nothing of it is left.
    pub fn finish(mut self) -> Outcome {
        until("the servers' connections end", || !self.servers.iter().any(has_connections));
        let sum = |name| self.servers.iter().map(|s| self.counter_of(s, name)).sum::<u64>();
        let server_retrans_segs = sum("RetransSegs").saturating_sub(sum("TCPSynRetrans"));
        assert!(!self.processes.is_empty(), "the box was put to work");
        let mut counters = BTreeMap::new();
        let controlled = self.processes.len();
        for process in std::mem::take(&mut self.processes) {
            for (name, n) in process.finish().unwrap_or_else(|e| panic!("{e:#}")).0 {
                *counters.entry(name).or_insert(0) += n;
            }
        }
        self.ifaces[..controlled].iter().for_each(|iface| nothing_is_left(self.box_host(), iface));
        drop(self.nginx);
        Outcome { counters, wan: self.wan.finish().expect("statistics").remove(0), server_retrans_segs }
    }
}

impl Outcome {
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// The WAN lost packets, the box repaired them, the servers noticed next to nothing.
    pub fn assert_repaired(&self, what: &str) {
        self.assert_repaired_among(what, self.wan[0].packets, &[]);
    }

    /// The same where only so many of the WAN's packets were the flows' own, and some were meant to be those that these counters
    /// are for.
    pub fn assert_repaired_among(&self, what: &str, own_packets: u64, meant: &[&str]) {
        let lost_of_all = self.wan[0].drops_random + self.wan[0].drops_tail;
        let lost = (lost_of_all * own_packets).div_ceil(self.wan[0].packets.max(1));
        assert!(lost > 0, "{what}: nothing was lost: {self:#?}");
        // where a cable's two CPUs overtook each other, the box has had to let the server see to the losses of a window
        let left_to_it = self.counter("bypass_gap").min(MOST_GAPS) * LOST_IN_A_WINDOW;
        // not all that was lost was data
        let most_of_it = (lost / 2).saturating_sub(left_to_it).max(1);
        assert!(self.counter("repaired_segs") >= most_of_it, "{what}: {lost} lost: {self:#?}");
        // a machine so busy that the WAN itself is late makes servers' timers run out
        let is_busy = self.wan.iter().any(|w| w.late_p99_us > BUSY_US);
        let hardly_any = HARDLY_ANY.max(lost / 5) + left_to_it;
        assert!(is_busy || self.server_retrans_segs <= hardly_any, "{what}: {self:#?}");
        for doubt in ["repair_failed", "pass_internal", "pass_malformed", "bypass_store_error"] {
            assert!(self.counter(doubt) == 0 || meant.contains(&doubt), "{what}: {doubt}: {self:#?}");
        }
    }
}

/// Is a connection of this host still to be ended by a packet?
pub fn has_connections(ns: &Netns) -> bool {
    const TIME_WAIT: &str = "06";
    const LISTEN: &str = "0A";
    let tables = ns.enter(|| {
        let read = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        Ok([read("tcp"), read("tcp6")])
    });
    let tables = tables.expect("entering a namespace");
    let mut states =
        tables.iter().flat_map(|t| t.lines().skip(1)).filter_map(|l| l.split_whitespace().nth(3));
    states.any(|state| state != TIME_WAIT && state != LISTEN)
}

/// Where a server is at home.
struct Home {
    lan: usize,
    device: String,
}

fn lan_of(place: Place, server: usize) -> usize {
    if place == Place::Routed { 1 + server } else { 1 }
}

/// Builds what is between the servers and the gateway. Returns where the box controls, and where the servers live.
fn connect(
    setup: &Setup,
    servers: &[Netns],
    gateway: &Netns,
    between: &mut Vec<Netns>,
    create: &dyn Fn(&str) -> Netns,
) -> Possibly<(Vec<String>, Vec<Home>)> {
    let ports: Vec<String> = (0..servers.len()).map(|i| format!("port{i}")).collect();
    let mut device = "eth0".to_string();
    let plug = |to: &Netns| servers.iter().zip(&ports).for_each(|(s, port)| cable(s, "eth0", to, port));
    let at_gateway = |lan, device: &str| add_address(gateway, setup.family, lan, GATEWAY, device);
    let ifaces = match setup.place {
        Place::Routed => {
            plug(gateway);
            for (i, port) in ports.iter().enumerate() {
                at_gateway(1 + i, port);
                ok(gateway, &["ip", "link", "set", port, "mtu", &setup.server_mtu.to_string()]);
            }
            ports
        }
        Place::Bridged => {
            plug(gateway);
            bridge(gateway, &ports)?;
            filter_on_bridges(gateway, setup.bridge_filter)?;
            at_gateway(1, "br0");
            ports
        }
        Place::Switched => {
            let switch = create("switch");
            plug(&switch);
            cable(gateway, "lan0", &switch, "uplink");
            bridge(&switch, &[ports, vec!["uplink".into()]].concat())?;
            at_gateway(1, "lan0");
            between.push(switch);
            vec!["lan0".into()]
        }
        Place::Transparent | Place::TransparentTagged => {
            let host = create("bridge");
            plug(&host);
            cable(gateway, "lan0", &host, "uplink");
            bridge(&host, &[ports.clone(), vec!["uplink".into()]].concat())?;
            filter_on_bridges(&host, setup.bridge_filter)?;
            at_gateway(1, "lan0");
            if setup.place == Place::TransparentTagged {
                tag_all(gateway, "lan0", setup.vlan_protocol)?;
                servers.iter().try_for_each(|s| tag_all(s, "eth0", setup.vlan_protocol))?;
            }
            between.push(host);
            ports
        }
        Place::TaggedPort | Place::VlanDevice => {
            plug(gateway);
            let tagged = vlan(gateway, &ports[0], setup.vlan_protocol)?;
            device = vlan(&servers[0], "eth0", setup.vlan_protocol)?;
            at_gateway(1, &tagged);
            if setup.place == Place::TaggedPort { ports } else { vec![tagged] }
        }
    };
    let homes =
        (0..servers.len()).map(|i| Home { lan: lan_of(setup.place, i), device: device.clone() }).collect();
    Ok((ifaces, homes))
}

/// br_netfilter: bridged packets pass through the hooks of the packet filter, as if routed.
fn filter_on_bridges(ns: &Netns, is_on: bool) -> Possibly<()> {
    let value = if is_on { "1" } else { "0" };
    for family in ["iptables", "ip6tables"] {
        let set = sysctl(ns, &format!("net/bridge/bridge-nf-call-{family}"), value);
        if is_on {
            set.map_err(|e| Missing(format!("br_netfilter: {e}")))?;
        }
    }
    // conntrack, and with it reassembly and checks of what the bridge carries, needs a rule for it
    if is_on { watch_invalid(ns) } else { Ok(()) }
}

fn watch_invalid(ns: &Netns) -> Possibly<()> {
    feature(
        ns,
        "no nftables (Debian: apt-get install nftables)",
        &[
            "nft",
            "add table inet watch; add counter inet watch invalid; \
             add chain inet watch forward { type filter hook forward priority 0 ; }; \
             add rule inet watch forward ct state invalid counter name invalid drop",
        ],
    )
}

fn connect_wan(setup: &Setup, gateway: &Netns, client: &Netns) -> Possibly<Wan> {
    let link = scenario("wan", setup.link, &flow("1 kB", "cubic")).links.remove(1);
    let hosts = [gateway, client];
    let models = [false, true].map(|backward| LinkModel::new(&link, backward, 7));
    let wire = Wire::open(models, hosts, ["wan0", "wan0"]);
    let wan = wire.and_then(|wire| Wan::start(vec![wire], 0)).unwrap_or_else(|e| panic!("{e:#}"));
    for (side, host) in hosts.into_iter().enumerate() {
        ok(host, &["ip", "link", "set", "wan0", "mtu", &setup.wan_mtus[side].to_string()]);
        add_address(host, setup.family, WAN_LAN, 1 + side, "wan0");
    }
    default_route(client, setup.family, &address(setup.family, WAN_LAN, GATEWAY))?;
    Ok(wan)
}

fn translate(setup: &Setup, gateway: &Netns, server: &str) -> Possibly<()> {
    if setup.nat == Nat::None {
        return Ok(());
    }
    watch_invalid(gateway)?;
    let family = if setup.family == Family::V4 { "ip" } else { "ip6" };
    let target = if setup.family == Family::V4 { server.to_string() } else { format!("[{server}]") };
    let mut rules = format!(
        "add table inet nat; \
         add chain inet nat pre {{ type nat hook prerouting priority dstnat ; }}; \
         add chain inet nat post {{ type nat hook postrouting priority srcnat ; }}; \
         add rule inet nat pre iifname wan0 tcp dport 80 dnat {family} to {target}; \
         add rule inet nat post oifname wan0 masquerade"
    );
    if setup.nat == Nat::Both {
        rules += "; add rule inet nat post iifname wan0 masquerade";
    }
    feature(gateway, "no address translation", &["nft", &rules])
}

/// How many programs hang on one side of an interface, by tcx. Kernels without it return an error.
pub fn tcx_programs(ns: &Netns, iface: &str, side: sys::bpf_attach_type) -> u32 {
    let count = ns.enter(|| {
        let name = std::ffi::CString::new(iface)?;
        // SAFETY: an all-zero bpf_prog_query_opts with its size set requests the count only; pointers are to locals.
        unsafe {
            let index = libc::if_nametoindex(name.as_ptr());
            let mut opts: sys::bpf_prog_query_opts = mem::zeroed();
            opts.sz = size_of::<sys::bpf_prog_query_opts>() as _;
            let failed = sys::bpf_prog_query_opts(index as i32, side, &mut opts) != 0;
            Ok(if failed { 0 } else { opts.__bindgen_anon_1.prog_cnt })
        }
    });
    count.expect("entering a namespace")
}

/// No program, filter, clock or pin is left.
pub fn nothing_is_left(ns: &Netns, iface: &str) {
    let links = ns.run(&["ip", "-br", "link"]).expect("iproute2").stdout;
    assert!(!String::from_utf8_lossy(&links).contains("wlc"), "the clock is gone");
    for (side, tcx) in [("ingress", sys::BPF_TCX_INGRESS), ("egress", sys::BPF_TCX_EGRESS)] {
        let filters = ns.run(&["tc", "filter", "show", "dev", iface, side]).expect("tc").stdout;
        assert!(filters.is_empty(), "{side}: {}", String::from_utf8_lossy(&filters));
        assert_eq!(tcx_programs(ns, iface, tcx), 0, "{side}");
    }
    let inode = ns.enter(|| {
        use std::os::unix::fs::MetadataExt;
        Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
    });
    let inode = inode.expect("entering a namespace");
    let pins = format!("/sys/fs/bpf/windlass/{inode}/{iface}");
    assert!(!Path::new(&pins).exists(), "{pins}");
    assert_eq!(shared_groups(inode), None);
}

/// What two stacks agreed on, as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    pub timestamps: bool,
    pub sack: bool,
    pub ecn: bool,
    /// Shift of the windows that the client announces; none: windows are not scaled.
    pub client_wscale: Option<u8>,
    pub mss_bytes: u32,
}

impl Negotiated {
    pub fn of(stream: &TcpStream) -> Negotiated {
        let info = tcp_info(stream);
        let has = |bit: u8| info.tcpi_options & bit != 0;
        // two nibbles: the shift of the peer's windows, and that of our own
        let shifts = info.tcpi_snd_rcv_wscale;
        let own = if cfg!(target_endian = "little") { shifts >> 4 } else { shifts & 15 };
        Negotiated {
            timestamps: has(1),
            sack: has(2),
            client_wscale: has(4).then_some(own),
            ecn: has(8),
            mss_bytes: info.tcpi_snd_mss,
        }
    }
}

pub fn tcp_info(stream: &TcpStream) -> libc::tcp_info {
    // SAFETY: an all-zero tcp_info is valid, the kernel writes at most `len` bytes of it, the socket is open.
    unsafe {
        let mut info: libc::tcp_info = mem::zeroed();
        let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
        let to = (&raw mut info).cast();
        assert_eq!(libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut len), 0);
        info
    }
}
