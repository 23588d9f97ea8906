//! Names of the datapath's counters.

use crate::abi;
use std::ffi::CStr;

/// One counter of the datapath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Position in the counter map.
    pub index: u32,
    /// Name shown to users, lower case.
    pub name: String,
    /// What it counts, for people.
    pub meaning: &'static str,
}

/// All counters in the order of their index.
pub fn counters() -> Vec<Counter> {
    (0..abi::WL_COUNTERS)
        .map(|index| {
            // SAFETY: below WL_COUNTERS both functions return static, NUL-terminated strings.
            let (name, meaning) = unsafe {
                (
                    CStr::from_ptr(abi::wln_counter_name(index)),
                    CStr::from_ptr(abi::wln_counter_meaning(index)),
                )
            };
            Counter {
                index,
                name: name.to_str().expect("ASCII").to_ascii_lowercase(),
                meaning: meaning.to_str().expect("ASCII"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_explained() {
        let all = counters();
        let mut names: Vec<_> = all.iter().map(|c| &c.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|c| !c.meaning.is_empty()));
    }
}
