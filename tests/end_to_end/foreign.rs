//! What others do to the programs of an interface: put their own beside them, or detach them.

use crate::{
    control::{is_controlled, policy, release, stop, with_talker},
    net::{Net, with_transfer},
};
use libbpf_rs::{Link, libbpf_sys as sys};
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};
use windlass_agent::interface_index;
use windlass_tests::is_root_or_skip;

/// Takes a descriptor that libbpf has made.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A program that accepts every packet, whatever others would do with it.
pub fn accepting() -> OwnedFd {
    let instruction = |code: u32| sys::bpf_insn { code: code as u8, ..Default::default() };
    // r0 = 0, which is TC_ACT_OK, and return
    let code =
        [instruction(sys::BPF_ALU64 | sys::BPF_MOV | sys::BPF_K), instruction(sys::BPF_JMP | sys::BPF_EXIT)];
    let (name, license) = (c"foreign".as_ptr(), c"GPL".as_ptr());
    // SAFETY: strings and instructions live during the call, and there are as many as it is given.
    let program = unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_SCHED_CLS,
            name,
            license,
            code.as_ptr(),
            code.len() as _,
            ptr::null_mut(),
        )
    };
    owned(program).expect("a sound program")
}

/// Attaches it to both sides of the interface that faces the server; none: no tcx before Linux 6.6.
fn attach(net: &Net, program: &OwnedFd) -> Option<[OwnedFd; 2]> {
    let links = net.middle.enter(|| {
        let index = interface_index("r1").expect("the cable is there") as i32;
        Ok([sys::BPF_TCX_INGRESS, sys::BPF_TCX_EGRESS].map(|side| {
            // SAFETY: the program is open; without options libbpf takes its defaults.
            owned(unsafe { sys::bpf_link_create(program.as_raw_fd(), index, side, ptr::null()) }).ok()
        }))
    });
    let [ingress, egress] = links.expect("entering a namespace");
    Some([ingress?, egress?])
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn what_accepts_every_packet_does_not_hide_them() {
    let test = "what_accepts_every_packet_does_not_hide_them";
    if !is_root_or_skip(test) {
        return;
    }
    let net = Net::create("cubic");
    let program = accepting();
    let Some(_links) = attach(&net, &program) else {
        println!("skipped: {test}: no tcx before Linux 6.6");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let agent = net.agent(&policy(folder.path(), "bbr"), "under control");
    is_controlled(&net);
    release(&net, agent);
}

/// Attaches it before all others, to the side on which packets go to the server; none: no tcx.
pub fn attach_first(net: &Net, program: &OwnedFd) -> Option<OwnedFd> {
    let link = net.middle.enter(|| {
        let index = interface_index("r1").expect("the cable is there") as i32;
        let opts = sys::bpf_link_create_opts {
            sz: size_of::<sys::bpf_link_create_opts>() as u64,
            flags: sys::BPF_F_BEFORE,
            ..Default::default()
        };
        // SAFETY: the program is open during the call, and the options live as long.
        Ok(owned(unsafe { sys::bpf_link_create(program.as_raw_fd(), index, sys::BPF_TCX_EGRESS, &opts) })
            .ok())
    });
    link.expect("entering a namespace")
}

/// As a container network that hands packets to the server past the box: only one direction is seen.
#[test]
fn one_way_traffic_is_reported() {
    let test = "one_way_traffic_is_reported";
    if !is_root_or_skip(test) {
        return;
    }
    let (net, _folder, _file, mut agent) = with_talker("bbr");
    let program = accepting();
    let Some(_link) = attach_first(&net, &program) else {
        println!("skipped: {test}: no tcx before Linux 6.6");
        return;
    };
    with_transfer(&net, |progress| {
        let complaint = agent.complaint();
        assert!(complaint.contains("r1: packets from servers pass here, and none to them"), "{complaint}");
        progress();
        assert!(net.answer(&["flows"]).contains("and none to them"));
    });
    agent.end(libc::SIGTERM);
}

/// As `bpftool link detach` does, or whatever makes an interface anew in the place of another. An agent that starts meanwhile, in
/// whatever namespace, takes nothing for gone that is another's.
#[test]
fn detached_programs_are_attached_anew() {
    let test = "detached_programs_are_attached_anew";
    if !is_root_or_skip(test) {
        return;
    }
    let (net, folder, _file, mut agent) = with_talker("bbr");
    let link = net.pins().join("link2");
    stop(&agent);
    if link.exists() {
        Link::open(&link).and_then(|link| link.detach()).expect("a link");
    } else {
        net.middle.run(&["tc", "qdisc", "del", "dev", "r1", "clsact"]).expect("tc");
    }
    let other = Net::create("cubic");
    release(&other, other.agent(&policy(folder.path(), "bbr"), "under control"));
    agent.signal(libc::SIGCONT);
    let complaint = agent.complaint();
    assert!(complaint.contains("r1: its programs were removed by another program"), "{complaint}");
    agent.says("r1: under control");
    is_controlled(&net);
    agent.end(libc::SIGTERM);
    assert!(net.clocks().is_empty() && !net.pins().exists(), "released");
}
