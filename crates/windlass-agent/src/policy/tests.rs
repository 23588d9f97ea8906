use super::*;
use proptest::prelude::*;

fn error(text: &str) -> PolicyError {
    Policy::parse("p.toml", text).expect_err("a mistake")
}

#[test]
fn a_full_rule_is_understood() {
    let policy = Policy::parse(
        "p.toml",
        r#"
        [[rule]]
        name = "wan"
        match = { iface = "tap*", client = "192.0.2.0/24", server = "2001:db8::7", server_port = [80, 443] }
        algorithm = [{ algorithm = "bbr", share = 10 }, { algorithm = "cubic", share = 90 }]
        "#,
    )
    .expect("valid");
    let rules = policy.compile("tap7", 42);
    assert_eq!(rules.len(), 1);
    let rule = &rules[0];
    assert_eq!((rule.rcv_prefix_bits, rule.snd_prefix_bits), (96 + 24, 128));
    assert_eq!((rule.rcv_addr[12..15].to_vec(), rule.snd_addr[15]), (vec![192, 0, 2], 7));
    assert_eq!(&rule.snd_ports[..2], &[80, 443]);
    assert_eq!(rule.splits[0].share_upto_permille, 100);
    assert_eq!(rule.splits[1].share_upto_permille, 1000);
    assert_eq!(rule.mode, abi::WL_MODE_ENFORCE as u8);
    assert!(policy.compile("eth0", 1).is_empty());
}

#[test]
fn mistakes_name_the_line_and_what_is_allowed() {
    let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"vegas\"\n");
    assert_eq!(e.line, 3);
    assert!(e.what.contains("vegas") && e.what.contains("bbr"), "{e}");
    let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\nmode = \"fast\"\n");
    assert_eq!(e.line, 4);
    assert!(e.what.contains("transparent, watch, off"), "{e}");
    let e = error("[[rule]]\nname = \"a\"\nalgoritm = \"bbr\"\n");
    assert_eq!(e.line, 3);
    assert!(e.what.contains("algoritm"), "{e}");
    let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\n[rule.match]\nclient = \"10.0.0/8\"\n");
    assert_eq!(e.line, 5);
    let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\n[rule.match]\nserver = \"web\"\n");
    assert!(e.line == 5 && e.what.contains("server = \"web\" is no prefix"), "{e}");
    let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\n[rule.match]\nserver_port = \"http\"\n");
    assert!(e.line == 5 && e.what.contains("such as [80, 443]"), "{e}");
    for (algorithm, saying) in [
        ("3", "{ algorithm = NAME, share = NUMBER }"),
        ("[{ algoritm = \"bbr\", share = 1 }]", "unknown field `algoritm`, expected `algorithm` or `share`"),
    ] {
        let e = error(&format!("[[rule]]\nname = \"a\"\nalgorithm = {algorithm}\n"));
        assert!(e.line == 3 && e.what.contains(saying), "{e}");
    }
}

/// A rule with one more line, the fourth.
fn with(line: &str) -> String {
    format!("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\n{line}\n")
}

#[test]
fn rules_have_names_of_their_own() {
    let rule = |name: &str| format!("[[rule]]\nname = {name}\nalgorithm = \"bbr\"\n");
    let e = error(&(rule("\"a\"") + &rule("\"b\"") + &rule("'a'")));
    assert_eq!(
        e.to_string(),
        "p.toml:8: name = \"a\": that on line 2 is the same; give each rule its own name"
    );
    // in modes that never meet, too: reports have both
    let e = error(&(rule("\"a\"") + &rule("\"a\"") + "mode = \"native\"\n"));
    assert!(e.line == 5, "{e}");
    for name in ["\"\"", "\" \"", "\"a\\nb\"", "\"\\u001b[2J\"", "'a\tb'"] {
        let e = error(&(rule("\"first\"") + &rule(name)));
        let shown = format!("name = {}; allowed: a name", name.replace('\t', "\\t"));
        assert!(e.line == 5 && e.what.starts_with(&shown), "{e}");
        let e = error(&with(&format!("group = {{ name = {name}, rule = \"ccc\" }}")));
        assert!(e.line == 4 && e.what.starts_with(&format!("group.{shown}")), "{e}");
    }
    Policy::parse("p.toml", &(rule("\"Büro 1\"") + &rule("\"büro 1\""))).expect("different names");
}

