//! Sockets of two containers in a group, by policy: one has one connection, the other several.

use crate::{
    downloads::Downloads,
    native::{gone_over, in_use, native_list, own_prefix, registered},
    run_whole,
    site::{PLAIN, Setup, Site, site_or_skip},
    unremovable::Unremovable,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    mem::offset_of,
    net::TcpStream,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use tempfile::TempDir;
use windlass_agent::GroupHome;
use windlass_core::abi::{self, wl_group};
use windlass_lab::{Cgroup, files, netns};
use windlass_scenario::Scenario;
use windlass_tests::{
    is_root_or_skip,
    process::{LIMIT, Process, until},
    windlass,
};

const LINK: &str = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"";

/// Jain's index of what two tenants got.
fn jain([a, b]: [f64; 2]) -> f64 {
    (a + b) * (a + b) / (2.0 * (a * a + b * b))
}

/// Of both hosts, where it matters how much each gets: many times what is lost at once.
const LONG_BYTES: u64 = 12_000_000;
/// Where it does not.
const SHORT_BYTES: u64 = 3_000_000;

/// Two hosts are fetched from, `bytes` of both, the second over several connections; all that arrives is checked. Rates of the
/// two, and what was counted.
fn lab(
    group: &str,
    bytes: u64,
    weights: [u64; 2],
    flows: usize,
    algorithm: &str,
) -> ([f64; 2], BTreeMap<String, u64>) {
    // the one that gets more has more to send, so that both are busy to the end
    let bytes = weights.map(|w| w * bytes / (weights[0] + weights[1]));
    let flow = |host: &str, weight: u64, bytes: u64| {
        format!(
            "[[flow]]\nfrom = \"{host}\"\nto = \"client\"\nsize = \"{bytes} B\"\nalgorithm = \"{algorithm}\"\n\
             group = \"both\"\nweight = {weight}\n"
        )
    };
    let text = format!(
        "name = \"containers\"\ntime_limit = \"60 s\"\n[[host]]\nname = \"one\"\n[[host]]\nname = \"two\"\n\
         [[host]]\nname = \"router\"\n[[host]]\nname = \"client\"\n\
         [[link]]\nbetween = [\"one\", \"router\"]\n[[link]]\nbetween = [\"two\", \"router\"]\n\
         [[link]]\nbetween = [\"router\", \"client\"]\n{LINK}\n\
         [[group]]\nname = \"both\"\n{group}\n{}{}",
        flow("one", weights[0], bytes[0]),
        flow("two", weights[1], bytes[1] / flows as u64).repeat(flows)
    );
    let report = run_whole(&Scenario::parse("containers", &text).expect("a sound scenario"));
    let last = |host: &str| {
        let own = report.flows.iter().filter(|f| f.name.starts_with(host)).filter_map(|f| f.completion_s);
        own.fold(0.0, f64::max)
    };
    let rates = [bytes[0] as f64 / last("one"), bytes[1] as f64 / last("two")];
    println!("{algorithm} {group:?} {weights:?}: {rates:.0?} bytes/s, {:?}", report.windlass);
    (rates, report.windlass)
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn containers_share_by_weight_whatever_the_number_of_their_sockets() {
    if !is_root_or_skip("containers_share_by_weight_whatever_the_number_of_their_sockets") {
        return;
    }
    let group = "rule = \"ccc\"\nper = \"server\"";
    for algorithm in ["reno", "cubic"] {
        let (rates, counters) = lab(group, LONG_BYTES, [1, 1], 4, algorithm);
        assert!(jain(rates) >= 0.99, "{algorithm}: {rates:?}");
        assert!(counters["group_joined"] >= 5, "{counters:?}");
        assert_eq!(counters["group_refused"], 0, "{counters:?}");
        let (rates, _) = lab(group, LONG_BYTES, [1, 2], 2, algorithm);
        let ratio = rates[1] / rates[0];
        assert!((1.8..2.2).contains(&ratio), "{algorithm}: 1:2 became 1:{ratio:.2}");
    }
}

/// A group with room for two: the other sockets are on their own, and everything arrives.
#[test]
fn a_full_group_refuses_sockets_and_they_go_on() {
    if !is_root_or_skip("a_full_group_refuses_sockets_and_they_go_on") {
        return;
    }
    let (_, counters) = lab("rule = \"ccc\"\nmax_members = 2", SHORT_BYTES, [1, 1], 4, "reno");
    assert!(counters["group_refused"] >= 3, "{counters:?}");
    assert!(counters["group_joined"] >= 2, "{counters:?}");
}

/// A member that reports nothing for longer than the group allows is taken out, and joins again when it speaks.
#[test]
fn a_silent_socket_is_collected_and_joins_again() {
    if !is_root_or_skip("a_silent_socket_is_collected_and_joins_again") {
        return;
    }
    let text = format!(
        "name = \"silent\"\ntime_limit = \"60 s\"\n[[host]]\nname = \"server\"\n[[host]]\nname = \"client\"\n\
         [[link]]\nbetween = [\"server\", \"client\"]\n{LINK}\n\
         [[group]]\nname = \"g\"\nrule = \"ccc\"\nidle = \"1 s\"\n\
         [[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"12 MB\"\nalgorithm = \"reno\"\ngroup = \"g\"\n\
         [[flow]]\nfrom = \"server\"\nto = \"client\"\nalgorithm = \"reno\"\ngroup = \"g\"\n\
         [[flow.train]]\ncount = 2\nsize = \"200 kB\"\ngap = \"2500 ms\"\n"
    );
    let counters = run_whole(&Scenario::parse("silent", &text).expect("a sound scenario")).windlass;
    assert!(counters["group_collected"] >= 1, "{counters:?}");
    assert!(counters["group_joined"] >= 3, "{counters:?}");
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn every_rule_couples_sockets() {
    if !is_root_or_skip("every_rule_couples_sockets") {
        return;
    }
    for rule in windlass_core::GroupRule::all() {
        let per = if rule.has_shares() { "\nper = \"server\"" } else { "" };
        let group = format!("rule = \"{}\"{per}", rule.name());
        let (_, counters) = lab(&group, SHORT_BYTES, [1, 1], 2, "reno");
        assert!(counters["group_joined"] >= 3, "{}: {counters:?}", rule.name());
    }
}

/// `windlass agent` with the native home under a prefix of its own. Dropped, it is killed and the algorithms unloaded.
struct Agent {
    process: Process,
    prefix: String,
    policy: PathBuf,
}

impl Agent {
    fn start(policy: PathBuf, prefix: &str) -> Agent {
        let words = ["agent", "--policy", policy.to_str().expect("UTF-8"), "--prefix", prefix];
        Agent { process: Process::start(windlass().args(words)), prefix: prefix.into(), policy }
    }

    /// Waits until it has written all these words, each in a line of its own.
    fn says(&self, words: &[&str]) {
        words.iter().for_each(|word| drop(self.process.says(word)));
    }

    /// Puts another policy into its file, at once.
    fn rewrite(&self, text: &str) {
        let draft = self.policy.with_extension("draft");
        fs::write(&draft, text).expect("a writable folder");
        fs::rename(&draft, &self.policy).expect("the same folder");
    }

    /// As kill -9 does.
    fn kill(&mut self) {
        self.process.end(libc::SIGKILL);
    }

    /// What `windlass native list` reports of this home's groups.
    fn groups(&self) -> Value {
        let value = native_list();
        let all = value["groups"].as_array().expect("a list");
        all.iter().find(|g| g["prefix"] == self.prefix.as_str()).cloned().unwrap_or_default()
    }

    /// Of the first of them.
    fn members(&self) -> Option<u64> {
        self.groups()["groups"][0]["members"].as_u64()
    }

    /// The map that keeps them.
    fn homes(&self) -> MapHandle {
        let path = format!("/sys/fs/bpf/windlass/native/{}/groups", self.prefix);
        MapHandle::from_pinned_path(path).expect("the groups' map")
    }

    /// What the kernel keeps of the first group, as bytes that begin with a [`GroupHome`].
    fn home_bytes(&self) -> Vec<u8> {
        let bytes = self.homes().lookup(&0u32.to_ne_bytes(), MapFlags::ANY).expect("readable");
        bytes.expect("there")
    }

    /// The first group's state.
    fn group(&self) -> wl_group {
        let bytes = self.home_bytes();
        assert!(bytes.len() >= size_of::<GroupHome>());
        // SAFETY: plain data of at most this length, valid for any bytes.
        unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<GroupHome>()) }.group
    }

    /// Its window.
    fn window_bytes(&self) -> u64 {
        self.group().sum_cwnd_q16 >> abi::WL_GROUP_Q
    }

    /// Has it locked without a holder, or free again. No socket of it may receive an ACK meanwhile.
    fn set_busy(&self, is_busy: bool) {
        let mut bytes = self.home_bytes();
        let lock = offset_of!(GroupHome, lock);
        bytes[lock..lock + 4].copy_from_slice(&u32::from(is_busy).to_ne_bytes());
        self.homes().update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).expect("it can be written");
    }

    fn unload(&self) {
        let out =
            windlass().args(["native", "unload", "--prefix", &self.prefix]).output().expect("windlass runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.process.end(libc::SIGKILL);
        // it may have been done before
        let _ = windlass().args(["native", "unload", "--prefix", &self.prefix]).output();
    }
}

/// A rule for a container, with a weight for all of its sockets together.
fn rule(site: &Site, server: usize, weight: u32) -> String {
    format!(
        "[[rule]]\nname = \"container-{server}\"\nmode = \"native\"\nalgorithm = \"reno\"\n\
         match = {{ cgroup = \"{}\" }}\n\
         group = {{ name = \"uplink\", rule = \"ccc\", per = \"rule\", weight = {weight} }}\n",
        site.cgroups[server].path().display()
    )
}

/// The first container's sockets in a group of that kind, each with a weight of its own.
fn one_group(site: &Site, kind: &str) -> String {
    format!(
        "[[rule]]\nname = \"all\"\nmode = \"native\"\nalgorithm = \"reno\"\nmatch = {{ cgroup = \"{}\" }}\n\
         group = {{ name = \"uplink\", rule = \"{kind}\" }}\n",
        site.cgroups[0].path().display()
    )
}

/// One for each of two containers.
fn policy(site: &Site, weights: [u32; 2]) -> String {
    rule(site, 0, weights[0]) + &rule(site, 1, weights[1])
}

/// Two containers behind this link, both under an agent's control, with equal weights.
fn controlled_or_skip(test: &str, link: &'static str) -> Option<(Site, TempDir, Agent)> {
    let site = site_or_skip(test, Setup { servers: 2, link, has_cgroups: true, ..PLAIN })?;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    fs::write(&file, policy(&site, [1, 1])).expect("a writable folder");
    let agent = Agent::start(file, &own_prefix());
    agent.says(&["under control"; 2]);
    Some((site, folder, agent))
}

/// Windows of a server's sockets together, as its kernel reports them.
fn windows_segs(site: &Site, server: usize) -> u64 {
    let out = site.servers[server].run(&["ss", "-tinH", "state", "established"]).expect("iproute2").stdout;
    let text = String::from_utf8_lossy(&out);
    text.split_whitespace().filter_map(|word| word.strip_prefix("cwnd:")?.parse::<u64>().ok()).sum()
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn weights_change_while_sockets_run_and_the_group_outlives_its_agent() {
    let test = "weights_change_while_sockets_run_and_the_group_outlives_its_agent";
    let Some((site, _folder, mut agent)) = controlled_or_skip(test, LINK) else { return };
    // bytes of about two seconds each
    let (settle, look) = (5_000_000, 5_000_000);

    let downloads = Downloads::start(&site, &[0, 1, 1, 1]);
    downloads.shares(settle);
    let equal = downloads.shares(look);
    assert!(jain(equal) >= 0.99, "one socket against three: {equal:.3?}");
    let groups = agent.groups();
    let group = &groups["groups"][0];
    assert_eq!((&group["name"], &group["members"]), (&"uplink".into(), &4.into()), "{groups}");

    agent.rewrite(&policy(&site, [1, 3]));
    agent.says(&["in force"]);
    downloads.shares(settle);
    let windows = || [0, 1].map(|server| windows_segs(&site, server));
    for what in ["1:3", "1:3 without the agent"] {
        let granted = downloads.window_ratio(look, windows);
        assert!((2.85..3.15).contains(&granted), "{what} was granted as 1:{granted:.3}");
        let [one, three] = downloads.shares(look);
        assert!((2.7..3.3).contains(&(three / one)), "{what} became {one:.3} : {three:.3}");
        println!("{test}: {what} is 1:{:.2}, granted 1:{granted:.3}", three / one);
        agent.kill();
    }

    agent.unload();
    downloads.shares(look);
    site.servers.iter().for_each(|server| gone_over(server, &agent.prefix, "reno"));
    assert!(agent.groups().is_null(), "{}", agent.groups());
    println!("{test}: {equal:.3?} at 1:1");
}

/// Sockets of a cgroup that other rules speak of may fall to one for all sockets: they are no other tenant than all others.
#[test]
fn a_rule_is_one_tenant_whatever_the_cgroups_of_its_sockets() {
    let test = "a_rule_is_one_tenant_whatever_the_cgroups_of_its_sockets";
    let Some(site) = site_or_skip(test, Setup { servers: 1, has_cgroups: true, ..PLAIN }) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    // for documentation, so that no test's sockets fall to it
    let of_all = "[[rule]]\nname = \"all\"\nmode = \"native\"\nalgorithm = \"reno\"\nmatch = { client = \"192.0.2.1\" }\n\
                  group = { name = \"uplink\", rule = \"ccc\", per = \"rule\" }\n";
    fs::write(&file, rule(&site, 0, 2) + of_all).expect("a writable folder");
    let agent = Agent::start(file, &own_prefix());
    agent.says(&["under control"; 2]);
    let terms = Path::new("/sys/fs/bpf/windlass/native").join(&agent.prefix).join("terms");
    let terms = MapHandle::from_pinned_path(terms).expect("the rules' groups");
    let mut tenants: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for key in terms.keys() {
        let bytes = terms.lookup(&key, MapFlags::ANY).expect("readable").expect("there");
        assert_eq!(bytes.len(), size_of::<abi::wl_terms>());
        // SAFETY: plain data of this length, valid for any bytes.
        let terms = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<abi::wl_terms>()) };
        tenants.entry(terms.tenant).or_default().push(terms.weight);
    }
    let mut weights: Vec<_> = tenants.into_values().collect();
    weights.sort();
    assert_eq!(
        weights,
        [vec![1, 1], vec![2]],
        "of all, in the root cgroup and in that one; of the container"
    );
}

