//! Guards: bounds of what nodes with a new policy may show, beyond which a rollout is rolled back.

use crate::agent_metrics::Counts;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};
use windlass_scenario::{Fraction, Span};

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Segments found lost, of all segments that controlled senders have sent.
    Loss,
    /// Segments that senders retransmitted themselves, of all that they have sent.
    Retransmits,
    /// Controlled flows that are left to their servers for a while, of all controlled flows.
    Bypassed,
}

const FIGURES: [(&str, Figure); 3] =
    [("loss", Figure::Loss), ("retransmits", Figure::Retransmits), ("bypassed", Figure::Bypassed)];

/// Fewer segments, or flows, than these make no share.
const SEGMENTS_LEAST: f64 = 1000.0;
const FLOWS_LEAST: u64 = 1;

/// Payload of a full segment: what is counted in bytes is compared with segments.
const SEGMENT_BYTES: f64 = 1448.0;

impl Figure {
    /// Its name.
    pub fn name(self) -> &'static str {
        FIGURES.iter().find(|(_, figure)| *figure == self).map_or("", |(name, _)| name)
    }

    /// The share, from 0 on, of what was counted meanwhile. None: too little was sent for one, or it was not counted.
    pub fn share(self, counted: &Counts) -> Option<f64> {
        let of_segments = |count: u64, bytes: u64| {
            let segments = bytes as f64 / SEGMENT_BYTES;
            (segments >= SEGMENTS_LEAST).then(|| count as f64 / segments)
        };
        match self {
            Figure::Loss => of_segments(counted.lost_segs, counted.controlled_bytes),
            Figure::Retransmits => of_segments(
                counted.sender_retransmits,
                counted.controlled_bytes.saturating_add(counted.watched_bytes),
            ),
            Figure::Bypassed => (counted.controllable_flows >= FLOWS_LEAST)
                .then(|| counted.bypassed_flows as f64 / counted.controllable_flows as f64),
        }
    }
}

/// A bound of a figure, within a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Guard {
    /// What is bounded.
    pub figure: Figure,
    /// The share, 0 to 1, up to which nothing is wrong.
    pub most: f64,
    /// Above `most`, how many times the share before the rollout, and that of the nodes that keep the older policy, it may be. None:
    /// `most` is the bound, whatever it was before.
    pub factor: Option<f64>,
    /// What is counted within so long is compared.
    pub window: Duration,
}

const DEFAULT_WINDOW: Duration = Duration::from_secs(30);
const FACTORS: std::ops::RangeInclusive<f64> = 1.0..=1000.0;

/// What a guard is, for messages.
const FORM: &str =
    "FIGURE<SHARE[,FACTORx][,TIME], as loss<2%,2x,30s; figures are loss, retransmits and bypassed";

impl Guard {
    /// Those of a rollout for which no others are given, whose stages are watched for so long.
    pub fn usual(wait: Duration) -> Vec<Guard> {
        let guard = |text: &&str| {
            let guard: Guard = text.parse().expect("a sound guard");
            Guard { window: guard.window.min(wait), ..guard }
        };
        ["loss<2%,2x", "retransmits<1%,2x", "bypassed<30%,2x"].iter().map(guard).collect()
    }

