//! The log of commands: what happens while they go on, and why they end. One line each, for people, for journald or for programs
//! (`line.rs`). What a command was asked for, as tables and JSON documents, is no log: it is printed (`print.rs`).

mod line;

use crate::args::{LogArgs, LogFormat, LogLevel};
use line::Line;
use std::{
    env,
    fs::File,
    io::{self, Write},
    os::{fd::AsFd, unix::fs::MetadataExt},
    sync::OnceLock,
};
use tracing::{Event, Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry,
    fmt::{
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    layer::{Context, SubscriberExt},
};

/// What the environment has of the stream that journald reads (systemd.exec(5)): device and inode.
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";

/// How lines are written, from the start of the command on.
static WRITTEN: OnceLock<Written> = OnceLock::new();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    format: LogFormat,
    /// Standard error is read by journald, which has times of its own and takes priorities from a line's beginning.
    is_journal: bool,
    /// Standard output is a program's, which reads documents there.
    as_json: bool,
}

impl Written {
    /// Notices are for people who follow the command on its standard output; all else of the log is on standard error.
    fn is_on_output(self, level: Level) -> bool {
        let is_for_people = self.format == LogFormat::Text && !self.is_journal && !self.as_json;
        is_for_people && level == Level::INFO
    }

    fn text_of(self, line: &Line, time: &str) -> String {
        let text = match self.format {
            LogFormat::Json => line.json(time),
            LogFormat::Text => line.text(self.is_journal),
        };
        if self.is_journal { line::with_priority(line.level, &text) } else { text }
    }
}

/// Logs from now on. `as_json`: documents for programs are on standard output.
pub fn start(args: &LogArgs, as_json: bool) {
    let written = Written {
        format: args.log_format.unwrap_or(LogFormat::Text),
        is_journal: is_journal(&io::stderr(), env::var(JOURNAL_STREAM).ok().as_deref()),
        as_json,
    };
    let level = match args.log_level.unwrap_or(LogLevel::Info) {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let _ = WRITTEN.set(written);
    // a second start would be a second command in one process
    let _ = tracing::subscriber::set_global_default(Registry::default().with(level).with(Lines));
}

/// Are notices lines on standard output?
pub fn has_notices_on_output() -> bool {
    WRITTEN.get().is_none_or(|written| written.is_on_output(Level::INFO))
}

/// Whether journald reads the stream, by what the environment has of that.
fn is_journal(stream: &impl AsFd, journal: Option<&str>) -> bool {
    let numbers = journal.and_then(|text| text.split_once(':'));
    let Some((Ok(device), Ok(inode))) = numbers.map(|(d, i)| (d.parse::<u64>(), i.parse::<u64>())) else {
        return false;
    };
    let file = stream.as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata()).is_ok_and(|m| (m.dev(), m.ino()) == (device, inode))
}

/// Writes a line for each event of this program.
struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // libraries have events, too
        if !event.metadata().target().starts_with("windlass") {
            return;
        }
        let Some(written) = WRITTEN.get() else { return };
        let line = Line::of(event);
        let mut time = String::new();
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let text = written.text_of(&line, &time) + "\n";
        // in one piece, so that no other process' words come between; and if nothing can be written the command goes on
        let _ = match written.is_on_output(line.level) {
            true => io::stdout().write_all(text.as_bytes()),
            false => io::stderr().write_all(text.as_bytes()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_is_the_stream_that_the_environment_names() {
        let file = tempfile::tempfile().unwrap();
        let m = file.metadata().unwrap();
        let of = |device: u64, inode: u64| is_journal(&file, Some(&format!("{device}:{inode}")));
        assert!(of(m.dev(), m.ino()));
        assert!(!of(m.dev(), m.ino() + 1) && !of(m.dev() + 1, m.ino()));
        assert!([None, Some(""), Some("1"), Some("a:b")].into_iter().all(|text| !is_journal(&file, text)));
    }

    #[test]
    fn log_is_on_standard_output_where_people_follow_the_command_and_only_its_notices() {
        let text = Written { format: LogFormat::Text, is_journal: false, as_json: false };
        assert!(text.is_on_output(Level::INFO));
        assert!(![Level::ERROR, Level::WARN, Level::DEBUG].into_iter().any(|level| text.is_on_output(level)));
        let others = [
            Written { is_journal: true, ..text },
            Written { as_json: true, ..text },
            Written { format: LogFormat::Json, ..text },
        ];
        assert!(!others.into_iter().any(|written| written.is_on_output(Level::INFO)));
    }
}
