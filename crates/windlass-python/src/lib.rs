//! The extension module of the Python package `windlass`: scenarios, runs, sweeps and environments in steps, by the crates that the
//! program uses. What is convenient in Python is made there, in `python/windlass`.

mod algorithm;
mod envs;
mod error;
mod interrupt;
mod owned;
mod run;
mod scenario;
mod sweep;

use pyo3::prelude::*;

/// Simulations of TCP congestion control; see the package `windlass`.
#[pymodule]
mod _windlass {
    #[pymodule_export]
    use super::{
        algorithm::{Decision, Sample, algorithm_names},
        envs::Envs,
        run::run,
        scenario::{Scenario, toml_of_json, toml_value_of_json},
        sweep::Sweep,
    };
}
