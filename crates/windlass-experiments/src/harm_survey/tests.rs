use super::{
    compare::{ALGORITHMS, Compared, ranked},
    path::{Loss, POLICED_LEAST_BPS, TIME_LIMIT_S},
    workload::{ALL_BYTES, BOTTLENECK_S, Kind},
    *,
};
use crate::record::{ResponseSample, RunRecord};
use proptest::prelude::*;
use std::{fs, sync::atomic::AtomicBool};
use windlass_scenario::{FlowReport, Rate, ResponseTimes, Span};

fn all_paths() -> Vec<Path> {
    (1..=PATHS).map(Path::of_number).collect()
}

fn settings(out: &std::path::Path, cancel: &'static AtomicBool) -> Settings {
    let (windlass, out) = ("windlass".into(), out.into());
    Settings {
        windlass,
        quick: true,
        resume: false,
        out,
        quiet: true,
        at_once: Some(2),
        cancel,
        readers: None,
    }
}

static GOES_ON: AtomicBool = AtomicBool::new(false);
static STOPPED: AtomicBool = AtomicBool::new(true);

fn assert_in_bounds(path: &Path) {
    let is_within = |what: &str, value: f64, low: f64, high: f64| {
        assert!((low..=high).contains(&value), "{what} of path {}: {value}", path.number);
    };
    is_within("rate", path.rate_bps, 64e3, 1e9);
    is_within("RTT", path.rtt_ms, 1.0, 1000.0);
    is_within("RTT before the box", path.near_rtt_ms, 0.0, 100.0);
    is_within("jitter before the box", path.near_jitter_ms, 0.0, 10.0);
    is_within("buffer", path.buffer_bdp, 0.25, 4.0);
    is_within("loss", path.loss.percent(), 0.0, 5.0);
    is_within("ACK loss", path.ack_loss_percent, 0.0, 5.0);
    is_within("jitter", path.jitter_ms, 0.0, 100.0);
    if let Some(policer) = path.policer {
        is_within("policer", policer.rate_bps, POLICED_LEAST_BPS.min(path.rate_bps * 0.1), path.rate_bps);
        is_within("burst", policer.burst_bytes, 15_140.0, path.rate_bps / 8.0 * 0.5 + 15_140.0);
    }
    if let Some(outage) = path.outage {
        is_within("outage", outage.from_s, 0.1, 5.0);
        is_within("outage", outage.for_s, 0.1, 5.0);
    }
    if let Some(step) = path.rate_step {
        is_within("step", step.at_s, 0.1, 10.0);
        is_within("step", step.rate_bps, 64e3, 1e9);
    }
    assert!(!path.reorders || path.jitter_ms > 0.0, "{path:?}");
    let work = &path.workload;
    let all_bytes = f64::from(work.flows) * f64::from(work.responses) * work.size_bytes as f64;
    is_within("flows", work.flows.into(), 1.0, 50.0);
    if work.kind == Kind::Messages {
        is_within("message", work.size_bytes as f64, 20.0, 1000.0);
        is_within("messages", (work.flows * work.responses).into(), 20.0, 5000.0);
    } else {
        is_within("size", work.size_bytes as f64, 1e3, 50e6);
        // at least a kilobyte for each response
        let most_bytes = ALL_BYTES.min(path.least_bps() / 8.0 * BOTTLENECK_S);
        is_within("bytes", all_bytes, 1e3, most_bytes.max(1e3 * f64::from(work.flows * work.responses)));
    }
}

