//! `windlass man`: manual pages, on a terminal in a pager.

use crate::{args::Args, signals};
use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use ratatui::crossterm::terminal;
use std::{
    env,
    io::{self, IsTerminal, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
};

/// Shows the page of the command of these words, or, where nothing shows it, prints it for troff.
pub fn show(words: &[String]) -> Result<ExitCode> {
    let mut command = Args::command();
    // gives the commands below their full names
    command.build();
    for word in words {
        let Some(found) = command.find_subcommand(word) else {
            bail!("no command '{}'; `windlass help` lists them", words.join(" "));
        };
        command = found.clone();
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    if !io::stdout().is_terminal() {
        print!("{}", String::from_utf8_lossy(&page));
        return Ok(ExitCode::SUCCESS);
    }
    signals::ignore_broken_pipes();
    let text = formatted(&page).unwrap_or_else(|| command.render_long_help().to_string());
    let is_shown = pagers().iter().any(|pager| page_through(pager, &text));
    if !is_shown {
        print!("{text}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for each command into the folder, which is made if it is not there.
pub fn install(folder: &Path) -> Result<ExitCode> {
    let write = || {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Args::command(), folder)
    };
    write().with_context(|| folder.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The page as people read it; none: there is no formatter here.
fn formatted(page: &[u8]) -> Option<String> {
    // bold and underlined by overstriking, which every pager can show
    // one that does not know its size has none
    let width = terminal::size().ok().map(|(width, _)| width).filter(|width| *width > 0);
    let width = width.unwrap_or(80).clamp(40, 102) - 2;
    let mut nroff = Command::new("nroff");
    nroff
        .args(["-man", "-c", &format!("-rLL={width}n"), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = nroff.spawn().ok()?;
    // a page is shorter than what a pipe holds
    let written = child.stdin.take()?.write_all(page);
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (written.is_ok() && output.status.success() && !text.trim().is_empty()).then_some(text)
}

/// Commands that may show it, the first that can be run does.
fn pagers() -> Vec<String> {
    let chosen = ["MANPAGER", "PAGER"].into_iter().filter_map(|name| env::var(name).ok());
    let chosen = chosen.filter(|command| !command.trim().is_empty()).take(1);
    chosen.chain(["less".into()]).collect()
}

/// Returns whether the pager could be run, and so has shown it as far as was wanted.
fn page_through(pager: &str, text: &str) -> bool {
    // a variable has a command line, which is the shell's to run
    let first = pager.split_whitespace().next().unwrap_or_default();
    let script = format!("command -v {first} >/dev/null 2>&1 || exit 127\n{pager}");
    let mut shell = Command::new("sh");
    let Ok(mut child) = shell.args(["-c", &script]).stdin(Stdio::piped()).spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // one that ends before it has read all has shown enough; writing then fails
        let _ = input.write_all(text.as_bytes());
    }
    // statuses of a shell that finds no such command, or may not run it
    !matches!(child.wait().map(|status| status.code()), Ok(Some(126 | 127)) | Err(_))
}
