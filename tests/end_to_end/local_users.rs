//! Other users of the machine: what they may not read, lock, replace or forge, and how little an agent may do itself.

use crate::{
    control::{attached, put, talker},
    net::Net,
};
use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
    windlass_path,
};

/// A user without any privilege.
const USER: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// The capabilities that the datapath takes, and no others.
const CAPABILITIES: &str = "-all,+bpf,+perfmon,+net_admin,+net_raw";

/// Mounts and a network of its own, with an empty /run and interface r1, so that nothing of the machine is touched. `before`: what
/// a shell does there first. Gone when dropped.
struct Machine(Child);

impl Machine {
    fn with(before: &str) -> Machine {
        let script = format!(
            "mount -t tmpfs -o mode=755 tmpfs /run && while umount -l /sys/fs/bpf 2>/dev/null; do :; done; \
             ip link set lo up && ip link add r1 type veth peer name r2 && ip link set r1 up && ip link set r2 up && \
             {before} && echo ready && exec cat"
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "-n", "--propagation", "private", "sh", "-c", &script]);
        let started = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut machine = Machine(started.expect("unshare (Debian: util-linux)"));
        let mut line = String::new();
        let out = machine.0.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "{script}");
        machine
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--net", "-t", &self.0.id().to_string()]).args(words).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("nsenter (Debian: util-linux)")
    }

    /// Runs it as another user; whether it succeeds.
    fn user_can(&self, words: &[&str]) -> bool {
        self.run(&[&USER[..], words].concat()).status.success()
    }

    fn windlass(&self, words: &[&str]) -> Output {
        self.run(&[&[windlass_path().to_str().expect("UTF-8")], words].concat())
    }

    fn agent(&self, policy: &Path) -> Process {
        let program = windlass_path();
        let words = [program.to_str().expect("UTF-8"), "agent", "--policy", policy.to_str().expect("UTF-8")];
        Process::start(&mut self.command(&words))
    }

    /// Starts a process of another user that holds the locks of these files until the machine is dropped or it is ended.
    fn user_holds(&self, files: &[&str]) -> Vec<Process> {
        let hold = |file: &&str| {
            let process =
                Process::start(&mut self.command(
                    &[&USER[..], &["flock", file, "sh", "-c", "echo held; exec sleep 600"]].concat(),
                ));
            process.says("held");
            process
        };
        files.iter().map(hold).collect()
    }

    /// A path of this machine, as it is seen from outside.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.0.id()))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn said(out: &Output) -> String {
    [&out.stdout[..], &out.stderr].map(String::from_utf8_lossy).concat()
}

/// A folder, a policy in it for interfaces of this pattern.
fn policy_for(pattern: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let text =
        format!("[[rule]]\nname = \"all\"\nmatch = {{ iface = \"{pattern}\" }}\nalgorithm = \"bbr\"\n");
    let file = put(folder.path(), &text);
    (folder, file)
}

/// All that is in a folder, the folder included, and its permissions.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let found = fs::symlink_metadata(folder).expect("it is there");
    assert_eq!(found.uid(), 0, "{}", folder.display());
    let mut all = vec![(folder.to_path_buf(), found.mode() & 0o777)];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().expect("its kind");
        if kind.is_dir() {
            all.extend(modes(&entry.path()));
        } else if !kind.is_symlink() {
            // of a symbolic link they mean nothing
            all.push((entry.path(), entry.metadata().expect("it is there").mode() & 0o777));
        }
    }
    all
}

