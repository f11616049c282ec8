//! `mortise sim pack`: the packing experiment over traces, policies and seeds.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use mortise_sim::ceiling::ceilings;
use mortise_sim::output::{Results, render_table, write_csv, write_json};
use mortise_sim::pack::{Mix, Plan, Policy, Setup, Ties, means, sweep};
use mortise_sim::published::{Comparison, Published};
use mortise_sim::report::PackReport;
use mortise_sim::sequence::Arrivals;
use mortise_sim::trace::{Trace, read_nodes, read_pods};

/// Every pod arrives once, in random order; pods are drawn again until the load is reached (or --sequence file). A pod that fits nowhere is rejected for good.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Nodes: a CSV file with the columns sn, cpu_milli, memory_mib, gpu, model.
    #[arg(long, value_name = "NODES.csv")]
    nodes: PathBuf,
    /// Pods: CSV files with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and optionally gpu_spec; one trace each.
    #[arg(long, value_name = "PODS.csv", value_delimiter = ',', required = true, num_args = 1..)]
    pods: Vec<PathBuf>,
    /// Policies to compare, by name; an unknown name lists them all.
    #[arg(
        long,
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "expected-stranding,fgd"
    )]
    policy: Vec<Policy>,
    /// Runs of each trace under each policy.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// The first seed; the others follow.
    #[arg(long, value_name = "SEED", default_value_t = 42)]
    first_seed: u64,
    /// Which pods arrive, in which order.
    #[arg(long, value_enum, default_value_t = SequenceArg::Published)]
    sequence: SequenceArg,
    /// GPU that arrives in the published sequence, as a multiple of the cluster's [default: 1.3].
    #[arg(long, value_name = "LOAD", value_parser = parse_load)]
    load: Option<f64>,
    /// Choice among equally good nodes.
    #[arg(long, value_enum, default_value_t = TiesArg::Random)]
    ties: TiesArg,
    /// What the policies know of the workload.
    #[arg(long, value_enum, default_value_t = MixArg::Learned)]
    mix: MixArg,
    /// Form of the results on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Also write a report with curves to look at: one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Also prove a ceiling for each trace: what no policy could pass that accepts as long as the best of these does. A report has them always.
    #[arg(long)]
    ceiling: bool,
    /// Compare with published results: a CSV file with the columns trace, policy, n_seeds, alloc_100_mean, alloc_100_sd, alloc_130_mean, alloc_130_sd.
    #[arg(long, value_name = "SUMMARY.csv")]
    published: Option<PathBuf>,
    /// Runs done at the same time [default: one per processor]. Results do not depend on it.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// GPU that arrives in the published experiment.
const PUBLISHED_LOAD: f64 = 1.3;

#[derive(Clone, Copy, ValueEnum)]
enum SequenceArg {
    /// Shuffled, then resampled or thinned to the load.
    Published,
    /// Every pod once, in the order of the file.
    File,
}

#[derive(Clone, Copy, ValueEnum)]
enum TiesArg {
    /// A new random order for every decision.
    Random,
    /// One random order of the nodes per seed, as in the published runs.
    Rank,
}

#[derive(Clone, Copy, ValueEnum)]
enum MixArg {
    /// Nothing in advance; learned from the arrivals.
    Learned,
    /// The kinds of the whole trace, as in the published runs.
    Trace,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Means, for people.
    Table,
    /// All runs and means.
    Json,
    /// One row per run.
    Csv,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let setup = Setup {
        nodes: read_nodes(&args.nodes)?,
        arrivals: arrivals(args)?,
        ties: match args.ties {
            TiesArg::Random => Ties::Random,
            TiesArg::Rank => Ties::Rank,
        },
        mix: match args.mix {
            MixArg::Learned => Mix::Learned,
            MixArg::Trace => Mix::Trace,
        },
    };
    let plan = plan(args)?;
    let published = args.published.as_deref().map(Published::read).transpose()?;
    let jobs =
        args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let progress = progress_bar(plan.runs().len());
    let runs = sweep(&setup, &plan, jobs, |run| {
        progress.set_message(format!("{} {} seed {}", run.trace, run.policy, run.seed));
        progress.inc(1);
    });
    progress.finish_and_clear();
    let runs = runs?;
    let means = means(&runs);
    let ceilings = match args.ceiling || args.report.is_some() {
        true => ceilings(&setup, &plan, &runs, jobs)?,
        false => Vec::new(),
    };
    if let Some(file) = &args.report {
        let (setup, means, ceilings) = (&setup, &means, &ceilings);
        let report = PackReport { setup, means, ceilings, published: published.as_ref() };
        write_report(&report, file).with_context(|| format!("--report {}", file.display()))?;
    }
    let reproduces = setup.ties == Ties::Rank && setup.mix == Mix::Trace;
    let comparison = published.as_ref().map(|results| Comparison { results, reproduces });
    print(args.format, &Results { runs: &runs, means: &means, ceilings: &ceilings }, comparison)
}

fn arrivals(args: &Args) -> anyhow::Result<Arrivals> {
    match (args.sequence, args.load) {
        (SequenceArg::Published, load) => {
            Ok(Arrivals::Published { load: load.unwrap_or(PUBLISHED_LOAD) })
        }
        (SequenceArg::File, None) => Ok(Arrivals::File),
        (SequenceArg::File, Some(load)) => {
            bail!(
                "--load {load}: a file's own sequence has the load it has; expected --sequence published, or no --load"
            )
        }
    }
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let traces = args.pods.iter().map(|file| read_pods(file)).collect::<Result<Vec<Trace>, _>>()?;
    let mut files = HashMap::new();
    for (trace, file) in traces.iter().zip(&args.pods) {
        if let Some(first) = files.insert(trace.name.as_str(), file) {
            bail!(
                "--pods: {} and {} are both named {}; expected files of different names",
                first.display(),
                file.display(),
                trace.name
            );
        }
    }
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
    Ok(Plan { traces, policies: args.policy.clone(), seeds: (args.first_seed..end).collect() })
}

fn parse_load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if (0.01..=100.0).contains(&load) => Ok(load),
        _ => Err("expected a number from 0.01 to 100, such as 1.3".to_owned()),
    }
}

/// Drawn on standard error, and only if that is a terminal.
fn progress_bar(runs: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {wide_msg:.dim}");
    ProgressBar::new(runs as u64).with_style(style.expect("the template is valid"))
}

fn write_report(report: &PackReport<'_>, file: &Path) -> io::Result<()> {
    report.write(&mut BufWriter::new(File::create(file)?))
}

fn print(
    format: Format,
    results: &Results<'_>,
    comparison: Option<Comparison<'_>>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match format {
        Format::Table => out.write_all(render_table(results, comparison).as_bytes()),
        Format::Json => write_json(&mut out, results),
        Format::Csv => write_csv(&mut out, results),
    }
    .and_then(|()| out.flush())
    .context("standard output")
}
