//! The network of `bench isolation`: two servers and a neighbour on one switch behind the router, of which the box controls the
//! one interface; clients over emulated paths, and an attacker with a cable of its own.
//!
//! ```text
//! server   --+
//! attacked --+-- switch -- r1 router r3 -- attacker
//! neighbour -+                router ~~~~~ four clients
//! ```

use crate::settings::Settings;
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddrV4};
use windlass_lab::{
    BoxProcess, Server, Wan, Wire,
    attacks::{FLOOD_NETWORK, Port, frame::Macs},
    clean_leftovers, netns,
    netns::Netns,
};
use windlass_scenario::Scenario;

/// Interface of the router that faces the servers.
const CONTROLLED: &str = "r1";
/// The attacker's cable carries no more towards it: its own traffic is not to fill the machine.
const ATTACKER_RATE: &str = "200mbit";
/// Addresses of the attacker's clients: 10.79.0.0/16.
const ATTACKER_FIRST: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
const HTTP_PORT: u16 = 80;
/// Connections of one server beside those of an attack.
const OWN_CONNECTIONS: usize = 64;
/// In the names of devices' addresses: the last byte.
const ROUTER: u8 = 1;

/// An emulated path to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its name.
    pub name: &'static str,
    link: &'static str,
}

/// The paths: the same to a client of either server.
pub const PATHS: [Path; 2] = [
    Path {
        name: "lossy",
        link: "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"\nloss = \"1 %\"",
    },
    Path { name: "clean", link: "rate = \"100 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"" },
];

/// Which server the victim's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Another one than the attacked, behind the same interface.
    Other,
    /// The attacked one.
    Own,
}

/// Both.
pub const TARGETS: [Target; 2] = [Target::Other, Target::Own];

impl Target {
    fn server(self) -> Ipv4Addr {
        match self {
            Target::Other => Ipv4Addr::new(10, 78, 1, 2),
            Target::Own => Ipv4Addr::new(10, 78, 1, 3),
        }
    }
}

/// A client, and from where to where it downloads.
pub struct Client {
    pub host: Netns,
    pub target: Target,
    pub address: Ipv4Addr,
}

impl Client {
    pub fn server(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.target.server(), HTTP_PORT)
    }
}

/// A network that is up. Fields are dropped in order: traffic first, then its hosts.
pub struct Network {
    _wan: Wan,
    _servers: Vec<Server>,
    pub clients: Vec<Client>,
    attacker: Netns,
    neighbour: Netns,
    router: Netns,
    _hosts: Vec<Netns>,
}

/// Of `number` behind the router's interface `r<cable>`.
fn mac(cable: u8, number: u8) -> [u8; 6] {
    [2, 0, 0, 78, cable, number]
}

fn mac_text(cable: u8, number: u8) -> String {
    mac(cable, number).map(|byte| format!("{byte:02x}")).join(":")
}

/// A cable between two hosts, both ends up.
fn cable(a: &Netns, a_device: &str, a_mac: &str, b: &Netns, b_device: &str, b_mac: &str) -> Result<()> {
    a.run(&[
        "ip",
        "link",
        "add",
        a_device,
        "address",
        a_mac,
        "type",
        "veth",
        "peer",
        "name",
        b_device,
        "address",
        b_mac,
        "netns",
        b.name(),
    ])?;
    a.run(&["ip", "link", "set", a_device, "up"])?;
    b.run(&["ip", "link", "set", b_device, "up"])?;
    Ok(())
}

fn scenario() -> Result<Scenario> {
    let mut text = String::from("name = \"isolation\"\nseed = 1\n[[host]]\nname = \"router\"\n");
    let mut links = String::new();
    for (index, path) in clients().map(|(path, _)| path).enumerate() {
        text += &format!("[[host]]\nname = \"client{index}\"\n");
        links += &format!("[[link]]\nbetween = [\"router\", \"client{index}\"]\n{}\n", path.link);
    }
    Ok(Scenario::parse("isolation", &(text + &links))?)
}

