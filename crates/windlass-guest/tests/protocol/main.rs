//! The guest's and the host's side against each other, in memory and in virtual time.

#[path = "../common/mod.rs"]
mod common;
mod host;
mod noise;
mod site;

use common::{MSS, RTT_US, report};
use site::Site;
use windlass_core::{GroupRule, abi};
use windlass_guest::{
    Config, Controller, Session, controller,
    session::{Event, FORGET_US, PATIENCE_US, Why},
    wire::{CWND_MAX_BYTES, Message, Op, Report, State, encode},
};

#[test]
fn guests_share_by_weight_whatever_the_number_of_their_flows() {
    for (weights, flows_of_second) in [([1, 1], 1), ([1, 1], 4), ([1, 2], 4), ([1, 4], 2)] {
        let mut site = Site::new(&weights);
        site.found(120);
        for flow in 0..flows_of_second {
            site.share_segs(1, report(flow, 1, Op::Register, 10));
        }
        let first = site.update_segs(0, 1);
        let second: Vec<u32> = (0..flows_of_second).map(|flow| site.update_segs(1, flow)).collect();
        let sum = weights[0] + weights[1];
        assert_eq!(first, 120 * weights[0] / sum, "{weights:?}");
        assert_eq!(second, vec![120 * weights[1] / sum / second.len() as u32; second.len()], "{weights:?}");
    }
}

/// Kernels cut off parts of segments: what is answered are whole ones, the nearest number to the share.
#[test]
fn answers_are_whole_segments() {
    let mut site = Site::new(&[1, 1]);
    site.found(41);
    for flow in 1..=4 {
        site.share_segs(1, report(flow, 1, Op::Register, 10));
    }
    // 20.5 and four of 5.125
    for (at, flow, segs) in [(0, 1, 21), (1, 1, 5), (1, 2, 5), (1, 3, 5), (1, 4, 5)] {
        for _ in 0..3 {
            site.update_segs(at, flow);
            assert_eq!(site.granted[&(at, flow)].cwnd_bytes, segs * MSS);
        }
    }
    assert_eq!(site.controller.sum_cwnd_bytes(), u64::from(41 * MSS));
}

#[test]
fn a_flow_that_leaves_gives_its_share_to_the_others() {
    let mut site = Site::new(&[1, 1]);
    site.found(40);
    assert_eq!(site.share_segs(1, report(1, 1, Op::Register, 10)), 20);
    assert_eq!(site.update_segs(0, 1), 20);
    assert!(site.say(1, report(1, 2, Op::Leave, 20)).is_empty());
    assert_eq!(site.update_segs(0, 1), 40);
}

#[test]
fn whatever_a_guest_claims_it_gets_its_share() {
    let mut site = Site::new(&[1, 1]);
    site.found(40);
    site.share_segs(1, report(1, 1, Op::Register, 10));
    for seq in 2..40 {
        let lie = Report {
            cwnd_bytes: CWND_MAX_BYTES,
            ssthresh_bytes: CWND_MAX_BYTES,
            srtt_us: 1,
            mss_bytes: 0xffff,
            acks: u32::MAX,
            acked_bytes: u32::MAX,
            ..report(1, seq, Op::Update, 1)
        };
        let before = site.controller.sum_cwnd_bytes();
        let lied = site.share_segs(1, lie);
        let honest = site.update_segs(0, 1);
        assert!(lied <= honest, "{lied} against {honest}");
        let after = site.controller.sum_cwnd_bytes();
        // half of its own share is what a flow may claim in a round, which is the honest guest's
        assert!(after <= before + before / 4 + u64::from(MSS), "{before} to {after}");
    }
    // two reports were sent in each of these rounds of half a round trip
    let rounds = 38 / 2 + 1;
    let most = 40.0 * f64::from(MSS) * 1.25f64.powi(rounds);
    assert!((site.controller.sum_cwnd_bytes() as f64) < most, "{} bytes", site.controller.sum_cwnd_bytes());
}

/// A guest that reports nothing but that it is in recovery does not keep the others' losses from being answered.
#[test]
fn a_guest_that_stays_in_recovery_takes_away_nobodys_reaction() {
    for rule in ["ccc", "etcp"] {
        let mut site = Site::with(Config::new(GroupRule::by_name(rule).unwrap()), &[1, 1]);
        site.found(646);
        let mut lies = 1;
        site.share_segs(1, report(1, lies, Op::Register, 10));
        let mut shares = vec![site.update_segs(0, 1)];
        for _ in 0..3 {
            // a round is four exchanges; in each fifth one the honest guest loses something
            for half_round in 0..10 {
                lies += 1;
                site.say(1, Report { state: State::Recovery, ..report(1, lies, Op::Update, 10) });
                let last = site.granted[&(0, 1)];
                match half_round {
                    0 | 1 => {
                        let lost = report(1, last.seq + 1, Op::Update, 1);
                        site.say(0, Report { state: State::Recovery, cwnd_bytes: last.cwnd_bytes, ..lost });
                    }
                    2 => {
                        let segs = last.cwnd_bytes / MSS;
                        shares.push(site.share_segs(0, report(1, last.seq + 1, Op::Update, segs / 2)));
                    }
                    _ => drop(site.update_segs(0, 1)),
                }
            }
        }
        assert!(shares[0] >= 161, "{rule}: {shares:?}");
        for pair in shares.windows(2) {
            assert!(pair[1] <= pair[0] / 2 + 1, "{rule}: {shares:?}");
        }
    }
}

