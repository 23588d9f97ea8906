//! The virtual machine: what it boots, and commands for it.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};
use windlass_lab::netns::Netns;
use windlass_tests::{is_root, windlass_path};

const QEMU: &str = "qemu-system-x86_64";
const MEMORY_MIB: &str = "1024";
/// Much longer than any command takes on a busy machine; only so that a guest that hangs does not hang the tests.
const ANSWER_LIMIT: Duration = Duration::from_secs(180);
/// image.sh: this machine cannot make the image.
const CANNOT: i32 = 77;

/// The kernel that guests have if none is named: the oldest that is supported.
const OLDEST: &str = "6.1";

/// The kernel that guests have: a release, or a folder with another.
fn kernel() -> String {
    env::var("WINDLASS_VM_KERNEL").unwrap_or_else(|_| OLDEST.into())
}

/// Whether that is a newer one than Debian 12's.
pub fn has_other_kernel() -> bool {
    kernel() != OLDEST
}

/// Kernel and root of the guest.
#[derive(Debug)]
pub struct Image {
    folder: PathBuf,
    /// An emulated processor takes a real one. Tests of one guest take turns by as many as cargo runs at once; a test
    /// that compares two guests has the machine alone.
    machine: RwLock<()>,
}

impl Image {
    /// For a test of one guest.
    pub fn get_or_skip(test: &str) -> Option<(&'static Image, RwLockReadGuard<'static, ()>)> {
        let image = Image::made_or_skip(test)?;
        Some((image, image.machine.read().unwrap_or_else(|e| e.into_inner())))
    }

    /// For a test that compares guests.
    pub fn get_alone_or_skip(test: &str) -> Option<(&'static Image, RwLockWriteGuard<'static, ()>)> {
        let image = Image::made_or_skip(test)?;
        Some((image, image.machine.write().unwrap_or_else(|e| e.into_inner())))
    }

    /// Makes the image, once for all tests. Where that cannot be done prints that `test` is skipped, and why, and
    /// returns none.
    fn made_or_skip(test: &str) -> Option<&'static Image> {
        static IMAGE: OnceLock<Result<Image, String>> = OnceLock::new();
        match IMAGE.get_or_init(Image::make) {
            Ok(image) => Some(image),
            Err(why) => {
                println!("skipped: {test}: {why}");
                None
            }
        }
    }

    fn make() -> Result<Image, String> {
        if !is_root() {
            return Err("needs root".into());
        }
        let kernel = kernel();
        let name = if Path::new(&kernel).is_absolute() { "other" } else { &kernel };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm").join(name);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("vm/image.sh");
        let mut make = Command::new(&script);
        let out = make.arg(&folder).arg(windlass_path()).arg(&kernel).output().expect("image.sh runs");
        let said = String::from_utf8_lossy(&out.stdout);
        match out.status.code() {
            Some(0) => Ok(Image { folder, machine: RwLock::new(()) }),
            Some(CANNOT) => Err(said.lines().last().unwrap_or_default().into()),
            _ => panic!("{}: {said}{}", script.display(), String::from_utf8_lossy(&out.stderr)),
        }
    }
}

/// A running virtual machine; ends when dropped.
#[derive(Debug)]
pub struct Guest {
    qemu: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
    kernel_log: PathBuf,
}

impl Guest {
    /// Boots a guest in the namespace `host`, which cleans up after tests that were killed. The guest's only network
    /// card is the other end of the tap `tap`, if there is one.
    pub fn boot(image: &Image, host: &Netns, tap: Option<&str>) -> Guest {
        Guest::boot_with(image, host, tap, &[])
    }

    /// As [`Guest::boot`], with a virtio-serial port that the host finds at `socket`.
    pub fn boot_with_port(image: &Image, host: &Netns, tap: &str, socket: &Path) -> Guest {
        let chardev = format!("socket,id=wl,path={},server=on,wait=off", socket.display());
        let port = "virtserialport,chardev=wl,name=org.windlass.0";
        let options = ["-device", "virtio-serial-pci", "-chardev", &chardev, "-device", port];
        Guest::boot_with(image, host, Some(tap), &options)
    }

    /// Boots a guest without network whose time is that of the instructions it runs, and leaps when it idles: what it
    /// measures does not depend on how busy this machine is.
    pub fn boot_in_own_time(image: &Image, host: &Netns) -> Guest {
        Guest::boot_with(image, host, None, &["-icount", "shift=1,sleep=off"])
    }

    fn boot_with(image: &Image, host: &Netns, tap: Option<&str>, options: &[&str]) -> Guest {
        let network = tap.map(|tap| format!("tap,id=net,ifname={tap},script=no,downscript=no"));
        let network =
            network.iter().flat_map(|n| ["-netdev", n, "-device", "virtio-net-pci,netdev=net,romfile="]);
        static LOGS: AtomicU32 = AtomicU32::new(0);
        let kernel_log = image.folder.join(format!("kernel{}.log", LOGS.fetch_add(1, Ordering::Relaxed)));
        let mut qemu = host
            .command(QEMU)
            .args(["-accel", "tcg", "-smp", "1", "-m", MEMORY_MIB])
            .args(["-nodefaults", "-display", "none", "-no-reboot"])
            .arg("-kernel")
            .arg(image.folder.join("vmlinuz"))
            .arg("-initrd")
            .arg(image.folder.join("initramfs"))
            .args(["-append", "console=ttyS0 panic=-1"])
            .arg("-serial")
            .arg(format!("file:{}", kernel_log.display()))
            .args(["-serial", "stdio"])
            .args(network)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect(QEMU);
        let commands = qemu.stdin.take().expect("piped");
        let lines = BufReader::new(qemu.stdout.take().expect("piped")).lines();
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || lines.map_while(|l| l.ok()).try_for_each(|line| sender.send(line)));
        let mut guest = Guest { qemu, commands, answers, kernel_log };
        // it reports so when it is ready for commands
        assert_eq!(guest.answer().1, 0);
        guest
    }

    /// Runs a line of shell in the guest, which must succeed; returns what it prints.
    pub fn run(&mut self, line: &str) -> String {
        writeln!(self.commands, "{line}").expect("the guest takes commands");
        let (said, status) = self.answer();
        assert_eq!(status, 0, "`{line}` in the guest: {said}");
        said
    }

    /// Writes a small file in the guest.
    pub fn write(&mut self, path: &str, text: &str) {
        assert!(!text.contains('\''), "cannot be quoted: {text}");
        let lines: Vec<String> = text.lines().map(|l| format!("'{l}'")).collect();
        self.run(&format!("printf '%s\\n' {} >{path}", lines.join(" ")));
    }

    /// Ends it as if the machine were switched off.
    pub fn kill(&mut self) {
        // it may have ended already; it holds nothing that must be saved
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }

    /// What the guest prints until it reports an exit status, and that status.
    fn answer(&mut self) -> (String, i32) {
        let mut said = String::new();
        loop {
            let line = self.answers.recv_timeout(ANSWER_LIMIT).unwrap_or_else(|e| {
                let log = fs::read_to_string(&self.kernel_log).unwrap_or_default();
                panic!("the guest does not answer ({e}); it said: {said}\nits kernel: {log}")
            });
            if let Some(status) = line.strip_prefix("status ") {
                return (said.trim().to_string(), status.trim().parse().expect("an exit status"));
            }
            said += &line;
            said.push('\n');
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}
