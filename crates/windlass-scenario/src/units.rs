//! Quantities with their units, as people write them: "20 Mbit/s", "10 MB", "40 ms", "1 %".

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};
use std::{fmt, str::FromStr};

/// Splits "12.5 ms" into 12.5 and "ms".
pub fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    if text.starts_with('-') {
        return Err("below 0; write a number from 0 on".into());
    }
    let rest = text[end..].strip_prefix(['e', 'E']).unwrap_or("");
    if rest.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit()) {
        return Err("write the number without an exponent, e.g. 0.5 or 2000".into());
    }
    let number: f64 = text[..end].parse().map_err(|_| "does not begin with a number")?;
    Ok((number, text[end..].trim()))
}

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $scale:expr, $allowed:expr, $example:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name(pub f64);

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let wrong = |what: &str| format!("\"{text}\": {what}; units are {}", $allowed);
                let (number, unit) = split(text).map_err(|what| wrong(&what))?;
                let scale: Option<f64> = $scale(unit);
                let value = number * scale.ok_or_else(|| wrong("write a number and its unit"))?;
                if value.is_finite() { Ok($name(value)) } else { Err(wrong("too large; write a smaller number")) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                        write!(f, "a number and its unit in quotes, e.g. \"{}\"", $example)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                d.deserialize_str(Text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
    };
}

unit!(
    /// A rate in bit/s.
    Rate,
    |unit: &str| match unit {
        "bit/s" => Some(1.0),
        "kbit/s" => Some(1e3),
        "Mbit/s" => Some(1e6),
        "Gbit/s" => Some(1e9),
        _ => None,
    },
    "bit/s, kbit/s, Mbit/s, Gbit/s",
    "10 Mbit/s"
);

unit!(
    /// An amount of data in bytes; kB, MB, GB are decimal.
    Bytes,
    |unit: &str| match unit {
        "B" => Some(1.0),
        "kB" => Some(1e3),
        "MB" => Some(1e6),
        "GB" => Some(1e9),
        "KiB" => Some(1024.0),
        "MiB" => Some(1_048_576.0),
        "GiB" => Some(1_073_741_824.0),
        _ => None,
    },
    "B, kB, MB, GB, KiB, MiB, GiB",
    "10 MB"
);

unit!(
    /// A length of time in seconds.
    Span,
    |unit: &str| match unit {
        "us" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        _ => None,
    },
    "us, ms, s",
    "40 ms"
);

unit!(
    /// A fraction, 0 to 1, written in per cent.
    Fraction,
    |unit: &str| match unit {
        "%" => Some(0.01),
        _ => None,
    },
    "%",
    "1 %"
);

/// A quantity in the unit that its kind is counted in, e.g. "2 kB" as 2000 and "B"; none: of no kind that is here.
pub fn in_base_unit(text: &str) -> Option<(f64, &'static str)> {
    let rate = || text.parse().ok().map(|rate: Rate| (rate.0, "bit/s"));
    let bytes = || text.parse().ok().map(|bytes: Bytes| (bytes.0, "B"));
    let span = || text.parse().ok().map(|span: Span| (span.0, "s"));
    rate().or_else(bytes).or_else(span)
}

fn scaled(f: &mut fmt::Formatter, value: f64, units: &[(f64, &str)]) -> fmt::Result {
    let (scale, unit) = units.iter().find(|(s, _)| value >= *s).or(units.last()).expect("units are given");
    write!(f, "{} {unit}", value / scale)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        scaled(f, self.0, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")])
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        scaled(f, self.0, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        scaled(f, self.0, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us")])
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} %", self.0 * 100.0)
    }
}

impl Span {
    /// Whole nanoseconds, to the nearest.
    pub fn ns(self) -> u64 {
        (self.0 * 1e9).round() as u64
    }
}

impl Bytes {
    /// Whole bytes.
    pub fn count(self) -> u64 {
        self.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn people_write_units() {
        assert_eq!("20 Mbit/s".parse(), Ok(Rate(20e6)));
        assert_eq!("10MB".parse(), Ok(Bytes(10e6)));
        assert_eq!("1 MiB".parse(), Ok(Bytes(1_048_576.0)));
        assert_eq!("40 ms".parse(), Ok(Span(0.04)));
        assert_eq!("0.5 %".parse(), Ok(Fraction(0.005)));
        assert!("20 Mb/s".parse::<Rate>().unwrap_err().contains("Mbit/s"));
    }

    #[test]
    fn mistakes_show_what_to_write() {
        let wrong = |text: &str, saying: &str| {
            let error = text.parse::<Rate>().unwrap_err();
            assert!(error.contains(text) && error.contains(saying) && error.contains("Mbit/s"), "{error}");
        };
        wrong("fast", "does not begin with a number");
        wrong("nan Mbit/s", "does not begin with a number");
        wrong("-1 Mbit/s", "below 0");
        wrong("1e30 Gbit/s", "without an exponent");
        wrong(&format!("1{} Gbit/s", "0".repeat(400)), "too large");
        let table: Result<std::collections::BTreeMap<String, Rate>, _> = toml::from_str("rate = 10");
        let error = table.unwrap_err().message().to_string();
        assert!(error.contains("integer `10`") && error.contains("in quotes, e.g. \"10 Mbit/s\""), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_printed_can_be_read(value in 1.0f64..1e12) {
            let back: Rate = Rate(value).to_string().parse().unwrap();
            prop_assert!((back.0 - value).abs() <= value * 1e-9);
        }
    }
}
