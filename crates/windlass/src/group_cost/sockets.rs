//! What an acknowledgement costs a socket of the native home whose group is small or large. Connections run over the loopback
//! of a network namespace of their own: a server, which has our algorithm, sends a segment, its client answers with a byte,
//! which acknowledges it, and the kernel counts what the algorithm took (run-time statistics).
//!
//! One thread does all of it, so that no socket waits for a group's lock or for the queue in which all seats go round.

use super::kernel::Grouping;
use anyhow::{Context, Result, ensure};
use socket2::{Domain, Socket, Type};
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
};
use windlass_agent::{Coupling, Native, Policy, RunTimeStats, Selector, raise_limits, root_cgroup};
use windlass_core::GroupRule;
use windlass_lab::{
    Cgroup,
    netns::{Netns, next_run},
    own_prefix,
};

const SERVER: Ipv4Addr = Ipv4Addr::LOCALHOST;
const SEGMENT: usize = 1448;
/// So many clients have a rule, and so a group, of their own at least.
const GROUP_SOCKETS: usize = 10;

/// A home of its own with its sockets. What is dropped first comes first.
pub struct Load {
    /// Server and client of each connection.
    pairs: Vec<(TcpStream, TcpStream)>,
    next: usize,
    _selector: Selector,
    coupling: Coupling,
    native: Native,
    _cgroup: Cgroup,
    _netns: Netns,
    _statistics: RunTimeStats,
}

/// The client of connection `n`, by which the policy chooses its group.
fn client_of(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 66, (n / GROUP_SOCKETS) as u8, (n % GROUP_SOCKETS + 1) as u8)
}

/// Sockets stay in the cgroup in which they were made, and those of a listener are in its own. So this process goes there for a
/// moment.
fn in_cgroup<T>(cgroup: &Path, make: impl FnOnce() -> Result<T>) -> Result<T> {
    let go_to = |folder: &Path| {
        let file = folder.join("cgroup.procs");
        fs::write(&file, "0").with_context(|| file.display().to_string())
    };
    let home = home_cgroup()?;
    go_to(cgroup)?;
    let made = make();
    go_to(&home)?;
    made
}

fn home_cgroup() -> Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
    let path =
        text.lines().find_map(|l| l.strip_prefix("0::/")).context("this process is in no cgroup v2")?;
    Ok(root_cgroup()?.join(path))
}

fn connect(from: Ipv4Addr, to: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into()).with_context(|| from.to_string())?;
    socket.connect(&to.into()).with_context(|| to.to_string())?;
    Ok(socket.into())
}

impl Load {
    /// `sockets` connections with the algorithm "reno", all members of their groups of `rule`.
    pub fn new(rule: GroupRule, sockets: usize, grouping: Grouping) -> Result<Load> {
        raise_limits();
        let run = next_run();
        let netns = Netns::create(run, "bench")?;
        let cgroup = Cgroup::create(run, "bench")?;
        let native = Native::load(&own_prefix('b', run))?;
        let text: String = (0..sockets.div_ceil(GROUP_SOCKETS))
            .map(|i| {
                let group = match grouping {
                    Grouping::None => String::new(),
                    Grouping::Of(members) => {
                        let number = i * GROUP_SOCKETS / members;
                        format!("group = {{ name = \"{number}\", rule = \"{}\" }}\n", rule.name())
                    }
                };
                format!(
                    "[[rule]]\nname = \"{i}\"\nmode = \"native\"\nalgorithm = \"reno\"\n\
                     match = {{ cgroup = {:?}, client = \"127.66.{i}.0/24\" }}\n{group}",
                    cgroup.path()
                )
            })
            .collect();
        let policy = Policy::parse("bench", &text)?;
        let selector =
            Selector::attach(cgroup.path(), &policy, native.prefix(), Some(Coupling::of(&native)?))?;
        let pairs = netns.enter(|| {
            let listener = in_cgroup(cgroup.path(), || Ok(TcpListener::bind((SERVER, 0))?))?;
            let address = listener.local_addr()?;
            let pair = |n| {
                let client = connect(client_of(n), address)?;
                let (server, _) = listener.accept()?;
                server.set_nodelay(true)?;
                client.set_nodelay(true)?;
                Ok((server, client))
            };
            (0..sockets).map(pair).collect::<Result<Vec<_>>>()
        })?;
        let (statistics, coupling) = (RunTimeStats::enable()?, Coupling::of(&native)?);
        let mut load = Load {
            pairs,
            next: 0,
            _selector: selector,
            coupling,
            native,
            _cgroup: cgroup,
            _netns: netns,
            _statistics: statistics,
        };
        // each speaks often enough to have joined and to be through with its share
        load.mean_ns(8 * sockets)?;
        load.check(grouping)?;
        Ok(load)
    }

    /// Whether every socket is a member where it should be: else the numbers were those of something else.
    fn check(&self, grouping: Grouping) -> Result<()> {
        let groups = self.coupling.groups()?;
        let members: Vec<usize> = groups.iter().map(|g| g.members as usize).filter(|n| *n > 0).collect();
        let expected = match grouping {
            Grouping::None => vec![],
            Grouping::Of(n) => vec![n; self.pairs.len() / n],
        };
        ensure!(members == expected, "groups have {members:?} members, not {expected:?}");
        Ok(())
    }

    /// The next server sends a segment, and its client acknowledges it.
    fn report(&mut self) -> Result<()> {
        let n = self.next;
        self.next = (n + 1) % self.pairs.len();
        let (server, client) = &mut self.pairs[n];
        let mut segment = [0; SEGMENT];
        server.write_all(&segment)?;
        client.read_exact(&mut segment)?;
        client.write_all(&segment[..1])?;
        server.read_exact(&mut segment[..1])?;
        Ok(())
    }

    /// The mean of that many acknowledgements, of sockets in turn, in ns.
    pub fn mean_ns(&mut self, reports: usize) -> Result<f64> {
        let before = self.native.ack_run_time()?;
        (0..reports).try_for_each(|_| self.report())?;
        let after = self.native.ack_run_time()?;
        let runs = after.runs - before.runs;
        ensure!(runs >= reports as u64, "the algorithm was called {runs} times, not {reports}");
        Ok((after.run_ns - before.run_ns) as f64 / runs as f64)
    }
}
