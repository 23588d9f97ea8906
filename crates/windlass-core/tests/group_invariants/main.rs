//! What holds of coupled flows under any order of events (I1 to I8), and with real controllers.

use proptest::{
    prelude::*,
    test_runner::{TestCaseResult, TestRunner},
};
use std::cell::RefCell;
use windlass_core::{
    Group, GroupRule, MemberId,
    abi::{self, wl_group_config, wl_group_reply, wl_group_report},
};

mod growth;
mod world;

use world::{Event, Flow, World, event, founders, weights};

const MSS: u32 = 1448;
const RTT_US: u32 = 50_000;
const FIRST_SEGS: u32 = 4000; // large enough that no share meets the floor of two segments

fn config(rule: &str, flags: u32) -> wl_group_config {
    wl_group_config { rule: GroupRule::by_name(rule).unwrap().id(), flags, ..wl_group_config::default() }
}

/// What was looked at in all cases together: a test that skips what it is there for would pass as well.
#[derive(Default)]
struct Seen {
    cases: u32,
    events: u32,
    joins: u32,
    leaves: u32,
    losses: u32,
    answers: u32,
    timeouts: u32,
    /// Of members that spoke and have more than the smallest window.
    shares: u32,
    /// Cases at whose end two members or more were looked at.
    ends: u32,
}

/// I5: the member has what its weight gives it, or two segments.
fn has_its_share(w: &World, i: usize, share: u32, seen: &mut Seen) -> TestCaseResult {
    let due = w.fraction(i) * w.sum_bytes();
    let bounded = due.max(f64::from(2 * MSS)).min(f64::from(abi::WL_CWND_MAX_BYTES));
    prop_assert!((f64::from(share) - bounded).abs() <= 1.01, "I5: {share}, due {due}");
    seen.shares += u32::from(due >= f64::from(2 * MSS));
    Ok(())
}

/// One event in the life of the group.
fn happens(w: &mut World, event: &Event, cut_at_us: &mut u32, seen: &mut Seen) -> TestCaseResult {
    let (who, members, earlier) = (w.who(event), w.group.len(), *w.group.state());
    let reply = w.step(event);
    let now = *w.group.state();
    let (before, after) = (earlier.sum_cwnd_q16, now.sum_cwnd_q16);
    if now.cuts != earlier.cuts {
        // below that no member goes
        prop_assert!(after < before || before <= u64::from(MSS) << 16, "a reduction that reduces nothing");
        *cut_at_us = w.now_us;
    }
    match event {
        Event::Join(_) if members > 0 => {
            prop_assert_eq!(before, after, "I4");
            seen.joins += 1;
        }
        Event::Leave(_) if !w.group.is_empty() => {
            prop_assert_eq!(before, after, "I4");
            seen.leaves += 1;
        }
        Event::Loss(_) => {
            prop_assert!(reply.is_none_or(|r| r.is_change == 0), "I6");
            prop_assert_eq!(before, after, "nothing moves on entering recovery");
            seen.losses += u32::from(reply.is_some());
        }
        Event::Timeout(_) if members > 1 && earlier.timed_out == 0 => {
            prop_assert_eq!(before, after, "I7");
            seen.timeouts += u32::from(reply.is_some());
        }
        Event::Recovered(_) => {
            prop_assert!(2 * after + 65536 >= before, "at most a halving");
            // what was lost had been sent a round trip before
            prop_assert!(
                reply.is_none() || *cut_at_us + RTT_US > w.flows[who.unwrap()].lost_at_us,
                "a loss without an answer"
            );
            seen.answers += u32::from(after < before);
        }
        Event::Acks(..) => prop_assert!(after >= before),
        Event::Ask(_) | Event::Weight(..) => prop_assert_eq!(before, after),
        // time begins at 0, and no reduction is that early
        Event::Anew(_) => *cut_at_us = 0,
        _ => {}
    }
    prop_assert_eq!(w.group.len(), w.flows.len());
    // counts are what a walk over all members would count
    let in_slow_start = w.flows.iter().filter(|f| f.state == abi::WL_MEMBER_SLOW_START).count();
    prop_assert_eq!(now.in_slow_start as usize, in_slow_start);
    if w.flows.len() > members {
        let joined = w.flows.len() - 1;
        has_its_share(w, joined, w.flows[joined].cwnd_bytes, seen)?;
    } else if let Some(reply) = reply.filter(|r| r.is_change != 0) {
        has_its_share(w, who.unwrap(), reply.cwnd_bytes, seen)?;
    }
    Ok(())
}

