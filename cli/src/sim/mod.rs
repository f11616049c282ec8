//! `mortise sim ...`

mod mig;
mod pack;
mod preempt;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Place MIG instances that arrive and leave under different policies, and count what is rejected.
    Mig(mig::Args),
    /// Fill a cluster with the pods of a trace, one at a time, none ever leaving: the published packing experiment.
    Pack(pack::Args),
    /// Let inference evict training jobs of a trace under different rules, and count what is lost.
    Preempt(preempt::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Mig(args) => mig::run(args),
        Command::Pack(args) => pack::run(args),
        Command::Preempt(args) => preempt::run(args),
    }
}
