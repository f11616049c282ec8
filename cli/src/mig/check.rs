//! `mortise mig check`: can the cards be partitioned as a configuration says?

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use mortise_core::mig::layouts::{Impossible, exact, largest_within, why_impossible};
use mortise_core::mig::{Certainty, GPU_MODELS, Geometry, GpuModel};

use super::config::{Config, Document, Entry, Finding, Severity};
use super::{parse_gpu, set_text};

/// Reads a configuration of NVIDIA mig-parted (the MIG manager's) and says which of its layouts cannot exist, why, and the largest set that can. Fails if one cannot.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration, YAML.
    file: PathBuf,
    /// The cards' model, for entries without a device-filter [default: every model that has the profiles named]; an unknown name lists them all.
    #[arg(long, value_name = "MODEL", value_parser = parse_gpu)]
    gpu: Option<&'static GpuModel>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let document = Document::read(&args.file)?;
    let geometries: Vec<Geometry> = GPU_MODELS.iter().map(Geometry::new).collect();
    let mut findings = document.findings;
    for config in &document.configs {
        findings.extend(check(config, args.gpu, &geometries));
    }
    findings.sort();
    let mut out = io::stdout().lock();
    let print = |out: &mut dyn Write| -> io::Result<()> {
        for Finding { line, severity, text } in &findings {
            writeln!(out, "{}:{line}: {severity}: {text}", args.file.display())?;
        }
        Ok(())
    };
    print(&mut out).context("standard output")?;
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        bail!("{}: {errors} of its statements cannot be applied", args.file.display());
    }
    writeln!(
        out,
        "{}: {} configurations can be applied",
        args.file.display(),
        document.configs.len()
    )
    .context("standard output")
}

fn check(config: &Config, gpu: Option<&GpuModel>, geometries: &[Geometry]) -> Vec<Finding> {
    let mut findings = named_twice(config);
    for entry in &config.entries {
        let mut say = |severity, text: String| {
            let text = format!("config {}: {text}", config.name);
            findings.push(Finding { line: entry.line, severity, text });
        };
        let unknown_ids = entry.filter.iter().filter(|&&id| GpuModel::with_pci_id(id).is_none());
        for id in unknown_ids {
            say(
                Severity::Note,
                format!("device-filter {id:#010X} is no card of the table; not judged for it"),
            );
        }
        if let Some(unjudged) = entry.wanted.iter().find(|wanted| is_unjudged(&wanted.profile, gpu))
        {
            let text = format!("no GPU of the table has {}; not judged", unjudged.profile);
            say(Severity::Note, text);
            continue;
        }
        let candidates = candidates(entry, gpu, geometries);
        let verdicts: Vec<(&str, Option<String>)> = candidates
            .iter()
            .map(|geometry| (geometry.model().name, verdict(geometry, entry)))
            .collect();
        if verdicts.is_empty() && entry.filter.is_empty() {
            let names: Vec<&str> =
                entry.wanted.iter().map(|wanted| wanted.profile.as_str()).collect();
            let text = match entry.wanted.iter().find(|wanted| !is_known(&wanted.profile)) {
                Some(odd) => {
                    format!("{:?} is no MIG profile; expected one such as 1g.10gb", odd.profile)
                }
                None => {
                    format!("no GPU has all of {}; name profiles of one model", names.join(", "))
                }
            };
            say(Severity::Error, text);
        }
        // Without a filter or --gpu the entry may be meant for any of the models: one that can hold it is enough.
        let lenient = gpu.is_none() && entry.filter.is_empty();
        let possible = verdicts.iter().any(|(_, problem)| problem.is_none());
        let severity = if lenient && possible { Severity::Note } else { Severity::Error };
        let mut said: Vec<(&String, Vec<&str>)> = Vec::new();
        for (model, problem) in &verdicts {
            let Some(problem) = problem else { continue };
            match said.iter_mut().find(|(text, _)| *text == problem) {
                Some((_, models)) => models.push(model),
                None => said.push((problem, vec![model])),
            }
        }
        for (problem, models) in said {
            say(severity, problem.replace("{models}", &models.join(" or ")));
        }
    }
    findings
}

fn is_known(name: &str) -> bool {
    GPU_MODELS.iter().any(|model| model.profile(name).is_some())
}

