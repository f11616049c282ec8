//! MIG in the kernel: against the fleet, whose decisions are those of the naive twin, and against lists of intervals.

use std::collections::BTreeMap;

use mortise_core::cluster::{MigCard, MigCards};
use mortise_core::limits::MAX_GPUS_PER_NODE;
use mortise_core::mig::{
    Chosen, Fleet, GPU_MODELS, Geometry, MigHeld, MigInstance, MigInstances, MigKind, MigRequest,
    MigStrategy, PlacementId, ProfileId, ProfileName,
};
use mortise_core::{
    Candidates, Config, Decision, DeviceMask, Generation, GpuRequest, Kernel, MemoryBytes,
    MilliCpu, MilliGpu, ModelId, ModelSet, NodeDelta, NodeKey, NodeRef, NodeScore, PodRecord,
    PodRequest, PodUid, Priority, Reason, SyncBatch, Tier,
};
use proptest::prelude::*;

use crate::h100;

const ALL: u32 = (1 << 25) - 1;
const H100: usize = 3;

fn name(profile: &str) -> ProfileName {
    ProfileName::named(profile).expect("the table has it")
}

/// Nodes of some cards, and the pods on them.
struct World {
    kernel: Kernel,
    nodes: BTreeMap<u64, (NodeDelta, Vec<PodRecord>)>,
    uids: u128,
}

fn mig_node(key: u64, cards: &[MigCard]) -> NodeDelta {
    let mut mig: MigCards = [MigCard::NONE; MAX_GPUS_PER_NODE];
    mig[..cards.len()].copy_from_slice(cards);
    NodeDelta {
        node: NodeRef::NIL,
        key: NodeKey(key),
        generation: Generation(0),
        cpu_free: MilliCpu(100_000),
        memory_free: MemoryBytes(1 << 40),
        cpu_allocatable: MilliCpu(100_000),
        memory_allocatable: MemoryBytes(1 << 40),
        model: ModelId::NONE,
        gpu_count: cards.len() as u8,
        capacity: [MilliGpu::ZERO; MAX_GPUS_PER_NODE],
        shares_offered: true,
        mig,
        first_pod: 0,
        pod_count: 0,
    }
}

fn pod(uid: u128, mig: MigRequest) -> PodRequest {
    PodRequest {
        uid: PodUid(uid),
        cpu: MilliCpu(0),
        memory: MemoryBytes(0),
        gpu: GpuRequest::None,
        models: ModelSet::ANY,
        priority: Priority(0),
        tier: Tier::Batch,
        mig,
    }
}

impl World {
    fn new(strategy: MigStrategy, seed: u64, nodes: &[NodeDelta]) -> World {
        let config = Config { mig_strategy: strategy, seed, ..Config::default() };
        let kernel = Kernel::new(config).expect("valid");
        let nodes = nodes.iter().map(|node| (node.key.0, (*node, Vec::new()))).collect();
        let mut world = World { kernel, nodes, uids: 0 };
        let keys: Vec<u64> = world.nodes.keys().copied().collect();
        keys.into_iter().for_each(|key| world.send(key, None));
        world
    }

    fn send(&mut self, key: u64, arrival: Option<PodRequest>) {
        let (mut delta, pods) = self.nodes[&key].clone();
        delta.pod_count = pods.len() as u32;
        let batch = SyncBatch { upserts: &[delta], pods: &pods, arrival, ..SyncBatch::default() };
        self.kernel.sync(&batch, &mut [NodeRef::NIL]).expect("valid");
        assert_eq!(self.kernel.cluster().violations(), Vec::<String>::new());
    }

    fn ask(&mut self, mig: MigRequest) -> (PodRequest, Decision) {
        self.uids += 1;
        let pod = pod(self.uids, mig);
        let arrival = SyncBatch { arrival: Some(pod), ..SyncBatch::default() };
        self.kernel.sync(&arrival, &mut []).expect("valid");
        let decision = self.kernel.decide(&pod, Candidates::All, 0, None).expect("valid");
        (pod, decision)
    }

