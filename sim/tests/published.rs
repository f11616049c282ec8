//! Faithfulness to the published experiment. `MORTISE_DATA` names the directory with `openb/` and
//! `fgd-published/summary.csv`; without it the same machinery runs on a generated cluster against our own figures.

mod common;

use std::path::{Path, PathBuf};

use mortise_core::Strategy;
use mortise_sim::pack::{Mean, Mix, Plan, Policy, Setup, Ties, means, sweep};
use mortise_sim::published::{Comparison, Published};
use mortise_sim::sequence::{Arrivals, Sequence, target_milli};
use mortise_sim::trace::{read_nodes, read_pods};

const PUBLISHED: [Strategy; 6] = [
    Strategy::Fgd,
    Strategy::BestFit,
    Strategy::DotProduct,
    Strategy::GpuPacking,
    Strategy::GpuClustering,
    Strategy::Random,
];

/// One trace of each family, so that the test stays short.
const TRACES: [&str; 4] = ["default", "cpu250", "gpushare100", "gpuspec33"];

const SEEDS: u64 = 3;

fn data() -> Option<PathBuf> {
    std::env::var_os("MORTISE_DATA").map(PathBuf::from).filter(|path| !path.as_os_str().is_empty())
}

fn reproduce(setup: &Setup, traces: Vec<mortise_sim::trace::Trace>) -> Vec<Mean> {
    let plan =
        Plan { traces, policies: PUBLISHED.map(Policy).into(), seeds: (42..42 + SEEDS).collect() };
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    means(&sweep(setup, &plan, jobs, |_| {}).unwrap())
}

fn assert_agrees(means: &[Mean], published: &Published) {
    let comparison = Comparison { results: published, reproduces: true };
    let mut compared = 0;
    for mean in means {
        let differences = comparison.own(mean).expect("every trace and policy is published");
        for (load, difference) in [100, 130].into_iter().zip(differences) {
            assert!(
                difference.agrees(),
                "{} {} at {load} %: {:+.2} points from the published {:.2}, tolerance {:.2}",
                mean.trace,
                mean.policy,
                difference.points,
                difference.published,
                difference.tolerance
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 2 * means.len());
}

#[test]
fn published_policies_end_where_they_were_published_to() {
    match data() {
        Some(data) => against_published(&data),
        None => against_ourselves(),
    }
}

fn against_published(data: &Path) {
    let published = Published::read(&data.join("fgd-published/summary.csv")).unwrap();
    let nodes = read_nodes(&data.join("openb/openb_node_list_gpu_node.csv")).unwrap();
    let setup = Setup {
        nodes,
        arrivals: Arrivals::Published { load: 1.3 },
        ties: Ties::Rank,
        mix: Mix::Trace,
    };
    let file = |name: &str| data.join(format!("openb/openb_pod_list_{name}.csv"));
    let traces = TRACES.map(|name| read_pods(&file(name)).unwrap());
    let means = reproduce(&setup, traces.into());
    assert_eq!(means.len(), TRACES.len() * PUBLISHED.len());
    assert_agrees(&means, &published);
}

/// Writes our own means as if they had been published: they must agree, and must not once FGD's are moved by two points.
fn against_ourselves() {
    let setup = Setup {
        nodes: common::nodes(),
        arrivals: Arrivals::Published { load: 1.3 },
        ties: Ties::Rank,
        mix: Mix::Trace,
    };
    let means = reproduce(&setup, vec![common::trace("prefix_small", true)]);
    let summary = |shift: f64| {
        let mut text =
            "trace,policy,n_seeds,alloc_100_mean,alloc_100_sd,alloc_130_mean,alloc_130_sd\n"
                .to_owned();
        for mean in &means {
            let [at_100, at_130] = [mean.alloc_100, mean.alloc_130].map(Option::unwrap);
            let name = mean.policy.published_name().unwrap();
            let own_shift = if name == "06-FGD" { shift } else { 0.0 };
            text += &format!(
                "small,{name},10,{},0,{},0\n",
                at_100.mean - own_shift,
                at_130.mean - own_shift
            );
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Published::read(file.path()).unwrap()
    };
    assert_agrees(&means, &summary(0.0));
    let moved = summary(10.0);
    let comparison = Comparison { results: &moved, reproduces: true };
    let disagreeing = means.iter().filter(|mean| !comparison.own(mean).unwrap()[1].agrees());
    assert_eq!(disagreeing.map(|mean| mean.policy.name()).collect::<Vec<_>>(), ["fgd"]);
    let at_random = Comparison { results: &moved, reproduces: false };
    assert!(
        means
            .iter()
            .all(|mean| at_random.own(mean).is_none() && at_random.baseline(mean).is_some())
    );
}

/// Lengths of the published sequences at one seed (another generator's), for traces of each kind of tuning.
#[test]
fn sequences_are_as_long_as_published() {
    let Some(data) = data() else {
        let trace = common::trace("small", false);
        let capacity: u64 = common::nodes().iter().map(|node| 1000 * u64::from(node.gpus)).sum();
        let total: u64 = trace.pods.iter().map(mortise_sim::trace::PodSpec::gpu_milli_total).sum();
        let target = target_milli(capacity, 1.3);
        let length = Sequence::tuned(&trace, target, 42).unwrap().pods.len() as f64;
        let expected = 400.0 * target as f64 / total as f64;
        assert!(
            (length - expected).abs() < 0.25 * expected,
            "{length} pods, about {expected} expected"
        );
        return;
    };
    for (name, published) in
        [("default", 10_826), ("gpushare100", 16_744), ("multigpu40", 7_466), ("multigpu50", 6_329)]
    {
        let trace = read_pods(&data.join(format!("openb/openb_pod_list_{name}.csv"))).unwrap();
        let length = Sequence::tuned(&trace, 8_075_600, 42).unwrap().pods.len();
        let off = (length as f64 / f64::from(published) - 1.0).abs();
        assert!(off < 0.03, "{name}: {length} pods, published {published}");
    }
}
