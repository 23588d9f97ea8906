//! Shards of a sweep as workers of GNU parallel and of Slurm.

use crate::{run, sweep::Site};
use std::{fs, path::Path, process::Command};
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
    windlass_path,
};

const SHARDS: u32 = 7;
const SEEDS: &str = "280";
/// Of each shard.
const RUNS: usize = 40;

fn has_parallel() -> bool {
    // others have programs of that name
    let version = Command::new("parallel").arg("--version").output();
    version.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).starts_with("GNU parallel"))
}

/// The process that runs this shard, if there is one: the arguments name a folder of this test's own.
fn worker_of(folder: &Path) -> Option<i32> {
    let folder = folder.display().to_string();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words[0] == windlass_path().as_os_str().as_encoded_bytes() && words.contains(&folder.as_bytes())
    })
}

fn finished(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs.jsonl")).map_or(0, |text| text.lines().count())
}

/// Kills a worker that has finished some of its runs and not all; whether there was one.
fn kill_a_worker(site: &Site) -> bool {
    let folders = (1..=SHARDS).map(|shard| site.path(&format!("shard-{shard}")));
    let in_the_midst = folders.filter(|folder| (1..RUNS).contains(&finished(folder)));
    for folder in in_the_midst {
        let Some(pid) = worker_of(&folder) else { continue };
        // SAFETY: no memory; the process is one that this test has started.
        let was_there = unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
        if was_there && finished(&folder) < RUNS {
            return true;
        }
    }
    false
}

#[test]
fn shards_under_gnu_parallel_with_a_worker_killed_merge_to_the_bytes_of_one_machine() {
    let test = "shards_under_gnu_parallel_with_a_worker_killed_merge_to_the_bytes_of_one_machine";
    if !has_parallel() {
        println!("skipped: {test}: needs GNU parallel (Debian: apt-get install parallel)");
        return;
    }
    let site = Site::new();
    let (file, set) = (site.scenario(), ["--set", "link.0.loss=1 %", "--seeds", SEEDS]);
    let shard = format!("{{}}/{SHARDS}");
    let out = site.path("shard-{}").display().to_string();
    let mut parallel = Command::new("parallel");
    // as docs/experiments.md has it
    parallel.args(["--will-cite", "--jobs", "2", "--retries", "3", "-q"]).arg(windlass_path());
    parallel
        .args(["sweep", &file])
        .args(set)
        .args(["--shard", &shard, "--out", &out, "--jobs", "1", "--resume"]);
    parallel.arg(":::").args((1..=SHARDS).map(|shard| shard.to_string()));
    let mut workers = Process::start(&mut parallel);
    until("a worker is killed in mid-sweep", || kill_a_worker(&site));
    let status = workers.wait();
    assert!(status.success(), "{status}: {}", workers.complaints().join("\n"));

    merges_to_the_bytes_of_one_machine(&site, &set);
}

/// Merges the shards and compares all files with those of the whole sweep.
fn merges_to_the_bytes_of_one_machine(site: &Site, set: &[&str]) {
    let shards: Vec<_> = (1..=SHARDS).map(|shard| site.path(&format!("shard-{shard}"))).collect();
    let merged = site.path("merged").display().to_string();
    let words = ["sweep", "merge", "--out", &merged];
    let folders: Vec<&str> = shards.iter().map(|path| path.to_str().expect("UTF-8")).collect();
    let merge = run(&[&words[..], &folders].concat());
    assert!(merge.status.success(), "{}", String::from_utf8_lossy(&merge.stderr));
    let whole = run(&[&["sweep", &site.scenario(), "--out", &site.out()][..], set].concat());
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    for name in ["runs.jsonl", "runs.csv", "flows.csv", "links.csv", "classes.csv", "report.html"] {
        let [merged, whole] = ["merged", "out"].map(|of| fs::read(site.path(of).join(name)).expect(name));
        assert!(merged == whole, "{name} differs");
    }
}

/// As docs/experiments.md has it. Slurm starts jobs some seconds after they are submitted.
#[test]
#[ignore = "long: Slurm takes half a minute; `make test-long` runs it"]
fn shards_as_an_array_of_slurm_with_a_worker_killed_merge_to_the_bytes_of_one_machine() {
    let test = "shards_as_an_array_of_slurm_with_a_worker_killed_merge_to_the_bytes_of_one_machine";
    if !is_root_or_skip(test) {
        return;
    }
    let is_there = |program| Command::new(program).arg("--version").output().is_ok();
    if !["munged", "slurmctld", "slurmd", "sbatch"].into_iter().all(is_there) {
        println!("skipped: {test}: needs Slurm (Debian: apt-get install slurm-wlm munge)");
        return;
    }
    let site = Site::new();
    let set = ["--set", "link.0.loss=1 %", "--seeds", SEEDS];
    let out = site.path("shard-$SLURM_ARRAY_TASK_ID").display().to_string();
    let command = format!(
        "{} sweep {} --set 'link.0.loss=1 %' --seeds {SEEDS} --shard $SLURM_ARRAY_TASK_ID/{SHARDS} --out {out} --jobs 1 --resume",
        windlass_path().display(),
        site.scenario()
    );
    let slurm = tempfile::tempdir().expect("a folder");
    let mut array = Command::new("unshare");
    array.args(["--net", "sh", concat!(env!("CARGO_MANIFEST_DIR"), "/command_line/slurm.sh")]);
    array.arg(slurm.path()).arg(SHARDS.to_string()).arg(command);
    let mut array = Process::start(&mut array);
    until("a worker is killed in mid-sweep", || kill_a_worker(&site));
    let status = array.wait();
    assert!(status.success(), "{status}: {}", array.complaints().join("\n"));
    merges_to_the_bytes_of_one_machine(&site, &set);
}
