//! The cluster state: syncs in any order end in the same state, and wrong input changes nothing.

mod common;

use common::{Model, Node, Outcome, Step, lay_out, new_kernel, node, step};
use mortise_core::cluster::DeviceLevels;
use mortise_core::limits::MAX_GPUS_PER_NODE;
use mortise_core::{
    Candidates, Config, DeviceMask, Error, ErrorCode, GpuRequest, Kernel, MilliCpu, MilliGpu,
    ModelId, NodeDelta, NodeKey, NodeRef, PodRecord, PodUid, SyncBatch,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Walks through a history without checking decisions.
fn replay(steps: &[Step]) -> (Kernel, Model) {
    let mut kernel =
        new_kernel(Config { strategy: mortise_core::Strategy::BestFit, ..Config::default() });
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Upsert(nodes) => {
                model.upsert(&mut kernel, nodes, None);
            }
            Step::Remove(key) => model.remove(&mut kernel, *key),
            Step::Resync => model.resync(&mut kernel),
            Step::Arrive { pod, salt, outcome, .. } => {
                let decision =
                    kernel.decide(pod, Candidates::All, *salt, None).expect("a valid request");
                if let Some((node, devices)) = decision.best {
                    model.place(&mut kernel, pod, node, devices, *outcome);
                }
            }
        }
        assert_eq!(kernel.cluster().violations(), Vec::<String>::new());
    }
    (kernel, model)
}

