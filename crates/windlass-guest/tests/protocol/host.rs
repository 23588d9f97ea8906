//! Hosts that fall silent, are deaf or forgetful, or grant what no host could: what their guests believe.

use crate::{
    common::{MSS, report},
    site::Site,
};
use windlass_core::GroupRule;
use windlass_guest::{
    Config, Session,
    session::{Event, PATIENCE_US, Why},
    wire::{CWND_MAX_BYTES, Message, Op, Outcome, Reply, Report, State, encode},
};

#[test]
fn a_host_that_does_not_answer_is_given_up_and_greeted_again() {
    let mut session = Session::default();
    session.connected(0);
    assert!(session.tick(PATIENCE_US / 2).is_empty());
    let greeting = session.outgoing().len();
    session.tick(PATIENCE_US);
    assert_eq!(session.outgoing().len(), 2 * greeting);

    let mut site = Site::new(&[1]);
    site.found(40);
    let session = &mut site.guests[0].1;
    session.report(report(1, 2, Op::Update, 40), site.now_us);
    assert!(session.tick(site.now_us + PATIENCE_US / 2).is_empty());
    assert_eq!(session.tick(site.now_us + PATIENCE_US + 1), [Event::Alone(Why::Silent)]);
    site.now_us += PATIENCE_US;
    assert!(matches!(site.exchange(0).as_slice(), [Event::Coupled, Event::Answer(_)]));
}

#[test]
fn a_port_that_takes_nothing_fills_no_memory() {
    let mut session = Session::default();
    session.connected(0);
    for second in 1..100_000 {
        session.tick(second * PATIENCE_US);
    }
    assert!(session.outgoing().len() < 1 << 20, "{} bytes", session.outgoing().len());
}

#[test]
fn an_answer_without_a_report_is_nonsense() {
    let mut site = Site::new(&[1]);
    site.share_segs(0, report(1, 7, Op::Register, 40));
    site.share_segs(0, report(2, 7, Op::Register, 40));
    site.guests[0].1.report(report(1, 8, Op::Update, 40), site.now_us);
    site.guests[0].1.report(report(2, 8, Op::Update, 40), site.now_us);
    site.guests[0].1.flush(u64::MAX);
    let asked = site.guests[0].1.outgoing().to_vec();
    let (mut answer, mut heard) = (Vec::new(), Vec::new());
    site.controller.receive(site.guests[0].0, &asked, site.now_us as u32, &mut answer, &mut heard);
    // header of 16 bytes, flow of 8, then the number of the report; the answer to the other flow is as it should be
    answer[24] += 1;
    let events = site.guests[0].1.receive(&answer, site.now_us);
    assert_eq!(events, [Event::Alone(Why::NotAsked)]);
}

/// A host that a test speaks for.
struct Host {
    session: Session,
    id: u64,
    seq: u32,
}

impl Host {
    fn new() -> Host {
        let mut session = Session::default();
        session.connected(0);
        let id = u64::from_le_bytes(session.outgoing()[8..16].try_into().unwrap());
        let mut host = Host { session, id, seq: 0 };
        assert_eq!(host.say(Message::Welcome), [Event::Coupled]);
        host
    }

    fn say(&mut self, message: Message) -> Vec<Event> {
        let mut bytes = Vec::new();
        encode(self.id, &message, &mut bytes);
        self.session.receive(&bytes, 0)
    }

    /// A flow reports, and is granted a window. Why it is on its own then.
    fn grant(
        &mut self,
        flow: u64,
        state: State,
        cwnd_segs: u32,
        inflight_segs: u32,
        window_bytes: u32,
    ) -> Option<Why> {
        self.seq += 1;
        let own = report(flow, self.seq, if self.seq <= 2 { Op::Register } else { Op::Update }, cwnd_segs);
        self.session.report(Report { state, inflight_bytes: inflight_segs * MSS, ..own }, 0);
        let reply = Reply {
            flow,
            seq: self.seq,
            outcome: Outcome::Coupled,
            state: State::Avoidance,
            is_change: state != State::Recovery,
            cwnd_bytes: window_bytes,
            ssthresh_bytes: window_bytes,
        };
        match self.say(Message::Replies(vec![reply])).as_slice() {
            [Event::Answer(_)] => None,
            [Event::Alone(why)] => Some(why.clone()),
            other => panic!("{other:?}"),
        }
    }

    /// A flow loses something of what it has in flight, and is granted the same window before and after.
    fn hears_no_loss(
        &mut self,
        flow: u64,
        cwnd_segs: u32,
        inflight_segs: u32,
        window_bytes: u32,
    ) -> Option<Why> {
        [State::Avoidance, State::Recovery, State::Avoidance]
            .into_iter()
            .find_map(|state| self.grant(flow, state, cwnd_segs, inflight_segs, window_bytes))
    }
}

/// A host that answers each report with the same window, whatever it reports; what the flow does with it until it is
/// on its own, or has lost something ten times.
fn believed_of(window_bytes: u32, usable_segs: u32) -> (u32, Option<Why>) {
    let mut host = Host::new();
    let mut cwnd_segs = 10;
    for losses in 0..10 {
        if let Some(why) = host.hears_no_loss(1, cwnd_segs, usable_segs.min(cwnd_segs), window_bytes) {
            return (losses, Some(why));
        }
        cwnd_segs = window_bytes / MSS;
    }
    (10, None)
}

