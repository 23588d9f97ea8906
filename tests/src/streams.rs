//! Downloads that go on until stopped, every byte checked: how tenants that send share a bottleneck.

use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use windlass_lab::netns::Netns;

const READ_LIMIT: Duration = Duration::from_secs(60);
const CHUNK: usize = 16 << 10;

/// A file that the client requests, and the block of which it is repetitions.
fn get(stream: &mut TcpStream, path: &str) -> Result<BufReader<TcpStream>> {
    stream.set_read_timeout(Some(READ_LIMIT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: tenant\r\n\r\n")?;
    let mut reader = BufReader::with_capacity(CHUNK, stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if !line.contains(" 200 ") {
        bail!("{path}: {}", line.trim());
    }
    while !line.trim().is_empty() {
        line.clear();
        reader.read_line(&mut line)?;
    }
    Ok(reader)
}

/// Fetches a whole file.
pub fn fetch(client: &Netns, server: &str, path: &str) -> Result<Vec<u8>> {
    client.enter(|| {
        let mut stream = TcpStream::connect(server).with_context(|| server.to_string())?;
        let mut body = Vec::new();
        get(&mut stream, path)?.read_to_end(&mut body)?;
        Ok(body)
    })
}

/// One download after the other of a long file, all of repetitions of `block`.
#[derive(Debug)]
pub struct Stream {
    received: Arc<AtomicU64>,
    connection: Arc<Mutex<Option<TcpStream>>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Stream {
    /// Starts it, from the client's namespace; `server` is an address with a port.
    pub fn start(client: &Netns, server: &str, path: &str, block: Arc<Vec<u8>>) -> Result<Stream> {
        let received = Arc::new(AtomicU64::new(0));
        let (count, path) = (received.clone(), path.to_string());
        let mut stream = client.enter(|| TcpStream::connect(server).context(server.to_string()))?;
        let connection = Arc::new(Mutex::new(Some(stream.try_clone()?)));
        let open = connection.clone();
        let thread = thread::spawn(move || {
            let mut reader = get(&mut stream, &path)?;
            let mut chunk = vec![0; CHUNK];
            let mut at = 0;
            loop {
                let n = match reader.read(&mut chunk) {
                    Ok(n) => n,
                    Err(_) if open.lock().expect("no panics while held").is_none() => return Ok(()),
                    Err(e) => return Err(e.into()),
                };
                if n == 0 {
                    // stopped; or the file has ended, and what came of it is right
                    return Ok(());
                }
                for (i, byte) in chunk[..n].iter().enumerate() {
                    if *byte != block[(at + i) % block.len()] {
                        bail!("byte {} is not what was sent", at + i);
                    }
                }
                at += n;
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        Ok(Stream { received, connection, thread: Some(thread) })
    }

    /// Payload so far, all of it as it was sent.
    pub fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends it; an error if something else than the payload arrived.
    pub fn finish(mut self) -> Result<u64> {
        self.stop();
        self.thread.take().expect("not yet joined").join().expect("no panic")?;
        Ok(self.received_bytes())
    }

    fn stop(&self) {
        if let Some(stream) = self.connection.lock().expect("no panics while held").take() {
            // it may have ended by itself
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Payload of each tenant's streams so far.
pub fn received_bytes(tenants: &[Vec<Stream>]) -> Vec<u64> {
    tenants.iter().map(|streams| streams.iter().map(Stream::received_bytes).sum()).collect()
}

/// What each tenant receives from now on for so long, in bit/s.
pub fn rates_bps(tenants: &[Vec<Stream>], during: Duration) -> Vec<f64> {
    let (start, before) = (Instant::now(), received_bytes(tenants));
    thread::sleep(during);
    let seconds = start.elapsed().as_secs_f64();
    received_bytes(tenants)
        .iter()
        .zip(before)
        .map(|(now, then)| (now - then) as f64 * 8.0 / seconds)
        .collect()
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has everything.
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), v| (sum + v, squares + v * v));
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}

/// Waits until each tenant has received so much more.
pub fn go_on(tenants: &[Vec<Stream>], bytes: u64) {
    let goal: Vec<u64> = received_bytes(tenants).iter().map(|b| b + bytes).collect();
    let end = Instant::now() + READ_LIMIT;
    while received_bytes(tenants).iter().zip(&goal).any(|(now, goal)| now < goal) {
        assert!(Instant::now() < end, "the transfers stand still");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Ends the transfers; what has arrived of each is what was sent.
pub fn arrive_whole(streams: impl IntoIterator<Item = Stream>) {
    streams.into_iter().for_each(|s| assert!(s.finish().expect("whole payloads") > 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_of_one_to_n() {
        assert_eq!(jain(&[3.0, 3.0]), 1.0);
        assert_eq!(jain(&[1.0, 3.0]), 0.8);
        assert_eq!(jain(&[1.0, 0.0]), 0.5);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
    }
}
