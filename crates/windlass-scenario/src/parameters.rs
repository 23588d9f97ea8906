//! What algorithms are given of the path, in scenarios and in policies.

use crate::{Buffer, Fraction, Rate, Tunables};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor},
    ser::SerializeMap,
};
use std::fmt;
use windlass_core::{
    Algorithm,
    abi::{self, wl_alg_params},
};

/// A full packet, link-layer header included: what a buffer of one packet holds.
const PACKET_BYTES: u64 = 1514;
const RATE_MAX_BPS: f64 = 1e12;

/// Table `parameters`: what algorithms are given. Those that do not need it ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parameters {
    /// Rate of the slowest link; none: not known.
    pub bottleneck: Option<Rate>,
    /// Length of the queue in front of it, in packets or bytes; none: not known.
    pub buffer: Option<Buffer>,
    /// Where between its bounds a delay threshold stands (TRIM's K): 0 % lowest, 100 % highest; none: lowest.
    pub threshold: Option<Fraction>,
    /// Weight of a new sample in running means, 50 % to 0.4 %, rounded to a power of two; none: the algorithm's own.
    pub gain: Option<Fraction>,
    /// Whether flows wait at random to keep apart (TRIM's AD and AS); none: they do.
    pub random_waits: Option<bool>,
    /// Whether the first train of a connection waits and probes as later ones do (TRIM); none: it does not.
    pub first_train_probes: Option<bool>,
    /// Constants of algorithms, each in a table of the algorithm's name.
    pub tunables: Tunables,
}

/// Keys besides the algorithms' names.
const KEYS: [&str; 6] = ["bottleneck", "buffer", "threshold", "gain", "random_waits", "first_train_probes"];

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Parameters { bottleneck, buffer, threshold, gain, random_waits, first_train_probes, tunables } =
            self;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("bottleneck", bottleneck)?;
        map.serialize_entry("buffer", buffer)?;
        map.serialize_entry("threshold", threshold)?;
        map.serialize_entry("gain", gain)?;
        map.serialize_entry("random_waits", random_waits)?;
        map.serialize_entry("first_train_probes", first_train_probes)?;
        for algorithm in tunables.algorithms() {
            map.serialize_entry(algorithm.name(), &tunables.table(algorithm))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Parameters, D::Error> {
        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = Parameters;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a table with bottleneck, buffer and so on")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parameters, A::Error> {
                let mut p = Parameters::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "bottleneck" => p.bottleneck = map.next_value()?,
                        "buffer" => p.buffer = map.next_value()?,
                        "threshold" => p.threshold = map.next_value()?,
                        "gain" => p.gain = map.next_value()?,
                        "random_waits" => p.random_waits = map.next_value()?,
                        "first_train_probes" => p.first_train_probes = map.next_value()?,
                        name => match Algorithm::by_name(name) {
                            Some(algorithm) => map.next_value_seed(p.tunables.table_of(algorithm))?,
                            None => return Err(de::Error::custom(unknown(name))),
                        },
                    }
                }
                Ok(p)
            }
        }

        d.deserialize_map(Keys)
    }
}

fn unknown(key: &str) -> String {
    let keys = KEYS.map(|key| format!("`{key}`")).join(", ");
    format!("unknown field `{key}`, expected one of {keys}, or an algorithm's name: {}", Tunables::names())
}

impl Parameters {
    /// Whether they can be so; an error begins with the key.
    pub fn check(&self) -> Result<(), String> {
        if self.bottleneck.is_some_and(|r| r.0 < 1e4 || r.0 > RATE_MAX_BPS) {
            return Err("bottleneck: 10 kbit/s to 1000 Gbit/s".into());
        }
        match self.buffer {
            Some(Buffer::Bdp(_)) => {
                return Err("buffer: in packets or bytes, e.g. \"100 packets\"; a BDP needs a link".into());
            }
            Some(b) if !(1..=u64::from(u32::MAX)).contains(&bytes(b)) => {
                return Err("buffer: 1 B to 4 GB".into());
            }
            _ => {}
        }
        if self.threshold.is_some_and(|t| t.0 > 1.0) {
            return Err("threshold: 0 % to 100 %".into());
        }
        if self.gain.is_some_and(|g| !(1..=8).contains(&gain_shift(g))) {
            return Err("gain: 0.4 % to 50 %".into());
        }
        Ok(())
    }

