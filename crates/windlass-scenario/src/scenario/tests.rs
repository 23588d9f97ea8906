use super::*;
use crate::{Buffer, Bytes, Connections, Dist, Per, Schedule};
use proptest::prelude::*;
use std::collections::BTreeSet;

const GOOD: &str = r#"
name = "wan"
[[host]]
name = "server"
[[host]]
name = "client"
[[link]]
between = ["server", "client"]
rate = "20 Mbit/s"
delay = "20 ms"
buffer = "1 BDP"
loss = "1 %"
[[flow]]
from = "server"
to = "client"
size = "10 MB"
"#;

fn error(from: &str, to: &str) -> ScenarioError {
    let text = GOOD.replace(from, to);
    assert_ne!(text, GOOD);
    Scenario::parse("s.toml", &text).expect_err("a mistake")
}

#[test]
fn a_bdp_counts_the_round_trip() {
    let s = Scenario::parse("s.toml", GOOD).unwrap();
    assert_eq!(s.links[0].resolve(s.links[0].buffer.unwrap()), Buffer::Bytes(100_000));
}

#[test]
fn marks_that_could_never_be_set_are_refused() {
    let parse = |ecn: &str, buffer: &str| {
        let text = GOOD.replace("buffer = \"1 BDP\"", &format!("buffer = \"{buffer}\"\necn = \"{ecn}\""));
        Scenario::parse("s", &text)
    };
    for (ecn, buffer) in [
        ("1 BDP", "1 BDP"),
        ("100000 B", "1 BDP"),
        ("99934 B", "1 BDP"),
        ("10 packets", "10 packets"),
        ("9 packets", "10 packets"),
    ] {
        let e = parse(ecn, buffer).unwrap_err();
        assert!(e.line == 12 && e.what.starts_with("ecn: nothing is ever marked behind "), "{e}");
        assert!(e.what.contains(&format!("behind {ecn} in a buffer of {buffer}")), "{e}");
    }
    // short packets: more of them than ten fit
    for (ecn, buffer) in
        [("0.9 BDP", "1 BDP"), ("99933 B", "1 BDP"), ("8 packets", "10 packets"), ("10 packets", "15140 B")]
    {
        parse(ecn, buffer).unwrap_or_else(|e| panic!("{e}"));
    }
    // a port of its own that only drops, of a switch that marks
    let switch =
        "[[switch]]\nname = \"sw\"\necn = \"20 packets\"\n[[link]]\nbetween = [\"client\", \"sw\"]\n";
    let text = format!("{GOOD}{switch}rate = \"1 Mbit/s\"\nbuffer = \"20 packets\"\n");
    Scenario::parse("s", &text).unwrap_or_else(|e| panic!("{e}"));
}

/// Where a link has no key about its queue, the switch's is judged, on either side; a port with a buffer of its own
/// uses none of it.
#[test]
fn nor_may_a_switch_have_such_marks() {
    let parse = |ecn: &str, between: &str, link: &str| {
        let switch = format!("[[switch]]\nname = \"sw\"\nport_buffer = \"20 packets\"\necn = \"{ecn}\"\n");
        Scenario::parse("s", &format!("{GOOD}{switch}[[link]]\nbetween = [{between}]\n{link}\n"))
    };
    let rate = "rate = \"1 Mbit/s\"";
    for between in ["\"client\", \"sw\"", "\"sw\", \"client\""] {
        let e = parse("19 packets", between, rate).unwrap_err();
        let what = "ecn of switch \"sw\": nothing is ever marked behind 19 packets in a buffer of 20 packets";
        assert!(e.line == 21 && e.what.starts_with(what), "{e}");
        for (ecn, link) in [
            ("18 packets", rate),
            ("19 packets", ""),
            ("19 packets", "rate = \"1 Mbit/s\"\nbuffer = \"10 packets\""),
        ] {
            parse(ecn, between, link).unwrap_or_else(|e| panic!("{e}"));
        }
    }
    let topology = "name = \"t\"\n[topology]\nshape = \"many-to-one\"\nsenders = 1\nedge = {}\n\
                    bottleneck = { rate = \"1 Mbit/s\" }\n\
                    switch = { port_buffer = \"20 kB\", ecn = \"20 kB\" }\n";
    let e = Scenario::parse("s", topology).unwrap_err();
    assert!(e.line == 6 && e.what.starts_with("bottleneck: ecn of switch \"switch\": "), "{e}");
}

