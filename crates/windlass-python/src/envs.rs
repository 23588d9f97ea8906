//! Many simulations in steps of virtual time, on the threads that own them: what the environments of `windlass.env` consist of.

use crate::{error::other, owned::OwnedStepping, scenario::Scenario};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};
use std::{
    iter::repeat_n,
    sync::mpsc::{self, Sender},
    thread,
};
use windlass_sim::FlowState;

/// Numbers that an observation has for each flow; their names are in `windlass.env.OBSERVATION`.
const NUMBERS: usize = 17;
/// Numbers that an action has for each flow: window in bytes and rate in bytes a second; NaN: as it is.
const ACTIONS: usize = 2;
/// ssthresh as ns3-gym has it before there is one.
const NO_THRESHOLD: f64 = u32::MAX as f64;

/// What is known of a flow from the look before.
#[derive(Clone, Copy, Default)]
struct Before {
    sent_bytes: u64,
    arrived_bytes: u64,
    timeouts: u64,
    rtt_us: f64,
}

/// A simulation, and how far it is.
struct Slot {
    stepping: OwnedStepping,
    now_ns: u64,
    looked_ns: u64,
    is_over: bool,
    before: Vec<Before>,
}

/// What a flow's look gives.
struct Seen {
    numbers: [f64; NUMBERS],
    is_over: bool,
}

fn observation(state: &FlowState, before: &mut Before, now_ns: u64, length_ns: u64) -> [f64; NUMBERS] {
    let FlowState { tally, .. } = state;
    let sent_bytes = (state.sent_bytes - before.sent_bytes) as f64;
    let arrived_bytes = state.arrived_bytes.saturating_sub(before.arrived_bytes) as f64;
    let timeouts = (state.timeouts - before.timeouts) as f64;
    let known_us = if before.rtt_us > 0.0 { before.rtt_us } else { state.srtt_us as f64 };
    let rtt_us = tally.mean_rtt_us().unwrap_or(known_us);
    let (delivered_bytes, mss_bytes) = (tally.delivered_bytes as f64, f64::from(state.mss_bytes));
    let (sent_at_least, min_rtt_us) = (delivered_bytes.max(mss_bytes), state.min_rtt_us as f64);
    *before = Before {
        sent_bytes: state.sent_bytes,
        arrived_bytes: state.arrived_bytes,
        timeouts: state.timeouts,
        rtt_us,
    };
    [
        now_ns as f64 / 1e3,
        state.ssthresh_bytes.map_or(NO_THRESHOLD, f64::from),
        f64::from(state.cwnd_bytes),
        mss_bytes,
        f64::from(state.inflight_bytes),
        (delivered_bytes / mss_bytes).round(),
        rtt_us,
        min_rtt_us,
        arrived_bytes * 8e9 / length_ns.max(1) as f64,
        state.pacing_bytes_ps.map_or(0.0, |rate| 8.0 * rate as f64),
        sent_bytes,
        tally.lost_bytes as f64,
        tally.ce_bytes as f64,
        timeouts,
        tally.rtt_slope(),
        if min_rtt_us > 0.0 { rtt_us / min_rtt_us } else { 1.0 },
        sent_bytes / sent_at_least,
    ]
}

impl Slot {
    /// At its first decision: the first of its flows is established.
    fn new(plan: &Plan, scenario: windlass_scenario::Scenario) -> Result<Slot, String> {
        let limit_ns = scenario.time_limit.ns();
        let stepping = OwnedStepping::new(scenario, &plan.flows).map_err(|e| e.to_string())?;
        let before = vec![Before::default(); plan.flows.len()];
        let mut slot = Slot { stepping, now_ns: 0, looked_ns: 0, is_over: false, before };
        while !slot.is_over && slot.now_ns < limit_ns {
            slot.step(plan.step_ns);
            if plan.flows.iter().any(|flow| slot.stepping.is_established(*flow)) {
                break;
            }
        }
        Ok(slot)
    }

    fn step(&mut self, step_ns: u64) {
        self.now_ns += step_ns;
        self.is_over = self.is_over || self.stepping.step_to(self.now_ns);
    }

