//! What a user sees when something is wrong, and what needs no privilege.

mod controller;
mod memory;
mod policies;
mod scenarios;
mod shards;
mod sweep;

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;
use windlass_tests::{is_root, windlass, windlass_path};

fn run(words: &[&str]) -> Output {
    windlass().args(words).output().expect("windlass runs")
}

fn refused(words: &[&str], saying: &[&str]) {
    is_refused(words, run(words), saying);
}

fn is_refused(words: &[&str], out: Output, saying: &[&str]) {
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{words:?}: {said}");
    for part in saying {
        assert!(said.contains(part), "{words:?} should say '{part}', says: {said}");
    }
    assert_eq!(said.trim().lines().count(), 1, "one line: {said}");
    assert!(said.matches("No such").count() <= 1, "it says so once: {said}");
}

#[test]
fn bad_input_gets_one_line_with_place_and_cure() {
    refused(&["attach", "nosuchdev"], &["nosuchdev", "ip link"]);
    refused(&["attach", "lo", "--alg", "vegas"], &["vegas", "cubic, bbr"]);
    refused(&["attach", "lo"], &["no Ethernet"]);
    refused(&["attach", "lo", "--uplink", "nosuchdev"], &["nosuchdev", "ip link"]);
    refused(&["policy", "check", "/nonexistent.toml"], &["/nonexistent.toml: No such file"]);
    refused(&["run", "/nonexistent.toml"], &["/nonexistent.toml: cannot be read"]);
    let wan = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/wan.toml");
    refused(&["run", wan, "--on", "sim", "--emulator", "netem"], &["--emulator", "--on lab"]);
    refused(&["reproduce", "nosuch"], &["nosuch", "tcon-loss"]);
    refused(&["reproduce"], &["--all"]);
    refused(&["reproduce", "harm-survey", "--only", "600001"], &["--only 600001", "1 to 600000"]);
    refused(&["reproduce", "harm-survey", "--draw", "0"], &["--draw 0", "1 to 1000"]);
    refused(&["reproduce", "tcon-loss", "--draw", "2"], &["--draw", "harm-survey"]);
    refused(&["reproduce", "tcon-loss", "--only", "1"], &["--only", "harm-survey"]);
    refused(&["reproduce", "tcon-loss", "--on", "sim"], &["--on", "harm-survey"]);
    refused(&["reproduce", "tcon-loss", "--shard", "1/2"], &["--shard", "agreement-survey"]);
    refused(&["reproduce", "agreement-survey", "--only", "217"], &["--only 217", "1 to 216"]);
    for prefix in ["Far-Too-Long-", "", "../select/1", "."] {
        for words in [&["native", "load"][..], &["native", "unload"], &["attach", "--native"]] {
            refused(&[words, &["--prefix", prefix]].concat(), &["prefix", "lower-case"]);
        }
    }
    if is_root() {
        refused(&["native", "unload", "--prefix", "nobody_"], &["nobody_", "native list"]);
        refused(&["detach", "--cgroup", "/nobody"], &["/nobody", "under control: "]);
    }
    for words in
        [&["attach", "lo", "--port"][..], &["attach", "--native", "--port"], &["guest", "--server-port"]]
    {
        refused(&[words, &["1,2,3,4,5,6,7,8,9"]].concat(), &["9 ports", "at most 8"]);
    }
    refused(&["guest", "--port", "org.nobody.9"], &["org.nobody.9", "virtserialport"]);
    refused(&["guest", "--port", "/etc/passwd"], &["/etc/passwd", "--port"]);
    refused(&["guest", "--port", "/dev/null", "--alg", "vegas"], &["vegas", "cubic, bbr"]);
    for (option, value) in
        [("--flows", "0"), ("--clock-hz", "100"), ("--idle-timeout-s", "0"), ("--idle-timeout-s", "1801")]
    {
        let words = ["attach", "lo", "--pace-by", "clock", option, value];
        refused(&words, &[&format!("{option} {value}: "), " to "]);
    }
    for (what, saying) in [
        ("sim", "fat-tree"),
        ("groups", "ccc, lisa"),
        ("datapath", "watch-"),
        ("isolation", "silent, handshake-only"),
    ] {
        refused(&["bench", what, "--only", "zzz"], &["--only zzz: no ", "begins so", saying]);
    }
    refused(&["bench", "sim", "--pairs", "40"], &["--pairs", "bench datapath"]);
    refused(&["bench", "sim", "--quick"], &["--quick", "isolation", "--only"]);
    refused(&["controller", "--port", "/etc/passwd"], &["/etc/passwd", "chardev"]);
    refused(&["controller", "--port", "/run/a.sock", "--rule", "fair"], &["fair", "ccc, cm"]);
    // a guest's lie is bounded by its share
    refused(&["controller", "--port", "/run/a.sock", "--rule", "lisa"], &["lisa", "no shares", "ccc, cm"]);
    refused(&["controller", "--port", "/run/a.sock", "--port", "/run/b.sock,name=a"], &["'a'", "name="]);
    for rule in ["ccc", "etcp"] {
        let more = ["--rule", rule, "--aggressiveness", "5"];
        refused(&[&["controller", "--port", "/run/a.sock"][..], &more].concat(), &["multcp", rule]);
    }
}