    fn hold(&mut self, key: u64, uid: PodUid, mig: MigHeld) {
        let record = PodRecord { mig, ..PodRecord::new(uid, GpuRequest::None, DeviceMask::EMPTY) };
        self.nodes.get_mut(&key).expect("a node").1.push(record);
        self.send(key, None);
    }

    fn place(&mut self, mig: MigRequest) -> Option<(u64, Vec<MigInstance>)> {
        let (pod, decision) = self.ask(mig);
        let (node, _) = decision.best?;
        let key = self.kernel.cluster().key(node.index as usize).0;
        let known = decision.mig.sorted();
        self.hold(key, pod.uid, MigHeld { known, unknown: MigRequest::NONE });
        Some((key, decision.mig.as_slice().to_vec()))
    }

    fn release(&mut self, key: u64, instances: &[MigInstance]) {
        let pods = &mut self.nodes.get_mut(&key).expect("a node").1;
        pods.retain(|pod| pod.mig.known.as_slice() != instances);
        self.send(key, None);
    }

    fn reason(&self, mig: MigRequest) -> (Reason, i64, i64) {
        let none = mortise_core::NodeReason {
            node: NodeRef::NIL,
            unfit: mortise_core::Unfit {
                reason: Reason::NoNode,
                need: 0,
                have: 0,
                largest_free: 0,
            },
        };
        let mut out = [none];
        assert_eq!(self.kernel.reasons(&pod(u128::MAX, mig), &mut out), 1);
        (out[0].unfit.reason, out[0].unfit.need, out[0].unfit.have)
    }
}

fn one(profile: &str) -> MigRequest {
    MigRequest::of(name(profile), 1).expect("valid")
}

fn h100_card(offered: u32) -> MigCard {
    MigCard::new(H100, offered).expect("valid")
}

/// The places of these profiles and starts.
fn layout(places: &[(&str, u8)]) -> u32 {
    let geometry = Geometry::new(h100());
    let bit = |&(profile, start): &(&str, u8)| {
        let profile = h100().profile(profile).expect("a profile");
        1 << geometry.placement_at(profile, start).expect("a legal start").0
    };
    places.iter().map(bit).fold(0, |all, bit: u32| all | bit)
}

fn instance(device: u8, profile: &str, start: u8) -> MigInstance {
    let placement = layout(&[(profile, start)]).trailing_zeros() as u8;
    MigInstance { device, placement }
}

fn known(instances: &[MigInstance]) -> MigHeld {
    let mut known = MigInstances::NONE;
    assert!(instances.iter().all(|&instance| known.push(instance)));
    MigHeld { known: known.sorted(), unknown: MigRequest::NONE }
}

#[test]
fn the_table_has_the_h100_where_the_tests_think() {
    assert_eq!(GPU_MODELS[H100].name, "h100-80gb");
    assert_eq!(Geometry::new(h100()).placements().len(), ALL.count_ones() as usize);
}

#[test]
fn a_hole_in_the_wrong_place_has_a_reason_and_a_second_card_is_used() {
    let used = [0, 1, 5].map(|start| instance(0, "1g.10gb", start));
    let mut world = World::new(MigStrategy::default(), 1, &[mig_node(1, &[h100_card(ALL)])]);
    world.hold(1, PodUid(99), known(&used));
    assert_eq!(world.place(one("3g.40gb")), None);
    assert_eq!(world.reason(one("3g.40gb")), (Reason::NoLegalMigStart, 4, 5));
    assert_eq!(world.reason(one("7g.80gb")), (Reason::InsufficientMigSlices, 8, 5));
    assert_eq!(world.reason(one("3g.20gb")), (Reason::NoMigProfile, 1, 0));
    let many = MigRequest::of(name("1g.10gb"), 6).expect("valid");
    assert_eq!(world.reason(many), (Reason::InsufficientMigInstances, 6, 4));

    let node = mig_node(1, &[h100_card(ALL), h100_card(ALL)]);
    let mut world = World::new(MigStrategy::default(), 1, &[node]);
    world.hold(1, PodUid(99), known(&used));
    let (_, chosen) = world.place(one("3g.40gb")).expect("the second card is empty");
    assert_eq!(chosen[0].device, 1);
}