#[test]
fn locks_notes_and_pins_are_out_of_reach_of_other_users() {
    if !is_root_or_skip("locks_notes_and_pins_are_out_of_reach_of_other_users") {
        return;
    }
    // one that takes permissions away from root, and one that gives them to all
    for mask in ["0000", "0277"] {
        let machine = Machine::with(&format!("umask {mask}"));
        let (_folder, file) = policy_for("r1");
        let mut agent = machine.agent(&file);
        agent.says("r1: under control");
        for folder in ["/run/windlass", "/sys/fs/bpf/windlass"] {
            let all = modes(&machine.path(folder));
            assert!(all.len() > 5, "{all:?}");
            for (path, mode) in all {
                let is_folder = path.is_dir();
                assert_eq!(mode, if is_folder { 0o700 } else { 0o600 }, "{}", path.display());
            }
        }
        // the bpffs that it has mounted
        assert_eq!(fs::metadata(machine.path("/sys/fs/bpf")).expect("mounted").mode() & 0o077, 0);
        for lock in ["pins", "attach"] {
            assert!(!machine.user_can(&["flock", "-n", &format!("/run/windlass/{lock}.lock"), "true"]));
        }
        assert!(!machine.user_can(&["mkdir", "/sys/fs/bpf/mine"]));
        agent.end(libc::SIGTERM);
    }
}

/// Those of an older version, which others could open.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_lock_that_another_user_holds_is_not_waited_for() {
    if !is_root_or_skip("a_lock_that_another_user_holds_is_not_waited_for") {
        return;
    }
    let locks =
        ["attach", "groups", "native", "pins", "select"].map(|name| format!("/run/windlass/{name}.lock"));
    let files = locks.each_ref().map(String::as_str);
    let machine =
        Machine::with(&format!("mkdir -m 755 /run/windlass && touch {0} && chmod 644 {0}", files.join(" ")));
    let holders = machine.user_holds(&files);
    let (_folder, file) = policy_for("r1");
    let mut agent = machine.agent(&file);
    agent.says("r1: under control");
    put(
        file.parent().expect("a folder"),
        &fs::read_to_string(&file).expect("it is there").replace("bbr", "reno"),
    );
    agent.says("in force");
    let out = machine.windlass(&["detach", "--all"]);
    assert!(out.status.success() && said(&out).contains("r1: released"), "{}", said(&out));
    assert_eq!(agent.wait().code(), Some(2), "nothing is left to it");
    for lock in files {
        assert_eq!(fs::metadata(machine.path(lock)).expect("it is there").mode() & 0o777, 0o600, "{lock}");
    }
    drop(holders);
}

#[test]
fn a_folder_of_pins_or_locks_that_another_user_made_is_refused_with_the_cure() {
    if !is_root_or_skip("a_folder_of_pins_or_locks_that_another_user_made_is_refused_with_the_cure") {
        return;
    }
    let (_folder, file) = policy_for("r1");
    let file = file.to_str().expect("UTF-8");
    for (place, before) in [
        ("/sys/fs/bpf/windlass", "mount -t bpf -o mode=1777 bpf /sys/fs/bpf"),
        ("/run/windlass", "chmod 1777 /run"),
    ] {
        let machine = Machine::with(before);
        assert!(machine.user_can(&["mkdir", "-m", "755", place]));
        for words in [&["agent", "--policy", file][..], &["detach", "--all"], &["flows"], &["native", "list"]]
        {
            let out = machine.windlass(words);
            let said = said(&out);
            assert_eq!(out.status.code(), Some(2), "{words:?}: {said}");
            for part in [place, "user 65534", "mode 0755", &format!("rm -r {place}")] {
                assert!(said.contains(part), "{words:?}: {said}");
            }
        }
        assert_eq!(
            fs::read_dir(machine.path(place)).expect("it is there").count(),
            0,
            "nothing is put there"
        );
        assert!(machine.run(&["rm", "-r", place]).status.success());
        // where any user may make folders, ours is out of reach all the same
        let mut agent = machine.agent(Path::new(file));
        agent.says("r1: under control");
        assert!(!machine.user_can(&["mv", place, &format!("{place}-gone")]));
        assert!(!machine.user_can(&["ls", place]));
        agent.end(libc::SIGTERM);
    }
}

/// A line of /proc/PID/task/TID/status.
fn in_status(task: &Path, key: &str) -> String {
    let status = fs::read_to_string(task.join("status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{key} in {status}")).trim().to_string()
}

