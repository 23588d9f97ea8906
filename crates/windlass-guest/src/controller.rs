//! The host's side: one group for all guests. No clock, no file descriptors: time comes in, bytes come and go.
//!
//! A guest is believed nothing that could give it more than its share: the port identifies it, its weight is
//! configured, segment sizes and round trips are bounded, and the group bounds what windows it may claim.

use crate::wire::{
    Frame, Message, Nonsense, Op, Outcome, REPORT_BYTES, Reader, Reply, Report, State, encode,
};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use windlass_core::{
    Group, GroupError, GroupRule, MemberId, TenantId,
    abi::{self, wl_decision, wl_group_config, wl_group_reply, wl_group_report},
};

/// A flow that reports nothing for so long leaves the group; if it wakes up, it registers again. One that sends
/// reports every round trip.
pub const IDLE_US: u32 = 3_000_000;
/// Largest segment of a guest that counts: Ethernet's.
pub const MSS_MOST_BYTES: u32 = 1460;
/// Longest round trip that counts: a guest that claims another can slow the group's growth down no further.
pub const SRTT_MOST_US: u32 = 1_000_000;
/// Flows of one guest; more go on by themselves.
pub const FLOWS_MOST: u32 = 4096;
/// What a message that begins or ends a session costs its guest, or one that makes no sense, in reports: such messages
/// make all of its flows leave, and an honest guest has one a second at most.
const SESSION_COST: usize = 1000;
/// Events reported of one call; those before the last ones are not.
const EVENTS_MOST: usize = 4;
/// How often a guest that is full is looked through for flows that were collected.
const SIFT_US: u32 = 100_000;

/// How the group behaves.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Coupling rule.
    pub rule: GroupRule,
    /// Of `multcp`, in flows times 256; 0: as many as there are.
    pub aggressiveness_q8: u32,
    /// See [`IDLE_US`].
    pub idle_us: u32,
    /// See [`MSS_MOST_BYTES`].
    pub mss_most_bytes: u32,
    /// See [`FLOWS_MOST`].
    pub flows_most: usize,
}

impl Config {
    /// The rule with everything else as usual.
    pub fn new(rule: GroupRule) -> Config {
        Config {
            rule,
            aggressiveness_q8: 0,
            idle_us: IDLE_US,
            mss_most_bytes: MSS_MOST_BYTES,
            flows_most: FLOWS_MOST as usize,
        }
    }
}

/// One guest: a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestId(usize);

/// What a guest did, and what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuestInfo {
    /// Name of its port.
    pub name: String,
    /// Its weight, whatever the number of its flows.
    pub weight: u32,
    /// Whether it is there.
    pub is_coupled: bool,
    /// Its flows in the group.
    pub flows: usize,
    /// What the windows granted to them last add up to.
    pub cwnd_bytes: u64,
    /// Round trip that its flows report, smoothed over their reports; 0: none yet. What it sends is its windows by this.
    pub srtt_us: u32,
    /// Reports so far.
    pub reports: u64,
    /// Messages that carried them.
    pub batches: u64,
    /// Reports of flows for which there was no room.
    pub refused: u64,
    /// Times that it sent something that makes no sense.
    pub nonsense: u64,
}

/// What the caller may want to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The guest sent its greeting.
    Coupled,
    /// The guest ended the session.
    Ended,
    /// The guest sent something that makes no sense; its flows left the group.
    Nonsense(Nonsense),
}

#[derive(Debug)]
struct Guest {
    tenant: TenantId,
    session: Option<u64>,
    reader: Reader,
    flows: HashMap<u64, MemberId>,
    /// Most flows that it had at once while the group had members: so many have brought a window.
    brought: usize,
    /// Smoothed over its reports; 0: none yet.
    srtt_us: u32,
    sifted_at_us: u32,
    /// Its port is not served any more.
    is_removed: bool,
    info: GuestInfo,
}

impl Guest {
    fn new(tenant: TenantId, info: GuestInfo) -> Guest {
        Guest {
            tenant,
            session: None,
            reader: Reader::default(),
            flows: HashMap::new(),
            brought: 0,
            srtt_us: 0,
            sifted_at_us: 0,
            is_removed: false,
            info,
        }
    }
}

/// The group and its guests.
#[derive(Debug)]
pub struct Controller {
    config: Config,
    group: Group,
    guests: Vec<Guest>,
    /// Places in `guests` whose guest was removed.
    free: Vec<usize>,
    /// Round trips of those that have reported one, and whose they are: the last is the longest.
    srtts_us: BTreeSet<(u32, usize)>,
}