proptest! {
    #[test]
    fn paths_are_within_bounds_and_their_files_are_sound(number in any::<u32>(), seed in 0u64..1000) {
        let path = Path::of_number(number);
        assert_in_bounds(&path);
        prop_assert_eq!(&path, &Path::of_number(number));
        for variant in &VARIANTS {
            let text = path.text(variant, seed);
            let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            prop_assert_eq!(scenario.flows.len() as u32, path.workload.flows);
            prop_assert!(scenario.flows.iter().all(|f| f.algorithm == variant.server));
            prop_assert_eq!(scenario.windlass.as_ref().map(|w| w.algorithm.as_str()), variant.boxed);
            prop_assert_eq!((scenario.seed, scenario.time_limit), (seed, Span(TIME_LIMIT_S)));
            prop_assert_eq!(scenario.links[1].rate, Some(Rate(path.rate_bps)));
            let mean = scenario.links[1].bursts.map_or(scenario.links[1].loss.0, |b| b.mean());
            prop_assert!((mean * 100.0 - path.loss.percent()).abs() <= 0.01 * path.loss.percent(), "{}", text);
            prop_assert!(Home::Sim.check(&scenario).is_ok());
        }
    }
}

/// Each dimension takes each of its values on at least one path of fifty, and both ends of its range are reached.
#[test]
fn paths_have_all_dimensions() {
    let paths = all_paths();
    paths.iter().for_each(assert_in_bounds);
    let occurs = |what: &str, is_so: &dyn Fn(&Path) -> bool| {
        let count = paths.iter().filter(|p| is_so(p)).count();
        assert!(count >= paths.len() / 50, "{what}: {count} of {}", paths.len());
    };
    occurs("slow", &|p| p.rate_bps < 2e5);
    occurs("fast", &|p| p.rate_bps > 3e8);
    occurs("near client", &|p| p.rtt_ms < 3.0);
    occurs("far client", &|p| p.rtt_ms > 500.0);
    occurs("server at the box", &|p| p.near_rtt_ms == 0.0);
    occurs("far server", &|p| p.near_rtt_ms > 50.0);
    occurs("jitter before the box", &|p| p.near_jitter_ms > 0.0);
    occurs("small buffer", &|p| p.buffer_bdp < 0.5);
    occurs("large buffer", &|p| p.buffer_bdp > 2.0);
    occurs("no loss", &|p| p.is_loss_free());
    occurs("random loss", &|p| matches!(p.loss, Loss::Random { .. }));
    occurs("bursty loss", &|p| matches!(p.loss, Loss::Bursts { .. }));
    occurs("much loss", &|p| p.loss.percent() > 2.0);
    occurs("ACK loss", &|p| p.ack_loss_percent > 0.0);
    occurs("jitter in order", &|p| p.jitter_ms > 0.0 && !p.reorders);
    occurs("reordering", &|p| p.reorders);
    occurs("policer", &|p| p.policer.is_some());
    occurs("outage", &|p| p.outage.is_some());
    occurs("step up", &|p| p.rate_step.is_some_and(|s| s.rate_bps > p.rate_bps));
    occurs("step down", &|p| p.rate_step.is_some_and(|s| s.rate_bps < p.rate_bps));
    occurs("SACK", &|p| p.has_sack);
    occurs("no SACK", &|p| !p.has_sack);
    for kind in [Kind::Transfers, Kind::Persistent, Kind::NewConnections, Kind::Messages] {
        occurs(kind.name(), &|p| p.workload.kind == kind);
    }
    occurs("one flow", &|p| p.workload.flows == 1);
    occurs("many flows", &|p| p.workload.flows > 25);
    occurs("small", &|p| p.workload.size_bytes < 10_000);
    occurs("large", &|p| p.workload.kind == Kind::Transfers && p.workload.size_bytes > 5_000_000);
}

/// A run of a path, of one flow that takes so long; none: it does not finish.
fn run(path: &Path, variant: &str, seed: u64, seconds: Option<f64>) -> RunRecord {
    let error = seconds.is_none().then(|| "not finished".to_string());
    let flow = FlowReport { completion_s: seconds, error: error.clone(), ..FlowReport::default() };
    let (point, variant) = (path.name(), variant.into());
    RunRecord { point, variant, seed, flows: vec![flow], error, ..RunRecord::default() }
}

/// One run of each variant: of CUBIC, BBR, the box with each of its algorithms, and again of CUBIC and BBR.
fn runs(path: &Path, seconds: [Option<f64>; VARIANTS.len()]) -> Vec<RunRecord> {
    VARIANTS.iter().zip(seconds).map(|(v, s)| run(path, v.name, 1, s)).collect()
}

