//! The points of the survey: each is a pure function of its number.
//!
//! | what | distribution |
//! |---|---|
//! | algorithm | reno, cubic, bbr in turn |
//! | rate | 0.1 to 1000 Mbit/s, log-uniform |
//! | round trip | 0.2 to 600 ms, log-uniform |
//! | flows | one on 40 %, else 2 to 50, log-uniform; at most as many as can send 15 kB each in the time of the transfer; within 20 ms of each other |
//! | buffer | 0.5 to 4 BDP, log-uniform; ten packets at least |
//! | shape | one link 45 %, many to one 25 %, dumbbell 15 %, parking lot of two hops 15 % |
//! | random loss | none on 75 %, else 0.1 to 2 %, log-uniform |
//! | hosts | without SACK 20 %, with ECN and a queue that marks from a quarter of its buffer on 30 % |
//!
//! Each sixth point is a data centre: 100 to 1000 Mbit/s, 0.2 to 2 ms, 50 to 250 packets, many to one or dumbbell, no random loss.
//!
//! Together the flows send what the rate carries in 1.2 s, each the same; but none more than slow start sends in 3 s, nor more than
//! Reno sends over that loss in 3 s. So a point lasts one to four seconds, if no timeout prolongs it.

use std::fmt::Write as _;

/// Points of the survey.
pub const POINTS: u32 = 216;
/// Of so many points one is a data centre.
const DATA_CENTRE_STEP: u32 = 6;
/// When a run is given up.
const TIME_LIMIT_S: f64 = 120.0;

const PAYLOAD_BYTES: f64 = 1448.0;
const PACKET_BYTES: f64 = 1514.0;
/// For so long the rate carries what all flows send together.
const TRANSFER_S: f64 = 1.2;
/// For so long slow start, or random loss, bounds a flow.
const BOUNDED_S: f64 = 3.0;
/// What a flow sends at least: an initial window.
const FLOW_LEAST_BYTES: f64 = 15_000.0;
const INITIAL_WINDOW_SEGS: f64 = 10.0;
/// Least buffer, as of all buffers in BDP.
const BUFFER_LEAST_PACKETS: f64 = 10.0;
/// Flows begin within so long. Real ones cannot begin at one instant, and simulated ones that do lose all that they send together, wait
/// for their timeouts together, and leave the link idle meanwhile: 38 flows of Reno at 5.93 Mbit/s then take 1.41 s at the median, and
/// 0.92 s when they begin within 2 ms; real ones 0.89 s.
const START_WITHIN_MS: u32 = 20;
/// Most senders of a shape; each has several flows where there are more.
const SENDERS_MOST: u32 = 16;

/// What is chosen of a point, each a dimension of the sequence.
#[derive(Clone, Copy)]
enum Choice {
    Rate,
    Rtt,
    Flows,
    Buffer,
    Shape,
    Loss,
    Hosts,
}

const DIMENSIONS: i32 = 7;

/// The number from 0 to 1 of that choice: an additive recurrence by powers of the inverse of the root of x^8 = x + 1 (Roberts 2018),
/// which covers all dimensions evenly, however many points there are.
fn part(number: u32, choice: Choice) -> f64 {
    let mut root: f64 = 1.5;
    for _ in 0..64 {
        root = libm::pow(1.0 + root, 1.0 / f64::from(DIMENSIONS + 1));
    }
    let step = libm::pow(1.0 / root, f64::from(choice as i32 + 1));
    let place = 0.5 + f64::from(number) * step;
    place - libm::floor(place)
}

/// A number between these, whose logarithm is uniform.
fn log_uniform(part: f64, low: f64, high: f64) -> f64 {
    low * libm::exp(part * libm::log(high / low))
}

/// Three significant figures, so that scenario files are short and hold the very number.
fn rounded(number: f64) -> f64 {
    let unit = libm::pow(10.0, libm::floor(libm::log10(number)) - 2.0);
    libm::round(number / unit) * unit
}

