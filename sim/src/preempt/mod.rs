//! The preemption experiment: training jobs and a daily wave of inference on one cluster, under different ways to choose
//! victims.
//!
//! [`jobs`] and [`demand`] are read from traces; [`run`] plays them event by event on `cluster` with one [`Policy`]:
//! the kernel's planner (`ours`) or another scheduler's order (`rivals`). `job` is what a job has done and saved,
//! `measure` what a run is judged by.

mod clock;
mod cluster;
mod demand;
mod job;
mod jobs;
mod measure;
mod ours;
mod output;
mod policy;
mod rivals;
mod run;
mod setup;
mod summary;
mod sweep;

pub use demand::{Demand, read_requests};
pub use jobs::{JobSpec, JobTrace, read_jobs};
pub use measure::Run;
pub use output::{render_table, write_json};
pub use policy::{Policy, PolicyError};
pub use run::run;
pub use setup::{CARDS_PER_NODE, DAY, Guarantee, MILLI_CPU_PER_GPU, Setup, TIER1_GPUS};
pub use summary::{Comparison, Mean, Ratio, comparisons, means};
pub use sweep::sweep;
