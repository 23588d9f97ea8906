//! What there is to know of an interface before it is controlled, or where control does less than it should: programs in the order
//! in which they run, offloads, queues, sizes, and what passed so far.

use crate::{Error, Result, attach, netdev, uplink};
use libbpf_rs::{libbpf_sys as sys, query::ProgInfoIter};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, io, net::IpAddr, os::fd::AsRawFd, os::unix::net::UnixDatagram};

/// The programs of ours, by their names in the kernel.
pub const OWN_PROGRAMS: [&str; 2] = [attach::FROM_SENDER, attach::TO_SENDER];

/// An interface as it is now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct IfaceFacts {
    /// The name by which it is listed.
    pub iface: String,
    /// What makes it, for example `veth`; empty: a network card.
    pub kind: String,
    /// It carries Ethernet frames, which the programs read.
    pub is_ethernet: bool,
    /// It is up.
    pub is_up: bool,
    /// Its MTU.
    pub mtu_bytes: u64,
    /// Its root qdisc.
    pub qdisc: String,
    /// What came in by it since it is there: from servers, if it faces them.
    pub rx_bytes: u64,
    /// What went out by it.
    pub tx_bytes: u64,
    /// Names of offloads, and whether they are on; those that the driver does not report are left out.
    pub offloads: BTreeMap<&'static str, bool>,
    /// Programs at its ingress by tcx, in the order in which they run; none: the kernel has no tcx.
    pub ingress: Option<Vec<String>>,
    /// The same at its egress.
    pub egress: Option<Vec<String>>,
    /// A program takes its packets before tc does (XDP).
    pub has_xdp: bool,
}

/// Offloads by the numbers of their requests (ETHTOOL_G*).
const OFFLOADS: [(&str, u32); 3] = [("GRO", 0x2b), ("GSO", 0x23), ("TSO", 0x1e)];
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETH_FLAG_LRO: u32 = 1 << 15;

impl IfaceFacts {
    /// Looks at an interface.
    ///
    /// # Errors
    /// There is none of that name, or iproute2 is missing.
    pub fn of(name: &str) -> Result<IfaceFacts> {
        let iface = netdev::listed_name(name);
        let index = netdev::index(&iface).ok_or_else(|| Error::NoInterface(name.to_string()))?;
        let link = link(&iface)?;
        let text = |key: &str| link[key].as_str().unwrap_or_default().to_string();
        let bytes = |side: &str| link["stats64"][side]["bytes"].as_u64().unwrap_or(0);
        Ok(IfaceFacts {
            kind: link["linkinfo"]["info_kind"].as_str().unwrap_or_default().to_string(),
            is_ethernet: text("link_type") == "ether",
            is_up: link["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "UP")),
            mtu_bytes: link["mtu"].as_u64().unwrap_or(0),
            qdisc: text("qdisc"),
            rx_bytes: bytes("rx"),
            tx_bytes: bytes("tx"),
            offloads: offloads(&iface),
            ingress: programs(index, sys::BPF_TCX_INGRESS),
            egress: programs(index, sys::BPF_TCX_EGRESS),
            has_xdp: link["xdp"].is_object(),
            iface,
        })
    }

    /// Programs that run before ours, on either side.
    pub fn before_ours(&self) -> Vec<String> {
        let sides = [&self.ingress, &self.egress].into_iter().flatten();
        let first = |programs: &Vec<String>| {
            let ours = programs.iter().position(|name| OWN_PROGRAMS.contains(&name.as_str()));
            programs[..ours.unwrap_or(0)].to_vec()
        };
        let mut all: Vec<String> = sides.flat_map(first).collect();
        all.dedup();
        all
    }
}

fn link(iface: &str) -> Result<Value> {
    let command = ["ip", "-d", "-s", "-j", "link", "show", "dev", iface];
    let answer: Value = serde_json::from_str(&netdev::run(&command)?).unwrap_or_default();
    Ok(answer[0].clone())
}

/// Names of the programs at that point of an interface, in their order; none: the kernel knows no such point.
fn programs(ifindex: u32, point: sys::bpf_attach_type) -> Option<Vec<String>> {
    let ids = attach::program_ids(ifindex as i32, point)?;
    let known: BTreeMap<u32, String> = ProgInfoIter::default()
        .map(|program| (program.id, program.name.to_string_lossy().into_owned()))
        .collect();
    let name = |id: &u32| known.get(id).cloned().unwrap_or_else(|| format!("program {id}"));
    Some(ids.iter().map(name).collect())
}

/// struct ethtool_value
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

fn offloads(iface: &str) -> BTreeMap<&'static str, bool> {
    let Ok(socket) = UnixDatagram::unbound() else { return BTreeMap::new() };
    let get = |command| ethtool(&socket, iface, command).ok();
    let mut all: BTreeMap<_, _> =
        OFFLOADS.iter().filter_map(|(name, command)| Some((*name, get(*command)? != 0))).collect();
    all.extend(get(ETHTOOL_GFLAGS).map(|flags| ("LRO", flags & ETH_FLAG_LRO != 0)));
    all
}

/// One value of an interface's driver. Any socket does.
fn ethtool(socket: &impl AsRawFd, iface: &str, command: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data: 0 };
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = iface.as_bytes();
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request, its NUL-terminated name and the value live during the call, and the value is what the command writes.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.data)
}

/// The interface by which packets to that address leave; none: there is no route.
pub fn route_device(to: IpAddr) -> Option<String> {
    let routes = netdev::run(&["ip", "route", "get", &to.to_string()]).ok()?;
    uplink::word_after(routes.lines().next()?, "dev")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_facts_and_no_offload_is_guessed() {
        let lo = IfaceFacts::of("lo").expect("it is everywhere");
        assert!(!lo.is_ethernet && lo.mtu_bytes > 0 && !lo.has_xdp, "{lo:?}");
        assert!(lo.before_ours().is_empty());
        assert!(matches!(IfaceFacts::of("no such/interface"), Err(Error::NoInterface(_))));
        let socket = UnixDatagram::unbound().unwrap();
        assert!(ethtool(&socket, "nosuch", ETHTOOL_GFLAGS).is_err());
        assert_eq!(route_device([127, 0, 0, 1].into()).as_deref(), Some("lo"));
    }

    #[test]
    fn programs_before_ours_are_those_that_run_first() {
        let names = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect());
        let facts = IfaceFacts {
            ingress: names(&["cni", "wl_from_sender", "later"]),
            egress: names(&["wl_to_sender", "later"]),
            ..IfaceFacts::default()
        };
        assert_eq!(facts.before_ours(), ["cni"]);
        let without_ours = IfaceFacts { ingress: names(&["cni"]), ..IfaceFacts::default() };
        assert!(without_ours.before_ours().is_empty());
    }
}
