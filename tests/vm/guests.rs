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
    streams::{Stream, fetch, jain, rates_bps, received_bytes},
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
/// What the paper's "perfect fairness" is taken to mean.
const FAIR: f64 = 0.99;

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

    /// What the agent says next.
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

/// One flow of the first guest against ever more of the second. Prints the rates in each stage, and how fair they are by
/// weight, which it returns.
fn stages(what: &str, client: &Netns, vms: &[Vm; 2], weights: [f64; 2], flows: &[usize]) -> Vec<f64> {
    let mut tenants = vec![vec![vms[0].stream(client)], Vec::new()];
    let mut all = Vec::new();
    for count in flows {
        tenants[1].resize_with(*count, || vms[1].stream(client));
        thread::sleep(SETTLE);
        let rates = rates_bps(&tenants, MEASURE);
        let index = jain(&[rates[0] / weights[0], rates[1] / weights[1]]);
        println!(
            "{what}, 1 flow against {count}: {:.2} and {:.2} Mbit/s, 1 : {:.2}, Jain {index:.4}{}",
            rates[0] / 1e6,
            rates[1] / 1e6,
            rates[1] / rates[0],
            if index < FAIR { ", less than 0.99" } else { "" }
        );
        all.push(index);
    }
    tenants.into_iter().flatten().for_each(|s| assert!(s.finish().expect("whole payloads") > 0));
    all
}

#[test]
fn two_guests_are_coupled_by_their_host() {
    let Some((image, _alone)) = Image::get() else { return };
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

    let uncoupled = stages("uncoupled", client, &vms, [1.0, 1.0], &[1, 2, 3, 4]);
    let file = folder.path().join("guests.toml");
    list_guests(&file, &ports, 1);
    let words = ["controller", "--json", "--sample-ms", "200", "--guests"];
    let at_host = Process::start(windlass().args(words).arg(&file));
    at_host.event("started");
    vms.iter_mut().for_each(Vm::start_agent);
    let coupled = stages("coupled", client, &vms, [1.0, 1.0], &[1, 2, 3, 4]);
    for weight in [2, 4] {
        list_guests(&file, &ports, weight);
        at_host.find("weight", |v| v["weight"] == weight);
        stages(&format!("weights 1:{weight}"), client, &vms, [1.0, f64::from(weight)], &[1, 4]);
    }
    at_host.finish("stopped");
    for (coupled, uncoupled) in coupled.iter().zip(&uncoupled).skip(1) {
        assert!(coupled > uncoupled, "coupling is to make it fairer");
    }

    vms.iter_mut().for_each(|vm| vm.hears("alone"));
    the_host_fails(client, &mut vms, &ports);
    for vm in &mut vms {
        let last = vm.stop_agent();
        println!("agent: {last}");
        assert!(last["flows"]["taken"].as_u64() > Some(0), "{last}");
        assert!(last["flows"]["fallbacks"].as_u64() > Some(0), "{last}");
    }
}

/// Stalls, dies and comes back, and is somebody who talks nonsense; transfers go on throughout.
fn the_host_fails(client: &Netns, vms: &mut [Vm; 2], ports: &[String]) {
    let tenants: Vec<Vec<Stream>> = vms.iter().map(|vm| vec![vm.stream(client)]).collect();
    let goes_on = || {
        let goal: Vec<u64> = received_bytes(&tenants).iter().map(|b| b + (1 << 19)).collect();
        while received_bytes(&tenants).iter().zip(&goal).any(|(now, goal)| now < goal) {
            thread::sleep(Duration::from_millis(10));
        }
    };
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
    tenants.into_iter().flatten().for_each(|s| assert!(s.finish().expect("whole payloads") > 0));
    at_host.finish("stopped");
    vms.iter_mut().for_each(|vm| vm.hears("alone"));
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
