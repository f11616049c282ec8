//! `mortise mig plan`: layouts for a demand, as a configuration of mig-parted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use mortise_core::mig::layouts::{Served, exact, plan, served, supply};
use mortise_core::mig::{Geometry, GpuModel, LayoutId};

use super::config::{Document, Severity};
use super::{parse_gpu, set_text};

/// Proposes a layout for each card, as a configuration of NVIDIA mig-parted on standard output, and says how many requests it serves. Most memory slices of the demand come first, then most requests.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("demand").required(true)))]
pub(crate) struct Args {
    /// The cards' model; an unknown name lists them all.
    #[arg(long, value_name = "MODEL", default_value = "h100-80gb", value_parser = parse_gpu)]
    gpu: &'static GpuModel,
    /// Nodes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: u32,
    /// Cards of each node.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=16))]
    cards: u32,
    /// Requests to serve at one time, such as 1g.10gb=20,3g.40gb=4.
    #[arg(long, value_name = "PROFILE=N", value_delimiter = ',', group = "demand")]
    requests: Vec<String>,
    /// Measured requests: a CSV file with the columns profile and requests; rows of one profile add up.
    #[arg(long, value_name = "FILE.csv", group = "demand")]
    requests_file: Option<PathBuf>,
    /// Shares of the profiles, such as 1g.10gb=4,7g.80gb=1, scaled to as many memory slices as the cards have.
    #[arg(long, value_name = "PROFILE=SHARE", value_delimiter = ',', group = "demand")]
    mix: Vec<String>,
    /// Today's configuration of mig-parted, to compare with.
    #[arg(long, value_name = "FILE", requires = "today_config")]
    today: Option<PathBuf>,
    /// The name of the configuration in it that the nodes have.
    #[arg(long, value_name = "NAME", requires = "today")]
    today_config: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let geometry = Geometry::new(args.gpu);
    let demand = demand(args)?;
    let today = match (&args.today, &args.today_config) {
        (Some(file), Some(name)) => Some(today(args, &geometry, file, name)?),
        _ => None,
    };
    let cards = (args.nodes * args.cards) as usize;
    let layouts = plan(&geometry, cards, &demand);
    let reached = served(&geometry, &supply(&geometry, layouts.iter().copied()), &demand);
    let mut text = summary(args, &demand, reached);
    if let Some(layouts) = today {
        let before = served(&geometry, &supply(&geometry, layouts), &demand);
        let _ = writeln!(text, "# today's: {}", served_text(before, &demand));
    }
    text.push_str(&configuration(args, &geometry, &layouts));
    io::stdout().lock().write_all(text.as_bytes()).context("standard output")
}

fn summary(args: &Args, demand: &[u64], reached: Served) -> String {
    let wide: Vec<u32> = demand.iter().map(|&n| u32::try_from(n).unwrap_or(u32::MAX)).collect();
    format!(
        "# nodes: {}, each of {} cards {}; asked for {}\n# this plan: {}\n",
        args.nodes,
        args.cards,
        args.gpu.name,
        set_text(args.gpu, &wide),
        served_text(reached, demand)
    )
}

fn served_text(served: Served, demand: &[u64]) -> String {
    let asked: u64 = demand.iter().sum();
    format!("{} of {asked} requests served, on {} memory slices", served.requests, served.slices)
}

/// One named configuration for each distinct set of cards of a node.
fn configuration(args: &Args, geometry: &Geometry, layouts: &[LayoutId]) -> String {
    let mut nodes: BTreeMap<Vec<LayoutId>, usize> = BTreeMap::new();
    for node in layouts.chunks(args.cards as usize) {
        *nodes.entry(node.to_vec()).or_insert(0) += 1;
    }
    let mut text = "version: v1\nmig-configs:\n".to_owned();
    for (number, (cards, count)) in nodes.iter().enumerate() {
        let plural = if *count == 1 { "node" } else { "nodes" };
        let _ = writeln!(text, "  # {count} {plural}\n  mortise-{}:", number + 1);
        let mut first = 0;
        for group in cards.chunk_by(|a, b| a == b) {
            let indices: Vec<String> =
                (first..first + group.len()).map(|card| card.to_string()).collect();
            first += group.len();
            let devices = if group.len() == cards.len() {
                "all".to_owned()
            } else {
                format!("[{}]", indices.join(", "))
            };
            let _ = writeln!(
                text,
                "    - devices: {devices}\n      mig-enabled: true\n      mig-devices:"
            );
            let counts = geometry.counts(group[0]);
            let held = args.gpu.profiles.iter().zip(counts).filter(|&(_, count)| count > 0);
            for (profile, count) in held {
                let _ = writeln!(text, "        \"{}\": {count}", profile.name);
            }
        }
    }
    text
}

