//! The agent's life: killed, restarted, its policy changed, its interface deleted, all in the middle of a transfer.

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};
use windlass_lab::netns::{self, Netns};
use windlass_tests::{is_root_or_skip, windlass_path};

const PORT: u16 = 7000;
const CHUNK: usize = 64 << 10;

/// server -- box -- client over cables.
struct Net {
    server: Netns,
    middle: Netns,
    client: Netns,
}

impl Net {
    fn create() -> Net {
        let run = netns::next_run();
        let create = |host| Netns::create(run, host).expect("a namespace");
        let net = Net { server: create("server"), middle: create("box"), client: create("client") };
        for (host, subnet) in [(&net.server, 1), (&net.client, 2)] {
            let (device, own, gateway) =
                (format!("r{subnet}"), format!("10.79.{subnet}.2/24"), format!("10.79.{subnet}.1"));
            let inner = format!("{gateway}/24");
            let commands: [(&Netns, Vec<&str>); 6] = [
                (
                    host,
                    vec![
                        "ip",
                        "link",
                        "add",
                        "eth0",
                        "type",
                        "veth",
                        "peer",
                        "name",
                        &device,
                        "netns",
                        net.middle.name(),
                    ],
                ),
                (host, vec!["ip", "addr", "add", &own, "dev", "eth0"]),
                (host, vec!["ip", "link", "set", "eth0", "up"]),
                (&net.middle, vec!["ip", "addr", "add", &inner, "dev", &device]),
                (&net.middle, vec!["ip", "link", "set", &device, "up"]),
                (host, vec!["ip", "route", "add", "default", "via", &gateway, "congctl", "cubic"]),
            ];
            for (ns, words) in commands {
                ns.run(&words).expect("iproute2");
            }
        }
        net.middle.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]).expect("sysctl");
        net
    }

    fn windlass(&self, words: &[&str]) -> Command {
        let mut command = self.middle.command(windlass_path().to_str().expect("UTF-8"));
        command.args(words).stdin(Stdio::null());
        command
    }

    fn answer(&self, words: &[&str]) -> String {
        let out = self.windlass(words).output().expect("windlass runs");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Starts the agent and waits until it says `expected`.
    fn agent(&self, policy: &Path, expected: &str) -> Child {
        let mut child = self
            .windlass(&["agent", "--policy", policy.to_str().expect("UTF-8")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let said = lines.find(|l| l.as_ref().is_ok_and(|l| l.contains(expected)));
        assert!(said.is_some(), "the agent never said '{expected}'");
        // it may go on talking
        thread::spawn(move || lines.for_each(drop));
        child
    }

    fn flows(&self) -> Vec<Value> {
        let value: Value = serde_json::from_str(&self.answer(&["flows", "--json"])).expect("JSON");
        value["flows"].as_array().expect("a list").clone()
    }
}

/// The stream's byte at `offset`: any loss, gap or repetition shows.
fn pattern(offset: u64) -> u8 {
    (offset ^ offset >> 8 ^ offset >> 16) as u8
}

/// Sends from the server's namespace until told to stop; returns how much.
fn serve(net: &Net, stop_at: &AtomicU64) -> u64 {
    net.server
        .enter(|| {
            let (mut stream, _) = TcpListener::bind(("0.0.0.0", PORT))?.accept()?;
            let mut sent = 0;
            let mut block = vec![0; CHUNK];
            while sent < stop_at.load(Ordering::Relaxed) {
                for (i, byte) in block.iter_mut().enumerate() {
                    *byte = pattern(sent + i as u64);
                }
                stream.write_all(&block)?;
                sent += CHUNK as u64;
            }
            stream.shutdown(Shutdown::Write)?;
            stream.read_to_end(&mut Vec::new())?;
            Ok(sent)
        })
        .expect("the server serves")
}

/// Receives and checks every byte; returns how many.
fn fetch(net: &Net, received: &AtomicU64) -> u64 {
    net.client
        .enter(|| {
            let mut stream = loop {
                if let Ok(stream) = TcpStream::connect(("10.79.1.2", PORT)) {
                    break stream;
                }
                thread::yield_now();
            };
            let mut block = vec![0; CHUNK];
            let mut total = 0;
            loop {
                let n = stream.read(&mut block)?;
                if n == 0 {
                    return Ok(total);
                }
                for (i, byte) in block[..n].iter().enumerate() {
                    assert_eq!(*byte, pattern(total + i as u64), "byte {}", total + i as u64);
                }
                total += n as u64;
                received.store(total, Ordering::Relaxed);
            }
        })
        .expect("the client fetches")
}

/// Runs `during` while a transfer is under way; makes sure that the transfer goes on before and after each of its steps.
fn with_transfer(net: &Net, during: impl FnOnce(&dyn Fn())) {
    let stop_at = AtomicU64::new(u64::MAX);
    let received = AtomicU64::new(0);
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(net, &stop_at));
        let client = scope.spawn(|| fetch(net, &received));
        let progress = || {
            let goal = received.load(Ordering::Relaxed) + (1 << 20);
            while received.load(Ordering::Relaxed) < goal {
                assert!(!client.is_finished(), "the transfer broke off");
                thread::yield_now();
            }
        };
        progress();
        during(&progress);
        progress();
        stop_at.store(0, Ordering::Relaxed);
        let (sent, got) = (server.join().expect("served"), client.join().expect("fetched"));
        assert_eq!(sent, got);
    });
}

