//! What a group makes of its members' losses: each is answered, once, and one that was none is undone.

use crate::*;
use windlass_core::abi::{wl_decision, wl_sample};

/// How a member behaves that stays in recovery.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stays {
    /// It reports it in each round.
    Repeats,
    /// It reported it once, and reports nothing more.
    Vanishes,
    /// It leaves without a reduction and loses again, in each round.
    Returns,
}

/// What is left of the aggregate after each of three losses of the second of two members, five rounds apart, while the first
/// stays in recovery.
fn losses_beside(rule: &str, stays: Stays) -> Vec<f64> {
    let mut g = Group::new(&wl_group_config { aggressiveness_q8: 256, ..config(rule) }).unwrap();
    let all = in_avoidance(&mut g, 2, 400.0);
    let held = |g: &Group, i: usize| f64::from(g.member(all[i]).unwrap().cwnd_bytes) / f64::from(MSS);
    let mut left = Vec::new();
    for round in 1..10 {
        // cm begins with ten segments, whatever its members report
        g.update(
            all[1],
            &wl_group_report { acked_bytes: u32::MAX, ..avoidance(round * RTT_US, held(&g, 1)) },
        )
        .unwrap();
    }
    g.update(all[0], &recovery(10 * RTT_US, held(&g, 0))).unwrap();
    for event in 3..=5 {
        let before = sum_segs(&g);
        for round in 0..5 {
            let now_us = (5 * event + round) * RTT_US;
            if stays == Stays::Returns {
                g.update(all[0], &avoidance(now_us, held(&g, 0))).unwrap();
            }
            if stays != Stays::Vanishes {
                g.update(all[0], &recovery(now_us + 1, held(&g, 0))).unwrap();
            }
            let said = match round {
                0 => recovery(now_us + 2, held(&g, 1)),
                1 => avoidance(now_us + 2, held(&g, 1) / 2.0),
                // nothing new
                _ => avoidance(now_us + 2, held(&g, 1)),
            };
            g.update(all[1], &said).unwrap();
        }
        left.push(sum_segs(&g) / before);
    }
    left
}

/// Whether a loss is answered does not depend on which others are in recovery, or report it, or report nothing any more.
#[test]
fn a_member_that_stays_in_recovery_takes_away_nobodys_reaction() {
    for rule in ["ccc", "multcp", "etcp", "cm"] {
        for stays in [Stays::Repeats, Stays::Vanishes, Stays::Returns] {
            // with these a member that enters recovery again claims a loss of its own each time
            if stays == Stays::Returns && ["etcp", "cm"].contains(&rule) {
                continue;
            }
            let left = losses_beside(rule, stays);
            assert!(left.iter().all(|&part| close(part, 0.5)), "{rule} {stays:?}: {left:?}");
        }
    }
}

/// A leader in recovery has its reaction to make, for four rounds and a retransmission timeout; then the lead is another's.
#[test]
fn a_leader_that_stays_in_recovery_does_not_keep_the_group_from_growing() {
    for stays in [Stays::Repeats, Stays::Vanishes] {
        let mut g = group("ccc");
        let all = in_avoidance(&mut g, 2, 20.0);
        g.update(all[0], &recovery(RTT_US, 20.0)).unwrap();
        for round in 2..60 {
            let now_us = round * RTT_US;
            if stays == Stays::Repeats {
                g.update(all[0], &recovery(now_us, 20.0)).unwrap();
            }
            let share = ask(&mut g, all[1]);
            g.update(all[1], &avoidance(now_us, share + 1.0)).unwrap();
            let patience_rounds = 1 + 4 + 10;
            let grown = f64::from(round.saturating_sub(patience_rounds));
            assert_segs!(sum_segs(&g), 40.0 + grown);
        }
    }
}