#[test]
fn small_instances_leave_room_for_large_ones() {
    let mut world = World::new(MigStrategy::default(), 1, &[mig_node(1, &[h100_card(ALL)])]);
    for _ in 0..3 {
        world.place(one("1g.10gb")).expect("room");
    }
    world.place(one("3g.40gb")).expect("the other half is free");

    let mut world = World::new(MigStrategy::default(), 1, &[mig_node(1, &[h100_card(ALL); 4])]);
    let devices: Vec<u8> =
        (0..7).map(|_| world.place(one("1g.10gb")).expect("room").1[0].device).collect();
    assert!(devices.iter().all(|&device| device == devices[0]), "one card of four: {devices:?}");
}

/// Where the instances exist already, nothing else is handed out, and a card with fewer large places is used up first.
#[test]
fn instances_that_exist_are_all_there_is() {
    let split = layout(&[("3g.40gb", 0), ("1g.10gb", 4), ("1g.10gb", 5), ("1g.10gb", 6)]);
    let node = mig_node(1, &[h100_card(split)]);
    let mut world = World::new(MigStrategy::default(), 1, &[node]);
    for _ in 0..3 {
        let (_, chosen) = world.place(one("1g.10gb")).expect("an instance");
        assert_eq!(split >> chosen[0].placement & 1, 1);
    }
    assert_eq!(world.place(one("1g.10gb")), None);
    assert_eq!(world.reason(one("1g.10gb")), (Reason::NoLegalMigStart, 1, 5));
    world.place(one("3g.40gb")).expect("an instance");
    assert_eq!(world.reason(one("3g.40gb")), (Reason::InsufficientMigSlices, 4, 1));
    assert_eq!(world.reason(one("2g.20gb")), (Reason::NoMigProfile, 1, 0));
}

#[test]
fn several_profiles_of_one_pod_go_to_one_node() {
    let nodes = [mig_node(1, &[h100_card(ALL)]), mig_node(2, &[h100_card(ALL)])];
    let mut world = World::new(MigStrategy::default(), 1, &nodes);
    let kinds = [("1g.10gb", 2), ("3g.40gb", 1)]
        .map(|(profile, count)| MigKind { profile: name(profile), count });
    let request = MigRequest::new(&kinds).expect("valid");
    let (first, chosen) = world.place(request).expect("room");
    assert_eq!(chosen.len(), 3);
    let (second, _) = world.place(request).expect("room on the other node");
    assert_ne!(first, second);
    let both = MigRequest::new(&[
        MigKind { profile: name("4g.40gb"), count: 1 },
        MigKind { profile: name("7g.80gb"), count: 1 },
    ]);
    assert_eq!(world.place(both.expect("valid")), None);
}

/// A pod nominated for an instance keeps it from others of its priority, not from itself.
#[test]
fn reservations_hold_instances() {
    let card = h100_card(layout(&[("7g.80gb", 0)]));
    let mut world = World::new(MigStrategy::default(), 1, &[mig_node(1, &[card])]);
    let record = PodRecord {
        reservation: true,
        mig: known(&[instance(0, "7g.80gb", 0)]),
        ..PodRecord::new(PodUid(7), GpuRequest::None, DeviceMask::EMPTY)
    };
    world.nodes.get_mut(&1).expect("a node").1.push(record);
    world.send(1, None);
    assert_eq!(world.place(one("7g.80gb")), None);
    let own = pod(7, one("7g.80gb"));
    let decision = world.kernel.decide(&own, Candidates::All, 0, None).expect("valid");
    assert_eq!(decision.mig.as_slice(), [instance(0, "7g.80gb", 0)]);
    let above = PodRequest { priority: Priority(1), ..pod(8, one("7g.80gb")) };
    assert!(world.kernel.decide(&above, Candidates::All, 0, None).expect("valid").best.is_some());
}

