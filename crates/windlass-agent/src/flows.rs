//! The flow table, for people and programs.

use crate::{
    FlowGroup, GroupInfo, Result,
    error::bpf,
    exceptions::Exceptions,
    group::FlowPlace,
    map_value::{bytes_of, from_bytes},
    only_watched::OnlyWatched,
};
use libbpf_rs::{MapCore, MapFlags};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashSet},
    net::{IpAddr, Ipv6Addr, SocketAddr},
};
use windlass_core::{Algorithm, abi};

/// One flow as the datapath sees it.
#[derive(Clone, Debug, Serialize)]
pub struct FlowInfo {
    /// Index of the interface that faces its sender.
    #[serde(skip)]
    pub ifindex: u32,
    /// The controlled sender.
    pub sender: SocketAddr,
    /// Its receiver.
    pub receiver: SocketAddr,
    /// First sequence number of the sender's data: distinguishes connections with the same addresses.
    pub first_seq: u32,
    /// `active` or `bypass`.
    pub state: &'static str,
    /// `watch`, `transparent` or `off`.
    pub mode: &'static str,
    /// Why that is never more than watched; none: it is as its rule requires.
    pub only_watched: Option<OnlyWatched>,
    /// Algorithm in force.
    pub algorithm: &'static str,
    /// It is the flow's own, not that of its rule.
    pub has_own_algorithm: bool,
    /// Position of its rule in the policy.
    pub rule: u32,
    /// It is not controlled any more, and its server not shown all of the client's window yet.
    #[serde(skip)]
    pub is_leaving: bool,
    /// Congestion window.
    pub cwnd_bytes: u32,
    /// Pacing rate; none when the algorithm does not pace.
    pub pacing_bps: Option<u64>,
    /// Smoothed round-trip time between box and receiver; 0: none yet.
    pub srtt_us: u32,
    /// Smallest round-trip time; 0: none yet.
    pub min_rtt_us: u32,
    /// Sent, not delivered, not lost.
    pub inflight_bytes: u32,
    /// Sent and not acknowledged: una to nxt.
    pub unacked_bytes: u32,
    /// Of these, held for repair: all, or none of a flow that is only watched.
    pub stored_bytes: u32,
    /// Memory of the store that it holds, in whole chunks.
    pub held_bytes: u64,
    /// The sender's full segment.
    pub mss_bytes: u16,
    /// Shift of the windows that the receiver announces; none: the handshake was not observed.
    pub rcv_wscale: Option<u8>,
    /// Room granted to the sender and not used yet; 0: none, or the flow is only watched.
    pub room_bytes: u32,
    /// Total delivered, modulo 2^32: the datapath keeps no more, and its readers want differences.
    #[serde(rename = "delivered_bytes_mod_2_32")]
    pub delivered_bytes: u32,
    /// Segments found lost; those of a flow that is only watched are not looked for.
    pub lost_segs: u32,
    /// Segments retransmitted by the box.
    pub repaired_segs: u32,
    /// Retransmissions by the sender itself.
    pub sender_retrans_segs: u32,
    /// Its part in a group; none: its rule has none, or it is not controlled.
    pub group: Option<FlowGroup>,
}

impl FlowInfo {
    /// Of a state that is in no flow table, as a simulated box's: it has no group, and no algorithm of its own.
    pub fn of_state(flow: &abi::wl_flow) -> FlowInfo {
        describe(flow, false, None)
    }

    /// What is done with it now, in a word: its mode, unless it is bypassed, or there is a reason why it is only watched.
    pub fn word(&self) -> &'static str {
        match (self.mode, self.state) {
            ("transparent", "active") => "controlled",
            ("transparent", other) => other,
            ("watch", _) => self.only_watched.map_or("watched", OnlyWatched::word),
            (mode, _) => mode,
        }
    }
}

