//! Where the kernel keeps what is pinned: under bpffs, a folder for each network namespace and in it one for each interface.

use crate::{
    Error, Result,
    error::io_error,
    netdev,
    persist::private::{self, own_uid},
};
use std::{
    ffi::CString,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

const BPFFS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// Folder of everything that is pinned.
pub(crate) fn root() -> PathBuf {
    Path::new(BPFFS).join("windlass")
}

/// Is bpffs mounted where it belongs?
pub(crate) fn has_bpffs() -> bool {
    let path = CString::new(BPFFS).expect("no NUL");
    // SAFETY: an all-zero statfs is valid; both pointers are live for the call.
    unsafe {
        let mut fs: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &mut fs) == 0 && fs.f_type as i64 == BPF_FS_MAGIC
    }
}

/// Mounts bpffs, for root alone, if it is not mounted.
pub fn mount_bpffs() -> Result<()> {
    if has_bpffs() {
        return Ok(());
    }
    let path = CString::new(BPFFS).expect("no NUL");
    let source = CString::new(own_source()).expect("no NUL");
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: all strings end with NUL and live for the call.
    let done = unsafe {
        libc::mount(source.as_ptr(), path.as_ptr(), c"bpf".as_ptr(), flags, c"mode=0700".as_ptr().cast())
    };
    match io::Error::last_os_error() {
        _ if done == 0 => Ok(()),
        why if why.kind() == io::ErrorKind::PermissionDenied && own_uid() != 0 => Err(Error::NoAccess {
            path: BPFFS.into(),
            user: own_uid(),
            cure: format!("mount -t bpf -o mode=711 bpf {BPFFS}"),
        }),
        why => Err(io_error(Path::new(BPFFS))(why)),
    }
}

/// Makes a folder of pins and those above it, root's alone, or checks and tightens those that are there. bpffs may be another
/// mount's, in which any user can make folders.
pub(crate) fn make_dir(dir: &Path) -> Result<()> {
    let root = root();
    let below = dir.strip_prefix(&root).expect("a folder of pins");
    let mut at = root.clone();
    private::make_folder(&at)?;
    below.iter().try_for_each(|part| {
        at.push(part);
        private::make_folder(&at)
    })
}

/// What a bpffs is called that is mounted from here: whichever process sees it finds in which mounts that was.
fn own_source() -> String {
    let mounts = fs::metadata("/proc/self/ns/mnt").map_or(0, |m| m.ino());
    format!("windlass:{mounts}")
}

/// PROC_PID_INIT_INO of the kernel: the inode of the namespace in which processes of no container are.
const FIRST_PID_NAMESPACE: u64 = 0xeffffffc;

/// Is bpffs gone with the container in which this process runs? So it is if it was mounted in there, and not where others see it.
fn ends_with_container() -> bool {
    let is_contained = fs::metadata("/proc/self/ns/pid").is_ok_and(|m| m.ino() != FIRST_PID_NAMESPACE);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    is_contained && is_mounted_only_here(&mounts, &own_source())
}

/// Was the bpffs of these mounts (proc_pid_mountinfo(5)) mounted under that name, and is no change of the mount passed on to others?
fn is_mounted_only_here(mounts: &str, source: &str) -> bool {
    let of_bpffs = |line: &&str| line.split(' ').nth(4) == Some(BPFFS);
    // the last one covers the others
    let Some((mount, filesystem)) = mounts.lines().rfind(of_bpffs).and_then(|line| line.split_once(" - "))
    else {
        return false;
    };
    filesystem.split(' ').nth(1) == Some(source) && !mount.contains(" shared:")
}

/// Is what is pinned here gone with this process, with the shell that started it or with its container? So it is under
/// `ip netns exec`, which mounts a /sys of its own: an ancestor then has another bpffs.
pub fn pins_are_private() -> bool {
    ends_with_container() || is_ancestors_other()
}

