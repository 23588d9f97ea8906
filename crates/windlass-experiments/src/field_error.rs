//! Errors in an experiment's file, and where they are.

use toml::Spanned;
use windlass_scenario::{ScenarioError, line_at};

/// An error in an experiment file, at a byte of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Where.
    pub at: usize,
    /// What is wrong, and the cure.
    pub what: String,
}

impl FieldError {
    /// At something that knows its place.
    pub fn at<T>(place: &Spanned<T>, what: String) -> FieldError {
        FieldError { at: place.span().start, what }
    }

    /// The same as an error of file `file`, whose text this is.
    pub fn in_file(self, file: &str, text: &str) -> ScenarioError {
        ScenarioError::new(file, line_at(text, self.at), &self.what)
    }
}