/// What concerns interfaces means nothing to sockets.
#[test]
fn options_that_would_be_ignored_are_refused() {
    for option in [
        &["--stats"][..],
        &["--flows", "10"],
        &["--store-mib", "10"],
        &["--clock-hz", "100"],
        &["--idle-timeout-s", "10"],
        &["--pace-by", "fq"],
        &["--uplink", "lo"],
    ] {
        let out = run(&[&["attach", "--native", "--cgroup", "/etc"], option].concat());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(option[0]) && said.contains("cannot be used with"), "{said}");
    }
    for (words, saying) in [
        (&["attach", "lo", "--prefix", "x_"][..], "cannot be used with"),
        (&["attach", "lo", "--cgroup", "/etc"], "cannot be used with"),
        (&["reproduce", "tcon-loss", "--list"], "cannot be used with"),
        // 2^44 + 256, of which a shift to bytes would leave 256
        (&["attach", "lo", "--store-mib", "17592186044672"], "1..4096"),
    ] {
        let out = run(words);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && said.contains(saying), "{said}");
    }
}

#[test]
fn an_address_without_its_port_is_refused_with_an_example() {
    for words in [&["set", "192.0.2.1", "192.0.2.2:80", "--by-rule"], &["set", "a:1", "b", "--by-rule"]] {
        let out = run(words);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains("write 192.0.2.1:443 or [2001:db8::1]:443"), "{said}");
    }
}

const NOBODY: u32 = 65534;

/// A folder with a binary where every user reaches them.
fn for_everybody() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("windlass");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // not by this process: a child of another test would hold the file open for writing for a moment, and it could not be run
    assert!(Command::new("cp").arg(windlass_path()).arg(&binary).status().unwrap().success());
    (folder, binary)
}

/// A policy for an interface `v0`.
fn of_v0(folder: &Path) -> String {
    let file = folder.join("v0.toml");
    fs::write(&file, "[[rule]]\nname = \"a\"\nmatch.iface = \"v0\"\nalgorithm = \"bbr\"\n").unwrap();
    file.to_str().unwrap().to_string()
}

#[test]
fn without_root_one_line_reports_it() {
    let (folder, binary) = for_everybody();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/lan.toml");
    fs::copy(scenario, folder.path().join("lan.toml")).unwrap();
    of_v0(folder.path());
    for words in [
        &["run", "lan.toml"][..],
        &["sweep", "--on", "lab", "lan.toml"],
        &["reproduce", "tcon-loss", "--quick"],
        &["reproduce", "transparency", "--quick"],
        &["demo"],
        &["bench", "datapath"],
        &["bench", "emulator"],
        &["bench", "isolation"],
        &["attach", "--native"],
        &["agent", "--policy", "v0.toml"],
        &["set", "192.0.2.1:80", "192.0.2.2:40000", "--alg", "cubic"],
        &["native", "load"],
        &["native", "unload"],
        &["native", "list"],
        &["detach", "--cgroup", "/sys/fs/cgroup"],
        &["detach", "--all"],
        &["flows"],
        &["counters"],
        &["counters", "tap0", "--json"],
        &["status"],
        &["top", "--json"],
    ] {
        let mut command = Command::new(&binary);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let out = command.current_dir(folder.path()).args(words).output().expect("windlass runs");
        is_refused(words, out, &["needs root", "sudo"]);
    }
    assert!(!folder.path().join("report").exists(), "nothing was begun");
}

