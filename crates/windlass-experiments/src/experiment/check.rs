//! What is looked at before anything runs: whether what is requested can be answered.

use crate::{
    claim::Claim,
    field_error::FieldError,
    figure::{Kind, Plot},
    job::{Condition, Home, Job},
    metric::{Selection, Window, is_about},
    summary::{Column, Summary},
};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use windlass_scenario::{Flow, Scenario, is_name};

/// What a file requests of points.
pub struct Asked<'a> {
    /// Where that stands.
    at: usize,
    /// What to call it.
    what: String,
    /// How the names of its points begin; empty: all points.
    points: &'a [String],
    /// Of which variants; empty: all.
    variants: Vec<&'a str>,
    /// In which stretches of the runs, if not in all of them.
    windows: Vec<Window>,
    /// Whether it is queues that it takes in one.
    has_queue_windows: bool,
    /// Of which links and flows.
    parts: Vec<Part<'a>>,
    /// Whether it needs them in each of the runs; else in one of them, and has no number of the others.
    is_judged: bool,
}

/// Links and flows that something is taken of.
struct Part<'a> {
    /// What to call it.
    what: String,
    selection: Selection<'a>,
    /// In runs of which variants; empty: of all.
    variants: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    /// Of a claim.
    pub fn by_claim(claim: &'a Spanned<Claim>) -> Asked<'a> {
        let Claim { id, points, windows, .. } = claim.get_ref();
        let variants = claim.get_ref().variants().map(String::as_str).collect();
        let what = format!("claim \"{id}\"");
        let part = |(selection, variants)| Part { what: what.clone(), selection, variants };
        let parts = claim.get_ref().selections().into_iter().map(part).collect();
        let (at, windows) = (claim.span().start, windows.clone());
        let has_queue_windows = !windows.is_empty() && !claim.get_ref().metric.is_of_flows();
        Asked { at, what, points, variants, windows, has_queue_windows, parts, is_judged: true }
    }

    /// Of a plot.
    pub fn by_plot(plot: &'a Spanned<Plot>) -> Asked<'a> {
        let (at, points) = (plot.span().start, &plot.get_ref().points);
        let what = "plot".to_string();
        let part = Part { what: what.clone(), selection: plot.get_ref().selection(), variants: Vec::new() };
        let (variants, windows, parts) = (Vec::new(), Vec::new(), vec![part]);
        Asked { at, what, points, variants, windows, has_queue_windows: false, parts, is_judged: false }
    }

    /// Of a table.
    pub fn by_table(table: &'a Spanned<Summary>) -> Asked<'a> {
        let Summary { points, column, .. } = table.get_ref();
        let windows = column.iter().filter_map(|c| c.window).collect();
        let has_queue_windows = column.iter().any(|c| c.window.is_some() && !c.metric.is_of_flows());
        let part = |c: &'a Column| Part {
            what: format!("table: {}", c.name),
            selection: c.selection(),
            variants: Vec::new(),
        };
        let (at, what, variants) = (table.span().start, "table".into(), Vec::new());
        let parts = column.iter().map(part).collect();
        Asked { at, what, points, variants, windows, has_queue_windows, parts, is_judged: false }
    }
}

/// Most bytes of a point's name.
const NAME_MOST_BYTES: usize = 200;

/// Names stand in tables of comma-separated values, in a line each.
fn name<T>(place: &Spanned<T>, kind: &str, name: &str) -> Result<(), FieldError> {
    if is_name(name) && !name.contains([',', '"']) {
        return Ok(());
    }
    let what = format!(
        "{kind} {name:?}: tables have it on one line, between commas; write it without commas, quotes and control characters"
    );
    Err(FieldError::at(place, what))
}

/// Plots are kept in files named by their points.
pub fn point_name<T>(place: &Spanned<T>, point: &str) -> Result<(), FieldError> {
    name(place, "point", point)?;
    if !point.contains('/') && point.len() <= NAME_MOST_BYTES {
        return Ok(());
    }
    let what = format!(
        "point \"{point}\": files are named so; write it without /, in {NAME_MOST_BYTES} bytes at most"
    );
    Err(FieldError::at(place, what))
}

/// That of a variant.
pub fn variant_name<T>(place: &Spanned<T>, variant: &str) -> Result<(), FieldError> {
    name(place, "variant", variant)
}

/// Each name is there once: it identifies runs.
pub fn once<'a, T>(
    kind: &str,
    names: impl Iterator<Item = (&'a Spanned<T>, &'a str)>,
) -> Result<(), FieldError>
where
    T: 'a,
{
    let mut known = BTreeSet::new();
    for (place, name) in names {
        if !known.insert(name) {
            return Err(FieldError::at(
                place,
                format!("{kind} \"{name}\" is there twice; rename one, or take one away"),
            ));
        }
    }
    Ok(())
}

