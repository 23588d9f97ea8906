//! A machine as the pages have it: a server, 10.0.0.2, behind tap0, and clients behind eth0, which the default route leaves by.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use windlass_lab::{
    Cgroup, clean_leftovers,
    netns::{self, Netns},
};
use windlass_tests::{
    process::{Process, until},
    windlass_path,
};

/// Of the tree, as a fresh shell finds it.
const FOLDERS: [&str; 3] = ["policies", "scenarios", "docs"];
/// Mounts that end with the machine: its cgroups are below its own, and what it installs is nowhere else.
const MOUNTS: &str = "mount --make-rprivate / && mount -t cgroup2 none /sys/fs/cgroup && mkdir -p /sys/fs/cgroup/web && \
    for folder in /usr/local /etc/bash_completion.d; do mkdir -p $folder && mount -t tmpfs none $folder; done && \
    mkdir -p /usr/local/bin && echo ready && exec cat";
/// Commands that go on until they are stopped, and what they print first when they are at work.
const GO_ON: [(&str, &str); 6] = [
    ("windlass attach --native", "Ctrl-C ends it"),
    ("windlass attach ", "Ctrl-C releases it"),
    ("windlass agent ", ": "),
    ("windlass controller ", "Ctrl-C ends it"),
    ("windlass counters --watch", "per second"),
    ("windlass web", "pages at "),
];

/// Names of congestion control are the whole kernel's, and cgroups of these machines have the same names.
static NATIVE: Mutex<()> = Mutex::new(());

pub struct Machine {
    /// Holds the machine's mounts and its view of cgroups; all commands run there.
    keeper: Process,
    gateway: Netns,
    client: Netns,
    _server: Netns,
    _cgroup: Cgroup,
    folder: TempDir,
    /// What goes on until it is stopped: the last of it, unless it is an agent, by the next command.
    running: Vec<(String, Process)>,
    download: Option<Process>,
    /// Held while its own sockets are controlled.
    native: Option<MutexGuard<'static, ()>>,
}

fn alone() -> MutexGuard<'static, ()> {
    NATIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This kernel has those names already; a word on why the test is skipped.
fn has_names(test: &str) -> bool {
    let _alone = alone();
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let has = known.split_whitespace().any(|name| name.starts_with("wl_"));
    if has {
        println!(
            "skipped: {test}: this kernel's sockets have the names wl_* already; `windlass native unload`"
        );
    }
    has
}

impl Machine {
    /// None after a word on why the test is skipped.
    pub fn new(test: &str) -> Option<Machine> {
        clean_leftovers();
        if has_names(test) {
            return None;
        }
        let run = netns::next_run();
        let cgroup = match Cgroup::create(run, "page") {
            Ok(cgroup) => cgroup,
            Err(why) => {
                println!("skipped: {test}: {why:#}");
                return None;
            }
        };
        let [gateway, client, server] = ["gateway", "client", "server"]
            .map(|host| Netns::create(run, host).unwrap_or_else(|why| panic!("{why:#}")));
        connect(&gateway, &client, &server);
        serve(&server);
        let folder = tempfile::tempdir().expect("a folder");
        for name in FOLDERS {
            let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
            std::os::unix::fs::symlink(tree, folder.path().join(name)).expect("a link");
        }
        let join = format!(
            "echo $$ >{}/cgroup.procs && exec unshare --mount --cgroup sh -c '{MOUNTS}'",
            cgroup.path().display()
        );
        let mut command = gateway.command("sh");
        command.args(["-c", &join]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let keeper = Process::start_as_is(&mut command);
        keeper.says("ready");
        let (running, download, native) = (Vec::new(), None, None);
        Some(Machine {
            keeper,
            gateway,
            client,
            _server: server,
            _cgroup: cgroup,
            folder,
            running,
            download,
            native,
        })
    }

    /// A shell of the machine, with the program on its PATH, that runs this.
    fn shell(&self, script: &str) -> Command {
        let program = windlass_path();
        let folder = program.parent().expect("target/<profile>").display();
        let path = format!("{folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let mut command = Command::new("nsenter");
        let namespaces = ["--mount", "--cgroup", "--net"];
        command.args(["--target", &self.keeper.id().to_string()]).args(namespaces);
        command.args(["sh", "-c", &format!("cd {} && {script}", self.folder.path().display())]);
        command.env_clear().env("PATH", path).env("HOME", "/root").env("TERM", "xterm").stdin(Stdio::null());
        command
    }

    fn output(&self, script: &str) -> Output {
        self.shell(script).output().expect("util-linux")
    }

    /// Does what the line of that page has, as a user who follows it.
    pub fn run(&mut self, page: &str, line: &str) {
        let start = Instant::now();
        self.press_ctrl_c();
        if line.contains("native") && self.native.is_none() {
            self.native = Some(alone());
        }
        if let Some((_, at_work)) = GO_ON.iter().find(|(begin, _)| is_going_on(line, begin)) {
            let mut command = self.shell(&format!("exec {line}"));
            let process = Process::start(&mut command);
            process.says(at_work);
            self.running.push((line.into(), process));
        } else {
            if line.starts_with("windlass set ") {
                self.download();
            }
            // on a terminal, on which a user ends it
            let top = line.split('#').next().unwrap_or_default().trim_end();
            let script = match line.starts_with("windlass top") {
                true => format!("printf q | script -qec '{top}' /dev/null"),
                false => line.to_string(),
            };
            let out = self.output(&script);
            let text = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes));
            assert!(out.status.success(), "{page}: `{line}`: {}\n{}{}", out.status, text[0], text[1]);
        }
        println!("{page}: {:.1} s: {line}", start.elapsed().as_secs_f32());
    }

