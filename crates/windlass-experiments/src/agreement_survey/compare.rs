//! What the runs of each point come to in both homes, and the claims about that.

use super::point::Point;
use crate::{
    claim::{Side, Verdict, of_point},
    metric::{Metric, Selection, Statistic},
    record::RunRecord,
    stats,
};

/// The simulator, real kernels, and the simulator with other seeds.
pub const VARIANTS: [&str; 3] = ["sim", "lab", "sim-again"];

/// Most difference in completion times that counts as agreement ...
pub const TIME_MOST: f64 = 0.10;
/// ... in mean queues ...
pub const QUEUE_MOST: f64 = 0.20;
/// ... where a difference of half a packet always does, ...
pub const QUEUE_PACKETS: f64 = 0.5;
/// ... and in Jain's index.
const JAIN_MOST: f64 = 0.1;
/// Nothing may be off by more times than this.
const FACTOR_MOST: f64 = 2.0;
/// Share of points that must agree.
const SHARE_LEAST: f64 = 0.90;

/// What one home measured at a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Median completion time of all flows of all runs.
    pub time_s: f64,
    /// Median of the runs' mean queues in front of the bottleneck until the last flow was complete, in packets, what is being sent
    /// included.
    pub queue_packets: f64,
    /// Median of Jain's index of the flows' goodputs; none: there is one flow.
    pub jain: Option<f64>,
}

impl Measured {
    /// Of these runs; none: one of them is worth nothing.
    pub fn of(point: &Point, runs: &[&RunRecord]) -> Option<Measured> {
        let number = |metric| of_point(metric, Some(Statistic::Median), runs, &Selection::default());
        let jain = if point.flows > 1 { Some(number(Metric::Jain)?) } else { None };
        let queues: Option<Vec<f64>> =
            runs.iter().map(|run| mean_queue_packets(run, point.shape.bottleneck())).collect();
        Some(Measured { time_s: number(Metric::Completion)?, queue_packets: stats::median(&queues?)?, jain })
    }
}

/// The mean queue of a link until the last flow was complete; none: a flow was not. A simulated link is in use until the last FIN is
/// acknowledged, a real one is taken down before: what there was of a queue is the same, but not how long its mean is over.
fn mean_queue_packets(run: &RunRecord, link: &str) -> Option<f64> {
    let stats = &run.links.iter().find(|l| l.name == link)?.stats;
    // what is queued, and what is being sent, each summed over the time of use
    let beyond_sending = stats.mean_queue_packets - stats.utilisation;
    let in_use_s = match beyond_sending > 1e-9 {
        true => stats.queued_ns as f64 / 1e9 / beyond_sending,
        false => stats.bytes as f64 * 8.0 / stats.mean_rate_bps,
    };
    let complete_s: Option<Vec<f64>> =
        run.flows.iter().map(|f| Some(f.started_s + f.completion_s?)).collect();
    let complete_s = complete_s?.into_iter().reduce(f64::max)?;
    Some(stats.mean_queue_packets * in_use_s / complete_s)
}

/// One home's numbers beside another's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Of completion times.
    pub time: f64,
    /// Of mean queues.
    pub queue: f64,
    /// Whether these are so near that their ratio means nothing.
    is_queue_near: bool,
    /// Difference of Jain's indices.
    pub jain: f64,
}

/// How many times as much, or as little.
fn factor(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio)
}

impl Ratio {
    fn of(sim: Measured, lab: Measured) -> Ratio {
        Ratio {
            time: sim.time_s / lab.time_s,
            queue: sim.queue_packets / lab.queue_packets,
            is_queue_near: (sim.queue_packets - lab.queue_packets).abs() <= QUEUE_PACKETS,
            jain: sim.jain.zip(lab.jain).map_or(0.0, |(sim, lab)| sim - lab),
        }
    }

    /// Whether completion times agree.
    pub fn agrees_in_time(&self) -> bool {
        (self.time - 1.0).abs() <= TIME_MOST
    }

    /// Whether mean queues agree.
    pub fn agrees_in_queue(&self) -> bool {
        self.is_queue_near || (self.queue - 1.0).abs() <= QUEUE_MOST
    }

    /// Whether the flows share alike.
    pub fn agrees_in_fairness(&self) -> bool {
        self.jain.abs() <= JAIN_MOST
    }

    fn time_factor(&self) -> f64 {
        factor(self.time)
    }

