//! Mistakes in a policy, and where they are.

use std::ops::Range;
use windlass_scenario::line_at;

/// A mistake in a policy: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct PolicyError {
    /// The policy's file name.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong and what is allowed.
    pub what: String,
}

/// The text of a policy, in which spans are places.
pub(crate) struct Place<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Place<'_> {
    pub(crate) fn error(&self, span: Range<usize>, what: impl Into<String>) -> PolicyError {
        PolicyError { file: self.file.to_string(), line: line_at(self.text, span.start), what: what.into() }
    }
}
