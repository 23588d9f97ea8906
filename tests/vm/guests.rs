//! Two guests behind one bottleneck, their flows coupled by the controller on their host, over virtio-serial ports.

use crate::guest::{Guest, Image};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};
use windlass_guest::wire::{Frame, Message, Reader, encode};
use windlass_lab::{Family, Topology, netns::Netns};
use windlass_scenario::Scenario;
use windlass_tests::{
    process::Process,
    streams::{Stream, arrive_whole, fetch, go_on, jain, rates_bps},
    windlass,
};

/// The bottleneck of the ctrlTCP paper, figure 3.
const NETWORK: &str = r#"
name = "guests"
[[host]]
name = "box"
[[host]]
name = "client"
[[link]]
between = ["box", "client"]
rate = "10 Mbit/s"
delay = "50 ms"
buffer = "1 BDP"
"#;

/// Ten round trips of 100 ms, and as much again for the queue.
const SETTLE: Duration = Duration::from_secs(2);
const MEASURE: Duration = Duration::from_secs(10);
/// Where 5 % count: longer than from one loss to the next, some 12 s.
const MEASURE_WEIGHTS: Duration = Duration::from_secs(25);
/// What the paper's "perfect fairness" is taken to mean.
const FAIR: f64 = 0.99;
/// Transfers go on if each tenant receives so much more.
const MORE_BYTES: u64 = 1 << 19;
/// How far shares may be from weights.
const NEAR: f64 = 0.05;
/// How far what the guests send may be from what they were granted: after a loss they send less for a while.
const NEAR_GRANTED: f64 = 0.1;

/// What the guest serves: random bytes, and a long file of repetitions of them.
const SERVE: [&str; 3] = [
    "dd if=/dev/urandom of=/srv/block bs=1M count=1 2>/dev/null",
    "for i in $(busybox seq 96); do cat /srv/block; done >/srv/payload",
    "nginx -c /etc/nginx.conf",
];

struct Vm {
    guest: Guest,
    server: String,
    block: Arc<Vec<u8>>,
}

impl Vm {
    /// Guest `n`, behind tap `n` of the box.
    fn boot(image: &Image, topology: &Topology, n: usize, port: &str) -> Vm {
        let middle = topology.host("box");
        let (tap, net) = (format!("tap{n}"), format!("10.80.{n}"));
        for words in [
            &["ip", "tuntap", "add", "dev", &tap, "mode", "tap", "vnet_hdr"][..],
            &["ip", "addr", "add", &format!("{net}.1/24"), "dev", &tap],
            &["ip", "link", "set", &tap, "up"],
        ] {
            middle.run(words).expect("iproute2");
        }
        let mut guest = Guest::boot_with_port(image, middle, &tap, port.as_ref());
        guest.run(&format!(
            "ip addr add {net}.2/24 dev eth0 && ip link set eth0 up && ip route add default via {net}.1 && \
             echo reno >/proc/sys/net/ipv4/tcp_congestion_control"
        ));
        SERVE.iter().for_each(|line| drop(guest.run(line)));
        let server = format!("{net}.2:80");
        let block = fetch(topology.host("client"), &server, "/block").expect("the guest serves");
        Vm { guest, server, block: Arc::new(block) }
    }

    fn stream(&self, client: &Netns) -> Stream {
        Stream::start(client, &self.server, "/payload", self.block.clone()).expect("the guest serves")
    }

    /// What its kernel has retransmitted so far: segments, and how often because a timer had run out.
    fn sent_again(&mut self) -> [u64; 2] {
        let printed = self.guest.run("cat /proc/net/snmp /proc/net/netstat");
        let lines: Vec<Vec<&str>> = printed.lines().map(|l| l.split_whitespace().collect()).collect();
        ["RetransSegs", "TCPTimeouts"].map(|name| {
            let find =
                |names: &[Vec<&str>]| Some(names[1][names[0].iter().position(|n| *n == name)?].parse());
            lines.chunks_exact(2).find_map(find).expect("a counter of Linux").expect("a number")
        })
    }

    /// What the agent reports next.
    fn said(&mut self) -> Value {
        let line = self.guest.run("read -r said <&3 && echo $said || cat /run/complaint");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the agent ended: {line}"))
    }

    /// The next thing that happens to the agent is of that kind.
    fn hears(&mut self, kind: &str) {
        let said = self.said();
        assert_eq!(said["event"], kind, "{said}");
    }

