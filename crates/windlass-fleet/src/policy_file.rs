//! The agent's policy file, in whose place a node puts what its fleet has for it.

use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// What was in the policy's place before the fleet came is kept beside it, under its name and this.
const BEFORE: &str = ".before-fleet";
/// A draft, which is renamed into the policy's place: the agent must never read half of it.
const DRAFT: &str = ".fleet-draft";
/// Of a file that was not there before: an agent of another user reads it.
const MODE: u32 = 0o644;
/// For all users.
const READABLE: u32 = 0o004;
const OF_ANOTHER_USER: &str = "it is another user's, whose agent could not read one of this process' user: run the node as that user, \
    or let all users read the file";

/// SHA-256 of a text in hexadecimal digits, as `sha256sum` prints it.
pub fn hash(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

/// A policy's file.
#[derive(Debug)]
pub struct PolicyFile {
    path: PathBuf,
}

impl PolicyFile {
    /// There, or not yet.
    pub fn new(path: &Path) -> PolicyFile {
        PolicyFile { path: path.into() }
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(end);
        name.into()
    }

    /// What is in it, by its SHA-256. None: it is not there.
    pub fn hash(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(Some(hash(&text))),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Puts this text into its place, in one step. What was there before the fleet's first policy is kept.
    pub fn put(&self, text: &str) -> io::Result<()> {
        let before = self.beside(BEFORE);
        let is_there = self.path.exists();
        if is_there && !before.exists() {
            self.put_at(&before, &fs::read_to_string(&self.path)?)?;
        }
        self.put_at(&self.path, text)
    }

    /// Puts back what was there before the fleet's first policy; returns whether there was something.
    pub fn put_back(&self) -> io::Result<bool> {
        match fs::rename(self.beside(BEFORE), &self.path) {
            Ok(()) => self.sync_folder().map(|()| true),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(why) => Err(why),
        }
    }

    fn put_at(&self, place: &Path, text: &str) -> io::Result<()> {
        let draft = self.beside(DRAFT);
        // of an earlier process that was killed
        let _ = fs::remove_file(&draft);
        let found = fs::metadata(&self.path).ok();
        let mode = found.as_ref().map_or(MODE, |found| found.permissions().mode() & 0o7777);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
        // the new file is this process' user's
        if found.is_some_and(|found| file.metadata().is_ok_and(|own| own.uid() != found.uid()))
            && mode & READABLE == 0
        {
            fs::remove_file(&draft)?;
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, OF_ANOTHER_USER));
        }
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&draft, place)?;
        self.sync_folder()
    }

    /// A power cut must not bring back the older one.
    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_put_in_one_step_and_what_was_there_first_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        let file = PolicyFile::new(&path);
        let read = || fs::read_to_string(&path).unwrap();
        assert_eq!(file.hash().unwrap(), None);
        fs::write(&path, "own").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        fs::write(file.beside(DRAFT), "of a process that was killed").unwrap();
        file.put("one").unwrap();
        file.put("two").unwrap();
        assert_eq!(read(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(file.hash().unwrap().as_deref(), Some(hash("two").as_str()));
        assert!(file.put_back().unwrap());
        assert_eq!(read(), "own");
        assert!(!file.put_back().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    /// Only root can make such a file.
    #[test]
    fn a_policy_that_its_user_could_not_read_any_more_is_not_put() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        fs::write(&path, "own").unwrap();
        if std::os::unix::fs::chown(&path, Some(1), None).is_err() {
            println!("skipped: a_policy_that_its_user_could_not_read_any_more_is_not_put: needs root");
            return;
        }
        let file = PolicyFile::new(&path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(file.put("new").unwrap_err().to_string().contains("another user's"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        file.put("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn a_hash_is_as_sha256sum_prints_it() {
        assert_eq!(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
