//! The paths and workloads of the survey: each is a pure function of its number.
//!
//! | what | distribution |
//! |---|---|
//! | rate | 64 kbit/s to 1 Gbit/s, log-uniform |
//! | round trip beyond the box | 1 to 1000 ms, log-uniform |
//! | round trip before the box | 0 on 60 % of paths, else 1 to 100 ms; there jitter of 0.5 to 10 ms on 25 % of them |
//! | buffer | 0.25 to 4 BDP beyond the box, log-uniform; ten packets at least |
//! | loss | none 40 %, random 35 %, bursts of 2 to 20 packets 25 %; 0.01 to 5 %, log-uniform |
//! | ACK loss | 15 % of paths, 0.1 to 5 % |
//! | jitter beyond the box | 20 % of paths, 1 to 100 ms, log-uniform; half of these reorder |
//! | policer | 10 % of paths: 0.1 to 0.9 of the rate, 16 kbit/s at least; a burst of 10 to 500 ms, ten packets at least |
//! | outage | 10 % of paths, 0.1 to 5 s long, after 0.1 to 5 s |
//! | rate step | 10 % of paths, to 0.1 to 10 times the rate within its bounds, after 0.1 to 10 s |
//! | SACK | not on 15 % of paths |
//!
//! What flows send is in `workload.rs`.

use super::{random::Random, workload::Workload};
use std::fmt::Write as _;

/// Paths of the survey.
pub const PATHS: u32 = 600;
/// The slowest link ...
pub const RATE_LEAST_BPS: f64 = 64e3;
/// ... and the fastest.
pub const RATE_MOST_BPS: f64 = 1e9;
/// No policer is slower.
pub const POLICED_LEAST_BPS: f64 = 16e3;
/// A policer lets an initial window through.
const BURST_LEAST_BYTES: f64 = 15_140.0;
/// When a run is given up, in virtual time: several times what transfers are bounded to.
pub const TIME_LIMIT_S: f64 = 7200.0;

/// How packets towards the client are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// They are not.
    None,
    /// Each with the same probability.
    Random {
        /// Share of packets.
        percent: f64,
    },
    /// In a bad state, that lasts so many packets in the mean.
    Bursts {
        /// Share of packets in the long run.
        percent: f64,
        /// Mean length of the bad state.
        packets: f64,
        /// Share of packets in the bad state.
        bad_percent: f64,
    },
}

impl Loss {
    fn choose(random: &mut Random) -> Loss {
        let (kind, percent) = (random.part(), random.log_uniform(0.01, 5.0));
        let (packets, bad_percent) = (random.uniform(2.0, 20.0), random.uniform(30.0, 100.0));
        match kind {
            kind if kind < 0.4 => Loss::None,
            kind if kind < 0.75 => Loss::Random { percent },
            _ => Loss::Bursts { percent, packets, bad_percent },
        }
    }

    /// Share of packets in the long run.
    pub fn percent(self) -> f64 {
        match self {
            Loss::None => 0.0,
            Loss::Random { percent } | Loss::Bursts { percent, .. } => percent,
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Loss::None => "none",
            Loss::Random { .. } => "random",
            Loss::Bursts { .. } => "bursts",
        }
    }

    /// The key of a link; empty: nothing is lost.
    fn key(self) -> String {
        match self {
            Loss::None => String::new(),
            Loss::Random { percent } => format!("loss = \"{percent} %\"\n"),
            Loss::Bursts { percent, packets, bad_percent } => {
                // the bad state takes this share of packets, and to_bad / (to_bad + to_good) is the same
                let bad = percent / bad_percent;
                let (to_good, to_bad) = (100.0 / packets, 100.0 / packets * bad / (1.0 - bad));
                format!(
                    "bursts = {{ to_bad = \"{to_bad:.7} %\", to_good = \"{to_good:.7} %\", loss_bad = \"{bad_percent} %\" }}\n"
                )
            }
        }
    }
}

