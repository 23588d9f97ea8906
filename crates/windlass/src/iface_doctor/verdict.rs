//! What becomes of control by what was found: all of it, a part, or nothing.

use super::{Control, Findings, faces_servers};
use serde::Serialize;
use windlass_agent::OWN_PROGRAMS;

/// How much of what could be controlled is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All flows whose rule requires it.
    Full,
    /// Some are not, or less well than they could be.
    Partial,
    /// None.
    Off,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Full => "full",
            Verdict::Partial => "partial",
            Verdict::Off => "off",
        }
    }
}

/// What speaks against full control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The best verdict that it leaves.
    pub makes: Verdict,
    /// What it is, and the cure.
    pub why: String,
}

/// The worst that some reason makes.
pub fn of(reasons: &[Reason]) -> Verdict {
    reasons.iter().map(|reason| reason.makes).max().unwrap_or(Verdict::Full)
}

/// All of them, the worst first.
pub(super) fn reasons(findings: &Findings) -> Vec<Reason> {
    let mut all = of_interface(findings);
    match &findings.control {
        Some(control) => all.extend(of_control(control)),
        None if has_own_programs(findings) => all.push(partial(
            "a process that is not seen from here controls it, as `windlass attach`, which shows its flows and counters itself",
        )),
        None => all.push(off("no agent that is seen from here controls it; start `windlass agent --policy FILE`")),
    }
    all.extend(of_flows(findings));
    if let Some(test) = &findings.test {
        all.extend(test.reason());
    }
    all.sort_by_key(|reason| std::cmp::Reverse(reason.makes));
    all
}

fn has_own_programs(findings: &Findings) -> bool {
    let mut all = findings.facts.ingress.iter().flatten();
    all.any(|name| OWN_PROGRAMS.contains(&name.as_str()))
}

pub(super) fn off(why: impl Into<String>) -> Reason {
    Reason { makes: Verdict::Off, why: why.into() }
}

pub(super) fn partial(why: impl Into<String>) -> Reason {
    Reason { makes: Verdict::Partial, why: why.into() }
}

fn of_interface(findings: &Findings) -> Vec<Reason> {
    let facts = &findings.facts;
    let mut all = Vec::new();
    if !facts.is_ethernet {
        all.push(off("it carries no Ethernet frames; control the interface of the tunnel's packets, or that of the servers"));
    }
    if !facts.is_up {
        all.push(off(format!("it is down; `ip link set {} up`", facts.iface)));
    }
    if !faces_servers(findings) {
        all.push(partial(
            "it looks like the side of the clients: the default route leaves by it, or hosts behind it receive far more than they \
             send; control the interface that faces the servers",
        ));
    }
    let before = facts.before_ours();
    if !before.is_empty() {
        all.push(partial(format!(
            "{} runs before Windlass' programs, and what it takes or redirects is not observed; attach it after them, or start \
             the agent after it",
            before.join(", ")
        )));
    }
    if facts.has_xdp {
        all.push(partial("an XDP program runs before tc; what it drops or redirects is not observed"));
    }
    if facts.offloads.get("LRO") == Some(&true) {
        all.push(partial(format!(
            "LRO merges segments in a way that cannot be undone for forwarding; `ethtool -K {} lro off`",
            facts.iface
        )));
    }
    for uplink in findings.uplinks.iter().filter(|uplink| uplink.mtu_bytes < facts.mtu_bytes) {
        all.push(partial(format!(
            "its MTU of {} is larger than {}'s of {}: servers depend on ICMP to learn of it, and what they learn that way is \
             retransmitted by themselves",
            facts.mtu_bytes, uplink.iface, uplink.mtu_bytes
        )));
    }
    all
}

fn of_control(control: &Control) -> Vec<Reason> {
    let mut all = Vec::new();
    if !control.is_attached {
        all.push(off("another program has removed its programs; an agent attaches them anew"));
    }
    if let Some(what) = &control.one_way {
        all.push(off(what));
    }
    if !control.clock_runs {
        all.push(partial("the clock stands still, so that servers repair their losses themselves; an agent sets it going again"));
    }
    if control.agent.is_none() {
        all.push(partial("no agent runs: the policy in force stays, and nothing looks after the clock"));
    }
    all
}

