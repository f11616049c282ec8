//! `mortise sim ...`

mod pack;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Fill a cluster with the pods of a trace, one at a time, none ever leaving: the published packing experiment.
    Pack(pack::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Pack(args) => pack::run(args),
    }
}
