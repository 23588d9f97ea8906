//! One run.

use crate::{algorithm::PythonAlgorithms, error::other, interrupt::interruptible, scenario::Scenario};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::{collections::BTreeMap, num::NonZeroU64};
use windlass_scenario::{Response, RunReport};
use windlass_sim::{FlowRow, LinkRow, RunOptions};

/// What stands for none in columns of whole numbers.
const NONE: u32 = u32::MAX;

/// Columns by name, each the bytes of its numbers as the processor has them.
struct Columns<'py>(Bound<'py, PyDict>);

impl<'py> Columns<'py> {
    fn new(py: Python<'py>) -> Columns<'py> {
        Columns(PyDict::new(py))
    }

    fn add<const N: usize>(&self, name: &str, numbers: impl Iterator<Item = [u8; N]>) -> PyResult<()> {
        let bytes: Vec<u8> = numbers.flatten().collect();
        self.0.set_item(name, PyBytes::new(self.0.py(), &bytes))
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn flow_columns<'py>(py: Python<'py>, rows: &[FlowRow]) -> PyResult<Bound<'py, PyDict>> {
    let columns = Columns::new(py);
    columns.add("time_s", rows.iter().map(|r| seconds(r.at_ns).to_ne_bytes()))?;
    columns.add("flow", rows.iter().map(|r| (r.flow as u32).to_ne_bytes()))?;
    let window = |of: fn(&windlass_sim::Window) -> u32| {
        rows.iter().map(move |r| r.window.as_ref().map_or(NONE, of).to_ne_bytes())
    };
    columns.add("cwnd_segs", window(|w| w.cwnd_segs))?;
    columns.add("ssthresh_segs", window(|w| w.ssthresh_segs.unwrap_or(NONE)))?;
    columns.add("inflight_segs", window(|w| w.inflight_segs))?;
    columns.add("srtt_us", window(|w| w.srtt_us.try_into().unwrap_or(NONE - 1)))?;
    columns.add("throughput_bps", rows.iter().map(|r| r.throughput_bps.to_ne_bytes()))?;
    Ok(columns.0)
}

fn link_columns<'py>(py: Python<'py>, rows: &[LinkRow]) -> PyResult<Bound<'py, PyDict>> {
    let columns = Columns::new(py);
    columns.add("time_s", rows.iter().map(|r| seconds(r.at_ns).to_ne_bytes()))?;
    columns.add("link", rows.iter().map(|r| (r.link as u32).to_ne_bytes()))?;
    columns.add("queue_packets", rows.iter().map(|r| (r.queue_packets as u32).to_ne_bytes()))?;
    columns.add("drops_tail", rows.iter().map(|r| r.drops_tail.to_ne_bytes()))?;
    columns.add("marks", rows.iter().map(|r| r.marks.to_ne_bytes()))?;
    Ok(columns.0)
}

/// Of a flow that is one response the report has no list: its times are the flow's.
fn responses(report: &RunReport) -> Vec<(u32, Response)> {
    let of_flow = |(index, flow): (usize, &windlass_scenario::FlowReport)| {
        let only = flow.completion_s.filter(|_| flow.responses.is_empty());
        let only = only.map(|took_s| Response { asked_s: flow.started_s, took_s, bytes: flow.bytes });
        flow.responses.iter().copied().chain(only).map(move |r| (index as u32, r)).collect::<Vec<_>>()
    };
    report.flows.iter().enumerate().flat_map(of_flow).collect()
}

fn response_columns<'py>(py: Python<'py>, report: &RunReport) -> PyResult<Bound<'py, PyDict>> {
    let rows = responses(report);
    let columns = Columns::new(py);
    columns.add("flow", rows.iter().map(|(flow, _)| flow.to_ne_bytes()))?;
    columns.add("asked_s", rows.iter().map(|(_, r)| r.asked_s.to_ne_bytes()))?;
    columns.add("took_s", rows.iter().map(|(_, r)| r.took_s.to_ne_bytes()))?;
    columns.add("bytes", rows.iter().map(|(_, r)| r.bytes.to_ne_bytes()))?;
    Ok(columns.0)
}

/// The report as JSON, and columns of responses and of looks at flows and links.
type Ran<'py> = (String, Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyDict>);

/// Runs a scenario. `looks_ns`: look at flows and links so often; `algorithms`: by number of a flow, what makes its algorithm.
#[pyfunction]
#[pyo3(signature = (scenario, looks_ns=None, algorithms=BTreeMap::new()))]
pub fn run<'py>(
    py: Python<'py>,
    scenario: &Scenario,
    looks_ns: Option<u64>,
    algorithms: BTreeMap<usize, Py<PyAny>>,
) -> PyResult<Ran<'py>> {
    let spec = &scenario.file.scenario;
    let outside = PythonAlgorithms::new(algorithms);
    let cancel = outside.cancel();
    let outcome = interruptible(py, cancel, || {
        let looks_ns = looks_ns.and_then(NonZeroU64::new);
        let options = RunOptions {
            looks_ns,
            cancel: Some(cancel),
            outside: outside.as_outside(),
            ..Default::default()
        };
        windlass_sim::run(spec, &options)
    })?;
    outside.check()?;
    let outcome = outcome.map_err(|e| other(py, &format!("{}: {e}", scenario.file_name())))?;
    Ok((
        outcome.report.to_json(),
        response_columns(py, &outcome.report)?,
        flow_columns(py, &outcome.flow_rows)?,
        link_columns(py, &outcome.link_rows)?,
    ))
}