    fn act(&mut self, plan: &Plan, actions: &[f64]) {
        for (flow, action) in plan.flows.iter().zip(actions.chunks_exact(ACTIONS)) {
            let number = |n: f64| (!n.is_nan()).then(|| n.max(0.0));
            let (cwnd_bytes, rate) = (number(action[0]), number(action[1]));
            if cwnd_bytes.is_some() || rate.is_some() {
                // casts saturate
                let (cwnd_bytes, rate) = (cwnd_bytes.map(|b| b as u32), rate.map(|r| (r as u64).max(1)));
                self.stepping.hold(*flow, self.now_ns, cwnd_bytes, rate);
            }
        }
    }

    fn see(&mut self, plan: &Plan) -> Vec<Seen> {
        let (now_ns, length_ns) = (self.now_ns, self.now_ns - self.looked_ns);
        self.looked_ns = now_ns;
        let seen = |(flow, before): (&usize, &mut Before)| match self.stepping.flow(*flow) {
            Some(state) => {
                Seen { numbers: observation(&state, before, now_ns, length_ns), is_over: state.is_over }
            }
            None => Seen { numbers: [0.0; NUMBERS], is_over: true },
        };
        plan.flows.iter().zip(&mut self.before).map(seen).collect()
    }
}

/// What all simulations have in common.
#[derive(Clone)]
struct Plan {
    flows: Vec<usize>,
    step_ns: u64,
}

/// What a thread does with its simulations.
type Work = Box<dyn FnOnce(&mut Vec<Option<Slot>>) + Send>;

/// Simulations in steps of virtual time. Where a thread has simulation `i`, number `i / threads` of its own.
#[pyclass(frozen, module = "windlass._windlass")]
pub struct Envs {
    scenario: Py<Scenario>,
    plan: Plan,
    count: usize,
    threads: Vec<Sender<Work>>,
}

/// A simulation's look: its number, each flow's, and whether the run is over.
type Looked = (usize, Vec<Seen>, bool);

impl Envs {
    /// Has each thread do its part for each of its simulations among `indexes`; returns what each gives, in no order.
    fn each<T: Send + 'static>(
        &self,
        indexes: &[usize],
        part: impl FnMut(usize, &mut Option<Slot>) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let (results, all) = mpsc::channel();
        for (number, thread) in self.threads.iter().enumerate() {
            let threads = self.threads.len();
            let own: Vec<usize> = indexes.iter().copied().filter(|index| index % threads == number).collect();
            let (results, mut part) = (results.clone(), part.clone());
            let work: Work = Box::new(move |slots| {
                for index in own {
                    // the caller is gone if it does not listen any more
                    let _ = results.send(part(index, &mut slots[index / threads]));
                }
            });
            thread.send(work).expect("the thread waits for work");
        }
        drop(results);
        all.into_iter().collect()
    }

    fn in_order<'py>(
        &self,
        py: Python<'py>,
        indexes: &[usize],
        mut looks: Vec<Looked>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        if looks.len() != indexes.len() {
            return Err(other(py, "a thread of the simulator has failed"));
        }
        looks.sort_by_key(|(index, ..)| *index);
        let numbers = looks.iter().flat_map(|(_, seen, _)| seen).flat_map(|s| s.numbers);
        let numbers: Vec<u8> = numbers.flat_map(f64::to_ne_bytes).collect();
        let flows: Vec<u8> =
            looks.iter().flat_map(|(_, seen, _)| seen).map(|s| u8::from(s.is_over)).collect();
        let runs: Vec<u8> = looks.iter().map(|(.., is_over)| u8::from(*is_over)).collect();
        Ok((PyBytes::new(py, &numbers), PyBytes::new(py, &flows), PyBytes::new(py, &runs)))
    }

    fn check(&self, indexes: &[usize]) -> PyResult<()> {
        match indexes.windows(2).all(|pair| pair[0] < pair[1])
            && indexes.last().is_none_or(|i| *i < self.count)
        {
            true => Ok(()),
            false => Err(PyValueError::new_err("simulations: numbers in order, each once")),
        }
    }
}

