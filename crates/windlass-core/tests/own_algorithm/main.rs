//! The algorithm of docs/own-algorithm.md, with the core as it is: what a newcomer copies from there compiles for this
//! machine and for BPF without a warning, and does what the page says.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The blocks of C of the page: the algorithm's file, and its two lines of the list.
fn blocks(root: &Path) -> Vec<String> {
    let page = fs::read_to_string(root.join("docs/own-algorithm.md")).expect("the page");
    page.split("```c\n")
        .skip(1)
        .map(|block| block.split("```").next().expect("a block").to_string())
        .collect()
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

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
}

#[test]
fn the_algorithm_of_the_page_is_one() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("own-algorithm");
    let blocks = blocks(&root);
    let [file, lines] = blocks.as_slice() else { panic!("two blocks of C, not {}", blocks.len()) };
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("of a run before");
    }
    copy(&root.join("core"), &folder.join("core"));
    fs::write(folder.join("core/alg/scalable.h"), file).expect("room for the algorithm");
    let list = folder.join("core/alg/list.h");
    let (include, entry) = lines.split_once('\n').expect("two lines");
    let text = fs::read_to_string(&list).expect("the list");
    let text = text.replace("#include \"trim.h\"", &format!("{include}\n#include \"trim.h\""));
    let text = text.replace(
        "#define WL_ALG_LIST(X) \\\n",
        &format!("#define WL_ALG_LIST(X) \\\n{} \\\n", entry.trim_end()),
    );
    fs::write(&list, text).expect("room for the list");

    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/own_algorithm/own.c");
    let program = folder.join("own");
    let compile = |compiler: &str, args: &[&str], to: &Path| {
        let warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"];
        run(Command::new(compiler)
            .args(warnings)
            .args(args)
            .arg("-I")
            .arg(&folder)
            .arg(&own)
            .arg("-o")
            .arg(to));
    };
    compile("cc", &[], &program);
    run(&mut Command::new(&program));
    let headers = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let bpf = ["-target", "bpf", "-mcpu=v3", "-O2", "-c", "-DWL_BPF", &headers];
    compile("clang-19", &bpf, &folder.join("own.o"));
}
