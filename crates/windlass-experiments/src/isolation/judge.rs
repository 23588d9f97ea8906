//! What rates beside an attack show.

use super::network::{PATHS, Path, TARGETS, Target};
use crate::{
    claim::Verdict,
    stats,
    summary::{Filled, Row},
};

/// Part of its rate that a victim behind the box keeps, and of the rate that it has without the box.
const BOUND: f64 = 0.9;

/// Rates of one client in Mbit/s, each of its runs by its situation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Without box and attack.
    pub alone: f64,
    /// Without box, with the attack.
    pub attacked: f64,
    /// With the box, without the attack.
    pub boxed: f64,
    /// With both.
    pub both: f64,
}

/// The runs of one client beside one attack.
#[derive(Clone, Debug)]
pub struct Victim {
    pub path: Path,
    pub target: Target,
    pub runs: Vec<Rates>,
    /// Downloads of which something was not what the server has.
    pub wrong: usize,
}

impl Victim {
    fn median(&self, of: impl Fn(&Rates) -> f64) -> f64 {
        stats::median(&self.runs.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    }
}

/// What is claimed of each victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It keeps its rate behind the box.
    Kept,
    /// It is not slower than without the box.
    NoSlower,
}

/// What is called so in names.
fn target_name(target: Target) -> &'static str {
    if target == Target::Own { "-own" } else { "" }
}

/// What the attack leaves without a box where the machine or the server is the limit, by the clean path, where only they make
/// rates differ; 1: they are not.
fn left_by_machine(victims: &[Victim], target: Target) -> f64 {
    let clean = victims.iter().find(|v| v.target == target && v.path.name == "clean");
    let left = clean.map_or(1.0, |v| v.median(|r| r.attacked / r.alone));
    if left < BOUND { left } else { 1.0 }
}

/// What is had of what there is; where the attack alone leaves nothing, there is nothing to lose.
fn ratio(had: f64, there: f64) -> f64 {
    if there == 0.0 && !had.is_nan() { 1.0 } else { had / there }
}

/// The claims about an attack: of the victims of each server, at the worse path.
pub fn judge(attack: &str, victims: &[Victim], tally: &str) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for target in TARGETS {
        let left = left_by_machine(victims, target);
        for kind in [Kind::Kept, Kind::NoSlower] {
            let value = |v: &Victim| match kind {
                Kind::Kept => ratio(v.median(|r| r.both / r.boxed), left),
                Kind::NoSlower => v.median(|r| ratio(r.both, r.attacked)),
            };
            let own = victims.iter().filter(|v| v.target == target);
            let Some(worst) = own.clone().min_by(|a, b| value(a).total_cmp(&value(b))) else { continue };
            let ours = value(worst);
            let wrong: usize = own.map(|v| v.wrong).sum();
            let (what, of) = match kind {
                Kind::Kept => ("kept", worst.median(|r| r.boxed)),
                Kind::NoSlower => ("no-slower", worst.median(|r| r.attacked)),
            };
            let mut note = format!("{}: {:.1} of {of:.1} Mbit/s", worst.path.name, worst.median(|r| r.both));
            if kind == Kind::Kept && left < 1.0 {
                note += &format!(
                    "; judged by the {left:.2} that the attack leaves without a box: the machine is the limit"
                );
            }
            if wrong > 0 {
                note += &format!("; {wrong} downloads had wrong bytes");
            }
            verdicts.push(Verdict {
                id: format!("{attack}{}-{what}", target_name(target)),
                ours: ours.is_finite().then_some(ours),
                bound: format!(">= {BOUND}"),
                holds: ours >= BOUND && wrong == 0,
                unit: "ratio".into(),
                runs: worst.runs.len(),
                note: format!("{note}; {tally}"),
                ..Verdict::default()
            });
        }
    }
    verdicts
}

/// Heads of the table's columns.
const COLUMNS: [&str; 8] = ["alone", "attacked", "box", "box+att.", "lowest", "highest", "kept", "no slower"];