/// A profile that no GPU of the table has, though its name is well formed: a GPU or an attribute we know nothing of.
fn is_unjudged(name: &str, gpu: Option<&GpuModel>) -> bool {
    let plain = name.split(['+', '-']).next().unwrap_or(name);
    let mut parts = plain.split('.').rev();
    let number = |part: Option<&str>, unit: &str| {
        part.and_then(|part| part.strip_suffix(unit)).is_some_and(|n| n.parse::<u16>().is_ok())
    };
    let (memory, compute) = (number(parts.next(), "gb"), number(parts.next(), "g"));
    let rest = parts.next();
    let instances = rest.is_none() || number(rest, "c");
    !is_known(name) && gpu.is_none() && memory && compute && instances
}

/// The models an entry is judged on.
fn candidates<'a>(
    entry: &Entry,
    gpu: Option<&GpuModel>,
    geometries: &'a [Geometry],
) -> Vec<&'a Geometry> {
    let filtered = |model: &GpuModel| model.pci_ids.iter().any(|id| entry.filter.contains(id));
    let has_all = |model: &GpuModel| {
        entry.wanted.iter().all(|wanted| model.profile(&wanted.profile).is_some())
    };
    let meant = |geometry: &&Geometry| {
        let model = geometry.model();
        if !entry.filter.is_empty() {
            return filtered(model) && gpu.is_none_or(|gpu| gpu.name == model.name);
        }
        gpu.map_or_else(|| has_all(model), |gpu| gpu.name == model.name)
    };
    geometries.iter().filter(meant).collect()
}

/// A sentence if the cards of this model cannot be partitioned so; `{models}` stands for the model's name.
fn verdict(geometry: &Geometry, entry: &Entry) -> Option<String> {
    let model = geometry.model();
    let mut counts = vec![0; model.profiles.len()];
    for wanted in &entry.wanted {
        let Some(profile) = model.profile(&wanted.profile) else {
            let known: Vec<&str> = model.profiles.iter().map(|profile| profile.name).collect();
            let name = &wanted.profile;
            return Some(format!(
                "{name} is no profile of {{models}}; it has {}",
                known.join(", ")
            ));
        };
        counts[profile.index()] += wanted.count;
    }
    if exact(geometry, &counts).is_some() {
        return None;
    }
    let reason = match why_impossible(geometry, &counts) {
        Impossible::Memory { need } => {
            format!("they need {need} memory slices, a card has {}", model.memory_slices)
        }
        Impossible::Compute { need } => {
            format!("they need {need} compute slices, a card has {}", model.compute_slices)
        }
        Impossible::Instances { profile } => {
            let profile = &model.profiles[profile];
            format!("a card holds at most {} of {}", profile.max_instances, profile.name)
        }
        Impossible::Media => {
            "only one instance of a card can have the media engines (+me)".to_owned()
        }
        Impossible::Starts => "no choice of legal starts keeps them apart".to_owned(),
    };
    let part = geometry.counts(largest_within(geometry, &counts));
    let largest: Vec<u32> = part.into_iter().map(u32::from).collect();
    let inferred = match model.certainty {
        Certainty::Confirmed => "",
        Certainty::Inferred => " (this model's starts are inferred, not read from hardware)",
    };
    Some(format!(
        "{} cannot exist on one {{models}}: {reason}; the largest set of them that can is {}{inferred}",
        set_text(model, &counts),
        set_text(model, &largest),
    ))
}

/// Entries for cards of any model that name a card again.
fn named_twice(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, entry) in config.entries.iter().enumerate() {
        let overlaps = |other: &&Entry| {
            let filters = other.filter.is_empty()
                || entry.filter.is_empty()
                || other.filter.iter().any(|id| entry.filter.contains(id));
            let devices = match (&entry.devices, &other.devices) {
                (Some(a), Some(b)) => a.iter().any(|card| b.contains(card)),
                _ => true,
            };
            filters && devices
        };
        if let Some(other) = config.entries[..index].iter().find(overlaps) {
            let text = format!(
                "config {}: the entry is about cards that the entry of line {} already names; name each card once",
                config.name, other.line
            );
            findings.push(Finding { line: entry.line, severity: Severity::Error, text });
        }
    }
    findings
}
