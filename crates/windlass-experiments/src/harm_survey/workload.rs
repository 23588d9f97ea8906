//! What flows send over a path.
//!
//! | what | distribution |
//! |---|---|
//! | kind | transfers 60 %, responses on persistent connections 15 %, a connection for each response 10 %, messages 15 % |
//! | flows | 1 on half of the paths, else 2 to 50, log-uniform |
//! | start | at once on half of the paths, else each within 0.1 to 5 s |
//! | size of a transfer | 1 kB to 50 MB, log-uniform |
//! | responses | 2 to 20 of 1 kB to 1 MB, log-uniform (each at random half to one and a half of that), 10 to 2000 ms between them |
//! | messages | 20 to 1000 B each 1 to 20 ms, for 10 s |
//!
//! Bounds keep a run short: all flows of a path transfer together at most 100 MB and what the slowest rate of its bottleneck carries
//! in 120 s, and one flow at most what Reno would transfer over the path's loss in 300 s. Messages take at most half of the rate, 5,000 in all.

use super::{path::Path, random::Random};

/// Most that all flows of a path transfer.
pub const ALL_BYTES: f64 = 100e6;
/// ... and what the bottleneck may need for it.
pub const BOTTLENECK_S: f64 = 120.0;
/// What one flow may need for its part by Reno's rate over random loss (Mathis, Semke and Mahdavi, 1997).
pub const RENO_S: f64 = 300.0;
/// Payload of a full segment.
const MSS_BYTES: f64 = 1448.0;
/// Headers of a message and of its acknowledgement, link layer included.
const HEADERS_BYTES: f64 = 66.0;
/// Most messages of a path.
const MESSAGES: f64 = 5_000.0;
/// The least that a size is bounded to.
const LEAST_BYTES: f64 = 1000.0;

/// What a connection carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One response.
    #[default]
    Transfers,
    /// Responses one after the other, with pauses between them.
    Persistent,
    /// The same, each on a connection of its own.
    NewConnections,
    /// Small messages, by the sender's clock.
    Messages,
}

impl Kind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Transfers => "transfers",
            Kind::Persistent => "persistent",
            Kind::NewConnections => "new-connections",
            Kind::Messages => "messages",
        }
    }
}

/// What is sent over a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// What a connection carries.
    pub kind: Kind,
    /// Flows from the server to the client.
    pub flows: u32,
    /// They begin at random within this time; 0: at once.
    pub start_within_s: f64,
    /// Of a transfer or message, or the mean of responses.
    pub size_bytes: u64,
    /// Responses or messages of each flow.
    pub responses: u32,
    /// From the end of a response to the next request, or from message to message.
    pub pause_ms: f64,
}

impl Workload {
    /// What is sent over `path`, whose own workload is not looked at.
    pub fn choose(path: &Path, random: &mut Random) -> Workload {
        let kind = match random.part() {
            part if part < 0.6 => Kind::Transfers,
            part if part < 0.75 => Kind::Persistent,
            part if part < 0.85 => Kind::NewConnections,
            _ => Kind::Messages,
        };
        let flows = libm::round(random.maybe_log(0.5, 2.0, 50.0)).max(1.0);
        let start_within_s = random.maybe(0.5, 0.1, 5.0);
        let (size, pause_ms, responses) = match kind {
            Kind::Transfers => (random.log_uniform(1e3, 50e6), 0.0, 1.0),
            Kind::Persistent | Kind::NewConnections => (
                random.log_uniform(1e3, 1e6),
                random.log_uniform(10.0, 2000.0),
                libm::round(random.uniform(2.0, 20.0)),
            ),
            Kind::Messages => Self::messages(path.least_bps(), flows, random),
        };
        let size = if kind == Kind::Messages { size } else { bounded(path, flows * responses, flows, size) };
        let (flows, responses) = (flows as u32, responses as u32);
        Workload { kind, flows, start_within_s, size_bytes: size as u64, responses, pause_ms }
    }

    /// Size, interval in ms and number of the messages of each flow.
    fn messages(rate_bps: f64, flows: f64, random: &mut Random) -> (f64, f64, f64) {
        let (size, drawn_ms) = (random.log_uniform(20.0, 1000.0), random.log_uniform(1.0, 20.0));
        let least_ms = flows * (size + HEADERS_BYTES) * 8.0 / (rate_bps / 2.0) * 1e3;
        let interval_ms = drawn_ms.max(libm::ceil(least_ms));
        let count = libm::round(10_000.0 / interval_ms).max(20.0).min(libm::floor(MESSAGES / flows));
        (size, interval_ms, count)
    }

    /// The table of the flows in a scenario file.
    pub fn text(&self, algorithm: &str) -> String {
        let Workload { kind, flows, start_within_s, size_bytes, responses, pause_ms } = self;
        let start = match *start_within_s > 0.0 {
            true => format!("start = {{ uniform = [\"0 s\", \"{start_within_s} s\"] }}\n"),
            false => String::new(),
        };
        let (application, train) = match kind {
            Kind::Transfers => (format!("size = \"{size_bytes} B\"\n"), String::new()),
            Kind::Persistent | Kind::NewConnections => {
                let connections = if *kind == Kind::Persistent { "persistent" } else { "per-response" };
                let (low, high) = (size_bytes / 2, size_bytes * 3 / 2);
                let train = format!(
                    "size = {{ uniform = [\"{low} B\", \"{high} B\"] }}\ngap = {{ exponential = \"{pause_ms} ms\" }}\n"
                );
                (format!("connections = \"{connections}\"\n"), train)
            }
            Kind::Messages => (
                "application = \"push\"\n".into(),
                format!("size = \"{size_bytes} B\"\ninterval = {{ exponential = \"{pause_ms} ms\" }}\n"),
            ),
        };
        let train = match train.is_empty() {
            true => train,
            false => format!("\n[[flow.train]]\ncount = {responses}\n{train}"),
        };
        format!(
            "\n[[flow]]\nfrom = \"server\"\nto = \"client\"\ncount = {flows}\nalgorithm = \"{algorithm}\"\n{start}{application}{train}"
        )
    }
}

/// A size that keeps a run short; `responses`: of all flows.
fn bounded(path: &Path, responses: f64, flows: f64, size_bytes: f64) -> f64 {
    let all_bytes = ALL_BYTES.min(path.least_bps() / 8.0 * BOTTLENECK_S);
    let rtt_s = (path.rtt_ms + path.near_rtt_ms + path.jitter_ms + path.near_jitter_ms) / 1e3;
    let reno_bytes_ps = MSS_BYTES * libm::sqrt(1.5 / (path.loss.percent() / 100.0)) / rtt_s;
    // without loss, that is infinite
    let flow_bytes = reno_bytes_ps * RENO_S * flows;
    size_bytes.min(libm::floor(all_bytes.min(flow_bytes) / responses)).max(LEAST_BYTES)
}
