//! `mortise sim preempt`: the preemption experiment over policies and seeds.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use mortise_sim::preempt::{
    Guarantee, Policy, Setup, comparisons, means, read_jobs, read_requests, render_table, sweep,
    write_json,
};
use mortise_sim::report::PreemptReport;

/// Training jobs of a trace and a daily wave of inference on nodes of 8 GPUs: inference evicts, victims resume from their last checkpoint.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Jobs: a CSV file with the columns timestamp, duration, num_gpus, cluster.
    #[arg(long, value_name = "JOBS.csv")]
    jobs: PathBuf,
    /// Inference requests: a CSV file with the column gmt_create; its requests per hour shape the wave.
    #[arg(long, value_name = "REQUESTS.csv")]
    requests: PathBuf,
    /// Nodes of 8 GPUs.
    #[arg(long, value_name = "N", default_value_t = 96, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    nodes: u32,
    /// Policies to compare, by name; an unknown name lists them all.
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_values_t = Policy::ALL)]
    policy: Vec<Policy>,
    /// Runs of each policy.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// The first seed; the others follow.
    #[arg(long, value_name = "SEED", default_value_t = 42)]
    first_seed: u64,
    /// Days before anything is counted.
    #[arg(long, value_name = "DAYS", default_value_t = 14, value_parser = clap::value_parser!(i64).range(0..=1_000))]
    warm_up_days: i64,
    /// Days that are counted.
    #[arg(long, value_name = "DAYS", default_value_t = 60, value_parser = clap::value_parser!(i64).range(1..=1_000))]
    measured_days: i64,
    /// min-lost-work: evictions without a save after which a job counts as training; 0 = never.
    #[arg(long, value_name = "N", default_value_t = 1)]
    guarantee_after: u32,
    /// min-lost-work: GPUs per tenant that this may protect at one time.
    #[arg(long, value_name = "GPUS", default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    guarantee_gpus: u32,
    /// min-lost-work: a job with this much unsaved work counts as training before its first eviction too; 0 = never.
    #[arg(long, value_name = "GPU-HOURS", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    guarantee_unsaved: u32,
    /// min-lost-work: hours a victim waits before it may start again; 0 = at once, as the other policies.
    #[arg(long, value_name = "HOURS", default_value_t = 8, value_parser = clap::value_parser!(i64).range(0..=1_000))]
    requeue_wait: i64,
    /// Form of the results on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Also write a report with bars to look at: one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Runs done at the same time [default: one per processor]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    parallel: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Means and ratios, for people.
    Table,
    /// Means, ratios and all runs.
    Json,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    for (index, policy) in args.policy.iter().enumerate() {
        if args.policy[..index].contains(policy) {
            bail!("--policy: {policy} is named twice; expected each policy once");
        }
    }
    let Some(end) = args.first_seed.checked_add(args.seeds) else {
        bail!(
            "--first-seed {}: {} seeds from there pass the largest 64-bit number; expected a smaller one",
            args.first_seed,
            args.seeds
        );
    };
    let setup = Setup {
        jobs: read_jobs(&args.jobs)?,
        demand: read_requests(&args.requests)?,
        nodes: args.nodes,
        warm_up_days: args.warm_up_days,
        measured_days: args.measured_days,
        inference_share: (0.05, 0.35),
        grace_seconds: 30,
        guarantee: Guarantee {
            after: args.guarantee_after,
            gpus_per_tenant: args.guarantee_gpus,
            unsaved_gpu_hours: (args.guarantee_unsaved > 0).then_some(args.guarantee_unsaved),
        },
        requeue_wait_seconds: args.requeue_wait * 3_600,
    };
    let seeds: Vec<u64> = (args.first_seed..end).collect();
    let threads =
        args.parallel.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let progress = progress_bar(seeds.len() * args.policy.len());
    let runs = sweep(&setup, &args.policy, &seeds, threads, |run| {
        progress.set_message(format!("{} seed {}", run.policy, run.seed));
        progress.inc(1);
    });
    progress.finish_and_clear();
    let runs = runs.context("the kernel refused the simulated cluster")?;
    let means = means(&runs);
    let comparisons = comparisons(&runs, Policy::KubeDefault);
    if let Some(file) = &args.report {
        let report =
            PreemptReport { setup: &setup, runs: &runs, means: &means, comparisons: &comparisons };
        File::create(file)
            .and_then(|page| report.write(&mut BufWriter::new(page)))
            .with_context(|| format!("--report {}", file.display()))?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match args.format {
        Format::Table => out.write_all(render_table(&means, &comparisons).as_bytes()),
        Format::Json => write_json(&mut out, &runs, &means, &comparisons),
    }
    .and_then(|()| out.flush())
    .context("standard output")
}

/// Drawn on standard error, and only if that is a terminal.
fn progress_bar(runs: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {wide_msg:.dim}");
    ProgressBar::new(runs as u64).with_style(style.expect("the template is valid"))
}
