//! What signals mean to the command in hand.

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    io,
    os::fd::AsRawFd,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

/// What the user wants of a command that goes on until stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Ctrl-C or SIGTERM; SIGHUP too, unless it means Reload.
    Stop,
    /// SIGHUP to a daemon: read the configuration again.
    Reload,
}

/// Signals from now on, as wishes; the sender is for other sources of wishes. `on_hangup`: what SIGHUP means. A
/// command that waits for wishes has something to let go of, and does so when its reader goes away, too: the same
/// Ctrl-C ends that.
pub fn wishes(on_hangup: Wish) -> Result<(Sender<Wish>, Receiver<Wish>)> {
    // SAFETY: ignores one signal; printing then fails, and children begin with its default action.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let (sender, receiver) = channel();
    let others = sender.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("installing the signal handler")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let wish = if signal == SIGHUP { on_hangup } else { Wish::Stop };
            if sender.send(wish).is_err() {
                // nobody listens any more: we are stopping anyway
                return;
            }
        }
    });
    Ok((others, receiver))
}

/// Wishes for the end once the other end of `stream`, standard input or output, is closed: a process that started
/// this command through a pipe and was killed would otherwise leave it behind, and so would a terminal that is closed, as by an ssh
/// session that is cut, where SIGHUP is ignored. Files have no other end.
pub fn stop_when_closed(stream: &impl AsRawFd, stop: Sender<Wish>) {
    // no event is requested: an error or the other end's closing is reported all the same
    let mut end = libc::pollfd { fd: stream.as_raw_fd(), events: 0, revents: 0 };
    thread::spawn(move || {
        // SAFETY: one entry, which lives as long as the call.
        while unsafe { libc::poll(&raw mut end, 1, -1) } < 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
        // nobody listens any more: we are stopping anyway
        let _ = stop.send(Wish::Stop);
    });
}
