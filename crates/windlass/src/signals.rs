//! What signals mean to the command in hand.

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

/// What someone wants of a command that goes on until told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Ctrl-C or SIGTERM; SIGHUP too, unless it means Reload.
    Stop,
    /// SIGHUP to a daemon: read the configuration again.
    Reload,
}

/// Signals from now on, as wishes; the sender is for whoever else has some. `on_hangup`: what SIGHUP means. Whoever waits
/// for wishes has something to let go of, and does so when its reader goes away, too: the same Ctrl-C ends that.
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