#[test]
fn ranking_begins_with_the_worst_ratio() {
    let paths = [1, 2, 3].map(Path::of_number);
    let all = [
        runs(&paths[0], [Some(2.0), Some(4.0), Some(4.0), Some(8.0), Some(2.0), Some(1.0), Some(6.0)]),
        runs(&paths[1], [Some(3.0), Some(1.0), Some(9.0), None, Some(3.0), None, Some(1.0)]),
        // what does not finish alone either shows nothing, but what finishes behind the box only does
        runs(&paths[2], [None, Some(1.0), None, Some(TIME_LIMIT_S / 2.0), Some(1.0), None, None]),
    ];
    let records = all.concat();
    let compared = compare(&paths, &records, 1);
    let order: Vec<(u32, &str, f64)> = ranked(&compared)
        .iter()
        .map(|r| (r.compared.path.number, ALGORITHMS[r.algorithm], r.ratio))
        .collect();
    assert_eq!(
        order[..6],
        [
            (2, "bbr3", f64::INFINITY),
            (2, "bbr", 3.0),
            (1, "bbr3", 2.0),
            (1, "bbr", 1.0),
            (2, "cubic", 1.0),
            (1, "cubic", 0.5)
        ]
    );
    assert_eq!(order[6..].iter().map(|o| (o.0, o.1)).collect::<Vec<_>>(), [(3, "bbr3"), (3, "cubic")]);
    assert_eq!(order[6].2, 0.5);
    let worst = report::worst(&compared, "out".as_ref(), Command { on: Home::Sim, is_quick: false });
    assert_eq!(worst.rows[0].point, "windlass reproduce harm-survey --only 2");
    assert_eq!(worst.rows[1].values, [3.0, 9.0, 3.0, 1.0].map(Some));
}

/// Messages that wait at once wait for longer together than a run may last.
#[test]
fn what_messages_wait_for_together_has_no_limit() {
    let path = Path::of_number(1);
    let long_s = 3.0 * TIME_LIMIT_S;
    let records = runs(&path, [long_s, 1.0, long_s, long_s, 2.0 * long_s, long_s, 1.0].map(Some));
    let paths = [path];
    let compared = compare(&paths, &records, 1);
    assert_eq!([0, 1, 2].map(|a| compared[0].ratio(a)), [1.0, 1.0, 2.0].map(Some));
}

/// The server alone with other seeds stands beside the box, and is no claim of the box, nor among its worst paths.
#[test]
fn quantiles_have_what_chance_does() {
    let path = Path::of_number(1);
    let records = runs(&path, [2.0, 4.0, 4.0, 8.0, 2.0, 1.0, 6.0].map(Some));
    let paths = [path];
    let compared = compare(&paths, &records, 1);
    let table = report::quantiles(&compared);
    let of = |name: &str| {
        let row = table.rows.iter().find(|r| r.point == "all" && r.variant == name).unwrap();
        row.values[5]
    };
    assert_eq!(compare::COMPARED.map(of), [1.0, 2.0, 0.5, 0.25, 1.5].map(Some));
    assert_eq!(ranked(&compared).len(), 3);
    assert!(judge(&paths, &compared, 1).iter().all(|v| !v.id.contains("again")));
}

/// Of messages each one's time counts, over that of CUBIC alone.
#[test]
fn messages_stand_beside_what_chance_does() {
    let paths: Vec<Path> =
        all_paths().into_iter().filter(|p| p.workload.kind == Kind::Messages).take(1).collect();
    let seconds = [2.0, 9.0, 4.0, 8.0, 2.0, 1.0, 6.0];
    let mut records = runs(&paths[0], seconds.map(Some));
    for (run, s) in records.iter_mut().zip(seconds) {
        run.flows[0].checksum_ok = true;
        run.responses =
            vec![ResponseSample { seconds: vec![s as f32], count: 1, ..ResponseSample::default() }];
    }
    let table = report::messages(&compare(&paths, &records, 1));
    let worst = |row: &crate::summary::Row| row.values[4].unwrap();
    assert_eq!(table.rows.iter().map(worst).collect::<Vec<_>>(), [2.0, 4.0, 1.0, 0.5, 3.0].repeat(2));
}