#[test]
fn a_part_of_a_split_that_no_flow_gets_is_refused() {
    let split = |shares: &[u32]| {
        let parts: Vec<_> =
            shares.iter().map(|s| format!("{{ algorithm = \"bbr\", share = {s} }}")).collect();
        format!("[[rule]]\nname = \"a\"\nalgorithm = [\n{},\n]\n", parts.join(",\n"))
    };
    let e = error(&split(&[1, 9999]));
    assert!(e.line == 4, "{e}");
    for saying in
        ["algorithm.share = 1: \"bbr\" gets", "one in 1000", "write 11 or more", "leave \"bbr\" out"]
    {
        assert!(e.what.contains(saying), "{saying}: {e}");
    }
    // wherever it stands
    assert_eq!(error(&split(&[5000, 1, 4999])).line, 5);
    assert_eq!(error(&split(&[1000, 1])).line, 5);
    for shares in [&[11, 9999][..], &[1, 999], &[999, 1], &[1000, 998_000, 1000], &[1]] {
        let rule = Policy::parse("p.toml", &split(shares)).expect("all are drawn").compile("eth0", 1)[0];
        let ends: Vec<_> = rule.splits[..shares.len()].iter().map(|s| s.share_upto_permille).collect();
        assert!(ends[0] > 0 && ends.is_sorted_by(|a, b| a < b) && ends.ends_with(&[1000]), "{ends:?}");
    }
}

#[test]
fn values_of_another_type_name_the_key_and_what_is_allowed() {
    for (line, saying) in [
        (
            "match = \"tap0\"",
            "match = \"tap0\"; allowed: a table { iface, cgroup, client, server, server_port }",
        ),
        ("group = \"g\"", "group = \"g\"; allowed: a table { name, rule, weight, per, ... }"),
        ("parameters = 3", "parameters = 3; allowed: a table { bottleneck, "),
        ("mode = 1", "mode = 1; allowed: transparent, watch, off, native"),
        ("paced_servers = true", "paced_servers = true; allowed: stand-aside, control"),
        ("match.iface = 3", "match.iface = 3; allowed: an interface or a pattern in quotes"),
        ("match = { iface = 3 }", "match.iface = 3; allowed: an interface or a pattern in quotes"),
        ("match.server_port = 70000", "match.server_port = 70000; allowed: a port from 1 to 65535"),
        (
            "match.server_port = [80, \"x\"]",
            "match.server_port = [80, \"x\"]; allowed: a port from 1 to 65535",
        ),
        ("parameters = { random_waits = 1 }", "parameters.random_waits = 1; allowed: true, false"),
        ("parameters = { gain = 1 }", "parameters.gain = 1; allowed: a number and its unit in quotes"),
        ("parameters = { gain = \"1 m\" }", "parameters.gain: \"1 m\": "),
        (
            "group = { name = \"g\", rule = \"ccc\", weight = 1.5 }",
            "group.weight = 1.5; allowed: a whole number from 1",
        ),
        ("group = { name = \"g\" }", "group.rule is missing; allowed: the name of a group rule in quotes: "),
        ("name = \"b\"", "name is there twice; leave one of them out"),
        ("match.iface.a = 1", "match.iface is a table; allowed: an interface"),
        ("[[rule.match]]", "match = [[rule.match]]; allowed: a table"),
        ("[rule]", "rule is there twice; write [[rule]], in double brackets"),
    ] {
        let e = error(&with(line));
        assert!(e.line == 4 && e.what.starts_with(saying), "{line}: {e}");
    }
    for share in ["-10", "0", "1.5", "1000001", "4294967296", "99999999999999999999999", "\"1\""] {
        let parts = format!("[{{ algorithm = \"bbr\",\nshare = {share} }}]");
        let e = error(&format!("[[rule]]\nname = \"a\"\nalgorithm = {parts}\n"));
        let saying = format!("algorithm.share = {share}; allowed: a whole number from 1 to 1000000");
        assert!(e.line == 4 && e.what == saying, "{e}");
    }
    let e = error("[[rule]]\nname = 3\nalgorithm = \"bbr\"\n");
    assert!(e.line == 2 && e.what.starts_with("name = 3; allowed: a name in quotes"), "{e}");
    let e = error(&(with("") + "[[rule]]\nalgorithm = \"bbr\"\n"));
    assert!(e.line == 5 && e.what.starts_with("name is missing; allowed: a name in quotes"), "{e}");
    for text in ["rule = 3", "[rule]\nname = \"a\"", "rule = [3]"] {
        let e = error(text);
        assert!(e.line == 1 && e.what.contains("allowed: tables, each under [[rule]]"), "{text}: {e}");
    }
}

