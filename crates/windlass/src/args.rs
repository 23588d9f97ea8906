//! What can be typed.

mod fleet;

pub use fleet::{EtcdArgs, FleetCommand, NodeArgs, RolloutArgs};

use crate::{algorithm::AlgorithmName, flows::COLUMNS};
use anyhow::anyhow;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum, builder::PossibleValuesParser};
use std::{net::SocketAddr, path::PathBuf};
use windlass_experiments::{Seeds, Shard, Varied};
use windlass_scenario::{Buffer, Fraction, IN_REPORTS, Parameters, Rate, Span, Tunables, is_name};

/// Congestion control of TCP flows from outside their stacks.
#[derive(Debug, Parser)]
#[command(name = "windlass", version = env!("WINDLASS_VERSION"), about)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Control the servers behind one interface, or this kernel's own sockets, until Ctrl-C
    Attach(AttachArgs),
    /// Run a policy on all interfaces and cgroups it names; what it sets up outlives the agent
    Agent(AgentArgs),
    /// Release an interface or a cgroup that an agent left under control
    Detach {
        /// Interface to release
        iface: Option<String>,
        /// Release the sockets of this cgroup; those that are connected keep what they have
        #[arg(long, value_name = "FOLDER", conflicts_with_all = ["iface", "all"])]
        cgroup: Option<PathBuf>,
        /// Release every interface of this network namespace
        #[arg(long, conflicts_with = "iface")]
        all: bool,
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// List the flows under an agent's control, like `ss`
    Flows(FlowsArgs),
    /// Show what the datapaths under an agent's control have counted: above all, why packets passed unchanged
    Counters(CountersArgs),
    /// Show in one screen what is under control, since when, how many flows there are, what was refused, and what is wrong
    Status {
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print once, for Prometheus, what is under an agent's control and what was counted; `agent --metrics` serves the same
    Metrics {
        /// In the OpenMetrics format, instead of the older one that node_exporter reads from files
        #[arg(long)]
        openmetrics: bool,
    },
    /// Show in one screen why a flow is at its rate: what holds it back, and what to try
    Why(WhyArgs),
    /// Show what flows did: one record when each ended and one a minute before, as an agent with --records writes them
    Records {
        /// Folder that the agent writes them to
        #[arg(value_name = "DIR", default_value = RECORDS)]
        folder: PathBuf,
        /// Also those that come, until Ctrl-C
        #[arg(long)]
        follow: bool,
        /// One JSON document a record, as docs/records.md has it
        #[arg(long)]
        json: bool,
    },
    /// Show it live in a browser: totals, flows, one flow and what holds it back, groups, counters
    ///
    /// A process without capabilities, which asks the agent of this network namespace once or twice a second while it has viewers.
    /// docs/web.md has its paths.
    Web(WebArgs),
    /// Give one flow another algorithm than its rule's, while it runs
    ///
    /// It keeps it as long as it lasts, whatever becomes of agent and policy; a rule that ends control of the flow ends it
    /// nevertheless. A later connection of the same addresses has its rule's.
    Set(SetArgs),
    /// Watch the flows under an agent's control, with totals by rule; keys: s sorts, arrows scroll, q quits
    Top(TopArgs),
    /// List the congestion-control algorithms, or the constants of one that can be set
    ///
    /// Constants are set in a scenario ([parameters.bbr]), a sweep (--set parameters.bbr.startup_gain=2,2.5), a policy
    /// (parameters = { bbr = { startup_gain = 2.5 } }), and with --tune.
    Algs {
        /// Algorithm whose constants are listed
        #[arg(value_parser = AlgorithmName, hide_possible_values = true)]
        algorithm: Option<String>,
        /// One JSON document instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Check a policy, show how it was understood, or what another one changes
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Congestion control of this kernel's own sockets: the algorithms under names that any socket can choose
    #[command(subcommand)]
    Native(NativeCommand),
    /// Policies of many machines, by way of etcd: staged rollouts with guards, rollback, status
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// In a virtual machine: couple its flows with those of other machines, by the controller on its host, until Ctrl-C
    Guest(GuestArgs),
    /// On the host: divide one window among virtual machines by weight, whatever the number of their flows, until Ctrl-C
    Controller(ControllerArgs),
    /// Show what this kernel can do, and the cure for what it cannot; or whether all is well with an interface, and if not, why
    Doctor(DoctorArgs),
    /// Run a scenario, with real kernels or in a simulator
    Run(RunArgs),
    /// Run a scenario with every combination of some values, several seeds each
    Sweep(SweepArgs),
    /// Reproduce a published figure or table and check its claims
    Reproduce(ReproduceArgs),
    /// Show the main job in about a minute: CUBIC, native BBR, and CUBIC behind Windlass over a lossy WAN
    Demo {
        /// Folder for the report
        #[arg(long, default_value = "report/demo")]
        out: PathBuf,
        /// Show the box live in a browser, at this address; the demo begins when one has the page open
        #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = WEB)]
        web: Option<SocketAddr>,
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Measure the cost of the datapath or of groups, what attacks take from others, the speed of the simulator, or how exact
    /// emulated links are
    Bench {
        /// What to measure
        what: BenchWhat,
        /// Only loads of the datapath or the simulator, rules of groups, attacks, or measurements of links, whose name begins so
        #[arg(long, value_name = "NAME", default_value = "")]
        only: String,
        /// Of `datapath`: so many pairs of each load instead of 12, or 4 over a link that limits them; a pair takes some four
        /// seconds
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
        pairs: Option<u32>,
        /// Of `isolation`: one run of each instead of three, same bounds; about three minutes
        #[arg(long)]
        quick: bool,
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print shell completions
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Show the manual page, or that of a command, such as `windlass man policy check`
    ///
    /// On a terminal in $MANPAGER, else $PAGER, else less; otherwise the page as it is installed, for troff.
    Man {
        /// The command's words
        command: Vec<String>,
        /// Write all pages into this folder, as `man` finds them in /usr/local/share/man/man1
        #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
        install: Option<PathBuf>,
    },
}

impl Command {
    /// The options of its log, and whether documents for programs are on standard output.
    pub fn log(&self) -> (LogArgs, bool) {
        match self {
            Command::Attach(a) => (a.log.clone(), a.json),
            Command::Agent(a) => (a.log.clone(), a.json),
            Command::Guest(g) => (g.log.clone(), g.json),
            Command::Controller(c) => (c.log.clone(), c.json),
            Command::Web(w) => (w.log.clone(), w.json),
            Command::Fleet(FleetCommand::Node(n)) => (n.log.clone(), n.json),
            Command::Native(NativeCommand::Load { log, json, .. }) => (log.clone(), *json),
            _ => Default::default(),
        }
    }

    /// Has it to do with what agents of this machine keep, and so with the user that they run as? Namespaces of its own and
    /// virtual machines' ports take root.
    pub fn is_about_agents(&self) -> bool {
        !matches!(
            self,
            Command::Algs { .. }
                | Command::Bench { .. }
                | Command::Completions { .. }
                | Command::Controller(_)
                | Command::Demo { .. }
                | Command::Fleet(_)
                | Command::Guest(_)
                | Command::Man { .. }
                | Command::Reproduce(_)
                | Command::Run(_)
                | Command::Sweep(_)
        )
    }

    /// Does it, or may it, simulate thousands of connections?
    pub fn simulates(&self) -> bool {
        matches!(self, Command::Bench { .. } | Command::Reproduce(_) | Command::Run(_) | Command::Sweep(_))
    }
}

/// Where metrics are served unless at another address: only this machine reaches it.
const METRICS: &str = "127.0.0.1:9464";

/// Where pages are served unless at another address, likewise.
const WEB: &str = "127.0.0.1:9465";

/// Where records of flows are unless another folder is named.
const RECORDS: &str = "/var/lib/windlass/records";

#[derive(Debug, ClapArgs)]
pub struct FlowsArgs {
    /// Only flows for which all of it holds, in words as `ss` has them: state controlled and dst 192.0.2.0/24 and sport 443
    ///
    /// Terms are joined by `and`, which may be left out. Each is one of: state WORD (controlled, bypass, watched, paces, aside, foreign,
    /// off), rule NAME, iface NAME, alg NAME, src or dst PREFIX[:PORT], sport or dport PORT. Of several values with commas
    /// between them one must hold; `!=` before the value means that none may.
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Sort by a column: numbers from the largest on, texts and addresses in their order
    #[arg(long, value_name = "COLUMN", value_parser = column())]
    pub sort: Option<String>,
    /// In the opposite order
    #[arg(long)]
    pub reverse: bool,
    /// Which columns, in this order; --sort lists them
    #[arg(long, value_name = "COLUMN,COLUMN", hide_possible_values = true, value_delimiter = ',', value_parser = column(), conflicts_with = "json")]
    pub columns: Option<Vec<String>>,
    /// Sum up what flows hold of store and flow table, and what they may
    #[arg(long, value_enum, conflicts_with_all = ["filter", "sort", "reverse", "columns"])]
    pub by: Option<FlowsBy>,
    /// One JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct DoctorArgs {
    /// An interface: programs in their order, offloads, qdisc, MTU, side, traffic, flows, and a verdict: full, partial or off
    pub iface: Option<String>,
    /// Make a test connection to a server behind the interface, and show what is done with it
    #[arg(long, value_name = "HOST:PORT", requires = "iface")]
    pub test: Option<String>,
    /// One JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct CountersArgs {
    /// Only these interfaces (default: all that an agent of this network namespace controls)
    #[arg(value_name = "IFACE")]
    pub ifaces: Vec<String>,
    /// Also those that are zero, as the JSON document has them; with --watch also those that do not change
    #[arg(long)]
    pub all: bool,
    /// Go on until Ctrl-C: those that have counted something since the start, and how much per second
    #[arg(long)]
    pub watch: bool,
    /// With --watch: time from one look to the next, 100 to 60000
    #[arg(long, default_value_t = 1000, value_name = "MS", requires = "watch", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub interval_ms: u64,
    /// With --watch: end after so many
    #[arg(long, value_name = "N", requires = "watch")]
    pub count: Option<u64>,
    /// One JSON document instead of a table; with --watch one a line
    #[arg(long)]
    pub json: bool,
}

fn column() -> PossibleValuesParser {
    PossibleValuesParser::new(COLUMNS.iter().map(|column| column.name))
}

/// What `flows` sums up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowsBy {
    /// Each server
    Server,
    /// Each server and client
    Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchWhat {
    /// Goodput through the datapath, paired with none
    Datapath,
    /// Packet-hops per second of the simulator, one core
    Sim,
    /// Rate, delay and loss of emulated links, against what they should be
    Emulator,
    /// A member's report to a group of a thousand flows, paired with one of ten
    Groups,
    /// Rates of victims beside each of a dozen attacks, paired with no box and no attack
    Isolation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Window enforced, losses repaired and hidden
    Transparent,
    /// Measured only; packets leave as they came
    Watch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PacedArg {
    /// Only watch servers that pace themselves, as one running BBR does
    StandAside,
    /// Control them like any other
    Control,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PaceByArg {
    /// The in-kernel clock, by what it grants to servers
    Clock,
    /// The fq qdisc of the uplink, by departure times
    Fq,
    /// fq if the uplink has it, else the clock
    Auto,
}

#[derive(Debug, ClapArgs)]
pub struct Sizes {
    /// Flows at once, 1 to 1048576; more pass unwatched
    #[arg(long, default_value_t = 32768)]
    pub flows: u32,
    /// Memory for stored data, in MiB, 1 to 4095
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..4096))]
    pub store_mib: u64,
    /// Rounds of the in-kernel clock per second, 250 to 20000
    #[arg(long, default_value_t = windlass_core::abi::WL_CLOCK_HZ)]
    pub clock_hz: u32,
    /// Connections without packets for so long are forgotten, 1 to 1800; those that go on after all are only watched
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub idle_timeout_s: u32,
    /// What spaces the packets
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    pub pace_by: PaceByArg,
    /// Interface that leads to the clients (default: that of the default route)
    #[arg(long, value_name = "IFACE")]
    pub uplink: Option<String>,
}

/// The log of a command that goes on.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct LogArgs {
    /// What is logged: this, and what is worse (default: info)
    #[arg(long, value_enum, value_name = "LEVEL", env = "WINDLASS_LOG", hide_env_values = true)]
    pub log_level: Option<LogLevel>,
    /// Lines for people, on a terminal or in the journal, or one JSON document a line, with its time (default: text)
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// It ends the command
    Error,
    /// It is not as it should be, and the command goes on
    Warn,
    /// What happens to interfaces, cgroups, policies and guests
    Info,
    /// What is looked at and decided
    Debug,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people; where standard error is the journal, each line with its priority
    Text,
    /// One document a line, all on standard error: `time`, `level`, `message`, and what it is about, as `device`
    Json,
}

#[derive(Debug, ClapArgs)]
pub struct AttachArgs {
    /// Interface that faces the servers: a VM's tap, a container's veth, a router's LAN port
    #[arg(required_unless_present = "native")]
    pub iface: Option<String>,
    /// No interface: the sockets of this kernel, when they connect, containers included
    #[arg(long, conflicts_with_all = ["iface", "mode", "paced_servers", "sample_ms", "stats", "Sizes"])]
    pub native: bool,
    /// With --native: only the sockets of this cgroup (v2) and those below it
    #[arg(long, value_name = "FOLDER", conflicts_with = "iface")]
    pub cgroup: Option<PathBuf>,
    /// With --native: what the names of its congestion controls begin with, 1 to 9 characters
    #[arg(long, value_name = "NAME", default_value = windlass_agent::native::DEFAULT_PREFIX, conflicts_with = "iface")]
    pub prefix: String,
    /// Algorithm, as listed by `windlass algs`
    #[arg(long, default_value = "bbr", value_parser = AlgorithmName, hide_possible_values = true)]
    pub alg: String,
    /// A policy instead: its rules for the interface, or with --native those for sockets; read once
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cgroup", "alg", "mode", "port", "paced_servers", "PathArgs"])]
    pub policy: Option<PathBuf>,
    /// What to do with the flows
    #[arg(long, value_enum, default_value = "transparent")]
    pub mode: ModeArg,
    /// Only servers on these ports (default: all)
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Vec<u16>,
    /// What to do with servers that pace themselves
    #[arg(long, value_enum, default_value = "stand-aside")]
    pub paced_servers: PacedArg,
    #[command(flatten)]
    pub sizes: Sizes,
    /// One JSON document per event on standard output
    #[arg(long)]
    pub json: bool,
    /// With --json: also one document with all flows every so many milliseconds, 10 or more
    #[arg(long, value_name = "MS", requires = "json", value_parser = clap::value_parser!(u64).range(10..))]
    pub sample_ms: Option<u64>,
    /// Time every run of the programs and report their cost at the end; that itself costs some 20 ns a packet
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    pub log: LogArgs,
    // last, as its heading stands over all that follows
    #[command(flatten)]
    pub path: PathArgs,
}

#[derive(Debug, ClapArgs)]
pub struct AgentArgs {
    /// Policy file; read again on SIGHUP and when it changes
    #[arg(long)]
    pub policy: PathBuf,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Only show what would be controlled, and under which rules; changes nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Release all interfaces and cgroups on exit instead of leaving them under control
    #[arg(long)]
    pub detach_on_exit: bool,
    #[command(flatten)]
    pub names: Names,
    /// Keep records of all flows in this folder: what each did, and what held it back
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = RECORDS)]
    pub records: Option<PathBuf>,
    /// Size of all records' files; the oldest are removed
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub records_mib: u64,
    /// Serve metrics for Prometheus, and whether all is well (/metrics, /healthz, /readyz), over HTTP at this address
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = METRICS)]
    pub metrics: Option<SocketAddr>,
    /// Metrics without the histograms of what flows did, for which the programs keep a ledger of each flow
    #[arg(long, requires = "metrics")]
    pub no_histograms: bool,
    #[command(flatten)]
    pub log: LogArgs,
    /// One JSON document per event on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct WebArgs {
    /// Where browsers find it; of port 0 the kernel chooses another
    #[arg(long, value_name = "ADDRESS", default_value = WEB)]
    pub listen: SocketAddr,
    /// Further names by which browsers may call it, as that of a proxy before it
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
    /// The agent's socket (default: that of this network namespace's newest agent, under /run/windlass)
    #[arg(long, value_name = "SOCKET")]
    pub agent: Option<PathBuf>,
    /// Words on top of all pages, as those of a demo
    #[arg(long, value_name = "WORDS")]
    pub notice: Option<String>,
    #[command(flatten)]
    pub log: LogArgs,
    /// One JSON document per event on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct WhyArgs {
    /// An end of the flow, as `windlass flows` shows it, e.g. 192.0.2.1:443; or the name of a rule: of all its flows
    #[arg(value_name = "FLOW|RULE")]
    pub what: String,
    /// The flow's receiver, if its sender alone does not name it
    #[arg(value_parser = address)]
    pub receiver: Option<SocketAddr>,
    /// Where no agent keeps records, the flow is looked at for so long, 100 to 60000
    #[arg(long, default_value_t = 2000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub wait_ms: u64,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct SetArgs {
    /// The flow's sender, as `windlass flows` shows it, e.g. 192.0.2.1:443 or [2001:db8::1]:443
    #[arg(value_parser = address)]
    pub sender: SocketAddr,
    /// Its receiver
    #[arg(value_parser = address)]
    pub receiver: SocketAddr,
    /// Algorithm, as listed by `windlass algs`
    #[arg(long, required_unless_present = "by_rule", value_parser = AlgorithmName, hide_possible_values = true)]
    pub alg: Option<String>,
    /// Its rule's algorithm again
    #[arg(long, conflicts_with = "alg")]
    pub by_rule: bool,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "no address with its port; write 192.0.2.1:443 or [2001:db8::1]:443".into())
}