fn policy(folder: &Path, algorithm: &str) -> std::path::PathBuf {
    let file = folder.join("policy.toml");
    let text =
        format!("[[rule]]\nname = \"all\"\nmatch = {{ iface = \"r1\" }}\nalgorithm = \"{algorithm}\"\n");
    // renamed into place: the agent must never read half a policy
    let draft = folder.join("draft.toml");
    fs::write(&draft, text).expect("a writable folder");
    fs::rename(&draft, &file).expect("the same folder");
    file
}

fn kill(child: &mut Child, signal: i32) {
    // SAFETY: our own child, not yet waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
    child.wait().expect("it ends");
}

#[test]
fn control_survives_the_agent_and_follows_the_policy() {
    if !is_root_or_skip("control_survives_the_agent_and_follows_the_policy") {
        return;
    }
    let net = Net::create();
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let mut agent = net.agent(&file, "under control");
    with_transfer(&net, |progress| {
        let before = net.flows();
        assert_eq!(before[0]["algorithm"], "bbr", "{before:?}");
        kill(&mut agent, libc::SIGKILL);
        progress();
        assert_eq!(net.flows()[0]["mode"], "transparent");
        agent = net.agent(&file, "taken over");
        progress();
        policy(folder.path(), "cubic");
        while net.flows()[0]["algorithm"] != "cubic" {
            progress();
        }
        assert_eq!(net.flows().len(), 1, "still the same flow");
    });
    kill(&mut agent, libc::SIGTERM);
    net.answer(&["detach", "--all"]);
    let links = net.middle.run(&["ip", "-br", "link"]).expect("iproute2").stdout;
    assert!(!String::from_utf8_lossy(&links).contains("wlc"), "the clock is gone");
    let tc = net.middle.run(&["tc", "filter", "show", "dev", "r1", "ingress"]).expect("tc").stdout;
    assert!(tc.is_empty(), "{}", String::from_utf8_lossy(&tc));
}

#[test]
fn a_transfer_outlives_attach_killed_or_ended() {
    if !is_root_or_skip("a_transfer_outlives_attach_killed_or_ended") {
        return;
    }
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let net = Net::create();
        let mut attach =
            net.windlass(&["attach", "r1", "--json"]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let mut out = BufReader::new(attach.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("a line");
        assert!(line.contains("attached"), "{line}");
        with_transfer(&net, |progress| {
            kill(&mut attach, signal);
            progress();
        });
    }
}

#[test]
fn a_deleted_interface_ends_control_with_a_word() {
    if !is_root_or_skip("a_deleted_interface_ends_control_with_a_word") {
        return;
    }
    let net = Net::create();
    let mut attach = net.windlass(&["attach", "r1"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut out = BufReader::new(attach.stdout.take().expect("piped"));
    out.read_line(&mut String::new()).expect("a line");
    net.middle.run(&["ip", "link", "del", "r1"]).expect("iproute2");
    let mut said = String::new();
    out.read_to_string(&mut said).expect("its last words");
    assert!(said.contains("the interface is gone"), "{said}");
    assert!(attach.wait().expect("it ends").success());
}