/// Where v0 is an interface that could be controlled: as the user nobody, and as a root that lacks what loading programs takes.
#[test]
fn without_privilege_no_interface_is_controlled_and_one_line_has_the_reason() {
    if !windlass_tests::is_root_or_skip(
        "without_privilege_no_interface_is_controlled_and_one_line_has_the_reason",
    ) {
        return;
    }
    let (folder, binary) = for_everybody();
    let policy = of_v0(folder.path());
    let (attach, agent) = (&["attach", "v0"][..], &["agent", "--policy", &policy][..]);
    let nobody = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into()];
    let lesser = ["--bounding-set=-bpf,-sys_admin".to_string()];
    for (words, less, saying) in [
        (attach, &nobody[..], ["needs root", "sudo"]),
        (attach, &lesser, ["needs CAP_BPF, ", "even root lacks"]),
        (agent, &lesser, ["needs CAP_BPF, ", "even root lacks"]),
    ] {
        let with_less = "ip link add v0 type veth peer name v1 && exec setpriv \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", with_less, "sh"]).args(less).arg(&binary).args(words);
        let out = command.output().expect("util-linux");
        is_refused(words, out, &saying);
    }
}

#[test]
fn weights_that_are_none_are_refused_by_name() {
    for weight in ["0", "-1", "65536", "heavy"] {
        let out = run(&["controller", "--port", &format!("/run/a.sock,weight={weight}")]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("weight={weight}: weights are 1 to 65535")), "{said}");
    }
}

#[test]
fn a_wrong_policy_and_a_wrong_scenario_name_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("p.toml");
    fs::write(&policy, "[[rule]]\nname = \"a\"\nalgorithm = \"vegas\"\n").unwrap();
    refused(&["policy", "check", policy.to_str().unwrap()], &["p.toml:3", "vegas", "bbr"]);
    fs::write(&policy, "[[rule]]\nname = \"a\"\nmatch = \"tap0\"\n").unwrap();
    refused(
        &["policy", "check", policy.to_str().unwrap()],
        &["p.toml:3: match = \"tap0\"; allowed: a table"],
    );
    let scenario = folder.path().join("s.toml");
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/wan.toml")).unwrap();
    fs::write(&scenario, text.replace("\"1 %\"", "\"150 %\"")).unwrap();
    refused(&["run", scenario.to_str().unwrap()], &["s.toml:", "150 %", "0 % to 100 %"]);
    let without_flows = text.split("[[flow]]").next().unwrap();
    fs::write(&scenario, without_flows).unwrap();
    let file = scenario.to_str().unwrap();
    for words in [&["run", file, "--on", "sim"][..], &["sweep", file]] {
        refused(words, &["s.toml: ", "no [[flow]]: nothing is sent; add one"]);
    }
}

/// What is wrong, too, is one document for programs, and the status shows it.
#[test]
fn a_check_answers_in_json_whatever_it_finds() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("p.toml");
    let file = policy.to_str().unwrap();
    let check = || {
        let out = run(&["policy", "check", "--json", file]);
        (out.status.code(), serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap())
    };
    let (status, unread) = check();
    assert_eq!((status, &unread["ok"], &unread["line"]), (Some(2), &false.into(), &().into()));
    assert!(unread["what"].as_str().unwrap().contains("No such file"), "{unread}");
    fs::write(&policy, "[[rule]]\nname = \"a\"\nalgorithm = \"vegas\"\n").unwrap();
    let (status, wrong) = check();
    assert_eq!((status, &wrong["ok"], &wrong["line"]), (Some(2), &false.into(), &3.into()));
    assert!(wrong["file"] == file && wrong["what"].as_str().unwrap().contains("vegas"), "{wrong}");
    fs::write(&policy, "[[rule]]\nname = \"a\"\nalgorithm = \"reno\"\n").unwrap();
    let sound = serde_json::json!({ "file": file, "ok": true, "rules": 1, "warnings": [] });
    assert_eq!(check(), (Some(0), sound));
}

#[test]
fn a_policy_that_would_control_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("p.toml");
    let file = policy.to_str().unwrap();
    fs::write(&policy, "[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\nmatch.iface = \"tap*\"\n").unwrap();
    refused(&["attach", "lo", "--policy", file], &["p.toml", "no rule", "'lo'", "policy show"]);
    refused(&["attach", "--native", "--policy", file], &["no rule", "native"]);
}

