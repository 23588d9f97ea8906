//! Lists of two. Arrays and tuples as serde reads them take the first two of many, and the rest is not missed.

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, SeqAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// Two values, and no third.
pub(crate) struct Pair<A, B>(pub A, pub B);

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Deserialize<'de> for Pair<A, B> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct List<A, B>(PhantomData<(A, B)>);

        impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Visitor<'de> for List<A, B> {
            type Value = Pair<A, B>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of two")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Pair<A, B>, S::Error> {
                let wrong = |has| S::Error::invalid_length(has, &"a list of two");
                let one = list.next_element()?.ok_or_else(|| wrong(0))?;
                let other = list.next_element()?.ok_or_else(|| wrong(1))?;
                let mut count = 2;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                if count == 2 { Ok(Pair(one, other)) } else { Err(wrong(count)) }
            }
        }

        d.deserialize_seq(List(PhantomData))
    }
}

/// Two of a kind.
pub(crate) fn array<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<[T; 2], D::Error> {
    Pair::deserialize(d).map(|Pair(one, other)| [one, other])
}
