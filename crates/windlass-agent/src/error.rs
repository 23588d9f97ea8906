//! Errors of the agent: what was tried, on what, why it failed, and the cure.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use windlass_scenario::printable_path;

/// What can go wrong between user space and the datapath.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller may not do this.
    #[error(
        "{what} needs root, or a user who has CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_NET_RAW; run it with sudo"
    )]
    Privilege {
        /// What was tried.
        what: &'static str,
    },
    /// The caller is root, and may not do this either.
    #[error(
        "{what} needs {missing}, which even root lacks here; run it on the host, or give it to the container"
    )]
    Capabilities {
        /// What was tried.
        what: &'static str,
        /// Their names.
        missing: String,
    },
    /// No such interface in this network namespace.
    #[error("no interface '{0}' in this network namespace; `ip link` lists those that are here")]
    NoInterface(String),
    /// The interface does not carry Ethernet frames.
    #[error(
        "interface '{0}' carries no Ethernet frames; attach to the veth, tap or NIC that faces the servers"
    )]
    NotEthernet(String),
    /// The interface has a datapath already.
    #[error("interface '{0}' is already under control; `windlass detach {0}` releases it")]
    Busy(String),
    /// Another program's datapath is attached to the interface.
    #[error(
        "interface '{0}' is already under control, by a `windlass attach` or by an agent whose pins are not seen from \
         here; end that first"
    )]
    AttachedElsewhere(String),
    /// Another process looks after it.
    #[error(
        "{what} is already under control, by a `windlass attach` or another agent{process}; end that first"
    )]
    Claimed {
        /// An interface or cgroup.
        what: String,
        /// Which process, in brackets; empty: it is not noted.
        process: String,
    },
    /// A folder or file that must be root's alone is another user's, or could be replaced by one.
    #[error("{} {what}, and what Windlass keeps there must be root's alone; {cure}", printable_path(.path))]
    NotOurs {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it: its owner and mode.
        what: String,
        /// What makes it right.
        cure: String,
    },
    /// A folder that root must first make for the user of this process, who is another one.
    #[error("{} cannot be made or opened by user {user}; once, as root: `{cure}`", printable_path(.path))]
    NoAccess {
        /// Which one.
        path: PathBuf,
        /// Number of the user.
        user: u32,
        /// What root must do.
        cure: String,
    },
    /// Another process has a lock that is never needed for long.
    #[error(
        "{}: process {process} has had this lock for very long; if it is stopped, `kill -CONT {process}` lets it go on, or end \
         it",
        printable_path(.path)
    )]
    Locked {
        /// The lock's file.
        path: PathBuf,
        /// The process that has it.
        process: u32,
    },
    /// A signal came before a lock was free.
    #[error("interrupted while waiting for {}", printable_path(.0))]
    Interrupted(PathBuf),
    /// What is there for an interface or a cgroup, if anything, is no longer what was pinned or taken over.
    #[error(
        "{0} was released by another process, as `windlass detach` does; `kill -HUP` has the agent take it back"
    )]
    Released(String),
    /// There is no room for one more.
    #[error(
        "{} flows behind the interface have algorithms of their own, which is all there is room for; write a rule for many",
        windlass_core::abi::WL_EXCEPTIONS_MAX
    )]
    TooManyExceptions,
    /// What is not controlled has no algorithm.
    #[error("the flow from {sender} to {receiver} is not controlled: {why}")]
    NotControlled {
        /// Its sender.
        sender: SocketAddr,
        /// Its receiver.
        receiver: SocketAddr,
        /// Why, and the cure.
        why: &'static str,
    },
    /// The kernel refused the programs.
    #[error("{}", not_loaded(.0))]
    Load(libbpf_rs::Error),
    /// There is no memory for maps of these sizes.
    #[error(
        "no memory for {needed_mib} MiB, which --store-mib {store_mib} --flows {flows} take; smaller numbers take less, or raise the \
         limit of this process, for a service MemoryMax="
    )]
    NoMemory {
        /// What its maps take.
        needed_mib: u64,
        /// Of this for stored data.
        store_mib: u64,
        /// Entries of the flow table.
        flows: u32,
    },
    /// A BPF call failed.
    #[error("{what}: {why:#}")]
    Bpf {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        why: libbpf_rs::Error,
    },
    /// Filters of another kind, or for another protocol, have the priority of ours under clsact.
    #[error(
        "priority 1 of '{iface}' is a filter's that no program can share it with; `tc filter show dev {iface} {side}` shows it \
         (pref 1): give it another priority"
    )]
    FirstTaken {
        /// The interface.
        iface: String,
        /// `ingress` or `egress`.
        side: &'static str,
    },
    /// A command of iproute2 failed.
    #[error("`{command}` failed: {why}")]
    Command {
        /// The command line.
        command: String,
        /// What it printed.
        why: String,
    },
    /// The in-kernel clock could not be made.
    #[error(
        "{0}; the clock needs iproute2, veth and sch_tbf: `modprobe -a veth sch_tbf`, or see `windlass doctor`"
    )]
    NoClock(Box<Error>),
    /// Another program's device has the name that a clock's must have.
    #[error(
        "'{0}' is not Windlass', but has the name of a clock's device; `ip link set {0} name OTHER` gives it another"
    )]
    ClockNameTaken(String),
    /// A file or device could not be used.
    #[error("{}: {why}", printable_path(.path))]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// Nothing is pinned for the interface.
    #[error("no datapath is pinned on '{0}'; start `windlass agent --policy FILE`")]
    NotPinned(String),
    /// What is pinned for the interface is not all there.
    #[error(
        "what is pinned for '{0}' is not whole, as the process that pinned it was killed; the next agent makes it anew"
    )]
    PinnedInPart(String),
    /// What is pinned was made by a version of Windlass whose state looks different.
    #[error(
        "{path} holds the datapath of another version, with whose state this one cannot go on; `windlass detach --all`, best of \
         that version, then start again",
        path = printable_path(.0)
    )]
    OtherVersion(PathBuf),
    /// The kernel cannot take congestion control from outside.
    #[error(
        "this kernel has no BPF struct_ops, so there is no native home (needed: Linux 6.1 with CONFIG_BPF_JIT and \
         CONFIG_DEBUG_INFO_BTF); the transparent home needs none"
    )]
    NoStructOps,
    /// The algorithms are loaded already.
    #[error("'{0}*' is loaded already; `windlass native unload --prefix {0}` unloads it")]
    NativeLoaded(String),
    /// The algorithms of another version are loaded.
    #[error(
        "'{0}*' is loaded from another version; `windlass native unload --prefix {0}` first, then load again"
    )]
    OtherNative(String),
    /// Another program registered a congestion control of that name.
    #[error("a congestion control '{0}' exists already; choose another name with --prefix")]
    NativeTaken(String),
    /// Nothing to unload.
    #[error("nothing is loaded under '{0}*'; `windlass native list` shows what is")]
    NativeNotLoaded(String),
    /// Not a cgroup.
    #[error("{path} is no folder of cgroup v2; `mount -t cgroup2` shows where they are", path = printable_path(.0))]
    NoCgroup(PathBuf),
    /// The cgroup's sockets are taken care of.
    #[error("{path} is already under an agent's control; `windlass detach --cgroup {path}` releases it", path = printable_path(.0))]
    CgroupBusy(PathBuf),
    /// Another process chooses for the cgroup's sockets.
    #[error(
        "{path} is already under control, by a `windlass attach --native` or by an agent whose pins are not seen from \
         here; end that first",
        path = printable_path(.0)
    )]
    CgroupAttachedElsewhere(PathBuf),
    /// The cgroup's sockets are chosen for by another version.
    #[error(
        "{path} is under the control of another version; `windlass detach --cgroup {path}` first, then start again",
        path = printable_path(.0)
    )]
    OtherSelector(PathBuf),
    /// A value out of range.
    #[error("{0}")]
    Invalid(String),
    /// The policy is wrong.
    #[error(transparent)]
    Policy(#[from] crate::PolicyError),
}

/// Result of the agent's calls.
pub type Result<T> = std::result::Result<T, Error>;

fn not_loaded(why: &libbpf_rs::Error) -> String {
    let why = format!("loading the datapath: {why:#}");
    // the error's number is nowhere else
    if why.ends_with(&format!("(os error {})", libc::EMFILE)) {
        format!("{why}; `ulimit -n` raises how many may be, for a service LimitNOFILE=")
    } else {
        format!("{why}; `windlass doctor` shows what this kernel lacks")
    }
}

/// Adds to a libbpf error what was tried.
pub(crate) fn bpf(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Error {
    let what = what.into();
    move |why| Error::Bpf { what, why }
}

/// Adds to an error of the system which file it is about.
pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |why| Error::Io { path, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::ErrorExt;

    #[test]
    fn the_cure_is_for_what_went_wrong() {
        let load = |number| {
            let why = libbpf_rs::Error::from(io::Error::from_raw_os_error(number));
            Error::Load(why.context("creating a map")).to_string()
        };
        assert!(load(libc::EMFILE).ends_with("LimitNOFILE="), "{}", load(libc::EMFILE));
        assert!(load(libc::EINVAL).contains("windlass doctor"), "{}", load(libc::EINVAL));
    }
}
