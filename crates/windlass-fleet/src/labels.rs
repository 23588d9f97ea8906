//! Labels of nodes, and what chooses nodes by them.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// What a name, a label's key or its value may have at most.
const MOST_BYTES: usize = 63;

/// Is it a name of a node or a fleet, a label's key or its value? All of them stand in keys of etcd and in tables.
pub fn is_word(text: &str) -> bool {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=MOST_BYTES).contains(&text.len()) && text.chars().all(is_of_word)
}

/// What [`is_word`] takes, for messages.
pub const WORD: &str = "1 to 63 letters of ASCII, digits, '.', '_' and '-'";

/// One label, as `--label` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(pub String, pub String);

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Label, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("'{text}': write KEY=VALUE"))?;
        for word in [key, value] {
            if !is_word(word) {
                return Err(format!("'{word}': {WORD}"));
            }
        }
        Ok(Label(key.into(), value.into()))
    }
}

/// The labels of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(pub BTreeMap<String, String>);

impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Labels {
        Labels(labels.into_iter().map(|Label(key, value)| (key, value)).collect())
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&all.join(","))
    }
}

/// Nodes that have all of these labels; without any label, all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Selector(BTreeMap<String, String>);

/// The selector of all nodes, as it is written.
const ALL: &str = "all";

impl Selector {
    /// Does it choose a node of these labels?
    pub fn is_of(&self, labels: &Labels) -> bool {
        self.0.iter().all(|(key, value)| labels.0.get(key) == Some(value))
    }

    /// By how many labels it chooses.
    pub fn labels_count(&self) -> usize {
        self.0.len()
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Selector, String> {
        if text == ALL {
            return Ok(Selector::default());
        }
        let mut chosen = BTreeMap::new();
        for part in text.split(',') {
            let Label(key, value) = part.parse()?;
            if chosen.insert(key, value).is_some() {
                return Err(format!("'{text}': a node has one value of each label"));
            }
        }
        Ok(Selector(chosen))
    }
}

impl TryFrom<String> for Selector {
    type Error = String;

    fn try_from(text: String) -> Result<Selector, String> {
        text.parse()
    }
}

impl From<Selector> for String {
    fn from(selector: Selector) -> String {
        selector.to_string()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str(ALL),
            false => Labels(self.0.clone()).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(text: &str) -> Labels {
        text.split(',').map(|label| label.parse::<Label>().unwrap()).collect()
    }

    #[test]
    fn a_selector_chooses_nodes_that_have_all_its_labels() {
        let node = labels("site=a,role=edge");
        for (selector, is) in [
            ("all", true),
            ("site=a", true),
            ("role=edge,site=a", true),
            ("site=b", false),
            ("rack=1", false),
        ] {
            assert_eq!(selector.parse::<Selector>().unwrap().is_of(&node), is, "{selector}");
        }
        assert!(Selector::default().is_of(&Labels::default()));
    }

    #[test]
    fn labels_that_are_none_are_refused() {
        for wrong in ["", "site", "=a", "site=", "site=a b", "si/te=a", "site=a=b", "site=ä"] {
            assert!(wrong.parse::<Label>().is_err(), "{wrong}");
            assert!(wrong.parse::<Selector>().is_err(), "{wrong}");
        }
        assert!("site=a,site=b".parse::<Selector>().is_err());
        assert!("site=a,".parse::<Selector>().is_err());
        assert!(!is_word(&"x".repeat(64)) && is_word(&"x".repeat(63)));
    }

    proptest! {
        #[test]
        fn selectors_are_read_as_they_are_written(all in prop::collection::btree_map("[a-z.]{1,8}", "[A-Z0-9_-]{1,8}", 0..4)) {
            let selector = Selector(all);
            prop_assert_eq!(selector.to_string().parse::<Selector>(), Ok(selector.clone()));
            let json = serde_json::to_string(&selector).unwrap();
            prop_assert_eq!(serde_json::from_str::<Selector>(&json).unwrap(), selector);
        }

        #[test]
        fn any_text_is_a_selector_or_a_mistake(text in ".{0,40}") {
            if let Ok(selector) = text.parse::<Selector>() {
                prop_assert_eq!(selector.to_string().parse::<Selector>(), Ok(selector));
            }
        }
    }
}
