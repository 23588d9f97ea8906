//! Network interfaces of this namespace.

use crate::{Error, Result, link};
use std::{
    env,
    ffi::{CStr, CString},
    fs, io,
    process::Command,
};

/// Index of the interface, which must exist and carry Ethernet frames.
pub fn ethernet_index(name: &str) -> Result<u32> {
    let index = index(name).ok_or_else(|| Error::NoInterface(name.to_string()))?;
    // one that goes meanwhile is missed when it is attached to
    match link::of(index) {
        Some(link) if link.hardware_type != libc::ARPHRD_ETHER => Err(Error::NotEthernet(name.to_string())),
        _ => Ok(index),
    }
}

/// Index of the interface in the current namespace, also by an alternative name.
pub fn index(name: &str) -> Option<u32> {
    // which may be longer than what the C library takes
    if name.len() >= libc::IF_NAMESIZE {
        return link::all().into_iter().find(|link| link.has_name(name)).map(|link| link.index);
    }
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

/// The name under which the interface is listed, which has this name or this alternative name; of one that is not there, this name.
/// What is pinned, noted and claimed of an interface goes by that.
pub fn listed_name(name: &str) -> String {
    index(name).and_then(name_of).unwrap_or_else(|| name.to_string())
}

/// Names of all interfaces of the current namespace.
pub fn names() -> Vec<String> {
    link::all().into_iter().map(|link| link.name).collect()
}

/// Inode of the current network namespace: names it in pin paths.
pub fn namespace_inode() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/thread-self/ns/net").map(|m| m.ino()).unwrap_or(0)
}

/// Number of the current network namespace that no other has until the machine starts anew, as the inode may; none: the kernel does not
/// give it.
pub fn namespace_cookie() -> Option<u64> {
    use std::os::fd::AsRawFd;
    let socket = netlink_sys::Socket::new(netlink_sys::protocols::NETLINK_ROUTE).ok()?;
    let (mut cookie, mut length) = (0u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes to `cookie`.
    let failed = unsafe {
        let value = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, value, &mut length)
    };
    (failed == 0).then_some(cookie)
}

/// Where iproute2 is: cron and Debian's `su` give a PATH without these folders.
const FOLDERS_OF_IPROUTE2: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// Runs a command of iproute2, e.g. `["ip", "link", "show"]`; returns what it printed.
pub fn run(command: &[&str]) -> Result<String> {
    let fail = |why: String| Error::Command { command: command.join(" "), why };
    // an empty one would stand for the folder of this process
    let path =
        env::var("PATH").ok().filter(|path| !path.is_empty()).unwrap_or_else(|| "/usr/bin:/bin".into());
    let path = format!("{path}:{FOLDERS_OF_IPROUTE2}");
    let out = Command::new(command[0]).args(&command[1..]).env("PATH", path).output();
    let out = out.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => fail(format!("{e} (Debian: apt-get install iproute2)")),
        _ => fail(e.to_string()),
    })?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(fail(String::from_utf8_lossy(&out.stderr).trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_cookies_differ_and_stay() {
        let here = namespace_cookie().expect("Linux 5.14 has it");
        assert_eq!(namespace_cookie(), Some(here));
        let there = std::thread::spawn(|| {
            // SAFETY: a plain call, for this thread alone.
            (unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0).then(namespace_cookie)
        });
        match there.join().expect("no panic") {
            Some(there) => assert!(there.is_some_and(|there| there != here)),
            None => println!("skipped: namespace_cookies_differ_and_stay: needs root"),
        }
    }
}
