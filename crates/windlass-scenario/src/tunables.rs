//! Constants of algorithms that are set by name: tables of `parameters`, e.g. `[parameters.bbr]`.

use crate::{Fraction, Span};
use serde::{
    Serialize,
    de::{self, DeserializeSeed, Deserializer, MapAccess, Unexpected, Visitor},
};
use std::{collections::BTreeMap, fmt, str::FromStr};
use windlass_core::{Algorithm, Tunable, Unit, abi};

type Values = [u16; abi::WL_TUNABLES as usize];

/// Algorithms whose constants are set, at most.
const TUNED_MOST: usize = 8;

/// What is set: algorithms in the order of their ids, and of each what `wl_alg_params.tunables` has. The rest is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunables([Option<(Algorithm, Values)>; TUNED_MOST]);

impl Tunables {
    /// Names of the algorithms that have any, as messages list them.
    pub fn names() -> String {
        let with_some = Algorithm::all().filter(|a| !a.tunables().is_empty());
        with_some.map(|a| a.name()).collect::<Vec<_>>().join(", ")
    }

    /// Algorithms of which some are set.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> + '_ {
        self.0.iter().flatten().map(|(algorithm, _)| *algorithm)
    }

    /// Those of one algorithm, as the core takes them.
    pub fn of(&self, algorithm: Algorithm) -> Values {
        self.0
            .iter()
            .flatten()
            .find(|(a, _)| *a == algorithm)
            .map_or_else(Values::default, |(_, values)| *values)
    }

    /// Those of one algorithm only.
    pub fn only_of(&self, algorithm: Algorithm) -> Tunables {
        let mut only = Tunables::default();
        only.0[0] = self.0.iter().flatten().find(|(a, _)| *a == algorithm).copied();
        only
    }

    /// Whether a rule can have them whose flows have these algorithms: it has room for the constants of one of them.
    pub fn check_of_rule(&self, algorithms: &[&str]) -> Result<(), String> {
        let tuned: Vec<_> = self.algorithms().map(|a| a.name()).collect();
        if let Some(name) = tuned.iter().find(|name| !algorithms.contains(name)) {
            let those = algorithms.join(", ");
            return Err(format!("{name}: flows have {those} here; leave the constants of {name} out"));
        }
        if tuned.len() > 1 {
            let all = tuned.join(", ");
            return Err(format!(
                "{all}: a rule sets the constants of one algorithm; write a rule for each of them"
            ));
        }
        Ok(())
    }

    /// What is set of one algorithm: names and values as people write them.
    pub(crate) fn table(&self, algorithm: Algorithm) -> BTreeMap<&'static str, Value> {
        let set = algorithm.tunables().into_iter().zip(self.of(algorithm));
        set.filter(|(_, set)| *set > 0).map(|(t, set)| (t.name, Value::of(&t, set - 1))).collect()
    }

    /// Everything that is set, each as `--tune` takes it: "bbr.startup_gain=2.5".
    pub fn arguments(&self) -> Vec<String> {
        let of = |a: Algorithm| {
            self.table(a).into_iter().map(move |(name, value)| format!("{}.{name}={value}", a.name()))
        };
        self.algorithms().flat_map(of).collect()
    }

    /// Reads the table of one algorithm.
    pub(crate) fn table_of(
        &mut self,
        algorithm: Algorithm,
    ) -> impl for<'de> DeserializeSeed<'de, Value = ()> {
        TableOf { set: self, algorithm }
    }

    fn set(&mut self, algorithm: Algorithm, index: usize, parts: u16) -> Result<(), String> {
        let is_of = |entry: &Option<(Algorithm, Values)>| entry.is_none_or(|(a, _)| a == algorithm);
        let too_many = || format!("the constants of {TUNED_MOST} algorithms can be set; leave some out");
        let entry = self.0.iter_mut().find(|entry| is_of(entry)).ok_or_else(too_many)?;
        entry.get_or_insert((algorithm, Values::default())).1[index] = parts + 1;
        self.0.sort_by_key(|entry| entry.map_or(u32::MAX, |(a, _)| a.id()));
        Ok(())
    }

    /// Also sets what is set in `other`.
    ///
    /// # Errors
    /// They are of too many algorithms.
    pub fn extend(&mut self, other: &Tunables) -> Result<(), String> {
        for (algorithm, values) in other.0.iter().flatten() {
            for (index, set) in values.iter().enumerate().filter(|(_, set)| **set > 0) {
                self.set(*algorithm, index, set - 1)?;
            }
        }
        Ok(())
    }
}

/// One constant that is set, as an argument: "bbr.startup_gain=2.5".
impl FromStr for Tunables {
    type Err = String;

