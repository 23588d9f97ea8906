//! What `windlass run` refuses of a scenario, and what it reports.

use crate::{is_refused, refused, run};
use std::{fs, os::unix::process::CommandExt, path::PathBuf, process::Command};
use windlass_tests::{is_root, is_root_or_skip, windlass_path};

/// Two hosts and a link; what is added begins at line 10.
const PAIR: &str = "name = \"small\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
    between = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n";
const FLOW: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"50 kB\"\n";

struct Site(tempfile::TempDir);

impl Site {
    fn new() -> Site {
        Site(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, text: &str) -> String {
        let file = self.path("s.toml");
        fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// Whether both a run and a sweep refuse it, and the sweep begins nothing.
    fn refuses(&self, text: &str, on: &str, saying: &[&str]) {
        let (file, out) = (self.write(text), self.path("out"));
        refused(&["run", &file, "--on", on], saying);
        refused(&["sweep", &file, "--on", on, "--out", out.to_str().unwrap()], saying);
        assert!(!out.exists(), "{saying:?}: something was begun");
    }
}

#[test]
fn what_a_home_cannot_do_is_refused_with_file_and_line() {
    let site = Site::new();
    let application = ["s.toml:14: flow a > b: application: ", "--on sim"];
    site.refuses(&format!("{PAIR}{FLOW}application = \"push\"\n"), "lab", &application);
    let window = ["s.toml:15: [tcp]: validate_window: ", "--on sim"];
    site.refuses(&format!("{PAIR}{FLOW}[tcp]\nvalidate_window = false\n"), "lab", &window);
    let routes = ["s.toml:18: flow a > b: algorithm: \"reno\"", "\"cubic\"", "two receivers"];
    site.refuses(&format!("{PAIR}{FLOW}{FLOW}algorithm = \"reno\"\n"), "lab", &routes);
    let boxed = format!("{PAIR}{FLOW}[windlass]\nfacing = \"b\"\nat = \"a\"\n");
    site.refuses(&boxed, "sim", &["s.toml:16: [windlass]: at = \"a\" is an end of a flow"]);
    let file = site.write(&format!("{PAIR}ecn = \"20 packets\"\n{FLOW}"));
    let netem = ["s.toml:10: link a - b: ecn: ", "--emulator netem"];
    refused(&["run", &file, "--on", "lab", "--emulator", "netem"], &netem);
}

#[test]
fn a_real_run_without_a_box_is_not_shown_in_a_browser_and_has_no_speed() {
    let site = Site::new();
    let alone = site.write(&format!("{PAIR}{FLOW}"));
    refused(&["run", &alone, "--web", "127.0.0.1:0"], &["--web", "--on lab", "[windlass]", "--on sim"]);
    let boxed = site.write(&format!("{PAIR}{FLOW}[windlass]\nfacing = \"b\"\nat = \"a\"\n"));
    let speed = ["run", &boxed, "--web", "127.0.0.1:0", "--speed", "2"];
    refused(&speed, &["--speed", "--on sim", "real kernels"]);
    for (speed, why) in [("0", "0.001 to 1000"), ("x", "a number"), ("nan", "0.001 to 1000")] {
        let out = run(&["run", &alone, "--on", "sim", "--web", "127.0.0.1:0", "--speed", speed]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(why), "{said}");
    }
    // it is a run's
    for command in ["attach", "guest", "controller"] {
        let out = run(&[command, "--web"]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains("unexpected argument '--web'"), "{said}");
    }
}

#[test]
fn a_run_whose_box_controlled_nothing_reports_it_and_exits_with_1() {
    let site = Site::new();
    // beside the way from a to b
    let aside = "[[host]]\nname = \"box\"\n[[link]]\nbetween = [\"a\", \"box\"]\n\
        [windlass]\nat = \"box\"\nfacing = \"a\"\n";
    let file = site.write(&format!("{PAIR}{FLOW}{aside}"));
    let error = "the box controlled no flow: no packet passed between a and box";
    let out = run(&["run", &file, "--on", "sim"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.code() == Some(1) && text.contains(&format!("error: {error}")), "{text}");
    let out = run(&["run", &file, "--on", "sim", "--json"]);
    assert_eq!(out.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(document["box_error"].as_str().is_some_and(|e| e.starts_with(error)), "{document}");
    let folder = site.path("out");
    let out = run(&["sweep", &file, "--on", "sim", "--json", "--out", folder.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stdout).contains(error), "{out:?}");
    let file = site.write(&format!("{PAIR}{FLOW}{aside}mode = \"watch\"\n"));
    assert_eq!(run(&["run", &file, "--on", "sim"]).status.code(), Some(0), "it controls nothing anyway");
}

#[test]
fn an_experiment_that_a_home_cannot_run_is_refused_before_it_begins() {
    let site = Site::new();
    let base = PAIR.replace("[[", "[[scenario.").replacen("name", "[scenario]\nname", 1);
    let flow = FLOW.replace("[[", "[[scenario.");
    let text = format!(
        "name = \"own\"\ntitle = \"Own\"\non = \"lab\"\n{base}{flow}[[variant]]\nname = \"pushed\"\n\
         set = {{ \"flow.0.application\" = \"push\" }}\n[[point]]\nname = \"here\"\nruns = 2\nquick_runs = 1\n"
    );
    let (file, out) = (site.write(&text), site.path("out"));
    let saying = [&file, "point \"here\", variant \"pushed\"", "application: ", "--on sim"];
    refused(&["reproduce", &file, "--out", out.to_str().unwrap()], &saying);
    assert!(!out.exists(), "something was begun");
}

#[test]
fn an_unknown_algorithm_is_refused_with_those_there_are() {
    let site = Site::new();
    let with = |name: &str| format!("{PAIR}{FLOW}algorithm = \"{name}\"\n");
    let own = "flow a > b: algorithm: no \"wl_vegas\"; Windlass has wl_reno, wl_cubic, ";
    site.refuses(&with("wl_vegas"), "lab", &["s.toml:14: ", own]);
    let boxed = format!("{PAIR}{FLOW}[windlass]\nat = \"a\"\nfacing = \"b\"\nalgorithm = \"vegas\"\n");
    site.refuses(&boxed, "lab", &["s.toml:17: [windlass]: algorithm: no \"vegas\"", "reno, cubic"]);
    // which modules there are, the kernel shows root only
    if !is_root_or_skip("an_unknown_algorithm_is_refused_with_those_there_are") {
        return;
    }
    let none = "flow a > b: algorithm: this kernel has no \"nosuch\"; it has ";
    site.refuses(&with("nosuch"), "lab", &["s.toml:14: ", none, "reno", "wl_bbr3"]);
    // no kernel has TRIM
    let cure = "write \"wl_trim\" for the one that Windlass has";
    site.refuses(&with("trim"), "lab", &["s.toml:14: ", "this kernel has no \"trim\"; it has ", cure]);
}

#[test]
fn values_of_a_wrong_kind_are_refused_with_what_is_allowed() {
    let site = Site::new();
    let dumbbell = "name = \"small\"\n[topology]\nshape = \"dumbbell\"\npairs = 2\nbottleneck = {}\n";
    for (text, saying) in [
        (format!("{dumbbell}edge = 5\n"), ["s.toml:6: edge: ", "a link in braces, e.g. { rate = "]),
        (format!("{dumbbell}switch = 5\nedge = {{}}\n"), ["s.toml:6: switch: ", "{ port_buffer = "]),
        (dumbbell.replace("= 2", "= \"2\""), ["s.toml:4: pairs: ", "expected a whole number"]),
        (dumbbell.replace("= 2", "= -2\nedge = {}"), ["s.toml:4: pairs = -2: ", "1 to 5000"]),
        (format!("{PAIR}bursts = 5\n{FLOW}"), ["s.toml:10: bursts: ", "{ to_bad = "]),
        (
            format!("{PAIR}buffer = 5\n{FLOW}"),
            ["s.toml:10: buffer: ", "in quotes, e.g. \"1 BDP\", \"100 packets\""],
        ),
        (format!("{PAIR}buffer = \"1e20 packets\"\n{FLOW}"), ["s.toml:10: buffer: ", "without an exponent"]),
        (
            format!("{PAIR}buffer = \"-1 packets\"\n{FLOW}"),
            ["s.toml:10: buffer: \"-1 packets\": below 0", "e.g. \"1 BDP\", \"100 packets\" or \"64 kB\""],
        ),
        (format!("{PAIR}{FLOW}count = \"a\"\n"), ["s.toml:14: count: ", "expected a whole number"]),
        (format!("{PAIR}{FLOW}count = -1\n"), ["s.toml:14: count = -1: ", "1 to 1000000"]),
        (format!("{PAIR}{FLOW}weight = 1.5\n"), ["s.toml:14: weight: ", "expected a whole number"]),
        (
            format!("{PAIR}{FLOW}[tcp]\ninitial_window = -1\n"),
            ["s.toml:15: initial_window: ", "a whole number from 1 to 1000"],
        ),
        (format!("tcp = 5\n{PAIR}{FLOW}"), ["s.toml:1: tcp: ", "a table with rto_min"]),
        (format!("windlass = 5\n{PAIR}{FLOW}"), ["s.toml:1: windlass: ", "a table with at and facing"]),
        (
            format!("{PAIR}{FLOW}application = 5\n"),
            ["s.toml:14: application: ", "one of `http`, `push`, `upload`"],
        ),
    ] {
        let file = site.write(&text);
        refused(&["run", &file, "--on", "sim"], &saying);
    }
    let file = site.write(&format!("{PAIR}{FLOW}"));
    for set in ["link.0=5", "flow.0=5", "link.0.bursts=5", "flow.0.count=a", "host.0=5"] {
        let said = run(&["sweep", &file, "--set", set]);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.contains("struct ") && !said.contains("u32"), "{set}: {said}");
    }
}

#[test]
fn a_run_of_several_flows_reports_how_fair_it_was() {
    let site = Site::new();
    let file = site.write(&format!("{PAIR}buffer = \"20 packets\"\n{FLOW}{FLOW}start = \"10 ms\"\n"));
    let words = ["run", &file, "--on", "sim"];
    let table = run(&words).stdout;
    assert_eq!(table, run(&words).stdout);
    let table = String::from_utf8(table).unwrap();
    let last = table.lines().last().unwrap();
    let index = last.strip_prefix("Jain index of the flows' goodputs: ").unwrap_or_else(|| panic!("{table}"));
    let json = |file: &str| -> serde_json::Value {
        let out = run(&["run", file, "--on", "sim", "--json"]);
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let document = json(&file);
    let jain = document["jain"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&jain) && format!("{jain:.4}") == index, "{jain}: {table}");
    let goodput = |flow: usize| document["flows"][flow]["goodput_bps"].as_f64().unwrap();
    let (a, b) = (goodput(0), goodput(1));
    assert!((jain - (a + b).powi(2) / (2.0 * (a * a + b * b))).abs() < 1e-12);
    // as a sweep has it
    let out = site.path("out").display().to_string();
    let swept: serde_json::Value =
        serde_json::from_slice(&run(&["sweep", &file, "--out", &out, "--json"]).stdout).unwrap();
    assert!((swept["points"][0]["jain"].as_f64().unwrap() - jain).abs() < 1e-9, "{swept}");
    let alone = json(&site.write(&format!("{PAIR}{FLOW}")));
    assert_eq!(alone["jain"], serde_json::Value::Null);
}

/// Standard output is for the document, which there is none of where nothing could begin.
#[test]
fn a_demonstration_as_json_prints_nothing_else() {
    const NOBODY: u32 = 65534;
    let folder =
        tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777)).tempdir();
    let folder = folder.unwrap();
    let binary = folder.path().join("windlass");
    assert!(Command::new("cp").arg(windlass_path()).arg(&binary).status().unwrap().success());
    let mut command = Command::new(&binary);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let out = command.current_dir(folder.path()).args(["demo", "--json"]).output().expect("windlass runs");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "");
    is_refused(&["demo", "--json"], out, &["needs root"]);
}
