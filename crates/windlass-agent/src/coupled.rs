//! Sockets in groups: what the native home's programs and the selectors share of them (bpf/group/coupled.h).

use crate::{
    Error, GroupInfo, Native, Policy, Result,
    error::bpf,
    group,
    map_value::{bytes_of, from_bytes, u32_at, u64_at},
    native::{
        check_prefix,
        pin_paths::{COUPLING_MAPS, dir, group_names, is_current, is_loaded},
    },
    object::{fingerprint, pinned_map},
    persist::lock::Lock,
    programs::links,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenObject, libbpf_sys as sys};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    io,
    mem::offset_of,
    os::fd::{AsFd, FromRawFd, OwnedFd},
    path::PathBuf,
};
use windlass_core::abi::{wl_coupled_stats, wl_rule, wl_terms};

/// Sockets in groups, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoupledStats {
    /// Times that a socket joined its group.
    pub joined: u64,
    /// Tries to join where there was no room.
    pub refused: u64,
    /// Reports that were not made, because the group was locked for too long.
    pub contended: u64,
    /// Members taken for gone after a silence; they join again when they speak.
    pub collected: u64,
}

/// The groups of one loaded native home.
#[derive(Debug)]
pub struct Coupling {
    maps: Vec<MapHandle>,
    names: PathBuf,
}

impl Coupling {
    /// Of algorithms that this process has loaded.
    pub fn of(native: &Native) -> Result<Coupling> {
        let maps = COUPLING_MAPS.iter().map(|(name, _)| native.map(name)).collect::<Result<_>>()?;
        Ok(Coupling { maps, names: group_names(native.prefix()) })
    }

    /// Of those that are pinned under `prefix`.
    pub fn pinned(prefix: &str) -> Result<Coupling> {
        check_prefix(prefix)?;
        if !is_loaded(prefix) {
            return Err(Error::NativeNotLoaded(prefix.to_string()));
        }
        if !is_current(prefix) {
            return Err(Error::OtherNative(prefix.to_string()));
        }
        let open = |(_, pin): &(_, _)| pinned_map(&dir(prefix).join(pin));
        let maps = COUPLING_MAPS.iter().map(open).collect::<Result<_>>()?;
        Ok(Coupling { maps, names: group_names(prefix) })
    }

    /// Are the algorithms that are pinned under `prefix` those that it is of? Others, or none, do not look at its wishes.
    pub fn is_in_force(&self, prefix: &str) -> bool {
        let number = |map: &MapHandle| map.info().map(|i| i.info.id).ok();
        COUPLING_MAPS.iter().zip(&self.maps).all(|((_, pin), own)| {
            let pinned = pinned_map(&dir(prefix).join(pin)).ok();
            pinned.is_some_and(|pinned| number(&pinned).is_some() && number(&pinned) == number(own))
        })
    }

    /// The same, now that no process is just about to load or unload some.
    pub fn is_still_in_force(&self, prefix: &str) -> bool {
        // a lock that cannot be had does not prevent looking
        let _lock = Lock::take("native");
        self.is_in_force(prefix)
    }

    fn map(&self, name: &str) -> &MapHandle {
        let at = COUPLING_MAPS.iter().position(|(n, _)| *n == name).expect("one of ours");
        &self.maps[at]
    }

    /// Lets a selector leave its wishes where the algorithms look for them.
    pub(crate) fn share_with(&self, selector: &mut OpenObject) -> Result<()> {
        for mut map in selector.maps_mut().filter(|m| m.name() == "wl_wishes") {
            map.reuse_fd(self.map("wl_wishes").as_fd()).map_err(bpf("sharing sockets' wishes"))?;
        }
        Ok(())
    }

    /// Puts the groups of the policy's compiled rules in force for the sockets of a cgroup: those that connect, and those
    /// that did. Sockets of rules that are no longer there leave their groups, and all do when the selector's link goes.
    pub(crate) fn set(&self, cgroup: u64, link: u32, policy: &Policy, rules: &mut [wl_rule]) -> Result<()> {
        let lock = Lock::take("groups")?;
        if rules.iter().any(|r| r.group != 0) {
            group::note_names(&lock, &self.names, &policy.groups());
        }
        group::resolve(&lock, self.map("wl_groups"), &policy.groups(), rules, || self.named())?;
        for rule in rules.iter_mut().filter(|r| r.group != 0) {
            let value = wl_terms {
                link,
                group: rule.group,
                per: rule.per.into(),
                weight: rule.weight.into(),
                tenant: rule.tenant,
            };
            // its sockets carry this to the algorithms
            rule.tenant = key_of(cgroup, &policy.rules[rule.rule_id as usize].name);
            self.map("wl_terms")
                .update(&rule.tenant.to_ne_bytes(), bytes_of(&value), MapFlags::ANY)
                .map_err(bpf("writing a rule's group"))?;
        }
        let kept: BTreeSet<u32> = rules.iter().filter(|r| r.group != 0).map(|r| r.tenant).collect();
        self.remove_where(|key, of| of == link && !kept.contains(&key))
    }

