//! Experiments over any scenario: points and variants set values in it by key path, on the simulator or in the lab.

use crate::{
    experiment::check,
    field_error::FieldError,
    job::{self, Condition, Home, Job},
};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
};
use toml::{Spanned, Value};
use windlass_scenario::{Draft, Scenario, Span, in_base_unit, split};

/// Values by key path, with their places in the file. In order: general paths ("flow.*") before special ones.
pub type Settings = BTreeMap<Spanned<String>, Value>;

/// One home or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "on: \"sim\", \"lab\" or [\"sim\", \"lab\"]")]
pub enum Homes {
    /// This one.
    One(Home),
    /// Each of these: the variant's name is continued with "-sim" and "-lab".
    Several(Vec<Home>),
}

/// What is compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name, unique.
    pub name: Spanned<String>,
    /// Where it runs; none: where the experiment runs.
    pub on: Option<Homes>,
    /// What it sets in the scenario.
    #[serde(default)]
    pub set: Settings,
    /// What it takes out of the scenario.
    #[serde(default)]
    pub unset: Vec<Spanned<String>>,
}

/// A condition, or one for each combination of what varies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its name, unique. Values that vary are appended: "burst-5".
    pub name: Spanned<String>,
    /// What it sets in the scenario.
    #[serde(default)]
    pub set: Settings,
    /// ... and in quick mode, on top.
    #[serde(default)]
    pub quick_set: Settings,
    /// What it takes out of the scenario.
    #[serde(default)]
    pub unset: Vec<Spanned<String>>,
    /// What varies; the first the slowest. Plots have the last one as their x.
    #[serde(default)]
    pub vary: Vec<Vary>,
    /// Runs of each variant in full mode, with seeds from 1 on.
    pub runs: u32,
    /// ... and in quick mode; 0: the point is left out.
    pub quick_runs: u32,
    /// Only these variants; empty: all of the experiment.
    #[serde(default)]
    pub variants: Vec<String>,
}

/// A key and its values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// Key path, or several that are set to the same value.
    pub set: Spanned<Keys>,
    /// The values.
    pub to: Vec<Value>,
    /// Those of quick mode; none: all.
    pub quick: Option<Vec<Value>>,
}

/// One key path or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "set: a key path or a list of them")]
pub enum Keys {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Vary {
    fn settings<'a>(&'a self, value: &'a Value) -> impl Iterator<Item = Setting<'a>> {
        let keys = match self.set.get_ref() {
            Keys::One(key) => std::slice::from_ref(key),
            Keys::Several(keys) => keys,
        };
        keys.iter().map(move |path| Setting { path, value, at: self.set.span().start })
    }

    /// Where a value stands on the x axis, in both modes alike.
    fn x_of(&self, value: &Value) -> Option<f64> {
        let all: Vec<Value> = self.to.iter().chain(self.quick.iter().flatten()).cloned().collect();
        x_of(value, &all)
    }
}

/// What a value adds to the name of a point.
pub fn label(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), String::from);
    text.chars().filter(|c| !c.is_whitespace() && !"\"/,".contains(*c)).collect()
}

/// Where a value stands on the x axis among all that its key may have: at its number, or at that in bit/s, B or s where
/// they are in several units. None: it has no number, or one that cannot be compared with the others'.
pub fn x_of(value: &Value, all: &[Value]) -> Option<f64> {
    let (number, unit) = quantity(value)?;
    if all.iter().filter_map(quantity).all(|(_, other)| other == unit) {
        return Some(number);
    }
    let (number, base) = in_base_unit(value.as_str()?)?;
    let is_comparable = |other: &Value| other.as_str().and_then(in_base_unit).is_some_and(|(_, b)| b == base);
    all.iter().filter(|v| quantity(v).is_some()).all(is_comparable).then_some(number)
}

/// A value's number and unit.
fn quantity(value: &Value) -> Option<(f64, &str)> {
    match value {
        Value::Integer(n) => Some((*n as f64, "")),
        Value::Float(n) => Some((*n, "")),
        Value::String(text) => split(text).ok(),
        _ => None,
    }
}

/// A variant in one home.
struct Way<'a> {
    name: String,
    on: Home,
    variant: &'a Variant,
}

/// All of an experiment over one scenario.
#[derive(Clone, Debug)]
pub struct Varied {
    /// What is varied.
    pub base: Draft,
    /// Where variants run that do not set it.
    pub on: Home,
    /// What is compared.
    pub variants: Vec<Variant>,
    /// Conditions.
    pub points: Vec<Point>,
    /// Length of the intervals in which runs are recorded, whether that is requested or not.
    pub interval: Option<Span>,
    /// Whether to sample the flow tables of boxes in the lab.
    pub needs_samples: bool,
}