/// How hosts are connected. Links of hosts are cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A link between two hosts.
    Link,
    /// Senders, a switch, and the link to a receiver.
    ManyToOne,
    /// Pairs of hosts, and the link between their switches.
    Dumbbell,
    /// Two such links after each other, one flow over both, the others over one of them, in turn.
    ParkingLot,
}

impl Shape {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Link => "link",
            Shape::ManyToOne => "many-to-one",
            Shape::Dumbbell => "dumbbell",
            Shape::ParkingLot => "parking-lot",
        }
    }

    /// The direction of a link whose queue is compared.
    pub fn bottleneck(self) -> &'static str {
        match self {
            Shape::Link => "server > client",
            Shape::ManyToOne => "switch > receiver",
            Shape::Dumbbell => "switch-left > switch-right",
            Shape::ParkingLot => "switch-1 > switch-2",
        }
    }
}

/// What hosts agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// As they are by themselves.
    Plain,
    /// Duplicate ACKs are all that reports losses.
    NoSack,
    /// With ECN (RFC 3168), and a bottleneck that marks.
    Ecn,
}

impl Hosts {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Hosts::Plain => "plain",
            Hosts::NoSack => "no SACK",
            Hosts::Ecn => "ECN",
        }
    }
}

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its number, from 1 to [`POINTS`].
    pub number: u32,
    /// Congestion control of the senders' kernels.
    pub algorithm: &'static str,
    /// How hosts are connected.
    pub shape: Shape,
    /// Of the bottleneck.
    pub rate_bps: f64,
    /// Of the longest path.
    pub rtt_ms: f64,
    /// In front of the bottleneck.
    pub buffer_packets: f64,
    /// Random loss, in per cent.
    pub loss_percent: f64,
    /// What hosts agree on.
    pub hosts: Hosts,
    /// How many; they begin within 20 ms of each other.
    pub flows: u32,
    /// What each sends.
    pub flow_bytes: f64,
}

impl Point {
    /// The point of that number.
    pub fn of_number(number: u32) -> Point {
        let of = |choice| part(number, choice);
        let is_data_centre = number.is_multiple_of(DATA_CENTRE_STEP);
        let (rates_bps, rtts_ms) =
            if is_data_centre { ((1e8, 1e9), (0.2, 2.0)) } else { ((1e5, 1e9), (0.2, 600.0)) };
        let rate_bps = rounded(log_uniform(of(Choice::Rate), rates_bps.0, rates_bps.1));
        let rtt_ms = rounded(log_uniform(of(Choice::Rtt), rtts_ms.0, rtts_ms.1));
        let shape = match of(Choice::Shape) {
            part if is_data_centre => {
                if part < 0.5 {
                    Shape::ManyToOne
                } else {
                    Shape::Dumbbell
                }
            }
            part if part < 0.45 => Shape::Link,
            part if part < 0.7 => Shape::ManyToOne,
            part if part < 0.85 => Shape::Dumbbell,
            _ => Shape::ParkingLot,
        };
        let buffer_packets = if is_data_centre {
            log_uniform(of(Choice::Buffer), 50.0, 250.0)
        } else {
            log_uniform(of(Choice::Buffer), 0.5, 4.0) * rate_bps / 8.0 * rtt_ms / 1e3 / PACKET_BYTES
        };
        let loss_percent = match of(Choice::Loss) {
            part if is_data_centre || part < 0.75 => 0.0,
            part => rounded(log_uniform((part - 0.75) / 0.25, 0.1, 2.0)),
        };
        let hosts = match of(Choice::Hosts) {
            part if part < 0.2 => Hosts::NoSack,
            part if part < 0.7 => Hosts::Plain,
            _ => Hosts::Ecn,
        };
        let flows = match of(Choice::Flows) {
            part if part < 0.4 => 1.0,
            part => libm::floor(log_uniform((part - 0.4) / 0.6, 2.0, 51.0)),
        };
        let all_bytes = rate_bps / 8.0 * TRANSFER_S;
        let flows = flows.min(libm::floor(all_bytes / FLOW_LEAST_BYTES)).max(1.0);
        let flow_bytes = (all_bytes / flows)
            .max(FLOW_LEAST_BYTES)
            .min(slow_start_bytes(rtt_ms / 1e3))
            .min(reno_bytes(rtt_ms / 1e3, loss_percent / 100.0));
        Point {
            number,
            algorithm: ["reno", "cubic", "bbr"][number as usize % 3],
            shape,
            rate_bps,
            rtt_ms,
            buffer_packets: libm::round(buffer_packets).max(BUFFER_LEAST_PACKETS),
            loss_percent,
            hosts,
            flows: flows as u32,
            flow_bytes: libm::round(flow_bytes.max(FLOW_LEAST_BYTES)),
        }
    }

