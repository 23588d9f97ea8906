//! What can be typed of `windlass fleet`.

use super::LogArgs;
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;
use windlass_fleet::{Endpoint, Selector, guard::Guard, labels::Label, share_or_count::ShareOrCount};
use windlass_scenario::Span;

#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Beside an agent: write the policy that the fleet has for this node into the agent's policy file, and report, until Ctrl-C
    Node(NodeArgs),
    /// Roll a policy out: first to some nodes, the canaries, and in stages to all; what goes wrong rolls it back
    ///
    /// This process drives it to its end. Killed or stopped by Ctrl-C, the rollout stands where it is, until `--resume` or
    /// `windlass fleet rollback`.
    Rollout(RolloutArgs),
    /// Go back to what nodes had before the rollout under way, or, without one, before the last that was completed
    Rollback {
        #[command(flatten)]
        etcd: EtcdArgs,
        /// Without a rollout under way: nodes of which selector
        #[arg(long, default_value = "all", value_name = "KEY=VALUE,KEY=VALUE")]
        select: Selector,
        /// Why, for the history
        #[arg(long, default_value = "requested", value_name = "WORDS")]
        because: String,
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show which nodes there are, what they have in force and how they are, the rollout under way, and the last change
    Status {
        #[command(flatten)]
        etcd: EtcdArgs,
        /// One JSON document instead of text
        #[arg(long)]
        json: bool,
    },
    /// List the changes: which, when, and by which writer
    History {
        #[command(flatten)]
        etcd: EtcdArgs,
        /// One JSON document instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Forget a node that is gone for good
    Forget {
        /// Its name
        node: String,
        #[command(flatten)]
        etcd: EtcdArgs,
        /// One JSON document instead of a line
        #[arg(long)]
        json: bool,
    },
}

/// Where the fleet is.
#[derive(Clone, Debug, ClapArgs)]
pub struct EtcdArgs {
    /// Members of the etcd cluster, http://HOST:PORT or unix:PATH; while one does not answer, the next one is tried
    #[arg(
        long,
        value_name = "URL,URL",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:2379",
        env = "WINDLASS_ETCD"
    )]
    pub etcd: Vec<Endpoint>,
    /// Which of the fleets there, each with nodes and policies of its own
    #[arg(long, value_name = "NAME", default_value = "default", env = "WINDLASS_FLEET")]
    pub fleet: String,
}

#[derive(Debug, ClapArgs)]
pub struct NodeArgs {
    #[command(flatten)]
    pub etcd: EtcdArgs,
    /// Name of this node, no other node's (default: the machine's)
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// A label, by which selectors choose nodes; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<Label>,
    /// The agent's policy file, in whose folder this process must be able to write
    #[arg(long, value_name = "FILE", default_value = "/etc/windlass/policy.toml")]
    pub policy: PathBuf,
    /// Where the agent serves its metrics, http://HOST:PORT
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9464")]
    pub agent: Endpoint,
    /// So long after this process has ended, or lost etcd, the fleet takes the node for gone, 3 to 3600
    #[arg(long, default_value_t = 15, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub lease_s: u64,
    #[command(flatten)]
    pub log: LogArgs,
    /// One JSON document per event on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct RolloutArgs {
    #[command(flatten)]
    pub etcd: EtcdArgs,
    /// Policy file
    #[arg(required_unless_present = "resume")]
    pub policy: Option<PathBuf>,
    /// Go on with the rollout whose driver is gone, as it was begun
    #[arg(long, conflicts_with_all = ["policy", "select", "canary", "steps", "wait", "apply_within", "unwell_for", "may_lag", "guard"])]
    pub resume: bool,
    /// Nodes that have all of these labels
    #[arg(long, default_value = "all", value_name = "KEY=VALUE,KEY=VALUE")]
    pub select: Selector,
    /// How many nodes get it first: a number or a share, rounded up
    #[arg(long, default_value = "10%", value_name = "NODES")]
    pub canary: ShareOrCount,
    /// How many nodes have it in each of the stages between the canaries and all
    #[arg(long, default_value = "50%", value_name = "NODES,NODES", value_delimiter = ',')]
    pub steps: Vec<ShareOrCount>,
    /// How long each stage is watched
    #[arg(long, default_value = "60s", value_name = "TIME")]
    pub wait: Span,
    /// Nodes of a stage must have it in force within so long
    #[arg(long, default_value = "60s", value_name = "TIME")]
    pub apply_within: Span,
    /// A node with it may be gone, or its agent not well, for so long
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub unwell_for: Span,
    /// So many nodes may be without it, gone or not well all the same
    #[arg(long, default_value_t = 0, value_name = "NODES")]
    pub may_lag: usize,
    /// A bound that rolls it back, as loss<2%,2x,30s: above 2 % within 30 s, and twice as much as before and as on other nodes
    ///
    /// Figures are loss, retransmits (by servers) and bypassed (flows); factor and time may be left out. May be repeated. Without
    /// any: loss<2%,2x,30s, retransmits<1%,2x,30s and bypassed<30%,2x,30s.
    #[arg(long, value_name = "FIGURE<SHARE,FACTORx,TIME")]
    pub guard: Vec<Guard>,
    /// One JSON document per event
    #[arg(long)]
    pub json: bool,
}
