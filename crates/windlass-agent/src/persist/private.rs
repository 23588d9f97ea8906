//! Folders and files that belong to root alone: no other user of this machine can read, change, replace or lock them.
//!
//! The mode is given when they are made, so that there is no moment at which others could open them, and whatever the umask is.
//! What is there already is checked through its open descriptor: the owner is root (or this process' user), it is a real folder or
//! a regular file and no symbolic link, and group and others have no access. Older versions left folders of mode 0755 and files of
//! 0644: these are tightened. Anything of another user is refused.

use crate::{
    Error, Result,
    error::io_error,
    persist::lock::{Lock, PATIENCE},
};
use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{self, ErrorKind, Read},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use windlass_scenario::printable_path;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// All permissions of group and others.
const OF_OTHERS: u32 = 0o077;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// Much longer than any note that is kept of pins: names of 256 rules, of 256 groups.
const NOTE_MOST_BYTES: u64 = 1 << 20;

/// The user of this process.
pub(crate) fn own_uid() -> u32 {
    // SAFETY: plain call without arguments.
    unsafe { libc::geteuid() }
}

/// Is this user root, or the one that this process runs as?
pub(crate) fn is_ours(uid: u32) -> bool {
    uid == 0 || uid == own_uid()
}

/// Makes the folder with mode 0700, or checks and tightens the one that is there.
///
/// # Errors
/// [`Error::NotOurs`]: it is another user's, or another user may replace it.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        check_parent(parent)?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Err(why) if why.kind() != ErrorKind::AlreadyExists => Err(no_access(path, why)),
        _ => open_folder(path).map(drop),
    }
}

/// Checks and tightens the folder if it is there.
///
/// # Errors
/// As of [`make_folder`].
pub(crate) fn check_folder(path: &Path) -> Result<()> {
    match open_folder(path) {
        Err(Error::Io { why, .. }) if why.kind() == ErrorKind::NotFound => Ok(()),
        Err(why) => Err(why),
        Ok(_) => path.parent().map_or(Ok(()), check_parent),
    }
}

/// Opens the folder, checked and tightened.
pub(crate) fn open_folder(path: &Path) -> Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let folder = folder.map_err(|why| match why.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) => not_ours(path, "is no folder".into()),
        _ => no_access(path, why),
    })?;
    tighten(&folder, path, FOLDER_MODE)?;
    Ok(folder)
}

/// Why the folder cannot be made or opened, and what root must do where this process is another user's.
fn no_access(path: &Path, why: io::Error) -> Error {
    let user = own_uid();
    if user == 0 || why.kind() != ErrorKind::PermissionDenied {
        return io_error(path)(why);
    }
    let is_hidden = fs::symlink_metadata(path).is_err_and(|why| why.kind() == ErrorKind::PermissionDenied);
    let cure = match path.parent().filter(|_| is_hidden) {
        Some(parent) => format!("chmod 711 {}", printable_path(parent)),
        None => format!("install -d -m 700 -o {user} {}", printable_path(path)),
    };
    Error::NoAccess { path: path.into(), user, cure }
}

/// A folder in which others may remove or rename what is ours is no place for it.
fn check_parent(parent: &Path) -> Result<()> {
    let found = fs::metadata(parent).map_err(io_error(parent))?;
    check_owner(&found, parent)?;
    let mode = found.mode();
    if mode & WRITABLE_BY_OTHERS != 0 && mode & STICKY == 0 {
        let cure = format!("`chmod go-w {}`", printable_path(parent));
        let what = format!("can be changed by other users (mode {:04o})", mode & 0o7777);
        return Err(Error::NotOurs { path: parent.into(), what, cure });
    }
    Ok(())
}

fn check_owner(found: &Metadata, path: &Path) -> Result<()> {
    if is_ours(found.uid()) {
        return Ok(());
    }
    Err(not_ours(path, format!("belongs to user {} (mode {:04o})", found.uid(), found.mode() & 0o7777)))
}

fn not_ours(path: &Path, what: String) -> Error {
    let cure = format!("see what it is, then `rm -r {}`", printable_path(path));
    Error::NotOurs { path: path.into(), what, cure }
}

/// Gives what is ours this mode. Returns whether others had access before.
fn tighten(file: &File, path: &Path, mode: u32) -> Result<bool> {
    let found = file.metadata().map_err(io_error(path))?;
    check_owner(&found, path)?;
    if found.mode() & 0o777 != mode {
        file.set_permissions(Permissions::from_mode(mode)).map_err(io_error(path))?;
    }
    Ok(found.mode() & OF_OTHERS != 0)
}

