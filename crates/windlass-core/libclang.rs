//! Debian's libclang has a versioned name and place. Build scripts that use bindgen include this file with `#[path]`.

use std::{env, path::PathBuf};

/// Sets its path for bindgen.
pub fn find() {
    if env::var_os("LIBCLANG_PATH").is_some() {
        return;
    }
    let candidates = (15..=22).rev().flat_map(|v| {
        [
            (format!("/usr/lib/llvm-{v}/lib"), format!("libclang-{v}.so.1")),
            ("/usr/lib/x86_64-linux-gnu".to_string(), format!("libclang-{v}.so.1")),
            ("/usr/lib/aarch64-linux-gnu".to_string(), format!("libclang-{v}.so.1")),
        ]
    });
    for (dir, file) in candidates {
        let path = PathBuf::from(dir).join(file);
        if path.exists() {
            // SAFETY: a build script is single-threaded at this point.
            unsafe { env::set_var("LIBCLANG_PATH", path) };
            return;
        }
    }
}
