//! Server-sent events: the overview again and again, one question for all viewers. Without one nothing is asked.

use super::agent::Agent;
use crate::{
    http::{Answer, stream},
    readers::{Found, Question},
};
use http_body_util::channel::Sender;
use hyper::body::Bytes;
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, timeout},
};

/// Time from one event to the next.
const PERIOD: Duration = Duration::from_millis(500);
/// A viewer that does not take an event within so long is given up.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);
/// Viewers at once.
pub const VIEWERS_MOST: usize = 32;

/// All viewers, and what they are shown.
#[derive(Debug, Default)]
pub struct Events(Mutex<Watched>);

/// The last event, of which each viewer has a receiver; none: there is no viewer.
#[derive(Debug, Default)]
struct Watched(Option<watch::Sender<Bytes>>);

fn locked(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Events {
    /// A further viewer's stream; none: there are enough.
    pub fn answer(self: &Arc<Self>, agent: &Arc<Agent>) -> Option<Answer> {
        let mut watched = locked(&self.0);
        let receiver = match &watched.0 {
            Some(sender) if sender.receiver_count() >= VIEWERS_MOST => return None,
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, receiver) = watch::channel(Bytes::new());
                watched.0 = Some(sender);
                tokio::spawn(look(self.clone(), agent.clone()));
                receiver
            }
        };
        drop(watched);
        let (answer, sender) = stream("text/event-stream; charset=utf-8");
        tokio::spawn(show(receiver, sender));
        Some(answer)
    }

    /// Shows the event to all; ends it when there is no viewer any more.
    fn publish(&self, event: Bytes) -> bool {
        let mut watched = locked(&self.0);
        let is_watched = watched.0.as_ref().is_some_and(|sender| sender.send(event).is_ok());
        if !is_watched {
            watched.0 = None;
        }
        is_watched
    }
}

/// Looks for as long as there are viewers.
async fn look(events: Arc<Events>, agent: Arc<Agent>) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (found, text) = agent.ask(Question::Overview).await;
        if !events.publish(event(found, &text)) {
            return;
        }
    }
}

/// As the stream has it: a name, and the document in one line.
fn event(found: Found, text: &Bytes) -> Bytes {
    let text = String::from_utf8_lossy(text);
    match found {
        Found::Document => format!("event: overview\ndata: {text}\n\n"),
        _ => format!("event: gone\ndata: {}\n\n", serde_json::json!({ "why": text })),
    }
    .into()
}

/// Sends one viewer each event, or the newest of those that came while it took another.
async fn show(mut events: watch::Receiver<Bytes>, mut sender: Sender<Bytes, io::Error>) {
    loop {
        let event = events.borrow_and_update().clone();
        if !event.is_empty() {
            match timeout(TAKEN_WITHIN, sender.send_data(event)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => return sender.abort(io::ErrorKind::TimedOut.into()),
            }
        }
        if events.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_name_and_a_document_in_a_line() {
        let of = |found, text: &'static str| event(found, &Bytes::from(text));
        assert_eq!(of(Found::Document, "{\"flows\":1}"), "event: overview\ndata: {\"flows\":1}\n\n");
        assert_eq!(of(Found::Failed, "a\n\nb"), "event: gone\ndata: {\"why\":\"a\\n\\nb\"}\n\n");
    }

    #[test]
    fn events_end_with_the_last_viewer() {
        let events = Events::default();
        assert!(!events.publish(Bytes::from("x")));
        let (sender, receiver) = watch::channel(Bytes::new());
        *locked(&events.0) = Watched(Some(sender));
        assert!(events.publish(Bytes::from("x")));
        drop(receiver);
        assert!(!events.publish(Bytes::from("x")));
        assert!(locked(&events.0).0.is_none());
    }
}
