//! `mortise sim mig`: policies for MIG instances that arrive and leave.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use mortise_core::mig::{GpuModel, MigStrategy};
use mortise_sim::mig::{
    MIXES, MigMix, MigSetup, mig_comparisons, mig_means, mig_plan, mig_sweep, render_mig_table,
    write_mig_json, write_mig_report,
};

use crate::mig::parse_gpu;

/// Requests for MIG profiles arrive and leave; those that fit nowhere are lost. At load 1 they ask for as many memory slices as there are.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The cards' model; an unknown name lists them all.
    #[arg(long, value_name = "MODEL", default_value = "h100-80gb", value_parser = parse_gpu)]
    gpu: &'static GpuModel,
    /// Number of cards, eight to a node.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    cards: u32,
    /// Memory slices asked for at any time, as multiples of the cards'.
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_value = "0.8,1.0,1.3", value_parser = parse_load)]
    load: Vec<f64>,
    /// Mixes of profiles: uniform, small, mid, big [default: all].
    #[arg(long, value_name = "MIX", value_delimiter = ',')]
    mix: Vec<MigMix>,
    /// Policies to compare, by name; an unknown name lists them all.
    #[arg(
        long,
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "expected-stranding,mfi,best-fit,first-fit"
    )]
    policy: Vec<MigStrategy>,
    /// Runs of each mix at each load under each policy.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// The first seed; the others follow.
    #[arg(long, value_name = "SEED", default_value_t = 42)]
    first_seed: u64,
    /// Time measured, in mean lives of an instance, after 10 of warm-up.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    lives: u32,
    /// Form of the results on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Also write a page with bars to look at: one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Runs done at the same time [default: one per processor]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mixes = if args.mix.is_empty() { MIXES.to_vec() } else { args.mix.clone() };
    once("--mix", &mixes)?;
    once("--policy", &args.policy)?;
    once("--load", &args.load)?;
    let Some(end) = args.first_seed.checked_add(args.seeds) else {
        bail!(
            "--first-seed {}: {} seeds from there pass the largest 64-bit number; expected a smaller one",
            args.first_seed,
            args.seeds
        );
    };
    let setup = MigSetup { model: args.gpu, cards: args.cards as usize, lives: args.lives };
    let seeds: Vec<u64> = (args.first_seed..end).collect();
    let specs = mig_plan(&mixes, &args.load, &args.policy, &seeds);
    let report = args.report.as_deref().map(create).transpose()?;
    let jobs =
        args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let progress = progress_bar(specs.len());
    let runs = mig_sweep(&setup, &specs, jobs, |run| {
        progress
            .set_message(format!("{} {} seed {}", run.spec.mix, run.spec.policy, run.spec.seed));
        progress.inc(1);
    });
    progress.finish_and_clear();
    let runs = runs?;
    let (means, comparisons) = (mig_means(&runs), mig_comparisons(&runs));
    if let (Some(mut page), Some(path)) = (report, &args.report) {
        write_mig_report(&mut page, &setup, &means, &comparisons)
            .and_then(|()| page.flush())
            .with_context(|| path.display().to_string())?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match args.format {
        Format::Table => out.write_all(render_mig_table(&means, &comparisons).as_bytes()),
        Format::Json => write_mig_json(&mut out, &means, &comparisons),
    }
    .and_then(|()| out.flush())
    .context("standard output")
}

/// Before the runs, so that a path that cannot be written costs nothing.
fn create(path: &std::path::Path) -> anyhow::Result<BufWriter<File>> {
    let file = File::create(path)
        .with_context(|| format!("--report {}: the file cannot be written", path.display()))?;
    Ok(BufWriter::new(file))
}

fn once<T: PartialEq + std::fmt::Display>(option: &str, values: &[T]) -> anyhow::Result<()> {
    for (index, value) in values.iter().enumerate() {
        if values[..index].contains(value) {
            bail!("{option}: {value} is named twice; expected each value once");
        }
    }
    Ok(())
}

fn parse_load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if (0.01..=100.0).contains(&load) => Ok(load),
        _ => Err("expected a number from 0.01 to 100, such as 1.0".to_owned()),
    }
}

/// Drawn on standard error, and only if that is a terminal.
fn progress_bar(runs: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {wide_msg:.dim}");
    ProgressBar::new(runs as u64).with_style(style.expect("the template is valid"))
}