    /// Its name among the points of runs.
    pub fn name(&self) -> String {
        format!("point-{}", self.number)
    }

    /// What it is, in words.
    pub fn describe(&self) -> String {
        let Point { algorithm, flows, buffer_packets, rtt_ms, .. } = self;
        let mut text = format!(
            "{}: {flows} x {algorithm}, {} Mbit/s, {rtt_ms} ms, {buffer_packets} packets",
            self.shape.name(),
            self.rate_bps / 1e6
        );
        if self.loss_percent > 0.0 {
            let _ = write!(text, ", loss {} %", self.loss_percent);
        }
        if self.hosts != Hosts::Plain {
            let _ = write!(text, ", {}", self.hosts.name());
        }
        text
    }

    /// The scenario file of a run.
    pub fn text(&self, seed: u64) -> String {
        let mut text = format!(
            "name = \"agreement-survey-{}\"\nseed = {seed}\ntime_limit = \"{TIME_LIMIT_S} s\"\n",
            self.number
        );
        match self.hosts {
            Hosts::Plain => {}
            Hosts::NoSack => text.push_str("[tcp]\nsack = false\n"),
            Hosts::Ecn => text.push_str("[tcp]\necn = \"classic\"\n"),
        }
        let senders = self.flows.min(SENDERS_MOST);
        match self.shape {
            Shape::Link => {
                text.push_str("[[host]]\nname = \"server\"\n[[host]]\nname = \"client\"\n[[link]]\n");
                let _ = writeln!(text, "between = [\"server\", \"client\"]\n{}", self.link("\n", 1.0));
                self.write_flow(&mut text, "server", "client", self.flows);
            }
            Shape::ManyToOne => {
                self.write_shape(&mut text, &format!("shape = \"many-to-one\"\nsenders = {senders}"), 1.0);
                for sender in 1..=senders {
                    self.write_flow(
                        &mut text,
                        &format!("sender-{sender}"),
                        "receiver",
                        self.share(sender, senders),
                    );
                }
            }
            Shape::Dumbbell => {
                self.write_shape(&mut text, &format!("shape = \"dumbbell\"\npairs = {senders}"), 1.0);
                for pair in 1..=senders {
                    let flows = self.share(pair, senders);
                    self.write_flow(&mut text, &format!("left-{pair}"), &format!("right-{pair}"), flows);
                }
            }
            Shape::ParkingLot => {
                self.write_shape(&mut text, "shape = \"parking-lot\"\nhops = 2", 2.0);
                self.write_flow(&mut text, "source", "sink", self.share(1, 3));
                for hop in 1..=2 {
                    self.write_flow(
                        &mut text,
                        &format!("in-{hop}"),
                        &format!("out-{hop}"),
                        self.share(hop + 1, 3),
                    );
                }
            }
        }
        text
    }

    /// Of all flows, those of the sender of that number, from 1 on.
    fn share(&self, sender: u32, senders: u32) -> u32 {
        self.flows / senders + u32::from(sender <= self.flows % senders)
    }

    /// The keys of one of so many bottlenecks on the longest path.
    fn link(&self, between: &str, links: f64) -> String {
        let Point { rate_bps, rtt_ms, buffer_packets, loss_percent, .. } = self;
        let mut keys = vec![
            format!("rate = \"{rate_bps} bit/s\""),
            format!("delay = \"{:.6} ms\"", rtt_ms / 2.0 / links),
            format!("buffer = \"{buffer_packets} packets\""),
        ];
        if *loss_percent > 0.0 {
            keys.push(format!("loss = \"{loss_percent} %\""));
        }
        if self.hosts == Hosts::Ecn {
            keys.push(format!("ecn = \"{} packets\"", libm::floor(buffer_packets / 4.0)));
        }
        keys.join(between)
    }

