//! A group and its flows, as their own stacks see them, and what may happen to them.

use crate::*;
use windlass_core::TenantId;

/// A flow as its own stack sees it.
#[derive(Clone, Debug)]
pub struct Flow {
    pub id: MemberId,
    pub tenant: Option<usize>,
    pub weight: u32,
    pub cwnd_bytes: u32,
    pub ssthresh_bytes: u32,
    pub state: u32,
    /// When it last entered recovery.
    pub lost_at_us: u32,
    /// It reports nothing any more, not even that it leaves.
    pub is_vanished: bool,
}

impl Flow {
    fn take(&mut self, reply: wl_group_reply) {
        self.cwnd_bytes = reply.cwnd_bytes;
        self.ssthresh_bytes = reply.ssthresh_bytes;
        self.state = reply.state;
    }
}

/// A flow's weight, and the tenant of whose weight it is a part.
pub type Weights = (u32, Option<usize>);

/// Some flows have hundreds of times the weight of others.
pub fn weights() -> impl Strategy<Value = Weights> {
    (prop_oneof![6 => 1..8u32, 1 => 200..3000u32], proptest::option::of(0..3usize))
}

#[derive(Clone, Debug)]
pub enum Event {
    Join(Weights),
    Leave(usize),
    Vanish(usize),
    /// ACKs of a part of the window, in 256ths.
    Acks(usize, u8),
    Loss(usize),
    /// One of those in recovery leaves it.
    Recovered(usize),
    Timeout(usize),
    Ask(usize),
    Weight(usize, u32),
    Wait(u32),
    /// All leave, and others found the group anew.
    Anew(Vec<Weights>),
}

pub fn event() -> impl Strategy<Value = Event> {
    let who = 0..64usize;
    prop_oneof![
        3 => weights().prop_map(Event::Join),
        2 => who.clone().prop_map(Event::Leave),
        1 => who.clone().prop_map(Event::Vanish),
        12 => (who.clone(), any::<u8>()).prop_map(|(i, part)| Event::Acks(i, part)),
        2 => who.clone().prop_map(Event::Loss),
        3 => who.clone().prop_map(Event::Recovered),
        1 => who.clone().prop_map(Event::Timeout),
        3 => who.clone().prop_map(Event::Ask),
        1 => (who, weights()).prop_map(|(i, (weight, _))| Event::Weight(i, weight)),
        4 => (1..2 * RTT_US).prop_map(Event::Wait),
        1 => founders().prop_map(Event::Anew),
    ]
}

/// So many that none is alone.
pub fn founders() -> impl Strategy<Value = Vec<Weights>> {
    proptest::collection::vec(weights(), 2..5)
}

pub struct World {
    pub group: Group,
    tenants: Vec<TenantId>,
    pub flows: Vec<Flow>,
    pub now_us: u32,
}

impl World {
    pub fn new(rule: &str, flags: u32) -> World {
        let mut group = Group::new(&config(rule, flags)).unwrap();
        let tenants = [1, 2, 4].map(|weight| group.add_tenant(weight)).to_vec();
        World { group, tenants, flows: Vec::new(), now_us: 0 }
    }

    pub fn report(&self, i: usize, state: u32, cwnd_bytes: u32) -> wl_group_report {
        wl_group_report {
            now_us: self.now_us,
            mss_bytes: MSS,
            cwnd_bytes,
            ssthresh_bytes: self.flows[i].ssthresh_bytes,
            srtt_us: RTT_US,
            state: state as u8,
            is_cwnd_limited: 1,
            ..wl_group_report::default()
        }
    }

    pub fn update(&mut self, i: usize, report: &wl_group_report) -> wl_group_reply {
        let reply = self.group.update(self.flows[i].id, report).unwrap();
        if reply.is_change != 0 {
            self.flows[i].take(reply);
        } else {
            self.flows[i].state = u32::from(report.state);
        }
        reply
    }

    pub fn join(&mut self, weight: u32, tenant: Option<usize>, cwnd_segs: u32) {
        let report = wl_group_report {
            now_us: self.now_us,
            mss_bytes: MSS,
            weight,
            cwnd_bytes: cwnd_segs * MSS,
            ssthresh_bytes: abi::WL_CWND_MAX_BYTES,
            srtt_us: RTT_US,
            state: abi::WL_MEMBER_SLOW_START as u8,
            is_cwnd_limited: 1,
            ..wl_group_report::default()
        };
        let (id, reply) = self.group.register(tenant.map(|t| self.tenants[t]), &report).unwrap();
        let mut flow = Flow {
            id,
            tenant,
            weight,
            cwnd_bytes: 0,
            ssthresh_bytes: 0,
            state: 0,
            lost_at_us: 0,
            is_vanished: false,
        };
        flow.take(reply);
        self.flows.push(flow);
    }

    /// The first brings the window.
    pub fn found(&mut self, founders: &[Weights]) {
        for (weight, tenant) in founders {
            self.join(*weight, *tenant, if self.flows.is_empty() { FIRST_SEGS } else { 10 });
        }
    }

