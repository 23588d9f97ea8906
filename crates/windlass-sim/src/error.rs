//! Why a scenario cannot be simulated: what is wrong, where, and the cure.

use std::{io, path::Path};

/// Why a scenario cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The algorithm is none of the core's.
    #[error("flow {from} > {to}: no algorithm \"{name}\" in the core; there are {known}")]
    UnknownAlgorithm {
        /// Sender.
        from: String,
        /// Receiver.
        to: String,
        /// What the scenario says.
        name: String,
        /// What it could say.
        known: String,
    },
    /// The same of the box.
    #[error("[windlass]: no algorithm \"{name}\" in the core; there are {known}")]
    UnknownBoxAlgorithm {
        /// What the scenario says.
        name: String,
        /// What it could say.
        known: String,
    },
    /// The trace cannot be written.
    #[error("trace: {file}: {why}")]
    Trace {
        /// Its folder.
        file: String,
        /// What the system says.
        why: String,
    },
    /// A flow begins or ends on the host of the box.
    #[error("[windlass]: at = \"{at}\" is an end of a flow; the simulated box must be a host between them")]
    BoxAtEnd {
        /// Host of the box.
        at: String,
    },
    /// Nothing on a flow's way there and back takes time, and it has no end of its own: the clock would stand still.
    #[error(
        "flow {from} > {to}: size = \"unlimited\", and no link of its path has a delay or a rate, so that it would send for \
         ever without time passing; give a link of its path a delay or a rate"
    )]
    Timeless {
        /// Its number among the scenario's flows.
        flow: usize,
        /// Sender.
        from: String,
        /// Receiver.
        to: String,
    },
    /// A flow without a window of its own cannot be steered.
    #[error(
        "flow {from} > {to}: its window cannot be set from outside, as it has a connection for each response, sends datagrams \
         or shares a window with its group; choose another flow, or connections = \"persistent\" over TCP without a group"
    )]
    NoWindow {
        /// Its number among the scenario's flows.
        flow: usize,
        /// Sender.
        from: String,
        /// Receiver.
        to: String,
    },
    /// It might not fit into the machine's memory.
    #[error(
        "needs up to {} MB of memory, and this machine has {} MB left: take fewer connections or smaller buffers, and \
         give links that have none a buffer",
        needed_bytes >> 20,
        available_bytes >> 20
    )]
    TooLarge {
        /// The most that the run may need.
        needed_bytes: u64,
        /// What the machine has to give.
        available_bytes: u64,
    },
}

impl SimError {
    pub(crate) fn trace(folder: &Path, error: &io::Error) -> SimError {
        SimError::Trace { file: folder.display().to_string(), why: error.to_string() }
    }
}
