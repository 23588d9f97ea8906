//! `windlass sweep` and `windlass run --trace`, on the simulator.

use crate::{refused, run};
use std::{
    fs,
    path::{Path, PathBuf},
};
use windlass_tests::{
    process::{Process, until},
    windlass,
};

/// 50 kB over 10 Mbit/s; some milliseconds of this machine's time.
const SCENARIO: &str = "name = \"small\"\ntime_limit = \"20 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
    [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"20 packets\"\n\
    [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"50 kB\"\nalgorithm = \"reno\"\n";

pub struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    pub fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
        Site { folder }
    }

    pub fn scenario(&self) -> String {
        self.path("s.toml").display().to_string()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn out(&self) -> String {
        self.path("out").display().to_string()
    }

    /// Finished runs, a JSON document a line.
    fn finished(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("out/runs.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        text[..whole].lines().map(String::from).collect()
    }
}

#[test]
fn a_sweep_runs_every_combination_and_prints_a_row_for_each() {
    let site = Site::new();
    let words = ["sweep", &site.scenario(), "--out", &site.out(), "--seeds", "2", "--json"];
    let varied = ["--set", "link.0.loss=0 %,2 %", "--set", "flow.*.algorithm=reno,cubic,bbr"];
    let first = run(&[&words[..], &varied].concat());
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let value: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(value["expected"], 12);
    let points = value["points"].as_array().unwrap();
    assert_eq!(points.len(), 6);
    assert_eq!(points[5]["set"]["flow.*.algorithm"], "bbr");
    // there are no classes, but all flows; two seeds have an interval
    let all = &points[5]["classes"]["all"]["completion_s"];
    assert!(
        all["low"].as_f64() <= all["mean"].as_f64() && all["mean"].as_f64() <= all["high"].as_f64(),
        "{all}"
    );
    assert!(points.iter().all(|p| p["runs"] == 2 && p["completion_median_s"].as_f64() > Some(0.04)));
    assert_eq!(site.finished().len(), 12);
    for table in ["runs.csv", "flows.csv", "links.csv", "report.html"] {
        assert!(fs::metadata(site.path("out").join(table)).unwrap().len() > 0, "{table}");
    }
    // the same to the byte once more, whatever the number of jobs
    let again = run(&[&words[..], &varied, &["--jobs", "1"]].concat());
    assert_eq!(again.stdout, first.stdout);
}

#[test]
fn a_file_of_a_report_that_cannot_be_written_is_named() {
    let site = Site::new();
    for file in ["runs.csv", "report.html"] {
        let path = site.path("out").join(file);
        fs::create_dir_all(&path).unwrap();
        let words = ["sweep", &site.scenario(), "--out", &site.out(), "--set", "link.0.loss=0 %"];
        refused(&words, &[path.to_str().unwrap()]);
        fs::remove_dir(&path).unwrap();
    }
}

#[test]
fn a_sweep_refuses_what_cannot_be_before_it_runs_anything() {
    let site = Site::new();
    let file = site.scenario();
    let refused = |set: &[&str], saying: &[&str]| {
        let out = site.out();
        let sets = set.iter().flat_map(|s| ["--set", s]);
        let words: Vec<&str> = ["sweep", &file, "--out", &out].into_iter().chain(sets).collect();
        refused(&words, &[&[file.as_str()][..], saying].concat());
        assert!(!site.path("out").exists(), "{set:?}");
    };
    refused(&["link.0.los=1 %"], &["link.0.los", "unknown field", "`loss`"]);
    refused(&["link.7.loss=1 %"], &["link.7.loss", "link.0 (a>b)"]);
    refused(&["link.0.loss=1 %,150 %"], &["link.0.loss=150%", "0 % to 100 %"]);
    refused(&["link.0.rate=0 Mbit/s"], &["link.0.rate"]);
    refused(&["flow.*.algorithm=reno,vegas"], &["flow.*.algorithm=vegas", "cubic, bbr"]);
    refused(&["flow.*.to=c"], &["flow.*.to=c"]);
    let words = |set| ["sweep", &file, "--set", set];
    assert_eq!(run(&words("loss")).status.code(), Some(2));
    assert_eq!(run(&words("link.0.loss=")).status.code(), Some(2));
    let twice = ["sweep", &file, "--set", "link.0.loss=1 %", "--set", "link.0.loss=2 %"];
    crate::refused(&twice, &["link.0.loss", "twice"]);
    crate::refused(&words("flow.*.algorithm=reno,reno"), &["flow.*.algorithm", "reno", "twice"]);
    crate::refused(&words("seed=1,1"), &["--set seed", "1", "twice"]);
    let both = [&words("seed=1,2")[..], &["--seeds", "3-5"]].concat();
    crate::refused(&both, &["--set seed", "--seeds", "leave one out"]);
}

/// Starts a sweep of more runs than a user would wait for, one at a time.
fn long_sweep(site: &Site) -> Process {
    let (file, out) = (site.scenario(), site.out());
    let words =
        ["sweep", &file, "--out", &out, "--jobs", "1", "--set", "link.0.loss=1 %", "--seeds", "20000"];
    Process::start(windlass().args(words))
}

/// Ends it as Ctrl-C does; its status, and what it complained of.
fn interrupt(mut process: Process) -> (Option<i32>, String) {
    let status = process.end(libc::SIGINT);
    (status.code(), process.complaints().join("\n"))
}

#[test]
fn a_sweep_that_was_stopped_goes_on_where_it_was() {
    let site = Site::new();
    let running = long_sweep(&site);
    until("some runs finish", || site.finished().len() >= 3);
    let (code, said) = interrupt(running);
    let kept = site.finished();
    assert_eq!(code, Some(1), "{said}");
    assert!(kept.len() < 20_000);
    assert!(said.contains(&format!("{} of 20000", kept.len())) && said.contains("--resume"), "{said}");

    let seeds = (kept.len() + 4).to_string();
    let (file, out) = (site.scenario(), site.out());
    let words = ["sweep", &file, "--out", &out, "--set", "link.0.loss=1 %", "--seeds", &seeds, "--json"];
    let resumed = run(&[&words[..], &["--resume"]].concat());
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let now = site.finished();
    assert_eq!(now.len(), kept.len() + 4);
    assert!(now[..kept.len()] == kept, "finished runs are not taken as they are");
    // as if it had never been stopped
    let whole = run(&words);
    assert_eq!(resumed.stdout, whole.stdout);
}

#[test]
fn a_reproduction_that_was_stopped_reports_where_it_goes_on() {
    let site = Site::new();
    let out = site.out();
    let running = Process::start(windlass().args(["reproduce", "trim-fat-tree", "--out", &out]));
    until("it begins", || site.path("out/trim-fat-tree/runs.jsonl").exists());
    let (code, said) = interrupt(running);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("kept in {out}")) && said.contains("--resume"), "{said}");
}

