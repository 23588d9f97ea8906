//! What the flow tables say, look by look: rates from differences, totals by rule. Knows neither clock nor terminal.

use crate::flow_table::Seen;
use serde::Serialize;
use std::{cmp::Reverse, collections::BTreeMap, net::SocketAddr};
use windlass_agent::FlowInfo;

/// A counter of segments that merge takes back what it had counted; a small step back is none forward.
const STEP_BACK_BYTES: u32 = 1 << 28;

/// A flow as one look found it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub seen: Seen,
    /// Delivered since the look before; none: there was none.
    pub rate_bps: Option<u64>,
}

/// All flows of one rule, on whatever interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    pub rule_name: String,
    pub flows: u64,
    /// Of these, those whose window is enforced now.
    pub controlled: u64,
    /// Sum over flows whose rate is known.
    pub rate_bps: u64,
    pub inflight_bytes: u64,
    pub stored_bytes: u64,
    pub lost_segs: u64,
    pub repaired_segs: u64,
    pub sender_retrans_segs: u64,
}

/// One look.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Look {
    /// Time since the first one.
    pub t_ms: u64,
    /// In the order of their rules' names.
    pub totals: Vec<Total>,
    pub flows: Vec<Row>,
}

/// Names a connection: index of the interface, addresses, first sequence number.
type Key = (u32, SocketAddr, SocketAddr, u32);

/// Remembers of the look before what rates are made from.
#[derive(Debug, Default)]
pub struct Watcher {
    last: BTreeMap<Key, (u64, u32)>,
}

/// Delivered per second between two readings of a counter modulo 2^32.
fn rate_bps(before_bytes: u32, now_bytes: u32, interval_us: u64) -> Option<u64> {
    let mut delivered_bytes = now_bytes.wrapping_sub(before_bytes);
    if delivered_bytes >= STEP_BACK_BYTES.wrapping_neg() {
        delivered_bytes = 0;
    }
    (u64::from(delivered_bytes) * 8_000_000).checked_div(interval_us)
}

impl Watcher {
    /// Takes the flow tables as they are `now_us` after the first look.
    pub fn look(&mut self, now_us: u64, seen: Vec<Seen>) -> Look {
        let mut last = BTreeMap::new();
        let mut totals: BTreeMap<String, Total> = BTreeMap::new();
        let mut flows = Vec::with_capacity(seen.len());
        for seen in seen {
            let Seen { rule_name, flow, .. } = &seen;
            let key = (flow.ifindex, flow.sender, flow.receiver, flow.first_seq);
            let before = self.last.get(&key);
            let rate_bps =
                before.and_then(|(at_us, bytes)| rate_bps(*bytes, flow.delivered_bytes, now_us - at_us));
            last.insert(key, (now_us, flow.delivered_bytes));
            let total = totals
                .entry(rule_name.clone())
                .or_insert_with(|| Total { rule_name: rule_name.clone(), ..Total::default() });
            total.add(flow, rate_bps);
            flows.push(Row { seen, rate_bps });
        }
        // flows that have ended are forgotten
        self.last = last;
        Look { t_ms: now_us / 1000, totals: totals.into_values().collect(), flows }
    }
}

impl Total {
    fn add(&mut self, flow: &FlowInfo, rate_bps: Option<u64>) {
        self.flows += 1;
        self.controlled += u64::from(flow.mode == "transparent" && flow.state == "active");
        self.rate_bps += rate_bps.unwrap_or(0);
        self.inflight_bytes += u64::from(flow.inflight_bytes);
        self.stored_bytes += u64::from(flow.stored_bytes);
        self.lost_segs += u64::from(flow.lost_segs);
        self.repaired_segs += u64::from(flow.repaired_segs);
        self.sender_retrans_segs += u64::from(flow.sender_retrans_segs);
    }
}

/// What flows are sorted by, the largest first; addresses in their own order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Rate,
    Srtt,
    Cwnd,
    Inflight,
    Lost,
    Repaired,
    Rule,
    Sender,
}

impl Order {
    const ALL: [Order; 8] = [
        Order::Rate,
        Order::Srtt,
        Order::Cwnd,
        Order::Inflight,
        Order::Lost,
        Order::Repaired,
        Order::Rule,
        Order::Sender,
    ];

    /// The one that stands `steps` after this one, round and round.
    pub fn after(self, steps: isize) -> Order {
        let at = Order::ALL.iter().position(|o| *o == self).unwrap_or(0) as isize;
        Order::ALL[(at + steps).rem_euclid(Order::ALL.len() as isize) as usize]
    }

