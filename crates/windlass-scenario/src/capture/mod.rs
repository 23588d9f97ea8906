//! Workloads from captures: each TCP connection of a pcap file becomes a flow with its start, its bytes and its pauses.

mod connection;
mod segments;

use connection::Connection;
use segments::Segment;
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    net::{IpAddr, SocketAddr},
    path::Path,
};

pub use connection::Burst;

/// A transfer of a capture: what the end of a connection that sent more has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// When the connection began, from the first connection's beginning on.
    pub began_ns: u64,
    /// Number of its server among all servers of the capture, in the order of their first connections.
    pub server: usize,
    /// The same of its client.
    pub client: usize,
    /// It is the client that sends.
    pub is_upload: bool,
    /// What is sent; times as of `began_ns`.
    pub bursts: Vec<Burst>,
}

/// The transfers of a capture file whose name counts from `folder`, in the order in which their connections began. An error begins
/// with the file.
pub(crate) fn load(folder: &Path, file: &str) -> Result<Vec<Transfer>, String> {
    let path = folder.join(file);
    let wrong = |e: io::Error| format!("{} cannot be read: {e}", path.display());
    let open = File::open(&path).map_err(wrong)?;
    if !open.metadata().map_err(wrong)?.is_file() {
        return Err(format!("{} is no file; name a capture of tcpdump or Wireshark", path.display()));
    }
    transfers(open).map_err(|what| format!("{}{what}", path.display()))
}

/// The transfers of a capture.
fn transfers(file: impl Read) -> Result<Vec<Transfer>, String> {
    let connections = connections(file)?;
    let carry = |c: &&Connection| !c.heavier().1.is_empty();
    let began_ns = connections.iter().filter(carry).map(|c| c.began_ns).min();
    let Some(first_ns) = began_ns else {
        return Err(" has no TCP connection with payload; record with: tcpdump -s 128 -w FILE tcp".into());
    };
    let mut numbers = [HashMap::new(), HashMap::new()];
    let mut number = |side: usize, address: IpAddr| {
        let next = numbers[side].len();
        *numbers[side].entry(address).or_insert(next)
    };
    let mut transfers: Vec<Transfer> = Vec::new();
    for connection in connections.iter().filter(carry) {
        let (side, bursts) = connection.heavier();
        let since_first = |at_ns: u64| at_ns.saturating_sub(first_ns);
        transfers.push(Transfer {
            began_ns: since_first(connection.began_ns),
            server: number(1, connection.ends[1].ip()),
            client: number(0, connection.ends[0].ip()),
            is_upload: side == 0,
            bursts: bursts.iter().map(|b| Burst { at_ns: since_first(b.at_ns), ..*b }).collect(),
        });
    }
    // captures of several interfaces need not be in order
    transfers.sort_by_key(|transfer| transfer.began_ns);
    Ok(transfers)
}

/// All connections of a capture, in the order of their first segments.
fn connections(file: impl Read) -> Result<Vec<Connection>, String> {
    let mut connections: Vec<Connection> = Vec::new();
    let mut open: HashMap<[SocketAddr; 2], usize> = HashMap::new();
    segments::read(file, &mut |segment: Segment| {
        let ends = match segment.from < segment.to {
            true => [segment.from, segment.to],
            false => [segment.to, segment.from],
        };
        let known = open.get(&ends).copied().filter(|at| !connections[*at].is_followed_by(&segment));
        let at = known.unwrap_or_else(|| {
            connections.push(Connection::new(&segment));
            open.insert(ends, connections.len() - 1);
            connections.len() - 1
        });
        connections[at].add(&segment);
    })?;
    Ok(connections)
}

#[cfg(test)]
mod tests;