/// At the end all members that are not in recovery are looked at: those that are leave, which changes nothing.
fn ends(w: &mut World, seen: &mut Seen) -> TestCaseResult {
    let before = w.sum_bytes();
    let (gone, flows) = w.flows.drain(..).partition(|f| f.state == abi::WL_MEMBER_RECOVERY);
    w.flows = flows;
    let gone: Vec<Flow> = gone;
    gone.iter().for_each(|f| w.group.leave(f.id).unwrap());
    if w.flows.is_empty() {
        return Ok(());
    }
    prop_assert_eq!(before, w.sum_bytes(), "I4");
    let mut total = 0.0;
    for i in 0..w.flows.len() {
        let share = w.group.ask(w.flows[i].id).unwrap().cwnd_bytes;
        has_its_share(w, i, share, seen)?;
        total += f64::from(share);
    }
    // the smallest windows, and the largest there are, may add up to more or less than the aggregate
    let bounds = f64::from(2 * MSS)..f64::from(abi::WL_CWND_MAX_BYTES);
    if (0..w.flows.len()).all(|i| bounds.contains(&(w.fraction(i) * w.sum_bytes()))) {
        prop_assert!(
            (total - w.sum_bytes()).abs() <= 1.01 * w.flows.len() as f64,
            "I1: {total}, {}",
            w.sum_bytes()
        );
        seen.ends += u32::from(w.flows.len() > 1);
    }
    Ok(())
}

