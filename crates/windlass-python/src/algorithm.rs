//! Congestion control in Python: the hooks of the core, called for each ACK.

use pyo3::prelude::*;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use windlass_sim::{
    Algorithm, CongestionControl, Outside,
    abi::{WL_CWND_MAX_BYTES, WL_RATE_UNLIMITED, wl_alg_params, wl_decision, wl_sample},
};

/// What one ACK or timer reports; `struct wl_sample` of core/abi.h has what each number means.
#[pyclass(frozen, module = "windlass._windlass")]
pub struct Sample(wl_sample);

macro_rules! sample {
    ($($field:ident: $type:ty,)*) => {
        #[pymethods]
        impl Sample {
            $(#[getter]
            fn $field(&self) -> $type {
                self.0.$field as $type
            })*

            /// Whether the rate was sampled while the sender had too little to send.
            #[getter]
            fn is_app_limited(&self) -> bool {
                self.0.is_app_limited != 0
            }

            /// Whether the window limited sending during the last round.
            #[getter]
            fn is_cwnd_limited(&self) -> bool {
                self.0.is_cwnd_limited != 0
            }

            /// Whether losses are being repaired.
            #[getter]
            fn is_in_recovery(&self) -> bool {
                self.0.is_in_recovery != 0
            }
        }
    };
}

sample! {
    now_us: u32,
    mss_bytes: u32,
    acked_bytes: u32,
    newly_delivered_bytes: u32,
    lost_bytes: u32,
    ce_bytes: u32,
    rtt_us: u32,
    srtt_us: u32,
    min_rtt_us: u32,
    rate_delivered_bytes: u32,
    rate_interval_us: u32,
    delivered_bytes: u32,
    prior_delivered_bytes: u32,
    inflight_before_bytes: u32,
    inflight_bytes: u32,
    round_count: u32,
    events: u32,
    random: u32,
}

/// What an algorithm decides. A hook finds its last decision here and changes what it wants.
#[pyclass(get_all, set_all, module = "windlass._windlass")]
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// Congestion window.
    cwnd_bytes: u32,
    /// Slow start threshold; None: not yet known.
    ssthresh_bytes: Option<u32>,
    /// Rate at which bytes leave; None: the algorithm does not pace.
    pacing_bytes_ps: Option<u64>,
    /// When on_timer() is to be called, as Sample.now_us; None: it is not.
    wake_at_us: Option<u32>,
    /// Nothing new may be sent, whatever the window.
    is_held: bool,
}

/// The C literal ~0ULL comes out of bindgen as -1.
const UNLIMITED: u64 = WL_RATE_UNLIMITED as u64;

impl Decision {
    fn of(d: &wl_decision) -> Decision {
        Decision {
            cwnd_bytes: d.cwnd_bytes,
            ssthresh_bytes: Some(d.ssthresh_bytes).filter(|bytes| *bytes < WL_CWND_MAX_BYTES),
            pacing_bytes_ps: Some(d.pacing_bytes_ps).filter(|rate| *rate != UNLIMITED),
            wake_at_us: (d.has_wake != 0).then_some(d.wake_at_us),
            is_held: d.is_held != 0,
        }
    }

    fn put(&self, d: &mut wl_decision, mss_bytes: u32) {
        d.cwnd_bytes = self.cwnd_bytes.clamp(mss_bytes, WL_CWND_MAX_BYTES);
        d.ssthresh_bytes =
            self.ssthresh_bytes.map_or(WL_CWND_MAX_BYTES, |b| b.clamp(mss_bytes, WL_CWND_MAX_BYTES));
        d.pacing_bytes_ps = self.pacing_bytes_ps.map_or(UNLIMITED, |rate| rate.clamp(1, UNLIMITED - 1));
        (d.has_wake, d.wake_at_us) = (self.wake_at_us.is_some().into(), self.wake_at_us.unwrap_or(0));
        d.is_held = self.is_held.into();
    }
}

/// The names of the core's algorithms.
#[pyfunction]
pub fn algorithm_names() -> Vec<&'static str> {
    Algorithm::all().map(|algorithm| algorithm.name()).collect()
}