#[test]
fn the_learned_mix_of_profiles_is_exported_with_the_rest() {
    let nodes = [mig_node(1, &[h100_card(ALL); 3]), mig_node(2, &[h100_card(ALL); 2])];
    let mut world = World::new(MigStrategy::default(), 1, &nodes);
    for profile in ["1g.10gb", "1g.10gb", "2g.20gb", "1g.20gb", "1g.10gb"] {
        world.place(one(profile)).expect("room");
    }
    let mut other = Kernel::new(Config { seed: 1, ..Config::default() }).expect("valid");
    other.import_state(&world.kernel.export_state().expect("memory")).expect("own bytes");
    other.import_learned(&world.kernel.export_learned()).expect("own bytes");
    assert_eq!(other.export_learned(), world.kernel.export_learned());
    assert_eq!(other.digest(), world.kernel.digest());
    for profile in h100().profiles {
        let asked = pod(1000, one(profile.name));
        let expected = world.kernel.decide(&asked, Candidates::All, 0, None).expect("valid");
        let decision = other.decide(&asked, Candidates::All, 0, None).expect("valid");
        let key = |kernel: &Kernel, best: Option<(NodeRef, DeviceMask)>| {
            best.map(|(node, _)| kernel.cluster().key(node.index as usize))
        };
        assert_eq!(key(&other, decision.best), key(&world.kernel, expected.best));
        assert_eq!((decision.mig, decision.score), (expected.mig, expected.score));
    }
    let mut learned = Kernel::new(Config::default()).expect("valid");
    learned.import_state(&world.kernel.export_state().expect("memory")).expect("own bytes");
    learned.learn_from_pods();
    let counted = |kernel: &Kernel| kernel.fragmentation().mig_slices;
    assert_eq!(counted(&learned), counted(&world.kernel));
    assert_eq!(counted(&learned).0, 40);
}