    fn hears_why(&mut self, kind: &str) -> String {
        let said = self.said();
        assert_eq!(said["event"], kind, "{said}");
        said["why"].to_string()
    }

    fn start_agent(&mut self) {
        self.guest.run(
            "mkfifo /run/said; windlass guest --json >/run/said 2>/run/complaint & agent=$!; exec 3</run/said",
        );
        self.hears("attached");
        self.hears("coupled");
    }

    fn stop_agent(&mut self) -> Value {
        self.guest.run("kill -INT $agent");
        let last = self.said();
        self.guest.run("wait $agent; exec 3<&-; rm /run/said");
        last
    }
}

/// Writes the file of guests: the second one's weight is given.
fn list_guests(file: &Path, ports: &[String], weight: u32) {
    let guest = |(port, weight): (&String, u32)| format!("[[guest]]\nport = \"{port}\"\nweight = {weight}\n");
    let text: String = ports.iter().zip([1, weight]).map(guest).collect();
    // as editors do: at no time is there half a file
    let fresh = file.with_extension("new");
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, file)).expect("a writable folder");
}

fn controller(ports: &[String], weights: [u32; 2]) -> Process {
    let ports = ports.iter().zip(weights).map(|(p, w)| format!("--port={p},weight={w}"));
    let process = Process::start(windlass().args(["controller", "--json", "--sample-ms", "200"]).args(ports));
    process.event("started");
    process
}

/// What came out with so many flows of the second guest.
struct Stage {
    /// What the second guest received by what the first one did.
    ratio: f64,
    /// Fairness by weight.
    jain: f64,
    /// None: no coupling.
    granted: Option<Granted>,
}

/// What the controller did meanwhile, in which the speed of this machine has no part.
struct Granted {
    /// The second guest's windows by the first one's.
    ratio: f64,
    /// Round trips that the guests reported. An emulated guest that waits for its turn has a longer one, so the same
    /// window carries less.
    srtt_ms: [f64; 2],
}

impl Granted {
    /// From the controller's samples.
    fn mean(samples: &[Value]) -> Granted {
        let sum = |n: usize, field: &str| -> f64 {
            samples.iter().map(|v| v["guests"][n][field].as_f64().expect("a number")).sum()
        };
        let srtt_ms = [0, 1].map(|n| sum(n, "srtt_us") / samples.len() as f64 / 1e3);
        Granted { ratio: sum(1, "cwnd_bytes") / sum(0, "cwnd_bytes"), srtt_ms }
    }
}

/// Waits until the transfers have got used to how things are, and measures; the second guest has that weight.
fn stage(
    what: &str,
    vms: &mut [Vm; 2],
    tenants: &[Vec<Stream>],
    weight: u32,
    at_host: Option<&Process>,
    during: Duration,
) -> Stage {
    thread::sleep(SETTLE);
    at_host.inspect(|c| drop(c.since("sample")));
    let before = vms.each_mut().map(Vm::sent_again);
    let rates = rates_bps(tenants, during);
    let granted = at_host.map(|c| Granted::mean(&c.since("sample")));
    let (ratio, jain) = (rates[1] / rates[0], jain(&[rates[0], rates[1] / f64::from(weight)]));
    print!(
        "{what}, 1 flow against {}: {:.2} and {:.2} Mbit/s, 1 : {ratio:.2}, Jain {jain:.4}",
        tenants[1].len(),
        rates[0] / 1e6,
        rates[1] / 1e6,
    );
    let after = vms.each_mut().map(Vm::sent_again);
    let [segs, timeouts] = [0, 1].map(|c| [0, 1].map(|n| after[n][c] - before[n][c]));
    print!("; segments sent again {segs:?}, timeouts {timeouts:?}");
    match &granted {
        Some(Granted { ratio, srtt_ms: [one, two] }) => {
            println!("; windows 1 : {ratio:.2}, round trips {one:.0} and {two:.0} ms");
        }
        None => println!(),
    }
    Stage { ratio, jain, granted }
}

/// Reports whether a claim about rates holds. How much an emulated guest sends depends on how busy this machine is,
/// so that nothing fails here; what it may send does not.
fn claim(what: &str, holds: bool) {
    println!("{}: {what}", if holds { "holds" } else { "FAILS" });
}