/// What the pods leave of each device, from the rule's sentence: known devices are charged first; then, in uid order,
/// each unknown card takes the free whole card of the highest index, or else the device with most left.
fn levels_by_hand(node: &Node) -> (Vec<i64>, i64) {
    let mut left: Vec<i64> = node.delta.capacity[..usize::from(node.delta.gpu_count)]
        .iter()
        .map(|milli| i64::from(milli.get()))
        .collect();
    let mut over = 0;
    let mut touched = vec![false; left.len()];
    let mut charge = |left: &mut Vec<i64>, touched: &mut Vec<bool>, device: usize, milli: i64| {
        over += milli - milli.min(left[device].max(0));
        left[device] = (left[device] - milli).max(0);
        touched[device] = true;
    };
    let mut pods = node.pods.clone();
    pods.sort_by_key(|pod| pod.uid);
    for pod in &pods {
        for device in pod.devices.iter() {
            charge(&mut left, &mut touched, device, i64::from(pod.gpu.milli().get()));
        }
    }
    let mut nowhere = 0;
    for pod in &pods {
        for _ in 0..pod.unknown {
            let milli = i64::from(pod.gpu.milli().get());
            let whole =
                (0..left.len()).rev().find(|&device| left[device] == 1000 && !touched[device]);
            let most = (0..left.len()).max_by_key(|&device| (left[device], device));
            match whole.or(most) {
                Some(device) => charge(&mut left, &mut touched, device, milli),
                None => nowhere += milli,
            }
        }
    }
    (left, over + nowhere)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn deltas_end_in_the_state_of_a_full_resync(steps in vec(step(), 1..40)) {
        let (kernel, model) = replay(&steps);
        // A fresh kernel that never saw the history, with models interned in another order.
        let mut fresh = Kernel::new(Config::default()).expect("the default is valid");
        let mut renamed = std::collections::BTreeMap::new();
        for (id, name) in common::MODELS.iter().enumerate().rev() {
            renamed.insert(id as u8, fresh.intern_model(name).expect("a valid name"));
        }
        let nodes: Vec<Node> = model.nodes.values().rev().map(|node| {
            let mut node = node.clone();
            node.delta.node = NodeRef::NIL;
            node.delta.model = renamed.get(&node.delta.model.0).copied().unwrap_or(ModelId::NONE);
            node
        }).collect();
        let (upserts, pods) = lay_out(&nodes);
        let batch = SyncBatch { full: true, upserts: &upserts, pods: &pods, ..Default::default() };
        fresh.sync(&batch, &mut vec![NodeRef::NIL; upserts.len()]).expect("a valid batch");
        prop_assert_eq!(fresh.export_state().expect("memory"), kernel.export_state().expect("memory"));
        prop_assert_eq!(fresh.digest(), kernel.digest());

        let mut loaded = Kernel::new(Config::default()).expect("the default is valid");
        loaded.import_state(&kernel.export_state().expect("memory")).expect("own bytes");
        prop_assert_eq!(loaded.digest(), kernel.digest());
        prop_assert_eq!(loaded.cluster().totals(), kernel.cluster().totals());
    }

    #[test]
    fn syncing_the_same_again_changes_nothing(steps in vec(step(), 1..20)) {
        let (mut kernel, mut model) = replay(&steps);
        let (last, digest) = (kernel.cluster().last_change(), kernel.digest());
        let nodes: Vec<Node> = model.nodes.values().cloned().collect();
        let report = model.upsert(&mut kernel, &nodes, None);
        prop_assert_eq!((report.unchanged as usize, report.changed, report.added), (nodes.len(), 0, 0));
        prop_assert_eq!(kernel.cluster().last_change(), last);
        model.resync(&mut kernel);
        prop_assert_eq!(kernel.cluster().last_change(), last);
        prop_assert_eq!(kernel.digest(), digest);
    }

    #[test]
    fn free_levels_are_what_the_pods_leave(node in node()) {
        let mut kernel = new_kernel(Config::default());
        let mut model = Model::default();
        model.upsert(&mut kernel, std::slice::from_ref(&node), None);
        let slot = model.refs[&node.delta.key.0].index as usize;
        let (left, over) = levels_by_hand(&node);
        let free: Vec<i64> =
            kernel.cluster().shape(slot).levels().iter().map(|milli| i64::from(milli.get())).collect();
        prop_assert_eq!(&free, &left);
        prop_assert_eq!(i64::from(kernel.cluster().overcommitted_milli(slot)), over);
        prop_assert_eq!(i64::from(kernel.cluster().idle_milli(slot)), left.iter().sum::<i64>());
    }

    #[test]
    fn every_changed_node_is_in_the_log(before in vec(step(), 1..20), after in vec(step(), 1..20)) {
        let (mut kernel, mut model) = replay(&before);
        let seen = kernel.cluster().last_change();
        let views = |kernel: &Kernel| -> Vec<_> {
            (0..kernel.cluster().slots())
                .map(|slot| (kernel.cluster().is_live(slot), kernel.cluster().view(slot)))
                .collect()
        };
        let old = views(&kernel);
        for step in &after {
            if let Step::Upsert(nodes) = step {
                model.upsert(&mut kernel, nodes, None);
            } else if let Step::Remove(key) = step {
                model.remove(&mut kernel, *key);
            }
        }
        let mut logged: Vec<u32> =
            kernel.cluster().changed_since(seen).expect("a short history").collect();
        logged.sort_unstable();
        prop_assert!(logged.is_sorted_by(|a, b| a < b), "a slot is listed twice");
        for (slot, now) in views(&kernel).into_iter().enumerate() {
            if old.get(slot) != Some(&now) {
                prop_assert!(logged.contains(&(slot as u32)), "slot {slot} is missing");
            }
        }
    }

    #[test]
    fn damaged_state_bytes_are_rejected_or_another_valid_state(
        steps in vec(step(), 1..10),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (kernel, _) = replay(&steps);
        let bytes = kernel.export_state().expect("memory");
        let mut target = Kernel::new(Config::default()).expect("the default is valid");
        prop_assert!(target.import_state(&bytes[..cut.index(bytes.len())]).is_err());
        prop_assert!(target.cluster().is_empty());
        let mut damaged = bytes;
        let at = at.index(damaged.len());
        damaged[at] = byte;
        if target.import_state(&damaged).is_ok() {
            prop_assert_eq!(target.cluster().violations(), Vec::<String>::new());
        } else {
            prop_assert!(target.cluster().is_empty());
            prop_assert_eq!(target.cluster().models().len(), 0, "names are part of nothing");
        }
    }
}

