//! Flow groups: several flows that share one congestion controller's window.

use crate::abi::{
    self, wl_decision, wl_group, wl_group_config, wl_group_reply, wl_group_report, wl_member, wl_sample,
    wl_tenant,
};
use std::{ffi::CStr, fmt, ptr};

/// What may be configured of a group or of its members, and not every rule goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// A member's, or a tenant's.
    Weight,
    /// Whose weight it is.
    Per,
    /// How many flows the group is like.
    Aggressiveness,
    /// `WL_GROUP_JOIN_ADDS`
    JoinAdds,
    /// `WL_GROUP_NO_ACK_CLOCK`
    AckClock,
    /// `WL_GROUP_IDLE_GROWS`
    IdleGrows,
}

/// One coupling rule of `core/group/list.h`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GroupRule {
    index: u32,
}

impl GroupRule {
    /// All rules, in the order of the list.
    pub fn all() -> impl Iterator<Item = GroupRule> {
        (0..)
            // SAFETY: the function takes any index and returns NULL past the end.
            .take_while(|&index| unsafe { !abi::wln_group_rule_name(index).is_null() })
            .map(|index| GroupRule { index })
    }

    /// Names of all, as messages list them.
    pub fn names() -> String {
        Self::all().map(|r| r.name()).collect::<Vec<_>>().join(", ")
    }

    /// The rule of that name, if there is one.
    pub fn by_name(name: &str) -> Option<GroupRule> {
        Self::all().find(|r| r.name() == name)
    }

    /// The rule with that id, if there is one.
    pub fn by_id(id: u32) -> Option<GroupRule> {
        Self::all().find(|r| r.id() == id)
    }

    /// Name in policies and on the command line.
    pub fn name(&self) -> &'static str {
        // SAFETY: `index` came from all(), so the string exists; it is static and ASCII.
        unsafe { CStr::from_ptr(abi::wln_group_rule_name(self.index)) }.to_str().expect("ASCII")
    }

    /// One line on what it does.
    pub fn description(&self) -> &'static str {
        // SAFETY: as in name().
        unsafe { CStr::from_ptr(abi::wln_group_rule_description(self.index)) }.to_str().expect("ASCII")
    }

    /// Whether members have shares of one window, whatever windows they claim; else they are coupled only when one joins.
    pub fn has_shares(&self) -> bool {
        self.name() != "lisa"
    }

    /// Why the key has no effect, and what to do; none if the rule goes by it.
    pub fn ignores(&self, key: GroupKey) -> Option<String> {
        let name = self.name();
        let why = match key {
            GroupKey::Aggressiveness if name != "multcp" => {
                format!("aggressiveness: only the rule \"multcp\" has one, not \"{name}\"")
            }
            GroupKey::JoinAdds if !["ccc", "etcp", "multcp"].contains(&name) => {
                format!("join_adds: only the rules ccc, etcp and multcp leave that open, not \"{name}\"")
            }
            GroupKey::Aggressiveness | GroupKey::JoinAdds => return None,
            _ if self.has_shares() => return None,
            GroupKey::Weight => format!("weight: by the rule \"{name}\" nothing is divided"),
            GroupKey::Per => {
                format!("per: by the rule \"{name}\" nothing is divided, so that no weight applies")
            }
            GroupKey::AckClock => format!("ack_clock: by the rule \"{name}\" joiners have none"),
            GroupKey::IdleGrows => format!("idle_grows: by the rule \"{name}\" everybody grows alone"),
        };
        Some(why + "; leave it out")
    }

    /// Stable number, as stored in compiled policies and groups.
    pub fn id(&self) -> u32 {
        // SAFETY: plain call without pointers.
        unsafe { abi::wln_group_rule_id(self.index) }
    }
}

impl fmt::Debug for GroupRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One way to leave a choice of the rule `ccc` out (`core/group/ablation.h`). Only this build can, not the kernel's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GroupAblation {
    index: u32,
}

impl GroupAblation {
    /// All ablations, in the order of the list.
    pub fn all() -> impl Iterator<Item = GroupAblation> {
        (0..)
            // SAFETY: the function takes any index and returns NULL past the end.
            .take_while(|&index| unsafe { !abi::wln_group_ablation_name(index).is_null() })
            .map(|index| GroupAblation { index })
    }

    /// Names of all, as messages list them.
    pub fn names() -> String {
        Self::all().map(|a| a.name()).collect::<Vec<_>>().join(", ")
    }