/// Whatever stands behind whichever key.
#[test]
fn no_message_speaks_rust() {
    let group = |key: &str| format!("group = {{ name = \"g\", rule = \"ccc\", {key} = VALUE }}");
    let mut lines = vec!["algorithm = [{ algorithm = VALUE, share = 1 }]".to_string()];
    lines.push("algorithm = [{ algorithm = \"bbr\", share = VALUE }]".into());
    lines.push("group = { name = VALUE, rule = \"ccc\" }".into());
    lines.push("group = { name = \"g\", rule = VALUE }".into());
    lines.extend(
        ["algorithm", "match", "mode", "paced_servers", "parameters", "group"]
            .map(|k| format!("{k} = VALUE")),
    );
    lines
        .extend(["iface", "cgroup", "client", "server", "server_port"].map(|k| format!("match.{k} = VALUE")));
    lines.extend(
        ["bottleneck", "buffer", "threshold", "gain", "random_waits", "first_train_probes"]
            .map(|k| format!("parameters.{k} = VALUE")),
    );
    lines.extend(["weight", "per", "max_members", "idle_s", "aggressiveness"].map(group));
    lines.extend(["join_adds", "ack_clock", "idle_grows"].map(group));
    let values =
        ["3", "-10", "1.5", "99999999999999999999999", "9223372036854775808", "nan", "\"x\"", "true"];
    let values =
        values.into_iter().chain(["1979-05-27", "[]", "[1]", "[[]]", "[{ x = 1 }]", "{ x = 1 }", "{}"]);
    for (line, value) in values.flat_map(|v| lines.iter().map(move |l| (l.replace("VALUE", v), v))) {
        let Err(e) = Policy::parse("p.toml", &format!("[[rule]]\nname = \"a\"\n{line}\n")) else { continue };
        let words = e.what.split(|c: char| !c.is_alphanumeric());
        let rust =
            ["struct", "Raw", "i64", "u32", "f64", "bool", "boolean", "sequence", "map", "enum", "type"];
        assert!(words.clone().all(|w| !rust.contains(&w)), "{line}: {e}");
        let is_unknown = e.what.contains("unknown") || e.what.contains("has no `algorithm`");
        let keys = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        assert!(
            is_unknown || keys.clone().any(|k| e.what.starts_with(k)),
            "{line} names its key, {value}: {e}"
        );
    }
}