/// What is refused marks nothing, and one packet more of buffer is enough.
#[test]
fn what_is_refused_marks_nothing() {
    for (ecn, buffer, bytes, marks) in [
        (Buffer::Packets(8), Buffer::Packets(9), 1514, 0),
        (Buffer::Packets(8), Buffer::Packets(10), 1514, 1),
        (Buffer::Bytes(594), Buffer::Bytes(660), 66, 0),
        (Buffer::Bytes(593), Buffer::Bytes(660), 66, 1),
    ] {
        let rate = Some(crate::Rate(1e6));
        let cable = Link::cable(["a".into(), "b".into()]);
        let link = Link { rate, ecn: Some(ecn), buffer: Some(buffer), ..cable };
        let mut model = LinkModel::new(&link, false, 1);
        for _ in 0..20 {
            model.offer(0, bytes, true);
        }
        assert_eq!(model.stats.marks, marks, "{ecn} of {buffer}");
    }
}

/// Links take twice their seed for one direction, and one more for the other.
#[test]
fn no_two_links_have_the_same_luck_whatever_the_seed() {
    let mut scenario = Scenario::parse("s", GOOD).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 1..50 {
        scenario.seed = seed;
        for index in 0..3000 {
            assert!(seen.insert(scenario.link_seed(index) << 1), "link {index} of seed {seed}");
        }
        assert_eq!(scenario.link_seed(999), 1000 * seed + 999);
    }
}

#[test]
fn seeds_are_whole_numbers() {
    for seed in ["-1", "1.5", "99999999999999999999", "\"a\""] {
        let e = error("name = \"wan\"", &format!("name = \"wan\"\nseed = {seed}"));
        assert_eq!(e.line, 3, "{e}");
        assert!(e.what.starts_with("seed") && e.what.contains("0 to 9223372036854775807"), "{e}");
    }
}

#[test]
fn rules_and_ablations_are_those_of_the_core() {
    let group = |keys: &str| error("[[flow]]", &format!("[[group]]\nname = \"g\"\n{keys}\n[[flow]]"));
    let e = group("rule = \"cccc\"");
    assert!(e.line == 15 && e.what.contains("cccc") && e.what.contains("fse-conservative"), "{e}");
    let e = group("rule = \"ccc\"\nwithout = [\"shares\"]");
    assert!(e.line == 16 && e.what.contains("\"shares\"") && e.what.contains("stale-shares"), "{e}");
}

#[test]
fn mistakes_name_line_key_and_cure() {
    let e = error("between = [\"server\", \"client\"]", "between = [\"server\", \"klient\"]");
    assert!(e.what.contains("klient") && e.what.contains("client"), "{e}");
    assert_eq!(e.line, 8);
    let e = error("between = [\"server\", \"client\"]", "between = [\"server\", \"client\", \"server\"]");
    assert!(e.what.starts_with("between: ") && e.what.contains("a list of two") && e.line == 8, "{e}");
    assert_eq!(error("loss = \"1 %\"", "loss = \"150 %\"").line, 12);
    assert_eq!(error("size = \"10 MB\"", "size = \"0 B\"").line, 16);
    assert!(error("loss = \"1 %\"", "loss = \"150 %\"").what.contains("0 % to 100 %"));
    assert!(error("rate = \"20 Mbit/s\"", "rate = \"0 Mbit/s\"").what.contains("rate"));
    let e = error("rate = \"20 Mbit/s\"", "rate = \"100000000 Mbit/s\"");
    assert!(e.what.starts_with("rate: at most") && e.line == 9, "{e}");
    assert!(error("delay = \"20 ms\"\n", "").what.contains("BDP needs a rate and a delay"));
    let e = error("size = \"10 MB\"", "size = \"10\"");
    assert!(e.what.starts_with("size: ") && e.what.contains("MB") && e.line == 16, "{e}");
    let e = error("size = \"10 MB\"", "size = \"10 MB\"\nreceive_window_max = \"1 kB\"");
    assert!(e.what.starts_with("receive_window_max: 4 KiB") && e.line == 17, "{e}");
    let e = error("[[flow]]", "[flow]  # one");
    assert!(e.what == "[flow]: there may be several; write [[flow]] for each" && e.line == 13, "{e}");
    let e = error("[[flow]]", "[[tcp]]\necn = \"off\"\n[[flow]]");
    assert!(e.what == "[[tcp]]: there is one at most; write [tcp]" && e.line == 13, "{e}");
    let e = error("loss =", "los =");
    assert!(e.what.starts_with("unknown field `los`") && e.line == 12, "{e}");
    assert!(
        error(
            "[[link]]\nbetween = [\"server\", \"client\"]",
            "[[host]]\nname = \"x\"\n[[link]]\nbetween = [\"server\", \"x\"]"
        )
        .what
        .contains("no path")
    );
}

