//! Plays the virtual machine between a guest's port and its host's: two sockets, and what can go wrong between them.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// How often the threads look up.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct State {
    guest: Mutex<Option<UnixStream>>,
    host: Mutex<Option<UnixStream>>,
    is_stalled: AtomicBool,
    is_over: AtomicBool,
}

/// A port. The guest's socket is there as long as it lives, the host's too.
#[derive(Debug)]
pub struct Relay {
    state: Arc<State>,
    guest: PathBuf,
    host: PathBuf,
}

impl Relay {
    pub fn start(folder: &Path, name: &str) -> Relay {
        let state = Arc::new(State::default());
        let paths = [folder.join(format!("{name}.guest")), folder.join(format!("{name}.sock"))];
        for (is_guest, path) in [true, false].into_iter().zip(&paths) {
            let listener = UnixListener::bind(path).expect("a writable folder");
            let state = state.clone();
            thread::spawn(move || listener.incoming().try_for_each(|s| accept(&state, is_guest, s.ok()?)));
        }
        let [guest, host] = paths;
        Relay { state, guest, host }
    }

    /// What the agent opens.
    pub fn guest_path(&self) -> &str {
        self.guest.to_str().expect("UTF-8")
    }

    /// What the controller opens.
    pub fn host_path(&self) -> &str {
        self.host.to_str().expect("UTF-8")
    }

    /// Nothing gets through any more, or does again; what was sent meanwhile comes late.
    pub fn stall(&self, is_stalled: bool) {
        self.state.is_stalled.store(is_stalled, Ordering::Relaxed);
    }

    /// Sends something to the guest that the host did not.
    pub fn say_to_guest(&self, bytes: &[u8]) {
        let mut guest = self.state.guest.lock().expect("no panics while held");
        guest.as_mut().expect("the agent is there").write_all(bytes).expect("it reads");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // so that the listeners look up
        let _ = (UnixStream::connect(&self.guest), UnixStream::connect(&self.host));
    }
}

/// A program has come to one side; carries what it sends to the other for as long as it is there.
fn accept(state: &Arc<State>, is_guest: bool, stream: UnixStream) -> Option<()> {
    if state.is_over.load(Ordering::Relaxed) {
        return None;
    }
    stream.set_read_timeout(Some(LOOK)).ok()?;
    let mut from = stream.try_clone().ok()?;
    let (own, other) = if is_guest { (&state.guest, &state.host) } else { (&state.host, &state.guest) };
    *own.lock().expect("no panics while held") = Some(stream);
    let mut buffer = [0; 4096];
    loop {
        if state.is_over.load(Ordering::Relaxed) {
            return None;
        }
        if state.is_stalled.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            continue;
        }
        match from.read(&mut buffer) {
            Ok(n) if n > 0 => {
                if let Some(to) = other.lock().expect("no panics while held").as_mut() {
                    // it may just have gone
                    let _ = to.write_all(&buffer[..n]);
                }
            }
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            _ => break,
        }
    }
    *own.lock().expect("no panics while held") = None;
    // the other side is notified, as a virtual machine notifies its guest
    if let Some(gone) = other.lock().expect("no panics while held").take() {
        let _ = gone.shutdown(std::net::Shutdown::Both);
    }
    Some(())
}
