//! `windlass top`: flows as they go.

pub mod look;
mod view;

use crate::{
    args::TopArgs,
    flow_table::FlowTable,
    info,
    signals::{self, Wish},
};
use anyhow::{Context, Result, bail};
use look::{Look, Watcher};
use ratatui::{
    DefaultTerminal,
    crossterm::{
        event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
        terminal,
    },
};
use std::{
    io::{self, IsTerminal},
    mem,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};
use view::Choice;

pub fn top(args: TopArgs) -> Result<ExitCode> {
    info::controlled("looking at flows")?;
    if !args.json && !std::io::stdout().is_terminal() {
        bail!(
            "standard output is no terminal; `windlass flows` prints the flows once, `windlass top --json` again and again"
        );
    }
    let (stop, wishes) = signals::wishes(Wish::Stop)?;
    let eyes =
        Eyes { watcher: Watcher::default(), begin: Instant::now(), left: args.count.unwrap_or(u64::MAX) };
    let interval = Duration::from_millis(args.interval_ms);
    if args.json {
        return print_looks(eyes, interval, &wishes);
    }
    // a process that was started without a terminal of its own, or by nohup, gets no SIGHUP
    signals::stop_when_closed(&io::stdout(), stop);
    // restores the terminal when a thread panics, too
    let terminal = ratatui::try_init().context("preparing the terminal")?;
    show(terminal, eyes, interval, &wishes)
}

/// What the thread that draws waits for.
enum Input {
    Key(io::Result<Event>),
    End,
}

/// Draws until a key or a signal ends it, or the terminal is closed. Drawing and reading keys have threads of their own: a write to
/// a terminal that is stopped does not return, and crossterm reads from one that was closed again and again. Both end with the
/// process.
fn show(
    terminal: DefaultTerminal,
    eyes: Eyes,
    interval: Duration,
    wishes: &Receiver<Wish>,
) -> Result<ExitCode> {
    let (input, inputs) = channel();
    read_keys(input.clone());
    let drawing = thread::spawn(move || {
        let mut terminal = terminal;
        let ended = show_looks(&mut terminal, eyes, interval, &inputs);
        match ratatui::try_restore() {
            Ok(()) => drop(terminal),
            // it was closed: to drop it would show its cursor, and a failure of that has no standard error to go to
            Err(_) => mem::forget(terminal),
        }
        ended
    });
    let has_ended = signals::wait_or_stop(drawing, wishes, || {
        // it may have ended by itself
        let _ = input.send(Input::End);
    })?;
    if !has_ended {
        // this changes the terminal's settings and writes nothing
        let _ = terminal::disable_raw_mode();
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads keys until the process ends.
fn read_keys(to: Sender<Input>) {
    thread::spawn(move || {
        loop {
            let event = event::read();
            let is_over = event.is_err();
            if to.send(Input::Key(event)).is_err() || is_over {
                return;
            }
        }
    });
}

/// Looks at the flow tables, so many times.
struct Eyes {
    watcher: Watcher,
    begin: Instant,
    left: u64,
}

impl Eyes {
    /// None when enough looks have been taken.
    fn look(&mut self) -> Result<Option<Look>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let seen = FlowTable::read()?.flows;
        Ok(Some(self.watcher.look(self.begin.elapsed().as_micros() as u64, seen)))
    }
}

fn print_looks(mut eyes: Eyes, interval: Duration, wishes: &Receiver<Wish>) -> Result<ExitCode> {
    let mut due = Instant::now();
    while let Some(look) = eyes.look()? {
        println!("{}", serde_json::to_string(&look)?);
        due += interval;
        let wish = wishes.recv_timeout(due.saturating_duration_since(Instant::now()));
        if wish != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show_looks(
    terminal: &mut DefaultTerminal,
    mut eyes: Eyes,
    interval: Duration,
    inputs: &Receiver<Input>,
) -> Result<()> {
    let mut choice = Choice::default();
    let mut due = Instant::now();
    while let Some(mut look) = eyes.look()? {
        due += interval;
        loop {
            choice.order.sort(&mut look.flows);
            terminal.draw(|frame| view::draw(frame, &look, &mut choice)).context("drawing")?;
            match inputs.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Input::Key(event)) => {
                    if is_end(&event.context("the keyboard")?, &mut choice) {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
    Ok(())
}

/// Does what a key means; true when it means the end.
fn is_end(event: &Event, choice: &mut Choice) -> bool {
    let Event::Key(key) = event else { return false };
    if key.kind == KeyEventKind::Release {
        return false;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        // the terminal sends no signal while it is ours
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char('s') | KeyCode::Right => choice.order = choice.order.after(1),
        KeyCode::Left => choice.order = choice.order.after(-1),
        KeyCode::Down => choice.table.select_next(),
        KeyCode::Up => choice.table.select_previous(),
        KeyCode::PageDown => choice.table.scroll_down_by(10),
        KeyCode::PageUp => choice.table.scroll_up_by(10),
        KeyCode::Home => choice.table.select_first(),
        _ => {}
    }
    false
}