/// A token bucket towards the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policer {
    /// Rate of its tokens.
    pub rate_bps: f64,
    /// Tokens that it holds.
    pub burst_bytes: f64,
}

impl Policer {
    fn choose(link_bps: f64, random: &mut Random) -> Option<Policer> {
        let (is_there, share) = (random.happens(0.1), random.uniform(0.1, 0.9));
        let rate_bps = libm::round(link_bps * share).max(POLICED_LEAST_BPS);
        let burst_s = random.log_uniform(0.01, 0.5);
        let burst_bytes = libm::round(rate_bps / 8.0 * burst_s).max(BURST_LEAST_BYTES);
        is_there.then_some(Policer { rate_bps, burst_bytes })
    }
}

/// A time without the link beyond the box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outage {
    /// When it begins.
    pub from_s: f64,
    /// How long it lasts.
    pub for_s: f64,
}

/// A new rate of the link beyond the box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateStep {
    /// Since when.
    pub at_s: f64,
    /// The rate.
    pub rate_bps: f64,
}

impl Outage {
    fn choose(random: &mut Random) -> Option<Outage> {
        let is_there = random.happens(0.1);
        let outage = Outage { from_s: random.uniform(0.1, 5.0), for_s: random.log_uniform(0.1, 5.0) };
        is_there.then_some(outage)
    }
}

impl RateStep {
    fn choose(link_bps: f64, random: &mut Random) -> Option<RateStep> {
        let (is_there, at_s) = (random.happens(0.1), random.uniform(0.1, 10.0));
        let rate_bps = libm::round(link_bps * random.log_uniform(0.1, 10.0));
        is_there.then_some(RateStep { at_s, rate_bps: rate_bps.clamp(RATE_LEAST_BPS, RATE_MOST_BPS) })
    }
}

/// What a run of a path compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name in reports.
    pub name: &'static str,
    /// Congestion control of the server's kernel.
    pub server: &'static str,
    /// Algorithm of the box; none: there is no box.
    pub boxed: Option<&'static str>,
    /// With other seeds than the rest.
    pub is_again: bool,
}

/// A path with what is sent over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Its number, from 1 to [`PATHS`].
    pub number: u32,
    /// Rate of the link beyond the box.
    pub rate_bps: f64,
    /// Round trip beyond the box.
    pub rtt_ms: f64,
    /// Round trip between server and box.
    pub near_rtt_ms: f64,
    /// Most jitter there, in each direction.
    pub near_jitter_ms: f64,
    /// Buffer of the link beyond the box.
    pub buffer_bdp: f64,
    /// Loss towards the client.
    pub loss: Loss,
    /// Random loss towards the server.
    pub ack_loss_percent: f64,
    /// Most jitter beyond the box, in each direction.
    pub jitter_ms: f64,
    /// Whether that reorders packets.
    pub reorders: bool,
    /// What limits the rate without a queue.
    pub policer: Option<Policer>,
    /// When nothing gets through.
    pub outage: Option<Outage>,
    /// When the rate changes.
    pub rate_step: Option<RateStep>,
    /// Whether hosts agree on SACK.
    pub has_sack: bool,
    /// What is sent.
    pub workload: Workload,
}

impl Path {
    /// The path of that number.
    pub fn of_number(number: u32) -> Path {
        let random = &mut Random::of_path(number);
        let rate_bps = random.log_uniform(RATE_LEAST_BPS, RATE_MOST_BPS);
        let mut path = Path {
            number,
            rate_bps,
            rtt_ms: random.log_uniform(1.0, 1000.0),
            near_rtt_ms: random.maybe(0.4, 1.0, 100.0),
            near_jitter_ms: random.maybe(0.25, 0.5, 10.0),
            buffer_bdp: random.log_uniform(0.25, 4.0),
            loss: Loss::choose(random),
            ack_loss_percent: random.maybe(0.15, 0.1, 5.0),
            jitter_ms: random.maybe_log(0.2, 1.0, 100.0),
            reorders: random.happens(0.5),
            policer: Policer::choose(rate_bps, random),
            outage: Outage::choose(random),
            rate_step: RateStep::choose(rate_bps, random),
            has_sack: !random.happens(0.15),
            workload: Workload::default(),
        };
        path.near_jitter_ms = if path.near_rtt_ms > 0.0 { path.near_jitter_ms } else { 0.0 };
        path.reorders &= path.jitter_ms > 0.0;
        path.workload = Workload::choose(&path, random);
        path
    }

