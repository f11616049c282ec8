//! Cases that users of other systems reported, and requests of several instances.

use mortise_core::NodeKey;
use mortise_core::mig::{Fleet, MigStrategy};

use crate::{arrive, fleet, h100, profile};

fn put(fleet: &mut Fleet, card: usize, name: &str, start: u8) {
    let placement = fleet.geometry().placement_at(profile(name), start).expect("a legal start");
    let card = fleet.cards().nth(card).expect("the card");
    fleet.place(card, placement).expect("free");
}

#[test]
fn a_hole_in_the_wrong_place_is_named_and_a_second_card_is_used() {
    let three = profile("3g.40gb");
    let mut one = fleet(1, MigStrategy::ExpectedStranding);
    let mut two = fleet(2, MigStrategy::ExpectedStranding);
    for start in [0, 1, 5] {
        put(&mut one, 0, "1g.10gb", start);
        put(&mut two, 0, "1g.10gb", start);
    }
    let reason = one.choose(three, 1, &mut Vec::new()).expect("valid").expect_err("no room");
    assert_eq!(reason.to_string(), "5 slices free, no legal start for 3g.40gb");
    let chosen = arrive(&mut two, three).expect("the second card is empty");
    assert_eq!(two.location(chosen.card), (NodeKey(7), 1));
}

#[test]
fn small_instances_gather_in_one_half() {
    let mut fleet = fleet(1, MigStrategy::ExpectedStranding);
    let mut starts = Vec::new();
    for _ in 0..3 {
        let chosen = arrive(&mut fleet, profile("1g.10gb")).expect("room");
        starts.push(fleet.geometry().placement(chosen.placement).start);
    }
    assert!(
        starts.iter().all(|&start| start < 4) || starts.iter().all(|&start| start >= 4),
        "{starts:?}"
    );
    assert!(arrive(&mut fleet, profile("3g.40gb")).is_some());
}

#[test]
fn seven_small_instances_take_one_card_of_four() {
    let mut fleet = fleet(4, MigStrategy::ExpectedStranding);
    for _ in 0..7 {
        arrive(&mut fleet, profile("1g.10gb")).expect("room");
    }
    assert_eq!(fleet.cards_used(), 1);
}

#[test]
fn instances_of_one_request_stay_on_one_node() {
    let nodes = [(NodeKey(1), 1), (NodeKey(2), 2)];
    for strategy in MigStrategy::ALL {
        let mut fleet = Fleet::new(h100(), &nodes, strategy, 3).expect("valid");
        let mut chosen = Vec::new();
        let whole = profile("7g.80gb");
        fleet.choose(whole, 2, &mut chosen).expect("valid").expect("node 2 has two cards");
        let at: Vec<NodeKey> = chosen.iter().map(|c| fleet.location(c.card).0).collect();
        assert_eq!(at, [NodeKey(2), NodeKey(2)], "{strategy}");
        let reason = fleet.choose(whole, 3, &mut chosen).expect("valid").expect_err("three cards");
        assert_eq!(reason.to_string(), "3 x 7g.80gb do not fit on one node: at most 2 do");
        assert!(chosen.is_empty());
    }
}

#[test]
fn only_one_instance_has_the_media_engines() {
    let mut fleet = fleet(1, MigStrategy::ExpectedStranding);
    assert!(arrive(&mut fleet, profile("1g.10gb+me")).is_some());
    assert!(arrive(&mut fleet, profile("1g.10gb+me")).is_none());
    assert!(arrive(&mut fleet, profile("1g.10gb")).is_some());
}

#[test]
fn wrong_calls_are_refused_by_name_and_change_nothing() {
    let mut fleet = fleet(1, MigStrategy::ExpectedStranding);
    put(&mut fleet, 0, "3g.40gb", 0);
    let before = fleet.layout(fleet.cards().next().expect("a card"));
    let card = fleet.cards().next().expect("a card");
    let again = fleet.geometry().placement_at(profile("1g.10gb"), 2).expect("a start");
    let error = fleet.place(card, again).expect_err("the slices are taken").to_string();
    assert!(error.contains("1g.10gb at slice 2"), "{error}");
    let error = fleet.release(card, again).expect_err("not there").to_string();
    assert!(error.contains("expected an instance that is on the card"), "{error}");
    let error = fleet.observe(profile("3g.40gb"), 0).expect_err("no instance").to_string();
    assert!(error.contains("expected 1 to"), "{error}");
    assert!(fleet.place(mortise_core::mig::CardId(9), again).is_err());
    assert_eq!(fleet.layout(card), before);
    let twice = [(NodeKey(1), 1), (NodeKey(1), 1)];
    assert!(Fleet::new(h100(), &twice, MigStrategy::Mfi, 0).is_err());
    assert!(Fleet::new(h100(), &[], MigStrategy::Mfi, 0).is_err());
}
