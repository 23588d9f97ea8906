//! The runs of a sweep, made anywhere and put together as the program does.

use crate::{error::of_any, interrupt::interruptible};
use pyo3::prelude::*;
use std::{
    panic,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};
use windlass_experiments::{Home, Seeds, Varied};

/// A scenario with every combination of some values, several seeds each.
#[pyclass(frozen, module = "windlass._windlass")]
pub struct Sweep(windlass_experiments::Sweep);

fn parsed<T: std::str::FromStr<Err = String>>(option: &str, text: &str) -> anyhow::Result<T> {
    text.parse().map_err(|why| anyhow::anyhow!("{option} {text}: {why}"))
}

fn planned(
    name: String,
    text: &str,
    set: &[String],
    seeds: Option<&str>,
) -> anyhow::Result<windlass_experiments::Sweep> {
    let varied: anyhow::Result<Vec<Varied>> = set.iter().map(|text| parsed("--set", text)).collect();
    let seeds: Option<Seeds> = seeds.map(|text| parsed("--seeds", text)).transpose()?;
    windlass_experiments::Sweep::of_text(name, text, varied?, seeds, Home::Sim)
}

#[pymethods]
impl Sweep {
    /// `set` and `seeds` as the program's options have them.
    #[new]
    fn new(py: Python, name: String, text: &str, set: Vec<String>, seeds: Option<String>) -> PyResult<Sweep> {
        let sweep = py.detach(|| planned(name, text, &set, seeds.as_deref()));
        sweep.map(Sweep).map_err(|e| of_any(py, &e))
    }

    /// How many runs it has.
    fn __len__(&self) -> usize {
        self.0.runs()
    }

    /// Makes these runs, so many at once. Returns the line of each in runs.jsonl, in their order.
    #[pyo3(signature = (indexes, at_once=1))]
    fn simulate(&self, py: Python, indexes: Vec<usize>, at_once: usize) -> PyResult<Vec<String>> {
        let (cancel, next) = (AtomicBool::new(false), AtomicUsize::new(0));
        let work = || {
            let mut lines = Vec::new();
            while let Some(place) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|p| *p < indexes.len())
                && let Some(line) = self.0.simulate(indexes[place], &cancel)
            {
                lines.push((place, line));
            }
            lines
        };
        let mut lines = interruptible(py, &cancel, || {
            thread::scope(|scope| {
                let others: Vec<_> = (1..at_once).map(|_| scope.spawn(work)).collect();
                let mut lines = work();
                for other in others {
                    lines.extend(other.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
                }
                lines
            })
        })?;
        lines.sort_by_key(|(place, _)| *place);
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }

    /// Puts all runs into a folder, with tables and a report. Returns what `windlass sweep --json` prints.
    fn put_together(&self, py: Python, lines: Vec<String>, out: PathBuf) -> PyResult<String> {
        let swept = py.detach(|| self.0.clone().put_together(&lines, &out));
        swept.map(|swept| swept.to_json().to_string()).map_err(|e| of_any(py, &e))
    }
}