/// The bytes are well formed up to the end, and only then it turns out that they hold a node twice.
#[test]
fn state_bytes_that_fail_late_leave_no_model_behind() {
    let mut kernel = Kernel::new(Config::default()).expect("the default is valid");
    let model = kernel.intern_model("T4").expect("a name");
    let nodes = [plain(0x1122_3344_5566_7788), plain(0x2122_3344_5566_7788)].map(|mut node| {
        node.delta.model = model;
        node
    });
    let (upserts, pods) = lay_out(&nodes);
    let batch = SyncBatch { full: true, upserts: &upserts, pods: &pods, ..Default::default() };
    kernel.sync(&batch, &mut [NodeRef::NIL; 2]).expect("a valid batch");
    let mut bytes = kernel.export_state().expect("memory");
    let second = 0x2122_3344_5566_7788_u64.to_le_bytes();
    let at = bytes.windows(8).position(|window| window == second).expect("the key is in them");
    bytes[at..at + 8].copy_from_slice(&0x1122_3344_5566_7788_u64.to_le_bytes());
    let mut target = Kernel::new(Config::default()).expect("the default is valid");
    let error = target.import_state(&bytes).expect_err("a node twice");
    assert_eq!(error.code(), ErrorCode::DuplicateNode);
    assert_eq!((target.cluster().len(), target.cluster().models().len()), (0, 0));
}

fn plain(key: u64) -> Node {
    let mut capacity: DeviceLevels = [MilliGpu::ZERO; MAX_GPUS_PER_NODE];
    capacity[..2].fill(MilliGpu::CARD);
    let delta = NodeDelta {
        node: NodeRef::NIL,
        key: NodeKey(key),
        generation: mortise_core::Generation(1),
        cpu_free: MilliCpu(1_000),
        memory_free: mortise_core::MemoryBytes(1_000),
        cpu_allocatable: MilliCpu(1_000),
        memory_allocatable: mortise_core::MemoryBytes(1_000),
        model: ModelId(0),
        gpu_count: 2,
        capacity,
        shares_offered: true,
        mig: Default::default(),
        first_pod: 0,
        pod_count: 0,
    };
    let gpu = GpuRequest::Whole { count: 1 };
    let pod = PodRecord::new(PodUid(u128::from(key)), gpu, DeviceMask::only(0));
    Node { delta, pods: vec![pod] }
}

