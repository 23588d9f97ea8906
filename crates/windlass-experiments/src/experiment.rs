//! Experiment files.

use crate::{
    claim::Claim,
    report::Outcome,
    runner::{self, Job, Settings},
};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::{fs, path::Path};
use windlass_scenario::{Buffer, Bytes, Flow, Fraction, Host, Link, Mode, Rate, Scenario, Span, Windlass};

/// The experiments that this build knows, from `experiments/`.
const FILES: [(&str, &str); 5] = [
    ("tcon-tct", include_str!("../../../experiments/tcon-tct.toml")),
    ("tcon-loss", include_str!("../../../experiments/tcon-loss.toml")),
    ("tcon-buffer", include_str!("../../../experiments/tcon-buffer.toml")),
    ("no-harm", include_str!("../../../experiments/no-harm.toml")),
    ("native-parity", include_str!("../../../experiments/native-parity.toml")),
];

/// One published figure or table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Conditions.
    pub point: Vec<Point>,
    /// Who sends, and with what in between.
    pub variants: Vec<String>,
    /// What must come out.
    pub claim: Vec<Claim>,
}

/// One condition: a network and a transfer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its name, unique.
    pub name: String,
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// Round-trip propagation delay.
    pub rtt: Span,
    /// Random loss towards the client.
    #[serde(default)]
    pub loss: Fraction,
    /// Buffer of the bottleneck.
    pub buffer: Buffer,
    /// Size of the transfer.
    pub size: Bytes,
    /// Runs of each variant in full mode.
    pub runs: u32,
    /// ... and in quick mode; 0: the point is left out.
    pub quick_runs: u32,
    /// Only these variants; empty: all of the experiment.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Smaller size for quick mode.
    pub quick_size: Option<Bytes>,
}

/// Who sends, and what is in between.
fn variant(name: &str) -> Result<(&'static str, Option<Windlass>)> {
    let windlass =
        |mode| Windlass { at: "box".into(), facing: "server".into(), algorithm: "bbr".into(), mode };
    Ok(match name {
        "cubic" => ("cubic", None),
        "bbr" => ("bbr", None),
        "reno" => ("reno", None),
        "native-reno" => ("wl_reno", None),
        "native-cubic" => ("wl_cubic", None),
        "native-bbr" => ("wl_bbr", None),
        "windlass" => ("cubic", Some(windlass(Mode::Transparent))),
        "cubic-watched" => ("cubic", Some(windlass(Mode::Watch))),
        "bbr-watched" => ("bbr", Some(windlass(Mode::Watch))),
        "bbr-behind-box" => ("bbr", Some(windlass(Mode::Transparent))),
        other => {
            bail!(
                "unknown variant \"{other}\"; known: reno, cubic, bbr, native-reno, native-cubic, native-bbr, windlass, \
                 cubic-watched, bbr-watched, bbr-behind-box"
            )
        }
    })
}

impl Point {
    /// The scenario of one run.
    pub fn scenario(&self, variant_name: &str, seed: u64, size: Bytes) -> Result<Scenario> {
        let (algorithm, windlass) = variant(variant_name)?;
        let host = |name: &str| Host { name: name.into() };
        let cable = Link::cable(["server".into(), "box".into()]);
        let wan = Link {
            between: ["box".into(), "client".into()],
            rate: Some(self.rate),
            delay: Span(self.rtt.0 / 2.0),
            buffer: Some(self.buffer),
            loss: self.loss,
            ..cable.clone()
        };
        let flow = Flow {
            from: "server".into(),
            to: "client".into(),
            size,
            start: Span(0.0),
            algorithm: algorithm.into(),
        };
        // a lossy CUBIC transfer takes long; nobody waits for ever
        let expected_s = size.0 * 8.0 / self.rate.0 + 10.0 * self.rtt.0;
        Ok(Scenario {
            name: format!("{}/{variant_name}", self.name),
            seed,
            time_limit: Span((expected_s * 100.0).clamp(60.0, 900.0)),
            hosts: vec![host("server"), host("box"), host("client")],
            switches: Vec::new(),
            links: vec![cable, wan],
            flows: vec![flow],
            windlass,
        })
    }
}

impl Experiment {
    /// Names of all experiments.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// The experiment of that name.
    pub fn by_name(name: &str) -> Result<Experiment> {
        let (_, text) =
            FILES.iter().find(|(n, _)| *n == name).with_context(|| format!("no experiment '{name}'"))?;
        Self::parse(text).with_context(|| format!("experiments/{name}.toml"))
    }

    /// The experiment of a file.
    pub fn from_file(path: &Path) -> Result<Experiment> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Checks the text of an experiment file.
    pub fn parse(text: &str) -> Result<Experiment> {
        let experiment: Experiment = toml::from_str(text)?;
        for name in experiment.variants.iter().chain(experiment.point.iter().flat_map(|p| &p.variants)) {
            variant(name)?;
        }
        for claim in &experiment.claim {
            for name in [Some(&claim.of), claim.per.as_ref()].into_iter().flatten() {
                if !experiment.variants.contains(name) {
                    bail!("claim {}: variant \"{name}\" is not run", claim.id);
                }
            }
        }
        Ok(experiment)
    }

    fn runs(&self, point: &Point, quick: bool) -> u32 {
        if quick { point.quick_runs } else { point.runs }
    }

    /// All runs, the variants of one seed next to each other, so that they run side by side.
    pub fn jobs(&self, quick: bool) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for point in &self.point {
            let variants = if point.variants.is_empty() { &self.variants } else { &point.variants };
            let size = point.quick_size.filter(|_| quick).unwrap_or(point.size);
            for seed in 1..=u64::from(self.runs(point, quick)) {
                for name in variants {
                    jobs.push(Job {
                        point: point.name.clone(),
                        variant: name.clone(),
                        bdp_bytes: point.rate.0 / 8.0 * point.rtt.0,
                        needs_samples: self.claim.iter().any(|c| c.metric == crate::claim::Metric::StoredBdp),
                        scenario: point.scenario(name, seed, size)?,
                    });
                }
            }
        }
        Ok(jobs)
    }

    /// Runs the experiment and judges its claims.
    pub fn run(&self, settings: &Settings) -> Result<Outcome> {
        let folder = settings.out.join(&self.name);
        let runs = runner::run_all(&self.name, self.jobs(settings.quick)?, settings, &folder)?;
        let points: Vec<String> =
            self.point.iter().filter(|p| self.runs(p, settings.quick) > 0).map(|p| p.name.clone()).collect();
        let verdicts = self
            .claim
            .iter()
            .filter(|c| {
                // a claim about points that quick mode leaves out says nothing there
                c.points.is_empty()
                    || points.iter().any(|p| c.points.iter().any(|prefix| p.starts_with(prefix.as_str())))
            })
            .map(|c| c.judge(&points, &runs))
            .collect();
        let outcome = Outcome { name: self.name.clone(), title: self.title.clone(), verdicts, runs };
        outcome.write(&folder, settings.quick)?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_experiments_are_sound() {
        for name in Experiment::names() {
            let experiment = Experiment::by_name(name).unwrap();
            assert_eq!(experiment.name, name);
            assert!(!experiment.jobs(false).unwrap().is_empty());
            assert!(!experiment.jobs(true).unwrap().is_empty());
        }
    }

    #[test]
    fn a_claim_about_a_variant_that_is_not_run_is_refused() {
        let text = include_str!("../../../experiments/tcon-loss.toml")
            .replace("of = \"windlass\"", "of = \"cubic\"");
        assert!(Experiment::parse(&text).unwrap_err().to_string().contains("not run"));
    }
}
