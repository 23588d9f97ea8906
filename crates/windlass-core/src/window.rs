//! From bytes to the window field.

use crate::abi;

/// The field that shows `window_bytes` to a sender whose receiver announced `rcv_wscale`, at most `client_field`.
pub fn rwnd_field(window_bytes: u32, rcv_wscale: u8, client_field: u32) -> u32 {
    // SAFETY: plain call without pointers.
    unsafe { abi::wln_rwnd_field(window_bytes, rcv_wscale, client_field) }
}
