use super::*;
use crate::{claim::Side, record::RunRecord};
use std::{fs, sync::atomic::AtomicBool};

const VARIED: &str = r#"
name = "burst"
title = "Short flows beside a long one"
on = "sim"
interval = "20 ms"

[scenario]
name = "dumbbell"
time_limit = "20 s"
[[scenario.host]]
name = "server"
[[scenario.host]]
name = "client"
[[scenario.link]]
between = ["server", "client"]
rate = "10 Mbit/s"
delay = "5 ms"
[[scenario.flow]]
from = "server"
to = "client"
size = "1 MB"
class = "long"
[[scenario.flow]]
from = "server"
to = "client"
size = "20 kB"
start = "300 ms"
class = "short"

[[variant]]
name = "reno"
set = { "flow.*.algorithm" = "reno" }
[[variant]]
name = "bbr"
set = { "flow.*.algorithm" = "bbr" }

[[point]]
name = "buffer"
set = { "link.0.loss_back" = "0 %" }
vary = [{ set = "flow.long.size", to = ["1 MB", "2 MB"], quick = ["1 MB"] }, { set = "link.0.buffer", to = ["10 packets", "100 packets"] }]
runs = 2
quick_runs = 1

[[claim]]
id = "short-flows"
metric = "completion"
class = "short"
of = "bbr"
per = "reno"
statistic = "max"
side = "at-most"
bound = 1.0
unit = "x"
points = ["buffer-1MB-100packets"]

[[claim]]
id = "queue"
metric = "max-queue"
link = "server > client"
of = "reno"
statistic = "max"
side = "at-most"
bound = 100.0

[[claim]]
id = "busy"
metric = "throughput"
class = "long"
of = "reno"
statistic = "mean"
windows = [{ from = "0.1 s", to = "0.8 s" }]
points = ["buffer-1MB-100packets"]
side = "at-most"
bound = 10e6

[[plot]]
metric = "completion"
class = "short"
statistic = "median"
x = "buffer (packets)"
y = "completion (s)"
"#;

fn settings(out: &Path) -> Settings {
    static CANCEL: AtomicBool = AtomicBool::new(false);
    Settings {
        windlass: "windlass".into(),
        quick: true,
        resume: false,
        out: out.into(),
        quiet: true,
        at_once: Some(2),
        cancel: &CANCEL,
        readers: None,
    }
}

#[test]
fn all_experiments_are_sound() {
    for name in Experiment::names() {
        let experiment = Experiment::by_name(name).unwrap();
        assert_eq!(experiment.name, name);
        assert!(!experiment.jobs(false).is_empty());
        assert!(!experiment.jobs(true).is_empty());
    }
}

/// What the files request, without the scenarios of their runs, which take long to make.
#[derive(Deserialize)]
struct Asked {
    claim: Vec<Claim>,
    #[serde(default)]
    plot: Vec<Plot>,
    #[serde(default)]
    table: Vec<Summary>,
}

fn asked(name: &str) -> Asked {
    let (_, text) = FILES.iter().find(|(n, _)| *n == name).unwrap();
    toml::from_str(text).unwrap()
}

/// What is to be less must not be the same: a claim of fewer or shorter fails where nothing has changed.
#[test]
fn a_claim_of_less_fails_where_nothing_has_changed() {
    const LESS: [&str; 8] =
        ["fewer", "less", "shorter", "faster", "slower-to", "below-trim", "below-l2dct", "below-dctcp"];
    for name in Experiment::names() {
        let is_less = |c: &Claim| {
            c.side == Side::AtMost && c.per.is_some() && LESS.iter().any(|word| c.id.contains(word))
        };
        for claim in asked(name).claim.into_iter().filter(is_less) {
            assert!(claim.bound < 1.0, "{name}: {} holds for no change", claim.id);
        }
    }
}

