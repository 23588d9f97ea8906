//! Groups of a scenario, and what a host or the box does with its flow's membership: its reports and replies are the
//! core's (`core/group/report.h`).

use crate::time::duration_us;
use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};
use windlass_core::{
    Group, GroupAblation, GroupError, GroupRule, MemberId, TenantId, abi,
    abi::{wl_decision, wl_group_config, wl_sample},
};
use windlass_scenario::{Group as GroupSpec, Per};

/// A group with its members.
#[derive(Debug)]
struct Members {
    group: Group,
    per: Per,
    /// By sending host.
    tenants: BTreeMap<String, TenantId>,
    /// Whose share the others' ACKs release, and by what name its owner calls it.
    joining: VecDeque<(MemberId, u32)>,
}

/// A group of the scenario. Clones are of one and the same.
#[derive(Clone, Debug)]
pub struct SharedGroup(Rc<RefCell<Members>>);

impl SharedGroup {
    /// An empty group; none if the core has no such rule, or no such ablation.
    pub fn new(spec: &GroupSpec) -> Option<SharedGroup> {
        let ablated: Option<Vec<GroupAblation>> =
            spec.without.iter().map(|name| GroupAblation::by_name(name)).collect();
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let config = wl_group_config {
            rule: GroupRule::by_name(&spec.rule)?.id(),
            max_members: spec.max_members.unwrap_or(0),
            flags: flag(spec.join_adds, abi::WL_GROUP_JOIN_ADDS)
                | flag(!spec.ack_clock, abi::WL_GROUP_NO_ACK_CLOCK)
                | flag(spec.idle_grows, abi::WL_GROUP_IDLE_GROWS)
                | ablated?.iter().fold(0, |all, a| all | a.flag()),
            aggressiveness_q8: spec.aggressiveness.map_or(0, |n| (n * 256.0) as u32),
            idle_us: spec.idle.map_or(0, |s| duration_us(s.ns())),
        };
        let group = Group::new(&config).ok()?;
        let members = Members { group, per: spec.per, tenants: BTreeMap::new(), joining: VecDeque::new() };
        Some(SharedGroup(Rc::new(RefCell::new(members))))
    }

    /// A flow of host `host` that may join; `id` is what it is called when the others' ACKs let it send.
    pub fn membership(&self, host: &str, weight: u32, id: u32) -> Membership {
        let members = &mut *self.0.borrow_mut();
        let tenant = (members.per == Per::Server).then(|| {
            let group = &mut members.group;
            *members.tenants.entry(host.into()).or_insert_with(|| group.add_tenant(weight))
        });
        let weight = if tenant.is_some() { 1 } else { weight };
        Membership { group: self.clone(), tenant, weight, id, member: None, is_refused: false }
    }
}

/// A flow's place in a group.
#[derive(Debug)]
pub struct Membership {
    group: SharedGroup,
    tenant: Option<TenantId>,
    weight: u32,
    id: u32,
    /// None: it has not joined yet, or was collected because it was silent.
    member: Option<MemberId>,
    /// The group was full: the flow goes on by itself.
    is_refused: bool,
}

impl Membership {
    /// The flow's algorithm has decided on `sample`: the decision becomes the group's. Joins if it has to. Returns the
    /// member that an ACK lets send, if one is joining.
    pub fn report(&mut self, sample: &wl_sample, decision: &mut wl_decision) -> Option<u32> {
        let members = &mut *self.group.0.borrow_mut();
        if let Some(member) = self.member
            && members.group.exchange(member, self.weight, sample, decision) == Err(GroupError::NotMember)
        {
            self.member = None;
        }
        if self.member.is_none() && !self.is_refused {
            match members.group.join(self.tenant, self.weight, sample, decision) {
                Ok(member) => {
                    self.member = Some(member);
                    if members.group.is_joining(member) {
                        members.joining.push_back((member, self.id));
                    }
                }
                Err(_) => self.is_refused = true,
            }
        }
        members.next_joining(self.member).filter(|_| sample.newly_delivered_bytes > 0)
    }

    /// The decision becomes what the group grants now.
    pub fn refresh(&self, decision: &mut wl_decision) {
        if let Some(member) = self.member {
            // one that was collected finds out when it reports
            let _ = self.group.0.borrow_mut().group.refresh(member, decision);
        }
    }

    /// The flow resumes after a pause, for which its own algorithm may have cut its window.
    pub fn resume(&self, now_us: u32, decision: &mut wl_decision) {
        if let Some(member) = self.member {
            // as in refresh()
            let _ = self.group.0.borrow_mut().group.resume(member, now_us, decision);
        }
    }

    /// Whether the others' ACKs release its share.
    pub fn is_joining(&self) -> bool {
        self.member.is_some_and(|m| self.group.0.borrow().group.is_joining(m))
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(member) = self.member {
            // unless it was collected before
            let _ = self.group.0.borrow_mut().group.leave(member);
        }
    }
}

impl Members {
    /// Whose turn it is among those that join.
    fn next_joining(&mut self, but: Option<MemberId>) -> Option<u32> {
        while let Some((member, id)) = self.joining.pop_front() {
            if self.group.is_joining(member) {
                self.joining.push_back((member, id));
                return (but != Some(member)).then_some(id);
            }
        }
        None
    }
}
