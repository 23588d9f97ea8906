//! The round trip of a handshake, natively.

use crate::abi::{self, wl_handshake};

/// A half-open connection, of which only the times of its packets are noted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    inner: wl_handshake,
}

impl Handshake {
    /// The controlled sender's SYN or SYN-ACK comes by; `isn` is its sequence number.
    pub fn sent(&mut self, isn: u32, now_us: u32) {
        // SAFETY: exclusive access to a sound struct.
        unsafe { abi::wln_handshake_sent(&mut self.inner, isn, now_us) };
    }

    /// The receiver's SYN-ACK comes by.
    pub fn answered(&mut self, ack: u32, now_us: u32) {
        self.inner.rtt_us = self.rtt_us(ack, now_us);
    }

    /// The receiver's first packet after a SYN-ACK comes by and acknowledges `ack`. Returns the handshake's round trip;
    /// 0: not known.
    pub fn rtt_us(&self, ack: u32, now_us: u32) -> u32 {
        // SAFETY: reads only.
        unsafe { abi::wln_handshake_rtt_us(&self.inner, ack, now_us) }
    }

    /// The round trip as far as the two SYNs have shown it; 0: not known.
    pub fn known_rtt_us(&self) -> u32 {
        self.inner.rtt_us
    }
}
