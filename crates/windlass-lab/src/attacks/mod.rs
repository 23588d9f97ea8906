//! Hosts that break the rules of TCP, to measure what other connections lose beside them. Each attack is a file here; it is made
//! of raw frames and bounded in connections, rate and time.

mod clients;
mod dsack;
mod forged;
pub mod frame;
mod handshake_only;
mod optimistic_acks;
mod reneging;
mod sack_everything;
mod sack_random;
mod silent;
mod slow_readers;
mod small_packets;
mod socket;
mod syn_flood;

pub use socket::Port;
pub use syn_flood::{NETWORK as FLOOD_NETWORK, SYNS_PS};

use crate::{panic_message::panic_message, stop::check_stopped};
use anyhow::{Context, Result, anyhow, ensure};
use clients::Behaviour;
use socket::PacketSocket;
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// No attack lasts longer.
const LONGEST: Duration = Duration::from_secs(60);
/// Connections of an attack that get no answer do not keep it from being judged.
const READY_LIMIT: Duration = Duration::from_secs(12);
/// As that of the emulated links, which are not of the hosts' processors either.
const NICE: libc::c_int = -10;
const LOOK: Duration = Duration::from_millis(10);

/// What is done to a server, or in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Requests, and no ACK ever.
    Silent,
    /// Handshakes, and nothing more.
    HandshakeOnly,
    /// A byte every two seconds, in tiny windows.
    SlowReaders,
    /// ACKs of data that have not arrived.
    OptimisticAcks,
    /// SACK of everything but the first segment, which is never acknowledged.
    SackEverything,
    /// Four SACK blocks at random with each ACK, at a high rate.
    SackRandom,
    /// SACK blocks that are taken back.
    Reneging,
    /// Pretended losses, and DSACKs of their retransmissions.
    DsackForgery,
    /// A tiny MSS, an ACK for each segment, data of one byte.
    SmallPackets,
    /// SYNs from addresses that do not exist.
    SynFlood,
    /// A neighbour of the servers that forges segments in their name.
    ForgedNeighbours,
    /// A host somewhere in the network that forges segments in the clients' name.
    ForgedClients,
}

impl Attack {
    /// All of them.
    pub const ALL: [Attack; 12] = [
        Attack::Silent,
        Attack::HandshakeOnly,
        Attack::SlowReaders,
        Attack::OptimisticAcks,
        Attack::SackEverything,
        Attack::SackRandom,
        Attack::Reneging,
        Attack::DsackForgery,
        Attack::SmallPackets,
        Attack::SynFlood,
        Attack::ForgedNeighbours,
        Attack::ForgedClients,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Attack::Silent => "silent",
            Attack::HandshakeOnly => "handshake-only",
            Attack::SlowReaders => "slow-readers",
            Attack::OptimisticAcks => "optimistic-acks",
            Attack::SackEverything => "sack-everything",
            Attack::SackRandom => "sack-random",
            Attack::Reneging => "reneging",
            Attack::DsackForgery => "dsack-forgery",
            Attack::SmallPackets => "small-packets",
            Attack::SynFlood => "syn-flood",
            Attack::ForgedNeighbours => "forged-neighbours",
            Attack::ForgedClients => "forged-clients",
        }
    }

    /// Whether it comes from a neighbour of the servers, not from a host in the network.
    pub fn is_neighbour(self) -> bool {
        self == Attack::ForgedNeighbours
    }

    /// Whether it forges segments of the victims' own connections.
    pub fn forges(self) -> bool {
        matches!(self, Attack::ForgedNeighbours | Attack::ForgedClients)
    }

    fn behaviour(self) -> Option<Box<dyn Behaviour>> {
        Some(match self {
            Attack::Silent => Box::new(silent::Silent),
            Attack::HandshakeOnly => Box::new(handshake_only::HandshakeOnly),
            Attack::SlowReaders => Box::new(slow_readers::SlowReaders::new()),
            Attack::OptimisticAcks => Box::new(optimistic_acks::OptimisticAcks::new()),
            Attack::SackEverything => Box::new(sack_everything::SackEverything),
            Attack::SackRandom => Box::new(sack_random::SackRandom::new()),
            Attack::Reneging => Box::new(reneging::Reneging::new()),
            Attack::DsackForgery => Box::new(dsack::DsackForgery::new()),
            Attack::SmallPackets => Box::new(small_packets::SmallPackets::new()),
            Attack::SynFlood | Attack::ForgedNeighbours | Attack::ForgedClients => return None,
        })
    }

    /// Connections that a server should have room for.
    pub fn connections(self) -> usize {
        self.behaviour().map_or(0, |behaviour| behaviour.plan().connections)
    }
}

