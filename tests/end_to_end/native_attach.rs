//! `windlass attach --native`: a cgroup's sockets have our algorithms as long as it runs.

use crate::{
    native::{Loaded, cgroup_or_skip, fetch, nginx, own_prefix, registered},
    net::Net,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use windlass_lab::Cgroup;
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
    windlass,
};

#[test]
fn attach_native_lasts_as_long_as_it_runs() {
    if !is_root_or_skip("attach_native_lasts_as_long_as_it_runs") {
        return;
    }
    let Some(cgroup) = cgroup_or_skip("attach_native_lasts_as_long_as_it_runs") else {
        return;
    };
    let prefix = own_prefix();
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let _inside = nginx(&net, folder.path(), Some(&cgroup), &[8001]);
    let at = cgroup.path().to_str().expect("UTF-8");
    let words = ["attach", "--native", "--cgroup", at, "--alg", "bbr", "--prefix", &prefix, "--json"];
    let mut attach = Process::start(windlass().args(words));
    assert_eq!(attach.event("attached")["algorithm"], format!("{prefix}bbr"));
    fetch(&net, 8001);
    attach.end(libc::SIGTERM);
    let sockets = &attach.event("detached")["sockets"];
    assert_eq!((&sockets["chosen"], &sockets["refused"]), (&1.into(), &0.into()), "{sockets}");
    assert!(!registered().contains(&prefix), "{}", registered());
    fetch(&net, 8001);
}

/// Its sockets' wishes would go nowhere, and it would not be reported.
#[test]
fn attach_native_ends_when_the_algorithms_that_it_shares_are_unloaded_or_others() {
    let test = "attach_native_ends_when_the_algorithms_that_it_shares_are_unloaded_or_others";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    for is_loaded_anew in [false, true] {
        let mut loaded = Loaded::new();
        let mut command = windlass();
        command.args(["attach", "--native", "--prefix", &loaded.prefix, "--cgroup"]).arg(cgroup.path());
        let mut attach = Process::start(&mut command);
        attach.says("for all sockets");
        loaded.unload();
        let _again = is_loaded_anew.then(|| Loaded::under(loaded.prefix.clone()));
        attach.complains_of("start again");
        assert_eq!(attach.wait().code(), Some(2));
    }
}

/// A `windlass attach --native` under `prefix`, for a policy with a group; and where the name of that is noted.
fn attach_with_group(folder: &Path, cgroup: &Cgroup, prefix: &str) -> (Command, PathBuf) {
    let policy = folder.join("policy.toml");
    let text = format!(
        "[[rule]]\nname = \"all\"\nmode = \"native\"\nalgorithm = \"reno\"\nmatch = {{ cgroup = \"{}\" }}\n\
         group = {{ name = \"g\", rule = \"ccc\" }}\n",
        cgroup.path().display()
    );
    fs::write(&policy, text).expect("a writable folder");
    let mut attach = windlass();
    attach.args(["attach", "--native", "--policy", policy.to_str().expect("UTF-8"), "--prefix", prefix]);
    (attach, PathBuf::from(format!("/run/windlass/native-{prefix}:groups")))
}

/// The same, and its sockets under control.
fn attached_with_group(folder: &Path, cgroup: &Cgroup, prefix: &str) -> (Process, PathBuf) {
    let (mut command, names) = attach_with_group(folder, cgroup, prefix);
    let attach = Process::start(&mut command);
    attach.line().expect("it says that it controls");
    assert!(names.exists(), "{}", names.display());
    (attach, names)
}

#[test]
fn attach_native_takes_the_names_of_its_groups_along() {
    let test = "attach_native_takes_the_names_of_its_groups_along";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (mut attach, names) = attached_with_group(folder.path(), &cgroup, &own_prefix());
    attach.end(libc::SIGTERM);
    assert!(!names.exists(), "{}", names.display());
}

/// The process that started it was killed.
#[test]
fn attach_native_ends_with_its_reader() {
    let test = "attach_native_ends_with_its_reader";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = own_prefix();
    let (mut command, names) = attach_with_group(folder.path(), &cgroup, &prefix);
    let (mut attach, _) = Process::start_unheard(command.stdout(Stdio::piped()));
    assert_eq!(attach.wait().code(), Some(1));
    assert!(!names.exists(), "{}", names.display());
    assert!(!registered().contains(&prefix), "{}", registered());
}

/// The next that loads algorithms, whatever their names, clears up; what others noted that still run stays.
#[test]
fn names_of_groups_of_a_killed_attach_do_not_stay() {
    let test = "names_of_groups_of_a_killed_attach_do_not_stay";
    if !is_root_or_skip(test) {
        return;
    }
    let cgroups: Vec<Cgroup> = (0..2).map_while(|_| cgroup_or_skip(test)).collect();
    let [killed, runs] = cgroups.as_slice() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let [of_runs, of_killed] = [own_prefix(), own_prefix()];
    let (_attach, kept) = attached_with_group(folder.path(), runs, &of_runs);
    let (mut attach, names) = attached_with_group(folder.path(), killed, &of_killed);
    attach.end(libc::SIGKILL);
    until("its algorithms are gone", || !registered().contains(&of_killed));
    // other tests load some, too
    let _loaded = Loaded::new();
    assert!(!names.exists(), "{}", names.display());
    assert!(kept.exists(), "{}", kept.display());
}
