//! Experiment files.

pub(crate) mod check;

use crate::{
    claim::Claim,
    field_error::FieldError,
    figure::Plot,
    job::{Condition, Home, Job, Key},
    metric::{Metric, is_about},
    report::Outcome,
    runner,
    settings::Settings,
    summary::Summary,
    vary::{self, Varied},
    wan,
};
use anyhow::{Context, Result, anyhow};
use check::Asked;
use serde::{Deserialize, de::DeserializeOwned};
use std::{num::NonZeroU64, path::Path};
use toml::Spanned;
use windlass_scenario::{Draft, ScenarioError, Span, read_file, with_key};

/// The experiments that this build knows, from `experiments/`.
const FILES: [(&str, &str); 29] = [
    ("tcon-tct", include_str!("../../../experiments/tcon-tct.toml")),
    ("tcon-gain", include_str!("../../../experiments/tcon-gain.toml")),
    ("tcon-loss", include_str!("../../../experiments/tcon-loss.toml")),
    ("tcon-buffer", include_str!("../../../experiments/tcon-buffer.toml")),
    ("no-harm", include_str!("../../../experiments/no-harm.toml")),
    ("native-parity", include_str!("../../../experiments/native-parity.toml")),
    ("bbr3-shallow-buffers", include_str!("../../../experiments/bbr3-shallow-buffers.toml")),
    ("agreement", include_str!("../../../experiments/agreement.toml")),
    ("trim-impairment", include_str!("../../../experiments/trim-impairment.toml")),
    ("trim-timeouts", include_str!("../../../experiments/trim-timeouts.toml")),
    ("trim-threshold", include_str!("../../../experiments/trim-threshold.toml")),
    ("trim-queue", include_str!("../../../experiments/trim-queue.toml")),
    ("trim-convergence", include_str!("../../../experiments/trim-convergence.toml")),
    ("trim-multi-hop", include_str!("../../../experiments/trim-multi-hop.toml")),
    ("trim-concurrency", include_str!("../../../experiments/trim-concurrency.toml")),
    ("trim-fat-tree", include_str!("../../../experiments/trim-fat-tree.toml")),
    ("trim-transparent", include_str!("../../../experiments/trim-transparent.toml")),
    ("trim-testbed", include_str!("../../../experiments/trim-testbed.toml")),
    ("trim-transparent-testbed", include_str!("../../../experiments/trim-transparent-testbed.toml")),
    ("ctrltcp-fairness", include_str!("../../../experiments/ctrltcp-fairness.toml")),
    ("ctrltcp-testbed", include_str!("../../../experiments/ctrltcp-testbed.toml")),
    ("ctrltcp-short-flow", include_str!("../../../experiments/ctrltcp-short-flow.toml")),
    ("ctrltcp-rtt-ratio", include_str!("../../../experiments/ctrltcp-rtt-ratio.toml")),
    ("ccc-four-flows", include_str!("../../../experiments/ccc-four-flows.toml")),
    ("ccc-ack-clock", include_str!("../../../experiments/ccc-ack-clock.toml")),
    ("ccc-ack-clock-testbed", include_str!("../../../experiments/ccc-ack-clock-testbed.toml")),
    ("ccc-ablation", include_str!("../../../experiments/ccc-ablation.toml")),
    ("ccc-priorities", include_str!("../../../experiments/ccc-priorities.toml")),
    ("ccc-testbed", include_str!("../../../experiments/ccc-testbed.toml")),
];

/// The scenarios that experiments can name, from `scenarios/`.
const SCENARIOS: [(&str, &str); 4] = [
    ("lan", include_str!("../../../scenarios/lan.toml")),
    ("oregon", include_str!("../../../scenarios/oregon.toml")),
    ("shanghai", include_str!("../../../scenarios/shanghai.toml")),
    ("wan", include_str!("../../../scenarios/wan.toml")),
];

/// Length of intervals where a claim speaks of a time and the experiment names no length.
const INTERVAL: Span = Span(0.01);

/// One published figure or table.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What must come out.
    pub claims: Vec<Claim>,
    /// What is drawn besides distributions of completion times.
    pub plots: Vec<Plot>,
    /// What is put beside each other.
    pub tables: Vec<Summary>,
    quick: Vec<Condition>,
    full: Vec<Condition>,
}

/// An experiment over one WAN.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WanFile {
    name: String,
    title: String,
    point: Vec<Spanned<wan::Point>>,
    variants: Vec<Spanned<String>>,
    claim: Vec<Spanned<Claim>>,
}

/// An experiment over any scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariedFile {
    name: String,
    title: String,
    #[serde(default)]
    on: Home,
    scenario: Spanned<toml::Value>,
    interval: Option<Span>,
    variant: Vec<vary::Variant>,
    point: Vec<vary::Point>,
    #[serde(default)]
    claim: Vec<Spanned<Claim>>,
    #[serde(default)]
    plot: Vec<Spanned<Plot>>,
    #[serde(default)]
    table: Vec<Spanned<Summary>>,
}

fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, ScenarioError> {
    toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        let what = with_key(text, at, &e.message().replace('\n', " "));
        FieldError { at, what }.in_file(file, text)
    })
}

/// The scenario that an experiment names: one of ours, or a file beside the experiment's.
fn named_scenario(name: &str, file: &str) -> Result<Draft> {
    if let Some((_, text)) = SCENARIOS.iter().find(|(n, _)| *n == name) {
        return Ok(Draft::parse(&format!("scenarios/{name}.toml"), text)?);
    }
    if !name.ends_with(".toml") {
        let known: Vec<_> = SCENARIOS.iter().map(|(n, _)| *n).collect();
        return Err(anyhow!(
            "scenario: no \"{name}\"; there are {}, or name a *.toml file",
            known.join(", ")
        ));
    }
    let path = Path::new(file).with_file_name(name);
    let text = read_file(&path).with_context(|| format!("scenario: {}", path.display()))?;
    Ok(Draft::parse(&path.display().to_string(), &text)?)
}

impl Experiment {
    /// Names of all experiments.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// Names of the built-in experiments, each with a line of what it is about. The rest of a file is not looked at: the networks of
    /// some take a while to make.
    pub fn titles() -> impl Iterator<Item = (&'static str, String)> {
        #[derive(Deserialize)]
        struct Head {
            title: String,
        }
        let title = |text| toml::from_str(text).map_or_else(|_| String::new(), |head: Head| head.title);
        FILES.iter().map(move |(name, text)| (*name, title(text)))
    }

    /// The experiment of that name.
    pub fn by_name(name: &str) -> Result<Experiment> {
        let (_, text) =
            FILES.iter().find(|(n, _)| *n == name).with_context(|| format!("no experiment '{name}'"))?;
        Self::parse(&format!("experiments/{name}.toml"), text)
    }

