//! A controller whose file of guests goes wrong, and whose output is not read.

use std::{
    ffi::CString,
    fs,
    io::Read,
    os::fd::{AsRawFd, FromRawFd},
    path::Path,
    process::Stdio,
};
use windlass_tests::{process::Process, windlass};

/// Renamed into place: the controller must never read half a file.
fn put(folder: &Path, text: &str) {
    let draft = folder.join("draft.toml");
    fs::write(&draft, text).unwrap();
    fs::rename(&draft, folder.join("guests.toml")).unwrap();
}

/// An event each time that the file has been read from now on.
fn reads_of(file: &Path) -> fs::File {
    let path = CString::new(file.to_str().unwrap()).unwrap();
    // SAFETY: the path outlives the call, and the descriptor is ours.
    unsafe {
        let events = fs::File::from_raw_fd(libc::inotify_init());
        assert!(libc::inotify_add_watch(events.as_raw_fd(), path.as_ptr(), libc::IN_CLOSE_NOWRITE) >= 0);
        events
    }
}

fn guest(name: &str) -> String {
    format!("[[guest]]\nport = \"/nonexistent/{name}.sock\"\nname = \"{name}\"\n")
}

#[test]
fn a_file_of_guests_that_went_wrong_is_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &guest("a"));
    let file = folder.path().join("guests.toml");
    let controller = Process::start(windlass().args(["controller", "--json", "--guests"]).arg(file));
    controller.event("started");
    put(folder.path(), "guest = 7\n");
    let complaint = controller.event("complaint");
    let why = complaint["why"].as_str().unwrap();
    assert!(why.contains("guests.toml:1") && why.contains("the guests in force stay"), "{why}");
    controller.finish("stopped");
}

#[test]
fn a_controller_goes_on_where_its_complaints_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &guest("a"));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = windlass();
    let file = folder.path().join("guests.toml");
    command.args(["controller", "--guests"]).arg(&file);
    let mut controller =
        Process::start_as_is(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full));
    controller.says("1 port(s)");
    put(folder.path(), "guest = 7\n");
    let mut reads = reads_of(&file);
    controller.signal(libc::SIGHUP);
    reads.read_exact(&mut [0; size_of::<libc::inotify_event>()]).unwrap();
    put(folder.path(), &(guest("a") + &guest("b")));
    controller.says("b: added");
    assert!(controller.end(libc::SIGTERM).success());
}
