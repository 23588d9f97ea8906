//! A guest that claims what it likes, at its port.

use std::{
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use windlass_guest::{
    Session,
    wire::{CWND_MAX_BYTES, Op, Report, State},
};

/// How often it claims something.
const PAUSE: Duration = Duration::from_millis(5);
const FLOWS: u64 = 10;

/// Lies until dropped.
pub struct Liar {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The largest of windows and segments, over a path that takes no time, and never a loss.
fn lie(flow: u64, seq: u32) -> Report {
    Report {
        flow,
        seq,
        op: if seq == 1 { Op::Register } else { Op::Update },
        state: State::Avoidance,
        is_timeout: false,
        is_cwnd_limited: true,
        cwnd_bytes: CWND_MAX_BYTES,
        ssthresh_bytes: CWND_MAX_BYTES,
        srtt_us: 1,
        mss_bytes: 0xffff,
        acked_bytes: u32::MAX,
        acks: u32::MAX,
        inflight_bytes: 0,
    }
}

impl Liar {
    pub fn start(port: &str) -> Liar {
        let mut stream = UnixStream::connect(port).expect("a port");
        stream.set_read_timeout(Some(PAUSE)).expect("a socket");
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = thread::spawn(move || {
            let (mut session, mut buffer, mut seq) = (Session::default(), [0; 4096], 0);
            let started = Instant::now();
            session.connected(0);
            while !is_over.load(Ordering::Relaxed) {
                let now_us = started.elapsed().as_micros() as u64;
                seq += 1;
                (0..FLOWS).for_each(|flow| session.report(lie(flow, seq), now_us));
                session.tick(now_us);
                session.flush(u64::MAX);
                let said = session.outgoing().to_vec();
                stream.write_all(&said).expect("somebody listens");
                session.written(said.len());
                match stream.read(&mut buffer) {
                    Ok(n) => drop(session.receive(&buffer[..n], now_us)),
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(e) => panic!("{e}"),
                }
            }
        });
        Liar { stop, thread: Some(thread) }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("not yet joined").join();
        if !thread::panicking() {
            ended.expect("its lies were heard");
        }
    }
}
