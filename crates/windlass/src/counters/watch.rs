//! `windlass counters --watch`: what is counted as it goes on, in all and per second.

use crate::{
    args::CountersArgs,
    counters::Counts,
    info::open_whole,
    print,
    signals::{self, Wish},
};
use anyhow::{Context, Result};
use ratatui::crossterm::{cursor::MoveTo, queue, terminal};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// What the interfaces of one datapath counted, as one look found it.
#[derive(Debug, Default, Serialize)]
pub struct Datapath {
    pub interfaces: Vec<String>,
    pub counters: Counts,
    /// Since the look before, of those that have changed.
    pub per_s: BTreeMap<String, f64>,
}

/// One look.
#[derive(Debug, Serialize)]
pub struct Look {
    /// Time since the watch began.
    t_ms: u64,
    pub datapaths: Vec<Datapath>,
}

/// Remembers what rates are made from.
#[derive(Debug, Default)]
pub struct Watcher {
    /// By the number of the datapath's clock: when, and what it had counted.
    last: BTreeMap<u32, (u64, Counts)>,
    /// What it had counted at the first look.
    first: BTreeMap<u32, Counts>,
    /// Show those that do not change as well.
    shows_all: bool,
}

/// Prints what `wanted` interfaces count until a signal ends it, or nothing reads it any more.
pub fn watch(args: &CountersArgs, wanted: Vec<String>) -> Result<ExitCode> {
    let (stop, wishes) = signals::wishes(Wish::Stop)?;
    signals::stop_when_closed(&io::stdout(), stop);
    let (end, ends) = channel();
    let interval = Duration::from_millis(args.interval_ms);
    let (count, as_json) = (args.count.unwrap_or(u64::MAX), args.json);
    let watcher = Watcher { shows_all: args.all, ..Watcher::default() };
    // a write to a terminal that is stopped does not return, and ends with the process
    let printing = thread::spawn(move || print_looks(watcher, &wanted, interval, count, as_json, &ends));
    signals::wait_or_stop(printing, &wishes, || {
        // it may have ended by itself
        let _ = end.send(());
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_looks(
    mut watcher: Watcher,
    wanted: &[String],
    interval: Duration,
    count: u64,
    as_json: bool,
    ends: &Receiver<()>,
) -> Result<()> {
    let begin = Instant::now();
    let mut due = begin;
    watcher.look(0, read(wanted)?);
    for _ in 0..count {
        due += interval;
        if ends.recv_timeout(due.saturating_duration_since(Instant::now())) != Err(RecvTimeoutError::Timeout)
        {
            break;
        }
        let look = watcher.look(begin.elapsed().as_micros() as u64, read(wanted)?);
        let text = if as_json { serde_json::to_string(&look)? + "\n" } else { watcher.picture(&look)? };
        match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.context("standard output")?,
        }
    }
    Ok(())
}

/// What the datapaths of these interfaces have counted, of all if none are named, by the number of their clocks.
pub fn read(wanted: &[String]) -> Result<BTreeMap<u32, Datapath>> {
    let mut all: BTreeMap<u32, Datapath> = BTreeMap::new();
    for iface in windlass_agent::pinned_here() {
        if !wanted.is_empty() && !wanted.contains(&iface) {
            continue;
        }
        let Some(pinned) = open_whole(&iface)? else { continue };
        let datapath = all.entry(pinned.clock_number()).or_default();
        if datapath.interfaces.is_empty() {
            datapath.counters = pinned.counters()?;
        }
        datapath.interfaces.push(iface);
    }
    Ok(all)
}

impl Watcher {
    /// Takes what has been counted `now_us` after the first look.
    pub fn look(&mut self, now_us: u64, datapaths: BTreeMap<u32, Datapath>) -> Look {
        let mut last = BTreeMap::new();
        let mut all = Vec::new();
        for (clock, mut datapath) in datapaths {
            let before =
                self.last.remove(&clock).filter(|(_, before)| !is_another(before, &datapath.counters));
            if let Some((at_us, before)) = &before {
                datapath.per_s = rates(before, &datapath.counters, now_us - at_us);
            } else {
                self.first.insert(clock, datapath.counters.clone());
            }
            last.insert(clock, (now_us, datapath.counters.clone()));
            all.push(datapath);
        }
        // what is gone is forgotten
        self.first.retain(|clock, _| last.contains_key(clock));
        self.last = last;
        Look { t_ms: now_us / 1000, datapaths: all }
    }

    /// The look as people read it: on a terminal one picture in the place of the other, as far as it has room.
    fn picture(&self, look: &Look) -> Result<String> {
        let mut rows = Vec::new();
        for (datapath, first) in look.datapaths.iter().zip(self.first_of_each()) {
            rows.extend(datapath.rows(first, self.shows_all));
        }
        let mut lines = print::lines_of(&["iface", "counter", "count", "per second", "meaning"], &rows);
        if rows.is_empty() {
            lines = vec![format!("nothing was counted for {} s", look.t_ms / 1000)];
        }
        let mut screen = Vec::new();
        if io::stdout().is_terminal() {
            queue!(screen, terminal::Clear(terminal::ClearType::All), MoveTo(0, 0))?;
            let room = terminal::size().map_or(usize::MAX, |(_, height)| usize::from(height)).max(4) - 2;
            if lines.len() > room {
                let left = lines.len() - room;
                lines.truncate(room);
                lines.push(format!("... and {left} more; a larger terminal, or a pipe, has them all"));
            }
        } else {
            lines.push(String::new());
        }
        Ok(String::from_utf8(screen)? + &lines.join("\n") + "\n")
    }

    /// In the order of a look's datapaths.
    fn first_of_each(&self) -> impl Iterator<Item = &Counts> {
        self.last.keys().map(|clock| &self.first[clock])
    }
}

/// Is it another datapath, since one of its counters is behind?
fn is_another(before: &Counts, now: &Counts) -> bool {
    before.iter().any(|(name, count)| now.get(name).is_none_or(|now| now < count))
}

fn rates(before: &Counts, now: &Counts, interval_us: u64) -> BTreeMap<String, f64> {
    let rate = |(name, count): (&String, &u64)| {
        let counted = count.saturating_sub(before.get(name).copied().unwrap_or(0));
        let per_s = counted as f64 * 1e6 / interval_us.max(1) as f64;
        // as exact as it is of use
        (counted > 0).then(|| (name.clone(), (per_s * 10.0).round() / 10.0))
    };
    now.iter().filter_map(rate).collect()
}

impl Datapath {
    /// Those that have counted something since the `first` look, in the order of the datapath's list.
    fn rows(&self, first: &Counts, shows_all: bool) -> Vec<Vec<String>> {
        let of = print::together(&self.interfaces);
        let row = |counter: windlass_core::Counter| {
            let count = self.counters.get(&counter.name).copied().unwrap_or(0);
            let is_shown = shows_all || count != first.get(&counter.name).copied().unwrap_or(0);
            let per_s = self.per_s.get(&counter.name).copied().unwrap_or(0.0);
            is_shown.then(|| {
                vec![
                    of.clone(),
                    counter.name.clone(),
                    count.to_string(),
                    per_second(per_s),
                    counter.meaning.into(),
                ]
            })
        };
        windlass_core::counters().into_iter().filter_map(row).collect()
    }
}

/// A rate; what is rare keeps its digit behind the point.
fn per_second(rate: f64) -> String {
    if rate > 0.0 && rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counts: &[(&str, u64)]) -> BTreeMap<u32, Datapath> {
        let counters = counts.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        BTreeMap::from([(5, Datapath { interfaces: vec!["tap0".into()], counters, ..Datapath::default() })])
    }

    #[test]
    fn watched_counters_have_rates_per_second_of_the_look_before() {
        let mut watcher = Watcher::default();
        let first = watcher.look(0, counted(&[("clock_ticks", 100), ("undos", 1)]));
        assert!(first.datapaths[0].per_s.is_empty(), "nothing to compare with yet");
        watcher.look(500_000, counted(&[("clock_ticks", 1100), ("undos", 1)]));
        let look = watcher.look(2_500_000, counted(&[("clock_ticks", 5100), ("undos", 2)]));
        let expected = [("clock_ticks".to_string(), 2000.0), ("undos".to_string(), 0.5)];
        assert_eq!((look.t_ms, &look.datapaths[0].per_s), (2500, &BTreeMap::from(expected)));
    }

    #[test]
    fn watched_counters_are_shown_once_they_have_counted() {
        let mut watcher = Watcher::default();
        watcher.look(0, counted(&[("clock_ticks", 100), ("undos", 1)]));
        let quiet = watcher.look(1_000_000, counted(&[("clock_ticks", 100), ("undos", 1)]));
        assert!(watcher.picture(&quiet).unwrap().starts_with("nothing was counted for 1 s"));
        let look = watcher.look(2_000_000, counted(&[("clock_ticks", 101), ("undos", 1)]));
        let picture = watcher.picture(&look).unwrap();
        assert!(picture.contains("clock_ticks  101    1.0") && !picture.contains("undos"), "{picture}");
        // and stay
        let look = watcher.look(3_000_000, counted(&[("clock_ticks", 101), ("undos", 1)]));
        let picture = watcher.picture(&look).unwrap();
        assert!(picture.contains("clock_ticks  101    0"), "{picture}");
        watcher.shows_all = true;
        assert!(watcher.picture(&look).unwrap().contains("undos"));
    }

    #[test]
    fn watched_counters_of_another_datapath_begin_anew() {
        let mut watcher = Watcher::default();
        watcher.look(0, counted(&[("clock_ticks", 100)]));
        let look = watcher.look(1_000_000, counted(&[("clock_ticks", 50)]));
        assert!(look.datapaths[0].per_s.is_empty(), "{look:?}");
        let look = watcher.look(2_000_000, counted(&[("clock_ticks", 60)]));
        assert_eq!(look.datapaths[0].per_s["clock_ticks"], 10.0);
        // one that was away for a look is no longer compared
        watcher.look(3_000_000, BTreeMap::new());
        assert!(watcher.look(4_000_000, counted(&[("clock_ticks", 90)])).datapaths[0].per_s.is_empty());
    }
}