#[test]
fn constants_of_an_algorithm_are_its_rules() {
    let bbr = "parameters = { bbr = { startup_gain = 2.5, min_rtt_window = \"5 s\" } }";
    let rule = |algorithm: &str, rest: &str| {
        format!("[[rule]]\nname = \"a\"\nmatch.iface = \"*\"\nalgorithm = {algorithm}\n{rest}\n")
    };
    let tuned = Policy::parse("p", &rule("\"bbr\"", bbr)).expect("valid").compile("eth0", 1)[0];
    let id = Algorithm::by_name("bbr").expect("listed").id();
    assert_eq!((u32::from(tuned.tuned), tuned.params.tunables[0]), (id, 640 + 1));
    let split = "[{ algorithm = \"bbr\", share = 1 }, { algorithm = \"bbr3\", share = 1 }]";
    Policy::parse("p", &rule(split, bbr)).expect("one of two");
    let both = "parameters = { bbr = { cwnd_gain = 2 }, bbr3 = { beta = 0.8 } }";
    for (algorithm, rest, says) in [
        ("\"cubic\"", bbr, "parameters: bbr: flows have cubic here; leave the constants of bbr out"),
        (
            split,
            both,
            "parameters: bbr, bbr3: a rule sets the constants of one algorithm; write a rule for each",
        ),
        (
            "\"bbr\"",
            "parameters = { bbr = { startup_gain = 9 } }",
            "parameters.bbr.startup_gain = 9; allowed: a number from 1.25 to 4",
        ),
        (
            "\"bbr\"",
            "parameters = { bbr = { probe_rtt = \"9 s\" } }",
            "parameters.bbr.probe_rtt = \"9 s\"; allowed: in quotes, with a unit, 10 ms to 5 s",
        ),
        (
            "\"bbr\"",
            "parameters = { bbr = { speed = 9 } }",
            "unknown field `speed`; of bbr can be set: startup",
        ),
    ] {
        let e = error(&rule(algorithm, rest));
        assert!(e.line == 5 && e.what.contains(says), "{e}");
    }
}

#[test]
fn settings_that_would_be_ignored_are_refused() {
    let longest = "abcdefghijklmno".repeat(9)[..127].to_string();
    let too_long = ["p", "p*", "*?", "[]p]"].map(|rest| longest.clone() + rest);
    for iface in [""].into_iter().chain(too_long.iter().map(String::as_str)) {
        let e = error(&with(&format!("match.iface = \"{iface}\"")));
        let is_named = e.what.starts_with("match.iface = \"") && e.what.contains("; allowed: ");
        assert!(e.line == 4 && is_named && e.what.contains("1 to 127"), "{e}");
    }
    let with_star = longest.clone() + "*";
    for iface in ["*", &longest, &with_star, "tap[0123456789abcdef]", "tap[!]0123456789abcdef]"] {
        Policy::parse("p.toml", &with(&format!("match.iface = \"{iface}\""))).expect(iface);
    }
    for servers in ["control", "stand-aside"] {
        let e = error(&with(&format!("paced_servers = \"{servers}\"\nmode = \"native\"")));
        assert!(e.line == 4 && e.what.contains("paced_servers") && e.what.contains("leave it out"), "{e}");
    }
}

#[test]
fn one_port_needs_no_list() {
    let ports = |of: &str| {
        let rule = format!("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\nmatch.server_port = {of}\n");
        Policy::parse("p.toml", &rule).expect("valid").rules.remove(0).server_ports
    };
    assert_eq!((ports("80"), ports("[80, 443]")), (vec![80], vec![80, 443]));
}

