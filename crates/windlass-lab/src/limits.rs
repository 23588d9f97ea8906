//! What the testbed cannot do and the simulator can, and what this kernel does not have.

use crate::{groups, link_emulator::Emulator, netem, netns, tcp};
use socket2::{Domain, Socket, Type};
use std::{collections::BTreeMap, ffi::c_void, fs, io, os::fd::AsRawFd};
use windlass_core::Algorithm;
use windlass_scenario::{Application, Connections, Discipline, Flow, Graph, Location, Refusal, Scenario};

impl Emulator {
    /// Whether the testbed can run the scenario with links by this; else what stands in the way, and the cure.
    pub fn check(self, scenario: &Scenario) -> Result<(), Refusal> {
        check(scenario, self)
    }
}

/// How many links the addresses are enough for.
const LINKS_MOST: usize = 250;
/// Each host is a namespace with routes to all others.
const HOSTS_MOST: usize = 64;

/// Each flow is a thread, and a curl or a connection of its own.
const FLOWS_MOST: usize = 1000;

/// Whether the scenario can run with real kernels and links by `emulator`; else what stands in the way, and the cure.
pub fn check(scenario: &Scenario, emulator: Emulator) -> Result<(), Refusal> {
    check_testbed(scenario)?;
    if emulator == Emulator::Netem {
        check_netem(scenario)?;
    }
    check_algorithms(scenario, &Kernel::of_this_machine())
}

fn check_testbed(scenario: &Scenario) -> Result<(), Refusal> {
    check_network(scenario)?;
    check_count(&scenario.flows)?;
    check_disciplines(scenario)?;
    groups::check(scenario)?;
    tcp::check(scenario).map_err(|e| refusal(Location::Tcp, &e))?;
    let graph = Graph::new(scenario);
    for (index, flow) in scenario.flows.iter().enumerate() {
        let refuse = |(key, what): (&str, String)| Refusal::new(Location::Flow(index), key, what);
        check_workload(flow).map_err(refuse)?;
        check_way(flow, &graph, scenario).map_err(refuse)?;
    }
    check_routes(scenario)
}

/// A mistake that begins with whose it is and the key, as in "[tcp]: validate_window: ...".
fn refusal(location: Location, error: &anyhow::Error) -> Refusal {
    let what = error.to_string();
    let key = what.split_once(": ").map_or("", |(_, rest)| rest);
    let key = key.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).next().unwrap_or("");
    Refusal::new(location, key, what.clone())
}

fn check_netem(scenario: &Scenario) -> Result<(), Refusal> {
    netem::check(scenario).map_err(|e| {
        let what = e.to_string();
        let names = scenario.links.iter().map(|l| format!("link {} - {}: ", l.between[0], l.between[1]));
        let location = names.into_iter().position(|name| what.starts_with(&name)).map(Location::Link);
        refusal(location.unwrap_or(Location::Network), &e)
    })
}

fn check_network(scenario: &Scenario) -> Result<(), Refusal> {
    let (hosts, links) = (scenario.hosts.len(), scenario.links.len());
    let refuse = |what: String| Err(Refusal::new(Location::Network, "", what));
    if hosts > HOSTS_MOST {
        return refuse(format!(
            "{hosts} hosts; the testbed has {HOSTS_MOST} at most: take fewer, or run it with --on sim"
        ));
    }
    if links > LINKS_MOST {
        return refuse(format!(
            "{links} links; the testbed has addresses for {LINKS_MOST}: take fewer, or run it with --on sim"
        ));
    }
    match scenario.switches.iter().position(|s| s.ports.shared_buffer.is_some()) {
        Some(index) => {
            let what = format!(
                "switch \"{}\": shared_buffer: the ports of the testbed's switches queue each on its own: give a \
                 port_buffer, or run it with --on sim",
                scenario.switches[index].name
            );
            Err(Refusal::new(Location::Switch(index), "shared_buffer", what))
        }
        None => Ok(()),
    }
}

