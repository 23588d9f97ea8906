//! A page's blocks for a shell, and what is marked of them in comments before:
//!
//! ```text
//! <!-- not run: `windlass guest`: needs a virtual machine -->
//! <!-- before: `windlass agent --policy policies/wan.toml` -->
//! ```

use std::{fs, path::Path};

/// The pages that are followed.
pub fn pages() -> [&'static str; 10] {
    [
        "README.md",
        "docs/operations.md",
        "docs/policy.md",
        "docs/native.md",
        "docs/guests.md",
        "docs/quickstart/libvirt.md",
        "docs/quickstart/docker.md",
        "docs/quickstart/router.md",
        "docs/quickstart/kubernetes.md",
        "docs/quickstart/sockets.md",
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It cannot be run here.
    NotRun,
    /// It is run before the block, which goes on from there.
    Before,
}

/// A mark of commands that begin so.
#[derive(Debug)]
pub struct Mark {
    pub kind: Kind,
    pub command: String,
    pub reason: String,
}

/// A block for a shell.
#[derive(Debug)]
pub struct Block {
    pub marks: Vec<Mark>,
    /// Each with its comment, lines that end with a backslash joined.
    pub commands: Vec<String>,
}

impl Block {
    pub fn mark(&self, command: &str) -> Option<&Mark> {
        self.marks.iter().find(|mark| mark.kind != Kind::Before && command.starts_with(&mark.command))
    }

    pub fn before(&self) -> Vec<String> {
        self.marks.iter().filter(|mark| mark.kind == Kind::Before).map(|mark| mark.command.clone()).collect()
    }
}

pub struct Page(String);

const FENCE: &str = "```";
const SHELL: &str = "```sh";

/// What commands begin with, for those outside of blocks.
const COMMANDS: [&str; 8] = ["windlass ", "make ", "ip ", "tc ", "sysctl ", "qemu-", "systemctl ", "cp "];

impl Page {
    pub fn read(file: &str) -> Page {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        Page(fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display())))
    }

    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut marks = Vec::new();
        let mut lines = self.0.lines();
        while let Some(line) = lines.next() {
            if let Some(mark) = mark(line) {
                marks.push(mark);
            } else if line.starts_with(FENCE) {
                let text: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with(FENCE)).collect();
                if line == SHELL {
                    let commands = commands(&text.join("\n"));
                    blocks.push(Block { marks: std::mem::take(&mut marks), commands });
                }
            } else if !line.trim().is_empty() {
                assert!(marks.is_empty(), "marks stand before their block: {marks:?}");
            }
        }
        blocks
    }

    /// Lines of indented blocks, and of those of no language, that are commands.
    pub fn commands_outside(&self) -> Vec<&str> {
        let mut is_shell = false;
        let mut found = Vec::new();
        for line in self.0.lines() {
            if line.starts_with(FENCE) {
                is_shell = line == SHELL;
            }
            let command = line.strip_prefix("    ").or_else(|| line.strip_prefix('\t')).unwrap_or_default();
            if !is_shell && COMMANDS.iter().any(|begin| command.starts_with(begin)) {
                found.push(line);
            }
        }
        found
    }

    /// The policies that it has whole.
    pub fn policies(&self) -> Vec<String> {
        let blocks = self.0.split("\n\n").filter(|block| block.starts_with("    [[rule]]"));
        blocks.map(|block| block.replace("\n    ", "\n").trim_start().to_string()).collect()
    }
}

fn mark(line: &str) -> Option<Mark> {
    let text = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    let (kind, rest) = text.split_once(": `")?;
    let kind = match kind {
        "not run" => Kind::NotRun,
        "before" => Kind::Before,
        _ => panic!("no kind of mark: {line}"),
    };
    let (command, rest) = rest.split_once('`').unwrap_or_else(|| panic!("a command in backticks: {line}"));
    let reason = rest.strip_prefix(": ").unwrap_or_default();
    Some(Mark { kind, command: command.into(), reason: reason.into() })
}

fn commands(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pages_blocks_have_commands_and_marks() {
        let text = "\nWords\n\n<!-- not run: `b`: no b here -->\n<!-- before: `z 1` -->\n```sh\na 1  # what a does\n# nothing\nb \\\n  2\n```\n    windlass flows\n```toml\nx = 1\n```\n";
        let page = Page(text.into());
        let blocks = page.blocks();
        assert_eq!(blocks.len(), 1);
        assert_eq!(blocks[0].commands, ["a 1  # what a does", "b    2"]);
        assert_eq!(blocks[0].before(), ["z 1"]);
        assert!(blocks[0].mark("a 1").is_none());
        assert_eq!(blocks[0].mark("b    2").map(|mark| mark.reason.as_str()), Some("no b here"));
        assert_eq!(page.commands_outside(), ["    windlass flows"]);
    }
}
