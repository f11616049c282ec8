//! The rules of the mix and the state that outlives a restart.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{Nodes, any_kind, any_node, node, pod, share};
use crate::error::ErrorCode;
use crate::limits::MAX_MIX_KINDS;
use crate::request::{GpuRequest, Kind};
use crate::stranding::params::{
    ARRIVAL_WEIGHT, DECAY_SHIFT, MAX_COUNTED_KINDS, MAX_REMEMBERED_UIDS, MIX_COVERAGE_PERMILLE,
};
use crate::stranding::{Mix, MixMode, Stranding};
use crate::units::{DeviceMask, MilliCpu, ModelSet};

fn kind(cpu: i64, gpu: GpuRequest) -> Kind {
    Kind { cpu: MilliCpu(cpu), gpu, models: ModelSet::ANY }
}

fn whole(count: u16) -> GpuRequest {
    GpuRequest::new(count, 1000).unwrap()
}

#[test]
fn the_commonest_kinds_come_first_and_equals_larger_first() {
    let counts = [
        (kind(1000, share(500)), 5),
        (kind(9000, whole(1)), 90),
        (kind(2000, share(100)), 5),
        (kind(1000, share(500)), 0),
        (kind(2000, share(900)), 5),
    ];
    let kinds = |permille| -> Vec<(Kind, u64)> {
        let mix = Mix::commonest(counts, permille);
        assert_eq!(mix.total(), mix.kinds().iter().map(|k| k.weight).sum::<u64>());
        mix.kinds().iter().map(|k| (k.kind, k.weight)).collect()
    };
    assert_eq!(kinds(0), []);
    assert_eq!(kinds(857), [counts[1]]);
    assert_eq!(kinds(858), [counts[1], counts[4]]);
    assert_eq!(kinds(1000), [counts[1], counts[4], counts[2], counts[0]]);
}

#[test]
fn equal_kinds_add_up_and_huge_counts_keep_their_proportions() {
    let (a, b) = (kind(1, whole(1)), kind(2, whole(2)));
    let mix = Mix::commonest([(a, u64::MAX), (a, u64::MAX), (b, u64::MAX / 2)], 1000);
    assert_eq!(mix.kinds()[0].kind, a);
    assert_eq!(mix.kinds()[0].weight, 2 * mix.kinds()[1].weight + 1);
    assert!(mix.total() <= 1 << 32);
}

#[test]
fn a_mix_is_bounded_by_its_commonest_kinds() {
    let counts = (0..2000).map(|i| (kind(i, share(10)), 1 + i as u64));
    let mix = Mix::commonest(counts, 1000);
    assert_eq!(mix.kinds().len(), MAX_MIX_KINDS);
    assert_eq!(mix.kinds()[0].kind.cpu.0, 1999);
    assert_eq!(mix.kinds()[MAX_MIX_KINDS - 1].kind.cpu.0, 2000 - MAX_MIX_KINDS as i64);
}

#[test]
fn kinds_beyond_the_coverage_are_left_out() {
    let counts = [(kind(1, whole(1)), 9990), (kind(2, whole(8)), 9), (kind(3, whole(4)), 1)];
    assert_eq!(Mix::commonest(counts, 999).kinds().len(), 1);
    let counts = [(kind(1, whole(1)), 9980), (kind(2, whole(8)), 19), (kind(3, whole(4)), 1)];
    assert_eq!(Mix::commonest(counts, 999).kinds().len(), 2);
    assert_eq!(Mix::commonest(counts, MIX_COVERAGE_PERMILLE).kinds().len(), 3);
}

#[test]
fn the_mix_is_relearned_at_powers_of_two_and_then_every_thousand() {
    let mut stranding = Stranding::new(MixMode::Learned, 0);
    let mut relearned = Vec::new();
    let mut epoch = stranding.mix_epoch();
    for arrival in 1..=3500u64 {
        stranding.observe(&pod(u128::from(arrival), kind(1000, whole(1))));
        if stranding.mix_epoch() != epoch {
            relearned.push(arrival);
            epoch = stranding.mix_epoch();
        }
    }
    assert_eq!(relearned, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 3000]);
    assert_eq!(stranding.stats().relearns, 13);
}

