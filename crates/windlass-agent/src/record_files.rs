//! Records of flows in files: JSON, one record a line, in files of bounded size.
//!
//! - `records.jsonl`: the newest
//! - `records.1.jsonl`: the one before, and so on; the oldest is removed

use serde::Serialize;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Files that all records are divided among.
pub const FILES: u64 = 8;

/// The newest file.
pub fn newest(folder: &Path) -> PathBuf {
    folder.join("records.jsonl")
}

fn older(folder: &Path, age: u64) -> PathBuf {
    match age {
        0 => newest(folder),
        age => folder.join(format!("records.{age}.jsonl")),
    }
}

/// All files that are there, oldest first.
pub fn all(folder: &Path) -> Vec<PathBuf> {
    (0..FILES).rev().map(|age| older(folder, age)).filter(|file| file.exists()).collect()
}

/// Writes records to files.
#[derive(Debug)]
pub struct RecordFiles {
    folder: PathBuf,
    file: File,
    bytes: u64,
    most_bytes: u64,
}

impl RecordFiles {
    /// Goes on with the files in `folder`, which is made if it is not there; all together have at most so many bytes, and one record.
    pub fn open(folder: &Path, most_bytes: u64) -> io::Result<RecordFiles> {
        fs::create_dir_all(folder)?;
        let mut file = append_to(&newest(folder))?;
        let mut bytes = file.metadata()?.len();
        if bytes > 0 {
            // a process that was killed, or a full disk, may have left half a line
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                bytes += 1;
            }
        }
        Ok(RecordFiles { folder: folder.into(), file, bytes, most_bytes: most_bytes / FILES })
    }

    /// Writes one record, at once.
    pub fn write(&mut self, record: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.most_bytes {
            self.begin_another()?;
        }
        self.file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn begin_another(&mut self) -> io::Result<()> {
        for age in (0..FILES - 1).rev() {
            match fs::rename(older(&self.folder, age), older(&self.folder, age + 1)) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                _ => {}
            }
        }
        self.file = append_to(&newest(&self.folder))?;
        self.bytes = 0;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(folder: &Path) -> Vec<String> {
        all(folder)
            .iter()
            .flat_map(|f| {
                fs::read_to_string(f).expect("a file").lines().map(String::from).collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn record_files_stay_within_their_size_and_keep_the_newest() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = RecordFiles::open(folder.path(), 8 * 100).expect("writable");
        for n in 0..1000u32 {
            files.write(&n).expect("writable");
        }
        let all: Vec<u32> = lines(folder.path()).iter().map(|l| l.parse().expect("a number")).collect();
        assert_eq!(all.last(), Some(&999));
        assert!(all.windows(2).all(|two| two[1] == two[0] + 1), "in order and without a gap: {all:?}");
        let bytes: u64 =
            super::all(folder.path()).iter().map(|f| fs::metadata(f).expect("a file").len()).sum();
        assert!(bytes <= 800 && bytes > 600, "{bytes}");
    }

    #[test]
    fn record_files_go_on_behind_half_a_line() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(newest(folder.path()), "1\n2").expect("writable");
        RecordFiles::open(folder.path(), 1 << 20).expect("writable").write(&3).expect("writable");
        assert_eq!(lines(folder.path()), ["1", "2", "3"]);
    }
}