/// Each thread of the process has these capabilities and no way to others, and a filter of system calls. That which answers readers
/// has none.
fn assert_confined(process: &Process, capabilities: u64) {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).expect("it runs");
    for task in tasks.flatten().map(|entry| entry.path()) {
        let name = fs::read_to_string(task.join("comm")).expect("it runs");
        let own = if name.trim() == "readers" { 0 } else { capabilities };
        for (key, set) in
            [("CapEff", own), ("CapPrm", own), ("CapBnd", capabilities), ("CapInh", 0), ("CapAmb", 0)]
        {
            let found = u64::from_str_radix(&in_status(&task, key), 16).expect("a set");
            assert_eq!(found, set, "{key} of {}: {found:x}", task.display());
        }
        assert_eq!(in_status(&task, "NoNewPrivs"), "1");
        assert_eq!(in_status(&task, "Seccomp"), "2", "a filter");
    }
}

const DAC_OVERRIDE: u64 = 1 << 1;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
/// CAP_PERFMON and CAP_BPF.
const BPF: u64 = 1 << 38 | 1 << 39;

/// An agent goes on with these: it makes its clock anew, follows its policy and takes over.
#[test]
fn an_agent_keeps_the_capabilities_that_it_needs_and_a_seccomp_filter() {
    if !is_root_or_skip("an_agent_keeps_the_capabilities_that_it_needs_and_a_seccomp_filter") {
        return;
    }
    let net = Net::create("cubic");
    let (_folder, file) = policy_for("r[12]");
    let mut agent = net.agent(&file, "under control");
    agent.says("r2: under control");
    assert_confined(&agent, BPF | NET_ADMIN | NET_RAW);
    net.middle.run(&["ip", "link", "del", &net.clocks()[0]]).expect("iproute2");
    agent.complains_of("its clock was deleted or changed by another program; made anew");
    net.replace_interface("cubic");
    agent.says("r1: under control");
    agent.signal(libc::SIGHUP);
    agent.says("in force");
    agent.end(libc::SIGKILL);
    let mut next = talker(&net, &file);
    next.says("r2: taken over");
    assert_confined(&next, BPF | NET_ADMIN | NET_RAW);
    assert!(next.end(libc::SIGTERM).success());
    assert!(net.clocks().is_empty(), "all is released");
}