pub(crate) fn address(mapped: &[u8; 16], port_be: u16) -> SocketAddr {
    let ip = IpAddr::V6(Ipv6Addr::from(*mapped)).to_canonical();
    SocketAddr::new(ip, u16::from_be(port_be))
}

pub(crate) fn describe(f: &abi::wl_flow, has_own_algorithm: bool, group: Option<FlowGroup>) -> FlowInfo {
    let sent = f.nxt.wrapping_sub(f.una);
    let is_foreign = f.flags & abi::WL_FLOW_FOREIGN != 0;
    FlowInfo {
        ifindex: f.key.ifindex,
        sender: address(&f.key.snd_addr, f.key.snd_port_be),
        receiver: address(&f.key.rcv_addr, f.key.rcv_port_be),
        first_seq: f.base,
        state: match f.state.into() {
            abi::WL_FLOW_ACTIVE | abi::WL_FLOW_WATCHED | abi::WL_FLOW_OFF => "active",
            // free entries are not described
            _ => "bypass",
        },
        mode: match f.mode.into() {
            _ if f.is_controlled() => "transparent",
            abi::WL_MODE_OFF => "off",
            _ => "watch",
        },
        only_watched: OnlyWatched::of(f),
        algorithm: Algorithm::by_id(f.algorithm.into()).map_or("-", |a| a.name()),
        has_own_algorithm,
        rule: f.rule_id.into(),
        is_leaving: u32::from(f.state) == abi::WL_FLOW_HANDING_BACK,
        cwnd_bytes: f.decision.cwnd_bytes,
        pacing_bps: (f.decision.pacing_bytes_ps != u64::MAX)
            .then(|| f.decision.pacing_bytes_ps.saturating_mul(8)),
        srtt_us: f.srtt_us,
        min_rtt_us: f.min_rtt_us,
        inflight_bytes: sent.saturating_sub(f.sacked_bytes).saturating_sub(f.lost_bytes),
        unacked_bytes: sent,
        stored_bytes: if u32::from(f.state) == abi::WL_FLOW_ACTIVE { sent } else { 0 },
        held_bytes: u64::from(f.stored_chunks) * u64::from(abi::WL_CHUNK_BYTES)
            + u64::from(f.stored_blocks) * u64::from(abi::WL_BLOCK_BYTES),
        mss_bytes: f.mss_bytes,
        rcv_wscale: (!is_foreign).then(|| f.rcv_wscale()),
        // a flow that is only watched has no edge; and a bypass lets the sender pass it
        room_bytes: if f.is_controlled() { (f.edge.wrapping_sub(f.nxt) as i32).max(0) as u32 } else { 0 },
        delivered_bytes: f.delivered_bytes,
        lost_segs: f.lost_segs,
        repaired_segs: f.repaired_segs,
        sender_retrans_segs: f.sender_retrans_segs,
        group,
    }
}

/// The kernel begins again with the first key when the last one that it returned is gone; so often at most that the end comes.
const BEGINNINGS: usize = 4;

/// Each of these keys of a map of so many entries once.
fn each_once(keys: impl Iterator<Item = Vec<u8>>, max_entries: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut seen = HashSet::new();
    keys.take(BEGINNINGS * max_entries).filter(move |key| seen.insert(key.clone()))
}

/// Number and state of the flow of this key; none: there is none. `ids` is wl_flow_ids, `flows` is wl_flows.
pub(crate) fn look_up(
    ids: &impl MapCore,
    flows: &impl MapCore,
    key: &[u8],
) -> Result<Option<(Vec<u8>, abi::wl_flow)>> {
    let Some(id) = ids.lookup(key, MapFlags::ANY).map_err(bpf("reading the flow table"))? else {
        return Ok(None);
    };
    let bytes = flows.lookup(&id, MapFlags::ANY).map_err(bpf("reading a flow"))?;
    let flow = bytes.and_then(|bytes| from_bytes::<abi::wl_flow>(&bytes));
    // it may have ended meanwhile, and another one have its place
    let is_it = |f: &abi::wl_flow| u32::from(f.state) != abi::WL_FLOW_FREE && bytes_of(&f.key) == key;
    Ok(flow.filter(is_it).map(|flow| (id, flow)))
}

