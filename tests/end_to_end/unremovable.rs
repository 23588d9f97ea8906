//! What cannot be removed, as if the process that removes what is around it had been killed there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A folder that something is mounted on, until it is dropped.
pub struct Unremovable(PathBuf);

impl Unremovable {
    pub fn in_folder(folder: &Path) -> Unremovable {
        let path = folder.join("unremovable");
        fs::create_dir(&path).expect("a folder of pins");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&path).status();
        assert!(mounted.expect("mount").success(), "{}", path.display());
        Unremovable(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Unremovable {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
        let _ = fs::remove_dir(&self.0);
    }
}