#[test]
fn native_rules_speak_of_cgroups_and_no_interface() {
    let policy = Policy::parse(
        "p.toml",
        r#"
        [[rule]]
        name = "containers"
        match = { cgroup = "/sys/fs/cgroup/web", server_port = [443] }
        algorithm = "bbr"
        mode = "native"
        [[rule]]
        name = "taps"
        match = { iface = "tap*" }
        algorithm = "cubic"
        [[rule]]
        name = "others"
        algorithm = "cubic"
        mode = "native"
        "#,
    )
    .expect("valid");
    let web = Path::new("/sys/fs/cgroup/web");
    assert_eq!(policy.cgroups(), [None, Some(web)]);
    assert_eq!(policy.compile_cgroup(web).len(), 2);
    assert_eq!(policy.compile_cgroup(Path::new("/sys/fs/cgroup"))[0].rule_id, 2);
    assert_eq!(policy.compile("tap7", 1).len(), 1);
    let rule = "[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\n";
    let e = error(&format!("{rule}mode = \"native\"\nmatch = {{ iface = \"eth0\" }}\n"));
    assert!(e.line == 5 && e.what.contains("cgroup"), "{e}");
    let e = error(&format!(
        "{rule}mode = \"off\"\nmatch = {{ iface = \"eth0\", cgroup = \"/sys/fs/cgroup\" }}\n"
    ));
    assert!(e.line == 5 && e.what.starts_with("iface does not go with cgroup: "), "{e}");
    let e = error(&format!("{rule}match = {{ cgroup = \"/sys/fs/cgroup\" }}\n"));
    assert!(e.line == 4 && e.what.contains("native"), "{e}");
    let e = error(&format!("{rule}mode = \"native\"\nmatch = {{ cgroup = \"web\" }}\n"));
    assert!(e.line == 5 && e.what.contains("folder"), "{e}");
}

#[test]
fn algorithms_get_the_parameters_of_the_path() {
    let rule = "[[rule]]\nname = \"a\"\nalgorithm = \"trim\"\n";
    let text = format!("{rule}parameters = {{ bottleneck = \"1 Gbit/s\", buffer = \"100 packets\" }}\n");
    let params = Policy::parse("p", &text).expect("valid").compile("eth0", 1)[0].params;
    assert_eq!((params.bottleneck_bytes_ps, params.buffer_bytes), (125_000_000, 151_400));
    let e = error(&format!("{rule}parameters = {{ buffer = \"1 BDP\" }}\n"));
    assert!(e.line == 4 && e.what.contains("packets"), "{e}");
    let e = error(&format!("{rule}mode = \"native\"\nparameters = {{ buffer = \"10 kB\" }}\n"));
    assert!(e.line == 5 && e.what.contains("leave them out"), "{e}");
}

#[test]
fn empty_policies_and_missing_algorithms_are_refused() {
    assert!(error("").what.contains("[[rule]]"));
    assert!(error("[[rule]]\nname = \"a\"\n").what.contains("algorithm"));
}