/// Algorithms that are unloaded from outside end what the agent did with them, and nothing else; another policy brings them back.
#[test]
fn an_agent_goes_on_when_its_algorithms_are_unloaded() {
    let test = "an_agent_goes_on_when_its_algorithms_are_unloaded";
    let Some((site, _folder, mut agent)) = controlled_or_skip(test, PLAIN.link) else { return };
    agent.unload();
    agent.rewrite(&policy(&site, [1, 2]));
    agent.says(&["in force", "under control", "under control"]);
    assert!(agent.process.is_running(), "the agent goes on");
}

/// A way that takes smaller packets than before: what was in flight is retransmitted in pieces, and no window is cut.
#[test]
fn a_smaller_mtu_is_no_timeout() {
    let test = "a_smaller_mtu_is_no_timeout";
    // no loss for the time that this takes
    let link = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"20 BDP\"";
    let Some(site) = site_or_skip(test, Setup { link, has_cgroups: true, ..PLAIN }) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    fs::write(&file, one_group(&site, "etcp")).expect("a writable folder");
    let agent = Agent::start(file, &own_prefix());
    agent.says(&["under control"]);
    let downloads = Downloads::start(&site, &[0, 0]);
    downloads.shares(1_000_000);
    let timeouts = || site.counter_of(&site.servers[0], "TCPTimeouts");
    let (before, timeouts_before) = (agent.window_bytes(), timeouts());
    site.gateway.run(&["ip", "link", "set", "wan0", "mtu", "1300"]).expect("iproute2");
    let (mut least, mut arrived) = (before, 0);
    while arrived < 2_000_000 {
        least = least.min(agent.window_bytes());
        if let Ok((_, bytes)) = downloads.arrived.recv_timeout(Duration::from_millis(1)) {
            arrived += bytes;
        }
    }
    assert_eq!(timeouts(), timeouts_before, "the servers' kernel had a timeout");
    assert!(least > before / 2, "{before} bytes of window became {least}");
}

