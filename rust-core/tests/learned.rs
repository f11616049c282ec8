//! The learned state goes over to another kernel, whose models may have other numbers.

mod common;

use common::{Model, Node, lay_out, new_kernel, node, pod_request};
use mortise_core::{
    Candidates, Config, ErrorCode, Kernel, NodeRef, PodRecord, PodRequest, PodUid, Strategy,
    SyncBatch,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn decide(kernel: &mut Kernel, pod: &PodRequest) -> (Option<u64>, i64, u32) {
    let decision = kernel.decide(pod, Candidates::All, 3, None).expect("a valid request");
    let key = decision.best.map(|(node, _)| kernel.cluster().key(node.index as usize).0);
    (key, decision.score, decision.feasible)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn an_imported_kernel_decides_as_the_exporting_one(
        nodes in vec(node(), 1..6),
        arrivals in vec(pod_request(), 1..60),
        strategy in prop::sample::select(Strategy::ALL.to_vec()),
    ) {
        let config = Config { strategy, ..Config::default() };
        let mut kernel = new_kernel(config.clone());
        let mut model = Model::default();
        model.upsert(&mut kernel, &nodes, None);
        for (position, pod) in arrivals.iter().enumerate() {
            let pod = PodRequest { uid: PodUid(position as u128), ..*pod };
            let report = model.upsert(&mut kernel, &[], Some(pod));
            prop_assert!(report.arrival_counted);
            prop_assert!(!model.upsert(&mut kernel, &[], Some(pod)).arrival_counted, "a retry");
            decide(&mut kernel, &pod);
        }
        // First what was learned, then the nodes: as after a restart. Ids of models come from the learned bytes.
        let mut restarted = Kernel::new(config).expect("a valid configuration");
        restarted.import_learned(&kernel.export_learned()).expect("own bytes");
        prop_assert_eq!(restarted.export_learned(), kernel.export_learned());
        restarted.import_state(&kernel.export_state().expect("memory")).expect("own bytes");
        for pod in &arrivals {
            prop_assert_eq!(decide(&mut restarted, pod), decide(&mut kernel, pod));
        }
    }

    #[test]
    fn damaged_learned_bytes_never_panic(
        arrivals in vec(pod_request(), 1..20),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut kernel = new_kernel(Config::default());
        for (position, pod) in arrivals.iter().enumerate() {
            let pod = PodRequest { uid: PodUid(position as u128), ..*pod };
            kernel.sync(&SyncBatch { arrival: Some(pod), ..Default::default() }, &mut []).expect("valid");
        }
        let mut bytes = kernel.export_learned();
        let mut target = Kernel::new(Config::default()).expect("the default is valid");
        let untouched = target.export_learned();
        prop_assert!(target.import_learned(&bytes[..cut.index(bytes.len())]).is_err());
        prop_assert_eq!(&target.export_learned(), &untouched);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if target.import_learned(&bytes).is_err() {
            prop_assert_eq!(target.export_learned(), untouched);
        }
        for pod in &arrivals {
            decide(&mut target, pod);
        }
    }

    #[test]
    fn pods_on_nodes_teach_the_mix_once_and_in_any_order(nodes in vec(node(), 1..6)) {
        let mut kernels = [new_kernel(Config::default()), new_kernel(Config::default())];
        let mut model = Model::default();
        model.upsert(&mut kernels[0], &nodes, None);
        let last: Vec<Node> = model.nodes.values().rev().cloned().collect();
        let mut learnable: Vec<PodUid> = last
            .iter()
            .flat_map(|node| &node.pods)
            .filter(|pod: &&PodRecord| !pod.no_learn && !pod.reservation)
            .map(|pod| pod.uid)
            .collect();
        learnable.sort_unstable();
        learnable.dedup();
        let (mut upserts, pods) = lay_out(&last);
        upserts.iter_mut().for_each(|delta| delta.node = NodeRef::NIL);
        let batch = SyncBatch { full: true, upserts: &upserts, pods: &pods, ..Default::default() };
        kernels[1].sync(&batch, &mut vec![NodeRef::NIL; upserts.len()]).expect("a valid batch");
        for kernel in &mut kernels {
            kernel.learn_from_pods();
            kernel.learn_from_pods();
            prop_assert_eq!(kernel.stats().arrivals, learnable.len() as u64);
        }
        prop_assert_eq!(kernels[0].export_learned(), kernels[1].export_learned());
    }
}

#[test]
fn bytes_of_something_else_are_refused_by_name() {
    let mut kernel = new_kernel(Config::default());
    let error = kernel.import_learned(b"MCS2 and more").expect_err("a state, not a mix");
    assert_eq!(error.code(), ErrorCode::InvalidValue);
    assert!(error.to_string().contains("MLS2"), "{error}");
    let error = kernel.import_state(b"MLS2 and more").expect_err("a mix, not a state");
    assert!(error.to_string().contains("MCS2"), "{error}");
}