/// Each beginning of points' names is that of a point which full mode runs: what is requested of none would be left
/// out silently, and a claim that is left out fails nothing. Quick mode may leave points out.
pub fn points(asked: &[Asked], full: &[Condition]) -> Result<(), FieldError> {
    let names: Vec<&str> = full.iter().filter(|c| !c.jobs.is_empty()).map(|c| c.name.as_str()).collect();
    for Asked { at, what, points, .. } in asked {
        let is_of_none = |p: &&String| !names.iter().any(|name| is_about(std::slice::from_ref(p), name));
        if let Some(prefix) = points.iter().find(is_of_none) {
            let what = format!(
                "{what}: points: no point of full mode begins with \"{prefix}\"; there are {}",
                list(&names)
            );
            return Err(FieldError { at: *at, what });
        }
    }
    Ok(())
}

/// Windows end before the runs do: of what is beyond `time_limit` nothing is there, which would count as nothing sent.
pub fn windows(asked: &[Asked], conditions: &[Condition], quick: bool) -> Result<(), FieldError> {
    for asked in asked.iter().filter(|a| !a.windows.is_empty()) {
        let jobs = conditions.iter().filter(|c| is_about(asked.points, &c.name)).flat_map(|c| &c.jobs);
        for job in jobs.filter(|j| asked.variants.is_empty() || asked.variants.contains(&j.variant.as_str()))
        {
            if job.on == Home::Lab && asked.has_queue_windows {
                let what = format!(
                    "{}: windows of queues are of simulated runs, and variant \"{}\" of point \"{}\" runs in the lab",
                    asked.what, job.variant, job.point
                );
                return Err(FieldError { at: asked.at, what });
            }
            let limit = job.scenario.time_limit;
            if let Some(w) = asked.windows.iter().find(|w| w.to.ns() > limit.ns()) {
                let what = format!(
                    "{}: window: {} to {} ends after time_limit = \"{limit}\" of point \"{}\", variant \"{}\"{}; \
                     end it there, or make time_limit longer",
                    asked.what,
                    w.from,
                    w.to,
                    job.point,
                    job.variant,
                    if quick { ", in quick mode" } else { "" }
                );
                return Err(FieldError { at: asked.at, what });
            }
        }
    }
    Ok(())
}

/// Claims are about variants that are run, and have all that their metric needs.
pub fn claims(claims: &[Spanned<Claim>], variants: &[String]) -> Result<(), FieldError> {
    for place in claims {
        let claim = place.get_ref();
        if let Some(name) = claim.variants().find(|v| !variants.contains(v)) {
            let what = format!(
                "claim \"{}\": variant \"{name}\" is not run; there are {}",
                claim.id,
                variants.join(", ")
            );
            return Err(FieldError::at(place, what));
        }
        claim.check().map_err(|what| FieldError::at(place, format!("claim \"{}\": {what}", claim.id)))?;
    }
    Ok(())
}

/// Variants that plots compare with are run, and the paper's numbers of tables are of points and variants that are.
pub fn variants(
    plots: &[Spanned<Plot>],
    tables: &[Spanned<Summary>],
    variants: &[String],
    full: &[Condition],
) -> Result<(), FieldError> {
    for place in plots {
        let Plot { per, variants: drawn, .. } = place.get_ref();
        if let Some(name) = drawn.iter().chain(per).find(|name| !variants.contains(name)) {
            let what = format!("plot: variant \"{name}\" is not run; there are {}", variants.join(", "));
            return Err(FieldError::at(place, what));
        }
    }
    for place in tables {
        for column in &place.get_ref().column {
            let is_there = |key: &&String| {
                let is_place = |(point, variant): (&str, &str)| {
                    full.iter().any(|c| c.name == point) && variants.iter().any(|v| v == variant)
                };
                variants.contains(key) || key.rsplit_once(' ').is_some_and(is_place)
            };
            if let Some(key) = column.paper.keys().find(|key| !is_there(key)) {
                let what = format!(
                    "table: {}: paper: \"{key}\" is no variant, nor a point and one; variants are {}",
                    column.name,
                    variants.join(", ")
                );
                return Err(FieldError::at(place, what));
            }
        }
    }
    Ok(())
}

