//! `mortise mig ...`: layouts of MIG instances.

mod check;
mod config;
mod plan;

use clap::Subcommand;
use mortise_core::mig::{GPU_MODELS, GpuModel};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Say what of a mig-parted configuration cannot exist on real cards.
    Check(check::Args),
    /// Propose layouts for a demand.
    Plan(plan::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Check(args) => check::run(args),
        Command::Plan(args) => plan::run(args),
    }
}

/// The model of that name; the message lists all.
pub(crate) fn parse_gpu(name: &str) -> Result<&'static GpuModel, String> {
    GpuModel::named(name).ok_or_else(|| {
        let known: Vec<&str> = GPU_MODELS.iter().map(|model| model.name).collect();
        format!("unknown model; expected one of {}", known.join(", "))
    })
}

/// A set of instances in words: `2 x 1g.10gb + 1 x 3g.40gb`.
fn set_text(model: &GpuModel, counts: &[u32]) -> String {
    let held = model.profiles.iter().zip(counts).filter(|&(_, &count)| count > 0);
    let parts: Vec<String> =
        held.map(|(profile, count)| format!("{count} x {}", profile.name)).collect();
    if parts.is_empty() { "no instance".to_owned() } else { parts.join(" + ") }
}