/// What the host grants is bounded by what a host that couples flows could: not a gigabyte for ten segments, and not the
/// same after each loss.
#[test]
fn a_host_that_grants_what_it_likes_is_given_up() {
    assert_eq!(believed_of(CWND_MAX_BYTES, 1400), (0, Some(Why::TooMuch)));
    assert_eq!(believed_of(10 * 1024 * MSS, 1400), (2, Some(Why::Deaf)));
    assert_eq!(believed_of(4000 * MSS, 1400), (2, Some(Why::Deaf)));
    // that is how one looks whose other members lose at the same time
    assert_eq!(believed_of(80 * MSS, 79), (10, None));
    // nor can it grant less than the floor of a share, both segments of which may be found lost
    assert_eq!(believed_of(2 * MSS, 0), (10, None));
    // 40 Gbit/s and 100 ms, which the group has found out before this flow came
    assert_eq!(believed_of(450_000_000, 310_000), (10, None));
}

/// One flow of many may be too thin for its loss to be seen in what all have. A host that reacts to no flow's loss is deaf.
#[test]
fn a_host_is_deaf_that_reacts_to_none_of_several_flows() {
    let mut host = Host::new();
    let lose = |host: &mut Host, flow, times: u32| {
        (0..times).find_map(|_| host.hears_no_loss(flow, 1400, 3, 1400 * MSS))
    };
    let settle = |host: &mut Host, flow, segs: u32| host.grant(flow, State::Avoidance, 1400, 3, segs * MSS);
    assert_eq!((settle(&mut host, 1, 1400), settle(&mut host, 2, 1400)), (None, None));
    assert_eq!(lose(&mut host, 1, 9), None);
    assert_eq!(lose(&mut host, 2, 2), None);
    // it reacts to a loss after all
    assert_eq!(host.grant(2, State::Recovery, 1400, 3, 1400 * MSS), None);
    assert_eq!(settle(&mut host, 2, 1399), None);
    settle(&mut host, 2, 1400);
    assert_eq!(lose(&mut host, 2, 9), None);
    assert_eq!(lose(&mut host, 1, 2), None);
    assert_eq!(lose(&mut host, 1, 1), Some(Why::Deaf));
}

/// Of a rule that takes little from all for one flow's loss, the others grow by more.
#[test]
fn an_honest_host_that_takes_little_for_a_loss_is_believed() {
    let mut site = Site::with(Config::new(GroupRule::by_name("efcm").unwrap()), &[1, 1]);
    site.found(86);
    let flows: Vec<(usize, u64)> = (1..=10).flat_map(|flow| [(0, flow), (1, flow)]).collect();
    for &(at, flow) in &flows[1..] {
        site.share_segs(at, report(flow, 1, Op::Register, 10));
    }
    for &(at, flow) in &flows {
        site.update_segs(at, flow);
    }
    let mut unchanged = 0;
    for _ in 0..5 {
        let before = site.granted[&(0, 1)];
        let thin = Report {
            cwnd_bytes: before.cwnd_bytes,
            inflight_bytes: 3 * MSS,
            state: State::Recovery,
            ..report(1, before.seq + 1, Op::Update, 1)
        };
        let mut events = site.say(0, thin);
        for _ in 0..3 {
            for &(at, flow) in &flows[1..] {
                let last = site.granted[&(at, flow)];
                let own = report(flow, last.seq + 1, Op::Update, 1);
                events.extend(site.say(at, Report { cwnd_bytes: last.cwnd_bytes + MSS, ..own }));
            }
        }
        let halved = before.cwnd_bytes / 2;
        events.extend(
            site.say(0, Report { state: State::Avoidance, cwnd_bytes: halved, seq: before.seq + 2, ..thin }),
        );
        assert!(events.iter().all(|e| matches!(e, Event::Answer(_))), "{events:?}");
        unchanged += u32::from(site.granted[&(0, 1)].cwnd_bytes >= before.cwnd_bytes);
    }
    assert_eq!(unchanged, 5, "each would count against the host");
}

/// It answers for each flow that it does not know it: it gets three reports, and no more.
#[test]
fn a_host_that_knows_no_flow_is_given_up() {
    let mut host = Host::new();
    host.session.report(report(1, 1, Op::Register, 10), 0);
    let unknown = Reply {
        flow: 1,
        seq: 1,
        outcome: Outcome::Unknown,
        state: State::Avoidance,
        is_change: false,
        cwnd_bytes: 1,
        ssthresh_bytes: 1,
    };
    for asked in 1..=3 {
        host.session.flush(u64::MAX);
        let sent = host.session.outgoing().len();
        assert!(sent > 0, "asked {asked} times");
        host.session.written(sent);
        let events = host.say(Message::Replies(vec![unknown]));
        let expected = if asked < 3 { vec![] } else { vec![Event::Alone(Why::Forgetful)] };
        assert_eq!(events, expected, "asked {asked} times");
    }
    host.session.flush(u64::MAX);
    assert!(host.session.outgoing().is_empty());
}
