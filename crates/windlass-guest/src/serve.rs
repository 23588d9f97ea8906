//! The controller at its ports: a thread for each, so that a guest can hold up nobody but itself.

use crate::{
    Controller, Error, GuestId, GuestInfo,
    controller::{Event, goodbye},
    error::Result,
};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::unix::{fs::FileTypeExt, net::UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How often a port is tried that is not there, and how long a guest may be silent before the thread looks up.
const LOOK: Duration = Duration::from_millis(100);
/// A guest that does not read its answers for so long is cut off.
const WRITE_LIMIT: Duration = Duration::from_secs(1);
/// More reports per second than a guest with ten thousand busy flows has; the port takes no more than this.
const REPORTS_PS_MOST: u32 = 100_000;

/// A port and who is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Socket of the VM's chardev.
    pub path: PathBuf,
    /// What the guest is called in reports.
    pub name: String,
    /// What all its flows weigh together.
    pub weight: u32,
}

/// Something that happened at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// See [`Event`].
    Guest(Event),
    /// The VM, or whoever holds the port, is gone; its flows left the group.
    Gone,
}

/// A controller at work. Dropped, it says goodbye to all guests.
#[derive(Debug)]
pub struct Service {
    controller: Arc<Mutex<Controller>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Can the path be the port's? It may be that the VM is not there yet.
fn check(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(m) if !m.file_type().is_socket() => Err(Error::NotASocket(path.into())),
        Err(source) if source.kind() != ErrorKind::NotFound => Err(Error::Io { path: path.into(), source }),
        _ => Ok(()),
    }
}

impl Service {
    /// Serves all places; `tell` hears what happens at which.
    pub fn start(
        mut controller: Controller,
        places: &[Place],
        tell: &Sender<(usize, Happening)>,
    ) -> Result<Service> {
        for place in places {
            check(&place.path)?;
        }
        let guests: Vec<GuestId> = places.iter().map(|p| controller.add_guest(&p.name, p.weight)).collect();
        let controller = Arc::new(Mutex::new(controller));
        let stop = Arc::new(AtomicBool::new(false));
        let started = Instant::now();
        let threads = places
            .iter()
            .zip(guests)
            .enumerate()
            .map(|(index, (place, guest))| {
                let server = Server {
                    index,
                    guest,
                    path: place.path.clone(),
                    controller: controller.clone(),
                    stop: stop.clone(),
                    started,
                    tell: tell.clone(),
                };
                thread::spawn(move || server.run())
            })
            .collect();
        Ok(Service { controller, stop, threads })
    }

    /// All guests, in the order of their places, and the group's own window in bytes.
    pub fn look(&self) -> (Vec<GuestInfo>, u64) {
        let controller = lock(&self.controller);
        (controller.guests(), controller.sum_cwnd_bytes())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // a panic in it has been reported; there is nothing left to save
            let _ = thread.join();
        }
    }
}

fn lock(controller: &Mutex<Controller>) -> MutexGuard<'_, Controller> {
    controller.lock().expect("no panics while held")
}

struct Server {
    index: usize,
    guest: GuestId,
    path: PathBuf,
    controller: Arc<Mutex<Controller>>,
    stop: Arc<AtomicBool>,
    started: Instant,
    tell: Sender<(usize, Happening)>,
}

impl Server {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn say(&self, what: Happening) {
        // nobody listens any more: we are stopping anyway
        let _ = self.tell.send((self.index, what));
    }

    fn run(&self) {
        while !self.is_over() {
            match UnixStream::connect(&self.path) {
                Ok(mut stream) => {
                    // the guest, or the VM, may go at any time: that is no error
                    let _ = self.serve(&mut stream);
                    lock(&self.controller).disconnected(self.guest);
                    if !self.is_over() {
                        self.say(Happening::Gone);
                    }
                }
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    fn serve(&self, stream: &mut UnixStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(WRITE_LIMIT))?;
        stream.write_all(&lock(&self.controller).connected(self.guest))?;
        let mut buffer = vec![0; 64 << 10];
        let (mut out, mut events) = (Vec::new(), Vec::new());
        while !self.is_over() {
            let n = match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(e) => return Err(e),
            };
            let now_us = self.started.elapsed().as_micros() as u32;
            let reports =
                lock(&self.controller).receive(self.guest, &buffer[..n], now_us, &mut out, &mut events);
            stream.write_all(&out)?;
            out.clear();
            events.drain(..).for_each(|e| self.say(Happening::Guest(e)));
            // what comes faster than this waits in the port
            thread::sleep(Duration::from_secs(1) * reports as u32 / REPORTS_PS_MOST);
        }
        stream.write_all(&goodbye())
    }
}
