//! What an agent reports to a service manager.

use crate::{
    control::{policy, release},
    metrics::{address, get},
    net::Net,
};
use std::{
    os::unix::{fs::symlink, net::UnixDatagram},
    path::Path,
};
use windlass_tests::{
    is_root_or_skip,
    process::{LIMIT, Process, until},
};

/// In the place of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn listen(path: &Path) -> Manager {
        let socket = UnixDatagram::bind(path).expect("a socket");
        socket.set_read_timeout(Some(LIMIT)).expect("a socket");
        Manager(socket)
    }

    /// All notifications up to the first with these words.
    fn until(&self, words: &str) -> Vec<String> {
        let mut all = Vec::new();
        while !all.last().is_some_and(|last: &String| last.contains(words)) {
            let mut bytes = [0; 4096];
            let length = self.0.recv(&mut bytes).unwrap_or_else(|e| panic!("no '{words}': {e}; {all:?}"));
            all.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
        all
    }
}

#[test]
fn service_manager_is_notified_and_the_watchdog_only_while_the_clock_runs() {
    if !is_root_or_skip("service_manager_is_notified_and_the_watchdog_only_while_the_clock_runs") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "cubic");
    let socket = folder.path().join("notify");
    let manager = Manager::listen(&socket);
    let programs = folder.path().join("bin");
    std::fs::create_dir(&programs).expect("a writable folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("a path"));
    let words = ["agent", "--metrics", "127.0.0.1:0", "--policy", file.to_str().expect("UTF-8")];
    let mut command = net.windlass(&words);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "400000").env("PATH", path);
    let agent = Process::start(&mut command);
    let metrics = address(&agent);
    let is_ready = || get(&net, &metrics, "/readyz").0.starts_with("HTTP/1.1 200");

    let ready = manager.until("READY=1").pop().expect("it");
    assert!(ready.contains("STATUS=1 interface(s) under control\n"), "{ready}");
    assert_eq!(net.clocks().len(), 2, "it is under control");
    manager.until("WATCHDOG=1");
    assert!(is_ready());
    agent.signal(libc::SIGHUP);
    let reloading = manager.until("RELOADING=1").pop().expect("it");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    manager.until("READY=1");

    // the clock loses its shaper, and no other can be made
    symlink("/bin/false", programs.join("tc")).expect("a writable folder");
    let shaped = net.clocks().into_iter().find(|n| n.ends_with('a')).expect("its shaped end");
    net.middle.run(&["tc", "qdisc", "replace", "dev", &shaped, "root", "pfifo"]).expect("tc");
    manager.until("clock stands still: r1");
    agent.complains_of("r1 is not under control");
    let (status, why) = get(&net, &metrics, "/readyz");
    assert!(status.starts_with("HTTP/1.1 503") && why.contains("clock stands still: r1"), "{why}");
    assert!(get(&net, &metrics, "/healthz").0.starts_with("HTTP/1.1 200"), "the process answers");
    agent.signal(libc::SIGHUP);
    let meanwhile = manager.until("READY=1");
    assert!(!meanwhile.iter().any(|words| words.contains("WATCHDOG=1")), "{meanwhile:?}");

    std::fs::remove_file(programs.join("tc")).expect("it is there");
    agent.signal(libc::SIGHUP);
    manager.until("WATCHDOG=1");
    until("it is ready again", is_ready);
    agent.signal(libc::SIGTERM);
    let stopping = manager.until("STOPPING=1").pop().expect("it");
    assert!(stopping.contains("STATUS=ending: 1 interface(s) under control"), "{stopping}");
    release(&net, agent);
}
