//! How far the runs are: a bar on a terminal, and elsewhere, as in a log, a line now and then.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::IsTerminal,
    sync::Mutex,
    time::{Duration, Instant},
};

/// Between two lines of a log.
const LINE_EVERY: Duration = Duration::from_secs(30);

pub struct Progress {
    bar: ProgressBar,
    name: String,
    /// When the last line was written; none: no lines are.
    last_line: Option<Mutex<Instant>>,
}

impl Progress {
    /// Of `total` runs, of which `done` have finished before. Quiet: nothing but what `say` is given.
    pub fn new(name: &str, total: usize, done: usize, is_quiet: bool) -> Self {
        let target = if is_quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {elapsed} {msg}");
        bar.set_style(style.expect("a valid template"));
        bar.set_prefix(name.to_string());
        bar.inc(done as u64);
        let writes_lines = !is_quiet && !std::io::stderr().is_terminal();
        Self { bar, name: name.to_string(), last_line: writes_lines.then(|| Mutex::new(Instant::now())) }
    }

    /// One more run has finished, as `what` reports.
    pub fn add(&self, what: String) {
        self.bar.inc(1);
        if let Some(last_line) = &self.last_line {
            let mut last_line = last_line.lock().expect("no panics while held");
            if last_line.elapsed() >= LINE_EVERY {
                *last_line = Instant::now();
                eprintln!("{}", self.line(&what));
            }
        }
        self.bar.set_message(what);
    }

    fn line(&self, what: &str) -> String {
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let elapsed = HumanDuration(self.bar.elapsed());
        format!("{}: {done} of {total} runs after {elapsed}, the last one {what}", self.name)
    }

    /// Writes a line that stays, whether quiet or not.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_reports_how_far_it_is() {
        let progress = Progress::new("tcon-loss", 8, 2, true);
        progress.add("40ms-1 windlass 4.41 s".to_string());
        let line = progress.line("40ms-1 windlass 4.41 s");
        assert!(line.starts_with("tcon-loss: 3 of 8 runs after 0 seconds, the last one 40ms-1 "), "{line}");
    }
}
