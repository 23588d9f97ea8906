//! Any bytes as TCP options, against a second reading of them and against etherparse's.

use etherparse::{TcpOptionElement, TcpOptionsIterator};
use windlass_core::{
    abi::{self, wl_options},
    tcp_options,
};

/// Reads the first 40 bytes as options.
pub fn options(data: &[u8]) {
    let bytes = &data[..data.len().min(abi::WL_TCP_OPT_MAX as usize)];
    let read = tcp_options(bytes).expect("at most 40 bytes");
    assert_eq!(read, second_reading(bytes), "{bytes:02x?}");
    agrees_with_etherparse(bytes, &read);
}

/// The options again, one after the other.
fn second_reading(mut rest: &[u8]) -> wl_options {
    let whole = rest.len();
    let mut o = wl_options::default();
    while let [kind, behind @ ..] = rest {
        if *kind == 0 {
            break;
        }
        if *kind == 1 {
            rest = behind;
            continue;
        }
        let len = behind.first().copied().unwrap_or(0);
        let Some(option) = rest.get(..len.into()).filter(|o| o.len() >= 2) else {
            o.is_bad = 1;
            break;
        };
        match option {
            [2, 4, mss @ ..] => o.mss_bytes = u16::from_be_bytes(mss.try_into().expect("two bytes")),
            [3, 3, shift] => (o.has_wscale, o.wscale) = (1, *shift.min(&14)),
            [4, ..] => o.has_sack_permitted = 1,
            [5, ..] => (o.sack_off, o.sack_len) = ((whole - rest.len()) as u8, len),
            [8, 10, a, b, c, d, e, f, g, h] => {
                o.has_ts = 1;
                o.tsval = u32::from_be_bytes([*a, *b, *c, *d]);
                o.tsecr = u32::from_be_bytes([*e, *f, *g, *h]);
            }
            [19 | 29, ..] => o.is_foreign = 1,
            [30, ..] => o.is_mptcp = 1,
            _ => {}
        }
        rest = &rest[len.into()..];
    }
    o
}

/// Where etherparse finds nothing to complain of, it finds the same.
fn agrees_with_etherparse(bytes: &[u8], read: &wl_options) {
    let (mut mss, mut shift, mut times, mut may_sack, mut sacks) = (0, None, None, false, false);
    for element in TcpOptionsIterator::from_slice(bytes) {
        match element {
            Ok(TcpOptionElement::MaximumSegmentSize(bytes)) => mss = bytes,
            Ok(TcpOptionElement::WindowScale(by)) => shift = Some(by.min(14)),
            Ok(TcpOptionElement::Timestamp(value, echo)) => times = Some((value, echo)),
            Ok(TcpOptionElement::SelectiveAcknowledgementPermitted) => may_sack = true,
            Ok(TcpOptionElement::SelectiveAcknowledgement(..)) => sacks = true,
            Ok(TcpOptionElement::Noop) => {}
            Err(_) => return,
        }
    }
    assert_eq!(read.is_bad, 0, "{bytes:02x?}");
    assert_eq!(read.mss_bytes, mss, "{bytes:02x?}");
    assert_eq!((read.has_wscale != 0).then_some(read.wscale), shift, "{bytes:02x?}");
    assert_eq!((read.has_ts != 0).then_some((read.tsval, read.tsecr)), times, "{bytes:02x?}");
    assert_eq!((read.has_sack_permitted != 0, read.sack_len != 0), (may_sack, sacks), "{bytes:02x?}");
}
