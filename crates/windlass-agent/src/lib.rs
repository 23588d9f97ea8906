//! Loads the transparent datapath, attaches it, gives it policy and reads what it measures; loads the native home.

mod attach;
mod clock;
mod cost;
mod counters;
mod coupled;
mod datapath;
mod doctor;
mod error;
mod exceptions;
mod flows;
mod group;
mod guest;
mod in_force;
mod lock;
mod monotonic;
pub mod native;
mod netdev;
mod object;
mod orphans;
mod pin_dir;
mod pins;
mod plain;
mod policy;
mod privilege;
mod run_dir;
mod select;
mod shared_groups;
mod uplink;

pub use cost::{RunTime, RunTimeStats};
pub use counters::read_counters;
pub use coupled::{CoupledStats, Coupling};
pub use datapath::{Datapath, Options, load};
pub use doctor::{Check, doctor};
pub use error::{Error, Result};
pub use flows::FlowInfo;
pub use group::{FlowGroup, GroupHome, GroupInfo, GroupSpec, Membership, Per};
pub use guest::{GuestFlows, GuestStats, GuestWatch};
pub use monotonic::monotonic_us;
pub use native::{Native, NativeInfo};
pub use netdev::index as interface_index;
pub use pins::{
    Pinned, attached_elsewhere, force_remove, left_here, pinned_here, pins_are_private, remove_gone,
};
pub use policy::{Mode, Policy, PolicyError, Rule};
pub use privilege::{check_root, is_root};
pub use select::{PinnedSelector, Selector, SelectorInfo, remove_gone_cgroups, root_cgroup};
pub use shared_groups::part_killed;
pub use uplink::{PaceBy, Pacing};