/// Requests by profile.
fn demand(args: &Args) -> anyhow::Result<Vec<u64>> {
    let mut demand = vec![0u64; args.gpu.profiles.len()];
    if let Some(file) = &args.requests_file {
        read_requests(args, file, &mut demand)?;
    }
    for (option, pairs) in [("--requests", &args.requests), ("--mix", &args.mix)] {
        for pair in pairs {
            let Some((name, count)) = pair.split_once('=') else {
                bail!("{option}: found {pair:?}; expected PROFILE=NUMBER, such as 1g.10gb=20");
            };
            add(args, &mut demand, name, count).with_context(|| option.to_owned())?;
        }
    }
    if demand.iter().all(|&count| count == 0) {
        bail!("nothing is asked for; expected at least one request");
    }
    Ok(if args.mix.is_empty() { demand } else { scaled(args, &demand) })
}

fn add(args: &Args, demand: &mut [u64], name: &str, count: &str) -> anyhow::Result<()> {
    let Some(profile) = args.gpu.profile(name.trim()) else {
        let known: Vec<&str> = args.gpu.profiles.iter().map(|profile| profile.name).collect();
        bail!("{name:?} is no profile of {}; expected one of {}", args.gpu.name, known.join(", "));
    };
    match count.trim().parse::<u32>() {
        Ok(count) if count <= 1_000_000 => demand[profile.index()] += u64::from(count),
        _ => bail!("{name}: found {count:?}; expected a whole number from 0 to 1000000"),
    }
    Ok(())
}

fn read_requests(args: &Args, file: &Path, demand: &mut [u64]) -> anyhow::Result<()> {
    let mut reader = csv::Reader::from_path(file)
        .with_context(|| format!("{}: the file cannot be read", file.display()))?;
    let headers = reader.headers().with_context(|| format!("{}:1", file.display()))?.clone();
    let column = |name: &str| {
        headers.iter().position(|header| header.trim() == name).with_context(|| {
            format!("{}:1: column {name} is missing; expected profile and requests", file.display())
        })
    };
    let (profile, requests) = (column("profile")?, column("requests")?);
    for record in reader.records() {
        let record = record.with_context(|| file.display().to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |index: usize| record.get(index).unwrap_or("");
        add(args, demand, field(profile), field(requests))
            .with_context(|| format!("{}:{line}", file.display()))?;
    }
    Ok(())
}

/// Shares as requests for as many slices as the cards have; what rounding leaves goes to the largest remainders.
fn scaled(args: &Args, shares: &[u64]) -> Vec<u64> {
    let sizes: Vec<u64> =
        args.gpu.profiles.iter().map(|profile| u64::from(profile.memory_slices)).collect();
    let capacity = u64::from(args.nodes * args.cards) * u64::from(args.gpu.memory_slices);
    let whole: u64 = shares.iter().zip(&sizes).map(|(share, size)| share * size).sum();
    let mut demand: Vec<u64> = shares.iter().map(|share| share * capacity / whole).collect();
    let mut order: Vec<usize> = (0..shares.len()).filter(|&index| shares[index] > 0).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(shares[index] * capacity % whole));
    let used: u64 = demand.iter().zip(&sizes).map(|(count, size)| count * size).sum();
    let mut left = capacity - used;
    for index in order {
        if sizes[index] <= left {
            demand[index] += 1;
            left -= sizes[index];
        }
    }
    demand
}

/// Layouts that the nodes have under a configuration.
fn today(
    args: &Args,
    geometry: &Geometry,
    file: &Path,
    name: &str,
) -> anyhow::Result<Vec<LayoutId>> {
    let document = Document::read(file)?;
    if let Some(error) = document.findings.iter().find(|f| f.severity == Severity::Error) {
        bail!("{}:{}: {}", file.display(), error.line, error.text);
    }
    let Some(config) = document.configs.iter().find(|config| config.name == name) else {
        let known: Vec<&str> = document.configs.iter().map(|config| config.name.as_str()).collect();
        bail!(
            "--today-config: {} has no {name:?}; expected one of {}",
            file.display(),
            known.join(", ")
        );
    };
    let mut node = Vec::new();
    for card in 0..args.cards {
        let mut meant = config.entries.iter().filter(|entry| {
            let model = entry.filter.is_empty()
                || args.gpu.pci_ids.iter().any(|id| entry.filter.contains(id));
            model && entry.enabled && entry.names(card)
        });
        // mig-parted applies the entries in their order.
        let Some(entry) = meant.next_back() else { continue };
        let mut counts = vec![0; args.gpu.profiles.len()];
        for wanted in &entry.wanted {
            let Some(profile) = args.gpu.profile(&wanted.profile) else {
                bail!(
                    "{}:{}: {} is no profile of {}",
                    file.display(),
                    wanted.line,
                    wanted.profile,
                    args.gpu.name
                );
            };
            counts[profile.index()] += wanted.count;
        }
        let Some(layout) = exact(geometry, &counts) else {
            bail!(
                "{}:{}: {} cannot exist on one {}; `mortise mig check` says why",
                file.display(),
                entry.line,
                set_text(args.gpu, &counts),
                args.gpu.name
            );
        };
        node.push(layout);
    }
    Ok(std::iter::repeat_n(node, args.nodes as usize).flatten().collect())
}