/// Path and server of each client.
fn clients() -> impl Iterator<Item = (Path, Target)> {
    TARGETS.into_iter().flat_map(|target| PATHS.map(|path| (path, target)))
}

impl Network {
    /// Makes it. `connections`: how many the attacked server should have room for.
    pub fn create(connections: usize) -> Result<Network> {
        clean_leftovers();
        let run = netns::next_run();
        let host = |name: &str| Netns::create(run, name);
        let (router, switch) = (host("router")?, host("switch")?);
        router.run(&[
            "sysctl",
            "-qw",
            "net.ipv4.ip_forward=1",
            "net.ipv4.conf.all.rp_filter=0",
            "net.ipv4.conf.default.rp_filter=0",
        ])?;
        switch.run(&["ip", "link", "add", "bridge", "type", "bridge"]).context("a bridge of this kernel")?;
        switch.run(&["ip", "link", "set", "bridge", "up"])?;
        let plug = |device: &str| switch.run(&["ip", "link", "set", device, "master", "bridge"]);
        cable(&router, CONTROLLED, &mac_text(1, ROUTER), &switch, "uplink", &mac_text(2, ROUTER))?;
        plug("uplink")?;
        router.run(&["ip", "addr", "add", "10.78.1.1/24", "dev", CONTROLLED])?;
        let (server, attacked, neighbour) = (host("server")?, host("attacked")?, host("neighbour")?);
        for (number, host) in (2..).zip([&server, &attacked, &neighbour]) {
            let port = format!("port{number}");
            cable(host, "eth0", &mac_text(1, number), &switch, &port, &mac_text(2, number))?;
            plug(&port)?;
            host.run(&["ip", "addr", "add", &format!("10.78.1.{number}/24"), "dev", "eth0"])?;
            host.run(&["ip", "route", "add", "default", "via", "10.78.1.1", "congctl", "cubic"])?;
            // as servers for long paths are set up
            host.run(&[
                "sysctl",
                "-qw",
                "net.ipv4.tcp_wmem=4096 16384 16777216",
                "net.core.somaxconn=65535",
            ])?;
        }
        let attacker = Self::connect_attacker(&router, host("attacker")?)?;
        let (wan, clients) = Self::connect_clients(&router, run)?;
        let servers = vec![
            Server::start(&server, OWN_CONNECTIONS)?,
            Server::start(&attacked, OWN_CONNECTIONS + connections)?,
        ];
        Ok(Network {
            _wan: wan,
            _servers: servers,
            clients,
            attacker,
            neighbour,
            router,
            _hosts: vec![server, attacked, switch],
        })
    }

    fn connect_attacker(router: &Netns, attacker: Netns) -> Result<Netns> {
        cable(router, "r3", &mac_text(3, ROUTER), &attacker, "eth0", &mac_text(3, 2))?;
        router.run(&["ip", "addr", "add", "10.78.3.1/24", "dev", "r3"])?;
        attacker.run(&["ip", "addr", "add", "10.78.3.2/24", "dev", "eth0"])?;
        let (flood, bits) = FLOOD_NETWORK;
        for network in ["10.79.0.0/16".to_string(), format!("{flood}/{bits}")] {
            router.run(&["ip", "route", "add", &network, "via", "10.78.3.2"])?;
        }
        router.run(&[
            "tc",
            "qdisc",
            "add",
            "dev",
            "r3",
            "root",
            "tbf",
            "rate",
            ATTACKER_RATE,
            "burst",
            "256k",
            "limit",
            "4m",
        ])?;
        Ok(attacker)
    }

