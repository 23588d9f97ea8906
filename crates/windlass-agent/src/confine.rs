//! What a command that goes on for long gives up once it has started: capabilities that it does not need, the way to new ones, and
//! system calls that it never makes. A fault in it, or in what it reads, is then worth less to an attacker.
//!
//! The filter lists what is refused and not what is allowed. Which calls are needed depends on versions of libc, libbpf, iproute2
//! (whose `ip` and `tc` an agent runs, and which inherit the filter); one that a list of allowed calls lacked would take traffic out
//! of control on some distribution. For the same reason a refused call fails with EPERM, and does not end the process.

use crate::{
    object::raise_limits,
    privilege::{is_root, missing_capabilities},
};
use caps::{CapSet, Capability, CapsHashSet};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use std::{collections::BTreeMap, env, fs};

/// What a command has to do after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// `attach`: loads programs, attaches them to interfaces and makes clocks, for which it runs `ip` and `tc`.
    Interfaces,
    /// The same, and takes connections of sockets that wait for them already: `agent`, of those that read its metrics and its flows.
    InterfacesAndReaders,
    /// `attach --native`, `guest`, `native load --hold`: loads programs and attaches them to cgroups.
    Sockets,
    /// `controller`: serves ports, whose sockets belong to the users of virtual machines; works with no program.
    Ports,
    /// `web`: serves pages to browsers, of a socket that waits for them already, and asks an agent over another one.
    Pages,
    /// `fleet node`: writes a file of its own user, and connects to etcd and the agent; works with no program.
    Files,
}

impl Duty {
    /// Capabilities that are kept.
    fn keeps(self) -> &'static [Capability] {
        use Capability::{CAP_BPF, CAP_DAC_OVERRIDE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_PERFMON};
        match self {
            Duty::Interfaces | Duty::InterfacesAndReaders => {
                &[CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_NET_RAW]
            }
            Duty::Sockets => &[CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN],
            // or it could not connect to the socket of another user's virtual machine
            Duty::Ports => &[CAP_DAC_OVERRIDE],
            Duty::Pages => &[],
            Duty::Files => &[],
        }
    }

    /// System calls that are refused.
    fn refuses(self) -> Vec<i64> {
        let more: &[i64] = match self {
            Duty::Interfaces | Duty::InterfacesAndReaders => &[],
            Duty::Sockets => &EXECUTING,
            Duty::Ports | Duty::Files => &[EXECUTING[0], EXECUTING[1], libc::SYS_bpf],
            Duty::Pages => &BESIDES_PAGES,
        };
        let accepting: &[i64] = match self {
            Duty::InterfacesAndReaders | Duty::Pages => &[],
            _ => &ACCEPTING,
        };
        REFUSED.iter().chain(accepting).chain(more).chain(OF_THIS_PROCESSOR).copied().collect()
    }
}

/// Calls that start another program.
const EXECUTING: [i64; 2] = [libc::SYS_execve, libc::SYS_execveat];

/// Calls that start another program, or act on what other processes of the same user, agents among them, have pinned and run.
const BESIDES_PAGES: [i64; 7] = [
    EXECUTING[0],
    EXECUTING[1],
    libc::SYS_bpf,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_pidfd_send_signal,
];

/// Calls that take a connection.
const ACCEPTING: [i64; 2] = [libc::SYS_accept, libc::SYS_accept4];

/// Calls that none of these commands makes, nor `ip` and `tc` as an agent runs them.
const REFUSED: [i64; 59] = [
    // loads code into the kernel, or replaces it
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    // reads and changes other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_perf_event_open,
    // changes mounts, roots and namespaces: bpffs is mounted before
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // becomes another user
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    // settings of the whole machine
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_personality,
    // large parts of the kernel that are not used here
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_fanotify_init,
    libc::SYS_mknodat,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // waits for connections
    libc::SYS_listen,
];

