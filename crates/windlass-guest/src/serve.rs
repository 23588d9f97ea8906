//! The controller at its ports: a thread for each, so that a guest can hold up only itself.

use crate::{
    Controller, Error, GuestId, GuestInfo,
    connect::connect,
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
        mpsc::{Receiver, SyncSender, sync_channel},
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
/// What has happened and was not received yet; more is not reported.
const TOLD_MOST: usize = 1024;

/// A port and the guest behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Socket of the VM's chardev.
    pub path: PathBuf,
    /// What the guest is called in reports.
    pub name: String,
    /// What all its flows weigh together.
    pub weight: u32,
}

impl Place {
    /// A guest's place; its name is that of the port's file unless it is given.
    pub fn new(path: &str, name: Option<String>, weight: u32) -> Place {
        let path = PathBuf::from(path);
        let stem = || path.file_stem().map(|s| s.to_string_lossy().into_owned());
        Place { name: name.or_else(stem).unwrap_or_default(), path, weight }
    }

    /// The one of these that has the same name or port.
    pub fn in_the_way<'a>(&self, others: &'a [Place]) -> Option<&'a Place> {
        others.iter().find(|p| p.name == self.name || p.path == self.path)
    }
}

/// Something that happened at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// See [`Event`].
    Guest(Event),
    /// The port could not be opened, for this reason: its VM may not run yet. It is tried until it can.
    Awaited(String),
    /// The VM, or the process that holds the port, is gone; its flows left the group.
    Gone,
    /// Its port is served from now on.
    Added,
    /// Its port is not served any more.
    Removed,
    /// Its weight is another one from now on.
    Weight(u32),
}

/// A guest's name, and what happened to it.
pub type Told = (String, Happening);

/// For [`Service::start`]. Guests may do more than is worth reporting: what is reported beyond some is lost.
pub fn happenings() -> (SyncSender<Told>, Receiver<Told>) {
    sync_channel(TOLD_MOST)
}

/// A controller at work. Dropped, it ends the sessions of all guests.
#[derive(Debug)]
pub struct Service {
    controller: Arc<Mutex<Controller>>,
    served: Vec<Served>,
    started: Instant,
    tell: SyncSender<Told>,
}

/// A port that is served.
#[derive(Debug)]
struct Served {
    place: Place,
    guest: GuestId,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Can the path be the port's? It may be that the VM is not there yet.
fn check(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(m) if !m.file_type().is_socket() => Err(Error::NotASocket(path.into())),
        Err(why) if why.kind() != ErrorKind::NotFound => Err(Error::Io { path: path.into(), why }),
        _ => Ok(()),
    }
}

impl Service {
    /// Serves all places; `tell` is called with what happens, and to which guest.
    pub fn start(controller: Controller, places: &[Place], tell: &SyncSender<Told>) -> Result<Service> {
        for place in places {
            check(&place.path)?;
        }
        let controller = Arc::new(Mutex::new(controller));
        let mut service =
            Service { controller, served: Vec::new(), started: Instant::now(), tell: tell.clone() };
        places.iter().for_each(|p| service.add(p));
        Ok(service)
    }

    fn add(&mut self, place: &Place) {
        let guest = lock(&self.controller).add_guest(&place.name, place.weight);
        let stop = Arc::new(AtomicBool::new(false));
        let server = Server {
            name: place.name.clone(),
            guest,
            path: place.path.clone(),
            controller: self.controller.clone(),
            stop: stop.clone(),
            started: self.started,
            tell: self.tell.clone(),
        };
        let thread = thread::spawn(move || server.run());
        self.served.push(Served { place: place.clone(), guest, stop, thread });
    }