#[test]
fn groups_are_checked_and_numbered() {
    let rule = |name: &str, group: &str| {
        format!("[[rule]]\nname = \"{name}\"\nalgorithm = \"reno\"\ngroup = {{ {group} }}\n")
    };
    let uplink = "name = \"uplink\", rule = \"ccc\"";
    let text = rule("gold", &format!("{uplink}, weight = 4, per = \"server\""))
        + &rule("other", "name = \"other\", rule = \"multcp\", aggressiveness = 2.5")
        + &rule("rest", uplink)
        + "[[rule]]\nname = \"alone\"\nalgorithm = \"reno\"\n";
    let policy = Policy::parse("p.toml", &text).expect("valid");
    assert_eq!(policy.groups().len(), 2);
    let rules = policy.compile("tap7", 1);
    assert_eq!(rules.iter().map(|r| r.group).collect::<Vec<_>>(), [1, 2, 1, 0]);
    assert_eq!((rules[0].weight, rules[0].per), (4, abi::WL_PER_SERVER as u8));
    assert_eq!((rules[2].weight, rules[2].per), (1, abi::WL_PER_FLOW as u8));
    assert_ne!(rules[0].tenant, rules[2].tenant);
    for (keys, what) in [
        ("name = \"g\", rule = \"cccc\"", "fse-conservative"),
        (
            "name = \"g\", rule = \"ccc\", weight = 0",
            "group.weight = 0; allowed: a whole number from 1 to 65535",
        ),
        ("name = \"g\", rule = \"ccc\", weight = -3", "weight = -3; allowed"),
        ("name = \"g\", rule = \"ccc\", per = \"vm\"", "flow, server, interface, rule"),
        ("name = \"g\", rule = \"ccc\", max_members = 65536", "1 to 65535"),
        ("name = \"g\", rule = \"ccc\", idle_s = 0", "1 to 1800"),
        ("name = \"g\", rule = \"ccc\", aggressiveness = 2.0", "multcp"),
        ("name = \"g\", rule = \"cm\", join_adds = true", "join_adds: only the rules ccc, etcp and multcp"),
        (
            "name = \"g\", rule = \"lisa\", weight = 2",
            "weight: by the rule \"lisa\" nothing is divided; leave",
        ),
        ("name = \"g\", rule = \"lisa\", per = \"server\"", "per: by"),
        ("name = \"g\", rule = \"lisa\", ack_clock = false", "ack_clock: by"),
        ("name = \"g\", rule = \"lisa\", idle_grows = true", "idle_grows: by"),
        ("name = \"\", rule = \"ccc\"", "not empty"),
        ("name = \"g\"", "rule"),
    ] {
        let e = error(&rule("a", keys));
        assert!(e.line == 4 && e.what.contains(what), "{keys}: {e}");
    }
    // what holds anyway may be written
    let same = "weight = 1, per = \"flow\", join_adds = false, ack_clock = true, idle_grows = false";
    Policy::parse("p.toml", &rule("a", &format!("name = \"g\", rule = \"lisa\", {same}")))
        .expect("nothing new");
    let e = error(&(rule("a", uplink) + &rule("b", &format!("{uplink}, idle_s = 5"))));
    assert!(e.line == 8 && e.what.contains("otherwise in rule \"a\""), "{e}");
    // a tenant has one weight: where some of its flows fall under one rule and some under another, both give it
    let of_port = "match = { iface = \"tap*\", server_port = [80] }\n";
    let tenants = |per: &str, weight: u32| format!("{uplink}, per = \"{per}\", weight = {weight}");
    for per in ["server", "interface"] {
        let first = rule("a", &tenants(per, 2)) + of_port;
        let e = error(&(first.clone() + &rule("b", &tenants(per, 1))));
        assert!(e.line == 9 && e.what.contains(per) && e.what.contains("rule \"a\""), "{e}");
        Policy::parse("p.toml", &(first.clone() + &rule("b", &tenants(per, 2)))).expect("the same");
        Policy::parse("p.toml", &(first + &rule("b", &tenants("flow", 1)))).expect("its flows' own");
        // all flows of an interface fall under the first of its rules
        let whole =
            rule("a", &tenants(per, 2)) + "match = { iface = \"tap1\" }\n" + &rule("b", &tenants(per, 1));
        Policy::parse("p.toml", &whole).expect("different interfaces");
    }
    let server = |address: &str, weight: u32| {
        let matches = format!("match = {{ server = \"{address}\", server_port = [80] }}\n");
        rule(address, &tenants("server", weight)) + &matches
    };
    let text = server("192.0.2.1", 1) + &server("192.0.2.2", 2) + &server("2001:db8::/32", 3);
    Policy::parse("p.toml", &text).expect("different servers");
    let e = error(&(server("192.0.2.1", 1) + &server("192.0.2.0/24", 2)));
    assert!(e.line == 9 && e.what.contains("server"), "{e}");
    let e = error(&(rule("a", uplink) + "mode = \"watch\"\n"));
    assert!(e.what.contains("not controlled"), "{e}");
    let e = error(&rule("a", uplink).replace("\"reno\"", "\"trim\""));
    assert!(e.line == 4 && e.what.contains("\"trim\" puts its window by"), "{e}");
    let native = |name: &str, group: &str| rule(name, group) + "mode = \"native\"\n";
    let sockets = Policy::parse("p.toml", &native("a", uplink)).expect("sockets have groups");
    assert!(!sockets.groups()[0].ack_clock, "they are paced instead");
    for (keys, what) in [("per = \"interface\"", "flow, server, rule"), ("ack_clock = true", "pace")] {
        let e = error(&native("a", &format!("{uplink}, {keys}")));
        assert!(e.line == 4 && e.what.contains(what), "{keys}: {e}");
    }
    let e = error(&(rule("a", uplink) + &native("b", uplink)));
    assert!(e.line == 8 && e.what.contains("another name"), "{e}");
}