impl Controller {
    /// A group without guests.
    pub fn new(config: Config) -> Result<Controller, GroupError> {
        let group = Group::new(&wl_group_config {
            rule: config.rule.id(),
            max_members: 0,
            // a joiner's share is spread over its first round trip by its own pacing
            flags: abi::WL_GROUP_NO_ACK_CLOCK,
            aggressiveness_q8: config.aggressiveness_q8,
            idle_us: config.idle_us,
        })?;
        Ok(Controller { config, group, guests: Vec::new(), free: Vec::new(), srtts_us: BTreeSet::new() })
    }

    /// One more port; all flows behind it together weigh `weight`, 1 to 65535.
    pub fn add_guest(&mut self, name: &str, weight: u32) -> GuestId {
        let info = GuestInfo { name: name.into(), weight, ..GuestInfo::default() };
        if let Some(at) = self.free.pop() {
            let tenant = self.guests[at].tenant;
            self.guests[at] = Guest::new(tenant, info);
            self.set_weight(GuestId(at), weight);
            return GuestId(at);
        }
        self.guests.push(Guest::new(self.group.add_tenant(weight), info));
        GuestId(self.guests.len() - 1)
    }

    /// The guest's flows together weigh `weight` from now on, 1 to 65535; each follows with its next answer.
    pub fn set_weight(&mut self, guest: GuestId, weight: u32) {
        let guest = &mut self.guests[guest.0];
        guest.info.weight = weight;
        self.group.set_tenant_weight(guest.tenant, weight).expect("the guest has a tenant of this group");
    }

    /// The port is not served any more: the guest's flows leave the group, and it is not listed. Its id is another's from
    /// then on.
    pub fn remove_guest(&mut self, guest: GuestId) {
        self.disconnected(guest);
        self.guests[guest.0].is_removed = true;
        self.free.push(guest.0);
    }

    /// A program is at the other end of the port. Returns what to write: an end to whatever was agreed before, upon
    /// which the guest sends its greeting.
    pub fn connected(&mut self, guest: GuestId) -> Vec<u8> {
        self.disconnected(guest);
        goodbye()
    }

    /// None is any more: the guest's flows leave the group.
    pub fn disconnected(&mut self, guest: GuestId) {
        self.end_session(guest);
        self.guests[guest.0].reader = Reader::default();
    }

