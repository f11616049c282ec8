//! Fragment amounts.

use proptest::prelude::*;

use super::{any_kind, any_mix, any_node, node, share};
use crate::cluster::FreeShape;
use crate::request::{GpuRequest, Kind};
use crate::score::first_whole;
use crate::stranding::fgd::{ClusterFragments, TypicalPods};
use crate::units::{DeviceMask, MilliCpu, ModelSet};

/// F of a node straight from its definition, times the total weight.
fn naive(typical: &TypicalPods, node: &FreeShape) -> u64 {
    let idle: u64 = node.levels().iter().map(|l| u64::from(l.get())).sum();
    let fragment = |kind: &Kind| {
        let milli = kind.gpu.milli();
        let large = node.levels().iter().filter(|&&level| level >= milli).count();
        let cpu = kind.cpu.0 == 0 || kind.cpu.0 <= node.cpu_free.0;
        let fits = cpu && kind.models.contains(node.model) && large >= kind.gpu.count().into();
        if kind.gpu.is_none() || !fits {
            return idle;
        }
        node.levels().iter().filter(|&&level| level < milli).map(|l| u64::from(l.get())).sum()
    };
    typical.mix().kinds().iter().map(|k| k.weight * fragment(&k.kind)).sum()
}

proptest! {
    #[test]
    fn amounts_follow_the_definition(counts in any_mix(), node in any_node()) {
        let typical = TypicalPods::from_counts(counts);
        prop_assert_eq!(typical.amount(&node), naive(&typical, &node));
    }

    #[test]
    fn the_best_device_is_taken(counts in any_mix(), node in any_node(), kind in any_kind()) {
        let typical = TypicalPods::from_counts(counts);
        let placed = typical.place(&node, &kind, |fall| fall);
        let fits = kind.models.contains(node.model)
            && (kind.cpu.0 == 0 || kind.cpu.0 <= node.cpu_free.0);
        let choices: Vec<DeviceMask> = match kind.gpu {
            GpuRequest::None => vec![DeviceMask::EMPTY],
            GpuRequest::Whole { count } => first_whole(&node, count).into_iter().collect(),
            GpuRequest::Share { milli } => (0..node.levels().len())
                .filter(|&device| node.free[device] >= milli)
                .map(DeviceMask::only)
                .collect(),
        };
        let fall = |&devices: &DeviceMask| {
            let after = node.after(kind.cpu, kind.gpu.milli(), devices);
            naive(&typical, &node).cast_signed() - naive(&typical, &after).cast_signed()
        };
        let best = choices.iter().map(|devices| (fall(devices), *devices)).reduce(|best, next| {
            if next.0 > best.0 { next } else { best }
        });
        prop_assert_eq!(placed, best.filter(|_| fits));
    }
}

#[test]
fn typical_pods_cover_95_percent() {
    let kind = |cpu| Kind { cpu: MilliCpu(cpu), gpu: share(500), models: ModelSet::ANY };
    let typical = TypicalPods::from_counts([(kind(1), 94), (kind(2), 1), (kind(3), 5)]);
    assert_eq!(typical.mix().kinds().len(), 2);
    assert_eq!(typical.total_weight(), 99);
}

#[test]
fn a_cluster_adds_up() {
    let kind = Kind { cpu: MilliCpu(1000), gpu: share(600), models: ModelSet::ANY };
    let typical = TypicalPods::from_counts([(kind, 3)]);
    let nodes = [node(2000, 0, &[500, 700, 0]), node(0, 0, &[1000])];
    let fragments = typical.cluster(&nodes);
    assert_eq!(fragments, ClusterFragments { idle_milli: 2200, fragment_milli: 1500 });
    assert_eq!(fragments.ratio_ppm(), 681_818);
    assert_eq!(TypicalPods::default().cluster(&nodes).fragment_milli, 0);
    assert_eq!(TypicalPods::default().cluster(&[]).ratio_ppm(), 0);
}
