//! Small files under /run that hold of what is pinned what the kernel does not know: which build it is of, or whose
//! state, the names of groups.

use crate::{
    Result,
    error::io_error,
    persist::private::{self, draft_of},
};
use std::{
    fs,
    io::{self, Write},
    path::Path,
};

/// Notes what identifies something that is pinned: a build, or what its state looks like.
pub(crate) fn write_record(record: &Path, id: u64) -> Result<()> {
    write_text(record, &id.to_string())
}

/// Writes a file and the folder it stands in, both root's alone, or, where the disk is full, leaves what was there.
pub(crate) fn write_text(file: &Path, text: &str) -> Result<()> {
    if let Some(parent) = file.parent() {
        private::make_folder(parent)?;
    }
    let draft = draft_of(file);
    let written = private::create(&draft).and_then(|mut new| new.write_all(text.as_bytes()));
    written.and_then(|()| fs::rename(&draft, file)).map_err(|why| {
        // if it is there at all
        let _ = fs::remove_file(&draft);
        io_error(file)(why)
    })
}

/// Removes what there may be of pins that went without it. Before anything is pinned anew: a process that is killed
/// meanwhile would leave a part, and a record that it is whole.
pub(crate) fn remove_stale(record: &Path) -> Result<()> {
    match fs::remove_file(record) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(io_error(record)(why)),
        _ => Ok(()),
    }
}

/// The same before pins are removed, and for the same reason; but where it cannot be, as under a /run that is read-only, that is no
/// reason for them to stay.
pub(crate) fn remove_first(record: &Path) {
    let _ = fs::remove_file(record);
}

/// What was noted; none: it is not known.
pub(crate) fn read_record(record: &Path) -> Option<u64> {
    private::read(record).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_removed_is_reported_and_one_that_is_not_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("record");
        write_record(&record, 7).unwrap();
        remove_stale(&record).unwrap();
        assert_eq!(read_record(&record), None);
        remove_stale(&record).unwrap();
        assert!(remove_stale(folder.path()).is_err());
    }

    #[test]
    fn a_file_is_never_written_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let [file, earlier] = ["file", "earlier"].map(|name| folder.path().join(name));
        write_text(&file, "one").unwrap();
        fs::hard_link(&file, &earlier).unwrap();
        write_text(&file, "another").unwrap();
        let read = |file| fs::read_to_string(file).unwrap();
        assert_eq!((read(&file), read(&earlier)), ("another".into(), "one".into()));
        // what cannot be written leaves nothing but what was there
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(write_text(&folder.path().join("folder"), "text").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
