//! Published figures and tables, reproduced: experiments as data, their runs, and the claims they must show.

mod awake;
mod bench;
mod cable;
mod claim;
mod cpu;
mod demo;
mod emulator;
mod experiment;
mod figure;
mod metric;
mod plot;
mod report;
mod runner;
mod stats;
mod summary;
mod sweep;
mod table;
mod transparency;
mod vary;
mod wan;

pub use bench::bench_datapath;
pub use claim::{Claim, Verdict};
pub use cpu::{NAME as CPU, cpu};
pub use demo::demo;
pub use emulator::bench_emulator;
pub use experiment::{Experiment, Home};
pub use report::Outcome;
pub use runner::Settings;
pub use stats::median;
pub use sweep::{Sweep, Swept, Varied};
pub use transparency::{NAME as TRANSPARENCY, transparency};
