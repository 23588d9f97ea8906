//! The files that servers serve: pseudo-random, the same on every machine for the same size, made once.

use crate::owner::{name_of, next_run};
use anyhow::{Context, Result};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufWriter, ErrorKind, Read, Write},
    path::PathBuf,
    sync::Mutex,
};

/// Where they are kept between runs. Not under /tmp, where others could put files of these names first.
pub fn folder() -> PathBuf {
    PathBuf::from("/var/cache/windlass-lab")
}

/// Name of the file with `bytes` bytes, which exists when this returns.
pub fn file_of(bytes: u64) -> Result<String> {
    let folder = folder();
    let name = format!("{bytes}.bin");
    let path = folder.join(&name);
    if fs::metadata(&path).is_ok_and(|m| m.len() == bytes) {
        return Ok(name);
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // written under another name first: runs in parallel may want the same file, and a killed one leaves it half made
    let draft = folder.join(name_of(next_run(), &name)?);
    let mut out = BufWriter::new(fs::File::create(&draft).with_context(|| draft.display().to_string())?);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(bytes);
    let mut block = [0; 65536];
    let mut left = bytes;
    while left > 0 {
        rng.fill_bytes(&mut block);
        let n = left.min(block.len() as u64) as usize;
        out.write_all(&block[..n])?;
        left -= n as u64;
    }
    out.flush()?;
    fs::rename(&draft, &path)?;
    Ok(name)
}

/// Longer than anybody can fetch.
const ENDLESS_BYTES: u64 = 1 << 42;

/// Name of a file of zeros without end, which takes no room on the disk.
pub fn endless() -> Result<String> {
    let name = "endless.bin";
    let path = folder().join(name);
    fs::create_dir_all(folder()).with_context(|| folder().display().to_string())?;
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    file.and_then(|f| f.set_len(ENDLESS_BYTES)).with_context(|| path.display().to_string())?;
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
            // by a signal that someone else is for
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
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(sum) = known.get(name) {
        return Ok(sum.clone());
    }
    let path = folder().join(name);
    let file = fs::File::open(&path).with_context(|| path.display().to_string())?;
    let (sum, _) = digest(file)?;
    known.insert(name.into(), sum.clone());
    Ok(sum)
}