/// A connection over which a client fetches one file after the other.
struct Client(TcpStream);

impl Client {
    fn connect(site: &Site) -> Client {
        let address = site.address_of(0);
        let stream =
            site.client.enter(|| Ok(TcpStream::connect((address.as_str(), 80))?)).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        Client(stream)
    }

    fn ask(&mut self, bytes: u64) {
        let name = files::file_of(bytes).expect("a file to serve");
        write!(self.0, "GET /{name} HTTP/1.1\r\nHost: w\r\n\r\n").expect("a request");
    }

    /// All of an answer, which is the file.
    fn receive(&mut self, bytes: u64) {
        let mut from = BufReader::new(&self.0);
        // behind its head
        let head = from.by_ref().lines().map(|line| line.expect("an answer"));
        assert_ne!(head.take_while(|line| !line.is_empty()).count(), 0);
        let sum = files::digest_of(&files::file_of(bytes).expect("a file")).expect("its checksum");
        assert_eq!(files::digest(from.take(bytes)).expect("its end"), (sum, bytes));
    }

    fn fetch(&mut self, bytes: u64) {
        self.ask(bytes);
        self.receive(bytes);
    }
}

/// Waits until all that the server has sent is acknowledged.
fn settle(site: &Site) {
    until("the client acknowledges what it has got", || {
        let out = site.servers[0].run(&["ss", "-tnH", "state", "established"]).expect("iproute2").stdout;
        let text = String::from_utf8_lossy(&out).into_owned();
        // without the state: Recv-Q, Send-Q
        text.lines().all(|l| l.split_whitespace().nth(1) == Some("0"))
    });
    // and has made of it what it will
    thread::sleep(Duration::from_millis(10));
}

