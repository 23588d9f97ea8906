//! Processes that run beside a test, above all a `windlass` that reports what happens. Whatever is waited for has a
//! limit, so that a test fails, and reports of what, where it would wait for ever.

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Stdin},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// Much longer than anything takes on a busy machine, where one agent after the other loads its programs.
pub const LIMIT: Duration = Duration::from_secs(180);
/// For what is queried as often as the answer may change.
const PAUSE: Duration = Duration::from_millis(1);

/// Reported of what another agent has left under control.
pub const OF_EARLIER: &str = "is still under the rules of an earlier agent";

/// Waits until that is so; `what` is what did not happen if it never is.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "waited {LIMIT:?} in vain: {what}");
        thread::sleep(PAUSE);
    }
}

/// Waits for a child's end.
pub fn wait(child: &mut Child, name: &str) -> ExitStatus {
    let mut status = None;
    until(&format!("{name} ends"), || {
        status = child.try_wait().expect("our own child");
        status.is_some()
    });
    status.expect("it has ended")
}

/// The lines that come through a pipe, read by a thread of their own: a writer need not wait until a test reads.
#[derive(Debug)]
struct Lines(mpsc::Receiver<String>);

impl Lines {
    /// So many at most: then the pipe is closed.
    fn of(pipe: Option<impl Read + Send + 'static>, most: usize) -> Lines {
        let (sender, lines) = mpsc::channel();
        if let Some(pipe) = pipe {
            thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok).take(most) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Lines(lines)
    }

    /// The next one; none: there are no more.
    fn next(&self, end: Instant) -> Result<Option<String>, RecvTimeoutError> {
        match self.0.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Ended when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    out: Lines,
    errors: Lines,
}

impl Process {
    /// Starts it, with nothing to read, and a thread that reads all that it writes.
    pub fn start(command: &mut Command) -> Process {
        Self::start_as_is(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts it with the pipes that its command has.
    pub fn start_as_is(command: &mut Command) -> Process {
        let mut process = Self::spawn(command);
        let (out, errors) = (process.child.stdout.take(), process.child.stderr.take());
        (process.out, process.errors) = (Lines::of(out, usize::MAX), Lines::of(errors, usize::MAX));
        process
    }

    /// The same; but from its first line on, which is returned, its output is not read any more.
    pub fn start_unheard(command: &mut Command) -> (Process, String) {
        let mut process = Self::spawn(command);
        let (out, errors) = (process.child.stdout.take(), process.child.stderr.take());
        process.out = Lines::of(out, 1);
        let first = process.line().unwrap_or_else(|| process.fail("has said nothing"));
        assert_eq!(process.line(), None, "its pipe is closed");
        drop(errors);
        (process, first)
    }

    fn spawn(command: &mut Command) -> Process {
        let name = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|e| panic!("{name}: {e}"));
        let nothing = || Lines::of(None::<Stdin>, 0);
        Process { child, name, out: nothing(), errors: nothing() }
    }

    /// Its number, by which others name it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our own child").is_none()
    }

    /// Waits until it waits for the lock of those that attach, which the test holds.
    pub fn waits_for_attach_lock(&mut self) {
        let files = format!("/proc/{}/fd", self.id());
        until("the process waits for the lock", || {
            assert!(self.is_running());
            let files = fs::read_dir(&files).expect("our child").flatten();
            let is_lock = |f: &PathBuf| f.ends_with("attach.lock") || f.ends_with("attach.next.lock");
            files.flat_map(|f| fs::read_link(f.path())).any(|f| is_lock(&f))
        });
    }

    /// The next line that it writes; none: it writes no more.
    pub fn line(&self) -> Option<String> {
        self.line_before(Instant::now() + LIMIT, "anything")
    }

    fn line_before(&self, end: Instant, what: &str) -> Option<String> {
        self.out.next(end).unwrap_or_else(|_| self.fail(&format!("has not said {what} within {LIMIT:?}")))
    }