    fn write_shape(&self, text: &mut String, shape: &str, links: f64) {
        let bottleneck = self.link(", ", links);
        let _ = writeln!(text, "[topology]\n{shape}\nedge = {{}}\nbottleneck = {{ {bottleneck} }}");
    }

    fn write_flow(&self, text: &mut String, from: &str, to: &str, count: u32) {
        let (bytes, algorithm) = (self.flow_bytes, self.algorithm);
        if count > 0 {
            let _ = writeln!(
                text,
                "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\ncount = {count}\nsize = \"{bytes} B\"\nalgorithm = \"{algorithm}\"\nstart = {{ uniform = [\"0 s\", \"{START_WITHIN_MS} ms\"] }}"
            );
        }
    }
}

/// What slow start sends in the time after handshake and request.
fn slow_start_bytes(rtt_s: f64) -> f64 {
    let rounds = libm::floor(BOUNDED_S / rtt_s - 1.0).max(1.0);
    INITIAL_WINDOW_SEGS * (libm::pow(2.0, rounds.min(40.0)) - 1.0) * PAYLOAD_BYTES
}

/// What Reno sends over random loss (Mathis and others 1997).
fn reno_bytes(rtt_s: f64, loss: f64) -> f64 {
    BOUNDED_S / rtt_s * PAYLOAD_BYTES * libm::sqrt(1.5 / loss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_scenario::Scenario;

    fn all() -> Vec<Point> {
        (1..=POINTS).map(Point::of_number).collect()
    }

    #[test]
    fn every_point_is_a_scenario_that_both_homes_can_run() {
        for point in all() {
            let text = point.text(1);
            let scenario =
                Scenario::parse("p", &text).unwrap_or_else(|e| panic!("{}: {e}\n{text}", point.number));
            for on in [crate::job::Home::Sim, crate::job::Home::Lab] {
                on.check(&scenario).unwrap_or_else(|e| panic!("{}: {e}", point.describe()));
            }
            assert_eq!(scenario.flows.len(), point.flows as usize, "{}", point.describe());
        }
    }

    #[test]
    fn the_domain_is_covered() {
        let points = all();
        let share =
            |is: fn(&Point) -> bool| points.iter().filter(|p| is(p)).count() as f64 / f64::from(POINTS);
        let about = |is: fn(&Point) -> bool, part: f64| {
            assert!((share(is) - part).abs() < 0.06, "{} {part}", share(is));
        };
        about(|p| p.rate_bps < 1e6, 5.0 / 6.0 / 4.0);
        about(|p| p.rate_bps > 1e8, 5.0 / 6.0 / 4.0 + 1.0 / 6.0);
        about(|p| p.rtt_ms < 2.0, 5.0 / 6.0 * 0.288 + 1.0 / 6.0);
        about(|p| p.rtt_ms > 60.0, 5.0 / 6.0 * 0.288);
        about(|p| p.hosts == Hosts::NoSack, 0.2);
        about(|p| p.hosts == Hosts::Ecn, 0.3);
        about(|p| p.loss_percent > 0.0, 5.0 / 6.0 * 0.25);
        about(|p| p.shape == Shape::ParkingLot, 5.0 / 6.0 * 0.15);
        about(|p| p.algorithm == "bbr", 1.0 / 3.0);
        assert!(points.iter().any(|p| p.flows >= 45) && share(|p| p.flows == 1) > 0.4);
        for p in &points {
            assert!(
                (1e5..=1e9).contains(&p.rate_bps) && (0.2..=600.0).contains(&p.rtt_ms),
                "{}",
                p.describe()
            );
        }
    }

    #[test]
    fn transfers_last_seconds_at_most() {
        for p in all() {
            let least_s = p.flow_bytes * f64::from(p.flows) * 8.0 / p.rate_bps;
            assert!(least_s < 1.4, "{}: {least_s} s", p.describe());
        }
    }
}