/// What stands in words is claimed of all that it covers.
#[test]
fn claims_are_there_of_everybody_that_they_speak_of() {
    let has = |name: &str, ids: &[&str]| {
        let claims = asked(name).claim;
        for id in ids {
            assert!(claims.iter().any(|c| c.id == *id), "{name}: {id}");
        }
    };
    has("trim-queue", &["trim-drops-nothing", "dctcp-drops-nothing", "l2dct-drops-nothing", "reno-drops"]);
    has("trim-testbed", &["reno-fills-the-buffer", "cubic-fills-the-buffer"]);
    for other in ["reno", "dctcp", "l2dct"] {
        let stays = format!("trim-has-fewer-timeouts-than-{other}");
        let base = format!("trim-base-has-fewer-timeouts-than-{other}-base");
        has("trim-concurrency", &[&stays, &base]);
        let faster = format!("responses-are-faster-than-{other}s");
        let shorter = format!("trim-has-a-shorter-queue-than-{other}");
        has("trim-testbed", &[&faster, &shorter]);
    }
    has("trim-convergence", &["trim-is-fair-within-0.2-s", "trim-is-fair-with-any-k"]);
    has("native-parity", &["reno-not-slower", "reno-not-faster"]);
    let agreement = asked("agreement");
    assert!(!agreement.table.is_empty() && !agreement.plot.is_empty());
}

#[test]
fn every_file_of_the_folder_is_known_by_name() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    for file in fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()) {
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(Experiment::names().any(|known| known == name), "{}", file.display());
    }
}

#[test]
fn a_claim_about_a_variant_that_is_not_run_is_refused() {
    let text = include_str!("../../../../experiments/tcon-loss.toml");
    let text = text.replacen("of = \"windlass\"", "of = \"cubic\"", 1);
    let error = Experiment::parse("e.toml", &text).unwrap_err().to_string();
    assert!(error.contains("not run"), "{error}");
    let line = text.lines().position(|l| l == "[[claim]]").unwrap() + 1;
    assert!(error.starts_with(&format!("e.toml:{line}: ")), "{error}");
}

#[test]
fn points_vary_and_variants_set() {
    let experiment = Experiment::parse("e.toml", VARIED).unwrap();
    let names = |quick| experiment.conditions(quick).map(|c| c.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(true), ["buffer-1MB-10packets", "buffer-1MB-100packets"]);
    assert_eq!(names(false).len(), 4);
    let last = experiment.conditions(false).last().unwrap();
    assert_eq!((last.x, last.line.as_str()), (Some(100.0), "2MB"));
    let jobs: Vec<(&str, u64)> = last.jobs.iter().map(|j| (j.variant.as_str(), j.scenario.seed)).collect();
    assert_eq!(jobs, [("reno", 1), ("bbr", 1), ("reno", 2), ("bbr", 2)]);
    assert_eq!(last.jobs[1].scenario.flows[0].algorithm, "bbr");
    assert_eq!(last.jobs[1].scenario.flows[0].single_size(), Some(2_000_000));
}

#[test]
fn mistakes_name_file_line_and_cure() {
    let error = |from: &str, to: &str| {
        let text = VARIED.replacen(from, to, 1);
        assert_ne!(text, VARIED);
        let error = format!("{:#}", Experiment::parse("e.toml", &text).unwrap_err());
        // the line in which the change was made
        let line = VARIED[..VARIED.find(from).unwrap()].matches('\n').count() + 1;
        assert!(error.starts_with(&format!("e.toml:{line}: ")), "{error}");
        error
    };
    assert!(error("rate = \"10 Mbit/s\"", "rate = \"0 Mbit/s\"").contains("at least 10 kbit/s"));
    assert!(
        error("\"link.0.loss_back\" = \"0 %\"", "\"link.0.loss_back\" = \"150 %\"").contains("0 % to 100 %")
    );
    assert!(
        error("\"flow.*.algorithm\" = \"reno\"", "\"flow.x.algorithm\" = \"reno\"").contains("flow.0 (long)")
    );
    assert!(
        error("\"link.0.buffer\", to = [\"10 packets\"", "\"link.0.buffer\", to = [\"ten\"").contains("ten")
    );
    assert!(error("\"flow.long.size\"", "\"flow.long.sise\"").contains("sise"));
    assert!(error("runs = 2", "runz = 2").contains("runz"));
    // of two that set such a key, the one that is wrong
    let both = "\"flow.0.size\" = \"0 B\" }\nunset = []";
    let vary = "vary = [{ set = \"flow.short.size\", to = [\"1 MB\"] },";
    let text = VARIED.replacen("\"link.0.loss_back\" = \"0 %\" }", both, 1).replacen(
        "vary = [{ set = \"flow.long.size\", to = [\"1 MB\", \"2 MB\"], quick = [\"1 MB\"] },",
        vary,
        1,
    );
    let wrong = Experiment::parse("e.toml", &text).unwrap_err().to_string();
    assert!(wrong.contains("set \"flow.0.size\": size"), "{wrong}");
    assert!(error("on = \"sim\"", "on = \"moon\"").contains("lab"));
    assert!(error("quick_runs = 1", "quick_runs = \"1\"").contains(": quick_runs: invalid type"));
    assert!(error("to = \"0.8 s\" }]", "to = 8 }]").contains(": to: invalid type"));
    let error =
        Experiment::parse("e.toml", &VARIED.replace("server > client", "client > sever")).unwrap_err();
    assert!(error.to_string().contains("server > client, client > server"), "{error}");
}