    /// Waits until it writes these words; returns the line.
    pub fn says(&self, words: &str) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            match self.line_before(end, &format!("'{words}'")) {
                Some(line) if line.contains(words) => return line,
                Some(_) => {}
                None => self.fail(&format!("ended, and never said '{words}'")),
            }
        }
    }

    /// The next line that it complains in; none: there are no more.
    fn next_complaint(&self) -> Option<String> {
        let next = self.errors.next(Instant::now() + LIMIT);
        next.unwrap_or_else(|_| self.fail(&format!("has not complained of anything within {LIMIT:?}")))
    }

    /// The next line that it complains in, if not of other tests' cgroups; none: there are no more.
    fn next_own_complaint(&self) -> Option<String> {
        let is_of_others = |line: &String| line.contains("detach --cgroup") && line.contains(OF_EARLIER);
        std::iter::from_fn(|| self.next_complaint()).find(|line| !is_of_others(line))
    }

    /// The next line that it complains in, if not of other tests' cgroups.
    pub fn complaint(&self) -> String {
        self.next_own_complaint().unwrap_or_else(|| self.fail("ended without a complaint"))
    }

    /// Waits until it complains in these words, of whatever; returns the line.
    pub fn complains_of(&self, words: &str) -> String {
        loop {
            match self.next_complaint() {
                Some(line) if line.contains(words) => return line,
                Some(_) => {}
                None => self.fail(&format!("ended, and never complained of '{words}'")),
            }
        }
    }

    /// All that it complains of until it ends, but for other tests' cgroups.
    pub fn complaints(&self) -> Vec<String> {
        std::iter::from_fn(|| self.next_own_complaint()).collect()
    }

    /// Reports that it did not what it should have, and what it complained of.
    fn fail(&self, what: &str) -> ! {
        let complaints: Vec<String> = self.errors.0.try_iter().collect();
        panic!("{} {what}; complaints: {complaints:?}", self.name)
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(line).unwrap_or_else(|e| self.fail(&format!("said '{line}', no JSON: {e}")))
    }

    /// The next thing of that kind that happens, of a process that reports so in a JSON document a line.
    pub fn event(&self, kind: &str) -> Value {
        self.find(kind, |_| true)
    }

    /// The next thing of that kind of which `is_it` is true.
    pub fn find(&self, kind: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        let mut last = Value::Null;
        loop {
            let Some(line) = self.line_before(end, &format!("that such a '{kind}' happened; last: {last}"))
            else {
                self.fail(&format!("ended before such a '{kind}' happened; last: {last}"))
            };
            let value = self.json(&line);
            if value["event"] == kind && is_it(&value) {
                return value;
            }
            last = value;
        }
    }

    /// What has happened since the last look.
    pub fn news(&self) -> Vec<Value> {
        self.out.0.try_iter().map(|line| self.json(&line)).collect()
    }

    /// The same of one kind.
    pub fn since(&self, kind: &str) -> Vec<Value> {
        self.news().into_iter().filter(|v| v["event"] == kind).collect()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// There is no more for it to read.
    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until it ends.
    pub fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child, &self.name)
    }

    /// Ends it by this signal.
    pub fn end(&mut self, signal: i32) -> ExitStatus {
        // whose number may be another's, once it has ended and was waited for
        if self.is_running() {
            self.signal(signal);
        }
        self.wait()
    }

    /// As kill -9.
    pub fn kill(mut self) {
        self.end(libc::SIGKILL);
    }

    /// Ends it as Ctrl-C does; returns its last words, which are of that kind.
    pub fn finish(mut self, last: &str) -> Value {
        self.signal(libc::SIGINT);
        let words = self.event(last);
        let status = self.wait();
        assert!(status.success(), "{}: {status}", self.name);
        words
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if thread::panicking() {
            self.errors.0.try_iter().for_each(|line| eprintln!("{}: {line}", self.name));
        }
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // ended by a signal first, for the sake of what it would leave behind; it may be stopped
        self.signal(libc::SIGTERM);
        self.signal(libc::SIGCONT);
        let end = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(PAUSE);
        }
        // nothing to be done about a failure, and the test may have failed already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
