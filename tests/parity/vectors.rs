//! What goes through both builds: vectors and calls, generated from `bpf/tests/parity.h` and `bpf/tests/parity_flow.h`.

#![allow(missing_docs, non_camel_case_types, clippy::all, clippy::undocumented_unsafe_blocks)]

use windlass_core::abi::*;

include!(concat!(env!("OUT_DIR"), "/parity.rs"));