    /// What is in force: each rule's key with its group.
    fn terms(&self) -> Result<Vec<(u32, wl_terms)>> {
        let terms = self.map("wl_terms");
        let mut all = Vec::new();
        for key in terms.keys() {
            let value = terms.lookup(&key, MapFlags::ANY).map_err(bpf("reading rules' groups"))?;
            // none: another process has just removed it
            all.extend(value.and_then(|v| from_bytes(&v)).map(|value| (u32_at(&key, 0), value)));
        }
        Ok(all)
    }

    /// Numbers of the groups that rules in force name, of whatever cgroup.
    fn named(&self) -> Result<BTreeSet<u32>> {
        Ok(self.terms()?.iter().filter_map(|(_, terms)| terms.group.checked_sub(1)).collect())
    }

    /// The sockets that were chosen through the link leave their groups.
    pub(crate) fn remove(&self, link: u32) -> Result<()> {
        // or the next selector of that cgroup might have its own there meanwhile
        let _lock = Lock::take("groups")?;
        self.remove_where(|_, of| of == link)
    }

    /// The same for all links that are gone, as that of an `attach` that was killed.
    pub(crate) fn remove_orphans(&self) -> Result<()> {
        let _lock = Lock::take("groups")?;
        let links: BTreeSet<u32> = self.terms()?.iter().map(|(_, terms)| terms.link).collect();
        let gone: BTreeSet<u32> = links.into_iter().filter(|link| is_gone(*link)).collect();
        self.remove_where(|_, of| gone.contains(&of))
    }

    fn remove_where(&self, is_over: impl Fn(u32, u32) -> bool) -> Result<()> {
        for (key, _) in self.terms()?.iter().filter(|(key, terms)| is_over(*key, terms.link)) {
            // the process that removed it did the same
            let _ = self.map("wl_terms").delete(&key.to_ne_bytes());
        }
        Ok(())
    }

    /// All groups that were ever named since the algorithms were loaded.
    pub fn groups(&self) -> Result<Vec<GroupInfo>> {
        group::read(self.map("wl_groups"), &self.names)
    }

    /// What happened so far.
    pub fn stats(&self) -> Result<CoupledStats> {
        let value = self
            .map("wl_coupled_stats")
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("reading what groups did"))?
            .unwrap_or_default();
        let number = |at: usize| u64_at(&value, at);
        Ok(CoupledStats {
            joined: number(offset_of!(wl_coupled_stats, joined)),
            refused: number(offset_of!(wl_coupled_stats, refused)),
            contended: number(offset_of!(wl_coupled_stats, contended)),
            collected: number(offset_of!(wl_coupled_stats, collected)),
        })
    }
}

/// Does the kernel have no link of this number any more?
fn is_gone(link: u32) -> bool {
    // SAFETY: the descriptor, if there is one, is ours from here on.
    unsafe {
        let fd = sys::bpf_link_get_fd_by_id(link);
        if fd >= 0 {
            drop(OwnedFd::from_raw_fd(fd));
            return false;
        }
    }
    match io::Error::last_os_error().kind() {
        io::ErrorKind::NotFound => true,
        // it takes CAP_SYS_ADMIN, which an agent has given up
        io::ErrorKind::PermissionDenied => links().is_ok_and(|links| !links.contains(&link)),
        _ => false,
    }
}

/// What a rule's sockets are known by: the same when a policy is read again with other rules around it. The rule's name is no
/// other's; in each cgroup it has terms of its own, which go with that cgroup's selector.
fn key_of(cgroup: u64, rule_name: &str) -> u32 {
    let mut bytes = cgroup.to_ne_bytes().to_vec();
    bytes.extend(rule_name.as_bytes());
    fingerprint(&bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sockets carry it: what one build has called so the next one has to.
    #[test]
    #[cfg(target_endian = "little")]
    fn a_rule_keeps_the_key_of_its_sockets() {
        assert_eq!(key_of(4242, "container-a"), 0x6cd9_0c24);
    }

    #[test]
    fn cgroup_and_name_of_a_rule_change_the_key_of_its_sockets() {
        let keys = [(4242, "container-a"), (4243, "container-a"), (4242, "container-b")];
        let keys: BTreeSet<u32> = keys.map(|(cgroup, name)| key_of(cgroup, name)).into();
        assert_eq!(keys.len(), 3);
    }
}
