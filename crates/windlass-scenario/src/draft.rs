//! A scenario that is still to be changed: values set by key path. Sweeps and experiments vary scenarios so.

use crate::{Scenario, ScenarioError};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The text of a scenario, taken apart. Key paths use the words of the file: `seed`, `windlass.algorithm`,
/// `link.0.buffer`. An element of a list is chosen by its number from 0, by `*` (all of them), by a name (hosts by
/// `name`, flows by `class` or `tenant`; all that have it), or by its ends (`link.box>client.loss`).
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    table: Table,
    /// From which names of files in it count.
    folder: PathBuf,
}

/// What a name in a path is compared with.
const NAMES: [&str; 3] = ["name", "class", "tenant"];

impl Draft {
    /// Takes the text of a scenario apart; it must be sound as it stands. `file` is only for messages.
    pub fn parse(file: &str, text: &str) -> Result<Draft, ScenarioError> {
        Scenario::parse(file, text)?;
        let whole = toml::from_str(text).map_err(|e| ScenarioError::new(file, 0, e.message()))?;
        Ok(Draft { table: whole, folder: folder_of(file) })
    }

    /// Takes the table `scenario` of a larger file apart; lines in errors are those of the file.
    pub fn parse_part(file: &str, text: &str) -> Result<Draft, ScenarioError> {
        Scenario::parse_part(file, text)?;
        let mut whole: Table = toml::from_str(text).map_err(|e| ScenarioError::new(file, 0, e.message()))?;
        match whole.remove("scenario") {
            Some(Value::Table(table)) => Ok(Draft { table, folder: folder_of(file) }),
            _ => Err(ScenarioError::new(file, 1, "scenario: must be a table")),
        }
    }

    /// Sets the value at `path`, or all that the path chooses. Errors list what the path could have been.
    pub fn set(&mut self, path: &str, value: &Value) -> Result<(), String> {
        self.change(path, Some(value))
    }

    /// Takes the key at `path` away, so that it has its default.
    pub fn unset(&mut self, path: &str) -> Result<(), String> {
        self.change(path, None)
    }

    fn change(&mut self, path: &str, value: Option<&Value>) -> Result<(), String> {
        let steps: Vec<&str> = path.split('.').collect();
        if steps.iter().any(|s| s.is_empty()) {
            return Err(format!("\"{path}\": write keys with dots between, e.g. \"link.0.buffer\""));
        }
        change_table(&mut self.table, &steps, value, path)
    }

    /// The scenario as it is now, with errors that begin with the key that is wrong.
    pub fn scenario(&self) -> Result<Scenario, String> {
        let text = toml::to_string(&self.table).map_err(|e| e.to_string())?;
        // where its file is counts, not what that is called
        let file = self.folder.join("scenario");
        let scenario = Scenario::parse(&file.to_string_lossy(), &text).map_err(|e| e.what)?;
        scenario.check_sends()?;
        Ok(scenario)
    }
}

fn folder_of(file: &str) -> PathBuf {
    Path::new(file).parent().map(PathBuf::from).unwrap_or_default()
}

fn change_table(table: &mut Table, steps: &[&str], value: Option<&Value>, path: &str) -> Result<(), String> {
    let (step, rest) = steps.split_first().expect("a path has steps");
    if rest.is_empty() {
        let is_list = matches!(table.get(*step), Some(Value::Array(_)));
        match value {
            // {flow.0.size = ...} without quotes is a table in a table
            Some(Value::Table(_)) if is_list => {
                return Err(format!(
                    "\"{path}\" is a list; write the whole path in quotes, e.g. \"{path}.0.…\""
                ));
            }
            Some(value) => drop(table.insert((*step).into(), value.clone())),
            None if table.remove(*step).is_none() => return Err(format!("\"{path}\": is not there")),
            None => {}
        }
        return Ok(());
    }
    let inner = table.entry(*step).or_insert_with(|| Value::Table(Table::new()));
    change_value(inner, step, rest, value, path)
}

fn change_value(
    inner: &mut Value,
    name: &str,
    rest: &[&str],
    value: Option<&Value>,
    path: &str,
) -> Result<(), String> {
    match inner {
        Value::Table(table) => change_table(table, rest, value, path),
        Value::Array(list) => change_list(list, name, rest, value, path),
        _ => Err(format!("\"{path}\": {name} is a value, with nothing inside; the path ends there")),
    }
}

fn change_list(
    list: &mut [Value],
    name: &str,
    steps: &[&str],
    value: Option<&Value>,
    path: &str,
) -> Result<(), String> {
    let (step, rest) = steps.split_first().expect("a path has steps");
    let chosen: Vec<usize> = (0..list.len()).filter(|&i| is_chosen(i, &list[i], step)).collect();
    if chosen.is_empty() {
        return Err(format!("\"{path}\": there is no {name}.{step}; {}", choices(list, name)));
    }
    for index in chosen {
        match (rest.is_empty(), value) {
            (true, Some(value)) => list[index] = value.clone(),
            (true, None) => return Err(format!("\"{path}\": elements of a list cannot be taken away")),
            (false, _) => change_value(&mut list[index], step, rest, value, path)?,
        }
    }
    Ok(())
}