fn traced(site: &Site, more: &[&str]) -> PathBuf {
    let (file, folder) = (site.scenario(), site.path("trace"));
    let words = ["run", &file, "--on", "sim", "--trace", folder.to_str().unwrap()];
    let out = run(&[&words[..], more].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    folder
}

/// Rows of a table, each with its times, at 5 ms from one to the next.
fn times(folder: &Path, name: &str) -> Vec<f64> {
    let csv = fs::read_to_string(folder.join(name)).unwrap();
    let mut lines = csv.lines();
    let columns = lines.next().unwrap().split(',').count();
    assert!(csv.starts_with("time_s,"), "{csv}");
    lines
        .map(|line| {
            assert_eq!(line.split(',').count(), columns, "{line}");
            line.split(',').next().unwrap().parse().unwrap()
        })
        .collect()
}

#[test]
fn a_trace_has_tables_and_captures_of_the_run() {
    let site = Site::new();
    let captures = site.path("captures");
    let folder = traced(&site, &["--interval", "5 ms", "--captures", captures.to_str().unwrap()]);
    let flows = times(&folder, "flows.csv");
    assert_eq!(flows[..3], [0.005, 0.01, 0.015]);
    assert!(flows.len() > 10);
    assert!(times(&folder, "links.csv").len() >= flows.len());
    for name in ["cwnd.svg", "rtt.svg", "throughput.svg", "queue.svg"] {
        let plot = fs::read_to_string(folder.join(name)).expect(name);
        assert!(plot.starts_with("<svg") && plot.contains("polyline"), "{name}: {plot}");
    }
    let page = fs::read_to_string(folder.join("trace.html")).expect("a page");
    assert!(page.contains("Scenario small, seed 1, simulated") && page.contains("uPlot"), "{page}");
    for name in ["servers.pcap", "clients.pcap"] {
        assert!(!folder.join(name).exists(), "captures have a folder of their own");
        let capture = fs::read(captures.join(name)).unwrap();
        // magic number of libpcap's format with nanoseconds, in either order of bytes; then Ethernet as the kind of link
        let magic = u32::from_le_bytes(capture[..4].try_into().unwrap());
        assert!([0xa1b2_3c4d_u32, 0x4d3c_b2a1].contains(&magic), "{magic:x}");
        assert_eq!(capture[20..24].iter().map(|b| u32::from(*b)).sum::<u32>(), 1);
        assert!(capture.len() > 24 + 35 * 66, "{name}: {}", capture.len());
    }
}

#[test]
fn what_a_run_cannot_be_looked_at_with_is_refused() {
    let site = Site::new();
    let (file, folder) = (site.scenario(), site.path("trace").display().to_string());
    refused(&["run", &file, "--on", "sim", "--json", "--sample-ms", "20"], &["--sample-ms", "--on lab"]);
    refused(
        &["run", &file, "--on", "sim", "--trace", &folder, "--interval", "0 s"],
        &["--interval", "more than 0"],
    );
    refused(&["run", &file, "--on", "sim", "--trace", "/proc/nowhere"], &["/proc/nowhere"]);
}