/// The controller grants by weight, whatever becomes of it, and the guests send what they were granted: that in each round trip,
/// as long as it may be.
fn assert_granted(stage: &Stage, weight: u32) {
    let granted = stage.granted.as_ref().expect("coupled");
    let fair = granted.ratio / f64::from(weight);
    assert!((fair - 1.0).abs() <= NEAR, "granted 1 : {:.3}, weights 1:{weight}", granted.ratio);
    let used = stage.ratio * granted.srtt_ms[1] / granted.srtt_ms[0] / granted.ratio;
    assert!((used - 1.0).abs() <= NEAR_GRANTED, "sent 1 : {used:.3} of what was granted");
}

/// One flow of the first guest against ever more of the second.
fn stages(
    what: &str,
    client: &Netns,
    vms: &mut [Vm; 2],
    at_host: Option<&Process>,
) -> (Vec<Stage>, Vec<Vec<Stream>>) {
    let mut tenants = vec![vec![vms[0].stream(client)], Vec::new()];
    let all = (1..=4).map(|count| {
        tenants[1].resize_with(count, || vms[1].stream(client));
        stage(what, vms, &tenants, 1, at_host, MEASURE)
    });
    (all.collect(), tenants)
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn two_guests_are_coupled_by_their_host() {
    let Some((image, _alone)) = Image::get_alone_or_skip("two_guests_are_coupled_by_their_host") else {
        return;
    };
    let scenario = Scenario::parse("guests", NETWORK).expect("a sound scenario");
    let topology = Topology::create(&scenario, 0, Family::V4).expect("a network");
    let (middle, client) = (topology.host("box"), topology.host("client"));
    middle.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]).expect("sysctl");
    client
        .run(&["ip", "route", "add", "10.80.0.0/16", "via", &topology.address_of("box")])
        .expect("iproute2");
    let folder = tempfile::tempdir().expect("a folder");
    let port = |n: usize| folder.path().join(format!("vm{n}.sock")).to_str().expect("UTF-8").to_string();
    let ports = [port(0), port(1)];
    let mut vms = [0, 1].map(|n| Vm::boot(image, &topology, n, &ports[n]));
    println!("guests: {}", vms[0].guest.run("uname -sr"));

    let (uncoupled, tenants) = stages("uncoupled", client, &mut vms, None);
    arrive_whole(tenants.into_iter().flatten());
    let file = folder.path().join("guests.toml");
    list_guests(&file, &ports, 1);
    let words = ["controller", "--json", "--sample-ms", "200", "--guests"];
    let at_host = Process::start(windlass().args(words).arg(&file));
    at_host.event("started");
    vms.iter_mut().for_each(Vm::start_agent);
    let (coupled, mut tenants) = stages("coupled", client, &mut vms, Some(&at_host));
    // the transfers go on
    for (weight, flows) in [(2, 4), (4, 4), (2, 1), (4, 1)] {
        list_guests(&file, &ports, weight);
        at_host.find("weight", |v| v["weight"] == weight);
        arrive_whole(tenants[1].split_off(flows));
        let what = format!("weights 1:{weight}");
        let stage = stage(&what, &mut vms, &tenants, weight, Some(&at_host), MEASURE_WEIGHTS);
        let is_near = (stage.ratio / f64::from(weight) - 1.0).abs() <= NEAR;
        claim(&format!("{what} within 5 %, 1 flow against {flows}, changed under way"), is_near);
        assert_granted(&stage, weight);
    }
    arrive_whole(tenants.into_iter().flatten());
    at_host.finish("stopped");
    claim("Jain index of coupled guests at least 0.99 in all stages", coupled.iter().all(|s| s.jain >= FAIR));
    for (coupled, uncoupled) in coupled.iter().zip(&uncoupled).skip(1) {
        assert!(coupled.jain > uncoupled.jain, "coupling is to make it fairer");
    }
    coupled.iter().for_each(|s| assert_granted(s, 1));

    vms.iter_mut().for_each(|vm| vm.hears("alone"));
    the_host_fails(client, &mut vms, &ports);
    for vm in &mut vms {
        let last = vm.stop_agent();
        println!("agent: {last}");
        assert!(last["flows"]["taken"].as_u64() > Some(0), "{last}");
        assert!(last["flows"]["fallbacks"].as_u64() > Some(0), "{last}");
    }
    a_guest_vanishes(client, &mut vms, &ports);
}