/// A connection of other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its server.
    pub server: SocketAddrV4,
    /// Its client.
    pub client: SocketAddrV4,
}

/// What an attack is about.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The server that is attacked.
    pub target: SocketAddrV4,
    /// The file of it that clients request.
    pub file: String,
    /// The first address that clients of the attacker may have; its host has none of them.
    pub first_address: Ipv4Addr,
    /// Connections that are forged; at least one.
    pub victims: Vec<Victim>,
    /// Seed of all that is chosen at random.
    pub seed: u64,
}

/// What an attack came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Frames sent.
    pub sent: u64,
    /// Frames of the attacked server that arrived.
    pub received: u64,
    /// Handshakes completed.
    pub established: u64,
    /// Connections that the server reset.
    pub resets: u64,
    /// How long it lasted.
    pub seconds: f64,
}

/// What the attack's thread and its caller share.
#[derive(Debug, Default)]
struct Control {
    is_stopped: AtomicBool,
    is_ready: AtomicBool,
}

impl Control {
    fn is_over(&self, began: Instant) -> bool {
        self.is_stopped.load(Ordering::Relaxed) || began.elapsed() > LONGEST
    }
}

/// An attack that goes on. Dropped, it ends.
#[derive(Debug)]
pub struct Running {
    control: Arc<Control>,
    thread: Option<JoinHandle<Result<Tally>>>,
}

/// An attacker has a machine of its own: its rate does not depend on what else this one does.
fn take_precedence() {
    // SAFETY: of the calling thread only; no pointers. Where it is not allowed the rate is lower, which is reported.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as _, NICE) };
}

impl Running {
    /// Begins an attack at that port.
    pub fn start(attack: Attack, stage: &Stage, port: &Port) -> Result<Running> {
        ensure!(!stage.victims.is_empty(), "{}: no connections to forge", attack.name());
        let socket = PacketSocket::open(port)?;
        let (control, stage) = (Arc::<Control>::default(), stage.clone());
        let shared = control.clone();
        let play = move || {
            take_precedence();
            match attack.behaviour() {
                Some(behaviour) => clients::play(behaviour, &stage, socket, &shared),
                None if attack == Attack::SynFlood => syn_flood::play(&stage, socket, &shared),
                None => forged::play(&stage, socket, attack.is_neighbour(), &shared),
            }
        };
        let thread = thread::Builder::new().name("attack".into()).spawn(play).context("starting a thread")?;
        Ok(Running { control, thread: Some(thread) })
    }

    /// Waits until it has its full effect, or has had the time for it; gives up once `cancel` is set.
    ///
    /// # Errors
    /// It has failed, or `cancel` is set.
    pub fn wait_until_ready(&mut self, cancel: Option<&AtomicBool>) -> Result<()> {
        let end = Instant::now() + READY_LIMIT;
        while !self.control.is_ready.load(Ordering::Relaxed) && Instant::now() < end {
            check_stopped(cancel)?;
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return self.end().map(|_| ());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Stops it.
    pub fn finish(mut self) -> Result<Tally> {
        self.end()
    }

    fn end(&mut self) -> Result<Tally> {
        self.control.is_stopped.store(true, Ordering::Relaxed);
        let ended = self.thread.take().context("an attack ends once")?.join();
        ended.map_err(|why| anyhow!("the attack panicked: {}", panic_message(&*why)))?
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // what it came to is of no interest any more
            let _ = self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_attack_has_a_name_of_its_own_and_few_enough_connections() {
        let names: BTreeSet<&str> = Attack::ALL.iter().map(|attack| attack.name()).collect();
        assert_eq!(names.len(), Attack::ALL.len());
        for attack in Attack::ALL {
            assert!(attack.connections() <= 40_000, "{}", attack.name());
        }
    }
}