#[test]
fn attach_and_commands_for_sockets_and_ports_keep_fewer_capabilities() {
    if !is_root_or_skip("attach_and_commands_for_sockets_and_ports_keep_fewer_capabilities") {
        return;
    }
    let net = Net::create("cubic");
    let (attach, _) = attached(&net);
    assert_confined(&attach, BPF | NET_ADMIN | NET_RAW);
    let controller = Process::start(&mut net.windlass(&["controller", "--port", "/run/there-is-none.sock"]));
    controller.says("Ctrl-C ends it");
    assert_confined(&controller, DAC_OVERRIDE);
    let mut load = net.windlass(&["native", "load", "--hold", "--prefix", "wlcap_"]);
    let holder =
        Process::start_as_is(load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    holder.says("loaded");
    assert_confined(&holder, BPF | NET_ADMIN);
}

/// Root without CAP_DAC_OVERRIDE reads other users' files as any other user does.
#[test]
fn a_policy_that_an_agent_without_capabilities_cannot_read_again_is_named() {
    if !is_root_or_skip("a_policy_that_an_agent_without_capabilities_cannot_read_again_is_named") {
        return;
    }
    let net = Net::create("cubic");
    let (folder, file) = policy_for("r1");
    chown(folder.path(), Some(65534), Some(65534)).expect("root may");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("root may");
    let mut agent = talker(&net, &file);
    let complaint = agent.complains_of("will not be seen");
    assert!(complaint.contains("/etc/windlass") && complaint.contains("CAP_DAC_OVERRIDE"), "{complaint}");
    agent.says("r1: under control");
    assert!(agent.end(libc::SIGTERM).success());
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn escape_bytes_in_an_interfaces_name_are_shown_by_number() {
    if !is_root_or_skip("escape_bytes_in_an_interfaces_name_are_shown_by_number") {
        return;
    }
    const RAW: &str = "a\x1b[31mb";
    const SHOWN: &str = "a\\x1b[31mb";
    let machine = Machine::with("true");
    assert!(
        machine.run(&["ip", "link", "add", RAW, "type", "veth", "peer", "name", "other"]).status.success()
    );
    let (folder, file) = policy_for("a*");
    let mut agent = machine.agent(&file);
    agent.says(&format!("{SHOWN}: under control"));
    agent.end(libc::SIGKILL);
    agent = machine.agent(&file);
    agent.says(&format!("{SHOWN}: taken over"));
    let clock = || {
        let links = String::from_utf8(machine.run(&["ip", "-o", "link"]).stdout).expect("UTF-8");
        links.split([' ', '@']).find(|word| word.starts_with("wlc") && word.ends_with('a')).map(String::from)
    };
    assert!(machine.run(&["ip", "link", "del", &clock().expect("a clock")]).status.success());
    agent.complains_of(&format!("{SHOWN}: its clock was deleted"));
    for words in [&["counters"][..], &["flows"], &["detach"], &["detach", "no\x1bsuch"], &["doctor"]] {
        let out = machine.windlass(words);
        let said = said(&out);
        assert!(!said.contains('\x1b'), "{words:?}: {said:?}");
        assert_eq!(said.contains(SHOWN), ["counters", "detach"].contains(&words[0]), "{words:?}: {said}");
    }
    // which no longer names it
    put(folder.path(), "[[rule]]\nname = \"all\"\nmatch = { iface = \"r1\" }\nalgorithm = \"bbr\"\n");
    agent.says(&format!("{SHOWN}: released"));
    agent.end(libc::SIGTERM);
    until("the clocks are gone", || clock().is_none());
}

/// Runs `windlass` as a user of its own who has the capabilities that it takes, from a copy that any user can read.
fn operator(machine: &Machine, words: &[&str]) -> Command {
    let sets = ["inh-caps", "ambient-caps", "bounding-set"].map(|set| format!("--{set}={CAPABILITIES}"));
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    machine.command(&[&USER[..], &sets, &["/run/program"], words].concat())
}

#[test]
fn a_user_with_capabilities_attaches_runs_the_agent_and_detaches_without_root() {
    let test = "a_user_with_capabilities_attaches_runs_the_agent_and_detaches_without_root";
    if !is_root_or_skip(test) {
        return;
    }
    let program = windlass_path();
    let machine = Machine::with(&format!("cp {} /run/program && chmod 755 /run/program", program.display()));
    let text = "[[rule]]\nname = \"all\"\nmatch.iface = \"r1\"\nalgorithm = \"bbr\"\n";
    fs::write(machine.path("/run/policy.toml"), text).expect("a policy");
    let words = ["agent", "--policy", "/run/policy.toml", "--flows", "2048", "--store-mib", "32"];
    assert!(said(&machine.run(&[&USER[..], &["/run/program", "status"]].concat())).contains("CAP_PERFMON"));
    // what root has to do once the messages show
    let cured: Vec<String> = std::iter::from_fn(|| {
        let mut agent = Process::start(&mut operator(&machine, &words));
        if machine.path("/sys/fs/bpf/windlass").exists() {
            agent.says("r1: under control");
            agent.end(libc::SIGTERM);
            return None;
        }
        assert_eq!(agent.wait().code(), Some(2));
        let complaints = agent.complaints().concat();
        let cure = complaints.split('`').nth(1).expect("a cure").to_string();
        assert!(machine.run(&["sh", "-c", &cure]).status.success(), "{complaints}");
        Some(cure)
    })
    .collect();
    let [bpffs, run, pins] = &cured[..] else { panic!("{cured:?}") };
    assert!(
        bpffs.starts_with("mount")
            && run.ends_with("/run/windlass")
            && pins.ends_with("/sys/fs/bpf/windlass")
    );
    assert!(machine.run(&["chmod", "700", "/sys/fs/bpf"]).status.success());
    let hidden = said(&operator(&machine, &["status"]).output().expect("it runs"));
    assert!(hidden.contains("`chmod 711 /sys/fs/bpf`"), "{hidden}");
    assert!(machine.run(&["chmod", "711", "/sys/fs/bpf"]).status.success());

    let mut agent = Process::start(&mut operator(&machine, &words));
    agent.says("r1: taken over");
    // what it starts has them, too: it makes another clock with `ip` and `tc`
    assert!(
        machine.run(&["sh", "-c", "ip link del $(ip -br link | grep -o '^wlc[0-9]*a')"]).status.success()
    );
    agent.complains_of("its clock was deleted or changed by another program; made anew");
    agent.signal(libc::SIGHUP);
    agent.says("in force");
    for words in [&["status", "--json"][..], &["flows", "--json"], &["counters"]] {
        let out = operator(&machine, words).output().expect("it runs");
        assert!(out.status.success(), "{words:?}: {}", said(&out));
    }
    let out = operator(&machine, &["detach", "r1"]).output().expect("it runs");
    assert!(said(&out).contains("r1: released"), "{}", said(&out));
    agent.wait();
    let mut attach = Process::start(&mut operator(&machine, &["attach", "r1", "--store-mib", "32"]));
    attach.says("r1: ");
    assert!(attach.end(libc::SIGINT).success());
    assert_eq!(fs::read_dir(machine.path("/sys/fs/bpf/windlass")).expect("a folder").count(), 0);
    let links = machine.run(&["ip", "-br", "link"]);
    assert!(!said(&links).contains("wlc"), "{}", said(&links));
}

/// With the package's service, that user's are the folders of locks and pins; root's commands leave no file of root's there.
#[test]
fn commands_of_root_act_as_the_service_user() {
    if !is_root_or_skip("commands_of_root_act_as_the_service_user") {
        return;
    }
    let (program, user) = (windlass_path(), "windlass:x:65534:65534::/nonexistent:/usr/sbin/nologin");
    let machine = Machine::with(&format!(
        "cp {} /run/program && chmod 755 /run/program && echo '{user}' >/run/passwd && \
         mount --bind /run/passwd /etc/passwd && mount -t bpf -o mode=711 bpf /sys/fs/bpf && \
         install -d -m 700 -o 65534 -g 65534 /run/windlass /sys/fs/bpf/windlass",
        program.display()
    ));
    let text = "[[rule]]\nname = \"all\"\nmatch.iface = \"r1\"\nalgorithm = \"bbr\"\n";
    fs::write(machine.path("/run/policy.toml"), text).expect("a policy");
    let words = ["agent", "--policy", "/run/policy.toml", "--flows", "2048", "--store-mib", "32"];
    let mut agent = Process::start(&mut operator(&machine, &words));
    agent.says("r1: under control");
    // which reaches the agent's socket so, and needs no capability for it
    let web = Process::start(&mut machine.command(&[
        program.to_str().expect("UTF-8"),
        "web",
        "--listen",
        "127.0.0.1:0",
    ]));
    let pages = web.says("pages at http://").split(' ').nth(2).expect("an address").to_string();
    let out = machine.run(&["curl", "-s", &format!("{pages}api/v1/overview")]);
    assert!(said(&out).contains("\"interfaces\":\"r1\""), "{}", said(&out));
    let status = fs::read_to_string(format!("/proc/{}/status", web.id())).expect("a process");
    assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "{status}");
    drop(web);
    for words in
        [&["status", "--json"][..], &["flows"], &["counters"], &["native", "list"], &["detach", "r1"]]
    {
        let out = machine.windlass(words);
        assert!(out.status.success(), "{words:?}: {}", said(&out));
    }
    agent.wait();
    for entry in fs::read_dir(machine.path("/run/windlass")).expect("a folder").flatten() {
        assert_eq!(entry.metadata().expect("it is there").uid(), 65534, "{:?}", entry.path());
    }
    // a policy that only root can read, and all of it without the agent
    assert!(machine.run(&["chmod", "600", "/run/policy.toml"]).status.success());
    let out = machine.windlass(&["agent", "--policy", "/run/policy.toml", "--dry-run"]);
    assert!(said(&out).contains("r1"), "{}", said(&out));
}