/// Neither a symbolic link is followed nor a FIFO waited for.
pub(crate) const CAREFULLY: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// Opens a file to read, write and lock it, and makes it with mode 0600 if it is not there. Also returns whether other users may
/// have it open, as an older version made it: then they may hold its lock, and [`renew`] is due. Its mode stays until then, so that
/// every process sees that.
pub(crate) fn open(path: &Path) -> Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).custom_flags(CAREFULLY);
    let file = options.open(path).map_err(|why| match why.raw_os_error() {
        Some(libc::ELOOP) => not_ours(path, "is a symbolic link".into()),
        _ => io_error(path)(why),
    })?;
    let found = file.metadata().map_err(io_error(path))?;
    check_owner(&found, path)?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(not_ours(path, "is no file of its own (a link, a pipe or a device)".into()));
    }
    if found.mode() & 0o700 != FILE_MODE {
        // by a umask that takes permissions from the owner, too
        file.set_permissions(Permissions::from_mode(FILE_MODE)).map_err(io_error(path))?;
    }
    Ok((file, found.mode() & OF_OTHERS != 0))
}

/// Makes a new file, in the place of one that may have been left there.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).custom_flags(CAREFULLY).open(path)
}

/// What is noted in a file of ours, which is tightened.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(CAREFULLY).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || !is_ours(found.uid()) {
        return Err(ErrorKind::PermissionDenied.into());
    }
    if found.mode() & OF_OTHERS != 0 {
        // /run may be read-only: what it holds is root's all the same
        let _ = file.set_permissions(Permissions::from_mode(FILE_MODE));
    }
    let mut text = String::new();
    file.take(NOTE_MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Is it this file that the path names now?
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(now)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (open.dev(), open.ino()) == (now.dev(), now.ino())
}

/// Puts a new file in the place of `old`, which other users may have open, and may have locked, since an older version let them.
/// Processes that then lock the path agree on the new one: [`Lock`] looks whether its path still names what it has locked.
pub(crate) fn renew(path: &Path, old: &File) -> Result<()> {
    // or two processes would each put a file of its own there, and both would have the lock
    let guard = path.with_file_name("renew.lock");
    // no older version has made it
    open(&guard).and_then(|(file, _)| tighten(&file, &guard, FILE_MODE))?;
    let _one_at_a_time = Lock::take_within(&guard, PATIENCE)?;
    if !is_at(old, path) {
        return Ok(());
    }
    let new = draft_of(path);
    create(&new).and_then(|_| fs::rename(&new, path)).map_err(io_error(path))
}

/// Name of a file that is to take the place of this one. No interface has a colon in its name.
pub(crate) fn draft_of(path: &Path) -> PathBuf {
    let mut draft = path.as_os_str().to_os_string();
    draft.push(":new");
    draft.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folders_and_files_are_made_private_and_older_versions_folders_are_tightened() {
        let folder = tempfile::tempdir().unwrap();
        let ours = folder.path().join("ours");
        make_folder(&ours).unwrap();
        let file = ours.join("note");
        open(&file).unwrap();
        assert_eq!((mode(&ours), mode(&file)), (0o700, 0o600));
        chmod(&ours, 0o755);
        chmod(&file, 0o644);
        make_folder(&ours).unwrap();
        assert!(open(&file).unwrap().1, "others may have it open");
        assert_eq!(read(&file).unwrap(), "");
        assert_eq!((mode(&ours), mode(&file)), (0o700, 0o600));
        assert!(!open(&file).unwrap().1);
    }

    #[test]
    fn symbolic_links_and_pipes_are_no_files_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let [target, link, pipe] = ["target", "link", "pipe"].map(|name| folder.path().join(name));
        fs::write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        let path = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the path ends with NUL and lives for the call.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        for other in [&link, &pipe] {
            assert!(matches!(open(other), Err(Error::NotOurs { .. })), "{other:?}");
            assert!(read(other).is_err(), "{other:?}");
        }
        assert!(matches!(make_folder(&link), Err(Error::NotOurs { .. })));
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
    }

    #[test]
    fn a_folder_where_others_may_rename_what_is_ours_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let ours = folder.path().join("ours");
        chmod(folder.path(), 0o777);
        let why = make_folder(&ours).unwrap_err().to_string();
        assert!(why.contains("mode 0777") && why.contains("chmod go-w"), "{why}");
        chmod(folder.path(), 0o1777);
        make_folder(&ours).unwrap();
    }

    #[test]
    fn a_strangers_folder_or_file_is_refused_with_its_owner_its_mode_and_the_cure() {
        if own_uid() != 0 {
            println!(
                "skipped: a_strangers_folder_or_file_is_refused_with_its_owner_its_mode_and_the_cure: needs root"
            );
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let [theirs, file] = ["folder", "file"].map(|name| folder.path().join(name));
        fs::create_dir(&theirs).unwrap();
        fs::write(&file, "7").unwrap();
        for path in [&theirs, &file] {
            chown(path, Some(65534), None).unwrap();
            chmod(path, 0o755);
        }
        for why in
            [make_folder(&theirs).unwrap_err(), check_folder(&theirs).unwrap_err(), open(&file).unwrap_err()]
        {
            let why = why.to_string();
            assert!(["user 65534", "mode 0755", "rm -r /"].iter().all(|part| why.contains(part)), "{why}");
        }
        assert!(read(&file).is_err());
    }
}
