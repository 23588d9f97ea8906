//! What a run begins with: algorithms, links, buffers and the box, as the scenario has them; and what cannot be simulated.

use crate::{
    boxed::WindlassBox,
    error::SimError,
    group::SharedGroup,
    link::Link,
    pool::Pool,
    rng,
    tcp::Config,
    topology::{Router, Sender},
};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Algorithm;
use windlass_scenario::{DisciplineQueue, Flow, LinkModel, Scenario, Switch, Windlass};

/// Whether a flow's algorithm is the kernel's own: in the testbed, too, what is Windlass' has a prefix, and what is coupled
/// runs Windlass' own, as only that talks to groups.
pub(super) fn is_kernels(flow: &Flow) -> bool {
    flow.group.is_none() && !flow.algorithm.starts_with("wl_")
}

/// A flow's algorithm, by the name that a host of the testbed would know it by. The kernel's Reno and CUBIC follow older texts
/// than the core's, its BBR lacks what was added to that ([`WL_ALG_AS_LINUX`](windlass_core::abi::WL_ALG_AS_LINUX)).
fn algorithm_of(flow: &Flow) -> Option<Algorithm> {
    let name = flow.algorithm.strip_prefix("wl_").unwrap_or(&flow.algorithm);
    Algorithm::by_name(match name {
        "reno" if is_kernels(flow) => "kreno",
        "cubic" if is_kernels(flow) => "kcubic",
        name => name,
    })
}

pub(super) fn algorithm(flow: &Flow) -> Result<Algorithm, SimError> {
    algorithm_of(flow).ok_or_else(|| SimError::UnknownAlgorithm {
        from: flow.from.clone(),
        to: flow.to.clone(),
        name: flow.algorithm.clone(),
        known: Algorithm::names(),
    })
}

pub(super) fn groups(scenario: &Scenario) -> BTreeMap<String, SharedGroup> {
    let shared = |spec| SharedGroup::new(spec).expect("a scenario's groups have been checked");
    scenario.groups.iter().map(|spec| (spec.name.clone(), shared(spec))).collect()
}

pub(super) fn windlass_box(
    w: &Windlass,
    scenario: &Scenario,
    config: &Config,
) -> Result<WindlassBox, SimError> {
    let unknown = || SimError::UnknownBoxAlgorithm { name: w.algorithm.clone(), known: Algorithm::names() };
    let algorithm = Algorithm::by_name(&w.algorithm).ok_or_else(unknown)?;
    let is_drawn = rows(scenario).values().any(|hosts| hosts.contains(&w.at.as_str()));
    if is_drawn || scenario.flows.iter().any(|f| f.from == w.at || f.to == w.at) {
        return Err(SimError::BoxAtEnd { at: w.at.clone() });
    }
    let random = rng::of_box(scenario.seed);
    Ok(WindlassBox::new(algorithm, w.mode, random, config))
}

/// The rows of hosts from which connections draw their receivers.
pub(super) fn rows(scenario: &Scenario) -> BTreeMap<&str, Vec<&str>> {
    let names: BTreeSet<&str> = scenario.flows.iter().filter_map(|flow| flow.to_each.as_deref()).collect();
    names.into_iter().map(|name| (name, scenario.row(name))).collect()
}

/// Whether time passes for each flow without end. Others need none: they are over after so many events at one instant.
pub(super) fn check_time(scenario: &Scenario) -> Result<(), SimError> {
    let takes_time =
        |link: &windlass_scenario::Link| link.rate.is_some() || link.delay.ns() > 0 || link.jitter().ns() > 0;
    if scenario.links.iter().all(takes_time) {
        return Ok(()); // so that no paths have to be found in large networks
    }
    let mut router = Router::new(scenario);
    for (index, flow) in scenario.flows.iter().enumerate().filter(|(_, flow)| flow.is_unlimited()) {
        let Flow { from, to, .. } = flow;
        let there = router.links(from, to, Sender::first(2 * index as u32 + 1)).into_iter();
        let back = router.links(to, from, Sender::first(2 * index as u32));
        if !there.chain(back).flatten().any(|link| takes_time(&scenario.links[link])) {
            return Err(SimError::Timeless { flow: index, from: from.clone(), to: to.clone() });
        }
    }
    Ok(())
}

/// Both directions of each link.
pub(super) fn links(scenario: &Scenario) -> Vec<Link> {
    let switches: BTreeSet<&str> = scenario.switches.iter().map(|switch| switch.name.as_str()).collect();
    let both = |(index, link): (usize, &windlass_scenario::Link)| {
        [false, true].map(|backward| {
            let is_of_host = !switches.contains(link.between[usize::from(backward)].as_str());
            let mut port = scenario.port(index, backward);
            let has_own_queue = port.buffer.is_some() || port.discipline.is_some() || port.ack_filter;
            let is_host_queue = is_of_host && link.rate.is_some() && !has_own_queue;
            port.jitter = port.jitter.or(is_of_host.then(|| link.host_jitter()));
            let model = LinkModel::new(&port, backward, scenario.link_seed(index));
            let queue = DisciplineQueue::new(&port, scenario.discipline_seed(index, backward));
            Link { is_host_queue, queue: queue.map(Box::new), ..Link::new(model, link.reorder) }
        })
    };
    scenario.links.iter().enumerate().flat_map(both).collect()
}

/// Buffers that the ports of a switch share.
pub(super) fn pools(scenario: &Scenario) -> Vec<Pool> {
    let pool = |switch: &Switch| {
        let limit = switch.ports.shared_buffer?;
        let port = |(index, link): (usize, &windlass_scenario::Link)| {
            let side = link.between.iter().position(|end| *end == switch.name)?;
            link.rate.map(|_| (2 * index + side) as u32)
        };
        Some(Pool::new(limit, scenario.links.iter().enumerate().filter_map(port).collect()))
    };
    scenario.switches.iter().filter_map(pool).collect()
}