    /// Is this share beyond the bound, and if so, beside which other? `known`: what it was before, and what it is elsewhere, with
    /// what that is.
    pub fn is_exceeded(&self, share: f64, known: &[(&'static str, f64)]) -> bool {
        share > self.most && self.factor.is_none_or(|factor| known.iter().all(|(_, of)| share > factor * of))
    }
}

impl FromStr for Guard {
    type Err = String;

    fn from_str(text: &str) -> Result<Guard, String> {
        let wrong = |what: &str| format!("'{text}': {what}; write {FORM}");
        let (name, bounds) = text.split_once('<').ok_or_else(|| wrong("no '<'"))?;
        let figure = FIGURES.iter().find(|(known, _)| *known == name.trim());
        let (_, figure) = figure.ok_or_else(|| wrong("no such figure"))?;
        let mut parts = bounds.split(',').map(str::trim);
        let Fraction(most) = parts.next().unwrap_or_default().parse().map_err(|_| wrong("no share"))?;
        if most > 1.0 {
            return Err(wrong("a share is 0 to 100%"));
        }
        let (mut factor, mut window) = (None, None);
        for part in parts {
            if let Some(times) = part.strip_suffix('x') {
                let times = times.parse().ok().filter(|times| FACTORS.contains(times));
                let times = times.ok_or_else(|| wrong("a factor is 1x to 1000x"))?;
                if factor.replace(times).is_some() {
                    return Err(wrong("two factors"));
                }
            } else {
                let Span(seconds) = part.parse().map_err(|_| wrong("neither a factor nor a time"))?;
                if !(1.0..=86_400.0).contains(&seconds) {
                    return Err(wrong("the time is 1s to 86400s"));
                }
                if window.replace(Duration::from_secs_f64(seconds)).is_some() {
                    return Err(wrong("two times"));
                }
            }
        }
        Ok(Guard { figure: *figure, most, factor, window: window.unwrap_or(DEFAULT_WINDOW) })
    }
}

impl TryFrom<String> for Guard {
    type Error = String;

    fn try_from(text: String) -> Result<Guard, String> {
        text.parse()
    }
}

impl From<Guard> for String {
    fn from(guard: Guard) -> String {
        guard.to_string()
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<{}%", self.figure.name(), self.most * 100.0)?;
        if let Some(factor) = self.factor {
            write!(f, ",{factor}x")?;
        }
        write!(f, ",{}s", self.window.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn guards_have_a_share_and_may_have_a_factor_and_a_time() {
        let guard: Guard = "loss<2%".parse().unwrap();
        assert_eq!((guard.figure, guard.most, guard.factor), (Figure::Loss, 0.02, None));
        assert_eq!(guard.window, DEFAULT_WINDOW);
        let guard: Guard = "bypassed < 20 %, 1.5x, 10 s".parse().unwrap();
        assert_eq!((guard.figure, guard.factor), (Figure::Bypassed, Some(1.5)));
        assert_eq!(guard.window, Duration::from_secs(10));
        let windows = Guard::usual(Duration::from_secs(5)).into_iter().map(|guard| guard.window);
        assert!(windows.eq([Duration::from_secs(5); 3]));
    }

    #[test]
    fn guards_that_are_none_are_refused_with_what_to_write() {
        let wrong = [
            "",
            "loss",
            "loss<",
            "loss<2",
            "rtt<2%",
            "loss<200%",
            "loss<2%,0.5x",
            "loss<2%,2x,3x",
            "loss<2%,soon",
            "loss<2%,0s",
            "loss<2%,5s,6s",
            "loss<2%,nanx",
            "loss<-1%",
        ];
        for text in wrong {
            let why = text.parse::<Guard>().unwrap_err();
            assert!(why.contains("write FIGURE<SHARE"), "{text}: {why}");
        }
    }

    #[test]
    fn a_guard_with_a_factor_is_exceeded_only_beside_all_that_is_known() {
        let guard: Guard = "loss<2%,2x".parse().unwrap();
        assert!(!guard.is_exceeded(0.02, &[]));
        assert!(guard.is_exceeded(0.021, &[]), "nothing else is known");
        assert!(!guard.is_exceeded(0.05, &[("before", 0.03), ("elsewhere", 0.001)]));
        assert!(guard.is_exceeded(0.05, &[("before", 0.02), ("elsewhere", 0.001)]));
        let alone: Guard = "loss<2%".parse().unwrap();
        assert!(alone.is_exceeded(0.03, &[("before", 0.03)]));
    }

    #[test]
    fn shares_of_little_traffic_are_none() {
        let counted = Counts { lost_segs: 10, controlled_bytes: 1448 * 999, ..Counts::default() };
        assert_eq!(Figure::Loss.share(&counted), None);
        let counted = Counts { lost_segs: 10, controlled_bytes: 1448 * 1000, ..Counts::default() };
        assert_eq!(Figure::Loss.share(&counted), Some(0.01));
        assert_eq!(Figure::Bypassed.share(&counted), None);
        let counted = Counts { bypassed_flows: 1, controllable_flows: 4, ..Counts::default() };
        assert_eq!(Figure::Bypassed.share(&counted), Some(0.25));
    }

    proptest! {
        #[test]
        fn guards_are_read_as_they_are_written(
            figure in 0usize..3,
            per_mille in 0u32..=1000,
            factor in proptest::option::of(1u32..=1000),
            seconds in 1u64..86_400,
        ) {
            let guard = Guard {
                figure: FIGURES[figure].1,
                most: f64::from(per_mille) / 1000.0,
                factor: factor.map(f64::from),
                window: Duration::from_secs(seconds),
            };
            let again: Guard = guard.to_string().parse().unwrap();
            prop_assert!((again.most - guard.most).abs() < 1e-9);
            prop_assert_eq!((again.figure, again.factor, again.window), (guard.figure, guard.factor, guard.window));
        }

        #[test]
        fn any_text_is_a_guard_or_a_mistake(text in "(loss|bypassed|x)?<?[0-9.%,xs -]{0,20}") {
            if let Ok(guard) = text.parse::<Guard>() {
                prop_assert!((0.0..=1.0).contains(&guard.most) && guard.window >= Duration::from_secs(1));
            }
        }
    }
}
