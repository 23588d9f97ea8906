//! What algorithms are given of the path, in scenarios and in policies.

use crate::{Buffer, Fraction, Rate};
use serde::{Deserialize, Serialize};
use windlass_core::abi::{self, wl_alg_params};

/// A full packet, link-layer header included: what a buffer of one packet holds.
const PACKET_BYTES: u64 = 1514;
const RATE_MAX_BPS: f64 = 1e12;

/// Table `parameters`: what algorithms are given. Those that do not need it ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with bottleneck, buffer and so on")]
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

impl From<Parameters> for wl_alg_params {
    /// Of parameters that check() finds sound.
    fn from(p: Parameters) -> wl_alg_params {
        let synchronous = if p.random_waits == Some(false) { abi::WL_ALG_SYNCHRONOUS } else { 0 };
        let at_once = if p.first_train_probes == Some(true) { abi::WL_ALG_PROBES_AT_ONCE } else { 0 };
        wl_alg_params {
            bottleneck_bytes_ps: p.bottleneck.map_or(0, |r| (r.0 / 8.0) as u64),
            buffer_bytes: p.buffer.map_or(0, |b| bytes(b).min(u32::MAX.into()) as u32),
            threshold_permille: p.threshold.map_or(0, |t| (t.0 * 1000.0).round() as i16),
            gain_shift: p.gain.map_or(0, |g| gain_shift(g) as u8),
            flags: (synchronous | at_once) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Parameters {
        toml::from_str(text).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn parameters_that_are_not_set_are_not_known() {
        assert_eq!(wl_alg_params::from(parse("")), wl_alg_params::default());
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
        };
        assert_eq!(wl_alg_params::from(all), core);
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
