//! Published figures and tables, reproduced: experiments as data, their runs, and the claims they must show.

mod agreement_survey;
#[cfg(feature = "lab")]
mod bench;
#[cfg(feature = "lab")]
mod cable;
mod claim;
#[cfg(feature = "lab")]
mod cpu;
#[cfg(feature = "lab")]
mod cpu_spinners;
mod demo;
#[cfg(feature = "lab")]
mod emulator;
mod experiment;
mod field_error;
mod figure;
mod harm_survey;
mod interval;
#[cfg(feature = "lab")]
mod isolation;
mod job;
#[cfg(feature = "lab")]
mod lab_trace;
mod metric;
#[cfg(feature = "lab")]
mod other_processes;
mod page;
mod plot;
mod progress;
mod rank_sum;
mod record;
mod report;
mod runner;
mod runs_file;
mod seeds;
mod settings;
mod shard;
mod stats;
mod summary;
mod sweep;
mod sweep_classes;
mod sweep_merge;
mod sweep_plan;
mod table;
#[cfg(feature = "lab")]
mod trace_page;
#[cfg(feature = "lab")]
mod trace_plots;
#[cfg(feature = "lab")]
mod trace_table;
#[cfg(feature = "lab")]
mod transparency;
mod vary;
mod wan;

pub use agreement_survey::{NAME as AGREEMENT_SURVEY, TITLE as AGREEMENT_SURVEY_TITLE, agreement_survey};
#[cfg(feature = "lab")]
pub use bench::bench_datapath;
pub use claim::{Claim, Origin, Verdict};
#[cfg(feature = "lab")]
pub use cpu::{NAME as CPU, TITLE as CPU_TITLE, cpu};
pub use demo::demo;
#[cfg(feature = "lab")]
pub use emulator::bench_emulator;
pub use experiment::Experiment;
pub use harm_survey::{NAME as HARM_SURVEY, TITLE as HARM_SURVEY_TITLE, Which as HarmPaths, harm_survey};
#[cfg(feature = "lab")]
pub use isolation::bench_isolation;
pub use job::Home;
#[cfg(feature = "lab")]
pub use lab_trace::write_lab_trace;
pub use report::Outcome;
pub use seeds::Seeds;
pub use settings::Settings;
pub use shard::Shard;
pub use stats::median;
pub use sweep::{Sweep, Swept, Varied};
#[cfg(feature = "lab")]
pub use trace_plots::draw_trace;
#[cfg(feature = "lab")]
pub use transparency::{NAME as TRANSPARENCY, TITLE as TRANSPARENCY_TITLE, Untold, transparency, untold_in};
