//! I2: how fast the aggregate grows, in any order of reports, and with real controllers.

use crate::{
    world::{Event, World},
    *,
};
use windlass_core::{Algorithm, AlgorithmState, abi::wl_sample};

/// A flow in congestion avoidance that reports so many times in a round, from some part of its first on.
#[derive(Clone, Debug)]
struct Pace {
    reports: u32,
    phase_us: u32,
    /// What it does when, in rounds.
    fate: (u32, Fate),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Stays,
    Leaves,
    Vanishes,
    VanishesInRecovery,
    VanishesInSlowStart,
    Loses,
}

fn pace() -> impl Strategy<Value = Pace> {
    let fate = prop_oneof![
        2 => Just(Fate::Stays),
        1 => Just(Fate::Leaves),
        1 => Just(Fate::Vanishes),
        1 => Just(Fate::VanishesInRecovery),
        1 => Just(Fate::VanishesInSlowStart),
        2 => Just(Fate::Loses),
    ];
    (1..9u32, 0..RTT_US, 0..30u32, fate).prop_map(|(reports, phase_us, when, fate)| Pace {
        reports,
        phase_us,
        fate: (when, fate),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// I2, in any order of reports, departures and losses: in congestion avoidance the aggregate grows by no more than a segment
    /// in a round trip, whatever the number of flows. Where the lead changes hands one report may count of each. And
    /// it grows whichever member has vanished, in whichever state, as long as one flow goes on.
    #[test]
    fn the_aggregate_grows_by_a_segment_a_round_in_any_order(flows in proptest::collection::vec(pace(), 1..25)) {
        const ROUNDS: u32 = 90;
        const LATE: u32 = 60;
        let mut w = World::new("ccc", abi::WL_GROUP_NO_ACK_CLOCK);
        w.join(1, None, FIRST_SEGS);
        (0..flows.len()).for_each(|_| w.join(1, None, 10));
        for i in 0..w.flows.len() {
            w.step(&Event::Ask(i));
            let report = w.report(i, abi::WL_MEMBER_AVOIDANCE, w.flows[i].cwnd_bytes);
            w.update(i, &report);
        }
        // the first goes on whatever happens
        let mut paces = vec![Pace { reports: 4, phase_us: 0, fate: (0, Fate::Stays) }];
        paces.extend(flows);
        let mut calls: Vec<(u32, usize)> = Vec::new();
        for (i, pace) in paces.iter().enumerate() {
            let pause_us = RTT_US / pace.reports;
            calls.extend((0..ROUNDS * pace.reports).map(|n| (pace.phase_us + n * pause_us, i)));
        }
        calls.sort();
        let (mut grown, mut late, mut changes) = (0.0, 0.0, 0);
        let mut lead = w.group.state().coco_id;
        for (now_us, i) in calls {
            w.now_us = now_us;
            let flow = &w.flows[i];
            let (when, fate) = paces[i].fate;
            let is_time = now_us / RTT_US >= when && !flow.is_vanished;
            let before = w.sum_bytes();
            let part = MSS / paces[i].reports;
            match fate {
                _ if flow.is_vanished => continue,
                Fate::Leaves | Fate::Vanishes if is_time => {
                    if fate == Fate::Leaves {
                        w.group.leave(flow.id).unwrap();
                    }
                    w.flows[i].is_vanished = true;
                }
                Fate::VanishesInRecovery | Fate::VanishesInSlowStart if is_time => {
                    let report = if fate == Fate::VanishesInRecovery {
                        w.report(i, abi::WL_MEMBER_RECOVERY, flow.cwnd_bytes)
                    } else {
                        wl_group_report { is_timeout: 1, ..w.report(i, abi::WL_MEMBER_SLOW_START, MSS) }
                    };
                    w.update(i, &report);
                    w.flows[i].is_vanished = true;
                }
                Fate::Loses if now_us / RTT_US == when && flow.state != abi::WL_MEMBER_RECOVERY => {
                    let report = w.report(i, abi::WL_MEMBER_RECOVERY, flow.cwnd_bytes);
                    w.update(i, &report);
                }
                _ if flow.state == abi::WL_MEMBER_RECOVERY && now_us / RTT_US < when + 2 => {}
                _ if flow.state == abi::WL_MEMBER_RECOVERY => {
                    let report = w.report(i, abi::WL_MEMBER_AVOIDANCE, flow.cwnd_bytes / 2);
                    w.update(i, &report);
                }
                _ => {
                    let report = w.report(i, abi::WL_MEMBER_AVOIDANCE, flow.cwnd_bytes + part);
                    w.update(i, &report);
                }
            }
            let growth = (w.sum_bytes() - before).max(0.0) / f64::from(MSS);
            grown += growth;
            // all have met their fate by 32 rounds; a leader that vanished in recovery is one no more 24 rounds later
            if now_us >= LATE * RTT_US {
                late += growth;
            }
            if w.group.state().coco_id != lead {
                lead = w.group.state().coco_id;
                changes += 1;
            }
        }
        let most = f64::from(ROUNDS + 2 + changes);
        prop_assert!(grown <= most, "{grown} segments in {ROUNDS} rounds, the lead changed {changes} times");
        let least = f64::from(ROUNDS - LATE) * 0.9 - 2.0;
        prop_assert!(late >= least, "{late} segments in the last {} rounds", ROUNDS - LATE);
    }
}

/// I2, with real controllers: in congestion avoidance the aggregate grows by about a segment in a round trip, whether
/// it is one flow, four or fifty. Without the group it would be as many segments as flows.
#[test]
fn the_aggregate_grows_by_a_segment_a_round_whatever_the_number_of_flows() {
    for flows in [1usize, 4, 50] {
        let mut g = Group::new(&config("ccc", abi::WL_GROUP_NO_ACK_CLOCK)).unwrap();
        let each_segs = 12;
        let sample = |now_us| wl_sample {
            now_us,
            mss_bytes: MSS,
            newly_delivered_bytes: MSS,
            srtt_us: RTT_US,
            is_cwnd_limited: 1,
            ..wl_sample::default()
        };
        let report = |now_us, a: &AlgorithmState| wl_group_report {
            now_us,
            mss_bytes: MSS,
            cwnd_bytes: a.decision.cwnd_bytes,
            ssthresh_bytes: a.decision.ssthresh_bytes,
            srtt_us: RTT_US,
            acks: 1,
            acked_bytes: MSS,
            state: abi::WL_MEMBER_AVOIDANCE as u8,
            is_cwnd_limited: 1,
            ..wl_group_report::default()
        };
        let mut all: Vec<(MemberId, AlgorithmState)> = (0..flows)
            .map(|_| {
                let mut a = AlgorithmState::new(Algorithm::by_name("reno").unwrap(), &sample(0));
                a.decision.cwnd_bytes = each_segs * flows as u32 * MSS;
                let (id, reply) = g.register(None, &report(0, &a)).unwrap();
                a.decision.cwnd_bytes = reply.cwnd_bytes;
                a.decision.ssthresh_bytes = 1;
                (id, a)
            })
            .collect();
        for (id, a) in &mut all {
            a.decision.cwnd_bytes = g.ask(*id).unwrap().cwnd_bytes;
        }
        let start = g.state().sum_cwnd_q16 >> 16;
        let rounds = 60;
        for round in 0..rounds {
            // an ACK for each segment of each window, interleaved
            let most = all.iter().map(|(_, a)| a.decision.cwnd_bytes / MSS).max().unwrap();
            for i in 0..most {
                for (id, a) in &mut all {
                    let now_us = round * RTT_US + i * (RTT_US / (most + 1));
                    a.on_ack(&sample(now_us));
                    let reply = g.update(*id, &report(now_us, a)).unwrap();
                    a.decision.cwnd_bytes = reply.cwnd_bytes;
                }
            }
        }
        let grown_segs = ((g.state().sum_cwnd_q16 >> 16) - start) as f64 / f64::from(MSS);
        let per_round = grown_segs / f64::from(rounds);
        assert!((0.8..=1.0 + 1.0 / 12.0).contains(&per_round), "{flows} flows: {per_round} segments a round");
    }
}

/// I2 and I4, with real controllers that follow a curve: what a joiner is given, the others do not take back as growth. The
/// aggregate grows by what one flow alone would have grown, or by a segment a round, as a joiner does that knows of no curve
/// (Linux' CUBIC before its first loss by 5 % of its window). Before, one joiner of CUBIC made it 144 segments.
#[test]
fn what_joiners_are_given_is_not_grown_back() {
    for (name, joiners) in [("reno", 1), ("cubic", 1), ("cubic", 9), ("kcubic", 1), ("kcubic", 9)] {
        let [alone, grown] = [0, joiners].map(|joiners| grown_in_30_rounds(name, joiners));
        let most = 1.5 * alone.max(30.0);
        assert!(0.0 < grown && grown <= most, "{name}, {joiners} joiner(s): {grown} segments, alone {alone}");
    }
}

/// Segments by which a group of one with 100 segments, right behind a loss and then 5 s of its curve, grows in the 30 rounds after
/// others have joined.
fn grown_in_30_rounds(name: &str, joiners: usize) -> f64 {
    let mut g = Group::new(&config("ccc", abi::WL_GROUP_NO_ACK_CLOCK)).unwrap();
    let sample = |now_us| wl_sample {
        now_us,
        mss_bytes: MSS,
        acked_bytes: MSS,
        newly_delivered_bytes: MSS,
        srtt_us: RTT_US,
        min_rtt_us: RTT_US,
        is_cwnd_limited: 1,
        ..wl_sample::default()
    };
    let mut flows: Vec<(MemberId, AlgorithmState)> = Vec::new();
    let join = |g: &mut Group, flows: &mut Vec<(MemberId, AlgorithmState)>, now_us, cwnd_segs: u32| {
        let mut a = AlgorithmState::new(Algorithm::by_name(name).unwrap(), &sample(now_us));
        a.decision.cwnd_bytes = cwnd_segs * MSS;
        if cwnd_segs > 10 {
            a.on_congestion(
                &wl_sample { inflight_before_bytes: cwnd_segs * MSS, ..sample(now_us) },
                abi::WL_CONGESTION_LOSS,
            );
        }
        let id = g.join(None, 1, &sample(now_us), &mut a.decision).unwrap();
        flows.push((id, a));
    };
    join(&mut g, &mut flows, 0, 140);
    let mut before = 0;
    for round in 0..80 {
        if round == 50 {
            (0..joiners).for_each(|_| join(&mut g, &mut flows, round * RTT_US, 10));
            before = g.state().sum_cwnd_q16;
        }
        let most = flows.iter().map(|(_, a)| a.decision.cwnd_bytes / MSS).max().unwrap();
        for i in 0..most {
            for (id, a) in flows.iter_mut().filter(|(_, a)| i < a.decision.cwnd_bytes / MSS) {
                let s = sample(round * RTT_US + i * (RTT_US / (most + 1)));
                a.on_ack(&s);
                g.exchange(*id, 1, &s, &mut a.decision).unwrap();
            }
        }
    }
    (g.state().sum_cwnd_q16 - before) as f64 / 65536.0 / f64::from(MSS)
}
