//! Types and constants generated from the C headers under `core/`. Their documentation is there.

#![allow(missing_docs, non_camel_case_types, non_upper_case_globals, non_snake_case)]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