/// Key, number and state of each flow in use behind interfaces of these indices. `ids` is wl_flow_ids, `flows` is wl_flows.
pub(crate) fn in_use(
    ids: &impl MapCore,
    flows: &impl MapCore,
    is_behind: impl Fn(u32) -> bool,
) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>, abi::wl_flow)>> {
    let is_wanted =
        move |key: &Vec<u8>| from_bytes::<abi::wl_flow_key>(key).is_some_and(|key| is_behind(key.ifindex));
    let keys = each_once(ids.keys(), ids.max_entries() as usize).filter(is_wanted);
    keys.map(|key| Ok(look_up(ids, flows, &key)?.map(|(id, flow)| (key, id, flow))))
        .filter_map(Result::transpose)
}

/// The part in a group of flow `id`; `places` is wl_places.
pub(crate) fn place_of(
    places: &impl MapCore,
    id: &[u8],
    flow: &abi::wl_flow,
    groups: &[GroupInfo],
) -> Result<Option<FlowGroup>> {
    if flow.flags & abi::WL_FLOW_GROUPED == 0 {
        return Ok(None);
    }
    let place = places.lookup(id, MapFlags::ANY).map_err(bpf("reading a flow's place"))?;
    Ok(place.and_then(|b| from_bytes::<FlowPlace>(&b)).and_then(|p| p.describe(groups)))
}

/// All flows in use behind interfaces of these indices. `ids` is wl_flow_ids, `flows` is wl_flows, `places` is wl_places.
pub(crate) fn read_flows(
    is_behind: impl Fn(u32) -> bool,
    ids: &impl MapCore,
    flows: &impl MapCore,
    places: &impl MapCore,
    exceptions: &Exceptions,
    groups: &[GroupInfo],
) -> Result<Vec<FlowInfo>> {
    let mut all = Vec::new();
    for flow in in_use(ids, flows, is_behind) {
        let (key, id, flow) = flow?;
        let group = place_of(places, &id, &flow, groups)?;
        all.push(describe(&flow, exceptions.has(&key, &flow), group));
    }
    all.sort_by_key(|f| (f.ifindex, f.sender, f.receiver));
    Ok(all)
}

/// How many flows there are, by what is done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowCounts {
    /// Their windows are the box's.
    pub controlled: u32,
    /// They are measured only.
    pub watched: u32,
    /// Neither.
    pub off: u32,
}

/// The flows in use, by index of the interface. `ids` is wl_flow_ids, `flows` is wl_flows.
pub(crate) fn count_flows(ids: &impl MapCore, flows: &impl MapCore) -> Result<BTreeMap<u32, FlowCounts>> {
    let mut all: BTreeMap<u32, FlowCounts> = BTreeMap::new();
    for flow in in_use(ids, flows, |_| true) {
        let (_, _, flow) = flow?;
        let counts = all.entry(flow.key.ifindex).or_default();
        *match flow.mode.into() {
            _ if flow.is_controlled() => &mut counts.controlled,
            abi::WL_MODE_OFF => &mut counts.off,
            _ => &mut counts.watched,
        } += 1;
    }
    Ok(all)
}

/// Of these flows, has none with unacknowledged data a window of ours any more? What was reported as received, or is
/// lost and not retransmitted yet, is in flight no more; but its sender may not know of the losses before it.
pub(crate) fn has_let_go(flows: &[FlowInfo]) -> bool {
    flows.iter().all(|f| (f.mode != "transparent" && !f.is_leaving) || f.unacked_bytes == 0)
}