    fn from_str(text: &str) -> Result<Tunables, String> {
        let parts = text.split_once('=').and_then(|(key, value)| Some((key.split_once('.')?, value)));
        let ((name, field), value) = parts.ok_or(
            "write ALGORITHM.CONSTANT=VALUE, e.g. bbr.startup_gain=2.5; `windlass algs NAME` lists them",
        )?;
        let algorithm = Algorithm::by_name(name).ok_or_else(|| {
            format!("unknown algorithm \"{name}\"; with constants that can be set: {}", Tunables::names())
        })?;
        let (index, tunable) = find(algorithm, field)?;
        let parts = Number(&tunable).parse(value).map_err(|what| format!("{name}.{field}: {what}"))?;
        let mut set = Tunables::default();
        set.set(algorithm, index, parts)?;
        Ok(set)
    }
}

fn find(algorithm: Algorithm, name: &str) -> Result<(usize, Tunable), String> {
    let all = algorithm.tunables();
    let names = all.iter().map(|t| t.name).collect::<Vec<_>>().join(", ");
    all.into_iter().enumerate().find(|(_, t)| t.name == name).ok_or_else(|| {
        let of = algorithm.name();
        match names.as_str() {
            "" => format!(
                "unknown field `{name}`: {of} has no constants that can be set; those have: {}",
                Tunables::names()
            ),
            _ => format!("unknown field `{name}`; of {of} can be set: {names}"),
        }
    })
}

/// A value as people write it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    /// Without a unit.
    Number(f64),
    /// With one.
    Text(String),
}

impl Value {
    fn of(tunable: &Tunable, parts: u16) -> Value {
        match tunable.unit {
            Unit::Number => Value::Number(tunable.units(parts)),
            _ => Value::Text(text(tunable, parts)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// A value of that many parts, with its unit.
pub fn text(tunable: &Tunable, parts: u16) -> String {
    // times the scale of the smaller unit first: what is whole there is printed so
    let times = |factor: f64| f64::from(parts) * factor / f64::from(tunable.scale);
    match tunable.unit {
        Unit::Number => format!("{}", (times(1.0) * 1e4).round() / 1e4),
        Unit::Seconds if times(1.0) >= 1.0 => format!("{} s", times(1.0)),
        Unit::Seconds => format!("{} ms", times(1000.0)),
        Unit::Share => format!("{} %", times(100.0)),
    }
}

/// What a value may be: "1.25 to 4".
pub fn range(tunable: &Tunable) -> String {
    format!("{} to {}", text(tunable, tunable.least), text(tunable, tunable.most))
}

struct TableOf<'a> {
    set: &'a mut Tunables,
    algorithm: Algorithm,
}

impl<'de> DeserializeSeed<'de> for TableOf<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TableOf<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<_> = self.algorithm.tunables().iter().map(|t| t.name).collect();
        write!(f, "a table {{ {} }}", names.join(", "))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let (index, tunable) = find(self.algorithm, &key).map_err(de::Error::custom)?;
            let parts = map.next_value_seed(Number(&tunable))?;
            self.set.set(self.algorithm, index, parts).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}

/// A value of this constant.
struct Number<'a>(&'a Tunable);

impl Number<'_> {
    /// The value in units.
    fn units(&self, text: &str) -> Result<f64, String> {
        match self.0.unit {
            Unit::Number => text.parse().map_err(|_| format!("\"{text}\"; allowed: {self}")),
            Unit::Seconds => text.parse::<Span>().map(|span| span.0),
            Unit::Share => text.parse::<Fraction>().map(|share| share.0),
        }
    }

    fn parse(&self, text: &str) -> Result<u16, String> {
        self.0.parts(self.units(text)?).ok_or_else(|| format!("{text}; allowed: {self}"))
    }
}

impl fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let range = range(self.0);
        match self.0.unit {
            Unit::Number => write!(f, "a number from {range}"),
            Unit::Seconds | Unit::Share => write!(f, "in quotes, with a unit, {range}"),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Number<'_> {
    type Value = u16;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<u16, D::Error> {
        match self.0.unit {
            Unit::Number => d.deserialize_f64(self),
            Unit::Seconds | Unit::Share => d.deserialize_str(self),
        }
    }
}

