//! A value or a list. serde's untagged enums would do, but they lose where in the text the parts of the list stand.

use serde::{
    Deserialize, Deserializer,
    de::{Error, IntoDeserializer, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use std::{fmt, marker::PhantomData};

/// A text or a number, or a list of what may be something else.
#[derive(Debug)]
pub(super) enum OneOr<One, Part> {
    One(One),
    Several(Vec<Part>),
}

impl<'de, One: Deserialize<'de>, Part: Deserialize<'de>> Deserialize<'de> for OneOr<One, Part> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Either(PhantomData))
    }
}

struct Either<One, Part>(PhantomData<(One, Part)>);

impl<'de, One: Deserialize<'de>, Part: Deserialize<'de>> Visitor<'de> for Either<One, Part> {
    type Value = OneOr<One, Part>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value or a list")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        One::deserialize(text.into_deserializer()).map(OneOr::One)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        One::deserialize(number.into_deserializer()).map(OneOr::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOr::Several)
    }
}