/// A batch of two known nodes and a new one, spoilt by `spoil`, must fail with this code and these words and leave
/// state and output alone.
fn rejects(
    code: ErrorCode,
    words: &str,
    spoil: impl FnOnce(&mut Vec<NodeDelta>, &mut Vec<PodRecord>, &mut Vec<NodeRef>),
) {
    let mut kernel = new_kernel(Config::default());
    let mut model = Model::default();
    model.upsert(&mut kernel, &[plain(1), plain(2)], None);
    let (digest, last) = (kernel.digest(), kernel.cluster().last_change());
    let mut changed = [plain(1), plain(2), plain(3)];
    for node in &mut changed {
        node.delta.cpu_free = MilliCpu(7);
        node.delta.node = model.refs.get(&node.delta.key.0).copied().unwrap_or(NodeRef::NIL);
    }
    let (mut upserts, mut pods) = lay_out(&changed);
    let mut removals = Vec::new();
    spoil(&mut upserts, &mut pods, &mut removals);
    let mut refs = vec![NodeRef { index: 77, generation: 77 }; upserts.len()];
    let batch =
        SyncBatch { upserts: &upserts, pods: &pods, removals: &removals, ..Default::default() };
    let error: Error = kernel.sync(&batch, &mut refs).expect_err(words);
    assert_eq!(error.code(), code, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    assert!(refs.iter().all(|node| node.index == 77), "outputs were written");
    assert_eq!((kernel.digest(), kernel.cluster().last_change()), (digest, last));
    assert_eq!(kernel.cluster().violations(), Vec::<String>::new());
}

#[test]
fn malformed_batches_are_named_and_leave_the_state_untouched() {
    use ErrorCode::{BadLength, DuplicateNode, InvalidValue, LimitExceeded, UnknownNode};
    rejects(DuplicateNode, "upserts[2] names node", |upserts, _, _| upserts[2].key = NodeKey(1));
    rejects(DuplicateNode, "upserts[2] names node", |upserts, _, _| {
        upserts[1].node = NodeRef::NIL;
        upserts[1].key = NodeKey(3);
    });
    rejects(DuplicateNode, "removals[0] names node", |upserts, _, removals| {
        removals.push(upserts[1].node);
    });
    rejects(UnknownNode, "upserts[0].node refers to", |upserts, _, _| {
        upserts[0].node.generation = 9
    });
    rejects(UnknownNode, "removals[0] refers to", |_, _, removals| removals.push(NodeRef::NIL));
    rejects(InvalidValue, "a node keeps its key", |upserts, _, _| upserts[1].key = NodeKey(9));
    rejects(BadLength, "pods", |_, pods, _| pods.truncate(2));
    rejects(BadLength, "the sum of pod_count", |_, pods, _| {
        let again = PodRecord { uid: PodUid(99), ..pods[0] };
        pods.push(again);
    });
    rejects(BadLength, "expected 1: the pods", |upserts, _, _| upserts[1].first_pod = 0);
    rejects(LimitExceeded, "the limit is 1024", |upserts, _, _| upserts[2].pod_count = 1_025);
    rejects(InvalidValue, "count cards it does not list as unknown", |_, pods, _| {
        pods[2].devices = DeviceMask::only(2);
    });
    rejects(InvalidValue, "they must add up to the 1 cards", |_, pods, _| pods[2].unknown = 1);
    rejects(InvalidValue, "cpu is -1 milli", |_, pods, _| pods[0].cpu = MilliCpu(-1));
    rejects(InvalidValue, "intern the name first", |upserts, _, _| upserts[2].model = ModelId(3));
    rejects(LimitExceeded, "gpu_count of node", |upserts, _, _| upserts[2].gpu_count = 17);
    rejects(InvalidValue, "leave the rest at zero", |upserts, _, _| {
        upserts[2].capacity[2] = MilliGpu::CARD;
    });
    rejects(LimitExceeded, "cpu_free (milli)", |upserts, _, _| {
        upserts[2].cpu_free = MilliCpu(1 << 40)
    });
    rejects(InvalidValue, "must not be negative", |upserts, _, _| {
        upserts[2].cpu_allocatable = MilliCpu(-1);
    });
    rejects(InvalidValue, "list each pod once per node", |upserts, pods, _| {
        upserts[2].pod_count = 2;
        let again = PodRecord { gpu: GpuRequest::None, devices: DeviceMask::EMPTY, ..pods[2] };
        pods.push(again);
    });
}

#[test]
fn a_reservation_yields_to_its_pod_and_to_higher_priority_only() {
    let mut kernel = new_kernel(Config::default());
    let mut model = Model::default();
    model.upsert(&mut kernel, &[Node { pods: vec![], ..plain(1) }], None);
    let pod = mortise_core::PodRequest {
        uid: PodUid(5),
        cpu: MilliCpu(600),
        memory: mortise_core::MemoryBytes(0),
        gpu: GpuRequest::Whole { count: 2 },
        models: mortise_core::ModelSet::ANY,
        priority: mortise_core::Priority(10),
        tier: mortise_core::Tier::Training,
        mig: Default::default(),
    };
    model.place(&mut kernel, &pod, model.refs[&1], DeviceMask(0b11), Outcome::Reserved);
    let mut feasible = |uid: u128, priority: i32| {
        let pod = mortise_core::PodRequest {
            uid: PodUid(uid),
            priority: mortise_core::Priority(priority),
            ..pod
        };
        kernel.decide(&pod, Candidates::All, 0, None).expect("a valid request").feasible
    };
    assert_eq!(feasible(5, 10), 1, "its own");
    assert_eq!(feasible(6, 10), 0, "of the same priority");
    assert_eq!(feasible(6, 11), 1, "of lower priority");
    assert_eq!(feasible(6, 9), 0, "of higher priority");
}

#[test]
fn slots_are_reused_with_a_new_generation() {
    let mut kernel = new_kernel(Config::default());
    let mut model = Model::default();
    model.upsert(&mut kernel, &[plain(1), plain(2)], None);
    let gone = model.refs[&1];
    model.remove(&mut kernel, 1);
    model.upsert(&mut kernel, &[plain(3)], None);
    let new = model.refs[&3];
    assert_eq!((new.index, new.generation), (gone.index, gone.generation + 1));
    assert_eq!(NodeRef::from_u64(new.to_u64()), new);
    assert_eq!(kernel.cluster().find(NodeKey(3)), Some(new));
    assert_eq!(kernel.cluster().find(NodeKey(1)), None);
}