/// Most names that a mistake lists.
const LISTED: usize = 8;

/// The first few of these, and how many more there are.
fn list<T: AsRef<str>>(names: &[T]) -> String {
    let some: Vec<&str> = names.iter().take(LISTED).map(AsRef::as_ref).collect();
    let more = names.len() - some.len();
    some.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Links, classes and tenants that are requested exist: those of claims in all runs that they rest on, others in some.
pub fn selections(asked: &[Asked], conditions: &[Condition], quick: bool) -> Result<(), FieldError> {
    for Asked { at, points, parts, is_judged, .. } in asked {
        // seeds make no difference to it
        let jobs = conditions.iter().filter(|c| is_about(points, &c.name)).flat_map(|c| &c.jobs);
        let jobs: Vec<&Job> = jobs.filter(|j| j.scenario.seed == 1).collect();
        for Part { what, selection, variants } in parts {
            let mine = jobs.iter().filter(|j| variants.is_empty() || variants.contains(&j.variant.as_str()));
            let mut lacks = mine.map(|job| lacks(selection, &job.scenario).map(|lack| (job, lack)));
            let first = if *is_judged { lacks.find(Option::is_some) } else { lacks.next() };
            let Some(Some((job, Lack { what: key, known }))) = first else { continue };
            // the others are looked at only if the first has not what is requested
            if !is_judged && lacks.any(|lack| lack.is_none()) {
                continue;
            }
            let known = if known.is_empty() { "none".to_string() } else { list(&known) };
            let mode = if quick { ", in quick mode" } else { "" };
            let what = format!(
                "{what}: {key} is not in point \"{}\", variant \"{}\"{mode}; there are {known}",
                job.point, job.variant
            );
            return Err(FieldError { at: *at, what });
        }
    }
    Ok(())
}

/// Something that is requested and not there.
struct Lack {
    /// Key and name: `link = "a > b"`.
    what: String,
    /// What there is of the kind.
    known: Vec<String>,
}

/// What a scenario does not have of a selection.
fn lacks(of: &Selection, scenario: &Scenario) -> Option<Lack> {
    let of_flows = |name: fn(&Flow) -> &String| {
        let mut seen = BTreeSet::new();
        let all = scenario.flows.iter().map(name).filter(|n| !n.is_empty() && seen.insert(n.as_str()));
        all.cloned().collect()
    };
    let lack = |key: &str, name: Option<&str>, known: &dyn Fn() -> Vec<String>| {
        let (name, known) = (name?, known());
        let is_there = known.iter().any(|k| k == name);
        (!is_there).then(|| Lack { what: format!("{key} = \"{name}\""), known })
    };
    lack("link", of.link, &|| scenario.link_names())
        .or_else(|| lack("class", of.class, &|| of_flows(|f| &f.class)))
        .or_else(|| lack("per_class", of.per_class, &|| of_flows(|f| &f.class)))
        .or_else(|| lack("tenant", of.tenant, &|| of_flows(|f| &f.tenant)))
}

/// Plots of what varies have at least two points on a line: others are not drawn.
pub fn plots(plots: &[Spanned<Plot>], full: &[Condition]) -> Result<(), FieldError> {
    for place in plots.iter().filter(|p| p.get_ref().kind == Kind::Vary) {
        let mine = full.iter().filter(|c| !c.jobs.is_empty() && is_about(&place.get_ref().points, &c.name));
        let mut lines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for condition in mine.filter(|c| c.x.is_some()) {
            *lines.entry((&condition.point, &condition.line)).or_default() += 1;
        }
        if lines.values().all(|points| *points < 2) {
            let what = "plot: nothing varies by numbers at its points, so that there is no x axis; \
                        vary something, or draw a cdf or over time";
            return Err(FieldError::at(place, what.into()));
        }
    }
    Ok(())
}