    /// Its name among the points of runs.
    pub fn name(&self) -> String {
        format!("path-{}", self.number)
    }

    /// Whether only full buffers drop packets.
    pub fn is_loss_free(&self) -> bool {
        let loses = self.loss != Loss::None || self.ack_loss_percent > 0.0;
        !loses && self.policer.is_none() && self.outage.is_none()
    }

    /// The least rate that it ever has.
    pub fn least_bps(&self) -> f64 {
        let policed_bps = self.policer.map_or(self.rate_bps, |p| p.rate_bps);
        self.rate_step.map_or(policed_bps, |step| policed_bps.min(step.rate_bps))
    }

    /// The scenario file of a run.
    pub fn text(&self, variant: &Variant, seed: u64) -> String {
        let mut text = format!(
            "name = \"harm-survey-{}\"\nseed = {seed}\ntime_limit = \"{TIME_LIMIT_S} s\"\n",
            self.number
        );
        for host in ["server", "box", "client"] {
            let _ = write!(text, "\n[[host]]\nname = \"{host}\"\n");
        }
        text.push_str("\n[[link]]\nbetween = [\"server\", \"box\"]\n");
        if self.near_rtt_ms > 0.0 {
            let _ = writeln!(text, "delay = \"{} ms\"", self.near_rtt_ms / 2.0);
        }
        if self.near_jitter_ms > 0.0 {
            let _ = writeln!(text, "jitter = \"{} ms\"", self.near_jitter_ms);
        }
        let _ = write!(
            text,
            "\n[[link]]\nbetween = [\"box\", \"client\"]\nrate = \"{} bit/s\"\ndelay = \"{} ms\"\nbuffer = \"{} BDP\"\n{}",
            self.rate_bps,
            self.rtt_ms / 2.0,
            self.buffer_bdp,
            self.loss.key()
        );
        if self.ack_loss_percent > 0.0 {
            let _ = writeln!(text, "loss_back = \"{} %\"", self.ack_loss_percent);
        }
        if self.jitter_ms > 0.0 {
            let _ = writeln!(text, "jitter = \"{} ms\"\nreorder = {}", self.jitter_ms, self.reorders);
        }
        if let Some(Policer { rate_bps, burst_bytes }) = self.policer {
            let _ =
                writeln!(text, "policer = {{ rate = \"{rate_bps} bit/s\", burst = \"{burst_bytes} B\" }}");
        }
        if let Some(Outage { from_s, for_s }) = self.outage {
            let _ =
                writeln!(text, "outages = [{{ from = \"{from_s} s\", to = \"{:.4} s\" }}]", from_s + for_s);
        }
        if let Some(RateStep { at_s, rate_bps }) = self.rate_step {
            let _ = writeln!(text, "rate_steps = [{{ at = \"{at_s} s\", rate = \"{rate_bps} bit/s\" }}]");
        }
        if !self.has_sack {
            text.push_str("\n[tcp]\nsack = false\n");
        }
        text.push_str(&self.workload.text(variant.server));
        if let Some(algorithm) = variant.boxed {
            let _ = write!(
                text,
                "\n[windlass]\nat = \"box\"\nfacing = \"server\"\nalgorithm = \"{algorithm}\"\n"
            );
        }
        text
    }
}
