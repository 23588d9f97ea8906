//! The runs of a sweep, made anywhere and put together as the program does.

use crate::{error::of_any, interrupt::interruptible};
use pyo3::prelude::*;
use std::{path::PathBuf, sync::atomic::AtomicBool};
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
        planned(name, text, &set, seeds.as_deref()).map(Sweep).map_err(|e| of_any(py, &e))
    }

    /// How many runs it has.
    fn __len__(&self) -> usize {
        self.0.runs()
    }

    /// Makes these runs, one after the other. Returns the line of each in runs.jsonl.
    fn simulate(&self, py: Python, indexes: Vec<usize>) -> PyResult<Vec<String>> {
        let cancel = AtomicBool::new(false);
        let one = |index: usize| self.0.simulate(index, &cancel);
        interruptible(py, &cancel, || indexes.into_iter().filter_map(one).collect())
    }

    /// Puts all runs into a folder, with tables and a report. Returns what `windlass sweep --json` prints.
    fn put_together(&self, py: Python, lines: Vec<String>, out: PathBuf) -> PyResult<String> {
        let swept = py.detach(|| self.0.clone().put_together(&lines, &out));
        swept.map(|swept| swept.to_json().to_string()).map_err(|e| of_any(py, &e))
    }
}
