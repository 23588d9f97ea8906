//! Files that people write: policies, scenarios, experiments. What is none is refused at once, where reading it would wait
//! for a writer or fill the memory. A pipe with a writer, such as a shell's `<(...)`, is as good as a file.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::Path,
};

/// Far more than is ever written: 256 rules take some 100 kB.
const LONGEST_BYTES: u64 = 16 << 20;

/// The line, from 1, of a byte of a file's text; of what lies behind its end, the last one.
pub fn line_at(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// What a name is that [`is_name`] takes, as a message goes on after "allowed: ".
pub const IN_REPORTS: &str = "a name in quotes, not empty or blank, and without control characters";

/// Can reports distinguish it from others and show it on one line?
pub fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && !text.chars().any(char::is_control)
}

/// The text of a file; an error explains what is wrong with it, but not its name.
pub fn read_file(path: &Path) -> io::Result<String> {
    let refuse = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    // a pipe is opened without waiting for its other end
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_fifo() {
        let what = if kind.is_dir() { "a folder" } else { "a device" };
        return Err(refuse(format!("is {what}; name a file of TOML")));
    }
    // from now on, a writer is waited for
    // SAFETY: the descriptor is open, and the call takes no memory.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.is_empty() && kind.is_fifo() {
        return Err(refuse("is a pipe without a writer; name a file of TOML".into()));
    }
    if bytes.len() as u64 > LONGEST_BYTES {
        return Err(refuse(format!("is longer than {} MiB; name a file of TOML", LONGEST_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = line_at(&String::from_utf8_lossy(e.as_bytes()), e.utf8_error().valid_up_to());
        refuse(format!("line {line} is no UTF-8 text; save the file as UTF-8"))
    })
}
