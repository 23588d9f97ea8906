//! Commands of the native home: native load, unload, list.

use crate::{args::NativeCommand, control::stop_signal, print};
use anyhow::Result;
use std::{
    io::{self, Read},
    os::{fd::AsFd, unix::fs::FileTypeExt},
    process::ExitCode,
    sync::mpsc::Sender,
    thread,
};
use windlass_agent::{
    Native,
    native::{ensure_loaded, list, unload},
};

pub fn native(command: NativeCommand) -> Result<ExitCode> {
    match command {
        NativeCommand::Load { names, hold: true } => hold(&names.prefix)?,
        NativeCommand::Load { names, hold: false } => {
            let word = if ensure_loaded(&names.prefix)? { "loaded" } else { "loaded already" };
            let mine = list()?.into_iter().map(|i| i.name).filter(|n| n.starts_with(&names.prefix));
            println!("{word}: {}", mine.collect::<Vec<_>>().join(", "));
        }
        NativeCommand::Unload { names } => {
            for info in unload(&names.prefix)? {
                println!("{}: unloaded; {}", info.name, left(info.sockets, info.algorithm));
            }
        }
        NativeCommand::List { json } => show(json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn left(sockets: u64, algorithm: &str) -> String {
    match sockets {
        0 => "no socket used it".into(),
        n => format!("{n} socket(s) go over to the kernel's own {algorithm}"),
    }
}

fn show(json: bool) -> Result<()> {
    let all = list()?;
    if json {
        println!("{}", serde_json::json!({ "native": all }));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|i| {
            vec![
                i.name.clone(),
                i.algorithm.into(),
                i.sockets.to_string(),
                i.started.to_string(),
                i.handed_back.to_string(),
            ]
        })
        .collect();
    print::table(&["name", "algorithm", "sockets", "so far", "handed back"], &rows);
    Ok(())
}

/// Keeps the algorithms registered until told to stop.
fn hold(prefix: &str) -> Result<()> {
    let (stop, stopped) = stop_signal()?;
    let native = Native::load(prefix)?;
    println!("loaded: {}", native.names().join(", "));
    follow_pipe(stop);
    // the sender lives as long as the signal handler: an error cannot be
    let _ = stopped.recv();
    Ok(())
}

/// Who holds the other end of the pipe is gone: so are its reasons.
fn follow_pipe(stop: Sender<()>) {
    let is_pipe = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|fd| std::fs::File::from(fd).metadata())
        .is_ok_and(|m| m.file_type().is_fifo());
    if is_pipe {
        thread::spawn(move || {
            // an end is an end, with or without an error
            let _ = io::stdin().read_to_end(&mut Vec::new());
            let _ = stop.send(());
        });
    }
}