/// The same of flows behind interfaces of these indices. `ids` is wl_flow_ids, `flows` is wl_flows.
pub(crate) fn are_let_go(
    ids: &impl MapCore,
    flows: &impl MapCore,
    is_behind: impl Fn(u32) -> bool,
) -> Result<bool> {
    for flow in in_use(ids, flows, is_behind) {
        let (_, _, flow) = flow?;
        if !has_let_go(&[describe(&flow, false, None)]) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_are_only_watched_show_the_reason() {
        let why = |flags| OnlyWatched::of(&abi::wl_flow { flags, ..abi::wl_flow::default() });
        assert_eq!(why(abi::WL_FLOW_SACK), None);
        assert_eq!(why(abi::WL_FLOW_STOOD_ASIDE), Some(OnlyWatched::Paces));
        let flags = abi::WL_FLOW_STOOD_ASIDE;
        let hard = abi::wl_flow { flags, hardship: abi::WL_HARDSHIP_LIMIT as u8, ..abi::wl_flow::default() };
        assert_eq!(OnlyWatched::of(&hard), Some(OnlyWatched::FaresWorse));
        // with SACK that much is no reason yet
        let flags = flags | abi::WL_FLOW_SACK;
        assert_eq!(OnlyWatched::of(&abi::wl_flow { flags, ..hard }), Some(OnlyWatched::Paces));
        let hardship = abi::WL_HARDSHIP_LIMIT_SACK as u8;
        assert_eq!(OnlyWatched::of(&abi::wl_flow { flags, hardship, ..hard }), Some(OnlyWatched::FaresWorse));
        // that its rule can change, the other not
        assert_eq!(why(abi::WL_FLOW_FOREIGN | abi::WL_FLOW_STOOD_ASIDE), Some(OnlyWatched::Foreign));
    }

    #[test]
    fn keys_are_listed_once_though_the_kernel_begins_again() {
        let keys = |numbers: &[u8]| numbers.iter().map(|n| vec![*n]).collect::<Vec<_>>();
        let told: Vec<_> = each_once(keys(&[1, 2, 1, 2, 3, 1]).into_iter(), 3).collect();
        assert_eq!(told, keys(&[1, 2, 3]));
        // and again and again
        assert_eq!(each_once(keys(&[1, 2]).into_iter().cycle(), 3).count(), 2);
    }

    #[test]
    fn a_flow_with_a_loss_is_let_go_when_all_is_acknowledged() {
        let is_over = |state, una, sacked_bytes, lost_bytes| {
            let flow = abi::wl_flow {
                state: state as u8,
                una,
                nxt: 4000,
                sacked_bytes,
                lost_bytes,
                ..Default::default()
            };
            has_let_go(&[describe(&flow, false, None)])
        };
        assert!(
            !is_over(abi::WL_FLOW_ACTIVE, 1000, 2000, 1000),
            "nothing is in flight, and a loss is hidden"
        );
        assert!(!is_over(abi::WL_FLOW_ACTIVE, 1000, 0, 0));
        assert!(is_over(abi::WL_FLOW_ACTIVE, 4000, 0, 0));
        assert!(is_over(abi::WL_FLOW_WATCHED, 1000, 2000, 0));
    }

    #[test]
    fn room_is_what_a_controlled_sender_has_left() {
        let room_bytes = |state, edge, nxt| {
            let flow = abi::wl_flow { state: state as u8, edge, nxt, ..abi::wl_flow::default() };
            describe(&flow, false, None).room_bytes
        };
        assert_eq!(room_bytes(abi::WL_FLOW_BYPASS, 3000, 1000), 2000);
        assert_eq!(room_bytes(abi::WL_FLOW_BYPASS, 1000, u32::MAX - 999), 2000);
        assert_eq!(room_bytes(abi::WL_FLOW_BYPASS, 1000, 3000), 0, "a bypass let the sender pass its edge");
        assert_eq!(room_bytes(abi::WL_FLOW_WATCHED, 0, 3000), 0, "it has none");
    }
}