    /// Which flow it concerns, whether or not it applies to it.
    pub fn who(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Leave(i)
            | Event::Vanish(i)
            | Event::Acks(i, _)
            | Event::Loss(i)
            | Event::Timeout(i)
            | Event::Ask(i)
            | Event::Weight(i, _) => (!self.flows.is_empty()).then(|| i % self.flows.len()),
            Event::Recovered(i) => {
                let is_in_recovery = |f: &Flow| f.state == abi::WL_MEMBER_RECOVERY && !f.is_vanished;
                let all: Vec<usize> =
                    (0..self.flows.len()).filter(|&i| is_in_recovery(&self.flows[i])).collect();
                (!all.is_empty()).then(|| all[i % all.len()])
            }
            Event::Join(_) | Event::Wait(_) | Event::Anew(_) => None,
        }
    }

    /// Flow `i` leaves recovery as Reno does.
    pub fn recovers(&mut self, i: usize) -> wl_group_reply {
        let half = (self.flows[i].cwnd_bytes / 2).max(2 * MSS);
        self.flows[i].ssthresh_bytes = half;
        let report = self.report(i, abi::WL_MEMBER_AVOIDANCE, half);
        self.update(i, &report)
    }

    pub fn sum_bytes(&self) -> f64 {
        self.group.state().sum_cwnd_q16 as f64 / 65536.0
    }

    /// One event, as a Reno-like stack would live through it. `None` if it does not apply.
    pub fn step(&mut self, event: &Event) -> Option<wl_group_reply> {
        let n = self.flows.len();
        let who = self.who(event);
        let at = |states: &[u32]| {
            who.filter(|&i| states.contains(&self.flows[i].state) && !self.flows[i].is_vanished)
        };
        const SS: u32 = abi::WL_MEMBER_SLOW_START;
        const FR: u32 = abi::WL_MEMBER_RECOVERY;
        const CA: u32 = abi::WL_MEMBER_AVOIDANCE;
        match *event {
            Event::Join(joiner) => {
                if n < 32 {
                    self.found(&[joiner]);
                }
                None
            }
            Event::Leave(_) => {
                let i = at(&[SS, FR, CA])?;
                let gone = self.flows.swap_remove(i);
                self.group.leave(gone.id).unwrap();
                None
            }
            Event::Vanish(_) => {
                let i = at(&[SS, FR, CA])?;
                self.flows[i].is_vanished = true;
                None
            }
            Event::Acks(_, part) => {
                let i = at(&[SS, CA])?;
                let flow = &self.flows[i];
                let acked = u64::from(flow.cwnd_bytes) * u64::from(part) / 256;
                let grown = if flow.state == SS {
                    (flow.cwnd_bytes + acked as u32).min(flow.ssthresh_bytes.max(flow.cwnd_bytes))
                } else {
                    flow.cwnd_bytes + (u64::from(MSS) * acked / u64::from(flow.cwnd_bytes)) as u32
                };
                let grown = grown.min(abi::WL_CWND_MAX_BYTES);
                let state = if grown < flow.ssthresh_bytes { SS } else { CA };
                let report = self.report(i, state, grown);
                Some(self.update(i, &report))
            }
            Event::Loss(_) => {
                let i = at(&[SS, CA])?;
                self.flows[i].lost_at_us = self.now_us;
                let report = self.report(i, FR, self.flows[i].cwnd_bytes);
                Some(self.update(i, &report))
            }
            Event::Recovered(_) => who.map(|i| self.recovers(i)),
            Event::Timeout(_) => {
                let i = at(&[SS, FR, CA])?;
                self.flows[i].ssthresh_bytes = (self.flows[i].cwnd_bytes / 2).max(2 * MSS);
                let report = wl_group_report { is_timeout: 1, ..self.report(i, SS, MSS) };
                Some(self.update(i, &report))
            }
            Event::Ask(_) => {
                let i = at(&[SS, CA])?;
                let reply = self.group.ask(self.flows[i].id).unwrap();
                self.flows[i].take(reply);
                Some(reply)
            }
            Event::Weight(_, weight) => {
                let i = at(&[SS, CA])?;
                self.flows[i].weight = weight;
                let flow = &self.flows[i];
                let report = wl_group_report { weight, ..self.report(i, flow.state, flow.cwnd_bytes) };
                Some(self.update(i, &report))
            }
            Event::Wait(us) => {
                self.now_us = self.now_us.wrapping_add(us);
                None
            }
            Event::Anew(ref founders) => {
                self.flows.drain(..).for_each(|flow| self.group.leave(flow.id).unwrap());
                self.found(founders);
                None
            }
        }
    }

    /// The part of the group that weights give to flow `i`.
    pub fn fraction(&self, i: usize) -> f64 {
        let weights = [1.0, 2.0, 4.0];
        let mut total = 0.0;
        let mut of_tenant = [0.0; 3];
        for f in &self.flows {
            match f.tenant {
                None => total += f64::from(f.weight),
                Some(t) => {
                    if of_tenant[t] == 0.0 {
                        total += weights[t];
                    }
                    of_tenant[t] += f64::from(f.weight);
                }
            }
        }
        let f = &self.flows[i];
        match f.tenant {
            None => f64::from(f.weight) / total,
            Some(t) => weights[t] / total * f64::from(f.weight) / of_tenant[t],
        }
    }
}
