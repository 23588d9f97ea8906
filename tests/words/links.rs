//! Links of the pages, and the paths that pages and comments name: all lead somewhere.

use super::{quoted, root, sources};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Folders whose files pages name by their path from the repository's root.
const FOLDERS: [&str; 11] = [
    "core",
    "bpf",
    "crates",
    "tests",
    "fuzz",
    "docs",
    "benches",
    "experiments",
    "scenarios",
    "policies",
    "packaging",
];

/// A file that docs/own-algorithm.md has its reader make.
const READERS_OWN: &str = "core/alg/scalable.h";

fn pages(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("the entry can be read").path();
        let name = path.file_name().expect("an entry has a name");
        if path.is_dir() && name != "target" && name != ".git" {
            pages(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "md") {
            found.push(path);
        }
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it can be read")
}

fn is_path(name: &str) -> bool {
    name.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder))
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_'))
}

/// What a link names to lead to this heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

/// The anchors of a page: its headings outside of blocks of code.
fn anchors(page: &str) -> Vec<String> {
    let prose = page.split("```").step_by(2);
    let headings = prose.flat_map(str::lines).filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// The targets of the links of a page that stay in the repository.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains("://") && !target.contains(' '))
}

#[test]
fn words_of_pages_link_to_what_exists() {
    let mut found = Vec::new();
    pages(root(), &mut found);
    let mut missing = String::new();
    for page in &found {
        let content = text(page);
        let name = page.strip_prefix(root()).expect("the page lies in the repository").display();
        for link in links(&content) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let file = match file {
                "" => page.clone(),
                file => page.parent().expect("a page lies in a directory").join(file),
            };
            let is_there =
                file.exists() && (heading.is_empty() || anchors(&text(&file)).iter().any(|a| a == heading));
            if !is_there {
                writeln!(missing, "{name}: ({link})").expect("a string has room");
            }
        }
        for path in quoted(&content).filter(|path| is_path(path) && *path != READERS_OWN) {
            let beside = page.parent().expect("a page lies in a directory").join(path);
            if !root().join(path).exists() && !beside.exists() {
                writeln!(missing, "{name}: `{path}`").expect("a string has room");
            }
        }
    }
    assert!(found.len() > 20, "{} pages", found.len());
    assert!(missing.is_empty(), "pages name what is not there:\n{missing}");
}

#[test]
fn words_of_comments_name_files_that_exist() {
    let mut files = Vec::new();
    for tree in super::TREES {
        sources(&root().join(tree), &mut files);
    }
    let mut missing = String::new();
    for file in &files {
        let content = text(file);
        for line in content.lines().filter(|line| !line.starts_with("#include <")) {
            let names = line.split(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '.' | '-' | '_'));
            for name in names {
                // NAME stands for any
                let is_file = (name.starts_with("core/") || name.starts_with("bpf/"))
                    && [".h", ".c", ".rs"].iter().any(|ending| name.ends_with(ending));
                if is_file && name != READERS_OWN && !name.contains("NAME") && !root().join(name).exists() {
                    let file = file.strip_prefix(root()).expect("the file lies in the repository").display();
                    writeln!(missing, "{file}: {name}").expect("a string has room");
                }
            }
        }
    }
    assert!(missing.is_empty(), "sources name files that are not there:\n{missing}");
}