/// One value to set.
#[derive(Clone, Copy)]
struct Setting<'a> {
    path: &'a str,
    value: &'a Value,
    /// Where it stands in the file.
    at: usize,
}

fn settings(all: &Settings) -> impl Iterator<Item = Setting<'_>> {
    all.iter().map(|(path, value)| Setting { path: path.get_ref(), value, at: path.span().start })
}

impl Varied {
    fn ways(&self) -> Vec<Way<'_>> {
        let way = |variant: &'_ Variant| -> Vec<(String, Home)> {
            let name = variant.name.get_ref();
            match &variant.on {
                None => vec![(name.clone(), self.on)],
                Some(Homes::One(on)) => vec![(name.clone(), *on)],
                Some(Homes::Several(homes)) => homes.iter().map(|on| (format!("{name}-{on}"), *on)).collect(),
            }
        };
        let ways_of = |variant| way(variant).into_iter().map(move |(name, on)| Way { name, on, variant });
        self.variants.iter().flat_map(ways_of).collect()
    }

    /// Names of the variants.
    pub fn names(&self) -> Vec<String> {
        self.ways().into_iter().map(|w| w.name).collect()
    }

    /// All conditions of one mode, with their runs: the variants of one seed next to each other.
    pub fn conditions(&self, quick: bool) -> Result<Vec<Condition>, FieldError> {
        let (mut conditions, mut names) = (Vec::new(), BTreeSet::new());
        for point in &self.points {
            self.check_variants(point)?;
            for choice in combinations(&point.vary, quick) {
                let condition = self.condition(point, &choice, quick)?;
                check::point_name(&point.name, &condition.name)?;
                if !names.insert(condition.name.clone()) {
                    let mode = if quick { " in quick mode" } else { "" };
                    let what = format!(
                        "point \"{}\" is there twice{mode}; rename one, or take away a value that is there twice",
                        condition.name
                    );
                    return Err(FieldError::at(&point.name, what));
                }
                conditions.push(condition);
            }
        }
        Ok(conditions)
    }

    /// Runs are identified by the name of their variant: those of two with one name would be taken for runs of one.
    pub fn check_names(&self) -> Result<(), FieldError> {
        let ways = self.ways();
        for (index, way) in ways.iter().enumerate() {
            check::variant_name(&way.variant.name, &way.name)?;
            let Some(other) = ways[..index].iter().find(|w| w.name == way.name) else { continue };
            let of = |w: &Way| format!("\"{}\" on {}", w.variant.name.get_ref(), w.on);
            let what = format!(
                "variant \"{}\" is there twice: {} and {}; rename one, or take one away",
                way.name,
                of(other),
                of(way)
            );
            return Err(FieldError::at(&way.variant.name, what));
        }
        Ok(())
    }

    fn check_variants(&self, point: &Point) -> Result<(), FieldError> {
        let known = self.names();
        match point.variants.iter().find(|v| !known.contains(v)) {
            Some(name) => {
                let what = format!(
                    "variants: point \"{}\" names \"{name}\"; there are {}",
                    point.name.get_ref(),
                    known.join(", ")
                );
                Err(FieldError::at(&point.name, what))
            }
            None => Ok(()),
        }
    }

    /// One combination of the values that vary.
    fn condition(
        &self,
        point: &Point,
        choice: &[(&Vary, &Value)],
        quick: bool,
    ) -> Result<Condition, FieldError> {
        let line = choice.iter().map(|(_, v)| label(v)).rev().skip(1).collect::<Vec<_>>();
        let line: Vec<String> = line.into_iter().rev().collect();
        let mut name = point.name.get_ref().clone();
        choice.iter().for_each(|(_, value)| name += &format!("-{}", label(value)));
        let varied = choice.iter().flat_map(|(vary, value)| vary.settings(value));
        let quick_set = settings(&point.quick_set).filter(|_| quick);
        let of_point: Vec<Setting> = settings(&point.set).chain(quick_set).chain(varied).collect();
        let runs = if quick { point.quick_runs } else { point.runs };
        let mut jobs = Vec::new();
        for way in self.ways() {
            if !point.variants.is_empty() && !point.variants.contains(&way.name) {
                continue;
            }
            let all: Vec<Setting> = of_point.iter().copied().chain(settings(&way.variant.set)).collect();
            let unset = point.unset.iter().chain(&way.variant.unset);
            for seed in 1..=u64::from(runs) {
                // what a scenario draws when it is read, as the starts of flows, belongs to the run
                let seeded = Value::Integer(seed as i64);
                let seed = Setting { path: "seed", value: &seeded, at: point.name.span().start };
                let all: Vec<Setting> = all.iter().copied().chain([seed]).collect();
                let mut scenario = apply(&self.base, unset.clone(), &all, &point.name)?;
                scenario.name = format!("{name}/{}", way.name);
                jobs.push(Job {
                    point: name.clone(),
                    variant: way.name.clone(),
                    on: way.on,
                    bdp_bytes: job::bdp_bytes(&scenario),
                    needs_samples: self.needs_samples,
                    interval: self.interval.and_then(|i| NonZeroU64::new(i.ns())),
                    scenario,
                });
            }
        }
        jobs.sort_by_key(|j| j.scenario.seed);
        let x = choice.last().and_then(|(vary, value)| vary.x_of(value));
        Ok(Condition { name, point: point.name.get_ref().clone(), x, line: line.join(", "), jobs })
    }
}