    /// Bytes that came from the guest; appends what to answer. Returns what they cost, in reports: what a guest may
    /// send in a second is bounded, whatever it is.
    pub fn receive(
        &mut self,
        guest: GuestId,
        bytes: &[u8],
        now_us: u32,
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> usize {
        // what is no frame at all takes as long to look through
        let (mut cost, least) = (0, bytes.len() / REPORT_BYTES);
        self.guests[guest.0].reader.push(bytes);
        loop {
            let result = match self.guests[guest.0].reader.next_frame() {
                Ok(Some(frame)) => self.frame(guest, frame, now_us, out, events),
                Ok(None) => return cost.max(least),
                Err(what) => Err(what),
            };
            match result {
                Ok(n) => cost += n,
                Err(what) => {
                    cost += SESSION_COST;
                    self.end_session(guest);
                    self.guests[guest.0].info.nonsense += 1;
                    out.extend(goodbye());
                    tell(events, Event::Nonsense(what));
                }
            }
        }
    }

    fn frame(
        &mut self,
        guest: GuestId,
        frame: Frame,
        now_us: u32,
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<usize, Nonsense> {
        match frame.message {
            Message::Hello => {
                self.end_session(guest);
                self.guests[guest.0].session = Some(frame.session);
                encode(frame.session, &Message::Welcome, out);
                tell(events, Event::Coupled);
            }
            Message::Bye => {
                if self.guests[guest.0].session == Some(frame.session) {
                    self.end_session(guest);
                    tell(events, Event::Ended);
                }
            }
            Message::Reports(all) => {
                let count = all.len();
                if self.guests[guest.0].session == Some(frame.session) {
                    let replies = all.iter().filter_map(|r| self.report(guest, r, now_us)).collect();
                    encode(frame.session, &Message::Replies(replies), out);
                    self.guests[guest.0].info.batches += 1;
                }
                // else of a session that was ended: the guest knows by now
                return Ok(count);
            }
            Message::Welcome => return Err(Nonsense::Kind(2)),
            Message::Replies(_) => return Err(Nonsense::Kind(4)),
        }
        Ok(SESSION_COST)
    }

    fn report(&mut self, guest: GuestId, report: &Report, now_us: u32) -> Option<Reply> {
        let id = guest.0;
        self.guests[id].info.reports += 1;
        let member = self.guests[id].flows.get(&report.flow).copied();
        if report.op == Op::Leave {
            if let Some(member) = member {
                self.guests[id].flows.remove(&report.flow);
                // if it was collected, it has left already
                let _ = self.group.leave(member);
            }
            return None;
        }
        let mut claim = self.believed(guest, report, now_us);
        if let Some((member, least_bytes)) = member.and_then(|m| self.paused(m, report, now_us)) {
            let mut decision = wl_decision {
                cwnd_bytes: report.cwnd_bytes.max(least_bytes),
                ssthresh_bytes: report.ssthresh_bytes,
                ..wl_decision::default()
            };
            // if it was collected, the update below reports so
            let _ = self.group.resume(member, now_us, &mut decision);
            (claim.cwnd_bytes, claim.ssthresh_bytes) = (decision.cwnd_bytes, decision.ssthresh_bytes);
        }
        let result = match member {
            Some(member) => self.group.update(member, &claim).map(|reply| (member, reply)),
            None if report.op == Op::Update => Err(GroupError::NotMember),
            None if self.is_full(guest, now_us) => Err(GroupError::Full),
            None => self.join(guest, claim).inspect(|(member, _)| {
                self.guests[id].flows.insert(report.flow, *member);
            }),
        };
        // a guest's kernel cuts off parts of segments, which of small windows is a considerable part
        let result = result.and_then(|(member, mut reply)| {
            self.group.settle(member, &mut reply)?;
            Ok(reply)
        });
        let keep = Reply {
            flow: report.flow,
            seq: report.seq,
            outcome: Outcome::Coupled,
            state: report.state,
            is_change: false,
            cwnd_bytes: report.cwnd_bytes,
            ssthresh_bytes: report.ssthresh_bytes,
        };
        Some(match result {
            Ok(reply) => Reply {
                state: state(reply.state),
                is_change: reply.is_change != 0,
                cwnd_bytes: reply.cwnd_bytes.max(1),
                ssthresh_bytes: reply.ssthresh_bytes.max(1),
                ..keep
            },
            Err(GroupError::NotMember) => {
                self.guests[id].flows.remove(&report.flow);
                Reply { outcome: Outcome::Unknown, ..keep }
            }
            Err(_) => {
                self.guests[id].info.refused += 1;
                Reply { outcome: Outcome::Refused, ..keep }
            }
        })
    }

    /// A flow joins, with an initial window at most; what it reports that it had beyond is a threshold, if the group begins with
    /// it: a liar reaches what any slow start reaches. What flows brought that have left is the others' (`fse`), so that one in the
    /// place of such a flow brings nothing.
    fn join(
        &mut self,
        guest: GuestId,
        claim: wl_group_report,
    ) -> Result<(MemberId, wl_group_reply), GroupError> {
        if self.group.is_empty() {
            self.guests.iter_mut().for_each(|g| g.brought = 0);
        }
        let Guest { tenant, flows, brought, .. } = &mut self.guests[guest.0];
        let first_bytes = abi::WL_INIT_CWND_SEGS * claim.mss_bytes;
        let cwnd_bytes = if flows.len() < *brought { 1 } else { claim.cwnd_bytes.min(first_bytes) };
        // nor does what it has in flight make more of it
        let modest = wl_group_report { cwnd_bytes, inflight_bytes: 0, ..claim };
        let (member, reply) = self.group.register(Some(*tenant), &modest)?;
        *brought = (*brought).max(flows.len() + 1);
        // one that has never lost anything knows no threshold, and must not end the others' slow start
        let knows_threshold = u32::from(claim.state) != abi::WL_MEMBER_SLOW_START
            || claim.ssthresh_bytes < abi::WL_CWND_MAX_BYTES;
        if claim.cwnd_bytes <= first_bytes || !knows_threshold {
            return Ok((member, reply));
        }
        self.group.prove(claim.cwnd_bytes);
        Ok((member, self.group.ask(member)?))
    }

    /// The member, if it is the first to report after a pause of all, for which its kernel has cut its window; and
    /// what an honest kernel leaves of that at least.
    fn paused(&self, member: MemberId, report: &Report, now_us: u32) -> Option<(MemberId, u32)> {
        let m = self.group.member(member).ok()?;
        let has_lost = report.is_timeout
            || report.state == State::Recovery
            || u32::from(m.state) == abi::WL_MEMBER_RECOVERY;
        if report.op != Op::Update
            || has_lost
            || report.cwnd_bytes >= m.cwnd_bytes
            || self.group.is_live(now_us)
        {
            return None;
        }
        Some((member, m.cwnd_bytes.min(abi::WL_INIT_CWND_SEGS * self.config.mss_most_bytes)))
    }

    /// Whether the guest has as many flows as it may have, those that were collected not counted.
    fn is_full(&mut self, guest: GuestId, now_us: u32) -> bool {
        let guest = &mut self.guests[guest.0];
        if guest.flows.len() < self.config.flows_most {
            return false;
        }
        if now_us.wrapping_sub(guest.sifted_at_us) >= SIFT_US {
            guest.sifted_at_us = now_us;
            let group = &self.group;
            guest.flows.retain(|_, member| group.member(*member).is_ok());
        }
        guest.flows.len() >= self.config.flows_most
    }

    /// What is believed of a report.
    fn believed(&mut self, guest: GuestId, report: &Report, now_us: u32) -> wl_group_report {
        let claimed_us = report.srtt_us.min(SRTT_MOST_US);
        let srtt_us = self.guests[guest.0].srtt_us;
        if srtt_us == 0 {
            self.set_srtt(guest, claimed_us);
        } else if claimed_us > 0 {
            self.set_srtt(guest, srtt_us - srtt_us / 8 + claimed_us / 8);
        }
        wl_group_report {
            now_us,
            mss_bytes: report.mss_bytes.min(self.config.mss_most_bytes),
            weight: 1,
            cwnd_bytes: report.cwnd_bytes,
            ssthresh_bytes: report.ssthresh_bytes,
            // the slowest guest's: no guest can make the group's rounds shorter than an honest one finds them
            srtt_us: self.slowest_srtt_us(),
            acked_bytes: report.acked_bytes,
            acks: report.acks,
            inflight_bytes: report.inflight_bytes,
            desired_bytes: 0,
            state: report.state as u8,
            is_timeout: report.is_timeout.into(),
            is_cwnd_limited: report.is_cwnd_limited.into(),
            // a guest's own value is not used
            is_undo: 0,
        }
    }

    fn end_session(&mut self, id: GuestId) {
        let guest = &mut self.guests[id.0];
        for (_, member) in guest.flows.drain() {
            // if it was collected, it has left already
            let _ = self.group.leave(member);
        }
        guest.session = None;
        self.set_srtt(id, 0);
    }

    /// Round trip of the guest that has the longest; 0: none was reported.
    pub fn slowest_srtt_us(&self) -> u32 {
        self.srtts_us.last().map_or(0, |(srtt_us, _)| *srtt_us)
    }

    /// How many guests there is room for without more memory: as many as there ever were at once.
    pub fn places(&self) -> usize {
        self.guests.len()
    }

    fn set_srtt(&mut self, guest: GuestId, srtt_us: u32) {
        let old_us = std::mem::replace(&mut self.guests[guest.0].srtt_us, srtt_us);
        if old_us != srtt_us {
            self.srtts_us.remove(&(old_us, guest.0));
            if srtt_us > 0 {
                self.srtts_us.insert((srtt_us, guest.0));
            }
        }
    }

    /// The group's own window.
    pub fn sum_cwnd_bytes(&self) -> u64 {
        self.group.state().sum_cwnd_q16 >> abi::WL_GROUP_Q
    }

    /// All guests; one that was added takes the place of one that was removed.
    pub fn guests(&self) -> Vec<GuestInfo> {
        self.guests
            .iter()
            .filter(|g| !g.is_removed)
            .map(|g| {
                let members = || g.flows.values().filter_map(|m| self.group.member(*m).ok());
                GuestInfo {
                    is_coupled: g.session.is_some(),
                    flows: members().count(),
                    cwnd_bytes: members().map(|m| u64::from(m.cwnd_bytes)).sum(),
                    srtt_us: g.srtt_us,
                    ..g.info.clone()
                }
            })
            .collect()
    }
}

/// What ends a guest's session, whichever it is.
pub fn goodbye() -> Vec<u8> {
    let mut out = Vec::new();
    encode(0, &Message::Bye, &mut out);
    out
}

/// A guest may begin thousands of sessions in one read: what they came to is what matters.
fn tell(events: &mut Vec<Event>, event: Event) {
    if events.len() == EVENTS_MOST {
        events.remove(0);
    }
    events.push(event);
}

fn state(core: u32) -> State {
    match core {
        abi::WL_MEMBER_RECOVERY => State::Recovery,
        abi::WL_MEMBER_AVOIDANCE => State::Avoidance,
        _ => State::SlowStart,
    }
}