    /// The experiment of a file.
    pub fn from_file(path: &Path) -> Result<Experiment> {
        let text = read_file(path).with_context(|| path.display().to_string())?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Checks the text of an experiment file; `file` is for messages, and scenarios are looked for beside it.
    pub fn parse(file: &str, text: &str) -> Result<Experiment> {
        #[derive(Deserialize)]
        struct Kind {
            scenario: Option<Spanned<toml::Value>>,
        }
        let kind: Kind = read(file, text)?;
        if kind.scenario.is_some() { Self::varied(file, text) } else { Self::wan(file, text) }
    }

    fn wan(file: &str, text: &str) -> Result<Experiment> {
        let parsed: WanFile = read(file, text)?;
        let place = |m: FieldError| m.in_file(file, text);
        parsed.variants.iter().try_for_each(|v| check::variant_name(v, v.get_ref())).map_err(place)?;
        check::once("variant", parsed.variants.iter().map(|v| (v, v.get_ref().as_str()))).map_err(place)?;
        for point in &parsed.point {
            check::once("variant", point.get_ref().variants.iter().map(|v| (point, v.as_str())))
                .map_err(place)?;
        }
        parsed.point.iter().try_for_each(|p| check::point_name(p, &p.get_ref().name)).map_err(place)?;
        check::once("point", parsed.point.iter().map(|p| (p, p.get_ref().name.as_str()))).map_err(place)?;
        let variants: Vec<String> = parsed.variants.iter().map(|v| v.get_ref().clone()).collect();
        check::claims(&parsed.claim, &variants).map_err(place)?;
        let claims: Vec<Claim> = parsed.claim.iter().map(|c| c.get_ref().clone()).collect();
        let needs_samples = needs_samples(&claims);
        let conditions = |quick| -> Result<Vec<Condition>> {
            parsed.point.iter().map(|p| p.get_ref().condition(&variants, quick, needs_samples)).collect()
        };
        let quick = conditions(true).with_context(|| file.to_string())?;
        let full = conditions(false).with_context(|| file.to_string())?;
        let asked: Vec<Asked> = parsed.claim.iter().map(Asked::by_claim).collect();
        check::points(&asked, &full).map_err(place)?;
        check::selections(&asked, &full, false).map_err(place)?;
        Ok(Experiment {
            quick,
            full,
            name: parsed.name,
            title: parsed.title,
            claims,
            plots: Vec::new(),
            tables: Vec::new(),
        })
    }

    fn varied(file: &str, text: &str) -> Result<Experiment> {
        let parsed: VariedFile = read(file, text)?;
        let base = match parsed.scenario.get_ref() {
            toml::Value::String(name) => named_scenario(name, file)
                .map_err(|e| FieldError::at(&parsed.scenario, format!("{e:#}")).in_file(file, text))?,
            _ => Draft::parse_part(file, text)?,
        };
        let claims: Vec<Claim> = parsed.claim.iter().map(|c| c.get_ref().clone()).collect();
        let plots: Vec<Plot> = parsed.plot.iter().map(|p| p.get_ref().clone()).collect();
        let tables: Vec<Summary> = parsed.table.iter().map(|t| t.get_ref().clone()).collect();
        let varied = Varied {
            base,
            on: parsed.on,
            variants: parsed.variant,
            points: parsed.point,
            interval: parsed.interval,
            needs_samples: needs_samples(&claims),
        };
        let place = |m: FieldError| m.in_file(file, text);
        varied.check_names().map_err(place)?;
        check::claims(&parsed.claim, &varied.names()).map_err(place)?;
        let mut full = varied.conditions(false).map_err(place)?;
        let mut quick = varied.conditions(true).map_err(place)?;
        let timed: Vec<&[String]> = (claims.iter().filter(|c| c.needs_intervals()).map(|c| &c.points[..]))
            .chain(plots.iter().filter(|p| p.needs_intervals()).map(|p| &p.points[..]))
            .chain(tables.iter().filter(|t| t.needs_intervals()).map(|t| &t.points[..]))
            .collect();
        for condition in full.iter_mut().chain(&mut quick) {
            // others are not: real ones would be played in another way for it
            if timed.iter().any(|points| is_about(points, &condition.name)) {
                let interval = |job: &mut Job| job.interval = job.interval.or(NonZeroU64::new(INTERVAL.ns()));
                condition.jobs.iter_mut().for_each(interval);
            }
        }
        for plot in &parsed.plot {
            plot.get_ref().check().map_err(|what| place(FieldError::at(plot, format!("plot: {what}"))))?;
        }
        for table in &parsed.table {
            table.get_ref().check().map_err(|what| place(FieldError::at(table, format!("table: {what}"))))?;
        }
        let asked: Vec<Asked> = (parsed.claim.iter().map(Asked::by_claim))
            .chain(parsed.plot.iter().map(Asked::by_plot))
            .chain(parsed.table.iter().map(Asked::by_table))
            .collect();
        check::points(&asked, &full).map_err(place)?;
        check::windows(&asked, &full, false).map_err(place)?;
        check::windows(&asked, &quick, true).map_err(place)?;
        check::selections(&asked, &full, false).map_err(place)?;
        // what quick mode leaves out may be all that a plot or table speaks of
        check::selections(&asked[..parsed.claim.len()], &quick, true).map_err(place)?;
        check::plots(&parsed.plot, &full).map_err(place)?;
        check::variants(&parsed.plot, &parsed.table, &varied.names(), &full).map_err(place)?;
        Ok(Experiment { name: parsed.name, title: parsed.title, claims, plots, tables, quick, full })
    }

    /// Conditions of one mode that have runs.
    pub fn conditions(&self, quick: bool) -> impl Iterator<Item = &Condition> {
        let all = if quick { &self.quick } else { &self.full };
        all.iter().filter(|c| !c.jobs.is_empty())
    }

    /// All runs, the variants of one seed next to each other, so that they run side by side.
    pub fn jobs(&self, quick: bool) -> Vec<Job> {
        self.conditions(quick).flat_map(|c| c.jobs.iter().cloned()).collect()
    }

    /// Whether each run can be where it is to be; else the first that cannot, what stands in the way and the cure.
    pub fn check(&self, quick: bool) -> Result<()> {
        // seeds make no difference to it
        let jobs = self.conditions(quick).flat_map(|c| c.jobs.iter().filter(|j| j.scenario.seed == 1));
        for job in jobs {
            let (point, variant) = (&job.point, &job.variant);
            job.on
                .check(&job.scenario)
                .map_err(|refusal| anyhow!("point \"{point}\", variant \"{variant}\": {refusal}"))?;
        }
        Ok(())
    }

    /// Runs the experiment and judges its claims.
    pub fn run(&self, settings: &Settings) -> Result<Outcome> {
        let folder = settings.folder(&self.name);
        let jobs = self.jobs(settings.quick);
        let planned: Vec<Key> = jobs.iter().map(Job::key).collect();
        let runs = runner::run_all(&self.name, jobs, settings, &folder)?;
        let points: Vec<String> = self.conditions(settings.quick).map(|c| c.name.clone()).collect();
        let verdicts = self
            .claims
            .iter()
            .filter(|c| {
                // a claim about points that quick mode leaves out has no meaning there
                c.points.is_empty() || points.iter().any(|p| c.is_about(p))
            })
            .map(|c| {
                let planned = planned.iter().filter(|(point, variant, _)| c.rests_on(point, variant));
                c.judge(&points, &runs).of_planned(planned.count())
            })
            .collect();
        let tables = self.tables.iter().map(|t| t.fill(&runs)).collect();
        let outcome = Outcome { name: self.name.clone(), title: self.title.clone(), verdicts, tables, runs };
        outcome.write(
            &folder,
            settings.quick,
            &self.plots,
            &self.conditions(settings.quick).collect::<Vec<_>>(),
        )?;
        Ok(outcome)
    }
}

fn needs_samples(claims: &[Claim]) -> bool {
    claims.iter().any(|c| c.metric == Metric::StoredBdp)
}

#[cfg(test)]
mod tests;
