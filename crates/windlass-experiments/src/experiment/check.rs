//! What is looked at before anything runs: whether what is asked for can be answered.

use crate::{
    claim::Claim,
    figure::Plot,
    job::{Condition, Home},
    metric::{Window, is_about},
    mistake::Mistake,
    summary::Summary,
};
use std::collections::BTreeSet;
use toml::Spanned;

/// What a file asks of points.
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
}

impl<'a> Asked<'a> {
    /// Of a claim.
    pub fn by_claim(claim: &'a Spanned<Claim>) -> Asked<'a> {
        let Claim { id, points, windows, .. } = claim.get_ref();
        let variants = claim.get_ref().variants().map(String::as_str).collect();
        Asked {
            at: claim.span().start,
            what: format!("claim \"{id}\""),
            points,
            variants,
            windows: windows.clone(),
        }
    }

    /// Of a plot.
    pub fn by_plot(plot: &'a Spanned<Plot>) -> Asked<'a> {
        let (at, points) = (plot.span().start, &plot.get_ref().points);
        Asked { at, what: "plot".into(), points, variants: Vec::new(), windows: Vec::new() }
    }

    /// Of a table.
    pub fn by_table(table: &'a Spanned<Summary>) -> Asked<'a> {
        let Summary { points, column, .. } = table.get_ref();
        let windows = column.iter().filter_map(|c| c.window).collect();
        Asked { at: table.span().start, what: "table".into(), points, variants: Vec::new(), windows }
    }
}

/// Most bytes of a point's name.
const NAME_MOST_BYTES: usize = 200;

/// Plots are kept in files named by their points.
pub fn point_name<T>(place: &Spanned<T>, name: &str) -> Result<(), Mistake> {
    if !name.contains('/') && name.len() <= NAME_MOST_BYTES {
        return Ok(());
    }
    let what = format!(
        "point \"{name}\": files are named so; write it without /, in {NAME_MOST_BYTES} bytes at most"
    );
    Err(Mistake::at(place, what))
}

/// Each name is there once: runs are told apart by it.
pub fn once<'a, T>(kind: &str, names: impl Iterator<Item = (&'a Spanned<T>, &'a str)>) -> Result<(), Mistake>
where
    T: 'a,
{
    let mut known = BTreeSet::new();
    for (place, name) in names {
        if !known.insert(name) {
            return Err(Mistake::at(
                place,
                format!("{kind} \"{name}\" is there twice; rename one, or take one away"),
            ));
        }
    }
    Ok(())
}

/// Each beginning of points' names is that of a point which full mode runs: what is asked of none would be left out
/// without a word, and a claim that is left out fails nothing. Quick mode may leave points out.
pub fn points(asked: &[Asked], full: &[Condition]) -> Result<(), Mistake> {
    let names: Vec<&str> = full.iter().filter(|c| !c.jobs.is_empty()).map(|c| c.name.as_str()).collect();
    for Asked { at, what, points, .. } in asked {
        let is_of_none = |p: &&String| !names.iter().any(|name| is_about(std::slice::from_ref(p), name));
        if let Some(prefix) = points.iter().find(is_of_none) {
            let what = format!(
                "{what}: points: no point of full mode begins with \"{prefix}\"; there are {}",
                list(&names)
            );
            return Err(Mistake { at: *at, what });
        }
    }
    Ok(())
}

/// Windows end before the runs do: of what is beyond `time_limit` nothing is there, which would count as nothing sent.
pub fn windows(asked: &[Asked], conditions: &[Condition], quick: bool) -> Result<(), Mistake> {
    for asked in asked.iter().filter(|a| !a.windows.is_empty()) {
        let jobs = conditions.iter().filter(|c| is_about(asked.points, &c.name)).flat_map(|c| &c.jobs);
        for job in jobs.filter(|j| asked.variants.is_empty() || asked.variants.contains(&j.variant.as_str()))
        {
            if job.on == Home::Lab {
                let what = format!(
                    "{}: windows are of simulated runs, and variant \"{}\" of point \"{}\" runs in the lab",
                    asked.what, job.variant, job.point
                );
                return Err(Mistake { at: asked.at, what });
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
                return Err(Mistake { at: asked.at, what });
            }
        }
    }
    Ok(())
}

/// Claims speak of variants that are run, and say all that their metric needs.
pub fn claims(claims: &[Spanned<Claim>], variants: &[String]) -> Result<(), Mistake> {
    for place in claims {
        let claim = place.get_ref();
        if let Some(name) = claim.variants().find(|v| !variants.contains(v)) {
            let what = format!(
                "claim \"{}\": variant \"{name}\" is not run; there are {}",
                claim.id,
                variants.join(", ")
            );
            return Err(Mistake::at(place, what));
        }
        claim.check().map_err(|what| Mistake::at(place, format!("claim \"{}\": {what}", claim.id)))?;
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

/// Links that claims speak of exist wherever they are judged.
pub fn links(claims: &[Spanned<Claim>], conditions: &[Condition]) -> Result<(), Mistake> {
    for place in claims {
        let claim = place.get_ref();
        let Some(link) = &claim.link else { continue };
        for condition in conditions.iter().filter(|c| claim.is_about(&c.name)) {
            let Some(job) = condition.jobs.iter().find(|j| j.variant == claim.of) else { continue };
            let names = job.scenario.link_names();
            if !names.contains(link) {
                let what = format!(
                    "claim \"{}\": link = \"{link}\" is not in point \"{}\"; there are {}",
                    claim.id,
                    condition.name,
                    list(&names)
                );
                return Err(Mistake::at(place, what));
            }
        }
    }
    Ok(())
}
