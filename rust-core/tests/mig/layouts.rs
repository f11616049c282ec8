//! Sets that can exist, and plans against the exact optimum.

use mortise_core::mig::layouts::{
    Impossible, Served, exact, largest_within, plan, served, supply, why_impossible,
};
use mortise_core::mig::{GPU_MODELS, Geometry, GpuModel, LayoutId};
use proptest::prelude::*;

fn counts(model: &GpuModel, set: &[(&str, u32)]) -> Vec<u32> {
    let mut counts = vec![0; model.profiles.len()];
    for &(name, count) in set {
        counts[model.profile(name).expect("known").index()] = count;
    }
    counts
}

#[test]
fn seven_wide_instances_cannot_exist_and_four_can() {
    let geometry = Geometry::new(crate::h100());
    let asked = counts(crate::h100(), &[("1g.20gb", 7)]);
    assert_eq!(exact(&geometry, &asked), None);
    assert_eq!(why_impossible(&geometry, &asked), Impossible::Memory { need: 14 });
    let largest = geometry.counts(largest_within(&geometry, &asked));
    assert_eq!(largest.iter().map(|&count| u32::from(count)).collect::<Vec<_>>(), {
        counts(crate::h100(), &[("1g.20gb", 4)])
    });
}

#[test]
fn the_broken_rule_is_named() {
    let geometry = Geometry::new(crate::h100());
    let why = |set: &[(&str, u32)]| why_impossible(&geometry, &counts(crate::h100(), set));
    assert_eq!(why(&[("4g.40gb", 2)]), Impossible::Compute { need: 8 });
    assert_eq!(why(&[("1g.10gb+me", 2)]), Impossible::Media);
    assert_eq!(why(&[("1g.10gb", 8)]), Impossible::Compute { need: 8 });
    assert_eq!(
        why(&[("3g.40gb", 1), ("1g.10gb", 4), ("7g.80gb", 1)]),
        Impossible::Memory { need: 16 }
    );
}

/// The most slices, then requests, that any layouts of so many cards serve.
fn optimum(
    geometry: &Geometry,
    cards: usize,
    demand: &[u64],
    chosen: &mut Vec<LayoutId>,
) -> Served {
    if chosen.len() == cards {
        return served(geometry, &supply(geometry, chosen.iter().copied()), demand);
    }
    let from = chosen.last().copied().unwrap_or(LayoutId::EMPTY);
    let mut best = Served::default();
    for layout in geometry.layouts().filter(|&layout| layout >= from) {
        chosen.push(layout);
        best = best.max(optimum(geometry, cards, demand, chosen));
        chosen.pop();
    }
    best
}

/// One layout per set of instances would be enough; all of a small model are affordable.
fn small() -> Geometry {
    Geometry::new(GpuModel::named("a30-24gb").expect("known"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_plan_for_few_cards_is_optimal(
        demand in prop::collection::vec(0u64..6, 5),
        cards in 1usize..=2,
    ) {
        let geometry = small();
        let layouts = plan(&geometry, cards, &demand);
        prop_assert_eq!(layouts.len(), cards);
        let reached = served(&geometry, &supply(&geometry, layouts), &demand);
        prop_assert_eq!(reached, optimum(&geometry, cards, &demand, &mut Vec::new()));
    }

    #[test]
    fn a_plan_for_one_card_of_any_model_is_optimal(
        demand in prop::collection::vec(0u64..6, 7),
        model in 0..GPU_MODELS.len(),
    ) {
        let geometry = Geometry::new(&GPU_MODELS[model]);
        let demand = &demand[..geometry.model().profiles.len()];
        let reached = served(&geometry, &supply(&geometry, plan(&geometry, 1, demand)), demand);
        prop_assert_eq!(reached, optimum(&geometry, 1, demand, &mut Vec::new()));
    }

    #[test]
    fn the_largest_part_is_legal_and_grows_no_further(
        counts in prop::collection::vec(0u32..9, 7),
    ) {
        let geometry = Geometry::new(crate::h100());
        let largest = largest_within(&geometry, &counts);
        let held = geometry.counts(largest);
        for (index, (&held, &asked)) in held.iter().zip(&counts).enumerate() {
            prop_assert!(u32::from(held) <= asked);
            let profile = mortise_core::mig::ProfileId(index as u8);
            let more = geometry.fitting(largest, profile).next().is_some();
            prop_assert!(u32::from(held) == asked || !more);
        }
        let all = counts.iter().zip(&held).all(|(&asked, &held)| asked == u32::from(held));
        prop_assert_eq!(exact(&geometry, &counts).is_some(), all);
    }
}
