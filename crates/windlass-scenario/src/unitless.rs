//! Values without a unit: numbers, and words of a few. What serde and toml report by themselves of one that is
//! neither names Rust's types or those of TOML, and not what is allowed.

use serde::{
    Deserialize, Deserializer,
    de::{self, IntoDeserializer, Unexpected, Visitor, value::StringDeserializer},
};
use std::{fmt, ops::RangeInclusive};

/// A whole number; whether it is one that its key can have is checked when all of the file is known.
pub(crate) fn whole<'de, D: Deserializer<'de>>(d: D) -> Result<i64, D::Error> {
    d.deserialize_i64(Whole(i64::MIN..=i64::MAX))
}

/// The same of a key that may be left out.
pub(crate) fn some_whole<'de, D: Deserializer<'de>>(d: D) -> Result<Option<i64>, D::Error> {
    whole(d).map(Some)
}

/// A whole number from LEAST to MOST, of a key that may be left out.
pub(crate) fn whole_within<'de, const LEAST: u32, const MOST: u32, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<u32>, D::Error> {
    let value = d.deserialize_i64(Whole(LEAST.into()..=MOST.into()))?;
    Ok(Some(u32::try_from(value).expect("it is between two of them")))
}

/// A number, of a key that may be left out.
pub(crate) fn some_number<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    d.deserialize_f64(Number).map(Some)
}

/// One of the words that a T can be; of anything else, those are listed.
pub(crate) fn word<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    let value = toml::Value::deserialize(d)?;
    let text = value.as_str().map_or_else(|| value.to_string(), String::from);
    let text: StringDeserializer<D::Error> = text.into_deserializer();
    T::deserialize(text)
}

/// The same of a key that may be left out.
pub(crate) fn some_word<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
    word(d).map(Some)
}

struct Whole(RangeInclusive<i64>);

impl Visitor<'_> for Whole {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (least, most) = self.0.clone().into_inner();
        match (least, most) {
            (i64::MIN, i64::MAX) => f.write_str("a whole number"),
            _ => write!(f, "a whole number from {least} to {most}"),
        }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<i64, E> {
        match self.0.contains(&value) {
            true => Ok(value),
            false => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<i64, E> {
        let signed = i64::try_from(value);
        signed
            .map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
            .and_then(|v| self.visit_i64(v))
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }
}
