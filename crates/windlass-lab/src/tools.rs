//! Programs of others that the hosts run.

use anyhow::{Result, bail};
use std::{env, ffi::OsString};

/// Where Debian keeps servers and network tools. A shell of root by a plain `su` does not look there.
const SBIN: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// The folders in which a host's programs are looked for, as in PATH.
pub(crate) fn path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":");
    path.push(SBIN);
    path
}

/// Refuses to go on without a program; `package` is what Debian has it in.
pub fn check(program: &str, package: &str) -> Result<()> {
    if !env::split_paths(&path()).any(|folder| folder.join(program).is_file()) {
        bail!("{program} is not installed (Debian: apt-get install {package})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        check("sh", "dash").expect("sh is everywhere");
        let e = check("windlass-none", "none-light").unwrap_err().to_string();
        assert!(e.contains("windlass-none") && e.contains("apt-get install none-light"), "{e}");
    }
}
