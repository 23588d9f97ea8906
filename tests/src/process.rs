//! A `windlass` that runs on and says what happens, a JSON document a line.

use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Much longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: mpsc::Receiver<Value>,
}

impl Process {
    /// Starts it; `command` has the words that make it talk JSON.
    pub fn start(command: &mut Command) -> Process {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let json = |l: io::Result<String>| serde_json::from_str(&l.ok()?).ok();
            out.lines().map_while(json).try_for_each(|v: Value| sender.send(v))
        });
        Process { child, lines }
    }

    /// The next thing of that kind that happens.
    pub fn event(&self, kind: &str) -> Value {
        self.find(kind, |_| true)
    }

    /// The next thing of that kind of which `is_it` is true.
    pub fn find(&self, kind: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        let mut last = Value::Null;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let value = self
                .lines
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("no such '{kind}' happened; last: {last}"));
            if value["event"] == kind {
                if is_it(&value) {
                    return value;
                }
                last = value;
            }
        }
    }

    /// What has happened of that kind since somebody last looked.
    pub fn since(&self, kind: &str) -> Vec<Value> {
        self.lines.try_iter().filter(|v| v["event"] == kind).collect()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// As kill -9.
    pub fn kill(mut self) {
        self.child.kill().expect("our own child");
        self.child.wait().expect("it ends");
    }

    /// Ends it as Ctrl-C does; returns its last words, which are of that kind.
    pub fn finish(mut self, last: &str) -> Value {
        self.signal(libc::SIGINT);
        let words = self.event(last);
        assert!(self.child.wait().expect("it ends").success());
        words
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
