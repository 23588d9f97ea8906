//! `windlass top` and `counters --watch` whose terminal is closed, as by an ssh session that is cut, or takes no more output.

use crate::{control::with_talker, net::Net};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Child,
    ptr,
};
use windlass_tests::{
    is_root_or_skip,
    process::{until, wait},
};

/// Both ends of a new terminal: the one that shows what is drawn, and the program's.
fn terminal() -> (File, File) {
    let (mut shown, mut of_program) = (0, 0);
    let size = libc::winsize { ws_row: 30, ws_col: 140, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: all pointers are to live locals, or NULL where that is allowed.
    let opened =
        unsafe { libc::openpty(&mut shown, &mut of_program, ptr::null_mut(), ptr::null(), &raw const size) };
    assert_eq!(opened, 0, "{}", io::Error::last_os_error());
    // SAFETY: two descriptors that were just opened and that nothing else owns.
    let [shown, of_program] = [shown, of_program].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    // or the other program would keep it open
    // SAFETY: sets a flag of an open descriptor.
    unsafe { libc::fcntl(shown.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    (shown.into(), of_program.into())
}

/// What goes on until it is stopped.
const COMMANDS: [&[&str]; 2] = [&["top"], &["counters", "--watch"]];

/// One of them in a session of its own on that terminal; with `ignores_hangup` as under nohup.
fn start(net: &Net, words: &[&str], terminal: &File, ignores_hangup: bool) -> Child {
    let mut command = net.windlass(&[words, &["--interval-ms", "100"]].concat());
    let end = || terminal.try_clone().expect("a descriptor");
    command.stdin(end()).stdout(end()).stderr(end());
    // SAFETY: between fork and exec only calls that take no lock and no memory.
    unsafe {
        command.pre_exec(move || {
            if ignores_hangup {
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
            }
            let is_own = libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0;
            if is_own { Ok(()) } else { Err(io::Error::last_os_error()) }
        });
    }
    command.spawn().expect("windlass runs")
}

fn until_drawn(shown: &mut File) {
    let mut drawn = Vec::new();
    let mut block = [0; 4096];
    let is_drawn = |text: &str| text.contains("controlled") || text.contains("per second");
    while !is_drawn(&String::from_utf8_lossy(&drawn)) {
        let n = shown.read(&mut block).expect("something is drawn");
        drawn.extend(&block[..n]);
    }
}

/// Does some thread of the process wait until standard output takes something?
fn is_writing(process: &Child) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).expect("it runs");
    let call = |task: fs::DirEntry| fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
    tasks.flatten().any(|task| call(task).starts_with(&format!("{} 0x1 ", libc::SYS_write)))
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn top_and_watched_counters_end_when_their_terminal_is_closed() {
    if !is_root_or_skip("top_and_watched_counters_end_when_their_terminal_is_closed") {
        return;
    }
    let (net, _folder, _file, mut agent) = with_talker("bbr");
    for (words, ignores_hangup) in COMMANDS.into_iter().flat_map(|words| [(words, false), (words, true)]) {
        let (mut shown, of_program) = terminal();
        let mut command = start(&net, words, &of_program, ignores_hangup);
        drop(of_program);
        until_drawn(&mut shown);
        drop(shown);
        wait(&mut command, words[0]);
    }
    agent.end(libc::SIGTERM);
}

#[test]
fn top_and_watched_counters_end_by_a_signal_though_their_terminal_takes_no_more() {
    if !is_root_or_skip("top_and_watched_counters_end_by_a_signal_though_their_terminal_takes_no_more") {
        return;
    }
    let (net, _folder, _file, mut agent) = with_talker("bbr");
    for words in COMMANDS {
        let (mut shown, of_program) = terminal();
        let mut command = start(&net, words, &of_program, false);
        until_drawn(&mut shown);
        // as by Ctrl-S
        // SAFETY: an open descriptor.
        assert_eq!(unsafe { libc::tcflow(of_program.as_raw_fd(), libc::TCOOFF) }, 0);
        until("it writes", || is_writing(&command));
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(command.id() as i32, libc::SIGTERM) };
        assert!(wait(&mut command, words[0]).success());
    }
    agent.end(libc::SIGTERM);
}