    /// Ends what stands in the way of the next command, but for agents, which have shells of their own.
    fn press_ctrl_c(&mut self) {
        let is_ended = |(line, _): &mut (String, Process)| !line.starts_with("windlass agent ");
        for (line, mut process) in self.running.extract_if(.., is_ended) {
            assert!(process.is_running(), "{line}: ended by itself");
            assert!(process.end(libc::SIGINT).success(), "{line}");
        }
    }

    /// The connection of the page, which is controlled.
    fn download(&mut self) {
        let mut curl = self.client.command("curl");
        curl.args(["-s", "-o", "/dev/null", "--interface", "192.0.2.7", "--local-port", "40112"]);
        self.download = Some(Process::start(curl.arg("http://10.0.0.2:443/")));
        until("the connection is controlled", || {
            let out = self.output("windlass flows state controlled and dst 192.0.2.7:40112");
            String::from_utf8_lossy(&out.stdout).contains("10.0.0.2:443")
        });
    }

    /// Ends what goes on, and what is left under control.
    pub fn clean(&mut self) {
        self.press_ctrl_c();
        for (_, mut agent) in self.running.drain(..) {
            agent.end(libc::SIGTERM);
        }
        if let Some(mut download) = self.download.take() {
            download.end(libc::SIGTERM);
        }
        self.output("windlass detach --all; ip route replace default via 192.0.2.1");
        if let Some(_alone) = self.native.take() {
            // what is not there cannot be released
            self.output(
                "for cgroup in /sys/fs/cgroup /sys/fs/cgroup/web; do windlass detach --cgroup $cgroup; done; \
                 sysctl -qw net.ipv4.tcp_congestion_control=cubic; windlass native unload",
            );
        }
        let links = self.gateway.run(&["ip", "-br", "link"]).expect("iproute2").stdout;
        let links = String::from_utf8_lossy(&links).into_owned();
        assert!(!links.contains("wlc"), "a clock is left: {links}");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.running.clear();
        self.keeper.close_input();
        // its cgroup is removed once it is empty
        self.keeper.wait();
    }
}

/// Does the line begin so, and go on?
fn is_going_on(line: &str, begin: &str) -> bool {
    line.starts_with(begin) && !["--dry-run", "--count"].iter().any(|ends| line.contains(ends))
}

fn connect(gateway: &Netns, client: &Netns, server: &Netns) {
    let link = |ns: &Netns, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        ns.run(&words).unwrap_or_else(|why| panic!("{why:#}"));
    };
    link(gateway, &format!("ip link add tap0 type veth peer name eth0 netns {}", server.name()));
    link(gateway, &format!("ip link add eth0 type veth peer name eth0 netns {}", client.name()));
    for (ns, device, addresses) in [
        (gateway, "tap0", &["10.0.0.1/24"][..]),
        (gateway, "eth0", &["192.0.2.2/24"]),
        (server, "eth0", &["10.0.0.2/24"]),
        (client, "eth0", &["192.0.2.1/24", "192.0.2.7/24"]),
    ] {
        for address in addresses {
            link(ns, &format!("ip addr add {address} dev {device}"));
        }
        link(ns, &format!("ip link set {device} up"));
    }
    link(gateway, "ip route add default via 192.0.2.1");
    link(server, "ip route add default via 10.0.0.1 congctl cubic");
    link(client, "ip route add 10.0.0.0/24 via 192.0.2.2");
    link(gateway, "sysctl -qw net.ipv4.ip_forward=1");
}

/// Answers requests with a page that does not end, a little at a time.
fn serve(server: &Netns) {
    let listener = server.enter(|| Ok(TcpListener::bind("0.0.0.0:443")?)).expect("a free port");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut written = stream.read(&mut [0; 1024]).map(drop);
                written = written.and_then(|()| stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n"));
                while written.is_ok() {
                    thread::sleep(Duration::from_millis(1));
                    written = stream.write_all(&[b'x'; 1024]);
                }
            });
        }
    });
}