/// A pipe would be waited for, a device would fill the memory.
#[test]
fn what_is_no_file_of_text_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (pipe, bytes, long) = (at("pipe.toml"), at("bytes.toml"), at("long.toml"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(&bytes, b"name = \"a\"\n# \xff\n").unwrap();
    fs::File::create(&long).unwrap().set_len(1 << 31).unwrap();
    let zero = at("zero.toml");
    std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
    for (file, saying) in [
        (&pipe, "is a pipe without a writer; name a file of TOML"),
        (&zero, "is a device"),
        (&at("."), "is a folder"),
        (&bytes, "line 2 is no UTF-8 text; save the file as UTF-8"),
        (&long, "is longer than 16 MiB"),
    ] {
        refused(&["policy", "check", file], &[file, saying]);
        refused(&["agent", "--policy", file], &[file, saying]);
        refused(&["run", "--on", "sim", file], &[file, saying]);
        refused(&["sweep", file], &[file, saying]);
        refused(&["controller", "--guests", file], &[file, saying]);
        if file.ends_with(".toml") {
            refused(&["reproduce", file], &[file, saying]);
        }
    }
}

#[test]
fn what_another_program_writes_is_read() {
    let policy = fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../policies/wan.toml")).unwrap();
    let mut cat = Command::new("cat").stdin(policy).stdout(Stdio::piped()).spawn().unwrap();
    let written = cat.stdout.take().unwrap();
    let out = windlass().args(["policy", "check", "/dev/stdin"]).stdin(written).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    assert!(cat.wait().unwrap().success());
}

#[test]
fn every_example_is_sound() {
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../policies")).unwrap() {
        let path = entry.unwrap().path();
        let out = run(&["policy", "check", path.to_str().unwrap()]);
        assert!(out.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&out.stderr));
    }
}

/// Beside them are the traces and distributions that they name.
#[test]
fn every_example_scenario_runs_in_the_simulator() {
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let out = run(&["run", path.to_str().unwrap(), "--on", "sim"]);
            assert!(out.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&out.stderr));
        }
    }
}

