//! The compiled transparent datapath, as it is built into this program, and what its state looks like.

use crate::object::fingerprint;
use std::sync::LazyLock;

/// The compiled programs: an ELF object, which stands in the executable byte by byte.
pub static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/transparent.bpf.o"));

/// Layout of all that the datapath keeps (`bpf/state/state.rs`).
static STATE: &str = include_str!(concat!(env!("OUT_DIR"), "/state.txt"));

/// Map of the constants that the programs are loaded with, struct wl_config.
pub(crate) const CONFIG: &str = ".rodata.config";

/// Identifies the state: programs of builds that have the same go on with each other's maps. Other builds' maps are none of ours.
pub(crate) fn state_id() -> u64 {
    static ID: LazyLock<u64> = LazyLock::new(|| fingerprint(STATE.as_bytes()));
    *ID
}

/// Identifies the programs of this build, by all bytes of the object.
pub(crate) fn build_id() -> u64 {
    // it takes milliseconds, and is needed for each of many interfaces
    static ID: LazyLock<u64> = LazyLock::new(|| fingerprint(OBJECT));
    *ID
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

    /// Its variables and types, each with the lines of its members.
    fn parts(state: &str) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        for line in state.lines() {
            match parts.last_mut().filter(|_| line.starts_with('\t')) {
                Some(part) => *part += &format!("\n{line}"),
                None => parts.push(line.into()),
            }
        }
        parts
    }

    /// Whether this part of the state is one of `algorithm`: struct wl_NAME, or an enum wl_NAME_... that it keeps.
    fn is_of(part: &str, algorithm: &str) -> bool {
        let mut names = ["wl_state_", "struct wl_", "enum wl_"].iter().filter_map(|p| part.strip_prefix(p));
        names.any(|name| {
            name.strip_prefix(algorithm).is_some_and(|rest| rest.starts_with([':', ' ', '_', '\n']))
        })
    }

    /// The state but for what algorithms keep that have been added since it was recorded: no flow of an earlier build has these.
    fn state_without_new(algorithms_were: &str) -> Vec<String> {
        let is_new = |name: &str| !algorithms_were.split(' ').any(|a| a.split('=').next() == Some(name));
        let new: Vec<_> = Algorithm::all().map(|a| a.name()).filter(|name| is_new(name)).collect();
        let mut parts = parts(STATE);
        parts.retain(|part| !new.iter().any(|name| is_of(part, name)));
        parts
    }

    /// Changed by intention or not, it costs users open connections: of those that their agents control none is taken over.
    #[test]
    fn the_state_is_what_was_recorded() {
        let [_, algorithms_were, was] = recorded();
        let (was, is) = (parts(&was), state_without_new(&algorithms_were));
        let change = was.iter().zip(&is).find(|(was, is)| was != is);
        assert!(
            was == is,
            "the datapath's state is another one, first in {change:?}: agents that are upgraded to this build leave open \
             connections alone. If that must be: {RECORD}. If something means another thing now and looks the same, raise \
             WL_STATE_VERSION in bpf/state/state.bpf.c"
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