fn is_chosen(index: usize, element: &Value, step: &str) -> bool {
    let is = |key: &str| element.get(key).and_then(Value::as_str) == Some(step);
    step == "*"
        || step.parse() == Ok(index)
        || NAMES.iter().any(|n| is(n))
        || ends(element).as_deref() == Some(step)
}

/// The ends of a link, as a path names them.
fn ends(element: &Value) -> Option<String> {
    let [a, b] = element.get("between")?.as_array()?.as_slice() else { return None };
    Some(format!("{}>{}", a.as_str()?, b.as_str()?))
}

/// Most elements that an error lists.
const LISTED: usize = 8;

fn choices(list: &[Value], name: &str) -> String {
    let label = |(i, e): (usize, &Value)| {
        let named = NAMES.iter().find_map(|n| e.get(n)?.as_str().map(String::from)).or_else(|| ends(e));
        named.map_or(format!("{name}.{i}"), |n| format!("{name}.{i} ({n})"))
    };
    let mut some: Vec<String> = list.iter().enumerate().take(LISTED).map(label).collect();
    if list.len() > LISTED {
        some.push(format!("... {name}.{}", list.len() - 1));
    }
    format!("there are {}, or {name}.* for all", some.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Mode};
    use proptest::prelude::*;

    const BASE: &str = r#"
name = "wan"
[[host]]
name = "server"
[[host]]
name = "client"
[[link]]
between = ["server", "client"]
rate = "20 Mbit/s"
delay = "20 ms"
[[flow]]
from = "server"
to = "client"
size = "10 MB"
class = "long"
[[flow]]
from = "server"
to = "client"
size = "10 kB"
class = "short"
"#;

    fn draft() -> Draft {
        Draft::parse("s.toml", BASE).unwrap()
    }

    fn set(path: &str, value: impl Into<Value>) -> Result<Scenario, String> {
        let mut draft = draft();
        draft.set(path, &value.into())?;
        draft.scenario()
    }

    #[test]
    fn paths_use_the_words_of_the_file() {
        assert_eq!(set("seed", 7).unwrap().seed, 7);
        assert_eq!(set("link.0.buffer", "64 packets").unwrap().links[0].buffer, Some(Buffer::Packets(64)));
        assert_eq!(
            set("link.server>client.buffer", "2 BDP").unwrap().links[0].buffer,
            Some(Buffer::Bdp(2.0))
        );
        let algorithms = |s: Scenario| s.flows.into_iter().map(|f| f.algorithm).collect::<Vec<_>>();
        assert_eq!(algorithms(set("flow.*.algorithm", "reno").unwrap()), ["reno", "reno"]);
        assert_eq!(algorithms(set("flow.short.algorithm", "reno").unwrap()), ["cubic", "reno"]);
    }

    #[test]
    fn a_table_can_be_put_in_and_taken_out() {
        let mut draft = draft();
        draft.set("windlass.at", &"client".into()).unwrap();
        draft.set("windlass.facing", &"server".into()).unwrap();
        draft.set("windlass.mode", &"watch".into()).unwrap();
        assert_eq!(draft.scenario().unwrap().windlass.unwrap().mode, Mode::Watch);
        draft.unset("windlass").unwrap();
        assert_eq!(draft.scenario().unwrap().windlass, None);
        assert!(draft.unset("windlass").unwrap_err().contains("not there"));
    }

    #[test]
    fn without_flows_there_is_nothing_to_run() {
        let mut draft = draft();
        let flows = draft.table.remove("flow").unwrap();
        assert!(draft.scenario().unwrap_err().contains("no [[flow]]: nothing is sent; add one"));
        draft.set("flow", &flows).unwrap();
        assert_eq!(draft.scenario().unwrap().flows.len(), 2);
    }

    #[test]
    fn mistakes_list_what_there_is() {
        assert!(set("flow.2.size", "1 MB").unwrap_err().contains("flow.0 (long), flow.1 (short)"));
        assert!(set("link.client>server.loss", "1 %").unwrap_err().contains("link.0 (server>client)"));
        assert!(set("flows.0.size", "1 MB").unwrap_err().contains("flows"));
        assert!(set("link.0.rate.x", 1).unwrap_err().contains("the path ends there"));
        assert!(set("link.0.loss", "150 %").unwrap_err().starts_with("loss"));
        assert!(set("link..loss", "1 %").unwrap_err().contains("dots"));
        assert!(set("flow", Value::Table(Table::new())).unwrap_err().contains("quotes"));
    }

    #[test]
    fn lines_of_a_part_are_those_of_the_file() {
        let part = BASE.replace("[[", "[[scenario.").replace("name = \"wan\"", "[scenario]\nname = \"wan\"");
        assert_eq!(Draft::parse_part("e.toml", &part), Ok(draft()));
        let wrong = Draft::parse_part("e.toml", &part.replace("20 Mbit/s", "0 Mbit/s")).unwrap_err();
        assert_eq!(wrong.line, 1 + BASE.lines().position(|l| l.starts_with("rate")).unwrap() + 1);
    }

    proptest! {
        #[test]
        fn no_path_is_a_panic(path in "[a-z0-9.*>]{0,24}", value in any::<i64>()) {
            let _ = set(&path, value);
        }
    }
}
