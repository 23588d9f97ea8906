//! The file of a controller's guests: their ports, names and weights, in force while the controller runs.

use crate::serve::Place;
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;
use windlass_core::abi::WL_GROUP_WEIGHT_MAX;
use windlass_scenario::{line_at, read_file};

/// A mistake in the file of guests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct GuestsError {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and the cure.
    pub what: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    guest: Vec<Spanned<RawGuest>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGuest {
    port: Spanned<String>,
    name: Option<String>,
    weight: Option<Spanned<i64>>,
}

/// The guests of a file.
pub fn read(path: &Path) -> Result<Vec<Place>, GuestsError> {
    let file = path.display().to_string();
    let text = read_file(path).map_err(|e| GuestsError {
        file: file.clone(),
        line: 1,
        what: format!("{e}; the file lists the guests, each as [[guest]] with a port"),
    })?;
    parse(&file, &text)
}

/// The guests of a file's text. No two have a name or a port in common, and there is at least one.
pub fn parse(file: &str, text: &str) -> Result<Vec<Place>, GuestsError> {
    let mistake = |at: usize, what: String| GuestsError { file: file.into(), line: line_at(text, at), what };
    let raw: Raw = toml::from_str(text)
        .map_err(|e| mistake(e.span().map_or(0, |s| s.start), e.message().replace('\n', " ")))?;
    if raw.guest.is_empty() {
        return Err(mistake(0, "no guest; write [[guest]] and port = \"/run/vm1.sock\" for each".into()));
    }
    let mut places: Vec<Place> = Vec::new();
    for guest in raw.guest {
        let at = guest.span().start;
        let RawGuest { port, name, weight } = guest.into_inner();
        if port.get_ref().is_empty() {
            return Err(mistake(port.span().start, "port: the socket of the VM's chardev".into()));
        }
        let weight_at = weight.as_ref().map_or(at, |w| w.span().start);
        let n = weight.map_or(1, Spanned::into_inner);
        let weight =
            u32::try_from(n).ok().filter(|w| (1..=WL_GROUP_WEIGHT_MAX).contains(w)).ok_or_else(|| {
                mistake(weight_at, format!("weight = {n}: weights are 1 to {WL_GROUP_WEIGHT_MAX}"))
            })?;
        let place = Place::new(port.get_ref(), name, weight);
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
            (format!("{guest}weight = 0\n"), 3, "1 to 65535"),
            (format!("{guest}weight = -2\n"), 3, "1 to 65535"),
            (format!("{guest}weight = 65536\n"), 3, "1 to 65535"),
            (format!("{guest}{guest}"), 3, "of its own"),
            (format!("{guest}[[guest]]\nport = \"/run/b.sock\"\nname = \"a\"\n"), 3, "of its own"),
            (format!("{guest}wieght = 2\n"), 3, "wieght"),
            ("[[guest]]\nname = \"a\"\n".into(), 1, "port"),
            (String::new(), 1, "[[guest]]"),
        ] {
            let e = parse("f", &text).unwrap_err();
            assert!(e.line == line && e.what.contains(what), "{text}: {e}");
        }
    }
}
