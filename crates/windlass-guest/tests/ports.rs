//! Agent and controller at their ports: two sockets with a cable between them, and a kernel that is made up.

mod common;

use common::MSS;
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
    serve::{Happening, Place, Service, Told, happenings},
    wire::{Message, Op, Reply, Report, State, encode},
};

/// Only so that a test that hangs does not hang for ever.
const LIMIT: Duration = Duration::from_secs(30);
/// A flow for whose answers the kernel has no memory.
const NO_MEMORY: u64 = 666;

/// What the agent did to the kernel.
#[derive(Debug, PartialEq, Eq)]
enum Act {
    Grant(Reply),
    Revoke,
}

/// Flows that report what the test has them report.
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

    fn grant(&mut self, reply: &Reply) -> Result<bool> {
        // a test that has seen enough does not listen any more
        let _ = self.acts.send(Act::Grant(*reply));
        Ok(reply.flow != NO_MEMORY)
    }

    fn forget(&mut self, _flow: u64) -> Result<()> {
        Ok(())
    }

    fn revoke_all(&mut self) -> Result<()> {
        let _ = self.acts.send(Act::Revoke);
        Ok(())
    }
}

/// Round trips of a millisecond, and nothing acknowledged or in flight.
fn report(flow: u64, seq: u32, op: Op, cwnd_segs: u32) -> Report {
    let quiet = common::report(flow, seq, op, cwnd_segs);
    Report { srtt_us: 1000, acked_bytes: 0, acks: 0, inflight_bytes: 0, ..quiet }
}

/// A guest whose agent runs, and its port on the host.
struct Guest {
    say: Sender<Report>,
    wake: PipeWriter,
    acts: Receiver<Act>,
    is_over: Arc<AtomicBool>,
    agent: Option<thread::JoinHandle<Counts>>,
}

/// Carries bytes from one end to the other until one goes, and closes the other.
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
    fn start(host: &Path) -> Guest {
        let path = host.with_extension("guest");
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

    /// Its flow 1 begins the group, and grows to so many segments.
    fn found(&mut self, segs: u32) {
        self.say(report(1, 1, Op::Register, segs));
        let mut share = self.share_segs();
        while share < segs {
            self.say(Report { state: State::SlowStart, ..report(1, 1, Op::Update, 2 * share) });
            share = self.share_segs();
        }
    }

    fn finish(mut self) -> Counts {
        self.is_over.store(true, Ordering::Relaxed);
        self.agent.take().unwrap().join().unwrap()
    }
}

fn start(places: &[Place]) -> (Service, Receiver<Told>) {
    let controller = Controller::new(Config::new(GroupRule::by_name("ccc").unwrap())).unwrap();
    let (tell, happenings) = happenings();
    (Service::start(controller, places, &tell).unwrap(), happenings)
}

fn place(folder: &Path, name: &str, weight: u32) -> Place {
    Place { path: folder.join(name), name: name.into(), weight }
}

#[test]
fn shares_come_through_the_ports_and_end_with_the_controller() {
    let folder = tempfile::tempdir().unwrap();
    let places = [place(folder.path(), "vm", 1)];
    let coupled = ("vm".to_string(), Happening::Guest(controller::Event::Coupled));
    let mut guest = Guest::start(&places[0].path);
    let (service, happenings) = start(&places);
    assert_eq!(happenings.recv_timeout(LIMIT), Ok(coupled.clone()));

    guest.say(report(1, 1, Op::Register, 10));
    assert_eq!(guest.share_segs(), 10);
    guest.say(report(2, 1, Op::Register, 10));
    assert_eq!(guest.share_segs(), 5);
    guest.say(report(1, 2, Op::Update, 10));
    assert_eq!(guest.share_segs(), 5);
    assert_eq!(service.look().0[0].flows, 2);

    drop(service);
    assert_eq!(guest.act(), Act::Revoke);
    let (service, happenings) = start(&places);
    assert_eq!(happenings.recv_timeout(LIMIT), Ok(coupled));
    // both register again by themselves, with what they reported last
    let shares = [guest.share_segs(), guest.share_segs()];
    assert_eq!(service.look().0[0].flows, 2, "{shares:?}");

    let counts = guest.finish();
    assert_eq!((counts.reports, counts.grants, counts.alone), (3, 5, 1));
    assert_eq!(happenings.recv_timeout(LIMIT), Ok(("vm".into(), Happening::Guest(controller::Event::Ended))));
}

