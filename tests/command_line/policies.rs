//! What a policy never applies to, and what another one changes: as files, without any privilege.

use super::{refused, run};
use serde_json::Value;
use std::{fs, path::Path};
use tempfile::TempDir;

fn answer(words: &[&str]) -> String {
    let out = run(words);
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn document(words: &[&str]) -> Value {
    serde_json::from_str(&answer(words)).expect("JSON")
}

/// Files of these texts, and their folder.
fn files<const N: usize>(texts: [&str; N]) -> (TempDir, [String; N]) {
    let folder = tempfile::tempdir().unwrap();
    let mut at = 0;
    let files = texts.map(|text| {
        at += 1;
        let file = folder.path().join(format!("p{at}.toml"));
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_string()
    });
    (folder, files)
}

const ALL: &str = "[[rule]]\nname = \"all\"\nmatch.iface = \"nosuch*\"\nalgorithm = \"bbr\"\n";
const ONE: &str = "[[rule]]\nname = \"one\"\nmatch.iface = \"nosuch1\"\nalgorithm = \"reno\"\n";

#[test]
fn a_policy_check_warns_of_rules_that_never_apply_and_succeeds() {
    let (_folder, [file]) = files([&format!("{ALL}{ONE}")]);
    let said = answer(&["policy", "check", &file]);
    assert!(said.contains(&format!("{file}:5: warning: rule \"one\": never applies")), "{said}");
    let document = document(&["policy", "check", "--json", &file]);
    assert_eq!((&document["warnings"][0]["line"], &document["ok"]), (&5.into(), &true.into()));
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../policies");
    for entry in fs::read_dir(Path::new(examples)).unwrap() {
        let path = entry.unwrap().path();
        let said = answer(&["policy", "check", path.to_str().unwrap()]);
        assert!(!said.contains("warning"), "{said}");
    }
}

#[test]
fn a_policy_diff_has_the_rules_that_change() {
    let (_folder, [old, new, wrong]) =
        files([ALL, &format!("{ONE}{}", ALL.replace("bbr", "cubic")), "x = 1\n"]);
    let said = answer(&["policy", "diff", &old, &new]);
    for line in [
        "rule \"one\" added",
        "rule \"all\" changed: algorithm: bbr -> cubic",
        "flows under an agent's control",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let changes = document(&["policy", "diff", "--json", &old, &new]);
    assert_eq!(changes["rules"].as_array().map(Vec::len), Some(2), "{changes}");
    assert_eq!(changes["interfaces"], serde_json::json!([]));
    assert!(answer(&["policy", "diff", &old, &old]).contains("the same rules"));
    refused(&["policy", "diff", &old, &wrong], &["p3.toml:1"]);
}

#[test]
fn a_dry_run_of_an_agent_lists_what_it_would_do() {
    let (_folder, [nothing, cgroups]) = files([
        ALL,
        "[[rule]]\nname = \"web\"\nmatch.cgroup = \"/nosuch\"\nmode = \"native\"\nalgorithm = \"bbr\"\n",
    ]);
    let said = answer(&["agent", "--dry-run", "--policy", &nothing]);
    assert!(said.contains("an agent would wait for one") && said.contains("nothing was changed"), "{said}");
    let plan = document(&["agent", "--dry-run", "--json", "--policy", &cgroups]);
    let cgroup = &plan["cgroups"][0];
    assert_eq!((&cgroup["where"], &cgroup["does"]), (&"/nosuch".into(), &"wait".into()), "{plan}");
    refused(&["agent", "--dry-run", "--policy", "/nonexistent.toml"], &["/nonexistent.toml: No such file"]);
}
