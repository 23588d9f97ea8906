//! What can go wrong between a fleet's processes.

/// Of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// etcd gives no answer, or one that is none. Another try may have one.
    #[error("etcd at {endpoint}: {why}")]
    Away {
        /// Where it should be.
        endpoint: String,
        /// What happened instead.
        why: String,
    },
    /// Another writer has changed what this one was about to change.
    #[error("{0}")]
    Lost(String),
    /// A mistake in what was given, or in what is in etcd.
    #[error("{0}")]
    Invalid(String),
}