/// What stops a run, and why.
#[derive(Default)]
struct Stop {
    /// The first exception of any hook; nothing is called after it.
    error: Mutex<Option<PyErr>>,
    cancel: AtomicBool,
}

impl Stop {
    /// Does something, unless an exception was raised before.
    fn unless_failed<T>(&self, what: impl FnOnce() -> PyResult<T>) -> Option<T> {
        let mut error = self.error.lock().expect("no panics while held");
        if error.is_some() {
            return None;
        }
        what()
            .map_err(|why| *error = Some(why))
            .inspect_err(|()| self.cancel.store(true, Ordering::Relaxed))
            .ok()
    }
}

/// An algorithm at work on one connection.
struct PythonAlgorithm {
    object: Py<PyAny>,
    stop: Arc<Stop>,
}

impl fmt::Debug for PythonAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an algorithm in Python")
    }
}

/// What a hook is given besides sample and decision.
enum Besides {
    Nothing,
    Number(u32),
}

impl PythonAlgorithm {
    fn call(&self, hook: &str, sample: &wl_sample, decision: &mut wl_decision, besides: Besides) {
        let call = |py: Python| {
            let given = Bound::new(py, Decision::of(decision))?;
            let object = self.object.bind(py);
            match besides {
                Besides::Nothing => object.call_method1(hook, (Sample(*sample), &given))?,
                Besides::Number(n) => object.call_method1(hook, (Sample(*sample), &given, n))?,
            };
            given.borrow().put(decision, sample.mss_bytes);
            Ok(())
        };
        self.stop.unless_failed(|| Python::attach(call));
    }
}

impl CongestionControl for PythonAlgorithm {
    fn init(&mut self, _: &wl_alg_params, sample: &wl_sample, decision: &mut wl_decision) {
        self.call("init", sample, decision, Besides::Nothing);
    }

    fn on_ack(&mut self, sample: &wl_sample, decision: &mut wl_decision) {
        self.call("on_ack", sample, decision, Besides::Nothing);
    }

    fn on_congestion(&mut self, sample: &wl_sample, decision: &mut wl_decision, why: u32) {
        self.call("on_congestion", sample, decision, Besides::Number(why));
    }

    fn on_timeout(&mut self, sample: &wl_sample, decision: &mut wl_decision) {
        self.call("on_timeout", sample, decision, Besides::Nothing);
    }

    fn on_send_after_idle(&mut self, sample: &wl_sample, decision: &mut wl_decision, idle_us: u32) {
        self.call("on_send_after_idle", sample, decision, Besides::Number(idle_us));
    }

    fn on_timer(&mut self, sample: &wl_sample, decision: &mut wl_decision) {
        self.call("on_timer", sample, decision, Besides::Nothing);
    }
}

/// By number of a flow, what makes the algorithm of each of its connections.
pub struct PythonAlgorithms {
    makers: BTreeMap<usize, Py<PyAny>>,
    stop: Arc<Stop>,
}

impl fmt::Debug for PythonAlgorithms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("algorithms in Python")
    }
}

impl PythonAlgorithms {
    pub fn new(makers: BTreeMap<usize, Py<PyAny>>) -> PythonAlgorithms {
        PythonAlgorithms { makers, stop: Arc::default() }
    }

    /// None where there are none.
    pub fn as_outside(&self) -> Option<&dyn Outside> {
        (!self.makers.is_empty()).then_some(self)
    }

    /// Set as soon as one of them has raised an exception.
    pub fn cancel(&self) -> &AtomicBool {
        &self.stop.cancel
    }

    /// The first exception that any of them raised.
    pub fn check(&self) -> PyResult<()> {
        self.stop.error.lock().expect("no panics while held").take().map_or(Ok(()), Err)
    }
}

impl Outside for PythonAlgorithms {
    fn of_flow(&self, flow: usize) -> Option<Box<dyn CongestionControl>> {
        let maker = self.makers.get(&flow)?;
        let object = self.stop.unless_failed(|| Python::attach(|py| maker.call0(py)))?;
        Some(Box::new(PythonAlgorithm { object, stop: self.stop.clone() }))
    }
}
