//! Attaching a program to an interface: tcx where the kernel has it (6.6), clsact below.

use crate::{
    Error, Result,
    error::bpf,
    netdev::{self, run},
    object::pin,
    programs::is_any_called,
};
use libbpf_rs::{ErrorKind, Link, TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder, libbpf_sys as sys};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    path::Path,
    ptr,
};

/// Priority and handle of our filters under clsact. First in line; the handle is one that no other program picks,
/// because a program that attaches with the handle of another's filter takes its place.
const PRIORITY: u32 = 1;
const HANDLE: u32 = 0x771d;

/// The programs that see what the controlled servers send, and what is sent to them.
pub(crate) const FROM_SENDER: &str = "wl_from_sender";
pub(crate) const TO_SENDER: &str = "wl_to_sender";

/// One attached program. Detached when dropped unless it is pinned or forgotten.
#[derive(Debug)]
pub enum Attached {
    /// A tcx link.
    Tcx(OwnedFd),
    /// A clsact filter; not a link, so it stays until removed.
    Clsact(TcHook),
}

impl Attached {
    /// Pins a link at `path`, so that it outlives this process; filters do so by themselves.
    pub fn pin(&self, path: &Path) -> Result<()> {
        if let Attached::Tcx(link) = self { pin(link.as_fd(), path) } else { Ok(()) }
    }

    /// Removes the program from the interface.
    pub fn detach(self) {
        match self {
            Attached::Tcx(link) => drop(link),
            Attached::Clsact(mut hook) => {
                // it may be gone with its interface
                let _ = hook.detach();
            }
        }
    }
}

/// Is the datapath attached by tcx, whatever holds it: another process, or pins that cannot be seen from here?
///
/// # Errors
/// Programs are attached, and what they are cannot be determined.
pub(crate) fn has_datapath(ifindex: u32) -> Result<bool> {
    has_program(ifindex as i32, sys::BPF_TCX_INGRESS, FROM_SENDER)
}

/// Is a program of that name attached at that point of `target`, which is what the point is of: an interface's index, or the
/// descriptor of a cgroup's folder? What the kernel does not know has none.
///
/// # Errors
/// Programs are attached, and what they are cannot be determined.
pub(crate) fn has_program(target: i32, point: sys::bpf_attach_type, name: &str) -> Result<bool> {
    program_ids(target, point).map_or(Ok(false), |ids| is_any_called(&ids, name))
}

