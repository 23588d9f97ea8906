//! Downloads that do not end, so that shares are of the same stretch of time, whichever began late on a busy machine.

use crate::site::Site;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
};
use windlass_lab::files;
use windlass_tests::process::LIMIT;

/// How often windows are looked at: many times between two losses.
const LOOKS: usize = 50;

/// Endless downloads from a site's servers.
pub struct Downloads {
    streams: Vec<TcpStream>,
    /// Which server, and how many bytes came.
    pub arrived: Receiver<(usize, usize)>,
}

impl Downloads {
    pub fn start(site: &Site, servers: &[usize]) -> Downloads {
        let name = files::endless().expect("a file to serve");
        let (sender, arrived) = channel();
        let open = |server: &usize| {
            let (server, sender) = (*server, sender.clone());
            let address = site.address_of(server);
            let connect = || Ok(TcpStream::connect((address.as_str(), 80))?);
            let mut stream = site.client.enter(connect).expect("a connection");
            stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
            let own = stream.try_clone().expect("a descriptor");
            write!(stream, "GET /{name} HTTP/1.1\r\nHost: w\r\n\r\n").expect("a request");
            thread::spawn(move || {
                let (mut block, mut head) = (vec![0; 1 << 16], Vec::new());
                while let Ok(count @ 1..) = stream.read(&mut block) {
                    let mut payload = &block[..count];
                    while !head.ends_with(b"\r\n\r\n") && !payload.is_empty() {
                        head.push(payload[0]);
                        payload = &payload[1..];
                    }
                    let is_whole = payload.iter().all(|b| *b == 0);
                    // usize::MAX stands for bytes that are not the file's
                    if sender.send((server, if is_whole { payload.len() } else { usize::MAX })).is_err() {
                        break;
                    }
                }
            });
            own
        };
        let streams = servers.iter().map(open).collect();
        Downloads { streams, arrived }
    }

    /// What the two servers get of the next so many bytes: of those that are still to come, whatever came between two looks.
    pub fn shares(&self, bytes: usize) -> [f64; 2] {
        let check = |count| assert_ne!(count, usize::MAX, "the payload is what was served");
        self.arrived.try_iter().for_each(|(_, count)| check(count));
        let mut shares = [0; 2];
        while shares.iter().sum::<usize>() < bytes {
            let (server, count) = self.arrived.recv_timeout(LIMIT).expect("progress");
            check(count);
            shares[server] += count;
        }
        shares.map(|s| s as f64 / bytes as f64)
    }

    /// The second server's windows by the first one's, on average while the next so many bytes come: `look` reports
    /// both. Rates of so short a time depend on when something is lost, and on what else this machine does; windows
    /// do not.
    pub fn window_ratio(&self, bytes: usize, look: impl Fn() -> [u64; 2]) -> f64 {
        let mut sums = [0; 2];
        for _ in 0..LOOKS {
            self.shares(bytes / LOOKS);
            sums.iter_mut().zip(look()).for_each(|(sum, window)| *sum += window);
        }
        sums[1] as f64 / sums[0] as f64
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        for stream in &self.streams {
            // it may have ended by itself
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