    /// Sorts; flows that are equal in it stay sorted by their addresses.
    pub fn sort(self, rows: &mut [Row]) {
        rows.sort_by_key(|r| (r.seen.flow.sender, r.seen.flow.receiver));
        match self {
            Order::Rate => rows.sort_by_key(|r| Reverse(r.rate_bps)),
            Order::Srtt => rows.sort_by_key(|r| Reverse(r.seen.flow.srtt_us)),
            Order::Cwnd => rows.sort_by_key(|r| Reverse(r.seen.flow.cwnd_bytes)),
            Order::Inflight => rows.sort_by_key(|r| Reverse(r.seen.flow.inflight_bytes)),
            Order::Lost => rows.sort_by_key(|r| Reverse(r.seen.flow.lost_segs)),
            Order::Repaired => rows.sort_by_key(|r| Reverse(r.seen.flow.repaired_segs)),
            Order::Rule => rows.sort_by(|a, b| a.seen.rule_name.cmp(&b.seen.rule_name)),
            Order::Sender => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_table::sample;

    fn flow(port: u16, delivered_bytes: u32) -> FlowInfo {
        FlowInfo { delivered_bytes, ..sample::flow(port) }
    }

    fn seen(rule: &str, flow: FlowInfo) -> Seen {
        Seen { rule_name: rule.into(), ..sample::seen(flow) }
    }

    #[test]
    fn a_rate_is_what_was_delivered_between_two_looks() {
        let mut watcher = Watcher::default();
        let first = watcher.look(0, vec![seen("wan", flow(1, 500))]);
        assert_eq!(first.flows[0].rate_bps, None, "nothing to compare with yet");
        let second = watcher.look(500_000, vec![seen("wan", flow(1, 125_500))]);
        assert_eq!(second.flows[0].rate_bps, Some(2_000_000));
        let third = watcher.look(1_500_000, vec![seen("wan", flow(1, 125_500))]);
        assert_eq!((third.t_ms, third.flows[0].rate_bps), (1500, Some(0)));
    }

    #[test]
    fn the_counter_wraps_and_may_step_back_a_little() {
        assert_eq!(rate_bps(u32::MAX - 999, 4000, 1_000_000), Some(40_000));
        assert_eq!(rate_bps(0, 3_000_000_000, 1_000_000), Some(24_000_000_000));
        assert_eq!(rate_bps(5000, 3552, 1_000_000), Some(0));
        assert_eq!(rate_bps(5000, 6000, 0), None);
    }

    #[test]
    fn a_connection_that_uses_the_addresses_of_another_begins_anew() {
        let mut watcher = Watcher::default();
        watcher.look(0, vec![seen("wan", flow(1, 900_000))]);
        let other = FlowInfo { first_seq: 8, ..flow(1, 1000) };
        assert_eq!(watcher.look(1_000_000, vec![seen("wan", other)]).flows[0].rate_bps, None);
        // and one that was gone for a look is not compared with what it was long ago
        let back = watcher.look(2_000_000, vec![seen("wan", flow(1, 900_000))]);
        assert_eq!(back.flows[0].rate_bps, None);
    }

    #[test]
    fn totals_are_sums_by_rule() {
        let mut watcher = Watcher::default();
        let bypassed = FlowInfo { state: "bypass", ..flow(3, 0) };
        let tables = |bytes| {
            vec![seen("wan", flow(1, bytes)), seen("lan", flow(2, bytes)), seen("wan", bypassed.clone())]
        };
        watcher.look(0, tables(0));
        let look = watcher.look(1_000_000, tables(1000));
        let names: Vec<_> = look.totals.iter().map(|t| t.rule_name.as_str()).collect();
        assert_eq!(names, ["lan", "wan"]);
        let expected = Total {
            rule_name: "wan".into(),
            flows: 2,
            controlled: 1,
            rate_bps: 8000,
            inflight_bytes: 2000,
            stored_bytes: 4000,
            lost_segs: 6,
            repaired_segs: 4,
            sender_retrans_segs: 2,
        };
        assert_eq!(look.totals[1], expected);
    }

    #[test]
    fn orders_go_round_and_sort_the_largest_first() {
        let mut order = Order::default();
        for _ in Order::ALL {
            order = order.after(1);
        }
        assert_eq!(order, Order::Rate);
        assert_eq!(order.after(-1), Order::Sender);
        let mut watcher = Watcher::default();
        watcher.look(0, vec![seen("a", flow(1, 0)), seen("a", flow(2, 0))]);
        let tables = vec![seen("a", flow(1, 10)), seen("a", flow(2, 20)), seen("a", flow(3, 0))];
        let mut rows = watcher.look(1_000_000, tables).flows;
        let ports = |rows: &[Row]| rows.iter().map(|r| r.seen.flow.receiver.port()).collect::<Vec<_>>();
        Order::Rate.sort(&mut rows);
        assert_eq!(ports(&rows), [2, 1, 3]);
        Order::Cwnd.sort(&mut rows);
        assert_eq!(ports(&rows), [1, 2, 3], "equals stay in the order of their addresses");
    }
}