impl Visitor<'_> for Number<'_> {
    type Value = u16;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{self}")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<u16, E> {
        let is_number = self.0.unit == Unit::Number;
        let parts = if is_number { self.0.parts(value) } else { None };
        parts.ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u16, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<u16, E> {
        self.visit_f64(value as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u16, E> {
        // a number is written without quotes
        if self.0.unit == Unit::Number {
            return Err(E::invalid_type(Unexpected::Str(text), &self));
        }
        self.0
            .parts(self.units(text).map_err(E::custom)?)
            .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;

    fn parse(text: &str) -> Parameters {
        toml::from_str(text).unwrap_or_else(|e| panic!("{e}"))
    }

    fn error(text: &str) -> String {
        toml::from_str::<Parameters>(text).expect_err(text).message().into()
    }

    fn named(name: &str) -> Algorithm {
        Algorithm::by_name(name).expect(name)
    }

    #[test]
    fn defaults_are_within_their_bounds_and_each_has_a_name_of_its_own() {
        let mut count = 0;
        for algorithm in Algorithm::all() {
            let all = algorithm.tunables();
            for (i, t) in all.iter().enumerate() {
                assert!(t.least <= t.default && t.default <= t.most && t.most < u16::MAX, "{t:?}");
                assert!(all[..i].iter().all(|other| other.name != t.name) && !t.meaning.is_empty(), "{t:?}");
                assert_eq!(t.parts(t.units(t.default)), Some(t.default), "{t:?}");
                count += 1;
            }
        }
        assert!(count >= 24, "{count}");
    }

    #[test]
    fn constants_reach_the_core_by_their_place_in_the_list() {
        let set = parse("[bbr]\nstartup_gain = 2.5\nmin_rtt_window = \"5 s\"\n[bbr3]\nheadroom = \"0 %\"\n");
        let (bbr, bbr3) = (set.of(named("bbr")), set.of(named("bbr3")));
        let place = |algorithm: &str, name: &str| find(named(algorithm), name).unwrap().0;
        assert_eq!(bbr.tunables[place("bbr", "startup_gain")], 640 + 1);
        assert_eq!(bbr.tunables[place("bbr", "min_rtt_window")], 5000 + 1);
        assert_eq!(bbr3.tunables[place("bbr3", "headroom")], 1, "0 is a value, too");
        assert_eq!(bbr.tunables.iter().filter(|set| **set > 0).count(), 2);
        assert_eq!(set.of(named("cubic")), Default::default());
    }

    #[test]
    fn what_is_written_can_be_read_as_table_and_as_arguments() {
        let text = "[cubic]\nbeta = 0.8\n[bbr3]\nloss_threshold = \"5 %\"\nprobe_rtt = \"100 ms\"\n";
        let set = parse(text);
        let written = toml::to_string(&set).unwrap();
        assert_eq!(parse(&written), set, "{written}");
        let arguments = set.tunables.arguments();
        assert_eq!(arguments, ["cubic.beta=0.8", "bbr3.loss_threshold=5 %", "bbr3.probe_rtt=100 ms"]);
        let mut again = Tunables::default();
        arguments.iter().for_each(|argument| again.extend(&argument.parse().unwrap()).unwrap());
        assert_eq!(again, set.tunables);
    }

    #[test]
    fn mistakes_have_the_range_or_the_names() {
        for (text, says) in [
            ("[bbr]\nstartup_gain = 9", "expected a number from 1.25 to 4"),
            ("[bbr]\nstartup_gain = \"2.5\"", "expected a number from 1.25 to 4"),
            ("[bbr]\nprobe_rtt = \"1 h\"", "units are us, ms, s"),
            ("[bbr]\nprobe_rtt = \"9 s\"", "expected in quotes, with a unit, 10 ms to 5 s"),
            ("[bbr]\nprobe_rtt = 200", "expected in quotes, with a unit, 10 ms to 5 s"),
            ("[bbr]\nspeed = 2", "unknown field `speed`; of bbr can be set: startup_gain, "),
            ("[reno]\nbeta = 0.5", "reno has no constants that can be set; those have: cubic, "),
            ("[vegas]\nbeta = 0.5", "unknown field `vegas`, expected one of `bottleneck`"),
            ("bbr = 3", "expected a table { startup_gain, "),
        ] {
            let e = error(text);
            assert!(e.contains(says), "{text}: {e}");
        }
        for (text, says) in [
            ("startup_gain=2", "write ALGORITHM.CONSTANT=VALUE"),
            ("bbr.startup_gain=9", "bbr.startup_gain: 9; allowed: a number from 1.25 to 4"),
            ("bbr3.headroom=60 %", "allowed: in quotes, with a unit, 0 % to 50 %"),
            ("vegas.beta=1", "unknown algorithm \"vegas\""),
        ] {
            let e = text.parse::<Tunables>().unwrap_err();
            assert!(e.contains(says), "{text}: {e}");
        }
    }
}
