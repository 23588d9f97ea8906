//! A fleet as text.

use crate::{print, status::ago};
use windlass_fleet::{
    driver::short,
    overview::{Node, Overview, UnderWay},
    state::Change,
};

/// Prints all of it.
pub fn print(fleet: &str, overview: &Overview) {
    match &overview.changed {
        None => print::line(format_args!("fleet {fleet}: nothing was rolled out yet")),
        Some(change) => print::line(format_args!(
            "fleet {fleet}, generation {}; last change {} ago by {}: {}",
            overview.generation,
            ago(change.at_unix_s),
            change.writer,
            change.what
        )),
    }
    for assigned in &overview.policies {
        let before = assigned.previous.as_deref().map_or("none of this fleet".into(), short);
        print::line(format_args!(
            "policy of {}: {}, before that {before}",
            assigned.selector,
            short(&assigned.policy)
        ));
    }
    if let Some(rollout) = &overview.rollout {
        print::line(in_words(rollout));
    }
    if overview.nodes.is_empty() {
        print::line("no node has reported yet; `windlass fleet node` beside an agent makes one");
        return;
    }
    let rows: Vec<Vec<String>> = overview.nodes.iter().map(row).collect();
    print::table(&["node", "state", "in force", "for", "reported", "labels", "agent", "why"], &rows);
}

fn in_words(rollout: &UnderWay) -> String {
    let driver = match &rollout.driver {
        Some(driver) => format!("driven by {driver}"),
        None => "its driver is gone, and it stands still: `windlass fleet rollout --resume` goes on, `windlass fleet rollback` \
                 goes back"
            .into(),
    };
    format!(
        "rollout of {} ({}) to {}: stage {} of {}, {} of {} nodes should have it; {driver}",
        rollout.file,
        short(&rollout.policy),
        rollout.selector,
        rollout.stage,
        rollout.stages,
        rollout.taken.len(),
        rollout.nodes
    )
}

fn row(node: &Node) -> Vec<String> {
    let status = &node.status;
    let dash = || "-".to_string();
    vec![
        node.node.clone(),
        node.state.name().into(),
        status.in_force.as_deref().map_or_else(dash, short),
        status.in_force.as_ref().map_or_else(dash, |_| ago(status.in_force_since_unix_s)),
        ago(status.at_unix_s),
        Some(node.labels().to_string()).filter(|labels| !labels.is_empty()).unwrap_or_else(dash),
        status.agent_version.clone().unwrap_or_else(dash),
        node.why.clone().unwrap_or_default(),
    ]
}

/// Prints the changes.
pub fn print_history(changes: &[Change]) {
    if changes.is_empty() {
        print::line("nothing was rolled out yet");
        return;
    }
    let row = |change: &Change| {
        let ago = format!("{} ago", ago(change.at_unix_s));
        vec![change.generation.to_string(), ago, change.writer.to_string(), change.what.clone()]
    };
    print::table(&["generation", "when", "writer", "what"], &changes.iter().map(row).collect::<Vec<_>>());
}