/// Claimed losses are believed, once in a round trip, and leave two segments; with the guest that claimed them their effect ends.
#[test]
fn a_guest_that_claims_losses_halves_the_group_once_a_round_trip_while_it_is_there() {
    let mut site = Site::new(&[1, 1]);
    site.found(646);
    site.share_segs(1, report(1, 1, Op::Register, 10));
    site.update_segs(0, 1);
    let (start, start_us) = (site.controller.sum_cwnd_bytes(), site.now_us);
    for seq in 1..40 {
        let held = site.granted[&(1, 1)].cwnd_bytes;
        let claim = report(1, 2 * seq, Op::Update, 1);
        site.say(1, Report { state: State::Recovery, cwnd_bytes: held, ..claim });
        site.say(1, Report { seq: 2 * seq + 1, cwnd_bytes: held / 2, ..claim });
        assert!(site.update_segs(0, 1) >= 2);
        let rounds = (site.now_us - start_us).div_ceil(u64::from(RTT_US));
        let least = start >> rounds.min(63);
        assert!(site.controller.sum_cwnd_bytes() >= least.saturating_sub(u64::from(MSS)), "{rounds} rounds");
    }
    assert_eq!(site.update_segs(0, 1), 2);
    site.say(1, report(1, 99, Op::Leave, 2));
    let before = site.controller.sum_cwnd_bytes();
    for _ in 0..20 {
        site.now_us += u64::from(RTT_US) * 3 / 4;
        let last = site.granted[&(0, 1)];
        let grown = Report { cwnd_bytes: last.cwnd_bytes + MSS, ..report(1, last.seq + 1, Op::Update, 1) };
        site.say(0, grown);
    }
    assert!(site.controller.sum_cwnd_bytes() >= before + 18 * u64::from(MSS));
}

#[test]
fn five_hundred_flows_of_one_guest_are_one_guest() {
    let config = Config { idle_us: 60_000_000, ..Config::new(GroupRule::by_name("ccc").unwrap()) };
    let mut site = Site::with(config, &[1, 1]);
    site.found(4000);
    for flow in 0..500 {
        site.share_segs(1, report(flow, 1, Op::Register, 10));
    }
    assert_eq!(site.update_segs(0, 1), 2000);
    assert_eq!(site.update_segs(1, 7), 4);
}

