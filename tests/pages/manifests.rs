//! The manifests for Kubernetes: their policies, and what Helm and Kubernetes' schema make of them, where the tools are installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use windlass_agent::Policy;

const MANIFEST: &str = "packaging/kubernetes/windlass.yaml";
const CHART: &str = "packaging/helm/windlass";

fn of_tree(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)
}

/// The text of a block of YAML that begins with this line, without its indentation.
fn block(text: &str, begin: &str) -> String {
    let mut lines = text.lines().skip_while(|line| line.trim() != begin).skip(1).peekable();
    let indented = lines.peek().map_or(0, |line| line.len() - line.trim_start().len());
    let of_block = lines.take_while(|line| line.is_empty() || line.starts_with(&" ".repeat(indented)));
    of_block.map(|line| line.get(indented..).unwrap_or_default().to_string() + "\n").collect()
}

#[test]
fn the_policies_of_the_manifests_are_the_example() {
    let example = Policy::from_file(&of_tree("policies/kubernetes.toml")).expect("sound");
    for (file, begin) in
        [(MANIFEST, "policy.toml: |"), (&format!("{CHART}/values.yaml") as &str, "policy: |")]
    {
        let text = fs::read_to_string(of_tree(file)).expect("a file");
        let policy = Policy::parse(file, &block(&text, begin)).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(policy, example, "{file}");
    }
}

fn is_there_or_skip(tool: &str, test: &str) -> bool {
    let is_there = Command::new("sh").args(["-c", &format!("command -v {tool} >/dev/null")]).status();
    let is_there = is_there.is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: {test}: {tool} is not installed");
    }
    is_there
}

/// By the schema of Kubernetes, without properties that it does not have.
fn is_allowed(file: &Path) {
    let out = Command::new("kubernetes-validate").arg("--strict").arg(file).output().expect("it runs");
    let words = String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
    assert!(out.status.success() && words.contains("daemonset"), "{words}");
}

#[test]
fn the_manifests_are_what_kubernetes_allows() {
    const NAME: &str = "the_manifests_are_what_kubernetes_allows";
    if is_there_or_skip("kubernetes-validate", NAME) {
        is_allowed(&of_tree(MANIFEST));
    }
}

#[test]
fn the_chart_renders_to_what_kubernetes_allows() {
    const NAME: &str = "the_chart_renders_to_what_kubernetes_allows";
    if !is_there_or_skip("helm", NAME) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let render = |settings: &[&str]| {
        let mut helm = Command::new("helm");
        helm.args(["template", "windlass"]).arg(of_tree(CHART)).args(["--kube-version", "1.31.0"]);
        // it keeps settings and caches in its user's folders
        helm.env("HOME", folder.path()).args(settings.iter().flat_map(|setting| ["--set", setting]));
        helm.output().expect("helm runs")
    };
    let out = render(&[]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let file = folder.path().join("rendered.yaml");
    fs::write(&file, &out.stdout).expect("a writable folder");
    if is_there_or_skip("kubernetes-validate", NAME) {
        is_allowed(&file);
    }
    let monitored = ["serviceMonitor.enabled=true", "prometheusRule.enabled=true"];
    assert!(!render(&monitored).status.success(), "only the node itself reaches the metrics");
    let all = render(&[&monitored[..], &["metrics.onNodeAddress=true"]].concat());
    let text = String::from_utf8_lossy(&all.stdout).into_owned();
    for part in ["kind: ServiceMonitor", "kind: PrometheusRule", "WindlassAgentGone", "$(NODE_ADDRESS):9464"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}
