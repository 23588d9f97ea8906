//! `windlass top`: flows as they go.

mod look;
mod view;

use crate::{
    args::TopArgs,
    info,
    signals::{self, Wish},
};
use anyhow::{Context, Result, bail};
use look::{Look, Watcher};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
};
use std::{
    io::IsTerminal,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};
use view::Choice;

/// How soon a signal is noticed while no key is pressed.
const PATIENCE: Duration = Duration::from_millis(100);

pub fn top(args: TopArgs) -> Result<ExitCode> {
    info::controlled("looking at flows")?;
    if !args.json && !std::io::stdout().is_terminal() {
        bail!(
            "standard output is no terminal; `windlass flows` prints the flows once, `windlass top --json` again and again"
        );
    }
    let (_, wishes) = signals::wishes(Wish::Stop)?;
    let eyes =
        Eyes { watcher: Watcher::default(), begin: Instant::now(), left: args.count.unwrap_or(u64::MAX) };
    let interval = Duration::from_millis(args.interval_ms);
    if args.json {
        return print_looks(eyes, interval, &wishes);
    }
    // restores the terminal when this thread panics, too
    let mut terminal = ratatui::try_init().context("preparing the terminal")?;
    let ended = show_looks(&mut terminal, eyes, interval, &wishes);
    ratatui::restore();
    ended
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
        let mut seen = Vec::new();
        for iface in windlass_agent::pinned_here() {
            let Some(pinned) = info::open_whole(&iface)? else { continue };
            let names = pinned.rule_names();
            for flow in pinned.flows()? {
                let name = match flow.mode {
                    // no rule matches it, or one requires that
                    "off" => "(off)".into(),
                    _ => names
                        .get(flow.rule as usize)
                        .cloned()
                        .unwrap_or_else(|| format!("rule {}", flow.rule)),
                };
                seen.push((iface.clone(), name, flow));
            }
        }
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
    wishes: &Receiver<Wish>,
) -> Result<ExitCode> {
    let mut choice = Choice::default();
    let mut due = Instant::now();
    while let Some(mut look) = eyes.look()? {
        due += interval;
        loop {
            choice.order.sort(&mut look.flows);
            terminal.draw(|frame| view::draw(frame, &look, &mut choice)).context("drawing")?;
            let left = due.saturating_duration_since(Instant::now());
            if wishes.try_recv().is_ok() {
                return Ok(ExitCode::SUCCESS);
            }
            if left.is_zero() {
                break;
            }
            if event::poll(left.min(PATIENCE)).context("the keyboard")?
                && is_end(&event::read().context("the keyboard")?, &mut choice)
            {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
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
