//! Mistakes in a policy, and where they are.

use super::keys::{allowed, find, joined};
use std::ops::Range;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
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
pub(crate) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(crate) fn error(&self, span: Range<usize>, what: impl Into<String>) -> PolicyError {
        PolicyError { file: self.file.to_string(), line: self.line(&span), what: what.into() }
    }

    /// The line, from 1, in which a span begins.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        line_at(self.text, span.start)
    }

    fn source(&self, span: &Range<usize>) -> &str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// The value at `span` is none that `key` may have.
    pub(super) fn refuse(&self, span: Range<usize>, key: &str) -> PolicyError {
        let what = format!("{} = {}", of_rule(key), in_one_line(self.source(&span)));
        self.error(span, format!("{what}; allowed: {}", allowed(key).unwrap_or_default()))
    }

    /// What is wrong with a text that is no policy. serde names types of Rust, and of values not the key.
    pub(super) fn explain(&self, e: &toml::de::Error) -> PolicyError {
        let span = e.span().unwrap_or(0..0);
        let what = e.message().replace('\n', " ");
        if what == "duplicate key" {
            let key = in_one_line(self.source(&span));
            let cure =
                if key == "rule" { "write [[rule]], in double brackets" } else { "leave one of them out" };
            return self.error(span, format!("{key} is there twice; {cure}"));
        }
        // none: it is not even TOML
        let whole = DeTable::parse(self.text).ok();
        let Some((key, value)) = whole.as_ref().and_then(|t| find(t.get_ref(), span.start, "")) else {
            return self.error(span, what);
        };
        self.error(span, self.explain_value(&key, value, &what))
    }

    /// `said` is serde's.
    fn explain_value(&self, key: &str, value: &Spanned<DeValue>, said: &str) -> String {
        let missing = said.strip_prefix("missing field `").and_then(|s| s.strip_suffix('`'));
        if let Some(key) = missing.map(|name| joined(key, name)) {
            return format!("{} is missing; allowed: {}", of_rule(&key), allowed(&key).unwrap_or_default());
        }
        let expected = || said.rsplit_once(", expected ").map(|(_, what)| what.to_string());
        if TYPES.iter().any(|begin| said.starts_with(begin))
            && let Some(allowed) = allowed(key).or_else(expected)
        {
            return format!("{}; allowed: {allowed}", self.said(key, value));
        }
        let is_named = said.contains(&format!("`{}`", key.rsplit('.').next().unwrap_or(key)));
        if is_named { said.into() } else { format!("{}: {said}", of_rule(key)) }
    }

    /// What the text has about a key. The span of a table that stands below its header is the header.
    fn said(&self, key: &str, value: &Spanned<DeValue>) -> String {
        let source = self.source(&value.span());
        if value.get_ref().is_table() && !source.starts_with('{') {
            return format!("{} is a table", of_rule(key));
        }
        format!("{} = {}", of_rule(key), in_one_line(source))
    }
}

/// How serde and toml begin when a value is not of the type that is required.
const TYPES: [&str; 5] =
    ["invalid type", "invalid value", "invalid length", "integer number", "floating-point number"];

/// A key as docs/policy.md writes it: from its rule on.
fn of_rule(key: &str) -> &str {
    key.strip_prefix("rule.").unwrap_or(key)
}

/// Most characters that a message repeats of a text.
const REPEATED: usize = 60;

fn in_one_line(source: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let begin: String = source.chars().take(REPEATED).map(escaped).collect();
    if source.chars().nth(REPEATED).is_some() { begin + "…" } else { begin }
}