/// Whether real packets show what the disciplines go by.
fn check_disciplines(scenario: &Scenario) -> Result<(), Refusal> {
    for index in 0..scenario.links.len() {
        let ports = [false, true].map(|backward| scenario.port(index, backward).discipline);
        let why = ports.iter().flatten().find_map(|discipline| match discipline {
            Discipline::DualPi2(_) => {
                Some("dualpi2: kernels' DCTCP sends ECT(0), which is for its classic queue")
            }
            Discipline::Priority(_) => Some("priority: real packets do not carry the priority of their flow"),
            _ => None,
        });
        if let Some(why) = why {
            let [a, b] = &scenario.links[index].between;
            let what = format!("link {a} - {b}: discipline: {why}: take another, or run it with --on sim");
            return Err(Refusal::new(Location::Link(index), "discipline", what));
        }
    }
    Ok(())
}

fn check_count(flows: &[Flow]) -> Result<(), Refusal> {
    let Some(flow) = flows.get(FLOWS_MOST) else { return Ok(()) };
    let what = format!(
        "flow {}: count: {} flows in all; the testbed plays {FLOWS_MOST} at most: take fewer, or run it with --on sim",
        flow.name(),
        flows.len()
    );
    Err(Refusal::new(Location::Flow(FLOWS_MOST), "count", what))
}

/// Real servers answer over HTTP, one connection of a flow at a time. A mistake has its key.
fn check_workload(flow: &Flow) -> Result<(), (&'static str, String)> {
    if flow.application != Application::Http {
        let what = format!(
            "flow {}: application: real servers answer requests: leave it out, or run it with --on sim",
            flow.name()
        );
        return Err(("application", what));
    }
    if flow.to_each.is_some() {
        let what = format!(
            "flow {}: to: with a connection for each response, each has a receiver of its own, and the testbed's flows have one: \
             name a host, or run it with --on sim",
            flow.name()
        );
        return Err(("to", what));
    }
    let has_intervals = flow.trains.iter().any(|t| t.interval.is_some());
    if flow.connections == Connections::PerResponse && has_intervals {
        let of_what = if flow.loads_pages() {
            "the testbed loads one page at a time"
        } else {
            "with a connection for each response, the testbed has one at a time"
        };
        let what = format!("flow {}: interval: {of_what}: give a gap, or run it with --on sim", flow.name());
        return Err(("interval", what));
    }
    Ok(())
}

/// The testbed's hosts take one way only. A mistake has its key.
fn check_way(flow: &Flow, graph: &Graph, scenario: &Scenario) -> Result<(), (&'static str, String)> {
    let (from, to) = (graph.host(&flow.from), graph.host(&flow.to));
    let Some(at) = graph.choice(from, to).or_else(|| graph.choice(to, from)) else { return Ok(()) };
    let what = format!(
        "flow {}: switch \"{}\" has several equally short ways; the testbed's hosts take one only: leave a link out, or \
         run it with --on sim",
        flow.name(),
        scenario.hosts[at].name
    );
    Err(("to", what))
}

/// A route has one congestion control. What is coupled gets its own from a policy instead.
fn check_routes(scenario: &Scenario) -> Result<(), Refusal> {
    let mut routes: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (index, flow) in scenario.flows.iter().enumerate().filter(|(_, flow)| flow.group.is_none()) {
        let takes_part = tcp::needs_ecn(&flow.algorithm);
        let ways = [(flow.from.as_str(), flow.to.as_str()), (flow.to.as_str(), flow.from.as_str())];
        for way in &ways[..1 + usize::from(takes_part)] {
            let first = *routes.entry(*way).or_insert(flow.algorithm.as_str());
            if first != flow.algorithm {
                let what = format!(
                    "flow {}: algorithm: \"{}\", and another flow between these hosts has \"{first}\"; the testbed \
                     chooses by route: use two receivers",
                    flow.name(),
                    flow.algorithm
                );
                return Err(Refusal::new(Location::Flow(index), "algorithm", what));
            }
        }
    }
    Ok(())
}

/// Congestion controls of a kernel.
struct Kernel {
    /// Those that it has loaded.
    loaded: Vec<String>,
    /// Whether it has one that is not among these.
    can_load: fn(&str) -> bool,
}

const LOADED: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

