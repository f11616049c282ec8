//! Packing experiments on the Mortise kernel: traces, the published arrival sequence, runs, means and reports.

pub mod ceiling;
pub mod columns;
pub mod mig;
pub mod output;
pub mod pack;
pub mod preempt;
pub mod published;
pub mod report;
pub mod sequence;
pub mod trace;
