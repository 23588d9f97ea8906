//! Small files under /run that say of what is pinned what the kernel does not know: which build it is of, the names of groups.

use crate::{Result, error::io_error};
use std::{fs, path::Path};

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

/// Which build it was; none: nobody knows.
pub(crate) fn read_record(record: &Path) -> Option<u64> {
    fs::read_to_string(record).ok()?.trim().parse().ok()
}