#[pymethods]
impl Envs {
    /// `count` simulations of a scenario, of which these flows are observed and set every `step_ns`.
    #[new]
    fn new(
        py: Python,
        scenario: Py<Scenario>,
        count: usize,
        flows: Vec<usize>,
        step_ns: u64,
        threads: usize,
    ) -> PyResult<Envs> {
        let known = scenario.get().file.scenario.flows.len();
        if step_ns == 0 || count == 0 || flows.is_empty() || flows.iter().any(|flow| *flow >= known) {
            return Err(PyValueError::new_err(format!(
                "at least one simulation, a step of more than 0, and flows by number, below {known}"
            )));
        }
        let check = |flow: &usize| windlass_sim::check_window(&scenario.get().file.scenario, *flow);
        flows.iter().try_for_each(check).map_err(|e| other(py, &e.to_string()))?;
        let threads = threads.clamp(1, count);
        let begin = |number: usize| {
            let (work, to_do) = mpsc::channel::<Work>();
            let own = (number..count).step_by(threads).count();
            thread::Builder::new().name("windlass".into()).spawn(move || {
                let mut slots: Vec<Option<Slot>> = (0..own).map(|_| None).collect();
                to_do.into_iter().for_each(|work| work(&mut slots));
            })?;
            Ok(work)
        };
        let threads = (0..threads).map(begin).collect::<std::io::Result<_>>()?;
        Ok(Envs { scenario, plan: Plan { flows, step_ns }, count, threads })
    }

    /// Begins these simulations anew, each with its seed. Returns numbers of their flows, whether each flow is over, and whether
    /// each run is.
    fn reset<'py>(
        &self,
        py: Python<'py>,
        indexes: Vec<usize>,
        seeds: Vec<u64>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        self.check(&indexes)?;
        if seeds.len() != indexes.len() {
            return Err(PyValueError::new_err("a seed for each simulation"));
        }
        let file = self.scenario.get().file.clone();
        let plan = self.plan.clone();
        let seed_of: std::collections::BTreeMap<usize, u64> = indexes.iter().copied().zip(seeds).collect();
        let begin = move |index: usize, place: &mut Option<Slot>| {
            let file = file.clone().with_seed(seed_of[&index]).map_err(|e| e.to_string())?;
            *place = None;
            let slot = place.insert(Slot::new(&plan, file.scenario)?);
            Ok((index, slot.see(&plan), slot.is_over))
        };
        let looks = py.detach(|| self.each(&indexes, begin));
        let looks = looks.into_iter().collect::<Result<Vec<Looked>, String>>().map_err(|e| other(py, &e))?;
        self.in_order(py, &indexes, looks)
    }

    /// Sets these simulations' flows, and has each go on for a step. `actions`: for each flow, window in bytes and rate in bytes a
    /// second; NaN: as it is.
    fn step<'py>(
        &self,
        py: Python<'py>,
        indexes: Vec<usize>,
        actions: &[u8],
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        self.check(&indexes)?;
        let of_each = self.plan.flows.len() * ACTIONS;
        if actions.len() != indexes.len() * of_each * size_of::<f64>() {
            return Err(PyValueError::new_err("actions: two numbers for each flow of each simulation"));
        }
        let number = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let numbers: Vec<f64> = actions.chunks_exact(size_of::<f64>()).map(number).collect();
        let places: std::collections::BTreeMap<usize, usize> = indexes.iter().copied().zip(0..).collect();
        let plan = self.plan.clone();
        let work = move |index: usize, place: &mut Option<Slot>| match place {
            Some(slot) => {
                let begin = places[&index] * of_each;
                if !slot.is_over {
                    slot.act(&plan, &numbers[begin..begin + of_each]);
                    slot.step(plan.step_ns);
                }
                (index, slot.see(&plan), slot.is_over)
            }
            None => {
                let nothing = || Seen { numbers: [0.0; NUMBERS], is_over: true };
                (index, repeat_n((), plan.flows.len()).map(|()| nothing()).collect(), true)
            }
        };
        let looks = py.detach(|| self.each(&indexes, work));
        self.in_order(py, &indexes, looks)
    }

    /// Has a simulation go on to its end as it is, and ends it. Returns its report as JSON; None: it had been ended.
    fn finish(&self, py: Python, index: usize) -> PyResult<Option<String>> {
        self.check(&[index])?;
        let end = |_: usize, place: &mut Option<Slot>| {
            place.as_mut().and_then(|slot| slot.stepping.finish()).map(|report| report.to_json())
        };
        Ok(py.detach(|| self.each(&[index], end)).pop().flatten())
    }
}