/// Guests that come and go leave nothing behind: neither their place nor their round trip.
#[test]
fn guests_that_come_and_go_leave_nothing() {
    let mut site = Site::new(&[1]);
    site.found(40);
    for n in 0..100 {
        let id = site.controller.add_guest(&format!("vm{n}"), 3);
        site.guests.push((id, Session::default()));
        site.guests[1].1.connected(site.now_us);
        site.exchange(1);
        let slow = Report { srtt_us: 8 * RTT_US, ..report(1, 1, Op::Register, 10) };
        assert_eq!(site.share_segs(1, slow), 30);
        assert_eq!(site.controller.guests().iter().map(|g| g.weight).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(site.controller.slowest_srtt_us(), 8 * RTT_US);
        site.controller.remove_guest(id);
        site.guests.pop();
        assert_eq!(site.controller.slowest_srtt_us(), RTT_US);
        assert_eq!(site.update_segs(0, 1), 40);
    }
    assert_eq!(site.controller.guests().len(), 1);
    assert_eq!(site.controller.places(), 2);
}

/// Whatever a guest floods its port with costs it at least what reports of that length would have, and is reported in brief.
#[test]
fn anything_that_a_guest_sends_counts() {
    const READ_BYTES: usize = 64 << 10;
    let hello = |bytes: &mut Vec<u8>| encode(1, &Message::Hello, bytes);
    let bye = |bytes: &mut Vec<u8>| encode(1, &Message::Bye, bytes);
    let update = report(1, 1, Op::Update, 10);
    let of_another_session = |bytes: &mut Vec<u8>| encode(2, &Message::Reports(vec![update; 100]), bytes);
    let nonsense = |bytes: &mut Vec<u8>| {
        hello(bytes);
        bytes.push(0);
    };
    type Say<'a> = &'a dyn Fn(&mut Vec<u8>);
    let floods: [(&str, Say, usize); 5] = [
        ("hello", &hello, 1000 * READ_BYTES / 16),
        ("bye", &bye, 1000 * READ_BYTES / 16),
        ("reports of another session", &of_another_session, READ_BYTES / 45),
        ("nonsense", &nonsense, 2000 * READ_BYTES / 17 - 2000),
        ("zeros", &|bytes| bytes.push(0), READ_BYTES / 44),
    ];
    for (name, say, least) in floods {
        let mut controller = Controller::new(Config::new(GroupRule::by_name("ccc").unwrap())).unwrap();
        let guest = controller.add_guest("vm", 1);
        let (mut out, mut events) = (Vec::new(), Vec::new());
        let mut bytes = Vec::new();
        while bytes.len() < READ_BYTES {
            say(&mut bytes);
        }
        let cost = controller.receive(guest, &bytes, 0, &mut out, &mut events);
        assert!(cost >= least, "{name}: {cost}, at least {least}");
        assert!(events.len() <= 4, "{name}: {} events", events.len());
        assert!(out.len() <= 2 * bytes.len(), "{name}: {} bytes in answer", out.len());
    }
}

#[test]
fn more_flows_than_a_guest_may_have_are_refused_and_reported() {
    let config = Config { flows_most: 2, ..Config::new(GroupRule::by_name("ccc").unwrap()) };
    let mut site = Site::with(config, &[1]);
    site.share_segs(0, report(1, 1, Op::Register, 10));
    site.share_segs(0, report(2, 1, Op::Register, 10));
    assert_eq!(site.say(0, report(3, 1, Op::Register, 10)), [Event::Refused(3)]);
    site.say(0, report(1, 2, Op::Leave, 10));
    site.share_segs(0, report(3, 2, Op::Register, 10));
}

#[test]
fn a_flow_that_was_collected_registers_again_by_itself() {
    let mut site = Site::new(&[1, 1]);
    site.found(40);
    site.share_segs(1, report(1, 1, Op::Register, 10));
    // the first is silent while the second goes on for longer than the host's patience
    let rounds = controller::IDLE_US / (RTT_US / 4) + 2;
    for _ in 0..rounds {
        site.update_segs(1, 1);
    }
    assert_eq!(site.controller.guests()[0].flows, 0);
    site.update_segs(0, 1);
    assert_eq!(site.controller.guests()[0].flows, 1);
}

/// The report of a flow's end may be lost: it is forgotten after a while, and no longer reported as if it were there.
#[test]
fn a_flow_that_ended_without_a_word_is_forgotten() {
    let mut site = Site::new(&[1]);
    site.found(40);
    site.share_segs(0, report(2, 1, Op::Register, 40));
    let begun_us = site.now_us;
    let mut forgotten = Vec::new();
    while site.now_us < begun_us + 2 * FORGET_US {
        site.now_us += PATIENCE_US / 4;
        site.update_segs(0, 1);
        let now_us = site.now_us;
        for event in site.guests[0].1.tick(now_us) {
            assert_eq!(event, Event::Forgotten(2));
            forgotten.push(now_us - begun_us);
        }
    }
    assert_eq!(forgotten.len(), 1);
    assert!((FORGET_US..=FORGET_US * 5 / 4 + PATIENCE_US).contains(&forgotten[0]), "{forgotten:?}");
    assert_eq!(site.guests[0].1.flows(), 1);
    // a host that comes back learns of the other one only
    site.guests[0].1.disconnected();
    site.guests[0].1.connected(site.now_us);
    assert!(matches!(site.exchange(0).as_slice(), [Event::Coupled, Event::Answer(r)] if r.flow == 1));
    // one that was only silent is a member again when it speaks
    assert!(matches!(site.say(0, report(2, 2, Op::Update, 40)).as_slice(), [Event::Answer(_)]));
    assert_eq!(site.guests[0].1.flows(), 2);
}

#[test]
fn a_new_controller_learns_of_all_flows() {
    let mut site = Site::new(&[1, 1]);
    site.found(40);
    site.share_segs(0, report(2, 1, Op::Register, 40));
    let mut fresh = Controller::new(Config::new(GroupRule::by_name("ccc").unwrap())).unwrap();
    let id = fresh.add_guest("vm", 1);
    let hello = fresh.connected(id);
    site.controller = fresh;
    let events = site.guests[0].1.receive(&hello, site.now_us);
    assert_eq!(events, [Event::Alone(Why::Ended)]);
    assert!(matches!(site.exchange(0).as_slice(), [Event::Coupled, Event::Answer(_), Event::Answer(_)]));
    assert_eq!(site.controller.guests()[0].flows, 2);
}

/// What a guest reports that it had is where it may grow to, and nothing that any guest gets.
#[test]
fn a_guest_that_claims_a_window_when_it_comes_has_a_first_one() {
    for rule in GroupRule::all() {
        let mut site = Site::with(Config::new(rule), &[1, 1]);
        let lie = Report {
            cwnd_bytes: CWND_MAX_BYTES,
            ssthresh_bytes: CWND_MAX_BYTES,
            inflight_bytes: CWND_MAX_BYTES,
            ..report(1, 1, Op::Register, 1)
        };
        let first = 10 * MSS;
        // one that adds its own, or an average one
        let adds = ["fse", "fse-conservative", "efcm"].contains(&rule.name());
        let most = u64::from(first) * if adds { 2 } else { 1 };
        assert!(site.share_segs(1, lie) <= 10, "{rule:?}");
        let joined = site.share_segs(0, report(1, 1, Op::Register, 10));
        assert!(joined <= 10, "{rule:?}: {joined}");
        assert!(site.controller.sum_cwnd_bytes() <= most, "{rule:?}: {}", site.controller.sum_cwnd_bytes());
        for flow in 2..100 {
            site.say(1, Report { flow: flow - 1, op: Op::Leave, ..lie });
            site.share_segs(1, Report { flow, ..lie });
            let sum_bytes = site.controller.sum_cwnd_bytes();
            // there is no window of no bytes
            assert!(sum_bytes <= most + flow, "{rule:?}: {sum_bytes} bytes, flow {flow}");
        }
        assert!(site.update_segs(0, 1) <= 10, "{rule:?}");
    }
}

/// Where a controller begins anew, what flows had is what they may come back to fast, all together.
#[test]
fn flows_that_were_at_work_start_slowly_up_to_what_they_had() {
    let mut site = Site::new(&[1, 1]);
    for flow in 1..=4 {
        site.share_segs(0, report(flow, 1, Op::Register, 86));
    }
    assert_eq!(site.controller.sum_cwnd_bytes(), u64::from(10 * MSS));
    let told = site.granted[&(0, 4)];
    assert_eq!((told.state, told.ssthresh_bytes), (State::SlowStart, 86 * MSS));
    // later ones bring nothing
    site.now_us += u64::from(RTT_US);
    site.share_segs(0, report(5, 1, Op::Register, 86));
    assert_eq!(site.granted[&(0, 5)].ssthresh_bytes, 4 * 86 * MSS / 5);
}

/// A flow that has never lost anything has no threshold that it could bring.
#[test]
fn a_flow_in_its_slow_start_ends_no_others() {
    let mut site = Site::new(&[1, 1]);
    let grown =
        Report { state: State::SlowStart, ssthresh_bytes: CWND_MAX_BYTES, ..report(1, 1, Op::Register, 11) };
    site.share_segs(0, grown);
    assert_eq!(site.granted[&(0, 1)].ssthresh_bytes, CWND_MAX_BYTES);
}

/// As of one flow: what the kernel cuts of the first window after a pause is cut of the group's, too.
#[test]
fn a_group_of_guests_that_all_paused_begins_with_less() {
    // by then an honest kernel leaves ten segments of whatever length at least
    let least = 2 * u64::from(abi::WL_INIT_CWND_SEGS * controller::MSS_MOST_BYTES);
    for (is_heard, share, sum_bytes) in [(true, 50, u64::from(100 * MSS)), (false, 10, least)] {
        let mut site = Site::new(&[1, 1]);
        site.found(100);
        site.share_segs(1, report(1, 1, Op::Register, 10));
        site.update_segs(0, 1);
        site.now_us += 20 * u64::from(RTT_US);
        if is_heard {
            site.update_segs(1, 1);
        }
        let paused = Report { is_cwnd_limited: false, ..report(1, 3, Op::Update, 10) };
        assert_eq!(site.share_segs(0, paused), share);
        assert_eq!(site.controller.sum_cwnd_bytes(), sum_bytes);
    }
    // a guest that claims that less is left than any kernel leaves
    let mut site = Site::new(&[1, 1]);
    site.found(100);
    site.share_segs(1, report(1, 1, Op::Register, 10));
    site.update_segs(0, 1);
    for seq in 3..10 {
        site.now_us += 20 * u64::from(RTT_US);
        let lie =
            Report { is_cwnd_limited: false, cwnd_bytes: 1, mss_bytes: 1, ..report(1, seq, Op::Update, 1) };
        site.say(0, lie);
    }
    // the other one was collected meanwhile
    assert!(site.controller.sum_cwnd_bytes() >= least / 2, "{}", site.controller.sum_cwnd_bytes());
}
