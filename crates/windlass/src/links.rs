//! Whether the network interfaces of this namespace must be listed again.

use crate::signals::Wish;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::Sender,
    },
    thread,
    time::{Duration, Instant},
};
use windlass_agent::LinkNews;

/// Interfaces that come one after the other, as when many containers start, are taken under control some at a time.
const PAUSE: Duration = Duration::from_millis(20);
/// As often they are listed whatever the kernel reports.
const AT_LEAST: Duration = Duration::from_secs(10);

/// Follows what the kernel reports of interfaces.
pub struct Links {
    news: Arc<News>,
    listed: Option<Instant>,
}

#[derive(Default)]
struct News {
    /// Since they were last listed.
    are_there: AtomicBool,
    /// Nothing is reported, now or any more.
    are_missing: AtomicBool,
}

impl Links {
    /// From now on, each time that there are news after they were taken, `sender` gets a wish to look.
    pub fn follow(sender: Sender<Wish>) -> Links {
        let news = Arc::new(News::default());
        let ours = news.clone();
        match LinkNews::subscribe() {
            Ok(reports) => {
                thread::spawn(move || {
                    while reports.wait().is_ok() {
                        if !ours.are_there.swap(true, SeqCst) && sender.send(Wish::Look).is_err() {
                            return;
                        }
                    }
                    ours.are_missing.store(true, SeqCst);
                });
            }
            Err(_) => news.are_missing.store(true, SeqCst),
        }
        Links { news, listed: None }
    }

    /// Must they be listed, as something was reported of them, or nothing for long? Then they are taken to be listed now.
    pub fn take(&mut self) -> bool {
        let is_long_ago = self.listed.is_none_or(|at| at.elapsed() >= AT_LEAST);
        let is_new = self.news.are_there.swap(false, SeqCst);
        let is_due = is_new || is_long_ago || self.news.are_missing.load(SeqCst);
        if is_due {
            self.listed = Some(Instant::now());
        }
        is_due
    }

    /// When the wish to look should be attended to.
    pub fn due(&self) -> Instant {
        let now = Instant::now();
        self.listed.map_or(now, |at| (at + PAUSE).max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_listed_at_the_start_and_then_when_something_is_reported_of_them() {
        let mut links = Links { news: Arc::default(), listed: None };
        assert!(links.take());
        assert!(!links.take() && links.due() > Instant::now());
        links.news.are_there.store(true, SeqCst);
        assert!(links.take() && !links.take());
        links.news.are_missing.store(true, SeqCst);
        assert!(links.take() && links.take(), "as often as they are looked at");
    }
}
