//! What the two ends of a connection are, and what they have agreed upon.

use crate::{
    stream::Key,
    wire::{ACK, CWR, Checksum, ECE, SYN, Segment, TcpOptions, Tuple},
};

/// What a forger's payload is of, and the client's own, beside the connection's key.
const FORGER: u64 = 0xf0;
const CLIENT: u64 = 0xc0;
const CLIENT_TTL: u8 = 57;
const SYN_WINDOW: u16 = 65535;

/// What both ends are, and have agreed upon.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Addresses and ports.
    pub tuple: Tuple,
    /// What the server's stream consists of.
    pub key: Key,
    /// Initial sequence number of the server.
    pub server_isn: u32,
    /// Initial sequence number of the client.
    pub client_isn: u32,
    /// Ethernet address of the server.
    pub server_mac: [u8; 6],
    /// Ethernet address on the client's side.
    pub client_mac: [u8; 6],
    /// TTL, or hop limit, of the server's packets.
    pub ttl: u8,
    /// MSS that both announce.
    pub mss_bytes: u32,
    /// Shift that the client announces; none: no window scaling.
    pub client_shift: Option<u8>,
    /// Shift that the server announces.
    pub server_shift: Option<u8>,
    /// Timestamps are agreed on.
    pub has_timestamps: bool,
    /// SACK is agreed on.
    pub has_sack: bool,
    /// Classic ECN is agreed on.
    pub has_ecn: bool,
    /// Window field of all that the server sends after its SYN-ACK.
    pub server_window: u16,
    /// The server's packets have complete checksums, as from a wire, on which they may be damaged; else they are still to be completed.
    pub has_sums: bool,
    /// First value of the server's clock of timestamps.
    pub server_ts: u32,
    /// First value of the client's clock of timestamps.
    pub client_ts: u32,
    /// The server may send other bytes at an offset than before.
    pub server_changes: bool,
    /// The client may take room back that it has offered.
    pub client_shrinks: bool,
}

impl Terms {
    /// Plain ones, to be varied: SACK, windows of 8 MiB, no timestamps.
    pub fn plain() -> Terms {
        Terms {
            tuple: Tuple { server: [0; 16], client: [0; 16], server_port: 80, client_port: 40_000 },
            key: Key(0),
            server_isn: 1_000_000,
            client_isn: 7_000_000,
            server_mac: [2, 0, 0, 0, 1, 1],
            client_mac: [2, 0, 0, 0, 2, 1],
            ttl: 64,
            mss_bytes: 1460,
            client_shift: Some(7),
            server_shift: Some(7),
            has_timestamps: false,
            has_sack: true,
            has_ecn: false,
            server_window: 65535,
            has_sums: true,
            server_ts: 1,
            client_ts: 1,
            server_changes: false,
            client_shrinks: false,
        }
    }

    /// Shift of the client's windows in force.
    pub fn shift(&self) -> u8 {
        self.client_shift.filter(|_| self.server_shift.is_some()).unwrap_or(0).min(14)
    }

    /// The window that the server announces with every packet after its SYN-ACK.
    pub fn server_window_bytes(&self) -> i64 {
        let shift = self.server_shift.filter(|_| self.client_shift.is_some()).unwrap_or(0).min(14);
        i64::from(self.server_window) << shift
    }

    /// Sequence number of that byte of the server's stream.
    pub fn server_seq(&self, offset: i64) -> u32 {
        self.server_isn.wrapping_add(1).wrapping_add(offset as u32)
    }

    /// Sequence number of that byte of the client's stream.
    pub fn client_seq(&self, offset: i64) -> u32 {
        self.client_isn.wrapping_add(1).wrapping_add(offset as u32)
    }

    /// The content of a forger's packets in this connection's name.
    pub fn forger_key(&self) -> Key {
        self.key.variant(FORGER)
    }

    /// A segment with all that those of one side have in common.
    pub fn segment(&self, is_from_server: bool, options: TcpOptions) -> Segment {
        let macs = [self.server_mac, self.client_mac];
        let [source_mac, destination_mac] = if is_from_server { macs } else { [macs[1], macs[0]] };
        Segment {
            is_from_server,
            seq: 0,
            ack: 0,
            flags: ACK,
            window: self.server_window,
            has_ae: false,
            urgent: 0,
            options,
            key: if is_from_server { self.key } else { self.key.variant(CLIENT) },
            offset: 0,
            len: 0,
            ttl: if is_from_server { self.ttl } else { CLIENT_TTL },
            source_mac,
            destination_mac,
            checksum: Checksum::Full,
            gso_bytes: 0,
        }
    }

    fn syn_options(&self, shift: Option<u8>, timestamps: (u32, u32)) -> TcpOptions {
        let mut options = TcpOptions::default();
        options.push(&[2, 4]);
        options.push(&(self.mss_bytes as u16).to_be_bytes());
        if self.has_sack {
            options.push(&[4, 2]);
        }
        if self.has_timestamps {
            options.push(&[8, 10]);
            options.push(&timestamps.0.to_be_bytes());
            options.push(&timestamps.1.to_be_bytes());
        }
        if let Some(shift) = shift {
            options.push(&[1, 3, 3, shift]);
        }
        options
    }

    /// The client's SYN.
    pub fn syn(&self) -> Segment {
        let flags = SYN | if self.has_ecn { ECE | CWR } else { 0 };
        let options = self.syn_options(self.client_shift, (self.client_ts, 0));
        Segment { seq: self.client_isn, flags, window: SYN_WINDOW, ..self.segment(false, options) }
    }

    /// The server's answer to it.
    pub fn syn_ack(&self) -> Segment {
        let flags = SYN | ACK | if self.has_ecn { ECE } else { 0 };
        let options = self.syn_options(self.server_shift, (self.server_ts, self.client_ts));
        Segment {
            seq: self.server_isn,
            ack: self.client_isn.wrapping_add(1),
            flags,
            window: SYN_WINDOW,
            ..self.segment(true, options)
        }
    }
}
