//! Gives the program its version (`windlass --version`), which comes from git: packaging/version.sh. A build that sets
//! WINDLASS_VERSION has that one.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=WINDLASS_VERSION");
    let version = env::var("WINDLASS_VERSION").ok().or_else(of_tree);
    let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").into());
    println!("cargo:rustc-env=WINDLASS_VERSION={version}");
}

/// None: there is no shell, or only the crate is here.
fn of_tree() -> Option<String> {
    let script = "../../packaging/version.sh";
    println!("cargo:rerun-if-changed={script}");
    watch_commits();
    output(Command::new("sh").arg(script))
}

/// Has this run again after another commit or checkout, which git notes in a log.
fn watch_commits() {
    for file in ["logs/HEAD", "HEAD"] {
        let path = output(Command::new("git").args(["rev-parse", "--git-path", file]));
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
            return;
        }
    }
}

fn output(command: &mut Command) -> Option<String> {
    let out = command.output().ok().filter(|out| out.status.success())?;
    let text = String::from_utf8(out.stdout).ok()?.trim().to_string();
    (!text.is_empty()).then_some(text)
}