/// Other seeds than those that the rest is paired by.
#[test]
fn what_is_run_again_has_other_seeds() {
    let jobs = jobs(&[Path::of_number(1)], Home::Sim, 3).unwrap();
    let seeds = |name: &str| -> Vec<u64> {
        jobs.iter().filter(|j| j.variant == name).map(|j| j.scenario.seed).collect()
    };
    assert_eq!((seeds("box-bbr"), seeds("bbr-again")), (vec![1, 2, 3], vec![4, 5, 6]));
}

#[test]
fn ranking_names_twenty() {
    let paths: Vec<Path> = (1..=10).map(Path::of_number).collect();
    let records: Vec<RunRecord> =
        paths.iter().flat_map(|p| runs(p, [Some(f64::from(p.number)); VARIANTS.len()])).collect();
    let compared = compare(&paths, &records, 1);
    let worst = report::worst(&compared, "out".as_ref(), Command { on: Home::Lab, is_quick: true });
    assert_eq!((worst.rows.len(), ranked(&compared).len()), (report::WORST, 30));
    assert_eq!(worst.rows[3].point, "windlass reproduce harm-survey --only 2 --on lab --quick");
}

#[test]
fn a_path_counts_by_the_median_of_its_seeds_and_when_all_are_there() {
    let paths = [Path::of_number(1), Path::of_number(2)];
    let seconds = [5.0, 1.0, 2.0];
    let seeded = |path: &Path, seed: u64| {
        runs(path, [Some(seconds[seed as usize - 1]); VARIANTS.len()])
            .into_iter()
            .map(move |run| RunRecord { seed, ..run })
            .collect::<Vec<_>>()
    };
    let mut records: Vec<RunRecord> = (1..=3).flat_map(|seed| seeded(&paths[0], seed)).collect();
    records.extend((1..=2).flat_map(|seed| seeded(&paths[1], seed)));
    let compared: Vec<Compared> = compare(&paths, &records, 3);
    assert_eq!(compared.iter().map(|c| c.path.number).collect::<Vec<_>>(), [1]);
    assert_eq!((compared[0].alone_s(), compared[0].ratio(0)), (2.0, Some(1.0)));
    assert_eq!(compared[0].typical(0).map(|r| r.seed), Some(3));
    let verdicts = judge(&paths, &compared, 3);
    let median = verdicts.iter().find(|v| v.id == "median-bbr").unwrap();
    assert_eq!((median.ours, median.holds, median.runs), (Some(1.0), false, 9));
    assert_eq!(median.note, "stopped after 9 of 18 runs");
}

/// A flow waits for its responses, not in its own pauses.
#[test]
fn pauses_do_not_count_as_time() {
    let path = Path::of_number(1);
    let mut run = run(&path, "cubic", 1, Some(100.0));
    run.flows[0].response_times =
        Some(ResponseTimes { count: 4, mean_s: 0.5, p50_s: 0.5, p99_s: 0.5, max_s: 0.5 });
    assert_eq!(compare::waited_s(&run), Some(2.0));
}

#[test]
fn claims_are_of_each_algorithm_with_their_bounds() {
    let paths = all_paths();
    let records: Vec<RunRecord> = paths.iter().flat_map(|p| runs(p, [Some(1.0); VARIANTS.len()])).collect();
    let verdicts = judge(&paths, &compare(&paths, &records, 1), 1);
    for algorithm in ALGORITHMS {
        let of = |claim: &str| {
            let id = format!("{claim}-{algorithm}");
            verdicts.iter().find(|v| v.id == id).unwrap_or_else(|| panic!("{id}"))
        };
        let bounds = ["median", "p10", "p99", "worst", "loss-free-p99"].map(|claim| of(claim).bound.as_str());
        assert_eq!(bounds, ["<= 1.00", "<= 0.85", "<= 1.05", "<= 1.15", "<= 1.03"]);
        // where nothing changes there is no help
        assert!(of("median").holds && of("worst").holds && !of("p10").holds);
    }
}