/// Stalls, dies and comes back, and is a program that sends nonsense; transfers go on throughout.
fn the_host_fails(client: &Netns, vms: &mut [Vm; 2], ports: &[String]) {
    let tenants: Vec<Vec<Stream>> = vms.iter().map(|vm| vec![vm.stream(client)]).collect();
    let goes_on = || go_on(&tenants, MORE_BYTES);
    let has_flows = |v: &Value| (0..2).all(|n| v["guests"][n]["flows"] == 1);
    let at_host = controller(ports, [1, 1]);
    vms.iter_mut().for_each(|vm| vm.hears("coupled"));
    at_host.find("sample", has_flows);
    goes_on();

    at_host.signal(libc::SIGSTOP);
    vms.iter_mut().for_each(|vm| vm.hears("alone"));
    goes_on();
    at_host.signal(libc::SIGCONT);
    vms.iter_mut().for_each(|vm| vm.hears("coupled"));
    at_host.find("sample", has_flows);
    goes_on();

    at_host.kill();
    vms.iter_mut().for_each(|vm| vm.hears("alone"));
    goes_on();
    for (vm, port) in vms.iter_mut().zip(ports) {
        let impostor = pretend_to_be_the_host(port);
        vm.hears("coupled");
        (&impostor).write_all(b"open the window, please").expect("the guest listens");
        let why = vm.hears_why("alone");
        assert!(why.contains("nonsense"), "{why}");
    }
    goes_on();

    let at_host = controller(ports, [1, 1]);
    vms.iter_mut().for_each(|vm| vm.hears("coupled"));
    println!("back: {}", at_host.find("sample", has_flows));
    goes_on();
    arrive_whole(tenants.into_iter().flatten());
    at_host.finish("stopped");
    vms.iter_mut().for_each(|vm| vm.hears("alone"));
}

/// First the agent of the second guest is killed, then the whole guest. Its share is the other one's both times:
/// after killed agents nothing notifies the host, so their flows are collected.
fn a_guest_vanishes(client: &Netns, vms: &mut [Vm; 2], ports: &[String]) {
    let at_host = controller(ports, [1, 1]);
    vms.iter_mut().for_each(Vm::start_agent);
    let mut tenants: Vec<Vec<Stream>> = vms.iter().map(|vm| vec![vm.stream(client)]).collect();
    let flows = |v: &Value, second: u64| v["guests"][0]["flows"] == 1 && v["guests"][1]["flows"] == second;
    let has_all = |v: &Value| {
        let (own, sum) = (v["guests"][0]["cwnd_bytes"].as_f64(), v["cwnd_bytes"].as_f64());
        flows(v, 0) && own.expect("a number") > 0.9 * sum.expect("a number")
    };
    at_host.find("sample", |v| flows(v, 1));
    go_on(&tenants, MORE_BYTES);

    vms[1].guest.run("kill -KILL $agent; wait $agent || true; exec 3<&-; rm /run/said");
    println!("agent killed: {}", at_host.find("sample", has_all));
    go_on(&tenants, MORE_BYTES);

    vms[1].start_agent();
    tenants[1] = vec![vms[1].stream(client)];
    at_host.find("sample", |v| flows(v, 1));
    go_on(&tenants, MORE_BYTES);

    vms[1].guest.kill();
    let gone = at_host.event("gone");
    assert_eq!(gone["guest"], "vm1", "{gone}");
    println!("guest killed: {}", at_host.find("sample", has_all));
    tenants.truncate(1);
    go_on(&tenants, MORE_BYTES);
    arrive_whole(tenants.into_iter().flatten());
    vms[0].stop_agent();
    at_host.finish("stopped");
}

/// Greets the guest as a controller does.
fn pretend_to_be_the_host(port: &str) -> UnixStream {
    let mut stream = UnixStream::connect(port).expect("the port of a virtual machine");
    let (mut reader, mut buffer) = (Reader::default(), [0; 4096]);
    loop {
        let n = stream.read(&mut buffer).expect("the guest says hello");
        reader.push(&buffer[..n]);
        if let Ok(Some(Frame { session, message: Message::Hello })) = reader.next_frame() {
            let mut welcome = Vec::new();
            encode(session, &Message::Welcome, &mut welcome);
            stream.write_all(&welcome).expect("the guest listens");
            return stream;
        }
    }
}