    /// The ablation of that name, if there is one.
    pub fn by_name(name: &str) -> Option<GroupAblation> {
        Self::all().find(|a| a.name() == name)
    }

    /// Name in scenarios.
    pub fn name(&self) -> &'static str {
        // SAFETY: `index` came from all(), so the string exists; it is static and ASCII.
        unsafe { CStr::from_ptr(abi::wln_group_ablation_name(self.index)) }.to_str().expect("ASCII")
    }

    /// Which choice it is, and what happens instead.
    pub fn description(&self) -> &'static str {
        // SAFETY: as in name().
        unsafe { CStr::from_ptr(abi::wln_group_ablation_description(self.index)) }.to_str().expect("ASCII")
    }

    /// Its bit of `wl_group_config.flags`.
    pub fn flag(&self) -> u32 {
        // SAFETY: plain call without pointers.
        unsafe { abi::wln_group_ablation_flag(self.index) }
    }
}

impl fmt::Debug for GroupAblation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a group did not take a call; the flow goes on with its own window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// The configured rule does not exist.
    NoRule,
    /// The group has as many members as it may have.
    Full,
    /// The flow left, or was collected because it was silent for too long.
    NotMember,
    /// The tenant was not made by this group.
    NoTenant,
    /// The report contradicts itself (no segment size, no window, an unknown state).
    Nonsense,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupError::NoRule => "there is no such group rule",
            GroupError::Full => "the group has no room for another member",
            GroupError::NotMember => "the flow is not a member of the group",
            GroupError::NoTenant => "the group has no such tenant",
            GroupError::Nonsense => "the report contradicts itself",
        })
    }
}

impl std::error::Error for GroupError {}

/// A tenant of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TenantId(usize);

/// A member of one group, from its registration until it leaves or is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemberId {
    slot: usize,
    generation: u32,
}

#[derive(Debug, Default)]
struct Slot {
    member: wl_member,
    tenant: Option<TenantId>,
    generation: u32,
}

/// Members of others that each report lets the group look at, to find those that vanished.
const COLLECTED_AT_ONCE: usize = 2;

/// A group with its tenants and members, as a home keeps them.
///
/// Every call costs the same however many members there are. Members that vanish without [`Group::leave`] are found by
/// a hand that moves on by two members with each report.
#[derive(Debug)]
pub struct Group {
    state: wl_group,
    tenants: Vec<wl_tenant>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    hand: usize,
    members_touched: u64,
}

impl Group {
    /// An empty group.
    pub fn new(config: &wl_group_config) -> Result<Group, GroupError> {
        let mut state = wl_group::default();
        // SAFETY: both references are valid for the call.
        check(unsafe { abi::wln_group_init(&mut state, config) })?;
        Ok(Group {
            state,
            tenants: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            members_touched: 0,
        })
    }

    /// A tenant: all its flows together weigh `weight`, whatever their number.
    pub fn add_tenant(&mut self, weight: u32) -> TenantId {
        self.tenants.push(wl_tenant::default());
        let id = TenantId(self.tenants.len() - 1);
        self.set_tenant_weight(id, weight).expect("the tenant was just made");
        id
    }

    /// Changes a tenant's weight; its flows follow as they report or query.
    pub fn set_tenant_weight(&mut self, tenant: TenantId, weight: u32) -> Result<(), GroupError> {
        let tenant = self.tenants.get_mut(tenant.0).ok_or(GroupError::NoTenant)?;
        // SAFETY: both references are valid for the call.
        unsafe { abi::wln_tenant_set_weight(&mut self.state, tenant, weight) };
        Ok(())
    }

    /// A flow joins, on its own weight or as one of a tenant's.
    pub fn register(
        &mut self,
        tenant: Option<TenantId>,
        report: &wl_group_report,
    ) -> Result<(MemberId, wl_group_reply), GroupError> {
        if tenant.is_some_and(|t| t.0 >= self.tenants.len()) {
            return Err(GroupError::NoTenant);
        }
        self.move_hand(report.now_us);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots[slot].tenant = tenant;
        let result = self.call(slot, |g, t, m, r| {
            // SAFETY: the pointers are valid for the call; `t` may be NULL.
            unsafe { abi::wln_group_register(g, t, m, report, r) }
        });
        match result {
            Ok(reply) => Ok((MemberId { slot, generation: self.slots[slot].generation }, reply)),
            Err(error) => {
                self.free.push(slot);
                Err(error)
            }
        }
    }

