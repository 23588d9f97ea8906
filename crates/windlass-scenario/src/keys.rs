//! Whose a place in the text of a file is. Keys are written with dots, from the root.

use crate::line_at;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A key of the text and its value.
pub type FoundKey<'a, 'text> = (String, &'a Spanned<DeValue<'text>>);

/// The innermost key that byte `at` of the text belongs to; `path` leads to `table`.
pub fn find_key<'a, 'text>(table: &'a DeTable<'text>, at: usize, path: &str) -> Option<FoundKey<'a, 'text>> {
    table.iter().find_map(|(name, value)| {
        let key = joined(path, name.get_ref());
        let is_here = name.span().contains(&at) || value.span().contains(&at);
        find_inside(value, at, &key).or_else(|| is_here.then_some((key, value)))
    })
}

/// Tables of a list may stand anywhere in the text; what is found is the list.
fn find_inside<'a, 'text>(
    value: &'a Spanned<DeValue<'text>>,
    at: usize,
    key: &str,
) -> Option<FoundKey<'a, 'text>> {
    match value.get_ref() {
        DeValue::Table(table) => find_key(table, at, key),
        DeValue::Array(list) => list.iter().find_map(|element| {
            let is_here = element.span().contains(&at);
            find_inside(element, at, key).or_else(|| is_here.then(|| (key.into(), value)))
        }),
        _ => None,
    }
}

/// A key in the table that `path` leads to.
pub fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}

/// What is wrong at byte `at` of the text of a file, with the key in front whose value it is, if that is missing:
/// serde does not know it.
pub fn with_key(text: &str, at: usize, what: &str) -> String {
    let whole = DeTable::parse(text).ok();
    let found = match &whole {
        Some(whole) => find_key(whole.get_ref(), at, "").map(|(key, _)| key),
        // it is not even TOML, of which the line explains most
        None => key_of_line(text, at).map(String::from),
    };
    let Some(key) = found.as_deref().and_then(|key| key.rsplit('.').next()) else { return what.into() };
    let is_said = what.starts_with(key) || what.contains(&format!("`{key}`"));
    // of a key that is missing, it is the table that is found
    if is_said || what.starts_with("missing field") { what.into() } else { format!("{key}: {what}") }
}

/// The plain key with which the line of byte `at` begins.
fn key_of_line(text: &str, at: usize) -> Option<&str> {
    let (key, _) = text.lines().nth(line_at(text, at) - 1)?.split_once('=')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    Some(key.trim()).filter(|key| !key.is_empty() && key.chars().all(is_plain))
}
