//! Commands that the documentation has in the middle of a sentence: each must be one.

use crate::args::Args;
use clap::{Parser, error::ErrorKind};
use std::{fs, path::Path};

/// What `ip link` shows of the clock's devices.
const CLOCK_ALIAS: &str = "windlass clock";

/// A text between backticks, in which no line ends.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Words as a shell has them.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c.is_whitespace() => words.push(String::new()),
            _ => words.last_mut().expect("one at least").push(c),
        }
    }
    words.retain(|word| !word.is_empty() && word != "...");
    words
}

/// Why a command is none; none: it is one, or would be one with values in the place of FILE and the like.
fn mistake(command: &str) -> Option<String> {
    let why = Args::try_parse_from(words(command)).err()?;
    let is_of_values = matches!(
        why.kind(),
        ErrorKind::ValueValidation
            | ErrorKind::InvalidValue
            | ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    (!is_of_values).then(|| format!("`{command}`: {why}"))
}

#[test]
fn commands_in_the_sentences_of_the_documentation_are_commands() {
    assert!(mistake("windlass flow").is_some() && mistake("windlass flows --all").is_some());
    assert!(mistake("windlass set SENDER RECEIVER --alg NAME").is_none());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders =
        ["docs", "docs/quickstart"].map(|folder| fs::read_dir(root.join(folder)).expect("the pages"));
    let pages = folders.into_iter().flatten().flatten().map(|entry| entry.path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut mistakes = Vec::new();
    let mut count = 0;
    for page in pages.chain([root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("SECURITY.md")])
    {
        let text = fs::read_to_string(&page).expect("a page");
        let commands = spans(&text).filter(|span| span.starts_with("windlass ") && *span != CLOCK_ALIAS);
        for command in commands {
            count += 1;
            mistakes.extend(mistake(command).map(|why| format!("{}: {why}", page.display())));
        }
    }
    assert!(mistakes.is_empty() && count > 50, "{count}: {}", mistakes.join("\n"));
}
