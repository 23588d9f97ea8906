//! The file of a controller's guests: their ports, names and weights, in force while the controller runs.

use crate::serve::Place;
use serde::Deserialize;
use std::path::Path;
use toml::{Spanned, Value};
use windlass_core::abi::WL_GROUP_WEIGHT_MAX;
use windlass_scenario::{IN_REPORTS, is_name, line_at, read_file};

/// What a port may be.
const PORT: &str = "the socket of the VM's chardev in quotes, e.g. \"/run/vm1.sock\"";

/// What is wrong with a file of guests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestsError {
    /// It cannot be read.
    #[error("{file}: {why}; the file lists the guests, each as [[guest]] with a port")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// A mistake in it.
    #[error("{file}:{line}: {what}")]
    Mistake {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and the cure.
        what: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    guest: Vec<Spanned<RawGuest>>,
}

/// Values of any type: serde's message for a wrong one names types of Rust, and not the key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGuest {
    port: Option<Spanned<Value>>,
    name: Option<Spanned<Value>>,
    weight: Option<Spanned<Value>>,
}

/// The guests of a file.
pub fn read(path: &Path) -> Result<Vec<Place>, GuestsError> {
    let file = path.display().to_string();
    let text =
        read_file(path).map_err(|e| GuestsError::Unreadable { file: file.clone(), why: e.to_string() })?;
    parse(&file, &text)
}

/// The guests of a file's text. No two have a name or a port in common, and there is at least one.
pub fn parse(file: &str, text: &str) -> Result<Vec<Place>, GuestsError> {
    let mistake =
        |at: usize, what: String| GuestsError::Mistake { file: file.into(), line: line_at(text, at), what };
    let raw: Raw = toml::from_str(text)
        .map_err(|e| mistake(e.span().map_or(0, |s| s.start), e.message().replace('\n', " ")))?;
    if raw.guest.is_empty() {
        return Err(mistake(0, "no guest; write [[guest]] and port = \"/run/vm1.sock\" for each".into()));
    }
    let mut places: Vec<Place> = Vec::new();
    for guest in raw.guest {
        let at = guest.span().start;
        let refuse = |(key, value): (&str, &Spanned<Value>), allowed: &str| {
            mistake(value.span().start, format!("{key} = {}; allowed: {allowed}", value.get_ref()))
        };
        let RawGuest { port, name, weight } = guest.into_inner();
        let port = port.ok_or_else(|| mistake(at, format!("port is missing; allowed: {PORT}")))?;
        let path = port.get_ref().as_str().filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| refuse(("port", &port), PORT))?;
        let as_name = |value: &Spanned<Value>| {
            let name = value.get_ref().as_str().filter(|name| is_name(name));
            name.map(String::from).ok_or_else(|| refuse(("name", value), IN_REPORTS))
        };
        let as_weight = |value: &Spanned<Value>| {
            let weight = value.get_ref().as_integer().and_then(|n| u32::try_from(n).ok());
            let weight = weight.filter(|w| (1..=WL_GROUP_WEIGHT_MAX).contains(w));
            weight.ok_or_else(|| {
                refuse(("weight", value), &format!("a whole number from 1 to {WL_GROUP_WEIGHT_MAX}"))
            })
        };
        let name = name.as_ref().map(as_name).transpose()?;
        let weight = weight.as_ref().map(as_weight).transpose()?;
        let place = Place::new(path, name, weight.unwrap_or(1));
        if let Some(other) = place.in_the_way(&places) {
            let what = format!(
                "guest \"{}\" is there already, at {}; each has a port and a name of its own",
                place.name,
                other.path.display()
            );
            return Err(mistake(at, what));
        }
        places.push(place);
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_ports_and_weights_are_one_unless_given() {
        let text = "[[guest]]\nport = \"/run/a.sock\"\n[[guest]]\nport = \"/run/b.sock\"\nname = \"c\"\nweight = 4\n";
        let places = parse("f", text).unwrap();
        assert_eq!(
            places,
            [Place::new("/run/a.sock", None, 1), Place::new("/run/b.sock", Some("c".into()), 4)]
        );
        assert_eq!((places[0].name.as_str(), places[1].name.as_str()), ("a", "c"));
    }

    #[test]
    fn mistakes_have_a_line_and_a_cure() {
        let guest = "[[guest]]\nport = \"/run/a.sock\"\n";
        for (text, line, what) in [
            (format!("{guest}weight = 0\n"), 3, "weight = 0; allowed: a whole number from 1 to 65535"),
            (format!("{guest}weight = -2\n"), 3, "weight = -2; allowed: a whole"),
            (format!("{guest}weight = 65536\n"), 3, "1 to 65535"),
            (format!("{guest}weight = \"2\"\n"), 3, "weight = \"2\"; allowed: a whole"),
            (format!("{guest}weight = 1.5\n"), 3, "weight = 1.5; allowed: a whole"),
            (format!("{guest}name = 5\n"), 3, "name = 5; allowed: a name in quotes"),
            (format!("{guest}name = \"\"\n"), 3, "not empty"),
            (format!("{guest}name = \" \"\n"), 3, "not empty"),
            (format!("{guest}name = \"a\\nb\"\n"), 3, "control characters"),
            (format!("{guest}{guest}"), 3, "of its own"),
            (format!("{guest}[[guest]]\nport = \"/run/b.sock\"\nname = \"a\"\n"), 3, "of its own"),
            (format!("{guest}wieght = 2\n"), 3, "wieght"),
            ("[[guest]]\nname = \"a\"\n".into(), 1, "port is missing"),
            ("[[guest]]\nport = [1]\n".into(), 2, "port = [1]; allowed: the socket"),
            ("[[guest]]\nport = \"\"\n".into(), 2, "port = \"\"; allowed: the socket"),
            (String::new(), 1, "[[guest]]"),
        ] {
            let said = parse("f", &text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("f:{line}: ")) && said.contains(what), "{text}: {said}");
        }
    }
}