#[cfg(target_arch = "x86_64")]
const OF_THIS_PROCESSOR: &[i64] =
    &[libc::SYS_kexec_file_load, libc::SYS_mknod, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const OF_THIS_PROCESSOR: &[i64] = &[];

/// Numbers of the same calls in the x32 ABI, which shares the processor's: the usual ones with this bit, and some of its own.
const X32: i64 = 0x4000_0000;
const X32_OWN: std::ops::RangeInclusive<i64> = 512..=547;

/// The filter for these calls. None: it cannot be made for this processor.
fn filter(refused: &[i64]) -> Option<BpfProgram> {
    let processor = TargetArch::try_from(env::consts::ARCH).ok()?;
    let mut all: Vec<i64> = refused.to_vec();
    if processor == TargetArch::x86_64 {
        all.extend(refused.iter().map(|call| call | X32));
        // execve, ptrace, kexec_load, process_vm_*: nothing here is an x32 program
        all.extend(X32_OWN.map(|call| call | X32));
    }
    let rules: BTreeMap<_, _> = all.into_iter().map(|call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, processor).ok()?.try_into().ok()
}

/// Gives up, for this process and its children, what the duty does not need. To be called before there are other threads: each has
/// capabilities of its own. What this kernel or container does not let it give up it keeps: the returned lines name that.
pub fn confine(duty: Duty) -> Vec<String> {
    // which takes a capability that is given up
    raise_limits();
    let mut kept = Vec::new();
    let mut note = |what: &str, why: String| kept.push(format!("{what}: {why}; the command goes on with it"));
    // SAFETY: changes one attribute of this thread, and takes no memory.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        note("new privileges cannot be given up", std::io::Error::last_os_error().to_string());
    }
    // programs that another user starts have the ambient capabilities; those that root starts have them anyway
    let for_children = duty.keeps().contains(&Capability::CAP_NET_RAW) && !is_root();
    if let Err(why) = drop_capabilities(duty.keeps(), for_children) {
        note("not all capabilities can be given up", why.to_string());
    }
    match filter(&duty.refuses()) {
        None => note("no system call can be refused", format!("no filter for {}", env::consts::ARCH)),
        Some(program) => {
            if let Err(why) = seccompiler::apply_filter_all_threads(&program) {
                note("no system call can be refused", why.to_string());
            }
        }
    }
    kept
}

/// Gives up all capabilities of this thread, as of one that only reads what the process has open.
pub fn drop_all_capabilities() -> Result<(), String> {
    let sets = [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted];
    sets.into_iter().try_for_each(|set| caps::clear(None, set)).map_err(|why| why.to_string())
}

/// Keeps these capabilities, of those that it has, and leaves no way to others. `for_children`: programs that it starts have them.
fn drop_capabilities(keeps: &[Capability], for_children: bool) -> Result<(), caps::errors::CapsError> {
    let had = caps::read(None, CapSet::Permitted)?;
    let mut kept: CapsHashSet = keeps.iter().copied().filter(|one| had.contains(one)).collect();
    if keeps.contains(&Capability::CAP_BPF) && kept.len() < keeps.len() && missing_capabilities().is_none() {
        // where it stands for CAP_BPF and CAP_PERFMON
        kept.insert(Capability::CAP_SYS_ADMIN);
    }
    caps::clear(None, CapSet::Ambient)?;
    // before the capability goes that this takes
    let bounding = if had.contains(&Capability::CAP_SETPCAP) {
        let all = caps::read(None, CapSet::Bounding)?;
        all.difference(&kept).try_for_each(|other| caps::drop(None, CapSet::Bounding, *other))
    } else {
        Ok(())
    };
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    if for_children {
        caps::set(None, CapSet::Inheritable, &kept)?;
        caps::set(None, CapSet::Ambient, &kept)?;
    }
    bounding
}

/// What agents keep and give up here, in words. None: this kernel has no filters of system calls.
pub(crate) fn in_words() -> Option<String> {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    actions.split_whitespace().find(|action| *action == "errno")?;
    let names: Vec<String> = Duty::InterfacesAndReaders.keeps().iter().map(Capability::to_string).collect();
    Some(format!(
        "agents keep {}; no_new_privs; {} system calls refused",
        names.join(", "),
        Duty::InterfacesAndReaders.refuses().len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seccomp_filter_can_be_made_for_each_duty_and_refuses_no_call_twice() {
        for duty in [
            Duty::Interfaces,
            Duty::InterfacesAndReaders,
            Duty::Sockets,
            Duty::Ports,
            Duty::Pages,
            Duty::Files,
        ] {
            let refused = duty.refuses();
            let different: std::collections::BTreeSet<_> = refused.iter().collect();
            assert_eq!(different.len(), refused.len(), "{duty:?}");
            assert!(filter(&refused).is_some_and(|program| program.len() < 4096), "{duty:?}");
        }
        assert!(!Duty::Interfaces.refuses().contains(&libc::SYS_execve), "`ip` and `tc` make clocks");
        assert!(Duty::Ports.refuses().contains(&libc::SYS_bpf));
        let accepts = |duty: Duty| !duty.refuses().contains(&libc::SYS_accept4);
        assert!(accepts(Duty::InterfacesAndReaders) && !accepts(Duty::Interfaces));
        assert!(accepts(Duty::Pages) && Duty::Pages.refuses().contains(&libc::SYS_bpf));
        assert!(Duty::InterfacesAndReaders.refuses().contains(&libc::SYS_listen));
    }
}
