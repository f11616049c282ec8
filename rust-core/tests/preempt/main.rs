//! Preemption: plans against a brute-force oracle, and the clusters in which other schedulers went wrong.

mod oracle;
mod properties;
mod scenarios;
mod world;