/// One of two sockets times out while its group's lock is held: the group learns of it later, and takes what comes
/// then for no loss event. See the test of that name among those of the box, where it is the same.
#[test]
fn a_timeout_of_a_socket_that_finds_its_group_busy_is_reported_later() {
    let test = "a_timeout_of_a_socket_that_finds_its_group_busy_is_reported_later";
    // nothing is lost
    let link = "rate = \"200 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"20 BDP\"";
    let Some(site) = site_or_skip(test, Setup { link, has_cgroups: true, ..PLAIN }) else { return };
    let server = &site.servers[0];
    for rule in ["ccc", "etcp"] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.toml");
        fs::write(&file, one_group(&site, rule)).expect("a writable folder");
        let agent = Agent::start(file, &own_prefix());
        agent.says(&["under control"]);
        let [mut one, mut other] = [(); 2].map(|()| Client::connect(&site));
        other.fetch(10_000);
        one.fetch(4_000_000);
        settle(&site);
        assert_eq!(agent.members(), Some(2));
        agent.set_busy(true);
        let before = agent.group();
        let window = before.sum_cwnd_q16 >> abi::WL_GROUP_Q;
        assert!(window > 60 * 1448, "{rule}: {window} bytes");
        let timeouts_before = site.counter_of(server, "TCPTimeouts");
        let client = one.0.local_addr().expect("an address").ip().to_string();
        site.gateway.run(&["ip", "route", "add", "blackhole", &client]).expect("iproute2");
        one.ask(20_000);
        until("a timeout", || site.counter_of(server, "TCPTimeouts") > timeouts_before);
        // the kernel counts it before it is reported; the next one is much later
        thread::sleep(Duration::from_millis(20));
        agent.set_busy(false);
        site.gateway.run(&["ip", "route", "del", "blackhole", &client]).expect("iproute2");
        one.receive(20_000);
        settle(&site);
        let after = agent.group();
        let [cwnd, ssthresh] = [after.sum_cwnd_q16, after.sum_ssthresh_q16].map(|q16| q16 >> abi::WL_GROUP_Q);
        if rule == "ccc" {
            assert!(cwnd >= window && ssthresh == 0, "{window} bytes became {cwnd}, threshold {ssthresh}");
        } else {
            // from one segment on again, and fourteen are acknowledged
            assert!(cwnd <= 20 * 1448, "{window} bytes became {cwnd}");
            assert_eq!(ssthresh, window / 2);
        }
    }
}