#[test]
fn the_key_is_named_wherever_it_stands_in_its_line() {
    let flow = "{ from = \"a\", to = \"b\", size = 5 }";
    let text = |flow: &str| {
        format!(
            "name = \"t\"\nflow = [\n{flow},\n]\n[topology]\nshape = \"dumbbell\"\nedge = {{ rate = 7 }}\n"
        )
    };
    let e = Scenario::parse("s", &text(flow)).unwrap_err();
    assert!(e.what.starts_with("size: ") && e.line == 3, "{e}");
    let e = Scenario::parse("s", &text(&flow.replace('5', "\"1 MB\""))).unwrap_err();
    assert!(e.what.starts_with("rate: ") && e.line == 7, "{e}");
    let e = error("rate = \"20 Mbit/s\"", "rate = 20 Mbit/s");
    assert!(e.what.starts_with("rate: ") && e.line == 9, "{e}");
}

#[test]
fn hosts_whose_names_would_leave_their_folder_are_refused() {
    for name in ["../x", "a b", "", "a/b"] {
        let e = error("name = \"server\"", &format!("name = \"{name}\""));
        assert!(e.what.contains("letters, digits and hyphens"), "{e}");
        assert_eq!(e.line, 4);
    }
}

#[test]
fn a_link_with_only_jitter_or_loss_back_is_emulated() {
    let with = |key: &str| {
        let text =
            GOOD.replace("rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"\nloss = \"1 %\"", key);
        Scenario::parse("s.toml", &text).unwrap().links[0].is_emulated()
    };
    assert!(!with(""));
    assert!(with("jitter = \"1 ms\""));
    assert!(with("loss_back = \"1 %\""));
}

#[test]
fn links_between_the_same_hosts_have_different_names() {
    let link = |a, b, delay| format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\ndelay = \"{delay}\"\n");
    let more = [link("server", "client", "0 s"), link("client", "server", "1 ms")].concat();
    let s = Scenario::parse("s", &format!("{GOOD}{more}")).unwrap();
    let emulated = ["server > client", "client > server", "client > server #3", "server > client #3"];
    assert_eq!(s.link_names(), emulated);
    assert_eq!(s.directions()[1], ["server > client #2", "client > server #2"]);
}

#[test]
fn windlass_faces_a_neighbour() {
    let text = |at, facing| format!("{GOOD}[windlass]\nat = \"{at}\"\nfacing = \"{facing}\"\n");
    assert!(Scenario::parse("s", &text("client", "server")).is_ok());
    let e = Scenario::parse("s", &text("client", "client")).unwrap_err();
    assert!(e.what.contains("neighbour") && e.line == 19, "{e}");
}

#[test]
fn constants_are_for_windlass_own_algorithms() {
    let check = |flow: &str, rest: &str| {
        let hosts = "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n";
        let flow = format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\nalgorithm = \"{flow}\"\n");
        let text = format!("{hosts}{flow}{rest}[parameters.bbr]\ncwnd_gain = 3\n");
        Scenario::parse("t", &text).err().map(|e| e.to_string())
    };
    let of_box = "[windlass]\nat = \"b\"\nfacing = \"a\"\n";
    for (flow, rest) in [("wl_bbr", ""), ("cubic", ""), ("bbr", of_box)] {
        assert_eq!(check(flow, rest), None, "{flow}");
    }
    let e = check("bbr", "").expect("the kernel's");
    assert!(e.contains("t:13: bbr: the kernel's own") && e.contains("\"wl_bbr\""), "{e}");
}

