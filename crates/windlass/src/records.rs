//! `windlass records`: what flows did, as an agent with `--records` has written it.

use crate::print;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    os::unix::fs::MetadataExt,
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};
use windlass_agent::{all_record_files, newest_record_file};
use windlass_scenario::printable_path;

/// How often the newest file is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Prints all records in `folder`, oldest first, and with `follows` those that come until it is stopped.
pub fn records(folder: &Path, follows: bool, json: bool) -> Result<ExitCode> {
    let files = all_record_files(folder);
    if files.is_empty() && !follows {
        bail!(
            "no records in {}; `windlass agent --records {0} ...` writes them there",
            printable_path(folder)
        );
    }
    if !json {
        println!("{}", HEADER);
    }
    let mut newest = None;
    for file in &files {
        let mut reader = open(file)?;
        print_rest(&mut reader, json)?;
        newest = Some(reader);
    }
    if follows {
        follow(folder, newest, json)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the records that come; `newest` is the file that was read last.
fn follow(folder: &Path, mut newest: Option<Lines>, json: bool) -> Result<()> {
    loop {
        thread::sleep(LOOK);
        if let Some(lines) = &mut newest {
            print_rest(lines, json)?;
        }
        let path = newest_record_file(folder);
        // before the first record there is no file, and between two of them for a moment
        let Ok(now) = path.metadata() else { continue };
        let is_same = |lines: &Lines| lines.file.get_ref().metadata().is_ok_and(|m| m.ino() == now.ino());
        if !newest.as_ref().is_some_and(is_same) {
            // one may have come between the two looks
            if let Some(lines) = &mut newest {
                print_rest(lines, json)?;
            }
            newest = Some(open(&path)?);
        }
    }
}

/// A file whose last line may not be whole yet.
struct Lines {
    file: BufReader<File>,
    part: Vec<u8>,
}

fn open(path: &Path) -> Result<Lines> {
    let file = File::open(path).with_context(|| printable_path(path).to_string())?;
    Ok(Lines { file: BufReader::new(file), part: Vec::new() })
}

/// Prints the whole lines that are there.
fn print_rest(lines: &mut Lines, json: bool) -> Result<()> {
    while lines.file.by_ref().read_until(b'\n', &mut lines.part)? > 0 {
        if lines.part.last() != Some(&b'\n') {
            return Ok(());
        }
        print_one(&String::from_utf8_lossy(&lines.part), json);
        lines.part.clear();
    }
    Ok(())
}

fn print_one(line: &str, json: bool) {
    let Ok(record) = serde_json::from_str::<Value>(line) else { return };
    if json {
        println!("{record}");
    } else {
        print::line(row(&record));
    }
}

const HEADER: &str = "sender                  receiver                algorithm  end        duration     delivered   goodput  rtt p50   p95      lost  repaired  sender-rtx  mostly limited by";

/// A record in a line, in columns that do not depend on others.
fn row(record: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_string();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let us = |value: &Value| value.as_u64().map_or("-".into(), |us| print::us(us as u32));
    format!(
        "{:<22}  {:<22}  {:<9}  {:<9}  {:>8.3} s  {:>10}  {:>8}  {:>8}  {:>8}  {:>4}  {:>8}  {:>10}  {}",
        text(&record["sender"]),
        text(&record["receiver"]),
        text(&record["algorithm"]),
        record["end"].as_str().unwrap_or("goes on"),
        number(&record["duration_us"]) as f64 / 1e6,
        number(&record["delivered_bytes"]),
        record["goodput_bps"].as_u64().map_or("-".into(), print::bps),
        us(&record["rtt"]["p50_us"]),
        us(&record["rtt"]["p95_us"]),
        number(&record["lost_segs"]),
        number(&record["repaired_segs"]),
        number(&record["sender_retrans_segs"]),
        mostly(&record["limited_us"]),
    )
}

/// What held the flow back most of the time in which it had something to send.
fn mostly(limited_us: &Value) -> String {
    let all = limited_us.as_object().into_iter().flatten();
    let busy =
        all.filter(|(name, _)| *name != "idle").map(|(name, us)| (us.as_u64().unwrap_or_default(), name));
    let most = busy.max().filter(|(us, _)| *us > 0);
    most.map_or("-".into(), |(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_that_is_not_whole_waits_for_the_rest() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = newest_record_file(folder.path());
        std::fs::write(&path, "{}\n{\"a\"").expect("writable");
        let mut lines = open(&path).expect("a file");
        print_rest(&mut lines, true).expect("readable");
        assert_eq!(lines.part, b"{\"a\"");
        std::fs::write(&path, "{}\n{\"a\": 1}\n").expect("writable");
        print_rest(&mut lines, true).expect("readable");
        assert!(lines.part.is_empty());
    }

    #[test]
    fn idle_time_is_not_what_holds_a_flow_back() {
        assert_eq!(mostly(&json!({ "idle": 9, "window": 2, "recovery": 1 })), "window");
        assert_eq!(mostly(&json!({ "idle": 9, "window": 0 })), "-");
    }
}