    /// Serves these places from now on: weights change under way, those that are missing are let go, new ones come in.
    /// On an error nothing has changed.
    pub fn set_places(&mut self, places: &[Place]) -> Result<()> {
        for place in places {
            check(&place.path)?;
        }
        let is_same = |s: &Served, p: &Place| s.place.name == p.name && s.place.path == p.path;
        let (kept, gone): (Vec<Served>, Vec<Served>) =
            self.served.drain(..).partition(|s| places.iter().any(|p| is_same(s, p)));
        self.served = kept;
        let names: Vec<(GuestId, String)> = gone.iter().map(|s| (s.guest, s.place.name.clone())).collect();
        stop(gone);
        for (guest, name) in names {
            lock(&self.controller).remove_guest(guest);
            say(&self.tell, &name, Happening::Removed);
        }
        for place in places {
            match self.served.iter_mut().find(|s| is_same(s, place)) {
                None => {
                    self.add(place);
                    say(&self.tell, &place.name, Happening::Added);
                }
                Some(served) if served.place.weight != place.weight => {
                    served.place.weight = place.weight;
                    lock(&self.controller).set_weight(served.guest, place.weight);
                    say(&self.tell, &place.name, Happening::Weight(place.weight));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// All guests, and the group's own window in bytes.
    pub fn look(&self) -> (Vec<GuestInfo>, u64) {
        let controller = lock(&self.controller);
        (controller.guests(), controller.sum_cwnd_bytes())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        stop(self.served.drain(..).collect());
    }
}

fn stop(all: Vec<Served>) {
    all.iter().for_each(|s| s.stop.store(true, Ordering::Relaxed));
    for served in all {
        // a panic in it has been reported; there is nothing left to save
        let _ = served.thread.join();
    }
}

fn say(tell: &SyncSender<Told>, name: &str, what: Happening) {
    // no thread receives any more, as the program stops; or not fast enough: the counts show it
    let _ = tell.try_send((name.into(), what));
}

fn lock(controller: &Mutex<Controller>) -> MutexGuard<'_, Controller> {
    controller.lock().expect("no panics while held")
}

struct Server {
    name: String,
    guest: GuestId,
    path: PathBuf,
    controller: Arc<Mutex<Controller>>,
    stop: Arc<AtomicBool>,
    started: Instant,
    tell: SyncSender<Told>,
}

impl Server {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn say(&self, what: Happening) {
        say(&self.tell, &self.name, what);
    }

    fn run(&self) {
        // of one that went away it is reported that it is gone, and no more
        let mut was_told = false;
        while !self.is_over() {
            match connect(&self.path) {
                Ok(mut stream) => {
                    was_told = true;
                    // the guest, or the VM, may go at any time: that is no error
                    let _ = self.serve(&mut stream);
                    lock(&self.controller).disconnected(self.guest);
                    if !self.is_over() {
                        self.say(Happening::Gone);
                        // or a program that takes and drops connections would have a processor for itself
                        self.rest(LOOK);
                    }
                }
                Err(why) => {
                    if !was_told {
                        was_told = true;
                        self.say(Happening::Awaited(format!("{}: {why}", self.path.display())));
                    }
                    thread::sleep(LOOK);
                }
            }
        }
    }

    /// Sleeps, but not beyond the end.
    fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(LOOK));
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
            let cost =
                lock(&self.controller).receive(self.guest, &buffer[..n], now_us, &mut out, &mut events);
            stream.write_all(&out)?;
            out.clear();
            events.drain(..).for_each(|e| self.say(Happening::Guest(e)));
            // what comes faster than this waits in the port
            self.rest(Duration::from_secs(1) * cost as u32 / REPORTS_PS_MOST);
        }
        stream.write_all(&goodbye())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::os::unix::net::UnixListener;
    use windlass_core::GroupRule;

    #[test]
    fn a_port_that_drops_its_controller_is_not_tried_again_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("port");
        let listener = UnixListener::bind(&path).expect("a socket");
        let config = Config::new(GroupRule::by_name("ccc").expect("a rule"));
        let place = Place::new(path.to_str().expect("UTF-8"), None, 1);
        let (tell, _told) = happenings();
        let started = Instant::now();
        let service =
            Service::start(Controller::new(config).expect("a controller"), &[place], &tell).expect("it runs");
        (0..4).for_each(|_| drop(listener.accept().expect("a controller")));
        assert!(started.elapsed() >= 3 * LOOK, "four connections in {:?}", started.elapsed());
        drop(service);
    }
}