#[test]
fn a_policy_is_shown_with_servers_and_groups() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("p.toml");
    let text = "[[rule]]\nname = \"a\"\nmatch = { server = \"192.0.2.0/24\" }\nalgorithm = \"reno\"\n\
                group = { name = \"uplink\", rule = \"ccc\", per = \"server\", weight = 3 }\n";
    fs::write(&policy, text).unwrap();
    let out = run(&["policy", "show", policy.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&out.stdout);
    for word in ["192.0.2.0/24", "uplink (ccc)", "3 per server"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_policy_shows_no_algorithm_for_what_is_not_controlled() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("p.toml");
    let words = ["policy", "show", policy.to_str().unwrap()];
    for mode in ["off", "watch"] {
        let rest = format!("match = {{ iface = \"tap1\" }}\nmode = \"{mode}\"\n");
        let text =
            format!("[[rule]]\nname = \"a\"\n{rest}[[rule]]\nname = \"b\"\nalgorithm = \"bbr\"\n{rest}");
        fs::write(&policy, text).unwrap();
        let said = String::from_utf8_lossy(&run(&words).stdout).into_owned();
        let rules: Vec<Vec<&str>> =
            said.lines().filter(|l| l.contains("tap1")).map(|l| l.split_whitespace().collect()).collect();
        assert!(rules.len() == 2 && rules.iter().all(|r| r[5..7] == ["-", mode]), "{said}");
        let value: serde_json::Value =
            serde_json::from_slice(&run(&[&words[..], &["--json"]].concat()).stdout).unwrap();
        for rule in value["rules"].as_array().unwrap() {
            assert_eq!((&rule["mode"], &rule["algorithms"]), (&mode.into(), &serde_json::json!([])));
        }
    }
}

#[test]
fn algorithms_are_listed_as_json() {
    let out = run(&["algs", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let names: Vec<_> =
        value["algorithms"].as_array().unwrap().iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["reno", "cubic", "bbr", "dctcp", "l2dct", "trim", "kcubic", "kreno", "bbr3"]);
}

#[test]
fn experiments_are_listed_as_json() {
    let out = run(&["reproduce", "--list", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let names = document["experiments"].as_array().unwrap();
    assert!(
        out.status.success()
            && names.iter().any(|n| n == "tcon-loss")
            && names.iter().any(|n| n == "tcon-cpu")
    );
    let list = String::from_utf8(run(&["reproduce", "--list"]).stdout).unwrap();
    for name in names.iter().map(|name| name.as_str().unwrap()) {
        let title = document["titles"][name].as_str().unwrap();
        let has_both =
            |line: &str| line.split_once(' ').is_some_and(|(n, rest)| n == name && rest.trim() == title);
        assert!(!title.is_empty() && list.lines().any(has_both), "{name}: {list}");
    }
}

#[test]
fn the_kernel_loads_the_datapath() {
    if !windlass_tests::is_root_or_skip("the_kernel_loads_the_datapath") {
        return;
    }
    let out = run(&["doctor", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let programs = value["checks"].as_array().unwrap().iter().find(|c| c["name"] == "programs").unwrap();
    assert_eq!(programs["ok"], true, "{programs}");
    for name in ["native", "clock"] {
        let part = value["checks"].as_array().unwrap().iter().find(|c| c["name"] == name).unwrap();
        assert_eq!(part["ok"], true, "{part}");
    }
    // a machine without a port is no guest, which is no fault
    let guest = value["checks"].as_array().unwrap().iter().find(|c| c["name"] == "guest").unwrap();
    assert_eq!(guest["is_there"], guest["found"].as_str().unwrap().starts_with("port"), "{guest}");
    assert!(guest["ok"] == true && guest["found"].as_str().unwrap().contains("port"), "{guest}");
}

#[test]
fn a_kernel_without_struct_ops_gets_one_line() {
    if !windlass_tests::is_root_or_skip("a_kernel_without_struct_ops_gets_one_line") {
        return;
    }
    // without its description of itself, the kernel is as good as without
    let hide = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" native load --prefix hidden_";
    let out = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", hide])
        .arg(windlass_tests::windlass_path())
        .output()
        .expect("util-linux");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("struct_ops") && said.trim().lines().count() == 1, "{said}");
}

/// Where nothing can be written, one line reports so, and the status shows it.
#[test]
fn output_that_is_lost_is_reported() {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/wan.toml");
    for words in [&["algs"][..], &["run", scenario, "--on", "sim"], &["completions", "bash"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let out = windlass().args(words).stdout(full).output().expect("windlass runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{words:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
        assert!(said.contains("No space left"), "{words:?}: {said}");
    }
}

/// What both runs print is the same to the byte, and complete.
#[test]
fn a_simulated_run_repeats_itself() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("s.toml");
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/wan.toml")).unwrap();
    let without_box = text.split("[windlass]").next().unwrap();
    fs::write(&scenario, without_box).unwrap();
    let words = ["run", scenario.to_str().unwrap(), "--on", "sim", "--json"];
    let first = run(&words);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(first.stdout, run(&words).stdout);
    let value: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(value["flows"][0]["bytes"], 10_000_000);
    fs::write(&scenario, without_box.replace("\"cubic\"", "\"vegas\"")).unwrap();
    let line = without_box.lines().position(|l| l.contains("\"cubic\"")).unwrap() + 1;
    refused(&words, &[&format!("s.toml:{line}: "), "vegas", "cubic, bbr"]);
}

#[test]
fn completions_and_manual_are_there() {
    assert!(String::from_utf8_lossy(&run(&["completions", "bash"]).stdout).contains("windlass"));
    assert!(String::from_utf8_lossy(&run(&["man"]).stdout).contains(".TH"));
    let page = run(&["man", "policy", "check"]).stdout;
    assert!(String::from_utf8_lossy(&page).contains(".TH windlass-policy-check"));
    let page = run(&["man", "counters"]).stdout;
    let page = String::from_utf8_lossy(&page).into_owned();
    assert!(page.contains(".TH windlass-counters") && page.contains("IFACE"), "{page}");
    refused(&["man", "policy", "chek"], &["policy chek", "windlass help"]);
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    assert!(run(&["man", "--install", pages.to_str().unwrap()]).status.success());
    for page in ["windlass.1", "windlass-policy-diff.1"] {
        assert!(fs::read_to_string(pages.join(page)).unwrap().contains(".TH"), "{page}");
    }
}

/// On a terminal, which `script` has.
#[test]
fn a_manual_page_is_shown_in_the_pager_of_the_environment() {
    let on_terminal = |pagers: [&str; 2]| {
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{} man algs", windlass_path().display()), "/dev/null"]);
        let out = script.env("MANPAGER", pagers[0]).env("PAGER", pagers[1]).stdin(Stdio::null()).output();
        String::from_utf8_lossy(&out.expect("util-linux").stdout).into_owned()
    };
    for pagers in [["sed s/^/paged:/", "false"], ["", "sed s/^/paged:/"]] {
        let shown = on_terminal(pagers);
        assert!(shown.contains("paged:") && !shown.contains(".TH"), "{pagers:?}: {shown}");
    }
}

#[test]
fn shells_complete_algorithms_and_columns_of_flows() {
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(run(&["completions", shell]).stdout).unwrap();
        for word in ["kcubic", "min_rtt"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}
