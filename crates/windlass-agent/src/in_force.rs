//! The policy in force: the rules in maps, and the head that makes flows look them up again.

use crate::{
    Error, Result,
    error::bpf,
    map_value::{bytes_of, from_bytes},
    monotonic_us,
    policy::room::check_count,
};
use libbpf_rs::{MapCore, MapFlags};
use windlass_core::abi::{self, wl_iface, wl_policy_head, wl_rule};

/// Puts these rules of a cgroup in force.
pub(crate) fn write_policy(
    rules_map: &impl MapCore,
    head_map: &impl MapCore,
    rules: &[wl_rule],
) -> Result<()> {
    check_count(rules.len(), "one interface or cgroup").map_err(Error::Invalid)?;
    for (index, rule) in (0..).zip(rules) {
        write_rule(rules_map, index, rule)?;
    }
    write_head(head_map, rules.len() as u32)
}

fn write_rule(rules_map: &impl MapCore, index: u32, rule: &wl_rule) -> Result<()> {
    rules_map.update(&index.to_ne_bytes(), bytes_of(rule), MapFlags::ANY).map_err(bpf("writing a rule"))
}

fn read_head(head_map: &impl MapCore) -> Result<wl_policy_head> {
    let head = head_map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(bpf("reading the policy"))?;
    Ok(head.and_then(|bytes| from_bytes(&bytes)).unwrap_or_default())
}

fn write_head(head_map: &impl MapCore, rules_count: u32) -> Result<()> {
    let generation = read_head(head_map)?.generation.wrapping_add(1);
    let head = wl_policy_head { rules_count, generation, changed_at_us: monotonic_us() };
    head_map.update(&0u32.to_ne_bytes(), bytes_of(&head), MapFlags::ANY).map_err(bpf("writing the policy"))
}

/// Flows look their rules up again, which are what they were.
pub(crate) fn look_up_again(head_map: &impl MapCore) -> Result<()> {
    write_head(head_map, read_head(head_map)?.rules_count)
}

/// The maps that hold the rules in force of one interface.
pub(crate) struct IfaceRules<'a, M> {
    /// Its index.
    pub ifindex: u32,
    /// Its own rules, a map like `wl_rules`.
    pub rules: &'a M,
    /// `wl_ifaces`
    pub ifaces: &'a M,
    /// `wl_policy`, the head of all interfaces' rules
    pub head: &'a M,
}

impl<M: MapCore> IfaceRules<'_, M> {
    /// Puts these rules in force.
    pub(crate) fn write(&self, rules: &[wl_rule]) -> Result<()> {
        check_count(rules.len(), "one interface or cgroup").map_err(Error::Invalid)?;
        for (index, rule) in (0..).zip(rules) {
            write_rule(self.rules, index, rule)?;
        }
        // what the programs count meanwhile is lost, which does not matter
        let facts = wl_iface { rules_count: rules.len() as u32, ..self.facts()?.unwrap_or_default() };
        self.ifaces
            .update(&self.ifindex.to_ne_bytes(), bytes_of(&facts), MapFlags::ANY)
            .map_err(bpf("writing an interface's facts"))?;
        look_up_again(self.head)
    }

    /// The rules in force; without facts of the interface, all that there is room for, among them some of the past.
    pub(crate) fn read(&self) -> Result<Vec<wl_rule>> {
        let count = self.facts()?.map(|facts| facts.rules_count);
        let read = |index: u32| {
            let rule =
                self.rules.lookup(&index.to_ne_bytes(), MapFlags::ANY).map_err(bpf("reading a rule"))?;
            Ok(rule.and_then(|bytes| from_bytes(&bytes)).unwrap_or_default())
        };
        (0..count.unwrap_or(abi::WL_MAX_RULES).min(abi::WL_MAX_RULES)).map(read).collect()
    }

    /// What is known of the interface; none: nothing was written yet.
    pub(crate) fn facts(&self) -> Result<Option<wl_iface>> {
        let facts = self.ifaces.lookup(&self.ifindex.to_ne_bytes(), MapFlags::ANY);
        Ok(facts.map_err(bpf("reading an interface's facts"))?.and_then(|bytes| from_bytes(&bytes)))
    }

    /// Flows that were controlled are only watched from now on.
    pub(crate) fn let_go(&self) -> Result<()> {
        for (index, mut rule) in (0..).zip(self.read()?) {
            if u32::from(rule.mode) == abi::WL_MODE_ENFORCE {
                rule.mode = abi::WL_MODE_WATCH as u8;
                write_rule(self.rules, index, &rule)?;
            }
        }
        look_up_again(self.head)
    }
}