/// Every combination of the values, the first key the slowest.
fn combinations(vary: &[Vary], quick: bool) -> Vec<Vec<(&Vary, &Value)>> {
    let mut all = vec![Vec::new()];
    for key in vary {
        let values = key.quick.as_ref().filter(|_| quick).unwrap_or(&key.to);
        all = all
            .into_iter()
            .flat_map(|chosen: Vec<(&Vary, &Value)>| {
                values.iter().map(move |value| {
                    let mut more = chosen.clone();
                    more.push((key, value));
                    more
                })
            })
            .collect();
    }
    all
}

/// The scenario with these settings; `whole`: what a mistake is blamed on that no single setting makes.
fn apply<'a>(
    base: &Draft,
    unset: impl Iterator<Item = &'a Spanned<String>>,
    settings: &[Setting],
    whole: &Spanned<String>,
) -> Result<Scenario, FieldError> {
    let mut draft = base.clone();
    for path in unset {
        draft.unset(path.get_ref()).map_err(|what| FieldError::at(path, format!("unset {what}")))?;
    }
    let unchanged = draft.clone();
    for Setting { path, value, at } in settings {
        draft.set(path, value).map_err(|what| FieldError { at: *at, what: format!("set {what}") })?;
    }
    draft.scenario().map_err(|what| match culprit(&unchanged, settings, &what) {
        Some(s) => FieldError { at: s.at, what: format!("set \"{}\": {what}", s.path) },
        None => FieldError::at(whole, format!("\"{}\": {what}", whole.get_ref())),
    })
}

/// The setting that is to blame for a mistake. The key with which the message begins identifies it; of several that
/// set such a key, it is one without which the message would be another.
fn culprit<'s>(base: &Draft, settings: &'s [Setting<'s>], what: &str) -> Option<&'s Setting<'s>> {
    let is_its_key = |s: &Setting| {
        let key = s.path.rsplit('.').next().unwrap_or("");
        let goes_on = |c: char| c.is_alphanumeric() || c == '_';
        what.strip_prefix(key).is_some_and(|rest| !rest.starts_with(goes_on))
            || what.starts_with(&format!("unknown field `{key}`"))
    };
    let says_the_same_without = |index: usize| {
        let mut draft = base.clone();
        let others = settings.iter().enumerate().filter(|(i, _)| *i != index);
        let is_set = others.map(|(_, s)| draft.set(s.path, s.value)).all(|set| set.is_ok());
        is_set && draft.scenario().is_err_and(|other| other == what)
    };
    let suspects: Vec<usize> = (0..settings.len()).rev().filter(|&i| is_its_key(&settings[i])).collect();
    let guilty = suspects.iter().find(|&&i| suspects.len() == 1 || !says_the_same_without(i));
    guilty.or(suspects.first()).map(|&i| &settings[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_several_units_are_compared_in_one() {
        let xs = |values: &[&str]| {
            let all: Vec<Value> = values.iter().map(|v| Value::from(*v)).collect();
            all.iter().map(|v| x_of(v, &all)).collect::<Vec<_>>()
        };
        assert_eq!(xs(&["32 KiB", "1024KiB"]), [Some(32.0), Some(1024.0)]);
        assert_eq!(xs(&["32 KiB", "1 MiB"]), [Some(32_768.0), Some(1_048_576.0)]);
        assert_eq!(xs(&["500 kbit/s", "1 Mbit/s"]), [Some(500e3), Some(1e6)]);
        assert_eq!(xs(&["0.5 BDP", "2 BDP"]), [Some(0.5), Some(2.0)]);
        assert_eq!(xs(&["100 packets", "2 BDP"]), [None, None], "no telling which is longer");
        assert_eq!(xs(&["1 ms", "1 MB"]), [None, None]);
        assert_eq!(xs(&["1 ms", "unlimited"]), [Some(1.0), None]);
    }

    #[test]
    fn quick_values_stand_where_they_do_in_full_mode() {
        let text = "set = \"k\"\nto = [\"32 KiB\", \"64 KiB\"]\nquick = [\"1 MiB\"]\n";
        let vary: Vary = toml::from_str(text).unwrap();
        assert_eq!(["1 MiB", "32 KiB"].map(|v| vary.x_of(&v.into())), [Some(1_048_576.0), Some(32_768.0)]);
    }
}