#[test]
fn settings_without_effect_are_refused() {
    let parse = |text: &str| Scenario::parse("s", &format!("{GOOD}{text}"));
    let e = |text: &str| parse(text).unwrap_err();
    let windlass =
        "[[group]]\nname = \"g\"\nrule = \"ccc\"\n[windlass]\nat = \"client\"\nfacing = \"server\"\n";
    let watch = e(&format!("{windlass}mode = \"watch\"\ngroup = \"g\"\n"));
    assert!(watch.what.starts_with("group: a box that watches") && watch.line == 24, "{watch}");
    let stop = e("stop = \"300001 ms\"\n");
    assert!(stop.what.starts_with("stop") && stop.line == 17, "{stop}");
    parse("stop = \"300 s\"\n").unwrap();
    let train = |flow: &str, until: &str| {
        let flow = format!(
            "[[flow]]\nfrom = \"server\"\nto = \"client\"\n{flow}\n[[flow.train]]\nsize = \"1 kB\"\ngap = \"1 s\"\nuntil = \"{until}\"\n"
        );
        parse(&flow).map_err(|e| (e.what, e.line))
    };
    train("", "299 s").unwrap();
    train("stop = \"200 s\"", "300 s").unwrap();
    let (what, line) = train("", "300 s").unwrap_err();
    assert!(what.starts_with("until") && what.contains("or give the flow a stop") && line == 24, "{what}");
    let (what, line) = train("start = { exponential = \"1 s\" }", "10 s").unwrap_err();
    assert!(what.starts_with("until: the flow's start has no bound") && line == 24, "{what}");
}

/// All that counts in full packets goes by those of the hosts.
#[test]
fn an_mtu_makes_full_packets_larger() {
    let parse = |mtu: &str, buffer: &str, more: &str| {
        let link = GOOD.replace("buffer = \"1 BDP\"", &format!("buffer = \"{buffer}\"\n{more}"));
        Scenario::parse("s", &format!("{link}[tcp]\nmtu = \"{mtu}\"\n[parameters]\nbuffer = \"3 packets\"\n"))
    };
    let jumbo = parse("9000 B", "0.5 BDP", "").unwrap();
    assert_eq!((jumbo.tcp.mss_bytes(), jumbo.links[0].packet_bytes), (8948, 9014));
    // ten full packets are the least
    assert_eq!(jumbo.links[0].resolve(jumbo.links[0].buffer.unwrap()), Buffer::Bytes(90_140));
    assert_eq!(jumbo.parameters.buffer, Some(Buffer::Bytes(3 * 9014)));
    let usual = parse("1500 B", "0.5 BDP", "").unwrap();
    assert_eq!(
        (usual.tcp, usual.tcp.mss_bytes()),
        (Tcp { mtu: Some(Bytes(1500.0)), ..Tcp::default() }, 1448)
    );
    assert_eq!(usual.parameters.buffer, Some(Buffer::Packets(3)));
    let e = |mtu: &str, buffer: &str, more: &str| parse(mtu, buffer, more).unwrap_err().to_string();
    for mtu in ["1279 B", "9001 B", "0 B"] {
        assert_eq!(e(mtu, "1 BDP", ""), "s:19: mtu: 1280 B to 9000 B, IP header included");
    }
    assert!(e("9000 B", "9013 B", "").contains("buffer: at least one packet of 9014 B"));
    assert!(
        e("9000 B", "9014 B", "policer = { rate = \"1 Mbit/s\", burst = \"9013 B\" }")
            .contains("burst: one packet of 9014 B")
    );
}

