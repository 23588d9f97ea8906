//! Flows that are never controlled.

use serde::Serialize;
use windlass_core::abi;

/// Why a flow is never more than watched, whatever its rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnlyWatched {
    /// Its sender paces itself; with `paced_servers = "control"` its rule has it controlled all the same.
    Paces,
    /// Timeouts came every few segments, from which its server recovers as well alone (`core/flow/hardship.h`).
    FaresWorse,
    /// It is older than the box, or its packets carry options that the box could not write.
    Foreign,
}

impl OnlyWatched {
    pub(crate) fn of(flow: &abi::wl_flow) -> Option<OnlyWatched> {
        if flow.flags & abi::WL_FLOW_FOREIGN != 0 {
            return Some(OnlyWatched::Foreign);
        }
        let has_sack = flow.flags & abi::WL_FLOW_SACK != 0;
        let limit = if has_sack { abi::WL_HARDSHIP_LIMIT_SACK } else { abi::WL_HARDSHIP_LIMIT };
        let is_hardship = u32::from(flow.hardship) >= limit;
        let why = if is_hardship { OnlyWatched::FaresWorse } else { OnlyWatched::Paces };
        (flow.flags & abi::WL_FLOW_STOOD_ASIDE != 0).then_some(why)
    }

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            OnlyWatched::Paces => "paces",
            OnlyWatched::FaresWorse => "aside",
            OnlyWatched::Foreign => "foreign",
        }
    }
}
