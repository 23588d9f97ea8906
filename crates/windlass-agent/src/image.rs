//! The compiled transparent datapath, as it is built into this program, and what its state looks like.

use crate::object::fingerprint;

pub(crate) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/transparent.bpf.o"));

/// Layout of all that the datapath keeps (`bpf/state.rs`).
static STATE: &str = include_str!(concat!(env!("OUT_DIR"), "/state.txt"));

/// Map of the constants that the programs are loaded with, struct wl_config.
pub(crate) const CONFIG: &str = ".rodata.config";

/// Identifies the state: programs of builds that have the same go on with each other's maps. Other builds' maps are none of ours.
pub(crate) fn state_id() -> u64 {
    fingerprint(STATE.as_bytes())
}

/// Identifies the programs of this build, by all bytes of the object.
pub(crate) fn build_id() -> u64 {
    fingerprint(OBJECT)
}

/// The state's identity, for people to compare.
pub(crate) fn state_name() -> String {
    format!("{:016x}", state_id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs};
    use windlass_core::Algorithm;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/state/recorded.txt");
    const RECORD: &str = "WINDLASS_RECORD=1 cargo test -p windlass-agent image";

    fn counters() -> Vec<String> {
        windlass_core::counters().into_iter().map(|c| c.name).collect()
    }

    fn algorithms() -> Vec<String> {
        Algorithm::all().map(|a| format!("{}={}", a.name(), a.id())).collect()
    }

    /// What is recorded: names of counters, numbers of algorithms, and the state.
    fn recorded() -> [String; 3] {
        if env::var_os("WINDLASS_RECORD").is_some() {
            let text = format!("{}\n{}\n{STATE}", counters().join(" "), algorithms().join(" "));
            fs::write(FILE, text).expect("a writable folder");
        }
        let text = fs::read_to_string(FILE).expect("it is recorded");
        let mut parts = text.splitn(3, '\n').map(String::from);
        std::array::from_fn(|_| parts.next().expect("three parts"))
    }

    /// Changed by intention or not, it costs users open connections: of those that their agents control none is taken over.
    #[test]
    fn the_state_is_what_was_recorded() {
        let [.., was] = recorded();
        let change = was.lines().zip(STATE.lines()).find(|(was, is)| was != is);
        assert!(
            was == STATE,
            "the datapath's state is another one, first in {change:?}: agents that are upgraded to this build leave open \
             connections alone. If that must be: {RECORD}. If something means another thing now and looks the same, raise \
             WL_STATE_VERSION in bpf/state.bpf.c"
        );
    }

    /// Of the same state too, one build counts where another did, and has the algorithm that a flow was given.
    #[test]
    fn counters_and_algorithms_are_only_ever_added() {
        let [was, algorithms_were, _] = recorded();
        let was: Vec<_> = was.split(' ').collect();
        assert_eq!(counters()[..was.len()], was, "new ones come last: {RECORD}");
        assert_eq!(counters().len(), was.len(), "from now on they are counted on, too: {RECORD}");
        let now = algorithms();
        assert!(
            algorithms_were.split(' ').all(|a| now.iter().any(|n| n == a)),
            "{algorithms_were}: {RECORD}"
        );
    }
}
