//! Guests without virtual machines: each a network namespace and a cgroup of its own, behind one bottleneck, with an
//! agent of its own whose port is a socket.

use crate::relay::Relay;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use windlass_lab::{Family, Topology, netns::Netns};
use windlass_scenario::Scenario;
use windlass_tests::{
    process::{Process, until},
    streams::{Stream, fetch},
    windlass,
};

const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS: usize = 64;

/// A cgroup of its own, below the root of version 2.
struct Cgroup(PathBuf);

impl Cgroup {
    fn create(name: &str) -> Cgroup {
        let root = windlass_agent::root_cgroup().expect("checked before");
        let folder = root.join(format!("windlass-guests-{}-{name}", std::process::id()));
        fs::create_dir(&folder).expect("a cgroup");
        Cgroup(folder)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(5);
        // its last process may still be on the way out
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            thread::yield_now();
        }
    }
}

/// One guest: what serves in it, and its port.
pub struct Guest {
    nginx: Child,
    pub relay: Relay,
    cgroup: Cgroup,
    letter: char,
}

impl Guest {
    /// Starts the agent; returns when it has reported so.
    pub fn agent(&self, algorithm: &str) -> Process {
        let prefix = self.prefix();
        let cgroup = self.cgroup.0.to_str().expect("UTF-8");
        let process = Process::start(windlass().args([
            "guest",
            "--port",
            self.relay.guest_path(),
            "--alg",
            algorithm,
            "--cgroup",
            cgroup,
            "--prefix",
            &prefix,
            "--json",
            "--sample-ms",
            "50",
        ]));
        process.event("attached");
        process
    }

    /// What the names of its congestion controls begin with.
    pub fn prefix(&self) -> String {
        format!("{}{:x}_", self.letter, std::process::id())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.nginx.id() as i32, libc::SIGTERM) };
        let _ = self.nginx.wait();
    }
}

/// Guests, a bottleneck, and a client behind it.
pub struct Site {
    // before the network that they use
    pub guests: Vec<Guest>,
    topology: Topology,
    folder: TempDir,
    block: Arc<Vec<u8>>,
}

fn block() -> Vec<u8> {
    // any bytes do, as long as those of different places differ
    (0..BLOCK_BYTES as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

impl Site {
    /// `letter`: of the names of congestion controls, which are the same in all namespaces.
    pub fn create(letter: char, link: &str, guests: usize, algorithm: &str) -> Site {
        let mut text = "name = \"guests\"\n[[host]]\nname = \"box\"\n[[host]]\nname = \"client\"\n\
             [[link]]\nbetween = [\"box\", \"client\"]\n"
            .to_string()
            + link;
        for n in 0..guests {
            text += &format!(
                "\n[[host]]\nname = \"vm{n}\"\n[[link]]\nbetween = [\"vm{n}\", \"box\"]\n\
                 [[flow]]\nfrom = \"vm{n}\"\nto = \"client\"\nsize = \"1 MB\"\nalgorithm = \"{algorithm}\"\n"
            );
        }
        let scenario = Scenario::parse("guests", &text).expect("a sound scenario");
        let topology = Topology::create(&scenario, 0, Family::V4).expect("a network");
        let folder = tempfile::tempdir().expect("a folder");
        let block = block();
        fs::write(folder.path().join("block"), &block).expect("a writable folder");
        fs::write(folder.path().join("payload"), block.repeat(BLOCKS)).expect("a writable folder");
        // nginx' workers are not root
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("our own folder");
        let mut site = Site { guests: Vec::new(), topology, folder, block: Arc::new(block) };
        for n in 0..guests {
            let letter = char::from_u32(letter as u32 + n as u32).expect("ASCII");
            let guest = site.guest(n, letter);
            site.guests.push(guest);
        }
        site
    }

    fn guest(&self, n: usize, letter: char) -> Guest {
        let name = format!("vm{n}");
        let host = self.topology.host(&name);
        let cgroup = Cgroup::create(&format!("{letter}{n}"));
        let nginx = nginx(host, self.folder.path(), &name, &cgroup.0);
        let guest = Guest { nginx, relay: Relay::start(self.folder.path(), &name), cgroup, letter };
        until(&format!("{name} serves"), || fetch(self.client(), &self.address(n), "/block").is_ok());
        guest
    }

    fn address(&self, n: usize) -> String {
        format!("{}:80", self.topology.address_of(&format!("vm{n}")))
    }

    fn client(&self) -> &Netns {
        self.topology.host("client")
    }

    /// Downloads from guest `n`.
    pub fn streams(&self, n: usize, count: usize) -> Vec<Stream> {
        let start = |_| Stream::start(self.client(), &self.address(n), "/payload", self.block.clone());
        (0..count).map(start).collect::<Result<_, _>>().expect("the guest serves")
    }

    /// Starts the agents of all guests; they are coupled.
    pub fn coupled_agents(&self, algorithm: &str) -> Vec<Process> {
        let agents: Vec<Process> = self.guests.iter().map(|g| g.agent(algorithm)).collect();
        agents.iter().for_each(|a| drop(a.event("coupled")));
        agents
    }

    /// Congestion control in use by the guest's connections.
    pub fn in_use(&self, n: usize) -> String {
        let host = self.topology.host(&format!("vm{n}"));
        let out = host.run(&["ss", "-tinH", "state", "established"]).expect("iproute2");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Writes the file of all guests.
    pub fn list_guests(&self, weights: &[u32]) -> PathBuf {
        let guest =
            |(g, w): (&Guest, &u32)| format!("[[guest]]\nport = \"{}\"\nweight = {w}\n", g.relay.host_path());
        let text: String = self.guests.iter().zip(weights).map(guest).collect();
        let (file, fresh) = (self.folder.path().join("guests.toml"), self.folder.path().join("guests.new"));
        // as editors do: at no time is there half a file
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &file)).expect("a writable folder");
        file
    }

    /// Starts the controller with that file.
    pub fn controller_of(&self, file: &Path) -> Process {
        let words = ["controller", "--json", "--sample-ms", "100", "--guests"];
        let process = Process::start(windlass().args(words).arg(file));
        process.event("started");
        process
    }

    /// Starts the controller for all guests.
    pub fn controller(&self, weights: &[u32]) -> Process {
        self.controller_with(&[], weights)
    }

    /// As [`Site::controller`], with more options.
    pub fn controller_with(&self, options: &[&str], weights: &[u32]) -> Process {
        let ports = self
            .guests
            .iter()
            .zip(weights)
            .map(|(g, w)| format!("--port={},weight={w}", g.relay.host_path()));
        let words = ["controller", "--json", "--sample-ms", "100"];
        let process = Process::start(windlass().args(words).args(options).args(ports));
        process.event("started");
        process
    }
}

fn nginx(host: &Netns, folder: &Path, name: &str, cgroup: &Path) -> Child {
    let at = folder.join(name);
    fs::create_dir(&at).expect("a writable folder");
    let (at, root) = (at.display(), folder.display());
    let conf = format!(
        "daemon off; worker_processes 1; pid {at}/pid; error_log {at}/log;\nevents {{ worker_connections 1024; }}\n\
         http {{ access_log off; sendfile on; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s; server {{ listen 80; root {root}; }} }}\n"
    );
    let file = folder.join(name).join("conf");
    fs::write(&file, conf).expect("a writable folder");
    let mut command: Command = host.command("sh");
    command.arg("-c").arg("echo $$ > \"$0\"/cgroup.procs && exec nginx -c \"$1\" -p \"$2\"");
    command.arg(cgroup).arg(&file).arg(folder.join(name)).stdin(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("nginx")
}