#[derive(Debug, ClapArgs)]
pub struct TopArgs {
    /// Time from one look to the next, 100 to 60000
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub interval_ms: u64,
    /// One JSON document a line and look, instead of a picture
    #[arg(long)]
    pub json: bool,
    /// End after so many looks
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check a policy, and warn of what never applies; exit status 2 if it is wrong
    Check {
        /// Policy file
        file: PathBuf,
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show what another policy changes: rules, and, of what is here, interfaces, cgroups and flows under an agent's control
    Diff {
        /// Policy file that is, or was, in force
        old: PathBuf,
        /// The one to put in its place
        new: PathBuf,
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show the rules of a policy as they were understood
    Show {
        /// Policy file
        file: PathBuf,
        /// One JSON document instead of a table
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum NativeCommand {
    /// Register all algorithms, as wl_bbr and so on, for setsockopt, sysctl, `ip route ... congctl` and policies
    Load {
        #[command(flatten)]
        names: Names,
        /// Only until Ctrl-C, or until standard input ends if it is a pipe
        #[arg(long)]
        hold: bool,
        #[command(flatten)]
        log: LogArgs,
        /// One JSON document instead of a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        path: PathArgs,
    },
    /// Unregister them; sockets that use one go over to the kernel's own algorithm
    Unload {
        #[command(flatten)]
        names: Names,
        /// One JSON document instead of lines
        #[arg(long)]
        json: bool,
    },
    /// List what is registered, and how many sockets use it
    List {
        /// One JSON document instead of a table
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub struct Names {
    /// What the names of the native home's congestion controls begin with, 1 to 9 characters
    #[arg(long, value_name = "NAME", default_value = windlass_agent::native::DEFAULT_PREFIX)]
    pub prefix: String,
}

/// What algorithms know of the path; those that do not need it ignore it.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "What algorithms know of the path")]
pub struct PathArgs {
    /// Rate of its slowest link, e.g. "1 Gbit/s"
    #[arg(long, value_name = "RATE")]
    bottleneck: Option<Rate>,
    /// Length of the queue in front of that, e.g. "100 packets" or "150 kB"
    #[arg(long, value_name = "LENGTH")]
    buffer: Option<Buffer>,
    /// Where TRIM's K stands between its bounds, e.g. "0 %": lowest
    #[arg(long, value_name = "SHARE")]
    threshold: Option<Fraction>,
    /// Weight of a new sample in running means, e.g. "25 %"
    #[arg(long, value_name = "SHARE")]
    gain: Option<Fraction>,
    /// Whether TRIM's flows wait at random to keep apart
    #[arg(long, value_name = "BOOL")]
    random_waits: Option<bool>,
    /// Whether TRIM's first train of a connection waits and probes, too
    #[arg(long, value_name = "BOOL")]
    first_train_probes: Option<bool>,
    /// A constant of an algorithm, e.g. bbr.startup_gain=2.5; `windlass algs NAME` lists them. May be repeated
    #[arg(long, value_name = "CONSTANT=VALUE")]
    tune: Vec<Tunables>,
}

impl PathArgs {
    pub fn parameters(&self) -> anyhow::Result<Parameters> {
        let PathArgs { bottleneck, buffer, threshold, gain, random_waits, first_train_probes, .. } = *self;
        let mut tunables = Tunables::default();
        self.tune
            .iter()
            .try_for_each(|one| tunables.extend(one))
            .map_err(|what| anyhow!("--tune: {what}"))?;
        Ok(Parameters { bottleneck, buffer, threshold, gain, random_waits, first_train_probes, tunables })
    }
}

#[derive(Debug, ClapArgs)]
pub struct GuestArgs {
    /// Port to the host: a virtio-serial port's name, its device, or a socket in its place
    #[arg(long, default_value = windlass_guest::port::DEFAULT_NAME)]
    pub port: String,
    /// Algorithm, as listed by `windlass algs`; coupling is made for those that follow their window
    #[arg(long, default_value = "reno", value_parser = AlgorithmName, hide_possible_values = true)]
    pub alg: String,
    /// Only the sockets of this cgroup (v2) and those below it
    #[arg(long, value_name = "FOLDER")]
    pub cgroup: Option<PathBuf>,
    /// Only servers on these ports (default: all)
    #[arg(long, value_delimiter = ',', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub server_port: Vec<u16>,
    #[command(flatten)]
    pub names: Names,
    #[command(flatten)]
    pub log: LogArgs,
    /// One JSON document per event on standard output
    #[arg(long)]
    pub json: bool,
    /// With --json: also one document with what the flows did so far every so many milliseconds, 10 or more
    #[arg(long, value_name = "MS", requires = "json", value_parser = clap::value_parser!(u64).range(10..))]
    pub sample_ms: Option<u64>,
}

/// The value of `--port` of the controller: PATH[,weight=N][,name=NAME].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortArg {
    pub path: String,
    pub weight: u32,
    pub name: Option<String>,
}

fn port_arg(text: &str) -> Result<PortArg, String> {
    let mut parts = text.split(',');
    let path = parts.next().unwrap_or_default().to_string();
    let mut port = PortArg { path, weight: 1, name: None };
    if port.path.is_empty() {
        return Err("the path of a socket comes first: PATH[,weight=N][,name=NAME]".into());
    }
    for part in parts {
        match part.split_once('=') {
            Some(("weight", n)) => {
                let weight =
                    n.parse().ok().filter(|w| (1..=windlass_core::abi::WL_GROUP_WEIGHT_MAX).contains(w));
                port.weight = weight.ok_or_else(|| format!("weight={n}: weights are 1 to 65535"))?;
            }
            Some(("name", name)) if is_name(name) => port.name = Some(name.into()),
            Some(("name", _)) => return Err(format!("{part:?}: {IN_REPORTS}")),
            _ => return Err(format!("'{part}': after the path there can be weight=N and name=NAME")),
        }
    }
    Ok(port)
}

#[derive(Debug, ClapArgs)]
pub struct ControllerArgs {
    /// Socket of a VM's virtio-serial port, once for each VM; weight is 1 unless given, the name is the file's
    #[arg(long, required_unless_present = "guests", value_name = "PATH[,weight=N][,name=NAME]", value_parser = port_arg)]
    pub port: Vec<PortArg>,
    /// A file of guests instead; read again on SIGHUP and when it changes, so that weights change while guests run
    #[arg(long, value_name = "FILE", conflicts_with = "port")]
    pub guests: Option<PathBuf>,
    /// How flows are coupled; docs/groups.md describes the rules. Not lisa, by which flows have no shares
    #[arg(long, default_value = "ccc")]
    pub rule: String,
    /// Of the rule multcp: as many flows as the group is like; as many as it has unless given
    #[arg(long, value_name = "FLOWS", value_parser = aggressiveness)]
    pub aggressiveness: Option<f64>,
    /// A flow that reports nothing for so long, 100 to 3600000, leaves the group until it does
    #[arg(long, default_value_t = windlass_guest::controller::IDLE_US / 1000, value_name = "MS",
        value_parser = clap::value_parser!(u32).range(100..=3_600_000))]
    pub idle_ms: u32,
    /// Longest segment of a guest that counts, 88 to 65535: the smallest share is two
    #[arg(long, default_value_t = windlass_guest::controller::MSS_MOST_BYTES, value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(88..=65_535))]
    pub mss_most: u32,
    /// Flows of one guest that are coupled; more go on by themselves
    #[arg(long, default_value_t = windlass_guest::controller::FLOWS_MOST, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub flows_most: u32,
    #[command(flatten)]
    pub log: LogArgs,
    /// One JSON document per event on standard output
    #[arg(long)]
    pub json: bool,
    /// With --json: also one document with all guests every so many milliseconds, 10 or more
    #[arg(long, value_name = "MS", requires = "json", value_parser = clap::value_parser!(u64).range(10..))]
    pub sample_ms: Option<u64>,
}

fn speed(text: &str) -> Result<f64, String> {
    let times: f64 = text.parse().map_err(|_| "a number, such as 10 or 0.1".to_string())?;
    if (0.001..=1000.0).contains(&times) { Ok(times) } else { Err("0.001 to 1000".into()) }
}

fn aggressiveness(text: &str) -> Result<f64, String> {
    let flows: f64 = text.parse().map_err(|_| "a number of flows, such as 2 or 0.5".to_string())?;
    if (0.01..=65535.0).contains(&flows) { Ok(flows) } else { Err("0.01 to 65535 flows".into()) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Home {
    /// Real kernels in network namespaces, in real time; needs root
    Lab,
    /// Simulated hosts in virtual time, the same to the byte every time
    Sim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Emulator {
    /// Windlass' own: exact, seeded, measures its queues, runs everywhere
    Own,
    /// The kernel's netem and tbf, where it has them: queues are not measured, random loss has no seed
    Netem,
}

#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// Scenario file
    pub file: PathBuf,
    /// Where to run it
    #[arg(long, value_enum, default_value = "lab")]
    pub on: Home,
    /// Another seed than the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// With --on lab: what plays the links
    #[arg(long, value_enum, default_value = "own")]
    pub emulator: Emulator,
    /// One JSON document instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write captures into this folder, servers.pcap and clients.pcap: of both sides of the box, or simulated, of all hosts
    #[arg(long, value_name = "FOLDER")]
    pub captures: Option<PathBuf>,
    /// Add Windlass' view of its flows, so often (10 or more), to the JSON document
    #[arg(long, value_name = "MS", requires = "json", conflicts_with = "web", value_parser = clap::value_parser!(u64).range(10..))]
    pub sample_ms: Option<u64>,
    /// Show it live in a browser, at this address; the run begins when one has the page open. With --on lab what the box does, with
    /// --on sim all flows
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = WEB)]
    pub web: Option<SocketAddr>,
    /// With --on sim --web: so many times as fast as real time, 0.001 to 1000, or as fast as it goes [default: 1]
    #[arg(long, value_name = "TIMES", requires = "web", value_parser = speed)]
    pub speed: Option<f64>,
    /// Write into this folder windows, round-trip times and throughput of flows, what the box wants of them, and queues of
    /// links (flows.csv, box.csv, links.csv), plots of them over time (trace.html, cwnd.svg, rtt.svg, throughput.svg,
    /// queue.svg), and response times (responses.csv); with --on lab what the emulator sees (links.csv, throughput in
    /// flows.csv) and the box reports (box.csv), and plots
    #[arg(long, value_name = "FOLDER", conflicts_with = "web")]
    pub trace: Option<PathBuf>,
    /// With --trace: time from one row of a flow or link to the next; with --on lab 10 ms at least
    #[arg(long, value_name = "TIME", default_value = "10 ms", requires = "trace")]
    pub interval: Span,
}

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SweepArgs {
    #[command(subcommand)]
    pub command: Option<SweepCommand>,
    /// Scenario file
    #[arg(required = true)]
    pub file: Option<PathBuf>,
    /// Values of one key, e.g. "link.0.buffer=64 packets,1 BDP" or "flow.*.algorithm=reno,cubic"; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE,VALUE")]
    pub set: Vec<Varied>,
    /// Seeds of the runs of each combination: how many (10: 1 to 10), or which (3-5 or 1,7,20-29) (default: 1)
    #[arg(long)]
    pub seeds: Option<Seeds>,
    /// Only one part of the runs, of several machines' or processes', each with a folder of its own: 1/8 to 8/8; `sweep merge` puts
    /// them together
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Where to run them
    #[arg(long, value_enum, default_value = "sim")]
    pub on: Home,
    /// Folder for reports and finished runs
    #[arg(long, default_value = "report/sweep")]
    pub out: PathBuf,
    /// Take finished runs from that folder instead of running them again
    #[arg(long)]
    pub resume: bool,
    /// One JSON document instead of a table
    #[arg(long)]
    pub json: bool,
    /// Simulated runs at once (default: one for each core)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

#[derive(Debug, Subcommand)]
pub enum SweepCommand {
    /// Put the runs of all shards together: tables, plots and runs are those of one machine, to the byte
    Merge {
        /// Folders of the shards
        #[arg(required = true)]
        folders: Vec<PathBuf>,
        /// Folder for reports and all runs
        #[arg(long, default_value = "report/sweep")]
        out: PathBuf,
        /// One JSON document instead of a table
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub struct ReproduceArgs {
    /// Name of an experiment (`--list` shows them), or an experiment file of your own (*.toml)
    pub name: Option<String>,
    /// All experiments
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
    /// List the experiments
    #[arg(long, conflicts_with_all = ["name", "all"])]
    pub list: bool,
    /// Fewer runs and smaller files, same bounds; about five minutes
    #[arg(long)]
    pub quick: bool,
    /// Of harm-survey and agreement-survey: only the path or point of this number
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["all", "list"])]
    pub only: Option<u32>,
    /// Of harm-survey: another draw of as many paths, from 2 to 1000
    #[arg(long, value_name = "N", conflicts_with_all = ["all", "list", "only"])]
    pub draw: Option<u32>,
    /// Of agreement-survey: only one part of the points, 1/12 to 12/12; parts go on in one folder, and --resume reports on all
    #[arg(long, value_name = "I/N", conflicts_with_all = ["all", "list", "only"])]
    pub shard: Option<Shard>,
    /// Of harm-survey: where it runs; with real kernels each tenth path, in real time
    #[arg(long, value_enum, conflicts_with_all = ["all", "list"])]
    pub on: Option<Home>,
    /// One JSON document instead of text; with --all a list of them
    #[arg(long)]
    pub json: bool,
    /// Take finished runs from the report folder instead of running them again
    #[arg(long)]
    pub resume: bool,
    /// Simulated runs at once (default: one for each core)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Folder for reports
    #[arg(long, default_value = "report")]
    pub out: PathBuf,
}