#[test]
fn what_no_scenario_has_is_refused_before_the_runs() {
    let table = "\n[[table]]\ntitle = \"t\"\n[[table.column]]\nname = \"c\"\nmetric = \"jain\"\n\
                 statistic = \"mean\"\ntenant = \"x\"\n";
    let error = |text: &str, says: &str| {
        let error = Experiment::parse("e.toml", text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    let claim = VARIED.replacen("class = \"short\"\nof", "class = \"shor\"\nof", 1);
    error(
        &claim,
        "claim \"short-flows\": class = \"shor\" is not in point \"buffer-1MB-100packets\", variant \"reno\"; there are long, short",
    );
    let per = VARIED.replacen("per = \"reno\"", "per = \"reno\"\nper_class = \"lang\"", 1);
    error(&per, "class = \"lang\" is not in point \"buffer-1MB-100packets\", variant \"reno\"");
    let in_run = VARIED.replacen("per = \"reno\"", "per_class = \"lang\"", 1);
    error(&in_run, "claim \"short-flows\": per_class = \"lang\" is not in point");
    let plot = VARIED.replacen("class = \"short\"\nstatistic = \"median\"", "class = \"shor\"", 1);
    error(&plot, "plot: class = \"shor\"");
    error(&(VARIED.to_string() + table), "table: c: tenant = \"x\" is not in point");
    // what one variant has is enough for a plot, and not for a claim of another
    let set = "set = { \"flow.*.algorithm\" = \"bbr\" }";
    let other = set.replace(" }", ", \"flow.short.class\" = \"brief\" }");
    let brief = VARIED.replacen(set, &other, 1);
    error(&brief, "claim \"short-flows\": class = \"short\"");
    let of_reno = brief.replacen("of = \"bbr\"\nper = \"reno\"", "of = \"reno\"", 1);
    Experiment::parse("e.toml", &of_reno).unwrap();
}

#[test]
fn a_plot_with_no_x_is_refused() {
    let fixed = VARIED.replacen("[\"10 packets\", \"100 packets\"]", "[\"100 packets\"]", 1);
    let error = Experiment::parse("e.toml", &fixed).unwrap_err().to_string();
    let line = fixed.lines().position(|l| l == "[[plot]]").unwrap() + 1;
    assert!(error.starts_with(&format!("e.toml:{line}: plot: nothing varies")), "{error}");
}

#[test]
fn what_is_requested_of_no_point_is_refused() {
    let points = "points = [\"buffer-1MB-100packets\"]\n";
    let table = "\n[[table]]\ntitle = \"t\"\npoints = [\"buffer\", \"bufer\"]\n\
                 [[table.column]]\nname = \"d\"\nmetric = \"drops\"\nstatistic = \"mean\"\n";
    for (head, text) in [
        ("[[claim]]", VARIED.replacen(points, "points = [\"buffer-1MB\", \"bufer\"]\n", 1)),
        ("[[plot]]", VARIED.replacen("[[plot]]\n", "[[plot]]\npoints = [\"bufer\"]\n", 1)),
        ("[[table]]", VARIED.to_string() + table),
    ] {
        let error = Experiment::parse("e.toml", &text).unwrap_err().to_string();
        let line = text.lines().position(|l| l == head).unwrap() + 1;
        assert!(error.starts_with(&format!("e.toml:{line}: ")), "{error}");
        assert!(error.contains("\"bufer\"; there are buffer-1MB-10packets, "), "{error}");
        assert!(head != "[[claim]]" || error.contains("claim \"short-flows\""), "{error}");
    }
    // what only full mode runs may be named, and has no meaning in quick mode
    let quick = "quick_runs = 1\n";
    let more = "[[point]]\nname = \"full\"\nruns = 1\nquick_runs = 0\n";
    let text =
        VARIED.replacen(quick, &format!("{quick}{more}"), 1).replacen(points, "points = [\"full\"]\n", 1);
    let experiment = Experiment::parse("e.toml", &text).unwrap();
    let out = tempfile::tempdir().unwrap();
    let verdicts = experiment.run(&settings(out.path())).unwrap().verdicts;
    assert!(!verdicts.is_empty() && verdicts.iter().all(|v| v.id != "short-flows"));
    // it would never be judged
    let never = text.replacen("runs = 1\nquick_runs = 0", "runs = 0\nquick_runs = 0", 1);
    assert!(
        Experiment::parse("e.toml", &never).unwrap_err().to_string().contains("\"full\"; there are buffer-")
    );
    let wan =
        include_str!("../../../../experiments/tcon-tct.toml").replacen("[\"lan-10MB\"]", "[\"lan-10GB\"]", 1);
    let error = Experiment::parse("e.toml", &wan).unwrap_err().to_string();
    assert!(error.contains("\"lan-10GB\"; there are lan-1.7MB, lan-10MB, "), "{error}");
}

#[test]
fn names_that_are_there_twice_are_refused() {
    let error = |text: &str, line: &str, says: &str| {
        let error = Experiment::parse("e.toml", text).unwrap_err().to_string();
        let line = text.lines().collect::<Vec<_>>().iter().rposition(|l| l.starts_with(line)).unwrap() + 1;
        assert!(error.starts_with(&format!("e.toml:{line}: ")) && error.contains(says), "{error}");
    };
    let bbr = "name = \"bbr\"\n";
    error(
        &VARIED.replacen(bbr, "name = \"reno\"\n", 1),
        "name = \"reno\"",
        "variant \"reno\" is there twice",
    );
    let both = VARIED.replacen("name = \"reno\"\n", "name = \"reno\"\non = [\"sim\", \"lab\"]\n", 1);
    let says = "variant \"reno-sim\" is there twice: \"reno\" on sim and \"reno-sim\" on sim; rename one";
    error(&both.replacen(bbr, "name = \"reno-sim\"\n", 1), "name = \"reno-sim\"", says);
    let twice = VARIED.replacen(bbr, "name = \"bbr\"\non = [\"sim\", \"sim\"]\n", 1);
    error(&twice, "name = \"bbr\"", "\"bbr\" on sim and \"bbr\" on sim");
    let point = "name = \"buffer\"";
    let full = VARIED.replacen("[\"1 MB\", \"2 MB\"]", "[\"1 MB\", \"1MB\"]", 1);
    error(&full, point, "point \"buffer-1MB-10packets\" is there twice; rename one");
    let quick = VARIED.replacen("quick = [\"1 MB\"]", "quick = [\"1 MB\", \"1 MB\"]", 1);
    error(&quick, point, "point \"buffer-1MB-10packets\" is there twice in quick mode");
    let wan = include_str!("../../../../experiments/tcon-tct.toml");
    let list = wan.lines().find(|l| l.starts_with("variants = ")).unwrap();
    let more = list.replacen('[', "[\"cubic\", \"cubic\", ", 1);
    error(&wan.replacen(list, &more, 1), "variants = ", "variant \"cubic\" is there twice");
    let second = wan.replacen("name = \"lan-10MB\"", "name = \"lan-1.7MB\"", 1);
    let error = Experiment::parse("e.toml", &second).unwrap_err().to_string();
    assert!(error.contains("point \"lan-1.7MB\" is there twice"), "{error}");
}

#[test]
fn names_of_points_are_names_of_files() {
    let says = |text: &str, name: &str| {
        let error = Experiment::parse("e.toml", text).unwrap_err().to_string();
        assert!(error.contains(&format!("point \"{name}")) && error.contains("without /"), "{error}");
    };
    says(&VARIED.replacen("name = \"buffer\"", "name = \"a/b\"", 1), "a/b-1MB");
    says(&VARIED.replacen("name = \"buffer\"", &format!("name = \"{}\"", "x".repeat(201)), 1), "xxx");
    let wan = include_str!("../../../../experiments/tcon-tct.toml");
    says(&wan.replacen("name = \"lan-1.7MB\"", "name = \"1.7 MB/s\"", 1), "1.7 MB/s");
}

#[test]
fn names_that_would_break_tables_are_refused() {
    let says = |from: &str, to: &str, what: &str| {
        let error = Experiment::parse("e.toml", &VARIED.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("without commas"), "{error}");
    };
    says("name = \"buffer\"", "name = \"a,b\"", "point \"a,b-1MB");
    says("name = \"buffer\"", "name = \"a\\nb\"", "point \"a\\nb-1MB");
    says("name = \"reno\"", "name = \"reno, new\"", "variant \"reno, new\"");
    says("name = \"reno\"", "name = \"\"", "variant \"\"");
}

#[test]
fn queues_of_real_runs_have_no_windows() {
    let lab = VARIED.replacen("on = \"sim\"", "on = \"lab\"", 1);
    Experiment::parse("e.toml", &lab).unwrap();
    let of_flow = "metric = \"throughput\"\nclass = \"long\"";
    let queue = lab.replacen(of_flow, "metric = \"mean-queue\"\nlink = \"server > client\"", 1);
    let error = Experiment::parse("e.toml", &queue).unwrap_err().to_string();
    assert!(error.contains("windows of queues") && error.contains("runs in the lab"), "{error}");
    let table = "\n[[table]]\ntitle = \"t\"\n[[table.column]]\nname = \"c\"\nmetric = \"max-queue\"\n\
                 link = \"server > client\"\nstatistic = \"max\"\nwindow = { from = \"1 s\", to = \"2 s\" }\n";
    let error = Experiment::parse("e.toml", &(lab + table)).unwrap_err().to_string();
    assert!(error.contains("table: windows of queues"), "{error}");
}

/// Real runs that are recorded are played by others than those that are not.
#[test]
fn only_points_with_windows_are_recorded_in_intervals() {
    let recorded = |text: &str| {
        let jobs = Experiment::parse("e.toml", text).unwrap().jobs(false);
        let mut all: Vec<(String, u64)> =
            jobs.into_iter().filter_map(|j| Some((j.point, j.interval?.get()))).collect();
        all.dedup();
        all
    };
    // a length that is given is one for all
    let all = recorded(VARIED);
    assert!(all.len() == 4 && all.iter().all(|(_, ns)| *ns == 20_000_000), "{all:?}");
    let not_given = VARIED.replacen("interval = \"20 ms\"\n", "", 1);
    assert_eq!(recorded(&not_given), [("buffer-1MB-100packets".to_string(), 10_000_000)]);
}

#[test]
fn windows_that_no_run_reaches_are_refused() {
    let error = |text: &str, head: &str| {
        let error = Experiment::parse("e.toml", text).unwrap_err().to_string();
        let line = text[..text.find(head).unwrap()].matches('\n').count() + 1;
        assert!(error.starts_with(&format!("e.toml:{line}: ")), "{error}");
        error
    };
    let (window, busy) = ("to = \"0.8 s\"", "[[claim]]\nid = \"busy\"");
    let e = error(&VARIED.replacen(window, "to = \"20.001 s\"", 1), busy);
    assert!(e.contains("claim \"busy\": window: 100 ms to 20.001 s ends after time_limit = \"20 s\""), "{e}");
    assert!(e.contains("point \"buffer-1MB-100packets\", variant \"reno\"; end it there"), "{e}");
    // up to the end is no more than there is
    let end = VARIED.replacen(window, "to = \"20000 ms\"", 1);
    Experiment::parse("e.toml", &end).unwrap();
    let runs = "runs = 2\n";
    let e = error(&end.replacen(runs, "quick_set = { time_limit = \"10 s\" }\nruns = 2\n", 1), busy);
    assert!(e.contains("time_limit = \"10 s\"") && e.contains("in quick mode"), "{e}");
    // of other variants and points it does not speak
    let other = "set = { time_limit = \"10 s\", \"flow.*.algorithm\" = \"bbr\" }";
    let other = end.replacen("set = { \"flow.*.algorithm\" = \"bbr\" }", other, 1);
    Experiment::parse("e.toml", &other).unwrap();
    let short =
        "[[point]]\nname = \"short\"\nset = { time_limit = \"10 s\" }\nruns = 1\nquick_runs = 1\n\n[[claim]]";
    let short = end.replacen("[[claim]]", short, 1);
    Experiment::parse("e.toml", &short).unwrap();
    let table = "\n[[table]]\ntitle = \"t\"\n[[table.column]]\nname = \"b\"\nmetric = \"throughput\"\n\
                 statistic = \"mean\"\nwindow = { from = \"5 s\", to = \"15 s\" }\n";
    let e = error(&(short + table), "[[table]]");
    assert!(e.contains("table: window: 5 s to 15 s") && e.contains("\"short\""), "{e}");
}

#[test]
fn a_variant_can_run_in_both_homes() {
    let text = VARIED
        .replace("name = \"bbr\"", "name = \"bbr\"\non = [\"sim\", \"lab\"]")
        .replace("of = \"bbr\"", "of = \"bbr-lab\"");
    let experiment = Experiment::parse("e.toml", &text).unwrap();
    let homes: Vec<_> = experiment.jobs(true).iter().take(3).map(|j| (j.variant.clone(), j.on)).collect();
    let expected = [("reno", Home::Sim), ("bbr-sim", Home::Sim), ("bbr-lab", Home::Lab)];
    assert_eq!(homes, expected.map(|(name, on)| (name.to_string(), on)));
}

#[test]
fn a_scenario_can_be_named() {
    let begin = VARIED.find("[scenario]").unwrap();
    let end = VARIED.find("[[variant]]").unwrap();
    let text = format!("{}scenario = \"wan\"\n\n{}", &VARIED[..begin], &VARIED[end..])
        .replace("flow.long.size", "flow.0.size")
        .replace("class = \"short\"\n", "")
        .replace("class = \"long\"\n", "")
        .replace("link.0", "link.1")
        .replace("server > client", "box > client");
    let experiment = Experiment::parse("e.toml", &text).unwrap();
    assert_eq!(experiment.jobs(true)[0].scenario.links.len(), 2);
    let error = Experiment::parse("e.toml", &text.replace("\"wan\"", "\"moon\"")).unwrap_err();
    assert!(error.to_string().contains("oregon"), "{error}");
}

#[test]
fn a_simulated_experiment_is_judged_and_written() {
    let out = tempfile::tempdir().unwrap();
    let experiment = Experiment::parse("e.toml", VARIED).unwrap();
    let outcome = experiment.run(&settings(out.path())).unwrap();
    assert_eq!(outcome.runs.len(), 4);
    assert!(outcome.runs.iter().all(|r| r.error.is_none() && r.checksum_ok), "{:?}", outcome.runs);
    let ours = |id: &str| outcome.verdicts.iter().find(|v| v.id == id).unwrap().ours;
    assert!(ours("short-flows").is_some());
    assert!(ours("queue").is_some_and(|q| (10.0..=100.0).contains(&q)));
    // the link is full: its rate without headers
    assert!(ours("busy").is_some_and(|bps| (5e6..10e6).contains(&bps)), "{:?}", ours("busy"));
    let folder = settings(out.path()).folder("burst");
    for file in ["report.html", "runs.csv", "flows.csv", "links.csv", "plot-1.svg"] {
        assert!(folder.join(file).exists(), "{file}");
    }
}

#[test]
fn the_file_of_runs_has_their_order_and_the_one_before_is_kept() {
    let out = tempfile::tempdir().unwrap();
    let experiment = Experiment::parse("e.toml", VARIED).unwrap();
    let file = settings(out.path()).folder("burst").join("runs.jsonl");
    let lines = || fs::read_to_string(&file).unwrap();
    let points = |text: &str| -> Vec<(String, String)> {
        let runs = text.lines().map(|l| serde_json::from_str::<RunRecord>(l).unwrap());
        runs.map(|r| (r.point, r.variant)).collect()
    };
    experiment.run(&settings(out.path())).unwrap();
    let first = lines();
    let planned: Vec<_> = experiment.jobs(true).into_iter().map(|j| (j.point, j.variant)).collect();
    assert_eq!(points(&first), planned);
    // what is no run of these, and what finished before others that are put in front of it
    let mut changed: Vec<&str> = first.lines().skip(1).collect();
    changed.reverse();
    let other = first.lines().next().unwrap().replacen("\"seed\":1", "\"seed\":7", 1);
    changed.insert(1, &other);
    fs::write(&file, changed.join("\n")).unwrap();
    experiment.run(&Settings { resume: true, ..settings(out.path()) }).unwrap();
    assert_eq!(lines(), format!("{other}\n{first}"));
    experiment.run(&settings(out.path())).unwrap();
    assert_eq!(lines(), first);
    let old = fs::read_to_string(file.with_extension("jsonl.old")).unwrap();
    assert_eq!(old, format!("{other}\n{first}"));
}

#[test]
fn finished_runs_are_not_run_again_unless_the_scenario_has_changed() {
    let out = tempfile::tempdir().unwrap();
    let experiment = Experiment::parse("e.toml", VARIED).unwrap();
    let resume = Settings { resume: true, ..settings(out.path()) };
    let first = experiment.run(&resume).unwrap().runs;
    let file = settings(out.path()).folder("burst").join("runs.jsonl");
    let marked = fs::read_to_string(&file).unwrap().replace("\"ended_s\":", "\"ended_s\":1000");
    fs::write(&file, marked).unwrap();
    let second = experiment.run(&resume).unwrap().runs;
    assert_eq!(second.len(), first.len());
    assert!(second.iter().all(|r| r.ended_s >= 1000.0), "taken from disk");
    let other = VARIED.replace("delay = \"5 ms\"", "delay = \"6 ms\"");
    let third = Experiment::parse("e.toml", &other).unwrap().run(&resume).unwrap().runs;
    assert!(third.iter().all(|r| r.ended_s < 1000.0), "run again");
}

/// A bound a thousandth beside 1 is kept by chance in half of all cases.
#[test]
fn claims_of_any_difference_have_a_test_of_significance() {
    for name in Experiment::names() {
        let is_any = |c: &&Claim| c.per.is_some() && c.bound != 1.0 && (c.bound - 1.0).abs() < 0.005;
        for claim in asked(name).claim.iter().filter(is_any) {
            assert!(claim.significance.is_some(), "{name}: {}", claim.id);
        }
    }
}

#[test]
fn plots_and_tables_name_variants_that_are_run() {
    let error = |text: &str| Experiment::parse("e.toml", &format!("{VARIED}{text}")).unwrap_err().to_string();
    let plot = "[[plot]]\nmetric = \"completion\"\nx = \"x\"\ny = \"y\"\n";
    let e = error(&format!("{plot}per = \"cubic\"\n"));
    assert!(e.contains("plot: variant \"cubic\" is not run"), "{e}");
    let column = "name = \"c\"\nmetric = \"drops\"\nstatistic = \"mean\"\n";
    let table = format!("[[table]]\ntitle = \"t\"\n[[table.column]]\n{column}");
    let e = error(&format!("{table}paper = {{ \"buffer-9MB-10packets reno\" = 1 }}\n"));
    assert!(e.contains("table: c: paper: \"buffer-9MB-10packets reno\" is no variant"), "{e}");
    let known = "paper = { reno = 1, \"buffer-1MB-10packets bbr\" = 2 }\n";
    Experiment::parse("e.toml", &format!("{VARIED}{table}{known}")).unwrap();
}