    /// A member's own controller has computed a window.
    pub fn update(
        &mut self,
        member: MemberId,
        report: &wl_group_report,
    ) -> Result<wl_group_reply, GroupError> {
        let slot = self.slot_of(member)?;
        let reply = self.call(slot, |g, t, m, r| {
            // SAFETY: as in register().
            unsafe { abi::wln_group_update(g, t, m, report, r) }
        })?;
        self.move_hand(report.now_us);
        Ok(reply)
    }

    /// The member's share now, without a report of its own.
    pub fn ask(&mut self, member: MemberId) -> Result<wl_group_reply, GroupError> {
        let slot = self.slot_of(member)?;
        // SAFETY: as in register().
        self.call(slot, |g, t, m, r| unsafe { abi::wln_group_ask(g, t, m, r) })
    }

    /// A flow with an algorithm at work joins: its decision becomes what the group grants.
    pub fn join(
        &mut self,
        tenant: Option<TenantId>,
        weight: u32,
        sample: &wl_sample,
        decision: &mut wl_decision,
    ) -> Result<MemberId, GroupError> {
        let report = report_of(&mut wl_member::default(), sample, decision, weight);
        let (member, reply) = self.register(tenant, &report)?;
        self.take(member.slot, &reply, decision);
        Ok(member)
    }

    /// The member's algorithm has decided on `sample`: its decision becomes what the group grants.
    pub fn exchange(
        &mut self,
        member: MemberId,
        weight: u32,
        sample: &wl_sample,
        decision: &mut wl_decision,
    ) -> Result<(), GroupError> {
        let slot = self.slot_of(member)?;
        let report = report_of(&mut self.slots[slot].member, sample, decision, weight);
        let reply = self.update(member, &report)?;
        self.take(self.slot_of(member)?, &reply, decision);
        Ok(())
    }

    /// The member's decision becomes what the group grants now, without a report of its own.
    pub fn refresh(&mut self, member: MemberId, decision: &mut wl_decision) -> Result<(), GroupError> {
        let reply = self.ask(member)?;
        self.take(self.slot_of(member)?, &reply, decision);
        Ok(())
    }

    /// The member resumes after a pause: its decision becomes the share if others report what the path bears. If none
    /// does, what its own algorithm has cut its window by is cut of the group's.
    pub fn resume(
        &mut self,
        member: MemberId,
        now_us: u32,
        decision: &mut wl_decision,
    ) -> Result<(), GroupError> {
        let slot = self.slot_of(member)?;
        let reply = self.call(slot, |g, t, m, r| {
            r.cwnd_bytes = decision.cwnd_bytes;
            // SAFETY: as in register().
            unsafe { abi::wln_group_resume(g, t, m, now_us, r) }
        })?;
        self.take(self.slot_of(member)?, &reply, decision);
        Ok(())
    }

    /// Whether any member has reported within two round trips, so that it is known what the path bears.
    pub fn is_live(&self, now_us: u32) -> bool {
        // SAFETY: the state is initialized.
        unsafe { abi::wln_group_is_live(self.state(), now_us) != 0 }
    }

    /// The member that joined last brought this window, of which its report has no more than one to begin with, there being nothing
    /// but its word for it: while the group is being founded it is a threshold, up to which the group begins slowly.
    pub fn prove(&mut self, bytes: u32) {
        // SAFETY: the state is initialized.
        unsafe { abi::wln_group_prove(&mut self.state, bytes) };
    }

    /// Makes a reply whole segments, as stacks send them: the nearest number to the share, from which the member goes on.
    /// For homes that pass replies on; [`Group::exchange`] and its like do so by themselves.
    pub fn settle(&mut self, member: MemberId, reply: &mut wl_group_reply) -> Result<(), GroupError> {
        let slot = self.slot_of(member)?;
        let mut decision = wl_decision {
            cwnd_bytes: reply.cwnd_bytes,
            ssthresh_bytes: reply.ssthresh_bytes,
            ..wl_decision::default()
        };
        self.take(slot, reply, &mut decision);
        (reply.cwnd_bytes, reply.ssthresh_bytes) = (decision.cwnd_bytes, decision.ssthresh_bytes);
        Ok(())
    }