/// What its route does not allow a socket never sends: its group does not grow beyond that as if it did.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_group_stops_growing_where_a_members_route_bounds_it() {
    let test = "a_group_stops_growing_where_a_members_route_bounds_it";
    // nothing is lost
    let link = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"20 BDP\"";
    let Some(site) = site_or_skip(test, Setup { link, has_cgroups: true, ..PLAIN }) else { return };
    let server = &site.servers[0];
    let out = server.run(&["ip", "-o", "route", "show", "default"]).expect("iproute2");
    let route = String::from_utf8_lossy(&out.stdout).into_owned();
    let words = ["ip", "route", "change"].into_iter().chain(route.split_whitespace());
    server.run(&words.chain(["cwnd", "lock", "20"]).collect::<Vec<_>>()).expect("iproute2");
    // connections go by it once one to the same peer has ended, and none that began before
    server.run(&["ip", "tcp_metrics", "flush", "all"]).expect("iproute2");
    until("a connection's end lets others know of the bound", || {
        site.fetch(10_000);
        let known = server.run(&["ip", "tcp_metrics", "show"]).expect("iproute2").stdout;
        String::from_utf8_lossy(&known).contains("cwnd 20")
    });
    for rule in ["ccc", "etcp"] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.toml");
        fs::write(&file, one_group(&site, rule)).expect("a writable folder");
        let agent = Agent::start(file, &own_prefix());
        agent.says(&["under control"]);
        let downloads = Downloads::start(&site, &[0]);
        downloads.shares(2_000_000);
        let segs = agent.window_bytes() / 1448;
        assert!((15..=30).contains(&segs), "{rule}: {segs} segments");
    }
}

