//! Whose a place in the text of a file is. Keys are written with dots, from the root.

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