    /// Whether the ACKs of others release the member's share, so that it should query whenever some have come.
    pub fn is_joining(&self, member: MemberId) -> bool {
        self.member(member).is_ok_and(|m| u32::from(m.flags) & abi::WL_MEMBER_CLOCKED != 0)
    }

    /// A flow ends.
    pub fn leave(&mut self, member: MemberId) -> Result<(), GroupError> {
        let slot = self.slot_of(member)?;
        // SAFETY: as in register().
        self.call(slot, |g, t, m, _| unsafe { abi::wln_group_leave(g, t, m) })?;
        self.release(slot);
        Ok(())
    }

    /// Collects every member that has been silent for longer than configured. Walks all of them.
    pub fn collect(&mut self, now_us: u32) {
        for slot in 0..self.slots.len() {
            self.collect_slot(slot, now_us);
        }
    }

    /// The group's aggregates.
    pub fn state(&self) -> &wl_group {
        &self.state
    }

    /// What the group keeps of a member.
    pub fn member(&self, member: MemberId) -> Result<&wl_member, GroupError> {
        self.slot_of(member).map(|slot| &self.slots[slot].member)
    }

    /// How many members are in the group.
    pub fn len(&self) -> usize {
        self.state.members as usize
    }

    /// Whether the group has no members.
    pub fn is_empty(&self) -> bool {
        self.state.members == 0
    }

    /// Members read or written since the group was made: the cost of all calls so far.
    pub fn members_touched(&self) -> u64 {
        self.members_touched
    }

    fn slot_of(&self, member: MemberId) -> Result<usize, GroupError> {
        match self.slots.get(member.slot) {
            Some(s) if s.member.id != 0 && s.generation == member.generation => Ok(member.slot),
            _ => Err(GroupError::NotMember),
        }
    }

    /// Calls the core with the group, the slot's tenant (or NULL), its member, and room for a reply.
    fn call(
        &mut self,
        slot: usize,
        f: impl FnOnce(&mut wl_group, *mut wl_tenant, &mut wl_member, &mut wl_group_reply) -> u32,
    ) -> Result<wl_group_reply, GroupError> {
        self.members_touched += 1;
        let slot = &mut self.slots[slot];
        let tenant = slot.tenant.map_or(ptr::null_mut(), |t| &raw mut self.tenants[t.0]);
        let mut reply = wl_group_reply::default();
        check(f(&mut self.state, tenant, &mut slot.member, &mut reply))?;
        Ok(reply)
    }

    fn take(&mut self, slot: usize, reply: &wl_group_reply, decision: &mut wl_decision) {
        // SAFETY: the references are valid for the call.
        unsafe { abi::wln_group_take_reply(&mut self.slots[slot].member, reply, decision) };
    }

    fn collect_slot(&mut self, slot: usize, now_us: u32) {
        let mut is_gone = false;
        let _ = self.call(slot, |g, t, m, _| {
            // SAFETY: as in register().
            is_gone = unsafe { abi::wln_group_collect(g, t, m, now_us) } != 0;
            abi::WL_GROUP_OK
        });
        if is_gone {
            self.release(slot);
        }
    }

    fn release(&mut self, slot: usize) {
        let generation = self.slots[slot].generation.wrapping_add(1);
        self.slots[slot] = Slot { generation, ..Slot::default() };
        self.free.push(slot);
    }

    fn move_hand(&mut self, now_us: u32) {
        for _ in 0..COLLECTED_AT_ONCE.min(self.slots.len()) {
            self.hand = (self.hand + 1) % self.slots.len();
            self.collect_slot(self.hand, now_us);
        }
    }
}

fn report_of(
    member: &mut wl_member,
    sample: &wl_sample,
    decision: &wl_decision,
    weight: u32,
) -> wl_group_report {
    let mut report = wl_group_report::default();
    // SAFETY: all references are valid for the call.
    unsafe { abi::wln_group_report_of(member, sample, decision, weight, &mut report) };
    report
}

fn check(result: u32) -> Result<(), GroupError> {
    match result {
        abi::WL_GROUP_OK => Ok(()),
        abi::WL_GROUP_NO_RULE => Err(GroupError::NoRule),
        abi::WL_GROUP_FULL => Err(GroupError::Full),
        abi::WL_GROUP_NOT_MEMBER => Err(GroupError::NotMember),
        _ => Err(GroupError::Nonsense),
    }
}
