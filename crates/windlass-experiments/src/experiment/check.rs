//! What is looked at before anything runs: whether what is asked for can be answered.

use crate::{claim::Claim, job::Condition, mistake::Mistake};
use toml::Spanned;

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

/// Most links that a mistake lists.
const LISTED: usize = 8;

/// Links that claims speak of exist wherever they are judged.
pub fn links(claims: &[Spanned<Claim>], conditions: &[Condition]) -> Result<(), Mistake> {
    for place in claims {
        let claim = place.get_ref();
        let Some(link) = &claim.link else { continue };
        for condition in conditions.iter().filter(|c| claim.is_about(&c.name)) {
            let Some(job) = condition.jobs.iter().find(|j| j.variant == claim.of) else { continue };
            let names = job.scenario.link_names();
            if !names.contains(link) {
                let some = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
                let what = format!(
                    "claim \"{}\": link = \"{link}\" is not in point \"{}\"; there are {some}",
                    claim.id, condition.name
                );
                return Err(Mistake::at(place, what));
            }
        }
    }
    Ok(())
}
