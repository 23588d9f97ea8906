//! What signals mean to the command in hand.

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    io,
    os::{fd::AsRawFd, unix::process::CommandExt},
    panic,
    process::Command,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use windlass_agent::Interrupt;

/// What the user wants of a command that goes on until stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Ctrl-C or SIGTERM; SIGHUP too, unless it means Reload.
    Stop,
    /// SIGHUP to a daemon: read the configuration again.
    Reload,
    /// Network interfaces have come, gone or changed. No user's.
    Look,
}

/// Signals from now on, as wishes; the sender is for other sources of wishes. `on_hangup`: what SIGHUP means. A
/// command that waits for wishes has something to let go of, and does so when its reader goes away, too: the same
/// Ctrl-C ends that.
pub fn wishes(on_hangup: Wish) -> Result<(Sender<Wish>, Receiver<Wish>)> {
    ignore_broken_pipes();
    let (sender, receiver) = channel();
    let others = sender.clone();
    on_each(on_hangup, move |wish| sender.send(wish).is_ok())?;
    Ok((others, receiver))
}

/// Hands each signal, as what it means, to `then`, which returns whether the command still listens: without, it is stopping anyway.
fn on_each(on_hangup: Wish, then: impl Fn(Wish) -> bool + Send + 'static) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("installing the signal handler")?;
    thread::spawn(move || {
        signals.forever().map(|signal| if signal == SIGHUP { on_hangup } else { Wish::Stop }).all(then)
    });
    Ok(())
}

/// Wishes of a command that has work which can wait: it looks in between whether there is one.
pub struct Wishes {
    sender: Sender<Wish>,
    receiver: Receiver<Wish>,
    interrupt: Arc<Interrupt>,
}

impl Wishes {
    /// Signals from now on, as of [`wishes`].
    pub fn new(on_hangup: Wish) -> Result<Wishes> {
        ignore_broken_pipes();
        let (sender, receiver) = channel();
        let interrupt = Arc::new(Interrupt::default());
        let (raised, of_signals) = (interrupt.clone(), sender.clone());
        on_each(on_hangup, move |wish| {
            raised.raise();
            of_signals.send(wish).is_ok()
        })?;
        Ok(Wishes { sender, receiver, interrupt })
    }

    /// The next wish that comes within so long.
    pub fn next_within(&self, pause: Duration) -> Result<Wish, RecvTimeoutError> {
        let wish = self.receiver.recv_timeout(pause)?;
        if wish != Wish::Look {
            self.interrupt.clear();
        }
        Ok(wish)
    }

    /// For wishes that can wait until work in hand is done.
    pub fn sender(&self) -> Sender<Wish> {
        self.sender.clone()
    }

    /// Is raised while there is one.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

/// Waits for a wish without keeping the thread from other work.
pub async fn stopped(wishes: Receiver<Wish>) {
    let (sender, stop) = tokio::sync::oneshot::channel();
    // the thread ends with the command
    thread::spawn(move || {
        let _ = wishes.recv();
        let _ = sender.send(());
    });
    let _ = stop.await;
}

/// How soon the end of work is noticed.
const PATIENCE: Duration = Duration::from_millis(100);
/// A terminal that takes no more output, as one that is stopped, is left as it is after so long.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Waits for work that a thread does until it is done, or there is a wish: then `stop` is called, and the work, which may wait for
/// ever until its output is taken, has a moment to end. Returns whether it has ended.
pub fn wait_or_stop(
    work: JoinHandle<Result<()>>,
    wishes: &Receiver<Wish>,
    stop: impl FnOnce(),
) -> Result<bool> {
    while !work.is_finished() {
        if wishes.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            continue;
        }
        stop();
        let end = Instant::now() + LAST_OUTPUT;
        while !work.is_finished() {
            if Instant::now() >= end {
                return Ok(false);
            }
            thread::sleep(PATIENCE / 10);
        }
        return Ok(true);
    }
    work.join().unwrap_or_else(|cause| panic::resume_unwind(cause))?;
    Ok(true)
}

/// Printing to a reader that went away fails from now on, and ends nothing.
pub fn ignore_broken_pipes() {
    // SAFETY: ignores one signal; printing then fails, and children begin with its default action.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Has the command that is about to be started end with the thread that starts it, as when this process is killed.
pub fn stop_with_parent(command: &mut Command) {
    let ends_with_parent = || {
        // SAFETY: an attribute of the process that calls; nothing is allocated.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: what runs between fork and exec is one system call.
    unsafe { command.pre_exec(ends_with_parent) };
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