fn of_flows(findings: &Findings) -> Vec<Reason> {
    let mut all = Vec::new();
    let count = |state: &str| findings.flows.get(state).copied().unwrap_or(0);
    for (state, why) in [
        (
            "foreign",
            "are only watched: they are older than the box, or carry options that it could not write; new connections may do",
        ),
        (
            "paces",
            "are only watched, as their servers pace themselves; paced_servers = \"control\" in their rule changes that",
        ),
        (
            "bypass",
            "are left to their servers for now; `windlass counters` has the reasons, in those that begin with bypass_",
        ),
    ] {
        if count(state) > 0 {
            all.push(partial(format!("{} flow(s) {why}", count(state))));
        }
    }
    let without = findings.window_scales.get(&0).copied().unwrap_or(0);
    if without > 0 {
        all.push(partial(format!(
            "{without} flow(s) have no window scale, and so at most 64 KiB in flight; a middlebox may remove the option, or a host \
             have it off (net.ipv4.tcp_window_scaling)"
        )));
    }
    let ruled: usize =
        findings.flows.iter().filter(|(state, _)| **state != "off").map(|(_, count)| count).sum();
    if count("off") > 0 && ruled == 0 {
        all.push(off(format!(
            "no rule controls any of its {} flow(s); `windlass policy show FILE` lists what rules name",
            count("off")
        )));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_agent::IfaceFacts;

    fn well() -> Findings {
        let facts = IfaceFacts {
            iface: "tap0".into(),
            is_ethernet: true,
            is_up: true,
            mtu_bytes: 1500,
            rx_bytes: 1 << 30,
            tx_bytes: 1 << 25,
            ..IfaceFacts::default()
        };
        let control = Control {
            agent: Some("process 7".into()),
            rules: vec!["wan".into()],
            is_attached: true,
            clock_runs: true,
            one_way: None,
        };
        let flows = [("controlled", 3), ("off", 2)].into();
        Findings {
            facts,
            control: Some(control),
            flows,
            window_scales: [(7, 3)].into(),
            ..Findings::default()
        }
    }

    /// The verdict, and what it is for.
    fn judged(change: impl FnOnce(&mut Findings)) -> (Verdict, String) {
        let mut findings = well();
        change(&mut findings);
        let reasons = reasons(&findings);
        (of(&reasons), reasons.into_iter().map(|reason| reason.why).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn the_verdict_is_full_where_nothing_speaks_against_it() {
        assert_eq!(judged(|_| {}), (Verdict::Full, String::new()));
        assert_eq!(judged(|f| f.flows.clear()).0, Verdict::Full, "nor do flows that are not there yet");
    }

    #[test]
    fn the_verdict_is_off_where_nothing_can_be_controlled() {
        type Change = fn(&mut Findings);
        let changes: [(Change, &str); 6] = [
            (|f| f.control = None, "no agent"),
            (|f| f.facts.is_up = false, "ip link set tap0 up"),
            (|f| f.facts.is_ethernet = false, "no Ethernet"),
            (|f| f.control.as_mut().unwrap().is_attached = false, "removed its programs"),
            (
                |f| f.control.as_mut().unwrap().one_way = Some("packets from servers pass here".into()),
                "pass here",
            ),
            (|f| f.flows = [("off", 2)].into(), "no rule controls any of its 2"),
        ];
        for (change, why) in changes {
            let (verdict, said) = judged(change);
            assert!(verdict == Verdict::Off && said.contains(why), "{why}: {said}");
        }
    }

    #[test]
    fn the_verdict_is_partial_where_control_does_less_than_it_could() {
        type Change = fn(&mut Findings);
        let names = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        let first = names(&["cni", "wl_from_sender"]);
        let small = IfaceFacts { iface: "eth0".into(), mtu_bytes: 1400, ..IfaceFacts::default() };
        let changes: [(Change, &str); 7] = [
            (|f| f.facts.has_xdp = true, "XDP"),
            (|f| f.facts.offloads = [("LRO", true), ("GRO", true)].into(), "ethtool -K tap0 lro off"),
            (|f| f.facts.tx_bytes = f.facts.rx_bytes * 5, "side of the clients"),
            (|f| f.control.as_mut().unwrap().clock_runs = false, "clock stands still"),
            (|f| f.control.as_mut().unwrap().agent = None, "no agent runs"),
            (|f| f.flows = [("foreign", 2), ("controlled", 1)].into(), "2 flow(s) are only watched"),
            (|f| f.window_scales = [(0, 1)].into(), "no window scale"),
        ];
        for (change, why) in changes {
            let (verdict, said) = judged(change);
            assert!(verdict == Verdict::Partial && said.contains(why), "{why}: {said}");
        }
        let own = names(&["wl_from_sender"]);
        let (verdict, said) = judged(|f| (f.facts.ingress, f.control) = (own, None));
        assert!(verdict == Verdict::Partial && said.contains("`windlass attach`"), "{said}");
        assert!(judged(|f| f.facts.ingress = first).1.contains("cni runs before"));
        assert!(judged(|f| f.uplinks = vec![small]).1.contains("larger than eth0's of 1400"));
        let uplink = IfaceFacts { iface: "tap0".into(), mtu_bytes: 1500, ..IfaceFacts::default() };
        assert!(judged(|f| f.uplinks = vec![uplink]).1.contains("side of the clients"));
    }
}
