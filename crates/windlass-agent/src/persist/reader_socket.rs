//! The sockets at which agents answer readers of this machine, such as `windlass web`: one for each agent, in the folder of its locks
//! and notes, and so out of other users' reach.

use crate::{
    Result,
    error::io_error,
    netdev,
    persist::{
        private::{self, is_ours},
        run_dir::run_dir,
    },
};
use std::{
    fs::{self, Permissions},
    io::ErrorKind,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process,
};

/// Only their owner, and root, may connect.
const MODE: u32 = 0o600;

/// A socket that waits for readers. Its name goes with it.
#[derive(Debug)]
pub struct ReaderSocket {
    /// Where they connect.
    pub listener: UnixListener,
    path: PathBuf,
}

impl ReaderSocket {
    /// One of this process, in the network namespace in which it is.
    pub fn listen() -> Result<ReaderSocket> {
        private::make_folder(run_dir())?;
        remove_stale_sockets();
        let path = run_dir().join(format!("{}{}", prefix(), process::id()));
        // of an earlier process of this number
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(io_error(&path))?;
        fs::set_permissions(&path, Permissions::from_mode(MODE)).map_err(io_error(&path))?;
        Ok(ReaderSocket { listener, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ReaderSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What the names of those of this network namespace begin with; the number of the process follows.
fn prefix() -> String {
    format!("readers-{}-", netdev::namespace_inode())
}

/// The sockets of agents of this network namespace, the newest first; some of them may have ended.
///
/// # Errors
/// This user may not look for them.
pub fn reader_sockets() -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(run_dir()) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_error(run_dir()))?,
    };
    let prefix = prefix();
    let is_of_here =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
    let mut all: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_of_here)
        .filter_map(|path| {
            let found = fs::symlink_metadata(&path).ok()?;
            (found.file_type().is_socket() && is_ours(found.uid())).then_some((found.mtime(), path))
        })
        .collect();
    all.sort();
    Ok(all.into_iter().rev().map(|(_, path)| path).collect())
}

/// Removes those of agents that were killed.
pub fn remove_stale_sockets() {
    let is_stale = |path: &PathBuf| {
        UnixStream::connect(path).is_err_and(|why| why.kind() == ErrorKind::ConnectionRefused)
    };
    for path in reader_sockets().unwrap_or_default().iter().filter(|path| is_stale(path)) {
        let _ = fs::remove_file(path);
    }
}
