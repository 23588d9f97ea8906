//! How many nodes: a number, or a share of them.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use windlass_scenario::Fraction;

/// So many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ShareOrCount {
    /// As a number.
    Count(usize),
    /// As a share of all, 0 to 1.
    Share(f64),
}

impl ShareOrCount {
    /// Of so many; shares are rounded up, so that any share but 0 of some nodes is one at least.
    pub fn of(self, all: usize) -> usize {
        match self {
            ShareOrCount::Count(count) => count.min(all),
            // 10 % of 10 must not be 2 for what a product of two floating-point numbers adds
            ShareOrCount::Share(share) => ((share * all as f64 - 1e-9).ceil().max(0.0) as usize).min(all),
        }
    }
}

impl FromStr for ShareOrCount {
    type Err = String;

    fn from_str(text: &str) -> Result<ShareOrCount, String> {
        let wrong = || format!("'{text}': a number of nodes, as 3, or a share of them, as 10%");
        if let Ok(count) = text.parse() {
            return Ok(ShareOrCount::Count(count));
        }
        let Fraction(share) = text.parse().map_err(|_| wrong())?;
        if (0.0..=1.0).contains(&share) { Ok(ShareOrCount::Share(share)) } else { Err(wrong()) }
    }
}

impl fmt::Display for ShareOrCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareOrCount::Count(count) => count.fmt(f),
            ShareOrCount::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nodes_are_counted_or_a_share_that_is_rounded_up() {
        let of = |text: &str, all| text.parse::<ShareOrCount>().unwrap().of(all);
        assert_eq!([of("3", 10), of("3", 2), of("10%", 10), of("10 %", 11), of("1%", 3)], [3, 2, 1, 2, 1]);
        assert_eq!([of("100%", 7), of("0%", 7), of("0", 7), of("50%", 0)], [7, 0, 0, 0]);
        for wrong in ["", "-1", "101%", "ten", "1.5", "%"] {
            assert!(wrong.parse::<ShareOrCount>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_share_is_of_more_than_all(per_cent in 0u32..=100, all in 0usize..5000) {
            let of = format!("{per_cent}%").parse::<ShareOrCount>().unwrap().of(all);
            prop_assert!(of <= all && (of >= all * per_cent as usize / 100));
            prop_assert!(of * 100 < all * per_cent as usize + 100);
        }

        #[test]
        fn any_text_is_an_amount_or_a_mistake(text in ".{0,12}") {
            if let Ok(amount) = text.parse::<ShareOrCount>() {
                prop_assert!(amount.of(10) <= 10);
            }
        }
    }
}
