//! Sequence numbers and wrapping clocks (RFC 9293, section 3.4), as `core/flow/seq.h` has them.

/// Is `a` after `b`?
pub fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}