/// Whose sockets are released leaves the group, and so does one that closes; the others have what they had.
#[test]
fn sockets_leave_when_they_close_and_when_they_are_released() {
    let test = "sockets_leave_when_they_close_and_when_they_are_released";
    let Some((site, _folder, mut agent)) = controlled_or_skip(test, LINK) else { return };
    let stays = Downloads::start(&site, &[0]);
    let goes = Downloads::start(&site, &[1, 1]);
    stays.shares(1_000_000);
    goes.shares(1_000_000);
    assert_eq!(agent.members(), Some(3));
    agent.kill();
    let cgroup = site.cgroups[1].path().to_str().expect("UTF-8");
    let out = windlass().args(["detach", "--cgroup", cgroup]).output().expect("windlass runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // each leaves when it next receives an ACK
    goes.shares(1_000_000);
    stays.shares(1_000_000);
    assert_eq!(agent.members(), Some(1), "released");
    assert!(in_use(&site.servers[1]).contains(&agent.prefix), "it keeps its algorithm");
    drop(stays);
    until("who has closed leaves", || {
        goes.shares(100_000);
        agent.members() == Some(0)
    });
}

/// As if an agent was killed just before it noted whose pins these are.
#[test]
fn algorithms_and_cgroups_pinned_in_part_are_pinned_anew() {
    let test = "algorithms_and_cgroups_pinned_in_part_are_pinned_anew";
    let Some((site, _folder, mut first)) = controlled_or_skip(test, PLAIN.link) else { return };
    first.kill();
    let cgroup = fs::metadata(site.cgroups[0].path()).expect("a cgroup").ino();
    let (native, select) = (format!("native-{}", first.prefix), format!("select-{cgroup}"));
    for record in [&native, &select] {
        fs::remove_file(Path::new("/run/windlass").join(record)).expect("a record");
    }
    let pins = Path::new("/sys/fs/bpf/windlass");
    let is_listed = |cgroup: usize| {
        let path = site.cgroups[cgroup].path().to_str().expect("UTF-8");
        native_list()["cgroups"].as_array().expect("a list").iter().any(|c| c["cgroup"] == path)
    };
    for pin in [format!("native/{}/stats", first.prefix), format!("select/{cgroup}/wl_select_stats")] {
        fs::remove_file(pins.join(pin)).expect("a pin");
        assert!(!is_listed(0) && is_listed(1), "what is whole is listed");
    }
    let mut second = Agent::start(first.policy.clone(), &first.prefix);
    second.says(&["under control"; 2]);
    assert!(second.process.is_running(), "the agent goes on");
}

/// As if the process that removed them had been killed in the middle of that.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn algorithms_and_cgroups_removed_in_part_are_pinned_anew() {
    let test = "algorithms_and_cgroups_removed_in_part_are_pinned_anew";
    let Some((site, _folder, mut first)) = controlled_or_skip(test, PLAIN.link) else { return };
    first.kill();
    let cgroup = site.cgroups[0].path();
    let inode = fs::metadata(cgroup).expect("a cgroup").ino();
    let refused = |words: &[&str], stays: Unremovable| {
        let out = windlass().args(words).output().expect("windlass runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(stays.path()), "{said}");
    };
    let pins = Path::new("/sys/fs/bpf/windlass");
    let of_cgroup = Unremovable::in_folder(&pins.join(format!("select/{inode}")));
    refused(&["detach", "--cgroup", cgroup.to_str().expect("UTF-8")], of_cgroup);
    let of_algorithms = Unremovable::in_folder(&pins.join("native").join(&first.prefix));
    refused(&["native", "unload", "--prefix", &first.prefix], of_algorithms);
    let second = Agent::start(first.policy.clone(), &first.prefix);
    second.says(&["under control"; 2]);
    assert!(registered().contains(&first.prefix), "{}", registered());
}

/// No process couples the sockets of an `attach` that was killed: they leave the group that others share.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn sockets_of_a_killed_attach_leave_the_group_that_others_share() {
    let test = "sockets_of_a_killed_attach_leave_the_group_that_others_share";
    let Some(site) = site_or_skip(test, Setup { servers: 2, link: LINK, has_cgroups: true, ..PLAIN }) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let [of_agent, of_attach] = ["agent.toml", "attach.toml"].map(|name| folder.path().join(name));
    let prefix = own_prefix();
    fs::write(&of_agent, rule(&site, 0, 1)).expect("a writable folder");
    fs::write(&of_attach, rule(&site, 1, 1)).expect("a writable folder");
    let agent = Agent::start(of_agent, &prefix);
    agent.says(&["under control"]);
    let words = ["attach", "--native", "--policy", of_attach.to_str().expect("UTF-8"), "--prefix", &prefix];
    let mut attach = Process::start(windlass().args(words));
    attach.line().expect("it says that it controls");
    let downloads = Downloads::start(&site, &[0, 1, 1]);
    downloads.shares(1_000_000);
    assert_eq!(agent.members(), Some(3));
    attach.end(libc::SIGKILL);
    until("those of the killed one leave", || {
        downloads.shares(100_000);
        agent.members() == Some(1)
    });
    assert!(in_use(&site.servers[1]).contains(&prefix), "they keep their algorithm");
}

