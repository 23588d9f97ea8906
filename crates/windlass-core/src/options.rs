//! TCP options.

use crate::abi::{self, wl_options};

/// Reads TCP options as they come from the wire. `None`: more than a TCP header can hold (40 bytes).
pub fn tcp_options(bytes: &[u8]) -> Option<wl_options> {
    let mut padded = [0; abi::WL_OPT_BUFFER_BYTES as usize];
    padded[..abi::WL_TCP_OPT_MAX as usize].get_mut(..bytes.len())?.copy_from_slice(bytes);
    let mut options = wl_options::default();
    // SAFETY: the buffer has the length that the function requires, with zeros behind the options.
    unsafe { abi::wln_options_read(padded.as_ptr(), bytes.len() as u32, &mut options) };
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_syn_are_read() {
        let syn = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7];
        let o = tcp_options(&syn).expect("fits");
        assert_eq!((o.mss_bytes, o.has_sack_permitted, o.has_wscale, o.wscale), (1460, 1, 1, 7));
        assert_eq!((o.has_ts, o.tsval, o.tsecr, o.is_bad, o.is_foreign), (1, 1, 2, 0, 0));
    }

    #[test]
    fn a_lie_about_a_length_ends_the_reading() {
        let o = tcp_options(&[3, 3, 2, 8, 10, 0, 0, 0]).expect("fits");
        assert_eq!((o.is_bad, o.has_wscale, o.wscale, o.has_ts), (1, 1, 2, 0));
        assert!(tcp_options(&[1; 41]).is_none());
    }
}
