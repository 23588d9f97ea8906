//! Pages: how long they take, on how many connections, and what ends them.

use std::{fs, num::NonZeroU64};
use windlass_scenario::{FlowReport, RunReport, Scenario};
use windlass_sim::{RunOptions, TraceOptions, run};

fn scenario(link: &str, flow: &str) -> Scenario {
    let text = format!(
        "name = \"pages\"\ntime_limit = \"60 s\"\nhost = [{{ name = \"server\" }}, {{ name = \"client\" }}]\n[[link]]\n\
         between = [\"server\", \"client\"]\ndelay = \"50 ms\"\njitter = \"0 s\"\n{link}\n[[flow]]\nfrom = \"server\"\n\
         to = \"client\"\n{flow}\n"
    );
    Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"))
}

fn report(link: &str, flow: &str) -> RunReport {
    run(&scenario(link, flow), &RunOptions::default()).unwrap().report
}

fn flow(link: &str, flow: &str) -> FlowReport {
    report(link, flow).flows.remove(0)
}

/// Objects of one segment on a link without a rate: a round trip for the handshake, and one for each object of a connection.
#[test]
fn each_connection_requests_its_next_object_when_the_last_one_is_there() {
    for (objects, connections, round_trips) in
        [(1, 6, 2.0), (6, 6, 2.0), (7, 6, 3.0), (12, 6, 3.0), (12, 1, 13.0)]
    {
        let flow = flow(
            "",
            &format!("size = {{ objects = {objects}, each = \"1 kB\", connections = {connections} }}"),
        );
        let page = flow.pages[0];
        assert!(flow.checksum_ok && flow.error.is_none(), "{flow:?}");
        assert!((page.load_s - round_trips * 0.1).abs() < 1e-3, "{objects} objects: {page:?}");
        assert_eq!((page.begun_s, page.objects, page.bytes), (0.0, objects, u64::from(objects) * 1000));
        assert_eq!((flow.completion_s, flow.bytes), (Some(page.load_s), page.bytes));
    }
}

/// A large object holds up its own connection only.
#[test]
fn objects_go_to_whichever_connection_is_idle() {
    let sizes = "{ cdf = [[\"1 kB\", \"90 %\"], [\"1 kB\", \"90 %\"], [\"900 kB\", \"100 %\"]] }";
    let on = |connections| {
        flow("", &format!("size = {{ objects = 40, each = {sizes}, connections = {connections} }}")).pages[0]
    };
    let (mixed, one) = (on(6), on(1));
    assert_eq!((one.objects, one.bytes), (mixed.objects, mixed.bytes), "the same page");
    assert!(mixed.load_s < one.load_s / 2.0, "{mixed:?} {one:?}");
}

/// The gap begins when a page is loaded; each page has connections of its own, so each begins with a handshake.
#[test]
fn pages_follow_each_other() {
    let report = report(
        "rate = \"10 Mbit/s\"\nbuffer = \"2 BDP\"",
        "class = \"web\"\n[[flow.train]]\ncount = 12\ngap = \"500 ms\"\nsize = { objects = { uniform = [5, 30] }, each = { exponential = \"20 kB\" } }",
    );
    let flow = &report.flows[0];
    assert_eq!((flow.pages.len(), flow.responses.len(), flow.error.as_ref()), (12, 12, None));
    assert!(flow.pages.iter().all(|page| (5..=30).contains(&page.objects) && page.load_s > 0.2), "{flow:?}");
    for pair in flow.pages.windows(2) {
        let pause_s = pair[1].begun_s - pair[0].begun_s - pair[0].load_s;
        assert!((pause_s - 0.5).abs() < 1e-9, "{pair:?}");
    }
    assert_eq!(flow.bytes, flow.pages.iter().map(|page| page.bytes).sum::<u64>());
    let times = flow.response_times.unwrap();
    assert!(report.to_string().contains("    12 pages loaded: mean "), "{report}");
    let document: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let pages = document["flows"][0]["pages"].as_array().unwrap();
    let longest = pages.iter().map(|page| page["load_s"].as_f64().unwrap()).fold(0.0, f64::max);
    assert_eq!((pages.len(), longest), (12, times.max_s));
}

/// By the clock, whether or not the page before is there; a few are shown one by one.
#[test]
fn pages_by_the_clock_overlap() {
    let train = "[[flow.train]]\ncount = 3\ninterval = \"10 ms\"\nsize = { objects = 4, each = \"1 kB\" }";
    let report = report("", train);
    let begun: Vec<f64> = report.flows[0].pages.iter().map(|page| page.begun_s).collect();
    assert_eq!(begun, [0.0, 0.01, 0.02]);
    assert!(report.flows[0].pages.iter().all(|page| (page.load_s - 0.2).abs() < 1e-3), "{report}");
    assert!(report.to_string().contains("\n      at 0.010 s: 0.200 s, 4 objects, 4000 B\n"), "{report}");
}

/// A page that is stopped has what its connections had fetched, and the run ends.
#[test]
fn a_stop_cuts_a_page() {
    let flow = flow(
        "rate = \"1 Mbit/s\"\nbuffer = \"2 BDP\"",
        "stop = \"1 s\"\nsize = { objects = 100, each = \"10 kB\" }",
    );
    assert!(flow.is_open_ended && flow.is_cut && flow.pages.is_empty(), "{flow:?}");
    assert!((50_000..150_000).contains(&flow.bytes), "{flow:?}");
    let unfinished =
        self::flow("rate = \"10 kbit/s\"\nbuffer = \"2 BDP\"", "size = { objects = 100, each = \"10 kB\" }");
    assert!(unfinished.error.is_some() && unfinished.bytes > 10_000, "{unfinished:?}");
}

/// Losses, a box, and each page to a receiver of its own: all arrive, the same at every run, traced or not.
#[test]
fn pages_are_repeatable_behind_a_box_and_over_losses() {
    let text = "name = \"t\"\nseed = 4\ntime_limit = \"100 s\"\n[topology]\nshape = \"many-to-one\"\nsenders = 4\n\
        edge = { rate = \"20 Mbit/s\", delay = \"10 ms\", loss = \"2 %\" }\nbottleneck = { rate = \"20 Mbit/s\", delay = \"10 ms\" }\n\
        [windlass]\nat = \"switch\"\nfacing = \"receiver\"\n\
        [[flow]]\nfrom = \"receiver\"\nto = \"sender-*\"\n[[flow.train]]\nuntil = \"20 s\"\nload = \"2 Mbit/s\"\n\
        size = { objects = 10, each = \"30 kB\", connections = 3 }\n";
    let scenario = Scenario::parse("t", text).unwrap_or_else(|e| panic!("{e}"));
    let first = run(&scenario, &RunOptions::default()).unwrap().report;
    assert!(first.is_complete() && first.flows[0].pages.len() > 5, "{first}");
    let folder = tempfile::tempdir().unwrap();
    let trace = TraceOptions { folder: folder.path(), interval_ns: NonZeroU64::new(100_000_000).unwrap() };
    let traced = run(&scenario, &RunOptions { trace: Some(trace), ..RunOptions::default() }).unwrap().report;
    let rows = fs::read_to_string(folder.path().join("responses.csv")).unwrap().lines().count();
    assert_eq!((traced.to_json(), rows), (first.to_json(), first.flows[0].pages.len() + 1));
}