/// Two short paths.
fn short_paths() -> Vec<Path> {
    let is_short = |p: &Path| {
        p.workload.kind == Kind::Transfers && p.workload.flows == 1 && p.workload.size_bytes < 100_000
    };
    all_paths().into_iter().filter(is_short).take(2).collect()
}

#[test]
fn a_survey_of_two_paths_has_a_report() {
    let out = tempfile::tempdir().unwrap();
    let paths = short_paths();
    let outcome = survey(&paths, &[], Which::Draw(1), Home::Sim, &settings(out.path(), &GOES_ON)).unwrap();
    assert_eq!(outcome.runs.len(), 2 * VARIANTS.len());
    assert!(outcome.runs.iter().all(|r| r.error.is_none()));
    let folder = out.path().join("harm-survey-quick");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("worst-bbr3") && page.contains("--only"), "{page}");
    assert_eq!(fs::read_to_string(folder.join("paths.csv")).unwrap().lines().count(), 3);
    assert!(folder.join("ratio.svg").exists());
    // the file of a run gives that run
    let name = format!("worst/{}-bbr.toml", paths[0].name());
    let scenario = Scenario::from_file(&folder.join(name)).unwrap();
    let again = windlass_sim::run(&scenario, &windlass_sim::RunOptions::default()).unwrap().report;
    let run = outcome.runs.iter().find(|r| r.point == paths[0].name() && r.variant == "box-bbr").unwrap();
    assert_eq!(again.completion_s(), run.completion_s);
}

#[test]
fn a_survey_that_is_stopped_holds_nothing() {
    let out = tempfile::tempdir().unwrap();
    let outcome =
        survey(&short_paths(), &[], Which::Path(7), Home::Sim, &settings(out.path(), &STOPPED)).unwrap();
    assert!(outcome.runs.is_empty() && !outcome.all_hold());
    assert!(outcome.verdicts.iter().all(|v| v.note.starts_with("stopped after 0 of ")));
    assert!(out.path().join("harm-survey-path-7-quick/report.html").exists());
}

#[test]
fn a_survey_has_only_paths_of_its_own() {
    let out = tempfile::tempdir().unwrap();
    for (which, named, allowed) in [
        (Which::Path(0), "--only 0", "1 to 600000"),
        (Which::Path(PATHS * DRAWS + 1), "--only 600001", "1 to 600000"),
        (Which::Draw(0), "--draw 0", "1 to 1000"),
        (Which::Draw(DRAWS + 1), "--draw 1001", "1 to 1000"),
    ] {
        let error = harm_survey(which, Home::Sim, &settings(out.path(), &GOES_ON)).unwrap_err().to_string();
        assert!(error.contains(named) && error.contains(allowed), "{error}");
    }
    assert_eq!(numbers(Which::Draw(1), Home::Sim, true).len(), 60);
    assert_eq!(numbers(Which::Draw(1), Home::Lab, false), (10..=PATHS).step_by(10).collect::<Vec<_>>());
}

/// Each draw has paths that no other has, and says how it is repeated.
#[test]
fn draws_have_paths_of_their_own() {
    let all: Vec<u32> = (1..=3).flat_map(|draw| numbers(Which::Draw(draw), Home::Sim, false)).collect();
    assert_eq!(all, (1..=3 * PATHS).collect::<Vec<_>>());
    assert_eq!(numbers(Which::Draw(2), Home::Lab, false)[..2], [610, 620]);
    for (which, name, command) in [
        (Which::Draw(1), "harm-survey", "windlass reproduce harm-survey"),
        (Which::Draw(2), "harm-survey-draw-2", "windlass reproduce harm-survey --draw 2"),
        (Which::Path(601), "harm-survey-path-601", "windlass reproduce harm-survey --only 601"),
    ] {
        assert_eq!(report_name(which, Home::Sim), name);
        assert_eq!(Command { on: Home::Sim, is_quick: false }.of(which), command);
    }
}
