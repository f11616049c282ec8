//! Packing: curves against arrived load, bars per trace, a table.

use std::io::{self, Write};

use serde::Serialize;

use super::{View, write_page};
use crate::ceiling::Ceiling;
use crate::pack::{Mean, MeanSd, Mix, Setup, Ties};
use crate::published::Published;
use crate::sequence::Arrivals;

const VIEW: View = View {
    title: "Mortise: packing report",
    body: include_str!("pack.html"),
    script: include_str!("pack.js"),
};

/// What the page shows.
pub struct PackReport<'a> {
    /// The experiment.
    pub setup: &'a Setup,
    /// Means by trace, then policy.
    pub means: &'a [Mean],
    /// Ceilings of the same traces; may be empty.
    pub ceilings: &'a [Ceiling],
    /// Published results to draw beside them.
    pub published: Option<&'a Published>,
}

#[derive(Serialize)]
struct Page<'a> {
    nodes: usize,
    gpus: u64,
    arrivals: String,
    ties: &'static str,
    mix: &'static str,
    traces: Vec<TraceData<'a>>,
}

#[derive(Serialize)]
struct TraceData<'a> {
    trace: &'a str,
    ceiling: Option<f64>,
    accepted_until: Option<f64>,
    published_fgd: Option<[f64; 2]>,
    policies: Vec<PolicyData<'a>>,
}

#[derive(Serialize)]
struct PolicyData<'a> {
    policy: &'a str,
    seeds: usize,
    /// By % of arrived load.
    alloc: Vec<Option<f64>>,
    frag: Vec<Option<f64>>,
    alloc_100: Option<[f64; 2]>,
    alloc_130: Option<[f64; 2]>,
    frag_ratio_80: Option<f64>,
    accepted_8gpu: Option<f64>,
    accepted_constrained: Option<f64>,
    us_per_pod: f64,
}

impl PackReport<'_> {
    /// Writes the page.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_page(out, &VIEW, &self.page())
    }

    fn page(&self) -> Page<'_> {
        Page {
            nodes: self.setup.nodes.len(),
            gpus: self.setup.capacity_milli() / 1000,
            arrivals: match self.setup.arrivals {
                Arrivals::Published { load } => format!(
                    "in random order until {:.0} % of the GPU has been asked for",
                    100.0 * load
                ),
                Arrivals::File => "in the order of the file".to_owned(),
            },
            ties: match self.setup.ties {
                Ties::Random => "random for every decision",
                Ties::Rank => "one random order of nodes per seed, as published",
            },
            mix: match self.setup.mix {
                Mix::Learned => "learned from arrivals",
                Mix::Trace => "known in advance, as published",
            },
            traces: self
                .means
                .chunk_by(|a, b| a.trace == b.trace)
                .map(|means| self.trace(means))
                .collect(),
        }
    }

    fn trace<'a>(&self, means: &'a [Mean]) -> TraceData<'a> {
        let trace = means[0].trace.as_str();
        let own = || self.ceilings.iter().filter(|ceiling| ceiling.trace == trace);
        let fgd = self.published.and_then(|published| published.fgd(trace));
        TraceData {
            trace,
            ceiling: MeanSd::of(own().map(|ceiling| ceiling.alloc)).map(|over| over.mean),
            accepted_until: MeanSd::of(own().map(|ceiling| ceiling.accepted_until))
                .map(|over| over.mean),
            published_fgd: fgd.map(|row| [row.alloc_100.mean, row.alloc_130.mean]),
            policies: means.iter().map(PolicyData::of).collect(),
        }
    }
}

impl<'a> PolicyData<'a> {
    fn of(mean: &'a Mean) -> PolicyData<'a> {
        let short = |value: f64| (value * 1e5).round() / 1e5;
        let pair = |of: Option<MeanSd>| of.map(|of| [short(of.mean), short(of.sd)]);
        let columns = || mean.columns.iter();
        PolicyData {
            policy: mean.policy.name(),
            seeds: mean.seeds,
            alloc: columns().map(|column| column.map(|column| short(column.alloc))).collect(),
            frag: columns().map(|column| column.map(|column| short(column.frag_amount))).collect(),
            alloc_100: pair(mean.alloc_100),
            alloc_130: pair(mean.alloc_130),
            frag_ratio_80: mean.column(80).map(|column| short(column.frag_ratio)),
            accepted_8gpu: mean.eight_gpu.percent().map(short),
            accepted_constrained: mean.constrained.percent().map(short),
            us_per_pod: short(mean.us_per_pod),
        }
    }
}