/// Reordering looked like a loss to one member, and it has found out: the group is as if nothing had been, too.
#[test]
fn a_recovery_for_nothing_ends_no_slow_start_and_halves_nothing() {
    for rule in ["ccc", "multcp", "etcp"] {
        for is_undo in [true, false] {
            let mut g = group(rule);
            let (a, _) = g.register(None, &slow_start(0, 40.0)).unwrap();
            let (b, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
            let share = ask(&mut g, a);
            g.update(a, &recovery(1_000_000, share)).unwrap();
            g.update(a, &recovery(1_010_000, share)).unwrap();
            // meanwhile others learn that slow start is over
            assert_eq!(g.ask(b).unwrap().state, abi::WL_MEMBER_AVOIDANCE, "{rule}");
            let undone = wl_group_report { is_undo: is_undo.into(), ..slow_start(1_050_000, share) };
            let state = if is_undo { abi::WL_MEMBER_SLOW_START } else { abi::WL_MEMBER_AVOIDANCE };
            assert_eq!(g.update(a, &undone).unwrap().state, state, "{rule}");
            assert_eq!(g.ask(b).unwrap().state, state, "{rule}");
            assert_eq!(close(sum_segs(&g), 40.0), is_undo || rule != "etcp", "{rule}: {}", sum_segs(&g));
            // once: what another has lost since stays answered
            let other = ask(&mut g, b);
            g.update(b, &recovery(2_000_000, other)).unwrap();
            let threshold = g.state().sum_ssthresh_q16;
            g.update(a, &undone).unwrap();
            assert_eq!(g.state().sum_ssthresh_q16, threshold, "{rule}");
        }
    }
}

/// The proof comes after the losses are repaired, which is when these rules have answered them.
#[test]
fn a_recovery_for_nothing_is_undone_after_it_is_over() {
    for rule in ["ccc", "multcp", "fse", "efcm"] {
        for other_answers in [false, true] {
            let mut g = group(rule);
            let all = in_avoidance(&mut g, 2, 50.0);
            let (a, b) = (all[0], all[1]);
            let (window, before) = (ask(&mut g, a), *g.state());
            g.update(a, &recovery(1_000_000, window)).unwrap();
            g.update(a, &avoidance(1_040_000, window / 2.0)).unwrap();
            assert!(g.state().sum_cwnd_q16 * 10 < before.sum_cwnd_q16 * 9, "{rule}: {}", sum_segs(&g));
            if other_answers {
                let other = ask(&mut g, b);
                g.update(b, &recovery(2_000_000, other)).unwrap();
                g.update(b, &avoidance(2_040_000, other / 2.0)).unwrap();
            }
            let now = *g.state();
            g.update(a, &wl_group_report { is_undo: 1, ..avoidance(2_050_000, window) }).unwrap();
            let expected = if other_answers { now } else { before };
            let is_near = |one: u64, other: u64| one.abs_diff(other) * 100 <= other;
            assert!(is_near(g.state().sum_cwnd_q16, expected.sum_cwnd_q16), "{rule}: {}", sum_segs(&g));
            assert_eq!(g.state().sum_ssthresh_q16, expected.sum_ssthresh_q16, "{rule}");
        }
    }
}

/// What a member's timeout, which the group took no notice of, turns out not to have been: that proves nothing about
/// the loss before.
#[test]
fn a_timeout_for_nothing_undoes_no_loss_before_it() {
    for rule in ["ccc", "multcp", "etcp"] {
        let mut g = group(rule);
        let (a, _) = g.register(None, &slow_start(0, 40.0)).unwrap();
        g.register(None, &slow_start(0, 10.0)).unwrap();
        let window = ask(&mut g, a);
        g.update(a, &recovery(1_000_000, window)).unwrap();
        g.update(a, &avoidance(1_040_000, window / 2.0)).unwrap();
        g.update(a, &timeout(9_000_000)).unwrap();
        let now = *g.state();
        g.update(a, &wl_group_report { is_undo: 1, ..avoidance(9_100_000, window / 2.0) }).unwrap();
        assert!(g.state().sum_cwnd_q16 <= now.sum_cwnd_q16, "{rule}: {}", sum_segs(&g));
        assert_eq!(g.state().sum_ssthresh_q16, now.sum_ssthresh_q16, "{rule}");
    }
}

/// An ACK proves a recovery false and shows a loss: that is another recovery, and is answered.
#[test]
fn a_loss_reported_with_the_proof_that_the_last_was_spurious_is_answered() {
    for rule in ["ccc", "multcp", "etcp", "cm"] {
        let mut g = Group::new(&wl_group_config { aggressiveness_q8: 256, ..config(rule) }).unwrap();
        let all = in_avoidance(&mut g, 2, 50.0);
        let (window, before) = (ask(&mut g, all[0]), sum_segs(&g));
        g.update(all[0], &recovery(1_000_000, window)).unwrap();
        let again = wl_group_report { is_undo: 1, ..recovery(1_040_000, window) };
        g.update(all[0], &again).unwrap();
        g.update(all[0], &avoidance(1_150_000, window / 2.0)).unwrap();
        assert_segs!(sum_segs(&g), before / 2.0);
    }
}

/// What a home reports of an ACK.
fn told(now_us: u32, is_in_recovery: u8, events: u32) -> wl_sample {
    wl_sample { now_us, mss_bytes: MSS, srtt_us: RTT_US, is_in_recovery, events, ..wl_sample::default() }
}

/// Without SACK Linux stays in a spurious recovery until something beyond it is acknowledged: that is no other one.
#[test]
fn a_recovery_that_goes_on_after_it_was_for_nothing_is_none() {
    for rule in ["ccc", "multcp", "etcp", "cm"] {
        let mut g = group(rule);
        let all = in_avoidance(&mut g, 2, 50.0);
        let (window, before) = (g.member(all[0]).unwrap().cwnd_bytes, *g.state());
        let mut say = |now_us, is_in_recovery, events, cwnd_bytes| {
            let mut decision =
                wl_decision { cwnd_bytes, ssthresh_bytes: window / 2, ..wl_decision::default() };
            g.exchange(all[0], 1, &told(now_us, is_in_recovery, events), &mut decision).unwrap();
        };
        say(1_000_000, 1, abi::WL_EV_RECOVERY_ENTER, window);
        say(1_040_000, 1, abi::WL_EV_UNDO, window);
        say(1_050_000, 1, 0, window);
        say(1_060_000, 0, abi::WL_EV_RECOVERY_EXIT, window);
        let now = g.state();
        assert_eq!(
            (now.sum_cwnd_q16, now.sum_ssthresh_q16),
            (before.sum_cwnd_q16, before.sum_ssthresh_q16),
            "{rule}"
        );
    }
}

/// A timer finds the only loss, or a tail loss probe repairs it before it is found: the ACK that reports the
/// reduction ends it. The group answers it once, unless it was spurious.
#[test]
fn a_recovery_that_is_over_within_one_ack_is_one() {
    for (rule, is_undo) in ["ccc", "etcp", "cm"].into_iter().flat_map(|rule| [(rule, false), (rule, true)]) {
        let mut g = group(rule);
        let all = in_avoidance(&mut g, 2, 50.0);
        let (window, before) = (g.member(all[1]).unwrap().cwnd_bytes, sum_segs(&g));
        let own = if is_undo { window } else { window / 2 };
        let mut decision = wl_decision { cwnd_bytes: own, ssthresh_bytes: own, ..wl_decision::default() };
        let mut say = |g: &mut Group, now_us, events| {
            g.exchange(all[1], 1, &told(now_us, 0, events), &mut decision).unwrap();
            decision.cwnd_bytes
        };
        let undo = if is_undo { abi::WL_EV_UNDO } else { 0 };
        let within_one = abi::WL_EV_RECOVERY_ENTER | abi::WL_EV_RECOVERY_EXIT | undo;
        assert_eq!(say(&mut g, 1_000_000, within_one), own, "{rule}: its own cut is in force");
        for now_us in [1_010_000, 1_200_000] {
            say(&mut g, now_us, 0);
            assert_segs!(sum_segs(&g), if is_undo { before } else { before / 2.0 });
        }
    }
}

/// A mark is as a recovery to the group, whether or not the member's own algorithm goes by it.
#[test]
fn a_mark_reduces_the_group_of_a_pacing_member_too() {
    for is_in_recovery in [0, 1] {
        let mut g = group("etcp");
        let all = in_avoidance(&mut g, 2, 50.0);
        for (now_us, events) in
            [(1_000_000, abi::WL_EV_RECOVERY_ENTER | abi::WL_EV_MARKED), (1_010_000, abi::WL_EV_MARKED)]
        {
            let mut decision = wl_decision { cwnd_bytes: 50 * MSS, ..wl_decision::default() };
            g.exchange(all[0], 1, &told(now_us, is_in_recovery, events), &mut decision).unwrap();
            assert_eq!((decision.cwnd_bytes, decision.is_share), (50 * MSS, 0));
        }
        assert_segs!(sum_segs(&g), 50.0);
    }
}

/// A timeout for which a member's controller cuts nothing is one all the same, and what it grew by before counts for nothing.
#[test]
fn a_timeout_is_one_whatever_window_it_leaves() {
    for (rule, grown) in
        ["efcm", "fse", "fse-conservative"].into_iter().flat_map(|rule| [(rule, 1.0), (rule, 1.5)])
    {
        let mut g = group(rule);
        let all = in_avoidance(&mut g, 2, 50.0);
        // a pause has left a threshold
        let mut decision = wl_decision { cwnd_bytes: 40 * MSS, ..wl_decision::default() };
        g.resume(all[0], 5_000_000, &mut decision).unwrap();
        assert_ne!(g.state().sum_ssthresh_q16, 0, "{rule}");
        let (window, before, cuts) = (ask(&mut g, all[0]), sum_segs(&g), g.state().cuts);
        let said = wl_group_report { is_timeout: 1, ..slow_start(9_000_000, grown * window) };
        g.update(all[0], &said).unwrap();
        assert_segs!(sum_segs(&g), before);
        assert_eq!(g.state().cuts, cuts + 1, "{rule}, {grown}");
        // these have none but their members' own
        let threshold = if rule == "efcm" { before - window / 2.0 } else { 0.0 };
        assert_segs!(g.state().sum_ssthresh_q16 as f64 / 65536.0 / f64::from(MSS), threshold);
    }
}

/// Two segments are the least to which a controller cuts its window. A member that has no more than that cannot show
/// what it lost: the group takes it for a halving, once for the event, and takes that back if there was none.
#[test]
fn the_loss_of_a_member_with_the_smallest_window_is_answered() {
    for rule in ["ccc", "multcp", "fse-conservative", "efcm", "fse"] {
        let mut g = Group::new(&wl_group_config { aggressiveness_q8: 256, ..config(rule) }).unwrap();
        let [fat, thin] = [(100, 200.0), (1, 2.0)].map(|(weight, window)| {
            g.register(None, &wl_group_report { weight, ..slow_start(0, window) }).unwrap().0
        });
        for m in [fat, thin] {
            let share = ask(&mut g, m);
            g.update(m, &avoidance(0, share)).unwrap();
        }
        let (before, window, of_fat) = (sum_segs(&g), ask(&mut g, thin), ask(&mut g, fat));
        assert!((2.0..2.1).contains(&window), "{rule}: {window}");
        g.update(thin, &recovery(10 * RTT_US, window)).unwrap();
        g.update(fat, &recovery(10 * RTT_US + 1, of_fat)).unwrap();
        assert_segs!(sum_segs(&g), before);
        g.update(thin, &avoidance(11 * RTT_US, 2.0)).unwrap();
        // of these each member's own loss counts
        let sums_losses = ["efcm", "fse"].contains(&rule);
        let after = if sums_losses { before - window / 2.0 } else { before / 2.0 };
        assert_segs!(sum_segs(&g), after);
        if sums_losses {
            continue;
        }
        g.update(fat, &avoidance(11 * RTT_US + 1, of_fat / 2.0)).unwrap();
        assert_segs!(sum_segs(&g), after);
        g.update(thin, &wl_group_report { is_undo: 1, ..avoidance(12 * RTT_US, window) }).unwrap();
        assert_segs!(sum_segs(&g), before);
        // nor is a recovery one that is known to be none when it ends
        g.update(thin, &recovery(20 * RTT_US, window)).unwrap();
        g.update(thin, &wl_group_report { is_undo: 1, ..avoidance(21 * RTT_US, window) }).unwrap();
        assert_segs!(sum_segs(&g), before);
    }
}

/// What others have reported since is no mistake of the member that finds its own loss to have been none.
#[test]
fn a_collapse_since_then_is_not_undone_with_a_loss_that_was_none() {
    let mut g = group("cm");
    let all = in_avoidance(&mut g, 2, 50.0);
    let window = ask(&mut g, all[0]);
    g.update(all[0], &recovery(1_000_000, window)).unwrap();
    g.update(all[0], &avoidance(1_040_000, window / 2.0)).unwrap();
    g.update(all[1], &timeout(9_000_000)).unwrap();
    let now = *g.state();
    g.update(all[0], &wl_group_report { is_undo: 1, ..avoidance(9_010_000, window / 2.0) }).unwrap();
    assert_eq!(
        (g.state().sum_cwnd_q16, g.state().sum_ssthresh_q16),
        (now.sum_cwnd_q16, now.sum_ssthresh_q16)
    );
}

/// A member is in its second recovery of one event, for which the group did nothing: that this one was spurious
/// proves nothing about what the first has lost.
#[test]
fn a_recovery_that_the_group_took_no_notice_of_undoes_none_before_it() {
    for rule in ["cm", "etcp"] {
        let mut g = Group::new(&wl_group_config { aggressiveness_q8: 256, ..config(rule) }).unwrap();
        let all = in_avoidance(&mut g, 2, 50.0);
        let window = ask(&mut g, all[0]);
        g.update(all[0], &recovery(1_000_000, window)).unwrap();
        g.update(all[0], &avoidance(1_040_000, window / 2.0)).unwrap();
        let cut = sum_segs(&g);
        g.update(all[0], &recovery(1_050_000, window / 2.0)).unwrap();
        assert_segs!(sum_segs(&g), cut);
        g.update(all[0], &wl_group_report { is_undo: 1, ..avoidance(1_060_000, window / 2.0) }).unwrap();
        assert_segs!(sum_segs(&g), cut);
    }
}
