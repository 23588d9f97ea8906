//! A program at a port that sends what the test wants.

use std::{
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Talks until dropped.
pub struct Player {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Player {
    /// Gives `talk` what has come, as soon as something has or every `pause`, and writes what it answers; at first nothing has.
    pub fn start(
        port: &str,
        pause: Duration,
        mut talk: impl FnMut(&[u8]) -> Vec<u8> + Send + 'static,
    ) -> Player {
        let mut stream = UnixStream::connect(port).expect("a port");
        stream.set_read_timeout(Some(pause)).expect("a socket");
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = thread::spawn(move || {
            let (mut buffer, mut n) = ([0; 4096], 0);
            while !is_over.load(Ordering::Relaxed) {
                stream.write_all(&talk(&buffer[..n])).expect("somebody listens");
                n = match stream.read(&mut buffer) {
                    Ok(n) => n,
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
                    Err(e) => panic!("{e}"),
                };
            }
        });
        Player { stop, thread: Some(thread) }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("not yet joined").join();
        if !thread::panicking() {
            ended.expect("it was heard");
        }
    }
}
