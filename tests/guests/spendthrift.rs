//! A host that grants every flow the same window, whatever it says.

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
use windlass_guest::{
    controller::goodbye,
    wire::{Message, Outcome, Reader, Reply, Report, State, encode},
};

/// How often it looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

/// Grants until dropped.
pub struct Spendthrift {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn grant(report: &Report, window_bytes: u32) -> Reply {
    Reply {
        flow: report.flow,
        seq: report.seq,
        outcome: Outcome::Coupled,
        state: State::Avoidance,
        is_change: true,
        cwnd_bytes: window_bytes,
        ssthresh_bytes: window_bytes,
    }
}

impl Spendthrift {
    pub fn start(port: &str, window_bytes: u32) -> Spendthrift {
        let mut stream = UnixStream::connect(port).expect("a port");
        stream.set_read_timeout(Some(LOOK)).expect("a socket");
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = thread::spawn(move || {
            let (mut reader, mut buffer) = (Reader::default(), [0; 4096]);
            let mut out = goodbye();
            while !is_over.load(Ordering::Relaxed) {
                stream.write_all(&std::mem::take(&mut out)).expect("somebody listens");
                match stream.read(&mut buffer) {
                    Ok(n) => reader.push(&buffer[..n]),
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(e) => panic!("{e}"),
                }
                while let Some(frame) = reader.next_frame().expect("the agent says what makes sense") {
                    let answer = match frame.message {
                        Message::Hello => Message::Welcome,
                        Message::Reports(all) => {
                            Message::Replies(all.iter().map(|r| grant(r, window_bytes)).collect())
                        }
                        _ => continue,
                    };
                    encode(frame.session, &answer, &mut out);
                }
            }
        });
        Spendthrift { stop, thread: Some(thread) }
    }
}

impl Drop for Spendthrift {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("not yet joined").join();
        if !thread::panicking() {
            ended.expect("it was heard");
        }
    }
}