#[test]
fn what_finds_no_room_in_a_datapath_is_refused() {
    let named = std::cell::Cell::new(0);
    let rules = |count: u32, mode: &str, rest: &dyn Fn(u32) -> String| {
        let rule = |i| {
            let name = named.replace(named.get() + 1);
            format!("[[rule]]\nname = \"r{name}\"\nalgorithm = \"reno\"\nmode = \"{mode}\"\n{}\n", rest(i))
        };
        (0..count).map(rule).collect::<String>()
    };
    let accepts = |text: &str| Policy::parse("p.toml", text).map(drop);
    let iface = |name: &'static str| move |_| format!("match = {{ iface = \"{name}\" }}");
    accepts(&rules(256, "watch", &iface("tap7"))).expect("as many as there is room for");
    let e = error(&rules(300, "watch", &iface("tap7")));
    assert!(e.line == 256 * 5 + 1 && e.what.contains("300 rules for one interface; at most 256"), "{e}");
    // those of a pattern, too; those of other interfaces do not count
    let mixed = rules(200, "watch", &iface("tap*")) + &rules(57, "watch", &iface("tap7"));
    assert!(error(&mixed).what.contains("257 rules"));
    accepts(&(rules(200, "watch", &iface("tap8")) + &rules(100, "watch", &iface("tap7")))).expect("of two");
    let cgroup = |name: &'static str| move |_| format!("match = {{ cgroup = \"/{name}\" }}");
    let sockets = rules(200, "native", &cgroup("a")) + &rules(57, "native", &|_| String::new());
    assert!(error(&sockets).what.contains("257 rules for one cgroup"));
    accepts(&(rules(200, "native", &cgroup("a")) + &rules(100, "native", &cgroup("b")))).expect("of two");
    let grouped =
        |i: u32| format!("match = {{ iface = \"tap{i}\" }}\ngroup = {{ name = \"g{i}\", rule = \"ccc\" }}");
    accepts(&rules(256, "transparent", &grouped)).expect("as many as there is room for");
    let e = error(&rules(257, "transparent", &grouped));
    assert!(e.line == 256 * 6 + 1 && e.what.contains("more than 256 groups behind interfaces"), "{e}");
    let one = Policy::parse("p.toml", &rules(1, "watch", &iface("tap7"))).expect("sound").rules.remove(0);
    let (at, what) = room::check_room(&vec![one; 65_537]).expect_err("one too many");
    assert!(at == 65_536 && what.contains("more than 65536 rules"), "{what}");
}

proptest! {
    #[test]
    fn any_text_is_refused_or_compiles(text in "\\PC*") {
        if let Ok(policy) = Policy::parse("p", &text) {
            policy.compile("eth0", 1);
        }
    }

    #[test]
    fn shares_end_at_one_thousand(shares in proptest::collection::vec(1u32..1000, 1..=4)) {
        let list = shares.iter().map(|s| ("bbr".to_string(), *s)).collect();
        let mut policy = Policy::simple(Algorithm::by_name("bbr").unwrap(), Mode::Transparent, vec![], false).unwrap();
        policy.rules[0].algorithms = list;
        let rule = policy.compile("eth0", 1)[0];
        prop_assert_eq!(rule.splits[shares.len() - 1].share_upto_permille, 1000);
    }
}