    fn queue_factor(&self) -> f64 {
        if self.is_queue_near { 1.0 } else { factor(self.queue) }
    }
}

/// The runs of a point.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The point.
    pub point: Point,
    /// In each of [`VARIANTS`].
    pub measured: [Measured; VARIANTS.len()],
    /// Simulated beside real.
    pub ratio: Ratio,
    /// The simulator with other seeds beside real.
    pub again: Ratio,
    /// Simulated beside simulated with other seeds: what chance does.
    pub chance: Ratio,
    /// The shortest and the longest time, and the smallest and the largest queue, of each run by itself.
    pub spans: [Spans; VARIANTS.len()],
    /// Real runs, and as many simulated ones with the same seeds.
    pub runs: usize,
}

/// Between what the runs of a home lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spans {
    /// Median completion times.
    pub time_s: (f64, f64),
    /// Mean queues.
    pub queue_packets: (f64, f64),
}

impl Spans {
    fn of(point: &Point, runs: &[&RunRecord]) -> Option<Spans> {
        let each: Vec<Measured> = runs.iter().filter_map(|run| Measured::of(point, &[run])).collect();
        let span = |of: fn(&Measured) -> f64| {
            let numbers: Vec<f64> = each.iter().map(of).collect();
            Some((stats::quantile(&numbers, 0.0)?, stats::quantile(&numbers, 1.0)?))
        };
        Some(Spans { time_s: span(|m| m.time_s)?, queue_packets: span(|m| m.queue_packets)? })
    }
}

/// The points that were measured in both homes, and of the rest the names.
pub fn compare(points: &[Point], runs: &[RunRecord]) -> (Vec<Compared>, Vec<Point>) {
    let (mut compared, mut missing) = (Vec::new(), Vec::new());
    for point in points {
        let name = point.name();
        let of = |variant: &str| -> Vec<&RunRecord> {
            runs.iter().filter(|r| r.point == name && r.variant == variant).collect()
        };
        let of = VARIANTS.map(of);
        let measured = of.each_ref().map(|runs| Measured::of(point, runs));
        let spans = of.each_ref().map(|runs| Spans::of(point, runs));
        match (measured, spans) {
            ([Some(sim), Some(lab), Some(again)], [Some(a), Some(b), Some(c)]) => compared.push(Compared {
                point: *point,
                measured: [sim, lab, again],
                ratio: Ratio::of(sim, lab),
                again: Ratio::of(again, lab),
                chance: Ratio::of(again, sim),
                spans: [a, b, c],
                runs: of[1].len(),
            }),
            _ => missing.push(*point),
        }
    }
    (compared, missing)
}

/// Share of points at which it is so.
pub fn share(compared: &[Compared], is_so: impl Fn(&Compared) -> bool) -> Option<f64> {
    (!compared.is_empty())
        .then(|| compared.iter().filter(|c| is_so(c)).count() as f64 / compared.len() as f64)
}

