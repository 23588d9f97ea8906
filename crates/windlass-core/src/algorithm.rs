//! Congestion-control algorithms by name.

use crate::{
    Tunable,
    abi::{self, wl_alg_params, wl_alg_state, wl_decision, wl_sample},
};
use std::{ffi::CStr, fmt};

/// One algorithm of `core/alg/list.h`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Algorithm {
    index: u32,
    id: u32,
}

impl Algorithm {
    /// All algorithms, in the order of the list.
    pub fn all() -> impl Iterator<Item = Algorithm> {
        (0..)
            // SAFETY: the function takes any index and returns NULL past the end.
            .take_while(|&index| unsafe { !abi::wln_alg_name(index).is_null() })
            // SAFETY: plain call without pointers.
            .map(|index| Algorithm { index, id: unsafe { abi::wln_alg_id(index) } })
    }

    /// Names of all, as messages list them.
    pub fn names() -> String {
        Self::all().map(|a| a.name()).collect::<Vec<_>>().join(", ")
    }

    /// The algorithm of that name, if there is one.
    pub fn by_name(name: &str) -> Option<Algorithm> {
        Self::all().find(|a| a.name() == name)
    }

    /// The algorithm with that id, if there is one.
    pub fn by_id(id: u32) -> Option<Algorithm> {
        Self::all().find(|a| a.id() == id)
    }

    /// Name in policies and on the command line.
    pub fn name(&self) -> &'static str {
        // SAFETY: `index` came from all(), so the string exists; it is static and ASCII.
        unsafe { CStr::from_ptr(abi::wln_alg_name(self.index)) }.to_str().expect("ASCII")
    }

    /// One line on what it does.
    pub fn description(&self) -> &'static str {
        // SAFETY: as in name().
        unsafe { CStr::from_ptr(abi::wln_alg_description(self.index)) }.to_str().expect("ASCII")
    }

    /// Whether its flows must use ECN, with a receiver that reports each mark as RFC 8257 wants it.
    pub fn needs_ecn(&self) -> bool {
        // SAFETY: plain call without pointers.
        unsafe { abi::wln_alg_needs(self.index) & abi::WL_NEEDS_ECN != 0 }
    }

    /// Whether it must receive every pause of its sender.
    pub fn needs_pauses(&self) -> bool {
        // SAFETY: plain call without pointers.
        unsafe { abi::wln_alg_needs(self.index) & abi::WL_NEEDS_PAUSES != 0 }
    }

    /// Whether it wants to know the least round-trip time of other connections to the same peer.
    pub fn needs_path(&self) -> bool {
        // SAFETY: plain call without pointers.
        unsafe { abi::wln_alg_needs(self.index) & abi::WL_NEEDS_PATH != 0 }
    }

    /// Whether the random bits of its samples must be some; else it looks at none.
    pub fn needs_random(&self) -> bool {
        // SAFETY: plain call without pointers.
        unsafe { abi::wln_alg_needs(self.index) & abi::WL_NEEDS_RANDOM != 0 }
    }

    /// Constants that may be set, in the order in which `wl_alg_params.tunables` has them.
    pub fn tunables(&self) -> Vec<Tunable> {
        // SAFETY: `index` came from all(), so the list exists; it is static, and its last entry has no name.
        let at = |i| unsafe { &*abi::wln_alg_tunables(self.index).add(i) };
        let entries = (0..).map(at).take_while(|entry| !entry.name.is_null());
        entries.map(Tunable::of).collect()
    }

    /// Stable number, as stored in compiled policies and flows.
    pub fn id(&self) -> u32 {
        self.id
    }
}

impl wl_decision {
    /// Rate at which bytes should leave; none: the algorithm does not pace.
    pub fn rate_bytes_ps(&self) -> Option<u64> {
        // the C literal ~0ULL comes out of bindgen as -1
        const UNLIMITED: u64 = abi::WL_RATE_UNLIMITED as u64;
        Some(self.pacing_bytes_ps).filter(|rate| *rate != UNLIMITED)
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An algorithm at work on one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlgorithmState {
    algorithm: Algorithm,
    /// Private state, opaque.
    pub state: wl_alg_state,
    /// The decision in force.
    pub decision: wl_decision,
}

impl AlgorithmState {
    /// Starts `algorithm` on a new flow of which nothing is known.
    pub fn new(algorithm: Algorithm, sample: &wl_sample) -> Self {
        Self::with_params(algorithm, &wl_alg_params::default(), sample)
    }

    /// Starts `algorithm` on a new flow with what is known of its path.
    pub fn with_params(algorithm: Algorithm, params: &wl_alg_params, sample: &wl_sample) -> Self {
        let mut new =
            AlgorithmState { algorithm, state: wl_alg_state::default(), decision: wl_decision::default() };
        // SAFETY: the references are valid for the call; the hook writes through two of them only.
        unsafe {
            abi::wln_alg_init(algorithm.id(), &mut new.state, params, sample, &mut new.decision);
        }
        new
    }

    /// Which algorithm it is.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// An ACK that delivered or lost something.
    pub fn on_ack(&mut self, sample: &wl_sample) {
        // SAFETY: as in new().
        unsafe {
            abi::wln_alg_on_ack(self.algorithm.id(), &mut self.state, sample, &mut self.decision);
        }
    }

    /// The first loss (`abi::WL_CONGESTION_LOSS`) or ECN mark (`abi::WL_CONGESTION_ECN`) of a window.
    pub fn on_congestion(&mut self, sample: &wl_sample, why: u32) {
        // SAFETY: as in new().
        unsafe {
            abi::wln_alg_on_congestion(self.algorithm.id(), &mut self.state, sample, &mut self.decision, why);
        }
    }

    /// A retransmission timeout.
    pub fn on_timeout(&mut self, sample: &wl_sample) {
        // SAFETY: as in new().
        unsafe {
            abi::wln_alg_on_timeout(self.algorithm.id(), &mut self.state, sample, &mut self.decision);
        }
    }

    /// When the algorithm wants to be woken, in the core's microseconds; none: it does not.
    pub fn wake_at_us(&self) -> Option<u32> {
        (self.decision.has_wake != 0).then_some(self.decision.wake_at_us)
    }

    /// Whether the time of its wake-up has come.
    pub fn is_due(&self, now_us: u32) -> bool {
        self.wake_at_us().is_some_and(|at_us| now_us.wrapping_sub(at_us) as i32 >= 0)
    }

    /// Whether nothing new may be sent.
    pub fn is_held(&self) -> bool {
        self.decision.is_held != 0
    }

    /// The time of the algorithm's wake-up has come.
    pub fn on_timer(&mut self, sample: &wl_sample) {
        self.decision.has_wake = 0;
        // SAFETY: as in new().
        unsafe {
            abi::wln_alg_on_timer(self.algorithm.id(), &mut self.state, sample, &mut self.decision);
        }
    }

    /// New data is about to be sent, the first for `idle_us`.
    pub fn on_send_after_idle(&mut self, sample: &wl_sample, idle_us: u32) {
        // SAFETY: as in new().
        unsafe {
            abi::wln_alg_on_send_after_idle(
                self.algorithm.id(),
                &mut self.state,
                sample,
                &mut self.decision,
                idle_us,
            );
        }
    }
}