#[test]
fn a_new_large_kind_has_a_price_from_the_next_refresh_on() {
    let mut nodes = vec![node(8_000, 0, &[1000; 2]); 20];
    nodes.push(node(64_000, 0, &[1000; 8]));
    let cluster = Nodes::of(&nodes);
    let (small, large) = (kind(1000, whole(1)), kind(8000, whole(8)));
    let mut stranding = Stranding::new(MixMode::Learned, 0);
    let mut refresh = |uid, kind| {
        stranding.observe(&pod(uid, kind));
        stranding.refresh_if_due(&cluster);
        let known = stranding.mix().kinds().iter().position(|k| k.kind == large);
        known.map(|index| stranding.prices()[index])
    };
    for uid in 0..530 {
        refresh(uid, small);
    }
    assert_eq!(refresh(530, large), None);
    assert!((531..556).any(|uid| refresh(uid, small).is_some_and(|price| price > 0)));
}

#[test]
fn a_pod_counts_once_while_it_is_remembered() {
    let mut stranding = Stranding::new(MixMode::Learned, 0);
    let ask = kind(1000, whole(1));
    for _ in 0..3 {
        stranding.observe(&pod(7, ask));
    }
    assert_eq!(stranding.stats().arrivals, 1);
    let others = MAX_REMEMBERED_UIDS as u128;
    for uid in 0..others - 1 {
        stranding.observe(&pod(100 + uid, ask));
    }
    stranding.observe(&pod(7, ask));
    assert_eq!(stranding.stats().arrivals, MAX_REMEMBERED_UIDS as u64);
    stranding.observe(&pod(1, ask));
    stranding.observe(&pod(7, ask));
    assert_eq!(stranding.stats().arrivals, MAX_REMEMBERED_UIDS as u64 + 2);
}

#[test]
fn a_new_load_replaces_the_old_one() {
    let mut stranding = Stranding::new(MixMode::Learned, 0);
    let (old, new) = (kind(1000, whole(1)), kind(2000, share(300)));
    for uid in 0..20_000 {
        stranding.observe(&pod(uid, old));
    }
    let half_life = 22_000;
    for uid in 0..half_life {
        stranding.observe(&pod(1 << 64 | uid, new));
    }
    let weight =
        |kind| stranding.mix().kinds().iter().find(|k| k.kind == kind).map_or(0, |k| k.weight);
    // Without decay the new kind would stand at 22/42; with it the old one lost half of its weight.
    assert!(weight(new) > weight(old) * 2, "{} against {}", weight(new), weight(old));
    assert!(weight(old) > 0);
    let steady = (ARRIVAL_WEIGHT * 1000) << DECAY_SHIFT;
    assert!(stranding.mix().total() < steady, "decay bounds the total");
}

#[test]
fn counted_kinds_are_bounded_and_the_lightest_goes() {
    let mut stranding = Stranding::new(MixMode::Learned, 0);
    for uid in 0..2 {
        stranding.observe(&pod(uid, kind(1, whole(2))));
    }
    for uid in 0..MAX_COUNTED_KINDS as u128 + 50 {
        stranding.observe(&pod(10 + uid, kind(10 + uid as i64, whole(1))));
    }
    assert_eq!(stranding.arrivals.weights.len(), MAX_COUNTED_KINDS);
    assert!(stranding.arrivals.weights.contains_key(&kind(1, whole(2))));
}

#[test]
fn a_fixed_mix_stays() {
    let fixed = vec![(kind(4000, whole(1)), 3), (kind(1000, share(250)), 1)];
    let mut stranding = Stranding::new(MixMode::Fixed(fixed), 0);
    let before = stranding.mix().clone();
    for uid in 0..2000 {
        stranding.observe(&pod(uid, kind(1, whole(8))));
    }
    assert_eq!(*stranding.mix(), before);
    assert_eq!(before.kinds().len(), 2);
}

