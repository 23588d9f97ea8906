//! Agent and controller at their ports: two sockets with a cable between them, and a kernel that is made up.

use std::{
    io::{self, PipeReader, PipeWriter, Write},
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};
use windlass_core::GroupRule;
use windlass_guest::{
    Config, Controller, Result,
    agent::{self, Counts, Kernel},
    controller,
    port::Port,
    serve::{Happening, Place, Service},
    wire::{Op, Reply, Report, State},
};

/// Only so that a test that hangs does not hang for ever.
const LIMIT: Duration = Duration::from_secs(30);
const MSS: u32 = 1448;

/// What the agent did to the kernel.
#[derive(Debug, PartialEq, Eq)]
enum Act {
    Grant(Reply),
    Revoke,
}

/// Flows that say what the test has them say.
struct Script {
    reports: Receiver<Report>,
    readable: PipeReader,
    acts: Sender<Act>,
}

impl Kernel for Script {
    fn fd(&self) -> RawFd {
        self.readable.as_raw_fd()
    }

    fn reports(&mut self) -> Result<Vec<Report>> {
        Ok(self.reports.try_iter().collect())
    }

    fn grant(&mut self, reply: &Reply) -> Result<()> {
        self.acts.send(Act::Grant(*reply)).expect("the test listens");
        Ok(())
    }

    fn forget(&mut self, _flow: u64) -> Result<()> {
        Ok(())
    }

    fn revoke_all(&mut self) -> Result<()> {
        self.acts.send(Act::Revoke).expect("the test listens");
        Ok(())
    }
}

fn report(flow: u64, seq: u32, op: Op, cwnd_segs: u32) -> Report {
    Report {
        flow,
        seq,
        op,
        state: State::Avoidance,
        is_timeout: false,
        is_cwnd_limited: true,
        cwnd_bytes: cwnd_segs * MSS,
        ssthresh_bytes: cwnd_segs * MSS,
        srtt_us: 1000,
        mss_bytes: MSS,
        acked_bytes: 0,
        acks: 0,
        inflight_bytes: 0,
    }
}

/// A guest whose agent runs, and its port on the host.
struct Guest {
    say: Sender<Report>,
    wake: PipeWriter,
    acts: Receiver<Act>,
    is_over: Arc<AtomicBool>,
    agent: Option<thread::JoinHandle<Counts>>,
}

/// Carries bytes from one end to the other until one goes, and tells the other.
fn carry(from: &UnixStream, to: &UnixStream) {
    // however it ends, it has ended
    let _ = io::copy(&mut &*from, &mut &*to);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// As a virtual machine: the guest's end of the port stays, the host's comes and goes.
fn cable(guest: UnixListener, host: UnixListener) {
    thread::spawn(move || {
        while let (Ok((guest, _)), Ok((host, _))) = (guest.accept(), host.accept()) {
            thread::scope(|scope| {
                scope.spawn(|| carry(&guest, &host));
                carry(&host, &guest);
            });
        }
    });
}

impl Guest {
    fn start(folder: &Path, host: &Path) -> Guest {
        let path = folder.join("guest");
        cable(UnixListener::bind(&path).unwrap(), UnixListener::bind(host).unwrap());
        let ((say, reports), (acts_in, acts)) = (channel(), channel());
        let (readable, wake) = io::pipe().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let agent = thread::spawn(move || {
            let mut kernel = Script { reports, readable, acts: acts_in };
            let mut port = Port::new(&path).unwrap();
            let mut is_over = || over.load(Ordering::Relaxed);
            agent::run(&mut kernel, &mut port, &mut is_over, &mut |_| {}).unwrap()
        });
        Guest { say, wake, acts, is_over, agent: Some(agent) }
    }

    fn say(&mut self, report: Report) {
        self.say.send(report).unwrap();
        self.wake.write_all(&[0]).unwrap();
    }

    fn act(&self) -> Act {
        self.acts.recv_timeout(LIMIT).expect("the agent does something")
    }

    fn share_segs(&self) -> u32 {
        match self.act() {
            Act::Grant(reply) => reply.cwnd_bytes / MSS,
            other => panic!("{other:?}"),
        }
    }

    fn finish(mut self) -> Counts {
        self.is_over.store(true, Ordering::Relaxed);
        self.agent.take().unwrap().join().unwrap()
    }
}

fn start(place: &Place) -> (Service, Receiver<(usize, Happening)>) {
    let controller = Controller::new(Config::new(GroupRule::by_name("ccc").unwrap())).unwrap();
    let (tell, happenings) = channel();
    (Service::start(controller, std::slice::from_ref(place), &tell).unwrap(), happenings)
}

#[test]
fn shares_come_through_the_ports_and_end_with_the_controller() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place { path: folder.path().join("host"), name: "vm".into(), weight: 1 };
    let coupled = (0, Happening::Guest(controller::Event::Coupled));
    let mut guest = Guest::start(folder.path(), &place.path);
    let (service, happenings) = start(&place);
    assert_eq!(happenings.recv_timeout(LIMIT), Ok(coupled.clone()));

    guest.say(report(1, 1, Op::Register, 40));
    assert_eq!(guest.share_segs(), 40);
    guest.say(report(2, 1, Op::Register, 10));
    assert_eq!(guest.share_segs(), 20);
    guest.say(report(1, 2, Op::Update, 40));
    assert_eq!(guest.share_segs(), 20);
    assert_eq!(service.look().0[0].flows, 2);

    drop(service);
    assert_eq!(guest.act(), Act::Revoke);
    let (service, happenings) = start(&place);
    assert_eq!(happenings.recv_timeout(LIMIT), Ok(coupled));
    // both register again by themselves, with what they said last
    let shares = [guest.share_segs(), guest.share_segs()];
    assert_eq!(service.look().0[0].flows, 2, "{shares:?}");

    let counts = guest.finish();
    assert_eq!((counts.reports, counts.grants, counts.alone), (3, 5, 1));
    assert_eq!(happenings.recv_timeout(LIMIT), Ok((0, Happening::Guest(controller::Event::Ended))));
}