impl Kernel {
    fn of_this_machine() -> Kernel {
        let loaded = fs::read_to_string(LOADED).unwrap_or_default();
        // the kernel loads modules for root only, and without root nothing will run: what it has need not be known
        let can_load = |name: &str| !netns::is_root() || can_be_chosen(name);
        Kernel { loaded: loaded.split_whitespace().map(String::from).collect(), can_load }
    }

    fn has(&self, name: &str) -> bool {
        self.loaded.iter().any(|n| n == name) || (self.can_load)(name)
    }
}

/// Longest name of a congestion control (`TCP_CA_NAME_MAX`, with its end).
const NAME_MOST_BYTES: usize = 15;

/// Whether a socket of this process could have it: when it is requested, the kernel loads the module that it is in,
/// as it does for a route.
fn can_be_chosen(name: &str) -> bool {
    let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, None) else { return false };
    let (value, length) = (name.as_ptr().cast::<c_void>(), name.len() as libc::socklen_t);
    // SAFETY: the descriptor is open, and the kernel reads `length` bytes of `value`.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, value, length) == 0
    };
    // any other error is about one that is there
    let is_there = done || io::Error::last_os_error().raw_os_error() != Some(libc::ENOENT);
    is_there && name.len() <= NAME_MOST_BYTES
}

fn check_algorithms(scenario: &Scenario, kernel: &Kernel) -> Result<(), Refusal> {
    for (index, flow) in scenario.flows.iter().enumerate() {
        check_algorithm(flow, kernel).map_err(|what| {
            let what = format!("flow {}: algorithm: {what}", flow.name());
            Refusal::new(Location::Flow(index), "algorithm", what)
        })?;
    }
    match scenario.windlass.as_ref().filter(|w| Algorithm::by_name(&w.algorithm).is_none()) {
        Some(w) => {
            let known = Algorithm::names();
            let what =
                format!("[windlass]: algorithm: no \"{}\" in the core; there are {known}", w.algorithm);
            Err(Refusal::new(Location::Windlass, "algorithm", what))
        }
        None => Ok(()),
    }
}

fn check_algorithm(flow: &Flow, kernel: &Kernel) -> Result<(), String> {
    let name = &flow.algorithm;
    // what is coupled is Windlass' whatever its name begins with
    let coupled = flow.group.as_ref().map(|_| name.as_str());
    let Some(own) = flow.own_algorithm().or(coupled) else { return check_kernels(name, kernel) };
    match Algorithm::by_name(own) {
        Some(_) => Ok(()),
        None => Err(format!("no \"{name}\"; Windlass has {}", own_names())),
    }
}

fn check_kernels(name: &str, kernel: &Kernel) -> Result<(), String> {
    if kernel.has(name) {
        return Ok(());
    }
    let cure = match Algorithm::by_name(name) {
        Some(_) => format!("write \"wl_{name}\" for the one that Windlass has"),
        None => format!("Windlass has {}", own_names()),
    };
    Err(format!("this kernel has no \"{name}\"; it has {}; {cure}", kernel.loaded.join(", ")))
}

