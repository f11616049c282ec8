//! `mortise`: what Mortise does offline, on the same kernel as the scheduler.

mod mig;
mod sim;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Fragmentation-aware GPU scheduling, offline: experiments on the same kernel as the scheduler.
#[derive(Parser)]
#[command(name = "mortise", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate a cluster under different policies.
    #[command(subcommand)]
    Sim(sim::Command),
    /// Layouts of MIG instances: check and plan.
    #[command(subcommand)]
    Mig(mig::Command),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Sim(command) => sim::run(&command),
        Command::Mig(command) => mig::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The reader of our output went away (`mortise ... | head`): nothing is left to do.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
