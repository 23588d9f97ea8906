//! A host and its guests in virtual time.

use crate::common::{MSS, RTT_US, report};
use std::collections::HashMap;
use windlass_core::{GroupRule, abi};
use windlass_guest::{
    Config, Controller, GuestId, Session, controller,
    session::Event,
    wire::{Op, Reply, Report, State},
};

/// A host with guests, and ports that lose nothing.
pub struct Site {
    pub controller: Controller,
    pub guests: Vec<(GuestId, Session)>,
    heard: Vec<controller::Event>,
    pub now_us: u64,
    /// Last answered to a guest's flow: what an honest flow goes on from.
    pub granted: HashMap<(usize, u64), Reply>,
}

impl Site {
    pub fn new(weights: &[u32]) -> Site {
        Site::with(Config::new(GroupRule::by_name("ccc").unwrap()), weights)
    }

    pub fn with(config: Config, weights: &[u32]) -> Site {
        let mut controller = Controller::new(config).unwrap();
        let add = |w: &u32| (controller.add_guest("vm", *w), Session::default());
        let guests = weights.iter().map(add).collect();
        let mut site = Site { controller, guests, heard: Vec::new(), now_us: 0, granted: HashMap::new() };
        for at in 0..site.guests.len() {
            site.guests[at].1.connected(0);
            assert_eq!(site.exchange(at), [Event::Coupled]);
        }
        site
    }

    /// Lets a quarter of a round trip pass, and carries bytes until no side has anything to send.
    pub fn exchange(&mut self, at: usize) -> Vec<Event> {
        self.now_us += u64::from(RTT_US) / 4;
        let (id, session) = &mut self.guests[at];
        let mut events = Vec::new();
        loop {
            session.flush(self.now_us + 1_000_000);
            let bytes = session.outgoing().to_vec();
            session.written(bytes.len());
            if bytes.is_empty() {
                return events;
            }
            let mut answer = Vec::new();
            self.controller.receive(*id, &bytes, self.now_us as u32, &mut answer, &mut self.heard);
            events.extend(session.receive(&answer, self.now_us));
            for event in &events {
                if let Event::Answer(reply) = event {
                    self.granted.insert((at, reply.flow), *reply);
                }
            }
        }
    }

    pub fn say(&mut self, at: usize, report: Report) -> Vec<Event> {
        self.guests[at].1.report(report, self.now_us);
        self.exchange(at)
    }

    /// What an honest flow that has not grown gets.
    pub fn update_segs(&mut self, at: usize, flow: u64) -> u32 {
        let last = self.granted[&(at, flow)];
        let own = report(flow, last.seq + 1, Op::Update, last.cwnd_bytes / MSS);
        self.share_segs(at, Report { cwnd_bytes: last.cwnd_bytes, ..own })
    }

    /// The first guest's flow 1 begins the group, which has so many segments then. At first it has no more than ten,
    /// whatever the flow reports that it had.
    pub fn found(&mut self, segs: u32) {
        let mut share = self.share_segs(0, report(1, 1, Op::Register, segs));
        assert_eq!(share, segs.min(abi::WL_INIT_CWND_SEGS));
        while share < segs {
            self.now_us += u64::from(RTT_US);
            let grown = report(1, 1, Op::Update, 2 * share);
            share = self.share_segs(0, Report { state: State::SlowStart, ..grown });
        }
        assert_eq!(self.controller.sum_cwnd_bytes(), u64::from(segs * MSS));
    }

    /// The share in the only answer.
    pub fn share_segs(&mut self, at: usize, report: Report) -> u32 {
        match self.say(at, report).as_slice() {
            [Event::Answer(reply)] => reply.cwnd_bytes / MSS,
            other => panic!("{other:?}"),
        }
    }
}