/// I1 shares add up to the aggregate; I4 joining and leaving do not change it; I5 shares are as weights; I6 recovery is not
/// answered; I7 one flow's timeout among others does not change the aggregate. Every loss is answered by the time that
/// recovery from it is over, if not by it: whichever others are in recovery, in slow start or gone, and however small its share.
#[test]
fn coupled_flows_keep_their_invariants() {
    let seen = RefCell::new(Seen::default());
    let lives = (founders(), proptest::collection::vec(event(), 1..200));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(400));
    let result = runner.run(&lives, |(founders, events)| {
        let seen = &mut *seen.borrow_mut();
        let mut w = World::new("ccc", abi::WL_GROUP_NO_ACK_CLOCK);
        w.now_us = 10 * RTT_US;
        w.found(&founders);
        let mut cut_at_us = 0;
        events.iter().try_for_each(|event| happens(&mut w, event, &mut cut_at_us, seen))?;
        seen.cases += 1;
        seen.events += events.len() as u32;
        ends(&mut w, seen)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let seen = seen.into_inner();
    assert!(4 * seen.shares >= seen.events, "{} shares after {} events", seen.shares, seen.events);
    assert!(2 * seen.ends >= seen.cases, "{} ends of {} cases", seen.ends, seen.cases);
    for (what, n) in [
        ("joins", seen.joins),
        ("leaves", seen.leaves),
        ("losses", seen.losses),
        ("answers", seen.answers),
        ("timeouts", seen.timeouts),
    ] {
        assert!(n >= seen.cases, "{n} {what} in {} cases", seen.cases);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// I3: however many flows lose to one overload, however small their shares are, and in whatever order they notice and
    /// recover, the aggregate is halved once. Nothing is reduced before the first has recovered, a round trip after its loss;
    /// what is sent until then is sent into the same overload, and its loss noticed up to another round trip later.
    #[test]
    fn a_loss_event_halves_the_aggregate_once(
        all in proptest::collection::vec(weights(), 1..20),
        losers in proptest::collection::vec((0..20usize, 0..2 * RTT_US), 1..20),
        lead in 0..20usize,
    ) {
        let mut w = World::new("ccc", abi::WL_GROUP_NO_ACK_CLOCK);
        w.found(&all);
        let members = all.len();
        w.flows.iter_mut().for_each(|f| f.ssthresh_bytes = 0);
        for i in 0..members {
            // out of slow start, at the share
            w.step(&Event::Ask(i));
            let report = w.report(i, abi::WL_MEMBER_AVOIDANCE, w.flows[i].cwnd_bytes);
            w.update(i, &report);
        }
        w.step(&Event::Wait(10 * RTT_US));
        w.step(&Event::Acks(lead, 10));
        let before = w.sum_bytes();
        let start_us = w.now_us;
        let mut loses: Vec<_> = losers.iter().map(|&(i, us)| (us, i % members)).collect();
        loses.sort();
        loses.dedup_by_key(|l| l.1);
        // each recovery is a round trip long, with duplicate ACKs on the way
        let first_us = loses[0].0;
        let mut seen = std::collections::HashSet::new();
        let mut timeline = Vec::new();
        for (us, i) in loses {
            if seen.insert(i) {
                let us = us - first_us;
                timeline.push((us, 0, i));
                timeline.extend((1..8).map(|eighth| (us + eighth * RTT_US / 8, 1, i)));
                timeline.push((us + RTT_US, 2, i));
            }
        }
        timeline.sort();
        for (us, what, i) in timeline {
            w.now_us = start_us + us;
            match what {
                0 => w.step(&Event::Loss(i)),
                1 => {
                    let report = w.report(i, abi::WL_MEMBER_RECOVERY, w.flows[i].cwnd_bytes);
                    Some(w.update(i, &report))
                }
                _ => Some(w.recovers(i)),
            };
        }
        let ratio = w.sum_bytes() / before;
        prop_assert!((ratio - 0.5).abs() < 0.001, "{ratio}");
    }

    /// I8: a joiner gets at most two segments for each ACK of the others.
    #[test]
    fn a_joiner_does_not_burst(
        sum_segs in 10..2000u32,
        acks_per_round in 1..500u32,
        batch in 1..4u32,
        joiners in 1..5usize,
    ) {
        let mut w = World::new("ccc", 0);
        w.join(1, None, sum_segs);
        let ack = |w: &mut World, acks| {
            let report = wl_group_report { acks, ..w.report(0, abi::WL_MEMBER_AVOIDANCE, w.flows[0].cwnd_bytes) };
            w.update(0, &report);
        };
        for _ in 0..2 * acks_per_round {
            w.now_us += RTT_US / acks_per_round;
            ack(&mut w, 1);
        }
        for _ in 0..joiners {
            w.step(&Event::Join((1, None)));
            let joined = w.flows.last().unwrap().cwnd_bytes;
            prop_assert!(joined <= 2 * MSS, "{joined}");
        }
        for _ in 0..3 * acks_per_round {
            w.now_us += RTT_US / acks_per_round;
            ack(&mut w, batch);
            for i in 1..=joiners {
                let before = w.flows[i].cwnd_bytes;
                w.step(&Event::Ask(i));
                let burst = w.flows[i].cwnd_bytes.saturating_sub(before);
                prop_assert!(burst <= 2 * MSS * batch, "{burst}");
            }
        }
    }

    /// Any report whatever, to any rule: windows keep their bounds, counts their sense, and an empty group is empty.
    #[test]
    fn no_report_breaks_a_rule(
        rule in 1..=8u32,
        flags in 0..8u32,
        aggressiveness_q8 in prop_oneof![Just(0u32), 1..100_000u32, any::<u32>()],
        reports in proptest::collection::vec(
            (0..8u8, 0..6usize, any::<[u32; 8]>(), (0..4u8, 0..8u8, 0..2u8), 1..3000u32), 1..300),
    ) {
        let config = wl_group_config { rule, flags, aggressiveness_q8, max_members: 5, idle_us: 20_000_000 };
        let mut g = Group::new(&config).unwrap();
        let tenants = [g.add_tenant(1), g.add_tenant(0)];
        let mut members: Vec<MemberId> = Vec::new();
        let mut now_us = u32::MAX - 1000;
        for (call, who, x, (state, is_timeout, limited), mss) in reports {
            now_us = now_us.wrapping_add(x[0] % 3_000_000);
            let report = wl_group_report {
                now_us: now_us.wrapping_sub(x[0] % 7),
                mss_bytes: mss,
                weight: x[1] % 5,
                cwnd_bytes: if x[2] % 4 == 0 { x[3] } else { x[3] % 1_000_000 },
                ssthresh_bytes: x[4],
                srtt_us: x[5] % 1_000_000,
                acked_bytes: x[6],
                acks: x[7] % 100,
                inflight_bytes: x[3].rotate_left(7),
                desired_bytes: if x[2] % 3 == 0 { x[6] % 1_000_000 } else { 0 },
                state,
                is_timeout: (is_timeout == 0).into(),
                is_cwnd_limited: limited,
                is_undo: limited & 1,
            };
            let reply = match call {
                0 => g.register([None, Some(tenants[0]), Some(tenants[1])][who % 3], &report).map(|(id, reply)| {
                    members.push(id);
                    reply
                }),
                1 if !members.is_empty() => {
                    let _ = g.leave(members.swap_remove(who % members.len()));
                    continue;
                }
                2 if !members.is_empty() => g.ask(members[who % members.len()]),
                _ if !members.is_empty() => g.update(members[who % members.len()], &report),
                _ => continue,
            };
            members.retain(|&m| g.member(m).is_ok());
            if let Ok(r) = reply
                && r.is_change != 0
            {
                prop_assert!(r.cwnd_bytes >= 1 && r.cwnd_bytes <= abi::WL_CWND_MAX_BYTES, "{r:?}");
                prop_assert!(r.state != abi::WL_MEMBER_RECOVERY, "{r:?}");
            }
            let s = g.state();
            prop_assert!(s.sum_cwnd_q16 <= 1 << 56, "{s:?}");
            prop_assert!(s.in_slow_start <= s.members, "{s:?}");
            prop_assert!(s.timed_out <= s.members, "{s:?}");
            prop_assert!(s.fse.capped_q31 <= 1 << 31 || s.members > 1, "{s:?}");
            prop_assert_eq!(g.len(), members.len());
            if g.is_empty() {
                prop_assert_eq!((s.sum_weight, s.sum_cwnd_q16, s.coco_id, s.fse.capped_bytes, s.lisa.lender_id), (0, 0, 0, 0, 0));
            }
        }
    }
}