    /// The same for the rule of an algorithm of that name: without the constants of others.
    pub fn for_rule_of(self, name: &str) -> Parameters {
        let tunables = Algorithm::by_name(name).map(|a| self.tunables.only_of(a)).unwrap_or_default();
        Parameters { tunables, ..self }
    }

    /// What an algorithm is given, of parameters that check() finds sound.
    pub fn of(&self, algorithm: Algorithm) -> wl_alg_params {
        wl_alg_params { tunables: self.tunables.of(algorithm), ..self.of_any() }
    }

    /// The same where a full packet has `packet_bytes`, link-layer header included: a buffer in packets becomes one in bytes.
    pub(crate) fn with_packets_of(self, packet_bytes: u64) -> Parameters {
        let buffer = match self.buffer {
            Some(Buffer::Packets(n)) if packet_bytes != PACKET_BYTES => {
                Some(Buffer::Bytes(n.saturating_mul(packet_bytes)))
            }
            other => other,
        };
        Parameters { buffer, ..self }
    }

    /// What all algorithms are given: all but constants.
    pub fn of_any(&self) -> wl_alg_params {
        let synchronous = if self.random_waits == Some(false) { abi::WL_ALG_SYNCHRONOUS } else { 0 };
        let at_once = if self.first_train_probes == Some(true) { abi::WL_ALG_PROBES_AT_ONCE } else { 0 };
        wl_alg_params {
            bottleneck_bytes_ps: self.bottleneck.map_or(0, |r| (r.0 / 8.0) as u64),
            buffer_bytes: self.buffer.map_or(0, |b| bytes(b).min(u32::MAX.into()) as u32),
            threshold_permille: self.threshold.map_or(0, |t| (t.0 * 1000.0).round() as i16),
            gain_shift: self.gain.map_or(0, |g| gain_shift(g) as u8),
            flags: (synchronous | at_once) as u8,
            tunables: [0; abi::WL_TUNABLES as usize],
        }
    }
}

fn bytes(buffer: Buffer) -> u64 {
    match buffer {
        Buffer::Packets(n) => n.saturating_mul(PACKET_BYTES),
        Buffer::Bytes(n) => n,
        Buffer::Bdp(_) => 0,
    }
}

fn gain_shift(gain: Fraction) -> i32 {
    if gain.0 > 0.0 { (-gain.0.log2()).round() as i32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Parameters {
        toml::from_str(text).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn parameters_that_are_not_set_are_not_known() {
        let bbr = Algorithm::by_name("bbr").unwrap();
        assert_eq!(parse("").of(bbr), wl_alg_params::default());
    }

    #[test]
    fn all_parameters_that_are_set_reach_the_core() {
        let all = parse(
            "bottleneck = \"1 Gbit/s\"\nbuffer = \"100 packets\"\nthreshold = \"25 %\"\ngain = \"25 %\"\n\
             random_waits = false\nfirst_train_probes = true\n",
        );
        all.check().unwrap();
        let core = wl_alg_params {
            bottleneck_bytes_ps: 125_000_000,
            buffer_bytes: 151_400,
            threshold_permille: 250,
            gain_shift: 2,
            flags: (abi::WL_ALG_SYNCHRONOUS | abi::WL_ALG_PROBES_AT_ONCE) as u8,
            ..wl_alg_params::default()
        };
        assert_eq!(all.of_any(), core);
    }

    #[test]
    fn mistakes_begin_with_the_key() {
        for (key, value) in [
            ("bottleneck", "0 bit/s"),
            ("buffer", "1 BDP"),
            ("buffer", "0 packets"),
            ("threshold", "101 %"),
            ("gain", "100 %"),
        ] {
            let e = parse(&format!("{key} = \"{value}\"\n")).check().unwrap_err();
            assert!(e.starts_with(key), "{e}");
        }
    }
}
