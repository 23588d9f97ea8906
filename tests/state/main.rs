//! What distinguishes one state of the datapath from another (bpf/state/state.bpf.c): all that is kept, and nothing that only computes.

#[path = "../../bpf/compile.rs"]
#[expect(dead_code, reason = "build scripts compile more than one")]
mod bpf;
#[path = "../../bpf/state/state.rs"]
mod state;

use std::{fs, path::Path, thread};

/// The workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// One piece of text in one file, and what stands there instead.
type Edit = (&'static str, &'static str, &'static str);

/// The state that the sources have after these edits, compiled in a folder of their own.
fn state_with(edits: &[Edit]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    for sources in ["bpf", "core"] {
        copy(&Path::new(ROOT).join(sources), &folder.path().join(sources));
    }
    for (file, old, new) in edits {
        let path = folder.path().join(file);
        let text = fs::read_to_string(&path).expect(file);
        assert!(text.contains(old), "{file} has no '{old}' any more");
        fs::write(path, text.replacen(old, new, 1)).expect("a writable folder");
    }
    let object = folder.path().join("state.bpf.o");
    bpf::compile_to(&object, folder.path(), "state/state", &[]);
    state::describe(&object)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a writable folder");
    for entry in fs::read_dir(from).expect("sources").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a readable file");
        }
    }
}

const BBR: &str = "core/alg/bbr.h";

#[test]
fn what_is_kept_is_the_state_and_what_computes_is_not() {
    let same: [&[Edit]; 2] = [
        &[(BBR, "#define WL_ALG_BBR_H\n", "#define WL_ALG_BBR_H\n/* a word\n   more */\n")],
        &[
            (BBR, "#define WL_BBR_DRAIN_RTTS 2u", "#define WL_BBR_DRAIN_RTTS 3u"),
            ("core/box/tick.h", "if (r.failed)\n", "if (r.failed && r.segs)\n"),
            (
                "bpf/packet/packet.h",
                "struct wl_packet {\n",
                "struct wl_packet {\n\t__u32 of_the_next_build;\n",
            ),
            (
                "core/datapath.h",
                "\tX(CLOCK_TICKS, ",
                "\tX(OF_THE_NEXT_BUILD, \"one more\") \\\n\tX(CLOCK_TICKS, ",
            ),
        ],
    ];
    let other: [&[Edit]; 5] = [
        // one moves
        &[(
            "core/abi.h",
            "\twl_u32 cwnd_bytes; /* 0 before init() */\n\twl_u32 ssthresh_bytes;",
            "\twl_u32 ssthresh_bytes;\n\twl_u32 cwnd_bytes;",
        )],
        // in what is words to the maps
        &[("core/alg/dctcp.h", "struct wl_dctcp {\n", "struct wl_dctcp {\n\twl_u32 of_the_next_build;\n")],
        &[("core/flow/flow.h", "WL_SEG_RESENT = 1 << 2", "WL_SEG_RESENT = 1 << 5")],
        &[("core/flow/flow.h", "#define WL_BLOCK_BITS 20u", "#define WL_BLOCK_BITS 21u")],
        &[("bpf/state/state.bpf.c", "#define WL_STATE_VERSION ", "#define WL_STATE_VERSION 1")],
    ];
    thread::scope(|scope| {
        let is = scope.spawn(|| state_with(&[]));
        let same = same.map(|edits| scope.spawn(|| state_with(edits)));
        let other = other.map(|edits| (edits[0], scope.spawn(|| state_with(edits))));
        let is = is.join().expect("it compiles");
        for state in same {
            assert_eq!(state.join().expect("it compiles"), is);
        }
        for (edit, state) in other {
            assert_ne!(state.join().expect("it compiles"), is, "{edit:?}");
        }
    });
}

/// Of the headers of what is kept: numbers that mean something from one call to the next only, and what other homes keep.
const NOT_KEPT: [&str; 17] = [
    "enum wl_alg_id",
    "enum wl_alg_need",
    "enum wl_congestion",
    "enum wl_counter",
    "enum wl_group_ablation",
    "enum wl_group_result",
    "enum wl_talk",
    "enum wl_tunable_unit",
    "struct wl_coupled_stats",
    "struct wl_group_reply",
    "struct wl_group_report",
    "struct wl_native_config",
    "struct wl_native_stats",
    "struct wl_sample",
    "struct wl_select_stats",
    "struct wl_terms",
    "struct wl_wish",
];

/// What is not named in bpf/state/state.bpf.c the compiler does not describe.
#[test]
fn whatever_the_core_declares_is_kept_or_is_known_not_to_be() {
    let recorded =
        fs::read_to_string(Path::new(ROOT).join("tests/state/recorded.txt")).expect("it is recorded");
    let core = Path::new(ROOT).join("core");
    let headers =
        ["alg", "group"].iter().flat_map(|f| fs::read_dir(core.join(f)).expect("headers").flatten());
    let headers = headers.map(|e| e.path());
    let more = ["abi.h", "datapath.h", "flow/flow.h"].map(|name| core.join(name));
    for header in headers.chain(more) {
        let text = fs::read_to_string(&header).expect("a header");
        for line in text.lines().filter(|l| l.starts_with("struct wl_") || l.starts_with("enum wl_")) {
            let Some(name) = line.strip_suffix(" {") else { continue };
            let is_kept = recorded.lines().any(|l| l == name || l.starts_with(&format!("{name} ")));
            let is_known = NOT_KEPT.contains(&name);
            assert!(
                is_kept != is_known,
                "{}: {name}: to be named in bpf/state/state.bpf.c, by WL_ALG_KEEPS behind an algorithm's enum, or in this file",
                header.display()
            );
        }
    }
}
