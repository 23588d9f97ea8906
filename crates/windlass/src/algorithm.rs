//! Algorithms that are named on the command line.

use anyhow::Context;
use clap::{
    Arg, Command,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};
use std::ffi::OsStr;
use windlass_core::Algorithm;

/// The algorithm of that name, or an error that lists those there are.
pub fn named(name: &str) -> anyhow::Result<Algorithm> {
    Algorithm::by_name(name)
        .with_context(|| format!("unknown algorithm '{name}'; known: {}", Algorithm::names()))
}

/// Takes any word, which is checked where it is used, and has shells complete the names of algorithms.
#[derive(Clone)]
pub struct AlgorithmName;

impl TypedValueParser for AlgorithmName {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            Algorithm::all()
                .map(|algorithm| PossibleValue::new(algorithm.name()).help(algorithm.description())),
        ))
    }
}
