//! docs/own-algorithm.md: the files that it gives, and the commands under its headings.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Each file of the page is announced by its name at the end of the line before its block: `core/alg/NAME.h`:
const NAME_ENDS: &str = "`:";
const LIST: &str = "core/alg/list.h";
/// The lines of the list behind which the page puts the first and the second of its lines.
const PLACES: [&str; 2] = ["#include \"trim.h\"\n", "#define WL_ALG_LIST(X) \\\n"];

/// The page's text.
pub struct Page(String);

impl Page {
    /// That of the workspace at `root`.
    pub fn read(root: &Path) -> Page {
        Page(fs::read_to_string(root.join("docs/own-algorithm.md")).expect("the page"))
    }

    /// The algorithm's file by its name, and its two lines of the list.
    fn blocks(&self) -> (PathBuf, &str, [&str; 2]) {
        let blocks: Vec<_> = fenced(&self.0, "c").collect();
        let [(before, file), (_, include), (_, entry)] = blocks.as_slice() else {
            panic!("three blocks of C, not {}", blocks.len())
        };
        let name = before.trim_end().strip_suffix(NAME_ENDS).and_then(|text| text.rsplit('`').next());
        (name.expect("the file's name ends the line before its block").into(), file, [*include, *entry])
    }

    /// Writes into `folder`, under their names in the tree, the files that the page gives or changes in the tree at `root`.
    pub fn write_files(&self, root: &Path, folder: &Path) {
        let (name, file, lines) = self.blocks();
        let mut list = fs::read_to_string(root.join(LIST)).expect("the list");
        for (place, line) in PLACES.iter().zip(lines) {
            assert!(list.contains(place), "{LIST} has no {place:?}");
            list = list.replacen(place, &format!("{place}{line}"), 1);
        }
        fs::create_dir_all(folder.join("core/alg")).expect("a writable folder");
        fs::write(folder.join(name), file).expect("a writable folder");
        fs::write(folder.join(LIST), list).expect("a writable folder");
    }

    /// What a shell is given under this heading.
    pub fn commands(&self, heading: &str) -> String {
        let start = self.0.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no '{heading}'"));
        let section = &self.0[start + 1..];
        let section = &section[..section.find("\n## ").unwrap_or(section.len())];
        let commands: String = fenced(section, "sh").map(|(_, block)| block).collect();
        assert!(!commands.is_empty(), "no commands under '{heading}'");
        commands
    }
}

/// The blocks in this language, each with the text before it.
fn fenced<'a>(text: &'a str, language: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let fence = format!("```{language}\n");
    let starts: Vec<_> = text.match_indices(&fence).map(|(at, _)| at).collect();
    starts.into_iter().map(move |at| {
        let block = &text[at + language.len() + 4..];
        (&text[..at], block.split("```").next().expect("a block"))
    })
}
