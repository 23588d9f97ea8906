//! How much of store and flow table each uses: servers and their clients, as the datapath's shares count them.

use crate::FlowInfo;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};
use windlass_core::{
    abi::{self, wl_config, wl_share_total},
    share,
};

/// What is used of one interface's store and flow table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Size of the store.
    pub store_bytes: u64,
    /// What flows hold of it, in whole blocks and chunks.
    pub store_used_bytes: u64,
    /// Entries of the flow table.
    pub flows_max: u32,
    /// Those in use.
    pub flows_used: u32,
    /// Of these, those of flows that no rule names.
    pub flows_without_rule: u32,
}

impl Usage {
    pub(crate) fn of(config: &wl_config, total: &wl_share_total) -> Usage {
        Usage {
            store_bytes: u64::from(config.chunks_max) * u64::from(abi::WL_CHUNK_BYTES),
            store_used_bytes: u64::from(total.blocks) * u64::from(abi::WL_BLOCK_BYTES),
            flows_max: config.flows_max,
            flows_used: total.flows,
            flows_without_rule: total.unruled_flows,
        }
    }

    fn free_blocks(&self) -> u32 {
        (self.store_bytes.saturating_sub(self.store_used_bytes) / u64::from(abi::WL_BLOCK_BYTES)) as u32
    }

    fn free_flows(&self) -> u32 {
        self.flows_max.saturating_sub(self.flows_used)
    }
}

/// What flows are summed up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The server.
    Server,
    /// The server and its client.
    Client,
}

/// A server, or a client of one, and what its flows use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Address of the server.
    pub server: IpAddr,
    /// Address of the client, of IPv6 that of its /64 network; none: all clients.
    pub client: Option<IpAddr>,
    /// Its flows.
    pub flows: u32,
    /// How many it may have before it gets no more.
    pub flows_limit: u32,
    /// What they hold of the store, in whole blocks and chunks.
    pub held_bytes: u64,
    /// How much that may be before it gets no more.
    pub held_limit_bytes: u64,
}

/// The part of a client's address that names its account.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
    }
}

/// The flows of one interface, summed up; the one that holds most comes first.
pub fn by_account<'a>(flows: impl IntoIterator<Item = &'a FlowInfo>, usage: &Usage, by: By) -> Vec<Account> {
    let mut sums: BTreeMap<(IpAddr, Option<IpAddr>), (u32, u64)> = BTreeMap::new();
    for flow in flows {
        let server = flow.sender.ip();
        // a client's limit depends on what all clients of its server use
        for client in [None, Some(network(flow.receiver.ip()))] {
            let sum = sums.entry((server, client)).or_default();
            *sum = (sum.0 + 1, sum.1 + flow.held_bytes);
        }
    }
    let block_bytes = u64::from(abi::WL_BLOCK_BYTES);
    let limit = |client: Option<IpAddr>, free, of_server, total: u64| {
        let limit = match client {
            None => share::server_limit(free),
            Some(_) => share::client_limit(free, of_server),
        };
        u64::from(limit).min(total)
    };
    let account = |(&(server, client), &(flows, held_bytes)): (&(IpAddr, Option<IpAddr>), &(u32, u64))| {
        let (flows_of_server, held_by_server) = sums[&(server, None)];
        let blocks_of_server = (held_by_server / block_bytes) as u32;
        let blocks_max = usage.store_bytes / block_bytes;
        Account {
            server,
            client,
            flows,
            flows_limit: limit(client, usage.free_flows(), flows_of_server, usage.flows_max.into()) as u32,
            held_bytes,
            held_limit_bytes: limit(client, usage.free_blocks(), blocks_of_server, blocks_max) * block_bytes,
        }
    };
    let is_wanted = |client: Option<IpAddr>| client.is_some() == (by == By::Client);
    let mut accounts: Vec<Account> =
        sums.iter().filter(|((_, client), _)| is_wanted(*client)).map(account).collect();
    accounts.sort_by_key(|a| (std::cmp::Reverse((a.held_bytes, a.flows)), a.server, a.client));
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::describe;
    use windlass_core::abi::{wl_flow, wl_flow_key};

    fn mapped(last: u8) -> [u8; 16] {
        let mut address = [0; 16];
        address[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, last]);
        address
    }

    fn flow(server: u8, client: [u8; 16], stored_chunks: u16) -> FlowInfo {
        let key = wl_flow_key { snd_addr: mapped(server), rcv_addr: client, ..wl_flow_key::default() };
        describe(&wl_flow { key, stored_chunks, ..wl_flow::default() }, false, None)
    }

    #[test]
    fn shares_of_servers_and_clients_are_summed_up() {
        let usage = Usage {
            store_bytes: 16 << 16,
            store_used_bytes: 14 << 16,
            flows_max: 100,
            flows_used: 4,
            flows_without_rule: 0,
        };
        let mut of_ipv6 = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7];
        let mut flows = vec![flow(1, mapped(7), 3), flow(2, mapped(7), 1), flow(1, of_ipv6, 5)];
        of_ipv6[15] = 8;
        flows.push(flow(1, of_ipv6, 5));
        let servers = by_account(&flows, &usage, By::Server);
        let of = |a: &Account| (a.server.to_string(), a.flows, a.held_bytes >> 16, a.held_limit_bytes >> 16);
        assert_eq!(
            servers.iter().map(of).collect::<Vec<_>>(),
            [("192.0.2.1".into(), 3, 13, 16), ("192.0.2.2".into(), 1, 1, 16)]
        );
        assert_eq!(servers[0].flows_limit, 100);
        let clients = by_account(&flows, &usage, By::Client);
        let names: Vec<_> = clients.iter().map(|a| (a.client.expect("one").to_string(), a.flows)).collect();
        assert_eq!(names, [("2001:db8:0:1::".into(), 2), ("192.0.2.7".into(), 1), ("192.0.2.7".into(), 1)]);
    }
}