/// Free by intervals: whether a place of a node is free, from the pods alone.
fn free_by_hand(node: &NodeDelta, pods: &[PodRecord]) -> Vec<MigInstance> {
    let geometry = Geometry::new(h100());
    let profiles = h100().profiles;
    let size = |place: u8| {
        let at = geometry.placement(PlacementId(place));
        (at.start, at.start + profiles[at.profile.index()].memory_slices)
    };
    let media = |place: u8| profiles[geometry.placement(PlacementId(place)).profile.index()].media;
    let apart = |a: u8, b: u8| {
        let ((a0, a1), (b0, b1)) = (size(a), size(b));
        (a1 <= b0 || b1 <= a0) && !(media(a) && media(b))
    };
    let mut free = Vec::new();
    for device in 0..node.gpu_count {
        let held = pods.iter().flat_map(|pod| pod.mig.known.as_slice());
        let held: Vec<u8> =
            held.filter(|held| held.device == device).map(|held| held.placement).collect();
        for place in 0..geometry.placements().len() as u8 {
            let offered = node.mig[usize::from(device)].offered() >> place & 1 == 1;
            if offered && held.iter().all(|&other| apart(place, other)) {
                free.push(MigInstance { device, placement: place });
            }
        }
    }
    free
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Arrivals and departures: the kernel decides as the fleet does, with the same strategies.
    #[test]
    fn decisions_are_those_of_the_fleet(
        steps in prop::collection::vec((0u8..9, 1u8..3, any::<prop::sample::Index>()), 1..40),
        cards in prop::collection::vec(1u8..4, 1..5),
        seed in any::<u64>(),
        strategy in prop::sample::select(MigStrategy::ALL.to_vec()),
    ) {
        let keys: Vec<(NodeKey, u8)> =
            cards.iter().enumerate().map(|(key, &cards)| (NodeKey(key as u64 + 1), cards)).collect();
        let nodes: Vec<NodeDelta> = keys.iter()
            .map(|&(key, cards)| mig_node(key.0, &vec![h100_card(ALL); usize::from(cards)]))
            .collect();
        let mut fleet = Fleet::new(h100(), &keys, strategy, seed).expect("valid");
        let mut world = World::new(strategy, seed, &nodes);
        let mut running: Vec<(u64, Vec<MigInstance>, Vec<Chosen>)> = Vec::new();
        for (what, count, which) in steps {
            if what >= 7 {
                if running.is_empty() { continue; }
                let (key, instances, chosen) = running.swap_remove(which.index(running.len()));
                world.release(key, known(&instances).known.as_slice());
                for gone in chosen {
                    fleet.release(gone.card, gone.placement).expect("it runs");
                }
                continue;
            }
            let profile = ProfileId(what);
            let request = MigRequest::of(ProfileName::of(h100(), profile), count).expect("valid");
            let mut chosen = Vec::new();
            fleet.observe(profile, count).expect("valid");
            let expected = fleet.choose(profile, count, &mut chosen).expect("valid");
            let placed = world.place(request);
            prop_assert_eq!(placed.is_some(), expected.is_ok());
            let Some((key, instances)) = placed else { continue };
            let there: Vec<(u64, MigInstance)> = chosen.iter().map(|chosen| {
                let (node, index) = fleet.location(chosen.card);
                (node.0, MigInstance { device: index, placement: chosen.placement.0 })
            }).collect();
            let here: Vec<(u64, MigInstance)> = instances.iter().map(|&at| (key, at)).collect();
            prop_assert_eq!(here, there);
            for chosen in &chosen {
                fleet.place(chosen.card, chosen.placement).expect("what was chosen fits");
            }
            running.push((key, instances, chosen));
        }
    }

    /// With whatever instances exist: what is chosen is free, nothing that is free is refused, scores agree with the choice,
    /// and a cluster built from nothing is the same bit for bit.
    #[test]
    fn what_is_chosen_is_free_and_what_is_free_is_found(
        offered in prop::collection::vec(prop::collection::vec(0u32..=ALL, 1..3), 1..4),
        steps in prop::collection::vec((0u8..9, any::<prop::sample::Index>()), 1..40),
        strategy in prop::sample::select(MigStrategy::ALL.to_vec()),
    ) {
        let nodes: Vec<NodeDelta> = offered.iter().enumerate().map(|(key, cards)| {
            mig_node(key as u64 + 1, &cards.iter().map(|&card| h100_card(card)).collect::<Vec<_>>())
        }).collect();
        let mut world = World::new(strategy, 5, &nodes);
        let mut running: Vec<(u64, Vec<MigInstance>)> = Vec::new();
        let geometry = Geometry::new(h100());
        for (what, which) in steps {
            if what >= 7 {
                if running.is_empty() { continue; }
                let (key, instances) = running.swap_remove(which.index(running.len()));
                world.release(key, &instances);
                continue;
            }
            let profile = ProfileId(what);
            let free: Vec<(u64, MigInstance)> = world.nodes.iter().flat_map(|(&key, (node, pods))| {
                free_by_hand(node, pods).into_iter().map(move |at| (key, at))
            }).filter(|(_, at)| geometry.placement(PlacementId(at.placement)).profile == profile).collect();
            let request = MigRequest::of(ProfileName::of(h100(), profile), 1).expect("valid");
            let (asked, decision) = world.ask(request);
            let mut scores = vec![
                NodeScore { score: 0, devices: DeviceMask::EMPTY, reason: 0 }; world.nodes.len()
            ];
            let scored = world.kernel
                .decide(&asked, Candidates::All, 0, Some(&mut scores)).expect("valid");
            prop_assert_eq!(scored, decision);
            let best = scores.iter().map(|score| score.score).max();
            prop_assert_eq!(best, Some(decision.score));
            let fitting = scores.iter().filter(|score| score.reason == 0).count();
            prop_assert_eq!(fitting, decision.feasible as usize);
            let Some((node, _)) = decision.best else {
                prop_assert_eq!(free, vec![]);
                continue;
            };
            let key = world.kernel.cluster().key(node.index as usize).0;
            let instances = decision.mig.as_slice().to_vec();
            prop_assert!(free.contains(&(key, instances[0])));
            world.hold(key, asked.uid, known(&instances));
            running.push((key, instances));
        }
        let mut fresh = Kernel::new(Config::default()).expect("valid");
        let (mut upserts, mut pods) = (Vec::new(), Vec::new());
        for (node, held) in world.nodes.values().rev() {
            let (first_pod, pod_count) = (pods.len() as u32, held.len() as u32);
            upserts.push(NodeDelta { first_pod, pod_count, ..*node });
            pods.extend_from_slice(held);
        }
        let batch = SyncBatch { full: true, upserts: &upserts, pods: &pods, ..SyncBatch::default() };
        fresh.sync(&batch, &mut vec![NodeRef::NIL; upserts.len()]).expect("valid");
        prop_assert_eq!(fresh.export_state().expect("memory"), world.kernel.export_state().expect("memory"));
        prop_assert_eq!(fresh.cluster().mig_slices(), world.kernel.cluster().mig_slices());
    }

    /// Instances of which only the profile is known take places by the rule: the last of the last card that has one.
    #[test]
    fn unknown_instances_take_the_last_place(
        cards in prop::collection::vec(0u32..=ALL, 1..3),
        profiles in prop::collection::vec((0u8..7, 1u8..3), 1..5),
    ) {
        let cards: Vec<MigCard> = cards.iter().map(|&offered| h100_card(offered)).collect();
        let node = mig_node(1, &cards);
        let mut world = World::new(MigStrategy::default(), 1, &[node]);
        let geometry = Geometry::new(h100());
        let (mut by_hand, mut over): (Vec<PodRecord>, u16) = (Vec::new(), 0);
        for (uid, &(profile, count)) in profiles.iter().enumerate() {
            let unknown =
                MigRequest::of(ProfileName::of(h100(), ProfileId(profile)), count).expect("few");
            world.hold(1, PodUid(uid as u128), MigHeld { known: MigInstances::NONE, unknown });
            for _ in 0..count {
                let free = free_by_hand(&node, &by_hand);
                let last = free.into_iter().rfind(|at| {
                    geometry.placement(PlacementId(at.placement)).profile == ProfileId(profile)
                });
                let Some(last) = last else { over += 1; continue };
                let mig = known(&[last]);
                let record = PodRecord::new(PodUid(0), GpuRequest::None, DeviceMask::EMPTY);
                by_hand.push(PodRecord { mig, ..record });
            }
        }
        let mig = *world.kernel.cluster().mig(0).expect("it has MIG cards");
        prop_assert_eq!(mig.overcommitted, over);
        for device in 0..cards.len() {
            let mut there: Vec<u8> = geometry.instances(mig.layouts[device]).map(|id| id.0).collect();
            let mut here: Vec<u8> = by_hand.iter().flat_map(|pod| pod.mig.known.as_slice())
                .filter(|at| usize::from(at.device) == device).map(|at| at.placement).collect();
            there.sort_unstable();
            here.sort_unstable();
            prop_assert_eq!(here, there);
        }
    }
}