/// Has an ancestor another bpffs?
fn is_ancestors_other() -> bool {
    let device = |root: &str| fs::metadata(format!("{root}{BPFFS}")).map(|m| m.dev()).ok();
    let here = device("");
    // whose mounts may not be looked at is no evidence
    ancestors()
        .into_iter()
        .filter_map(|pid| device(&format!("/proc/{pid}/root")))
        .any(|there| Some(there) != here)
}

/// Processes that this one descends from, as far as /proc shows them.
fn ancestors() -> Vec<u32> {
    let parent = |process: &str| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // the name, in brackets, may have brackets and spaces; state and parent come after it
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|pid| *pid != 0)
    };
    std::iter::successors(parent("self"), |pid| parent(&pid.to_string())).collect()
}

/// Folder of what is pinned for the interfaces of a network namespace.
pub(crate) fn namespace_dir(namespace: u64) -> PathBuf {
    root().join(namespace.to_string())
}

/// Folder of what is pinned for one interface. bpffs takes no names with dots, as VLANs' interfaces have them; and no
/// interface has a colon in its name.
pub(crate) fn iface_dir(namespace: u64, iface: &str) -> PathBuf {
    namespace_dir(namespace).join(iface.replace('.', ":"))
}

/// The interface whose folder has that name.
fn iface_of(folder: &str) -> String {
    folder.replace(':', ".")
}

/// Interfaces for which something is pinned in that namespace.
pub(crate) fn pinned_in(namespace: u64) -> Vec<String> {
    let Ok(entries) = fs::read_dir(namespace_dir(namespace)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|e| iface_of(&e.file_name().to_string_lossy())).collect();
    names.sort();
    names
}

/// Is nothing pinned for any interface of that namespace?
pub(crate) fn has_none(namespace: u64) -> bool {
    pinned_in(namespace).is_empty()
}

/// Interfaces of this namespace with a pinned datapath.
pub fn pinned_here() -> Vec<String> {
    pinned_in(netdev::namespace_inode())
}

/// Removes a folder of pins and of such folders. Another process may be at it, too: what is gone is gone.
pub(crate) fn remove_dir(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        if is_dir { remove_dir(&entry.path()) } else { remove_file(&entry.path()) }?;
    }
    unless_gone(dir, fs::remove_dir(dir))
}

/// Removes a pin, unless another process has.
pub(crate) fn remove_file(pin: &Path) -> Result<()> {
    unless_gone(pin, fs::remove_file(pin))
}

fn unless_gone(path: &Path, removed: io::Result<()>) -> Result<()> {
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(io_error(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bpffs_ends_with_the_container_in_which_it_was_mounted() {
        let mount = |optional: &str, source: &str| {
            format!(
                "22 1 0:39 / /sys/fs/bpf rw - bpf bpf rw\n\
                 47 23 0:40 / /sys/fs/bpf rw,nosuid{optional} - bpf {source} rw,mode=700\n48 23 0:41 / /run rw - tmpfs tmpfs rw\n"
            )
        };
        let is_only_here = |mounts: &str| is_mounted_only_here(mounts, "windlass:7");
        assert!(is_only_here(&mount("", "windlass:7")));
        assert!(is_only_here(&mount(" master:3", "windlass:7")));
        // passed on to the host, mounted there, or not at all
        assert!(!is_only_here(&mount(" shared:12", "windlass:7")));
        assert!(!is_only_here(&mount("", "windlass:8")) && !is_only_here(&mount("", "bpf")));
        assert!(!is_only_here(""));
    }

    #[test]
    fn folders_of_interfaces_have_no_dots_and_name_them_all_the_same() {
        for iface in ["tap0", "eth0.100", "br-1.2.3"] {
            let dir = iface_dir(7, iface);
            let folder = dir.file_name().unwrap().to_str().unwrap();
            assert!(!folder.contains('.'), "{folder}");
            assert_eq!(iface_of(folder), iface);
        }
    }
}
