//! What an agent answers to readers of this machine, such as `windlass web`: totals, flows, one flow with why it is at its rate, groups,
//! counters. They connect to a socket that only the agent's user and root reach, and send one line, a [`Question`]; the answer is one
//! line, a word of [`Found`] and a text, and ends the connection. Nothing can be changed. While there is no reader a thread waits for
//! one, and nothing is read.

mod followed;
mod question;
mod reader;
mod snapshot;
mod source;

pub use question::{FlowName, Found, PAGE_MOST, Page, Question};
pub use reader::Reader;
pub use snapshot::Snapshot;
pub use source::Source;

use crate::{
    event_log::{About, EventLog},
    metrics::Published,
};
use anyhow::{Context, Result};
use source::Controlled;
use std::{
    io::{BufRead, BufReader, Read, Write},
    os::{
        fd::AsRawFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};
use windlass_agent::ReaderSocket;

/// One that connects sends its question within so long, and takes the answer; others wait meanwhile.
const READER_WITHIN: Duration = Duration::from_secs(1);
/// Much longer than any question.
const QUESTION_MOST_BYTES: u64 = 16 << 10;
/// How long it pauses when no connection can be taken, as there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The agent answers readers as long as this lives.
#[derive(Debug)]
pub struct Readers {
    reader: Arc<Mutex<Reader<Controlled>>>,
    _socket: Arc<ReaderSocket>,
}

fn locked(reader: &Mutex<Reader<Controlled>>) -> MutexGuard<'_, Reader<Controlled>> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readers {
    /// From now on; `published` is what the agent publishes of itself.
    pub fn start(socket: ReaderSocket, published: Arc<Published>, log: EventLog) -> Result<Readers> {
        let path: PathBuf = socket.path().into();
        let listener = socket.listener.try_clone().context("the readers' socket")?;
        let reader = Arc::new(Mutex::new(Reader::new(Controlled::new(published))));
        let answering = reader.clone();
        let answer = move || {
            // what is read belongs to this process' user
            if let Err(why) = windlass_agent::drop_all_capabilities() {
                log.warn(format_args!("the thread that answers readers keeps its capabilities: {why}"));
            }
            answer_all(&listener, &answering, log);
        };
        thread::Builder::new().name("readers".into()).spawn(answer).context("a thread for readers")?;
        log.debug(About::Command, format_args!("readers are answered at {}", path.display()));
        Ok(Readers { reader, _socket: Arc::new(socket) })
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // ledgers of flows that are followed are kept no longer
        locked(&self.reader).end();
    }
}

fn answer_all(listener: &UnixListener, reader: &Mutex<Reader<Controlled>>, log: EventLog) {
    loop {
        let rest = locked(reader).rest();
        if !is_reader_within(listener, rest) {
            continue;
        }
        match listener.accept() {
            // one that goes away again is its own affair
            Ok((stream, _)) => drop(answer_one(&stream, |question| locked(reader).answer(question))),
            Err(why) => {
                log.debug(About::Command, format_args!("no connection of a reader: {why}"));
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Waits for a reader, for so long or for ever.
pub fn is_reader_within(listener: &UnixListener, at_most: Option<Duration>) -> bool {
    let mut waited = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let at_most_ms = at_most.map_or(-1, |rest| rest.as_millis() as libc::c_int + 1);
    // SAFETY: one entry, which lives as long as the call.
    unsafe { libc::poll(&mut waited, 1, at_most_ms) > 0 }
}

/// Takes the question of one that has connected, and sends what `answer` makes of it.
pub fn answer_one(stream: &UnixStream, answer: impl FnOnce(&Question) -> (Found, String)) -> Result<()> {
    stream.set_read_timeout(Some(READER_WITHIN))?;
    stream.set_write_timeout(Some(READER_WITHIN))?;
    let mut line = String::new();
    BufReader::new(stream.take(QUESTION_MOST_BYTES)).read_line(&mut line)?;
    let (found, text) = match serde_json::from_str::<Question>(&line) {
        Ok(question) => answer(&question),
        Err(why) => (Found::Refused, format!("no question: {why}")),
    };
    let mut stream = stream;
    stream.write_all(format!("{} {text}\n", found.word()).as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Publisher;
    use std::net::Shutdown;

    /// What is answered to these bytes.
    fn answer_to(bytes: &[u8]) -> String {
        let (mut client, server) = UnixStream::pair().expect("sockets");
        client.write_all(bytes).expect("it fits");
        client.shutdown(Shutdown::Write).expect("a socket");
        let mut reader = Reader::new(Controlled::new(Publisher::default().published()));
        let _ = answer_one(&server, |question| reader.answer(question));
        drop(server);
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn readers_of_an_agent_are_refused_what_is_no_question() {
        let endless = vec![b'x'; 100_000];
        for bytes in [&b"\n"[..], b"{}\n", b"{\"ask\":\"flows\",\"more\":1}\n", &endless[..20_000]] {
            let answer = answer_to(bytes);
            assert!(answer.starts_with("refused no question: "), "{answer}");
        }
        assert_eq!(answer_to(b"\xff\n"), "", "no text");
    }
}