/// Ids of the programs that are attached there, in the order in which they run; none: the kernel does not know that point.
pub(crate) fn program_ids(target: i32, point: sys::bpf_attach_type) -> Option<Vec<u32>> {
    let mut ids = [0; 64];
    let mut opts = sys::bpf_prog_query_opts {
        sz: size_of::<sys::bpf_prog_query_opts>() as u64,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    opts.__bindgen_anon_1.count = ids.len() as u32;
    // SAFETY: `opts` and the array it points to live during the call, and the array is as long as given there.
    let answer = unsafe { sys::bpf_prog_query_opts(target, point, &mut opts) };
    if answer != 0 {
        return None;
    }
    // SAFETY: both members of the union are the same number.
    let count = unsafe { opts.__bindgen_anon_1.count };
    Some(ids[..count as usize].to_vec())
}

/// Are there clsact filters that attach() made, on both sides?
///
/// # Errors
/// `tc` cannot be run, so that nothing is known of them.
pub(crate) fn has_filters(iface: &str) -> Result<bool> {
    for (side, program) in [("ingress", FROM_SENDER), ("egress", TO_SENDER)] {
        let Ok(list) = run(&["tc", "filter", "show", "dev", iface, side]) else {
            // as where there is no clsact; but then that can be queried
            return run(&["tc", "qdisc", "show", "dev", iface]).map(|_| false);
        };
        if !list.contains(&format!("handle {HANDLE:#x} {program}")) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes the clsact filters that attach() made, and only those; then clsact itself if it is of no more use.
pub(crate) fn remove_filters(iface: &str) {
    let (priority, handle) = (PRIORITY.to_string(), HANDLE.to_string());
    for side in ["ingress", "egress"] {
        let all = ["tc", "filter", "del", "dev", iface, side, "protocol", "all"];
        let ours = ["prio", &priority, "handle", &handle, "bpf"];
        // what cannot be removed is not there
        let _ = run(&[&all[..], &ours].concat());
    }
    remove_unused_clsact(iface);
}

/// Removes clsact from the interface, unless a filter is still attached to it.
pub(crate) fn remove_unused_clsact(iface: &str) {
    let is_unused =
        |side| run(&["tc", "filter", "show", "dev", iface, side]).is_ok_and(|list| list.is_empty());
    if is_unused("ingress") && is_unused("egress") {
        // what is left does nothing
        let _ = run(&["tc", "qdisc", "del", "dev", iface, "clsact"]);
    }
}

/// Which side of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Packets that come in.
    Ingress,
    /// Packets that go out.
    Egress,
}

/// Attaches a loaded program, whose name is `name`, before all others: another that runs first may keep packets from
/// it, or mark those that the box injects.
pub fn attach(program: BorrowedFd<'_>, name: &str, ifindex: u32, side: Side) -> Result<Attached> {
    let point = if side == Side::Ingress { sys::BPF_TCX_INGRESS } else { sys::BPF_TCX_EGRESS };
    // before no other one in particular: first of all
    let opts = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as u64,
        flags: sys::BPF_F_BEFORE,
        ..Default::default()
    };
    // SAFETY: the program is open during the call, and the options live as long.
    let link = unsafe { sys::bpf_link_create(program.as_raw_fd(), ifindex as i32, point, &opts) };
    if link >= 0 {
        // SAFETY: a descriptor that libbpf just made and nothing else owns.
        return Ok(Attached::Tcx(unsafe { OwnedFd::from_raw_fd(link) }));
    }
    let why = io::Error::last_os_error();
    if why.raw_os_error() != Some(libc::EINVAL) {
        return Err(bpf(format!("attaching {name}"))(why.into()));
    }
    attach_filter(program, name, ifindex, side)
}

/// The same by clsact, in the place of the filter that attached another one there, if there is one.
pub(crate) fn attach_filter(
    program: BorrowedFd<'_>,
    name: &str,
    ifindex: u32,
    side: Side,
) -> Result<Attached> {
    let (point, side) = if side == Side::Ingress { (TC_INGRESS, "ingress") } else { (TC_EGRESS, "egress") };
    let mut builder = TcHookBuilder::new(program);
    let mut hook =
        builder.ifindex(ifindex as i32).replace(true).handle(HANDLE).priority(PRIORITY).hook(point);
    hook.create().map_err(bpf(format!("creating clsact for {name}")))?;
    match hook.attach() {
        Ok(hook) => Ok(Attached::Clsact(hook)),
        // one priority has filters of one kind for one protocol, and ours are for all
        Err(why) if why.kind() == ErrorKind::InvalidInput => Err(Error::FirstTaken {
            iface: netdev::name_of(ifindex).unwrap_or_else(|| ifindex.to_string()),
            side,
        }),
        Err(why) => Err(bpf(format!("attaching {name} to clsact"))(why)),
    }
}

/// Puts the program in the place of the one that the pinned link keeps attached. Where its device is gone, and so it keeps none,
/// nothing is to be done.
pub(crate) fn replace_linked(pin: &Path, program: BorrowedFd<'_>) -> Result<()> {
    // libbpf would complain of one that is not there, as when a clock was about to be made anew
    if !pin.exists() {
        return Ok(());
    }
    let link = Link::open(pin).map_err(bpf(format!("opening {}", pin.display())))?;
    // SAFETY: both descriptors are open during the call; no options are the usual ones.
    if unsafe { sys::bpf_link_update(link.as_fd().as_raw_fd(), program.as_raw_fd(), ptr::null()) } == 0 {
        return Ok(());
    }
    let why = io::Error::last_os_error();
    match why.raw_os_error() {
        Some(libc::ENOLINK) => Ok(()),
        _ => Err(bpf(format!("replacing {}", pin.display()))(why.into())),
    }
}