/// A program that writes without end does not keep the agent from its flows; nor does a share that the kernel does not take end it.
#[test]
fn an_agent_goes_on_beside_a_host_that_writes_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vm");
    let mut guest = Guest::start(&path);
    let (service, _happenings) = start(&[place(folder.path(), "vm", 1)]);
    for (flow, taken) in [(NO_MEMORY, 0), (1, 1)] {
        guest.say(report(flow, 1, Op::Register, 10));
        assert_eq!(guest.share_segs(), if taken == 1 { 5 } else { 10 });
    }
    drop(service);
    assert_eq!(guest.act(), Act::Revoke);
    let mut port = UnixStream::connect(&path).unwrap();
    let (flows, is_flowing) = channel();
    let flood = thread::spawn(move || {
        // what is left of an earlier session, and ends none
        let mut welcome = Vec::new();
        encode(1, &Message::Welcome, &mut welcome);
        let much = welcome.repeat(1 << 16);
        // the first of it is more than the ports on the way hold
        (0..4).for_each(|_| port.write_all(&much).unwrap());
        flows.send(()).unwrap();
        // until the agent has gone
        while port.write_all(&much).is_ok() {}
    });
    is_flowing.recv_timeout(LIMIT).unwrap();
    let counts = guest.finish();
    assert_eq!((counts.grants, counts.not_taken), (1, 1));
    flood.join().unwrap();
}

#[test]
fn a_port_that_is_not_there_yet_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let places = [place(folder.path(), "vm", 1)];
    let (_service, happenings) = start(&places);
    let (name, what) = happenings.recv_timeout(LIMIT).unwrap();
    assert_eq!(name, "vm");
    assert!(matches!(&what, Happening::Awaited(why) if why.contains("/vm: No such file")), "{what:?}");
    let _guest = Guest::start(&places[0].path);
    let coupled = Happening::Guest(controller::Event::Coupled);
    assert_eq!(happenings.recv_timeout(LIMIT), Ok(("vm".to_string(), coupled)));
}

/// The port of a guest that floods it takes no more than a read or two, and the others are served.
#[test]
fn a_guest_that_floods_its_port_waits() {
    let folder = tempfile::tempdir().unwrap();
    let places = [place(folder.path(), "flood", 1), place(folder.path(), "vm", 1)];
    let listener = UnixListener::bind(&places[0].path).unwrap();
    let mut guest = Guest::start(&places[1].path);
    let (service, happenings) = start(&places);
    let (mut port, _) = listener.accept().unwrap();
    port.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut hello = Vec::new();
    encode(1, &Message::Hello, &mut hello);
    // four thousand of them, which are good for forty seconds
    let flood = hello.repeat(4096);
    let mut taken = 0;
    while let Ok(n) = port.write(&flood) {
        taken += n;
        assert!(taken < 4 << 20, "the port takes whatever comes");
    }
    guest.say(report(1, 1, Op::Register, 10));
    assert_eq!(guest.share_segs(), 10);
    // which waits for no host
    drop(service);
    let told = happenings.try_iter().filter(|(name, _)| name == "flood").count();
    assert!(told < 100, "{told} times");
}

/// What a guest's only flow is granted when it reports that nothing is new.
fn share(guest: &mut Guest, seq: &mut u32, segs: u32) -> u32 {
    *seq += 1;
    guest.say(report(1, *seq, Op::Update, segs));
    guest.share_segs()
}

#[test]
fn weights_and_guests_change_while_flows_run() {
    let folder = tempfile::tempdir().unwrap();
    let places = |weights: &[(&str, u32)]| -> Vec<Place> {
        weights.iter().map(|(name, weight)| place(folder.path(), name, *weight)).collect()
    };
    let first = places(&[("a", 1), ("b", 1)]);
    let mut guests = [0, 1].map(|n| Guest::start(&first[n].path));
    let (mut service, happenings) = start(&first);
    for _ in 0..2 {
        let (_, what) = happenings.recv_timeout(LIMIT).unwrap();
        assert_eq!(what, Happening::Guest(controller::Event::Coupled));
    }
    let [a, b] = &mut guests;
    let (mut a_seq, mut b_seq) = (1, 1);
    a.found(40);
    b.say(report(1, 1, Op::Register, 10));
    assert_eq!(b.share_segs(), 20);
    assert_eq!(share(a, &mut a_seq, 40), 20);

    let mut had = [20, 20];
    for (weight, shares) in [(4, [8, 32]), (1, [20, 20]), (3, [10, 30])] {
        service.set_places(&places(&[("a", 1), ("b", weight)])).unwrap();
        assert_eq!(happenings.recv_timeout(LIMIT), Ok(("b".into(), Happening::Weight(weight))));
        assert_eq!([share(a, &mut a_seq, had[0]), share(b, &mut b_seq, had[1])], shares);
        had = shares;
        assert_eq!(service.look().0[1].weight, weight);
    }

    // what cannot be a port changes nothing
    std::fs::write(folder.path().join("file"), "").unwrap();
    let e = service.set_places(&places(&[("a", 7), ("file", 1)])).unwrap_err();
    assert!(e.to_string().contains("no socket"), "{e}");
    assert_eq!(service.look().0[0].weight, 1);

    // a guest that is let go leaves its window to the others, and receives the end
    service.set_places(&places(&[("a", 1)])).unwrap();
    assert_eq!(b.act(), Act::Revoke);
    assert_eq!(share(a, &mut a_seq, 10), 40);
    let names: Vec<String> = service.look().0.into_iter().map(|g| g.name).collect();
    assert_eq!(names, ["a"]);

    // and may come back
    service.set_places(&places(&[("a", 1), ("b", 1)])).unwrap();
    assert_eq!(b.share_segs(), 20);
    drop(service);
}