#[test]
fn a_page_has_objects_and_connections_of_its_own() {
    let page = "{ objects = { uniform = [20, 60] }, each = \"20 kB\", connections = 4 }";
    let of = |keys: &str| Scenario::parse("s.toml", &GOOD.replace("size = \"10 MB\"", keys));
    let pages = format!("[[flow.train]]\ncount = 3\nload = \"1 Mbit/s\"\nsize = {page}");
    for keys in [format!("size = {page}"), pages.clone()] {
        let scenario = of(&keys).unwrap_or_else(|e| panic!("{e}"));
        assert!(scenario.flows[0].loads_pages() && scenario.flows[0].connections == Connections::PerResponse);
    }
    // 40 objects of 20 kB in the mean
    let loaded = of(&pages).unwrap();
    assert_eq!(loaded.flows[0].trains[0].interval, Some(Dist::Exponential(Span(6.4))));
    let mut schedule = Schedule::new(1, 0);
    schedule.start(&loaded.flows[0], 0);
    let due = schedule.take_due_page(&loaded.flows[0], 86_400_000_000_000).unwrap();
    assert!((20..=60).contains(&due.objects.len()) && due.connections == 4, "{due:?}");
    let e = |keys: &str| of(keys).unwrap_err().what;
    assert!(
        e(&format!("{pages}\n[[flow.train]]\ncount = 1\nsize = \"1 kB\""))
            .starts_with("size: a flow has either pages")
    );
    assert!(
        e(&format!("connections = \"persistent\"\nsize = {page}"))
            .starts_with("connections: each page has its own")
    );
    for application in ["push", "upload", "udp"] {
        let e = e(&format!("application = \"{application}\"\nsize = {page}"));
        assert!(e.contains("leave it out") || e.starts_with("size: datagrams"), "{e}");
    }
    assert!(e("size = { objects = 0, each = \"20 kB\" }").starts_with("size: objects: at least 1"));
    assert!(
        e("size = { objects = 4, each = { cdf_file = \"none.cdf\" } }").contains("none.cdf cannot be read")
    );
    assert!(e("size = { objects = 4, each = \"101 GB\" }").starts_with("size: at most"));
}

#[test]
fn groups_are_named_once_and_weights_are_positive() {
    let group = "[[group]]\nname = \"uplink\"\nrule = \"ccc\"\n";
    let of = |rule: &str| group.replace("ccc", rule);
    let parse = |text: &str| Scenario::parse("s", &format!("{GOOD}{text}"));
    let s = parse(&format!("group = \"uplink\"\nweight = 3\n{group}per = \"server\"\nidle = \"30 s\"\n"))
        .unwrap();
    assert_eq!((s.flows[0].group.as_deref(), s.flows[0].weight), (Some("uplink"), 3));
    assert_eq!((s.groups[0].per, s.groups[0].ack_clock), (Per::Server, true));
    for (text, line, what) in [
        ("weight = 0\n".to_string(), 17, "1 to 65535"),
        ("weight = -2\n".to_string(), 17, "weight = -2"),
        ("group = \"downlink\"\n".to_string(), 17, "no [[group]]"),
        (format!("group = \"downlink\"\n{group}"), 17, "known: uplink"),
        (format!("{group}{group}"), 21, "twice"),
        (format!("{group}max_members = 0\n"), 20, "1 to 65535"),
        (format!("{group}idle = \"0 s\"\n"), 20, "1 ms"),
        (format!("{group}aggressiveness = 2.0\n"), 20, "multcp"),
        (format!("{}join_adds = true\n", of("cm")), 20, "ccc, etcp and multcp"),
        (format!("{}per = \"server\"\n", of("lisa")), 20, "per: by the rule \"lisa\""),
        (format!("{}ack_clock = false\n", of("lisa")), 20, "ack_clock"),
        (format!("{}idle_grows = true\n", of("lisa")), 20, "idle_grows"),
    ] {
        let e = parse(&text).unwrap_err();
        assert!(e.what.contains(what) && e.line == line, "{e}");
    }
}

proptest! {
    #[test]
    fn damaged_files_are_errors_not_panics(at in 0..GOOD.len(), with in "[ -~\\n]{0,8}") {
        let text = format!("{}{with}{}", &GOOD[..at], &GOOD[at..]);
        if let Err(e) = Scenario::parse("s", &text) {
            prop_assert!(e.line <= text.lines().count() + 1);
        }
    }

    #[test]
    fn buffers_that_are_printed_can_be_read(packets in 1u64..1_000_000, bytes in 1514u64..1_000_000_000) {
        for buffer in [Buffer::Packets(packets), Buffer::Bytes(bytes), Buffer::Bdp(packets as f64 / 8.0)] {
            let text = serde_json::to_value(buffer).unwrap();
            prop_assert_eq!(text.as_str().unwrap().parse(), Ok(buffer));
        }
    }
}
