//! docs/own-algorithm.md, done as it is written: its files and its commands, which are taken from the page itself, in a copy of the
//! tree. So the page is all that an algorithm of one's own takes.

#[path = "../../bpf/compile.rs"]
#[expect(dead_code, reason = "build scripts compile more than one")]
mod bpf;
mod page;
#[path = "../../bpf/state/state.rs"]
mod state;

use page::Page;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;
use windlass_tests::{is_root_or_skip, windlass_path};

/// The workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Status of copy.sh where this machine lets it make no copy.
const NO_COPY: i32 = 77;

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("room for the core");
    for entry in fs::read_dir(from).expect("a folder").map(|e| e.expect("its entry")) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("room for the core");
        }
    }
}

/// The C sources, with what the page adds.
fn sources() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for sources in ["bpf", "core"] {
        copy(&Path::new(ROOT).join(sources), &folder.path().join(sources));
    }
    Page::read(ROOT.as_ref()).write_files(ROOT.as_ref(), folder.path());
    folder
}

/// For this machine and for BPF, without a warning.
#[test]
fn the_pages_own_algorithm_computes_as_the_page_promises() {
    let folder = sources();
    let own = Path::new(ROOT).join("tests/own_algorithm/own.c");
    let program = folder.path().join("own");
    let compile = |compiler: &str, args: &[&str], to: &Path| {
        let warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"];
        let compiler = &mut Command::new(compiler);
        run(compiler.args(warnings).args(args).arg("-I").arg(folder.path()).arg(&own).arg("-o").arg(to));
    };
    compile("cc", &[], &program);
    run(&mut Command::new(&program));
    let headers = format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH);
    let bpf = ["-target", "bpf", "-mcpu=v3", "-O2", "-c", "-DWL_BPF", &headers];
    compile("clang-19", &bpf, &folder.path().join("own.o"));
}

#[test]
fn the_pages_own_algorithm_is_in_the_datapaths_state_and_in_the_native_home() {
    let folder = sources();
    let object = |name: &str| folder.path().join(format!("{name}.bpf.o"));
    for (name, source) in [("state", "state/state"), ("native", "native")] {
        bpf::compile_to(&object(name), folder.path(), source, &[]);
    }
    let state = state::describe(&object("state"));
    assert!(state.contains("\nstruct wl_scalable 8 bytes\n\t0 rest_bytes: u32\n"), "{state}");
    let native = fs::read(object("native")).expect("it compiled");
    let name = b"wl_scalable\0";
    assert!(native.windows(name.len()).any(|bytes| bytes == name), "no struct_ops of that name");
}

/// Does what the page says under this heading, where a copy can be made.
fn follow(test: &str, heading: &str) {
    if !is_root_or_skip(test) {
        return;
    }
    let page = Page::read(ROOT.as_ref());
    let edits = tempfile::tempdir().expect("a folder");
    page.write_files(ROOT.as_ref(), edits.path());
    let target: PathBuf = windlass_path().ancestors().nth(2).expect("target/<profile>/windlass").into();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh"])
        .arg(Path::new(ROOT).join("tests/own_algorithm/copy.sh"))
        .args([fs::canonicalize(ROOT).expect("the workspace"), target, edits.path().into()])
        .arg(page.commands(heading))
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .expect("util-linux");
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if output.status.code() == Some(NO_COPY) {
        println!("skipped: {test}: no copy of the tree: {}", text[1].trim());
        return;
    }
    assert!(output.status.success(), "{}\n{}{}", output.status, text[0], text[1]);
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn the_pages_commands_run_its_own_algorithm_simulated_boxed_and_native() {
    follow("the_pages_commands_run_its_own_algorithm_simulated_boxed_and_native", "In all homes");
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn the_pages_commands_test_its_own_algorithm() {
    follow("the_pages_commands_test_its_own_algorithm", "Its tests");
}