/// The claims. `missing`: points that were not measured, of which nothing is known; `planned` runs should have been there.
pub fn judge(compared: &[Compared], missing: &[Point], runs: usize, planned: usize) -> Vec<Verdict> {
    let claim = |id: &str, ours: Option<f64>, side: Side, bound: f64, note: String| {
        let holds = ours.is_some_and(|ours| match side {
            Side::AtMost => ours <= bound,
            Side::AtLeast => ours >= bound,
        });
        let sign = if side == Side::AtMost { "<=" } else { ">=" };
        let verdict = Verdict {
            id: id.into(),
            ours,
            bound: format!("{sign} {bound}"),
            holds: holds && missing.is_empty(),
            runs,
            note: if missing.is_empty() {
                note
            } else {
                format!("{note}; {} points not measured", missing.len())
            },
            ..Verdict::default()
        };
        verdict.of_planned(planned)
    };
    let shares = |id: &str, is_so: fn(&Ratio) -> bool| {
        let (again, chance) = (share(compared, |c| is_so(&c.again)), share(compared, |c| is_so(&c.chance)));
        let percent = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.3}", share));
        let note = format!("other seeds {}; simulator beside itself {}", percent(again), percent(chance));
        claim(id, share(compared, |c| is_so(&c.ratio)), Side::AtLeast, SHARE_LEAST, note)
    };
    let worst = |id: &str, of: fn(&Ratio) -> f64, bound: f64| {
        let worst = compared.iter().max_by(|a, b| of(&a.ratio).total_cmp(&of(&b.ratio)));
        let beyond = compared.iter().filter(|c| of(&c.ratio) > bound).count();
        let note = worst.map_or("no point".into(), |c| format!("{}; {beyond} points beyond", c.point.name()));
        claim(id, worst.map(|c| of(&c.ratio)), Side::AtMost, bound, note)
    };
    vec![
        shares("both", |r| r.agrees_in_time() && r.agrees_in_queue()),
        shares("time", Ratio::agrees_in_time),
        shares("queue", Ratio::agrees_in_queue),
        worst("worst-time", Ratio::time_factor, FACTOR_MOST),
        worst("worst-queue", Ratio::queue_factor, FACTOR_MOST),
        worst("worst-jain", |r| r.jain.abs(), JAIN_MOST),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_scenario::{FlowReport, LinkReport, LinkStats};

    fn measured(time_s: f64, queue_packets: f64, jain: f64) -> Measured {
        Measured { time_s, queue_packets, jain: Some(jain) }
    }

    fn compared(sim: Measured, lab: Measured) -> Compared {
        let spans = Spans { time_s: (1.0, 1.0), queue_packets: (1.0, 1.0) };
        Compared {
            point: Point::of_number(1),
            measured: [sim, lab, sim],
            ratio: Ratio::of(sim, lab),
            again: Ratio::of(sim, lab),
            chance: Ratio::of(sim, sim),
            spans: [spans; VARIANTS.len()],
            runs: 3,
        }
    }

    /// A simulated run is over a round trip after a real one, once the last FIN is acknowledged.
    #[test]
    fn a_mean_queue_is_until_the_last_flow_was_complete() {
        let run = |ended_s: f64| {
            let flow = |completion_s| FlowReport { completion_s, ..FlowReport::default() };
            let stats = LinkStats {
                queued_ns: 20_000_000_000,
                mean_queue_packets: 22.0 / ended_s,
                utilisation: 2.0 / ended_s,
                ..LinkStats::default()
            };
            RunRecord {
                ended_s,
                flows: vec![flow(Some(1.0)), flow(Some(2.0))],
                links: vec![LinkReport { name: "a > b".into(), stats, mean_queue_ms: None }],
                ..RunRecord::default()
            }
        };
        for ended_s in [2.01, 3.0] {
            let queue_packets = mean_queue_packets(&run(ended_s), "a > b").expect("all is complete");
            assert!((queue_packets - 11.0).abs() < 1e-9, "{queue_packets} packets of a run of {ended_s} s");
        }
        let mut open = run(3.0);
        open.flows[1].completion_s = None;
        assert_eq!(mean_queue_packets(&open, "a > b"), None);
    }

    #[test]
    fn a_tenth_in_time_and_a_fifth_in_queue_agree() {
        let ratio = |sim, lab| Ratio::of(sim, lab);
        let near = ratio(measured(1.09, 119.0, 0.95), measured(1.0, 100.0, 0.9));
        assert!(near.agrees_in_time() && near.agrees_in_queue() && near.agrees_in_fairness());
        let far = ratio(measured(0.89, 79.0, 0.7), measured(1.0, 100.0, 0.9));
        assert!(!far.agrees_in_time() && !far.agrees_in_queue() && !far.agrees_in_fairness());
        // a queue that is hardly there
        assert!(ratio(measured(1.0, 0.9, 1.0), measured(1.0, 0.5, 1.0)).agrees_in_queue());
    }

    #[test]
    fn one_point_of_ten_may_disagree_and_none_by_twice() {
        let good = || compared(measured(1.0, 10.0, 1.0), measured(1.0, 10.0, 1.0));
        let mut all: Vec<Compared> = (0..9).map(|_| good()).collect();
        all.push(compared(measured(1.5, 10.0, 1.0), measured(1.0, 10.0, 1.0)));
        assert!(judge(&all, &[], 1, 1).iter().all(|v| v.holds));
        all.push(compared(measured(1.0, 10.0, 1.0), measured(1.0, 25.0, 1.0)));
        let fails: Vec<String> =
            judge(&all, &[], 1, 1).into_iter().filter(|v| !v.holds).map(|v| v.id).collect();
        assert_eq!(fails, ["both", "worst-queue"]);
        assert!(judge(&[good()], &[Point::of_number(2)], 1, 1).iter().all(|v| !v.holds), "not measured");
        assert!(judge(&[good()], &[], 1, 2).iter().all(|v| !v.holds), "stopped");
    }
}