#[test]
fn wrong_input_is_named_and_changes_nothing() {
    let mut world = World::new(MigStrategy::default(), 1, &[mig_node(1, &[h100_card(ALL)])]);
    let digest = world.kernel.digest();
    let mut try_node = |delta: NodeDelta, pods: &[PodRecord], says: &str| {
        let delta = NodeDelta { pod_count: pods.len() as u32, ..delta };
        let batch = SyncBatch { upserts: &[delta], pods, ..SyncBatch::default() };
        let error = world.kernel.sync(&batch, &mut [NodeRef::NIL]).expect_err("wrong");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(world.kernel.digest(), digest);
    };
    let mut node = mig_node(1, &[h100_card(ALL)]);
    node.capacity[0] = MilliGpu::CARD;
    try_node(node, &[], "mig[0]");
    let mut node = mig_node(1, &[h100_card(ALL)]);
    node.mig[3] = h100_card(1);
    try_node(node, &[], "mig[3]");
    let record = |at| PodRecord {
        mig: known(&[at]),
        ..PodRecord::new(PodUid(1), GpuRequest::None, DeviceMask::EMPTY)
    };
    let node = mig_node(1, &[h100_card(ALL)]);
    try_node(node, &[record(MigInstance { device: 1, placement: 0 })], "device 1");
    try_node(node, &[record(MigInstance { device: 0, placement: 25 })], "25 places");
    assert!(MigCard::new(H100, 1 << 25).is_err() && MigCard::new(99, 0).is_err());
    assert!(MigRequest::of(ProfileName(250), 1).is_err());
    assert!(MigRequest::of(name("1g.10gb"), 17).is_err());
    let five: Vec<MigKind> =
        (0..5).map(|p| MigKind { profile: ProfileName(p), count: 1 }).collect();
    assert!(MigRequest::new(&five).is_err());
}
