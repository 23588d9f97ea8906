//! The files that servers serve: pseudo-random, the same on every machine for the same size, made once.

use crate::{
    owner::{name_of, next_run},
    stop::check_stopped,
};
use anyhow::{Context, Result, ensure};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    ffi::CString,
    fs::{self, DirBuilder, Metadata, Permissions},
    io::{self, BufWriter, ErrorKind, Read, Write},
    mem,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{Mutex, atomic::AtomicBool},
};

/// Where they are kept between runs. Not under /tmp, where others could put files of these names first.
pub fn folder() -> PathBuf {
    PathBuf::from("/var/cache/windlass-lab")
}

/// What servers need, whose workers are not root's: whatever the mask under which folder and files are made.
const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// The folder, which exists when this returns.
pub(crate) fn made_folder() -> Result<PathBuf> {
    let folder = folder();
    // whatever the umask: there is no moment at which others may write to it
    let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&folder);
    made.with_context(|| folder.display().to_string())?;
    allow(&folder, FOLDER_MODE)?;
    Ok(folder)
}

/// Gives it that mode if it has another.
fn allow(path: &Path, mode: u32) -> Result<()> {
    let has = |file: Metadata| file.permissions().mode() & 0o777;
    let change = || match fs::metadata(path).map(has)? == mode {
        true => Ok(()),
        false => fs::set_permissions(path, Permissions::from_mode(mode)),
    };
    change().with_context(|| path.display().to_string())
}

/// Name of the file with `bytes` bytes, which exists when this returns.
pub fn file_of(bytes: u64) -> Result<String> {
    file_unless(bytes, None)
}

/// The same, unless `cancel` is set before the file is there.
pub(crate) fn file_unless(bytes: u64, cancel: Option<&AtomicBool>) -> Result<String> {
    let folder = made_folder()?;
    let name = format!("{bytes}.bin");
    let path = folder.join(&name);
    if fs::metadata(&path).is_ok_and(|m| m.len() == bytes) {
        allow(&path, FILE_MODE)?;
        return Ok(name);
    }
    check_room(&folder, bytes, room_bytes(&folder)?)?;
    // written under another name first: runs in parallel may want the same file, and a killed one leaves it half made
    let draft = folder.join(name_of(next_run(), &name)?);
    let made = fill(&draft, bytes, cancel)
        .and_then(|()| allow(&draft, FILE_MODE))
        .and_then(|()| fs::rename(&draft, &path).with_context(|| path.display().to_string()));
    if made.is_err() {
        // it may not have been begun
        let _ = fs::remove_file(&draft);
    }
    made.map(|()| name)
}

/// What the disk of a folder has room for.
fn room_bytes(folder: &Path) -> Result<u64> {
    let place = || folder.display().to_string();
    let path = CString::new(folder.as_os_str().as_bytes()).with_context(place)?;
    // SAFETY: an all-zero statvfs is valid; the path ends with NUL, and both pointers are to live locals.
    let (done, disk) = unsafe {
        let mut disk: libc::statvfs = mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut disk), disk)
    };
    if done != 0 {
        return Err(io::Error::last_os_error()).with_context(place);
    }
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn check_room(folder: &Path, needed_bytes: u64, room_bytes: u64) -> Result<()> {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    ensure!(
        needed_bytes <= room_bytes,
        "{}: a file of {:.1} MB is to be served from there, and there is room for {:.1} MB: remove files, or have flows send \
         less",
        folder.display(),
        mb(needed_bytes),
        mb(room_bytes)
    );
    Ok(())
}

fn fill(path: &Path, bytes: u64, cancel: Option<&AtomicBool>) -> Result<()> {
    let place = || path.display().to_string();
    let mut out = BufWriter::new(fs::File::create(path).with_context(place)?);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(bytes);
    let mut block = [0; 65536];
    let mut left = bytes;
    while left > 0 {
        check_stopped(cancel)?;
        rng.fill_bytes(&mut block);
        let n = left.min(block.len() as u64) as usize;
        out.write_all(&block[..n]).with_context(place)?;
        left -= n as u64;
    }
    out.flush().with_context(place)
}

/// Longer than any client can fetch.
const ENDLESS_BYTES: u64 = 1 << 42;

/// Name of a file of zeros without end, which takes no room on the disk.
pub fn endless() -> Result<String> {
    let name = "endless.bin";
    let path = made_folder()?.join(name);
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    file.and_then(|f| f.set_len(ENDLESS_BYTES)).with_context(|| path.display().to_string())?;
    allow(&path, FILE_MODE)?;
    Ok(name.into())
}

/// SHA-256 and length of all that `input` gives.
pub fn digest(mut input: impl Read) -> Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        let n = match input.read(&mut block) {
            Ok(0) => break,
            Ok(n) => n,
            // by a signal that is for another process
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e.into()),
        };
        hash.update(&block[..n]);
        total += n as u64;
    }
    Ok((hash.finalize().iter().map(|b| format!("{b:02x}")).collect(), total))
}

/// SHA-256 by name, of files that were hashed before: hashing takes time from the runs beside.
static KNOWN: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// SHA-256 of a file of the folder.
pub fn digest_of(name: &str) -> Result<String> {
    digest_unless(name, None)
}

/// The same, unless `cancel` is set before it is known.
pub(crate) fn digest_unless(name: &str, cancel: Option<&AtomicBool>) -> Result<String> {
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(sum) = known.get(name) {
        return Ok(sum.clone());
    }
    let path = folder().join(name);
    let file = fs::File::open(&path).with_context(|| path.display().to_string())?;
    let (sum, _) = digest(Unless { file, cancel })?;
    known.insert(name.into(), sum.clone());
    Ok(sum)
}

/// A file that ends with an error once `cancel` is set.
struct Unless<'a> {
    file: fs::File,
    cancel: Option<&'a AtomicBool>,
}

impl Read for Unless<'_> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        check_stopped(self.cancel).map_err(io::Error::other)?;
        self.file.read(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::STOPPED;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_there_is_no_room_for_is_not_begun() {
        let folder = Path::new("/var/cache/x");
        check_room(folder, 2_000_000, 2_000_000).unwrap();
        let error = check_room(folder, 2_500_000, 2_000_000).unwrap_err().to_string();
        assert!(
            error.starts_with("/var/cache/x: a file of 2.5 MB") && error.contains("room for 2.0 MB"),
            "{error}"
        );
        assert!(room_bytes(Path::new("/proc")).unwrap() == 0 && room_bytes(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn workers_may_read_what_was_made_under_any_mask() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o600, FILE_MODE] {
            let path = folder.path().join(format!("{mode:o}"));
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            allow(&path, FILE_MODE).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, FILE_MODE);
        }
    }

    #[test]
    fn a_file_that_is_being_made_or_hashed_is_left_when_the_run_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let cancel = AtomicBool::new(false);
        fill(&path, 100_000, Some(&cancel)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 100_000);
        cancel.store(true, Ordering::Relaxed);
        let hashed = digest(Unless { file: fs::File::open(&path).unwrap(), cancel: Some(&cancel) });
        for error in [fill(&path, 100_000, Some(&cancel)).unwrap_err(), hashed.unwrap_err()] {
            assert_eq!(error.to_string(), STOPPED);
        }
        let full = fill(Path::new("/dev/full"), 100_000, None).unwrap_err().to_string();
        assert_eq!(full, "/dev/full");
    }
}
