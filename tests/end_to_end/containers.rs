//! An agent in a container: its processes and mounts are of its own, and its network is the host's.

use crate::{
    control::{policy, release},
    net::Net,
    site::{nothing_is_left, tcx_programs},
};
use libbpf_rs::libbpf_sys as sys;
use std::{fs, os::unix::fs::symlink, process::Stdio};
use windlass_tests::{is_root_or_skip, process::Process, windlass_path};

/// Its bpffs ends with the container's mounts. Left pinned there, control would end at once for all flows.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_agent_whose_bpffs_ends_with_its_container_releases_what_it_controls() {
    if !is_root_or_skip("an_agent_whose_bpffs_ends_with_its_container_releases_what_it_controls") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let script = format!(
        "mount -t proc proc /proc && while umount -l /sys/fs/bpf 2>/dev/null; do :; done; \
         {} agent --policy {} & read line; kill $!; wait $!",
        windlass_path().display(),
        file.display()
    );
    let mut command = net.middle.command("unshare");
    command.args(["-m", "-p", "--fork", "--propagation", "private", "sh", "-c", &script]);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut container = Process::start_as_is(pipes);
    container.says("r1: under control");
    assert_ne!(tcx_programs(&net.middle, "r1", sys::BPF_TCX_INGRESS), 0);
    container.close_input();
    assert!(container.wait().success());
    assert_eq!(container.line().as_deref(), Some("r1: released"));
    assert!(container.complaint().contains("/sys/fs/bpf:/sys/fs/bpf"));
    nothing_is_left(&net.middle, "r1");
}

/// A ConfigMap in a pod: the policy is a link into a folder that is itself a link, which the kubelet swaps.
#[test]
fn an_agent_follows_a_config_map_whose_folder_is_swapped() {
    if !is_root_or_skip("an_agent_follows_a_config_map_whose_folder_is_swapped") {
        return;
    }
    let net = Net::create("cubic");
    let volume = tempfile::tempdir().expect("a folder");
    let path = |name: &str| volume.path().join(name);
    let publish = |version: &str, algorithm: &str| {
        fs::create_dir(path(version)).expect("a new folder");
        policy(&path(version), algorithm);
        symlink(version, path("..data_tmp")).expect("a link");
        fs::rename(path("..data_tmp"), path("..data")).expect("the same folder");
    };
    publish("..2026_11_28_01", "cubic");
    symlink("..data/policy.toml", path("policy.toml")).expect("a link");
    let agent = net.agent(&path("policy.toml"), "under control");
    let is = |algorithm: &str| net.flows().iter().any(|flow| flow["algorithm"] == algorithm);
    let flows = net.idle_connections(1);
    assert!(is("cubic"));
    drop(flows);
    publish("..2026_11_28_02", "reno");
    fs::remove_dir_all(path("..2026_11_28_01")).expect("the kubelet removes it");
    agent.says("in force");
    let flows = net.idle_connections(1);
    assert!(is("reno"));
    drop(flows);
    release(&net, agent);
}
