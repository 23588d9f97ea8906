//! The agent, as it is asked over its socket. Equal questions of several viewers are asked once.

use crate::readers::{Found, Question};
use hyper::body::Bytes;
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::Mutex,
    time::timeout,
};
use windlass_scenario::printable_path;

/// An answer is that of all who ask the same within so long.
const RECENT: Duration = Duration::from_millis(400);
/// The agent must have answered within so long.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// So long may an answer be: some hundred rows of flows, or all counters of many datapaths.
const ANSWER_MOST_BYTES: u64 = 2 << 20;
/// Answers that are kept are no longer, together.
const KEPT_MOST_BYTES: usize = 4 << 20;

const NONE: &str = "no agent runs in this network namespace; start `windlass agent --policy FILE`";
const WHO: &str = "run `windlass web` as the agent's user, or as root";

/// What was found, in a document or in words.
pub type Reply = (Found, Bytes);

/// The way to an agent.
#[derive(Debug)]
pub struct Agent {
    /// None: whichever is the newest.
    socket: Option<PathBuf>,
    /// Held while the agent is asked: one question after the other.
    answers: Mutex<HashMap<Question, (Instant, Reply)>>,
}

impl Agent {
    pub fn new(socket: Option<PathBuf>) -> Agent {
        Agent { socket, answers: Mutex::default() }
    }

    /// Why there is none that could be asked, as far as that is seen without asking; none: there seems to be one.
    pub fn complaint(&self) -> Option<String> {
        match (&self.socket, windlass_agent::reader_sockets()) {
            (Some(socket), _) if socket.exists() => None,
            (Some(socket), _) => Some(failed(socket, &io::ErrorKind::NotFound.into())),
            (None, Err(why)) => Some(format!("{why}; {WHO}")),
            (None, Ok(sockets)) => sockets.is_empty().then(|| NONE.into()),
        }
    }

    /// What it answers, or has just answered.
    pub async fn ask(&self, question: Question) -> Reply {
        let mut answers = self.answers.lock().await;
        answers.retain(|_, (at, _)| at.elapsed() < RECENT);
        if let Some((_, reply)) = answers.get(&question) {
            return reply.clone();
        }
        let reply = match timeout(ANSWER_WITHIN, self.reply(&question)).await {
            Ok(reply) => reply.unwrap_or_else(|why| (Found::Failed, why.into())),
            Err(_) => (Found::Failed, format!("the agent has not answered for {ANSWER_WITHIN:?}").into()),
        };
        let kept: usize = answers.values().map(|(_, (_, text))| text.len()).sum();
        if kept + reply.1.len() <= KEPT_MOST_BYTES {
            answers.insert(question, (Instant::now(), reply.clone()));
        }
        reply
    }

    async fn reply(&self, question: &Question) -> Result<Reply, String> {
        let mut stream = self.connect().await?;
        let mut line = serde_json::to_string(question).expect("plain data");
        line.push('\n');
        let mut answer = Vec::new();
        let asked = async {
            stream.write_all(line.as_bytes()).await?;
            stream.take(ANSWER_MOST_BYTES).read_to_end(&mut answer).await
        };
        asked.await.map_err(|why| format!("the agent has not answered: {why}"))?;
        let answer = Bytes::from(answer);
        parsed(&answer).ok_or_else(|| "the agent's answer is none of this version of windlass".into())
    }

    async fn connect(&self) -> Result<UnixStream, String> {
        let sockets = match &self.socket {
            Some(socket) => vec![socket.clone()],
            None => windlass_agent::reader_sockets().map_err(|why| format!("{why}; {WHO}"))?,
        };
        let mut last = NONE.to_string();
        for socket in sockets {
            match UnixStream::connect(&socket).await {
                Ok(stream) => return Ok(stream),
                // killed
                Err(why) if self.socket.is_none() && why.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(why) => last = failed(&socket, &why),
            }
        }
        Err(last)
    }
}

fn failed(socket: &Path, why: &io::Error) -> String {
    if why.kind() == io::ErrorKind::NotFound {
        return format!("no agent is at {}: it has not begun, or has ended", printable_path(socket));
    }
    let cure = if why.kind() == io::ErrorKind::PermissionDenied { format!("; {WHO}") } else { String::new() };
    format!("no agent answers at {}: {why}{cure}", printable_path(socket))
}

/// A word and a text, in a line; none: it is none.
fn parsed(answer: &Bytes) -> Option<Reply> {
    let end = answer.len().checked_sub(1).filter(|end| answer[*end] == b'\n')?;
    let space = answer.iter().position(|byte| *byte == b' ')?;
    let found = Found::of(std::str::from_utf8(&answer[..space]).ok()?)?;
    Some((found, answer.slice(space + 1..end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_answer_is_a_word_and_a_text_in_a_line() {
        let of = |text: &'static str| parsed(&Bytes::from(text));
        assert_eq!(of("document {}\n"), Some((Found::Document, "{}".into())));
        assert_eq!(of("nothing no flow\n"), Some((Found::Nothing, "no flow".into())));
        for none in ["", "\n", "document {}", "document\n", "what {}\n"] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }
}
