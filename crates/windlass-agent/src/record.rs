//! Small files under /run that say of what is pinned what the kernel does not know: which build it is of, the names of groups.

use crate::{Result, error::io_error};
use std::{fs, io, path::Path};

/// Notes which build pinned something.
pub(crate) fn write_record(record: &Path, build: u64) -> Result<()> {
    write_text(record, &build.to_string())
}

/// Writes a file and the folder it stands in.
pub(crate) fn write_text(file: &Path, text: &str) -> Result<()> {
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).map_err(io_error(parent))?;
    }
    fs::write(file, text).map_err(io_error(file))
}

/// Removes what there may be of pins that went without it. Before anything is pinned anew: who is killed meanwhile would
/// leave a part, and a record that says it is whole.
pub(crate) fn remove_stale(record: &Path) -> Result<()> {
    match fs::remove_file(record) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(io_error(record)(why)),
        _ => Ok(()),
    }
}

/// Which build it was; none: nobody knows.
pub(crate) fn read_record(record: &Path) -> Option<u64> {
    fs::read_to_string(record).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_removed_is_told_and_one_that_is_not_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("record");
        write_record(&record, 7).unwrap();
        remove_stale(&record).unwrap();
        assert_eq!(read_record(&record), None);
        remove_stale(&record).unwrap();
        assert!(remove_stale(folder.path()).is_err());
    }
}