/// The process that pinned it is gone, too; any agent takes it away, whatever its own policy is about.
#[test]
fn what_is_pinned_for_a_cgroup_that_is_gone_is_removed() {
    let test = "what_is_pinned_for_a_cgroup_that_is_gone_is_removed";
    let Some(site) = site_or_skip(test, Setup { servers: 2, has_cgroups: true, ..PLAIN }) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    let prefix = own_prefix();
    let short = Cgroup::create(netns::next_run(), "short").expect("a cgroup");
    let of = |cgroup: &Cgroup| {
        rule(&site, 0, 1)
            .replace(site.cgroups[0].path().to_str().expect("UTF-8"), cgroup.path().to_str().expect("UTF-8"))
    };
    fs::write(&file, of(&short)).expect("a writable folder");
    let mut first = Agent::start(file.clone(), &prefix);
    first.says(&["under control"]);
    first.kill();
    let id = fs::metadata(short.path()).expect("a cgroup").ino();
    let pins = Path::new("/sys/fs/bpf/windlass/select").join(id.to_string());
    assert!(pins.is_dir(), "it outlives the agent");
    drop(short);
    fs::write(&file, rule(&site, 0, 1)).expect("a writable folder");
    let second = Agent::start(file, &prefix);
    second.says(&["under control"]);
    let terms = Path::new("/sys/fs/bpf/windlass/native").join(&prefix).join("terms");
    let terms = MapHandle::from_pinned_path(terms).expect("the rules' groups");
    let record = Path::new("/run/windlass").join(format!("select-{id}"));
    // the kernel takes a moment to let go of a cgroup, and another agent may be faster
    until("nothing is left of it", || !pins.exists() && !record.exists() && terms.keys().count() == 1);
}