#[test]
fn before_anything_is_known_whole_cards_come_first() {
    let mut stranding = Stranding::new(MixMode::Learned, 0);
    let nodes = [node(8000, 0, &[500, 1000]), node(8000, 0, &[1000, 1000]), node(8000, 0, &[1000])];
    stranding.refresh_if_due(&Nodes::of(&nodes));
    let ask = kind(1000, whole(1));
    let costs: Vec<i64> = nodes.iter().map(|n| stranding.place(n, &ask).unwrap().cost).collect();
    assert!(costs[2] < costs[0] && costs[0] < costs[1], "{costs:?}");
    let split = stranding.place(&nodes[0], &kind(0, share(250))).unwrap();
    assert_eq!(
        split.devices,
        DeviceMask::only(0),
        "500 and 1000 are multiples of 250: the tighter one"
    );
    let exact = stranding.place(&node(0, 0, &[300, 700, 900]), &kind(0, share(350))).unwrap();
    assert_eq!(exact.devices, DeviceMask::only(1));
    assert_eq!(stranding.place(&nodes[0], &kind(9000, share(250))), None);
    assert_eq!(
        stranding.expected_stranded_milli(&nodes[0]),
        1500,
        "all idle GPU while nothing is known"
    );
}

fn trained(kinds: &[Kind], arrivals: u128, cluster: &Nodes) -> Stranding {
    let mut stranding = Stranding::new(MixMode::Learned, 1 << 16);
    for uid in 0..arrivals {
        let kind = kinds[(uid * uid % 7) as usize % kinds.len()];
        stranding.observe(&pod(uid, kind));
        stranding.refresh_if_due(cluster);
    }
    stranding
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn an_imported_state_decides_the_same(
        kinds in prop::collection::vec(any_kind(), 1..6),
        more in prop::collection::vec(any_kind(), 1..40),
        nodes in prop::collection::vec(any_node(), 1..5),
        arrivals in 0u128..300,
    ) {
        let cluster = Nodes::of(&nodes);
        let mut a = trained(&kinds, arrivals, &cluster);
        let bytes = a.export();
        let mut b = Stranding::new(MixMode::Learned, 0);
        b.observe(&pod(1 << 100, more[0]));
        b.import(&bytes, &|models| models).unwrap();
        prop_assert_eq!(b.export(), bytes);
        for (uid, &kind) in more.iter().enumerate() {
            for node in &nodes {
                prop_assert_eq!(a.place(node, &kind), b.place(node, &kind));
            }
            for stranding in [&mut a, &mut b] {
                stranding.observe(&pod(1000 + uid as u128, kind));
                stranding.refresh_if_due(&cluster);
            }
        }
        prop_assert_eq!(a.export(), b.export());
    }

    #[test]
    fn damaged_bytes_are_refused_and_change_nothing(
        kinds in prop::collection::vec(any_kind(), 1..6),
        arrivals in 0u128..100,
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let cluster = Nodes::of(&[node(64_000, 0, &[1000; 8])]);
        let bytes = trained(&kinds, arrivals, &cluster).export();
        let mut stranding = trained(&kinds, 3, &cluster);
        let before = stranding.export();
        let at = at.index(bytes.len());
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        for damaged in [&flipped[..], &bytes[..at], &[&bytes[..], &[0]].concat()[..]] {
            let error = stranding.import(damaged, &|models| models).unwrap_err();
            prop_assert_eq!(error.code(), ErrorCode::InvalidValue);
        }
        prop_assert_eq!(stranding.export(), before);
    }
}

#[test]
fn models_are_remapped_on_import() {
    let only = |bits| Kind { models: ModelSet(bits), ..kind(1000, whole(1)) };
    let cluster = Nodes::of(&[node(64_000, 0, &[1000; 8])]);
    let bytes = trained(&[only(0b01), only(0b10)], 40, &cluster).export();
    let mut stranding = Stranding::new(MixMode::Learned, 0);
    let swap = |models: ModelSet| ModelSet(models.0 >> 1 & 1 | (models.0 & 1) << 1);
    stranding.import(&bytes, &swap).unwrap();
    let weights = |stranding: &Stranding| -> HashSet<(u64, u64)> {
        stranding.mix().kinds().iter().map(|k| (k.kind.models.0, k.weight)).collect()
    };
    let mut same = Stranding::new(MixMode::Learned, 0);
    same.import(&bytes, &|models| models).unwrap();
    let swapped: HashSet<(u64, u64)> =
        weights(&same).into_iter().map(|(models, weight)| (3 - models, weight)).collect();
    assert_eq!(weights(&stranding), swapped);
}