    fn connect_clients(router: &Netns, run: u32) -> Result<(Wan, Vec<Client>)> {
        let scenario = scenario()?;
        let (mut wires, mut all) = (Vec::new(), Vec::new());
        for (index, (_, target)) in clients().enumerate() {
            let host = Netns::create(run, &format!("client{index}"))?;
            let device = format!("w{index}");
            let models = [false, true].map(|backward| scenario.link_model(index, backward));
            wires.push(Wire::open(models, [router, &host], [&device, "eth0"])?);
            let (address, peer) =
                (Ipv4Addr::new(10, 78, 10 + index as u8, 2), Ipv4Addr::new(10, 78, 10 + index as u8, 1));
            let ends = [(router, device.as_str(), peer, address), (&host, "eth0", address, peer)];
            for (end, device, own, other) in ends {
                let (own, other) = (own.to_string(), format!("{other}/32"));
                end.run(&["ip", "addr", "add", &own, "peer", &other, "dev", device])?;
            }
            host.run(&["ip", "route", "add", "default", "via", &peer.to_string()])?;
            all.push(Client { host, target, address });
        }
        // spinning would take a processor from the hosts
        Ok((Wan::start(wires, 0)?, all))
    }

    /// The server that is attacked.
    pub fn attacked(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Target::Own.server(), HTTP_PORT)
    }

    /// The first address of the attacker's clients.
    pub fn first_address(&self) -> Ipv4Addr {
        ATTACKER_FIRST
    }

    /// Where a host somewhere in the network attacks from.
    pub fn attacker(&self) -> Port<'_> {
        let macs = Macs { own: mac(3, 2), next_hop: mac(3, ROUTER) };
        Port { host: &self.attacker, device: "eth0", macs }
    }

    /// Where a neighbour of the servers does, with an address of its own below IP.
    pub fn neighbour(&self) -> Port<'_> {
        let macs = Macs { own: mac(1, 4), next_hop: mac(1, ROUTER) };
        Port { host: &self.neighbour, device: "eth0", macs }
    }

    /// `windlass attach` on the interface that faces the servers.
    pub fn attach(&self, settings: &Settings) -> Result<BoxProcess> {
        let args = ["--alg", "bbr"].map(String::from);
        BoxProcess::start(&self.router, &settings.windlass, CONTROLLED, &args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_lab::{
        attacks::{Attack, Running, Stage, Victim},
        files, tcp_counters,
    };

    #[test]
    fn each_path_leads_to_a_client_of_each_server() {
        let scenario = scenario().unwrap();
        assert_eq!(scenario.links.len(), PATHS.len() * TARGETS.len());
        for (link, (path, _)) in scenario.links.iter().zip(clients()) {
            assert_eq!(link.loss.0 > 0.0, path.name == "lossy");
        }
    }

    /// Every attack but those of thousands of connections, against a server of this kernel.
    #[test]
    fn attacks_reach_their_server_and_leave_no_connection_behind() {
        if !netns::is_root() {
            println!("skipped: attacks_reach_their_server_and_leave_no_connection_behind: needs root");
            return;
        }
        let network = Network::create(200).unwrap();
        let client = &network.clients[0];
        let stage = Stage {
            target: network.attacked(),
            file: files::endless().unwrap(),
            first_address: network.first_address(),
            victims: vec![Victim { server: client.server(), client: SocketAddrV4::new(client.address, 9) }],
            seed: 1,
        };
        for attack in Attack::ALL.into_iter().filter(|attack| attack.connections() <= 200) {
            let at = if attack.is_neighbour() { network.neighbour() } else { network.attacker() };
            let mut running = Running::start(attack, &stage, &at).unwrap();
            running.wait_until_ready(None).unwrap();
            let tally = running.finish().unwrap();
            assert_eq!(tally.established, attack.connections() as u64, "{}", attack.name());
            assert!(tally.sent > 0, "{}", attack.name());
        }
        let attacked = &network._hosts[1];
        // a server that still had one would send for minutes
        while tcp_counters(attacked).unwrap()["CurrEstab"] > 0 {}
    }

    #[test]
    fn addresses_of_devices_are_those_that_frames_carry() {
        assert_eq!(mac_text(1, 4), "02:00:00:4e:01:04");
        assert_eq!(mac(1, 4), [2, 0, 0, 0x4e, 1, 4]);
    }
}