/// Windlass' own algorithms, as flows name them.
fn own_names() -> String {
    let names: Vec<String> = Algorithm::all().map(|a| format!("wl_{}", a.name())).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_scenario::ScenarioFile;

    fn verdict(topology: &str, flow: [&str; 2]) -> String {
        let [from, to] = flow;
        let text = format!(
            "name = \"t\"\n[topology]\n{topology}edge = {{ rate = \"100 Mbit/s\", delay = \"1 ms\" }}\n\
             [[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nsize = \"1 kB\"\n"
        );
        told(&text, check_testbed)
    }

    /// What to report of a scenario, with its line; nothing: it can run.
    fn told(text: &str, check: impl Fn(&Scenario) -> Result<(), Refusal>) -> String {
        let file = ScenarioFile::parse("t", text).unwrap_or_else(|e| panic!("{e}"));
        check(&file.scenario).err().map_or_else(String::new, |refusal| file.refused(&refusal).to_string())
    }

    #[test]
    fn what_the_testbed_cannot_do_is_refused_with_a_cure() {
        let dumbbell =
            "shape = \"dumbbell\"\npairs = 2\nbottleneck = { rate = \"10 Mbit/s\", delay = \"1 ms\" }\n";
        assert_eq!(verdict(dumbbell, ["left-1", "right-2"]), "");
        let shared = format!("{dumbbell}switch = {{ shared_buffer = \"64 kB\" }}\n");
        let e = verdict(&shared, ["left-1", "right-2"]);
        assert!(e.contains("switch-left") && e.contains("shared_buffer") && e.contains("--on sim"), "{e}");
        let tree = "shape = \"fat-tree\"\nk = 4\nfabric = {}\n";
        let e = verdict(tree, ["host-1-1-1", "host-2-1-1"]);
        assert!(e.contains("edge-1-1") && e.contains("--on sim"), "{e}");
        assert_eq!(verdict(tree, ["host-1-1-1", "host-1-1-2"]), "");
        let e = verdict(&tree.replace('4', "6"), ["host-1-1-1", "host-1-1-2"]);
        assert!(e.contains("99 hosts") && e.contains("--on sim"), "{e}");
    }

    #[test]
    fn what_real_servers_cannot_do_is_refused() {
        let verdict = |rest: &str| {
            let text = format!(
                "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{rest}"
            );
            told(&text, check_testbed)
        };
        let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
        let train = "[[flow.train]]\ncount = 3\nsize = \"1 kB\"\n";
        assert_eq!(verdict(&format!("{flow}{train}interval = \"1 ms\"\n")), "");
        assert_eq!(verdict(&format!("{flow}connections = \"per-response\"\n{train}gap = \"1 ms\"\n")), "");
        let e = verdict(&format!("{flow}connections = \"per-response\"\n{train}interval = \"1 ms\"\n"));
        assert!(e.contains("interval") && e.contains("--on sim"), "{e}");
        for application in ["push", "upload"] {
            let e = verdict(&format!("{flow}application = \"{application}\"\n{train}"));
            assert!(e.contains("application") && e.contains("--on sim"), "{e}");
        }
        let group = "[[group]]\nname = \"g\"\nrule = \"ccc\"\n";
        assert_eq!(verdict(group), "");
        let e = verdict(&format!("{group}without = [\"stale-shares\"]\n"));
        assert!(e.contains("without") && e.contains("--on sim"), "{e}");
        assert_eq!(verdict(&format!("{group}idle = \"2 s\"\n")), "");
        let e = verdict(&format!("{group}idle = \"500 ms\"\n"));
        assert!(e.starts_with("t:11: group \"g\": idle: ") && e.contains("--on sim"), "{e}");
        let coupled = format!("{flow}size = \"1 kB\"\ngroup = \"g\"\n");
        assert_eq!(verdict(&format!("{group}{}", coupled.repeat(2))), "");
        let e = verdict(&format!("{group}{coupled}{coupled}weight = 2\n"));
        assert!(e.contains("flow a > b: group: ") && e.contains("--on sim"), "{e}");
        assert_eq!(verdict("[tcp]\ninitial_window = 2\ndelayed_ack = \"0 s\"\n"), "");
        for (key, value) in
            [("validate_window", "false"), ("new_reno", "false"), ("delayed_ack", "\"10 ms\"")]
        {
            let e = verdict(&format!("[tcp]\n{key} = {value}\n"));
            assert!(e.contains(key) && e.contains("--on sim"), "{e}");
        }
        let e = verdict(&format!("[tcp]\necn = \"exact\"\n{flow}{train}"));
        assert!(e.contains("exact") && e.contains("--on sim"), "{e}");
    }

    const PAIR: &str = "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
        between = [\"a\", \"b\"]\n";

    #[test]
    fn what_is_refused_has_its_line() {
        let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\n";
        let refused = |rest: &str| told(&format!("{PAIR}{rest}"), check_testbed);
        let e = refused(&format!("{flow}{flow}application = \"push\"\n"));
        assert!(e.starts_with("t:16: flow a > b: application: "), "{e}");
        let e = refused(&format!("{flow}[tcp]\nsack = true\nvalidate_window = false\n"));
        assert!(e.starts_with("t:14: [tcp]: validate_window: "), "{e}");
        let e = refused(&format!("[tcp]\necn = \"exact\"\n{flow}"));
        assert!(e.starts_with("t:9: [tcp]: ecn = "), "{e}");
        let e = refused(&format!("{flow}{flow}algorithm = \"reno\"\n"));
        assert!(e.starts_with("t:16: flow a > b: algorithm: ") && e.contains("two receivers"), "{e}");
        assert_eq!(refused(&format!("{flow}{flow}algorithm = \"cubic\"\n")), "");
        assert_eq!(refused(&format!("{flow}count = {}\n{flow}", FLOWS_MOST - 1)), "");
        let e = refused(&format!("{flow}count = {FLOWS_MOST}\n{flow}count = 1\n"));
        assert!(e.starts_with("t:17: flow a > b: count: 1001 flows") && e.contains("--on sim"), "{e}");
        for kind in ["dualpi2", "priority"] {
            let keys = format!("rate = \"1 Mbit/s\"\nbuffer = \"1 MB\"\ndiscipline = \"{kind}\"\n{flow}");
            let e = refused(&keys);
            assert!(e.starts_with(&format!("t:10: link a - b: discipline: {kind}: ")), "{e}");
        }
        assert_eq!(refused(&format!("rate = \"1 Mbit/s\"\ndiscipline = \"fq-codel\"\n{flow}")), "");
        let marks = format!("{PAIR}rate = \"1 Mbit/s\"\necn = \"20 packets\"\n{flow}");
        let e = told(&marks, check_netem);
        assert!(e.starts_with("t:9: link a - b: ecn: "), "{e}");
    }

    #[test]
    fn algorithms_are_those_of_the_kernel_and_those_of_windlass() {
        let kernel = Kernel { loaded: vec!["reno".into(), "cubic".into()], can_load: |name| name == "bbr" };
        let told = |keys: &str| {
            let text = format!("{PAIR}[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\n{keys}");
            told(&text, |scenario| check_algorithms(scenario, &kernel))
        };
        for name in ["reno", "bbr", "wl_bbr3", "wl_trim"] {
            assert_eq!(told(&format!("algorithm = \"{name}\"\n")), "");
        }
        assert_eq!(told(""), "", "what is not said is cubic");
        let e = told("algorithm = \"vegas\"\n");
        let vegas = "t:12: flow a > b: algorithm: this kernel has no \"vegas\"; it has reno, cubic; Windlass has wl_reno, ";
        assert!(e.starts_with(vegas) && e.contains(", wl_bbr3"), "{e}");
        let e = told("algorithm = \"bbr3\"\n");
        assert!(e.contains("has no \"bbr3\"; it has reno, cubic; write \"wl_bbr3\""), "{e}");
        let e = told("algorithm = \"wl_vegas\"\n");
        assert!(e.starts_with("t:12: flow a > b: algorithm: no \"wl_vegas\"; Windlass has wl_reno, "), "{e}");
        // the policy that couples flows has Windlass' own only
        let group = "group = \"g\"\n[[group]]\nname = \"g\"\nrule = \"ccc\"\n";
        assert_eq!(told(&format!("algorithm = \"trim\"\n{group}")), "");
        let e = told(&format!("algorithm = \"vegas\"\n{group}"));
        assert!(e.contains("no \"vegas\"; Windlass has wl_reno"), "{e}");
        let e = told("[windlass]\nat = \"a\"\nfacing = \"b\"\nalgorithm = \"vegas\"\n");
        assert!(
            e.starts_with("t:15: [windlass]: algorithm: no \"vegas\"") && e.contains("reno, cubic"),
            "{e}"
        );
    }

    #[test]
    fn an_algorithm_that_is_not_loaded_is_requested_from_the_kernel() {
        // every kernel has Reno, loaded or not
        assert!(can_be_chosen("reno") && !can_be_chosen("nosuch"));
        assert!(!can_be_chosen("renorenorenoreno") && !can_be_chosen(&"r".repeat(64)));
    }
}
