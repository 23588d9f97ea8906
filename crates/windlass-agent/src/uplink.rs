//! What spaces the packets: the uplink's `fq`, by departure times, or the clock.

use crate::{Error, Result, netdev};
use libbpf_rs::libbpf_sys as sys;

/// What was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceBy {
    /// The clock, by what it grants to senders.
    Clock,
    /// `fq` on the uplink.
    Fq,
    /// `fq` if the uplink has it, else the clock.
    Auto,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// `fq` does it; otherwise the clock.
    pub by_fq: bool,
    /// Why the clock does it though `fq` was configured, or is there and cannot be used.
    pub complaint: Option<String>,
}

impl Pacing {
    /// Decides for `wanted`. The uplink is the interface named, which must exist, or those that the default routes leave
    /// by.
    pub fn choose(wanted: PaceBy, uplink: Option<&str>) -> Result<Pacing> {
        if let Some(name) = uplink.filter(|name| netdev::index(name).is_none()) {
            return Err(Error::NoInterface(name.to_string()));
        }
        if wanted == PaceBy::Clock {
            return Ok(Pacing { by_fq: false, complaint: None });
        }
        let uplinks = match uplink {
            Some(name) => vec![name.to_string()],
            None => default_uplinks(),
        };
        let lacking = lacking(&uplinks);
        let complaint = match (lacking, wanted) {
            (Some(_), PaceBy::Auto) => return Ok(Pacing { by_fq: false, complaint: None }),
            (Some(what), _) => Some(what),
            (None, _) if !kernel_has_departure_times() => Some("departure times need Linux 5.18".to_string()),
            (None, _) => None,
        };
        Ok(Pacing { by_fq: complaint.is_none(), complaint })
    }
}

/// What keeps the uplinks' `fq` from being used.
fn lacking(uplinks: &[String]) -> Option<String> {
    if uplinks.is_empty() {
        return Some("there is no default route; name the uplink with --uplink".to_string());
    }
    // what cannot be queried has no fq
    let has_fq =
        |name: &str| netdev::run(&["tc", "qdisc", "show", "dev", name]).is_ok_and(|list| is_fq(&list));
    let without = uplinks.iter().find(|name| !has_fq(name))?;
    Some(format!("{without} has no fq (tc qdisc replace dev {without} root fq)"))
}

/// Can the programs set for an `fq` when a packet may leave?
pub(crate) fn kernel_has_departure_times() -> bool {
    // SAFETY: plain call; the last argument is documented to be NULL.
    let answer = unsafe {
        sys::libbpf_probe_bpf_helper(
            sys::BPF_PROG_TYPE_SCHED_CLS,
            sys::BPF_FUNC_skb_set_tstamp,
            std::ptr::null(),
        )
    };
    answer == 1
}

/// Interfaces of this namespace that the default routes leave by, which lead away from servers.
pub fn default_uplinks() -> Vec<String> {
    let mut uplinks = Vec::new();
    for family in ["-4", "-6"] {
        // a family that the kernel lacks has no routes
        let routes = netdev::run(&["ip", family, "route", "show", "default"]).unwrap_or_default();
        uplinks.extend(first_route_devices(&routes));
    }
    uplinks.sort();
    uplinks.dedup();
    uplinks
}

/// Devices of the first route that `ip route show` printed, the one in use: several if it has several next hops.
fn first_route_devices(routes: &str) -> Vec<String> {
    let mut lines = routes.lines();
    let first = lines.next().into_iter();
    let hops = lines.take_while(|l| l.starts_with(char::is_whitespace));
    first.chain(hops).filter_map(|line| word_after(line, "dev")).collect()
}

pub(crate) fn word_after(line: &str, key: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    words.find(|w| *w == key)?;
    words.next().map(str::to_string)
}

/// Does all that leaves by the device, as `tc qdisc show dev` printed it, pass an `fq`: its root, or every leaf?
fn is_fq(qdiscs: &str) -> bool {
    let kind = |line: &str| word_after(line, "qdisc").unwrap_or_default();
    let is_side = |line: &&str| matches!(kind(line).as_str(), "clsact" | "ingress");
    let (roots, leaves): (Vec<&str>, Vec<&str>) = qdiscs
        .lines()
        .filter(|l| l.starts_with("qdisc ") && !is_side(l))
        .partition(|l| l.split_whitespace().any(|w| w == "root"));
    let are_fq = |list: &[&str]| !list.is_empty() && list.iter().all(|l| kind(l) == "fq");
    are_fq(&roots) || are_fq(&leaves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fq_counts_as_root_or_as_every_leaf() {
        for yes in [
            "qdisc fq 8001: root refcnt 2 limit 10000p flow_limit 100p buckets 1024",
            "qdisc fq 8001: root refcnt 2 limit 10000p\nqdisc clsact ffff: parent ffff:fff1 \n",
            "qdisc mq 0: root \nqdisc fq 0: parent :2 limit 10000p\nqdisc fq 0: parent :1 limit 10000p\n",
            "qdisc htb 1: root refcnt 2 r2q 10 default 0x10\nqdisc fq 10: parent 1:10 limit 10000p\n",
        ] {
            assert!(is_fq(yes), "{yes}");
        }
        for no in [
            "",
            "qdisc noqueue 0: root refcnt 2 \n",
            "qdisc fq_codel 0: root refcnt 2 limit 10240p flows 1024\n",
            "qdisc mq 0: root \nqdisc fq 0: parent :2 limit 10000p\nqdisc fq_codel 0: parent :1 limit 10240p\n",
            "qdisc clsact ffff: parent ffff:fff1 \n",
        ] {
            assert!(!is_fq(no), "{no}");
        }
    }

    #[test]
    fn the_default_route_in_use_names_the_uplink() {
        let one = "default via 192.0.2.1 dev eth0 proto dhcp metric 100 \ndefault via 10.0.0.1 dev wlan0 metric 600 \n";
        assert_eq!(first_route_devices(one), ["eth0"]);
        let two = "default proto static \n\tnexthop via 192.0.2.1 dev eth0 weight 1 \n\tnexthop via 198.51.100.1 dev eth1 weight 1 \n";
        assert_eq!(first_route_devices(two), ["eth0", "eth1"]);
        assert_eq!(first_route_devices("default dev ppp0 scope link \n"), ["ppp0"]);
        assert!(first_route_devices("").is_empty());
    }

    #[test]
    fn only_a_demand_for_fq_gets_the_reason_why_not() {
        let choose = |wanted| Pacing::choose(wanted, Some("lo")).expect("lo is everywhere");
        let clock = Pacing { by_fq: false, complaint: None };
        assert_eq!(choose(PaceBy::Clock), clock);
        assert_eq!(choose(PaceBy::Auto), clock);
        let insisted = choose(PaceBy::Fq);
        assert!(!insisted.by_fq && insisted.complaint.is_some_and(|c| c.contains("has no fq")));
    }

    #[test]
    fn an_uplink_that_is_not_there_is_refused() {
        // no interface can have this name
        let refused = Pacing::choose(PaceBy::Auto, Some("no such/interface"));
        assert!(matches!(refused, Err(Error::NoInterface(_))), "{refused:?}");
    }
}
