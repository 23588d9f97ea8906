//! Network interfaces of this namespace with what the kernel has of them, over netlink. /sys shows the namespace in which it was
//! mounted, which is another one under `nsenter --net`.

use crate::netdev;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::{io, iter};

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Alternative names, by which `ip`, `tc` and the kernel know it as well.
    pub(crate) other_names: Vec<String>,
    /// Of its link layer (ARPHRD_*).
    pub(crate) hardware_type: u16,
    /// What makes it, for example `veth` or `bridge`; empty: a network card or the loopback.
    pub(crate) kind: String,
    /// Index of the interface at its other end, of this namespace or of another one; none: it has no other end.
    pub(crate) peer: Option<u32>,
    /// What an administrator or a program has written down of it.
    pub(crate) alias: String,
}

/// Length of struct ifinfomsg.
const IFINFO_BYTES: usize = 16;

impl Link {
    /// Is it called so, by whichever of its names?
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    /// All names, first the one by which it is listed.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        [&self.name].into_iter().chain(&self.other_names).map(String::as_str)
    }

    /// From the payload of RTM_NEWLINK; none: it is damaged.
    fn parse(payload: &[u8]) -> Option<Link> {
        let hardware_type = u16::from_ne_bytes(payload.get(2..4)?.try_into().ok()?);
        let index = u32::from_ne_bytes(payload.get(4..8)?.try_into().ok()?);
        let mut link = Link { index, hardware_type, ..Link::default() };
        for (kind, value) in attributes(payload.get(IFINFO_BYTES..)?) {
            match kind {
                libc::IFLA_IFNAME => link.name = text(value),
                libc::IFLA_IFALIAS => link.alias = text(value),
                libc::IFLA_LINK => link.peer = value.try_into().ok().map(u32::from_ne_bytes),
                libc::IFLA_LINKINFO => {
                    let kind = attributes(value).find(|(kind, _)| *kind == libc::IFLA_INFO_KIND);
                    link.kind = kind.map(|(_, value)| text(value)).unwrap_or_default();
                }
                libc::IFLA_PROP_LIST => {
                    let names = attributes(value).filter(|(kind, _)| *kind == libc::IFLA_ALT_IFNAME);
                    link.other_names = names.map(|(_, value)| text(value)).collect();
                }
                _ => {}
            }
        }
        Some(link)
    }
}

/// Kinds and values of attributes (struct nlattr), up to the first that is damaged.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    iter::from_fn(move || {
        let [length, kind] =
            [0, 2].map(|at| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
        let (length, kind) = (usize::from(length?), kind? & libc::NLA_TYPE_MASK as u16);
        let value = bytes.get(4..length)?;
        bytes = after(bytes, length);
        Some((kind, value))
    })
}

/// What follows after something of this length: messages and attributes begin at multiples of four bytes.
fn after(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(length.next_multiple_of(4)..).unwrap_or_default()
}

/// Text of the kernel's, which ends with NUL.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// All interfaces of this namespace.
pub(crate) fn all() -> Vec<Link> {
    // there are none where the kernel lists none
    query(None).unwrap_or_default()
}

/// The interface of that index; none: there is none.
pub(crate) fn of(index: u32) -> Option<Link> {
    query(Some(index)).ok()?.pop()
}

/// The interface of that name, alternative or not; none: there is none.
pub(crate) fn named(name: &str) -> Option<Link> {
    netdev::index(name).and_then(of)
}

/// Requests one interface, or all.
fn query(index: Option<u32>) -> io::Result<Vec<Link>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(index), 0)?;
    let mut links = Vec::new();
    loop {
        let (answer, _) = socket.recv_from_full()?;
        if take(&answer, &mut links)? || (index.is_some() && !links.is_empty()) {
            return Ok(links);
        }
    }
}

fn request(index: Option<u32>) -> Vec<u8> {
    let dump = if index.is_none() { libc::NLM_F_DUMP } else { 0 };
    let flags = (libc::NLM_F_REQUEST | dump) as u16;
    let mut request = Vec::new();
    // struct nlmsghdr: length, kind, flags, and numbers of message and sender that no other message could be taken for
    request.extend(40u32.to_ne_bytes());
    request.extend([libc::RTM_GETLINK.to_ne_bytes(), flags.to_ne_bytes()].concat());
    request.extend([0; 8]);
    // struct ifinfomsg: family and kind, index, flags, which flags
    request.extend([0; 4]);
    request.extend(index.unwrap_or(0).to_ne_bytes());
    request.extend([0; 8]);
    // one attribute: without statistics, which make most of an answer
    request.extend([8u16.to_ne_bytes(), libc::IFLA_EXT_MASK.to_ne_bytes()].concat());
    request.extend(libc::RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
    request
}

/// Takes the interfaces of one answer, of which there may be several. Returns whether it was the last.
fn take(answer: &[u8], links: &mut Vec<Link>) -> io::Result<bool> {
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut rest = answer;
    while let Some((length, kind, payload)) = message(rest) {
        match kind {
            libc::RTM_NEWLINK => links.extend(Link::parse(payload)),
            DONE => return Ok(true),
            ERROR => {
                let number = payload.get(..4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
                return Err(io::Error::from_raw_os_error(-number.unwrap_or(-libc::EIO)));
            }
            _ => {}
        }
        rest = after(rest, length);
    }
    Ok(false)
}

/// Length, kind and payload of the first message (struct nlmsghdr); none: there is none, or it is damaged.
fn message(bytes: &[u8]) -> Option<(usize, u16, &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    Some((length, kind, bytes.get(16..length)?))
}

const DONE: u16 = libc::NLMSG_DONE as u16;
const ERROR: u16 = libc::NLMSG_ERROR as u16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_listed_over_netlink_and_found_by_name() {
        let lo = named("lo").expect("it is everywhere");
        assert_eq!((lo.name.as_str(), lo.peer, lo.hardware_type), ("lo", None, libc::ARPHRD_LOOPBACK));
        assert_eq!(of(lo.index).as_ref(), Some(&lo));
        assert!(all().contains(&lo), "{:?}", all());
        assert_eq!(named("no such/interface"), None);
    }

    #[test]
    fn what_is_damaged_is_left_out() {
        let mut links = Vec::new();
        assert!(take(&[], &mut links).is_err());
        assert!(!take(&[1, 2, 3], &mut links).unwrap());
        assert_eq!((Link::parse(&[0; 7]), links.len()), (None, 0));
        // an attribute that claims more than there is
        let mut payload = [0; IFINFO_BYTES + 4];
        payload[4] = 7;
        payload[IFINFO_BYTES] = 200;
        assert_eq!(Link::parse(&payload), Some(Link { index: 7, ..Link::default() }));
    }
}
