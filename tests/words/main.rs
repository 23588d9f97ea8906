//! The words of the comments: a reader with TCP at hand must understand each sentence at first reading, so the comments keep to the
//! field's words ("reports", "receives", "the sender", "retransmitted") and not to a dialect of their own. This test counts the
//! dialect's families of words per 1000 words of comments, prints the table and every place, and fails above the bounds.

mod comments;
mod links;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Words, or runs of two words, that the field does not use of packets and programs.
struct Family {
    name: &'static str,
    phrases: &'static [&'static str],
    bound_per_1000: f64,
}

const FAMILIES: [Family; 3] = [
    Family {
        name: "say, tell, hear, ask",
        phrases: &[
            "say", "says", "said", "saying", "tell", "tells", "told", "telling", "hear", "hears", "heard",
            "hearing", "ask", "asks", "asked", "asking",
        ],
        bound_per_1000: 1.0,
    },
    Family {
        name: "who, nobody",
        phrases: &[
            "who",
            "whom",
            "whoever",
            "nobody",
            "somebody",
            "anybody",
            "everybody",
            "someone",
            "anyone",
            "everyone",
            "no one",
        ],
        bound_per_1000: 1.0,
    },
    Family {
        name: "sent again, in vain",
        phrases: &["sent again", "send again", "sends again", "sending again", "in vain", "past unseen"],
        bound_per_1000: 0.0,
    },
];

/// The directories that are held to the bounds.
const TREES: [&str; 5] = ["core", "bpf", "crates", "tests", "fuzz"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository")
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("the entry can be read").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|ext| ext == "c" || ext == "h" || ext == "rs") {
            found.push(path);
        }
    }
}

/// The lines on which one of the family's phrases begins.
fn hits(words: &[comments::Word], family: &Family) -> Vec<usize> {
    let matches = |phrase: &str, at: usize| {
        phrase.split(' ').enumerate().all(|(i, part)| words.get(at + i).is_some_and(|word| word.text == part))
    };
    (0..words.len())
        .filter(|&at| family.phrases.iter().any(|phrase| matches(phrase, at)))
        .map(|at| words[at].line)
        .collect()
}

#[test]
fn words_of_comments_are_the_fields() {
    let mut places = String::new();
    let mut table = format!("{:8}{:>8}", "tree", "words");
    for family in &FAMILIES {
        write!(table, "{:>24}", family.name).unwrap();
    }
    table.push_str("   (per 1000 words of comments)\n");
    let mut too_many = Vec::new();
    for tree in TREES {
        let mut files = Vec::new();
        sources(&root().join(tree), &mut files);
        files.sort();
        let mut word_count = 0;
        let mut counts = [0; FAMILIES.len()];
        for file in &files {
            let text = std::fs::read_to_string(file).expect("sources are UTF-8");
            let words = comments::words(&text, file.extension().is_some_and(|ext| ext == "rs"));
            word_count += words.len();
            for (family, count) in FAMILIES.iter().zip(&mut counts) {
                for line in hits(&words, family) {
                    *count += 1;
                    let path = file.strip_prefix(root()).expect("the file lies in the repository");
                    writeln!(places, "{}:{line}: {}", path.display(), family.name).unwrap();
                }
            }
        }
        write!(table, "{tree:8}{word_count:>8}").unwrap();
        for (family, count) in FAMILIES.iter().zip(counts) {
            let rate = f64::from(count) * 1000.0 / word_count as f64;
            write!(table, "{:>24}", format!("{rate:.2} ({count})")).unwrap();
            if rate > family.bound_per_1000 {
                too_many
                    .push(format!("{tree}: {}: {rate:.2}, at most {}", family.name, family.bound_per_1000));
            }
        }
        table.push('\n');
    }
    println!("{places}{table}");
    assert!(
        too_many.is_empty(),
        "comments use words that the field does not; rewrite the sentences at the places above:\n{}",
        too_many.join("\n")
    );
}

/// What stands between backticks in the text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn words_of_the_pages_about_the_code_name_what_exists() {
    let mut files = Vec::new();
    for tree in ["core", "bpf"] {
        sources(&root().join(tree), &mut files);
    }
    let code: String =
        files.iter().map(|file| std::fs::read_to_string(file).expect("sources are UTF-8")).collect();
    let mut missing = Vec::new();
    for page in ["docs/reading-the-code.md", "docs/glossary.md"] {
        let text = std::fs::read_to_string(root().join(page)).expect("the page can be read");
        for name in quoted(&text) {
            let is_there = match name.strip_suffix("()") {
                Some(function) => {
                    code.contains(&format!(" {function}(")) || code.contains(&format!("*{function}("))
                }
                None if name.contains('/') => root().join(name).exists(),
                None => true,
            };
            if !is_there {
                missing.push(format!("{page}: `{name}`"));
            }
        }
    }
    assert!(missing.is_empty(), "pages name what is not in the code:\n{}", missing.join("\n"));
}
