//! Network interfaces of this namespace.

use crate::{Error, Result};
use std::{
    ffi::{CStr, CString},
    fs, io, mem,
    net::{Ipv4Addr, UdpSocket},
    os::fd::AsRawFd,
    process::Command,
};

/// Index of the interface, which must exist and carry Ethernet frames.
pub fn ethernet_index(name: &str) -> Result<u32> {
    let index = index(name).ok_or_else(|| Error::NoInterface(name.to_string()))?;
    // one that goes meanwhile is missed when it is attached to
    match hardware_type(name) {
        Ok(kind) if kind != libc::ARPHRD_ETHER => Err(Error::NotEthernet(name.to_string())),
        _ => Ok(index),
    }
}

/// What kind of link layer the interface has (ARPHRD_*). A socket finds it in this namespace; /sys shows that in which it was
/// mounted.
fn hardware_type(name: &str) -> io::Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // the last byte ends the name
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IF_NAMESIZE - 1)) {
        *to = from as libc::c_char;
    }
    // SAFETY: the kernel reads the name and writes the address of a live request.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it has just been written.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

/// Index of the interface in the current namespace.
pub fn index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: `name` is NUL-terminated and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// Is there an interface of that index in this namespace?
pub fn has_index(ifindex: u32) -> bool {
    name_of(ifindex).is_some()
}

/// Name of the interface of that index in this namespace, which may have had another.
pub fn name_of(ifindex: u32) -> Option<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the array is as long as any name.
    let is_there = !unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) }.is_null();
    // SAFETY: then there is a name in the array, with its NUL.
    is_there.then(|| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}

/// Names of all interfaces of the current namespace.
pub fn names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: if_nameindex() returns NULL or an array that ends with index 0, freed below by its own function.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return names;
        }
        let mut at = list;
        while (*at).if_index != 0 {
            names.push(CStr::from_ptr((*at).if_name).to_string_lossy().into_owned());
            at = at.add(1);
        }
        libc::if_freenameindex(list);
    }
    names
}

/// Inode of the current network namespace: names it in pin paths.
pub fn namespace_inode() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/thread-self/ns/net").map(|m| m.ino()).unwrap_or(0)
}

/// Runs a command of iproute2, e.g. `["ip", "link", "show"]`; returns what it printed.
pub fn run(command: &[&str]) -> Result<String> {
    let fail = |why: String| Error::Command { command: command.join(" "), why };
    let out = Command::new(command[0]).args(&command[1..]).output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => fail(format!("{e} (Debian: apt-get install iproute2)")),
        _ => fail(e.to_string()),
    })?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(fail(String::from_utf8_lossy(&out.stderr).trim().to_string()))
}