/// A row for each victim: medians, the spread of the rate with both, ratios.
pub fn rows(attack: &str, victims: &[Victim]) -> Vec<Row> {
    let row = |victim: &Victim| {
        let both: Vec<f64> = victim.runs.iter().map(|r| r.both).collect();
        let values = [
            victim.median(|r| r.alone),
            victim.median(|r| r.attacked),
            victim.median(|r| r.boxed),
            victim.median(|r| r.both),
            stats::quantile(&both, 0.0).unwrap_or(f64::NAN),
            stats::quantile(&both, 1.0).unwrap_or(f64::NAN),
            victim.median(|r| r.both / r.boxed),
            victim.median(|r| ratio(r.both, r.attacked)),
        ];
        Row {
            point: attack.into(),
            variant: format!("{}{}", victim.path.name, target_name(victim.target)),
            values: values.map(|v| v.is_finite().then_some(v)).into(),
        }
    };
    victims.iter().map(row).collect()
}

/// The table of these rows.
pub fn table(rows: Vec<Row>) -> Filled {
    let title =
        "Rates of a victim without and with attack and box (Mbit/s, medians; lowest and highest with both)";
    Filled { title: title.into(), columns: COLUMNS.map(String::from).into(), rows }
}

/// Clients of a network, before their first run.
pub fn victims() -> Vec<Victim> {
    let victim = |target: Target, path: Path| Victim { path, target, runs: Vec::new(), wrong: 0 };
    TARGETS.into_iter().flat_map(|target| PATHS.map(|path| victim(target, path))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(rates: Rates) -> Vec<Victim> {
        let mut all = victims();
        all.iter_mut().for_each(|victim| victim.runs = vec![rates]);
        all
    }

    fn held(victims: &[Victim]) -> Vec<(String, bool)> {
        judge("a", victims, "").into_iter().map(|v| (v.id, v.holds)).collect()
    }

    const FAIR: Rates = Rates { alone: 10.0, attacked: 10.0, boxed: 20.0, both: 19.0 };

    #[test]
    fn a_victim_that_keeps_its_rate_holds() {
        let ids = ["a-kept", "a-no-slower", "a-own-kept", "a-own-no-slower"];
        assert_eq!(held(&all(FAIR)), ids.map(|id| (id.to_string(), true)));
    }

    #[test]
    fn the_worse_path_is_what_counts() {
        let mut victims = all(FAIR);
        victims[0].runs[0].both = 17.0;
        let verdicts = judge("a", &victims, "");
        assert_eq!(verdicts.iter().map(|v| v.holds).collect::<Vec<_>>(), [false, true, true, true]);
        assert!(verdicts[0].note.starts_with("lossy: 17.0 of 20.0"), "{}", verdicts[0].note);
    }

    #[test]
    fn where_the_machine_is_the_limit_the_attack_alone_is_the_measure() {
        let victims = all(Rates { attacked: 5.0, both: 9.5, ..FAIR });
        let verdicts = judge("a", &victims, "");
        assert!(
            verdicts[0].holds && verdicts[0].note.contains("0.50 that the attack leaves"),
            "{:?}",
            verdicts[0]
        );
        assert!(!held(&all(Rates { attacked: 5.0, both: 4.0, ..FAIR })).iter().any(|(_, holds)| *holds));
    }

    #[test]
    fn a_server_that_the_attack_alone_silences_is_not_held_against_the_box() {
        let victims = all(Rates { attacked: 0.0, both: 0.0, ..FAIR });
        let verdicts = judge("a", &victims, "");
        assert!(verdicts.iter().all(|v| v.holds), "{verdicts:?}");
        assert!(verdicts[0].note.contains("0.00 that the attack leaves"), "{}", verdicts[0].note);
    }

    #[test]
    fn wrong_bytes_fail_whatever_the_rate() {
        let mut victims = all(FAIR);
        victims[3].wrong = 1;
        assert_eq!(
            held(&victims).iter().map(|(_, holds)| *holds).collect::<Vec<_>>(),
            [true, true, false, false]
        );
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        assert!(!held(&victims()).iter().any(|(_, holds)| *holds));
    }
}
