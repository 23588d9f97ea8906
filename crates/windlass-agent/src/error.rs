//! Errors of the agent: what was tried, on what, why it failed, and the cure.

use std::path::PathBuf;

/// What can go wrong between user space and the datapath.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller may not do this.
    #[error("{what} needs root (CAP_BPF and CAP_NET_ADMIN); run it with sudo")]
    Privilege {
        /// What was tried.
        what: &'static str,
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
    /// The kernel refused the programs.
    #[error("loading the datapath: {0}; `windlass doctor` tells what this kernel lacks")]
    Load(#[source] libbpf_rs::Error),
    /// A BPF call failed.
    #[error("{what}: {source}")]
    Bpf {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// A command of iproute2 failed.
    #[error("`{command}` failed: {why}")]
    Command {
        /// The command line.
        command: String,
        /// What it printed.
        why: String,
    },
    /// A file or device could not be used.
    #[error("{path}: {source}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Pinned state of another version of Windlass.
    #[error("{0} holds the datapath of another version; `windlass detach --all` first, then start again")]
    OtherVersion(PathBuf),
    /// A value out of range.
    #[error("{0}")]
    Invalid(String),
    /// The policy is wrong.
    #[error(transparent)]
    Policy(#[from] crate::PolicyError),
}

/// Result of the agent's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds to a libbpf error what was tried.
pub(crate) fn bpf(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Error {
    let what = what.into();
    move |source| Error::Bpf { what, source }
}
