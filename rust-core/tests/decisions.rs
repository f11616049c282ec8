//! Decisions from caches are those of the rules written out, for every strategy, over random histories.

mod common;

use common::{Model, Outcome, Step, new_kernel, step, twin};
use mortise_core::hash::mix64;
use mortise_core::stranding::MixMode;
use mortise_core::{
    Candidates, Config, Decision, DeviceMask, GpuRequest, Kernel, Kind, MilliCpu, MilliGpu,
    ModelSet, NodeRef, NodeScore, PodRequest, Reason, Strategy, Workers,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

fn mix_mode() -> impl proptest::strategy::Strategy<Value = MixMode> {
    let whole = |count| GpuRequest::Whole { count };
    let share = |milli| GpuRequest::Share { milli: MilliGpu::clamped(milli) };
    let kind = |cpu, gpu, models| Kind { cpu: MilliCpu(cpu), gpu, models };
    prop_oneof![
        Just(MixMode::Learned),
        Just(MixMode::Fixed(vec![
            (kind(500, share(250), ModelSet::ANY), 50),
            (kind(4_000, whole(1), ModelSet::ANY), 20),
            (kind(4_000, whole(4), ModelSet(0b011)), 5),
            (kind(0, share(810), ModelSet(0b001)), 15),
            (kind(1_000, GpuRequest::None, ModelSet::ANY), 20),
        ])),
    ]
}

fn config() -> impl proptest::strategy::Strategy<Value = Config> {
    let memo = prop::sample::select(vec![0usize, 40_000, 8 << 20]);
    (prop::sample::select(Strategy::ALL.to_vec()), any::<u64>(), mix_mode(), any::<bool>(), memo)
        .prop_map(|(strategy, seed, mix, score_cpu_only, memo_bytes)| Config {
            strategy,
            seed,
            mix,
            score_cpu_only,
            memo_bytes,
            ..Config::default()
        })
}

/// Makes this many parts, for as few nodes as there are, each on a thread of its own, the last one first.
#[derive(Clone, Copy, Debug)]
struct Parts(usize);

impl Workers for Parts {
    fn parts(&self, _nodes: usize) -> usize {
        self.0
    }

    fn run(&self, jobs: &mut [&mut (dyn FnMut() + Send)]) {
        assert!((2..=self.0).contains(&jobs.len()), "{} jobs for {self:?}", jobs.len());
        std::thread::scope(|scope| {
            for job in jobs.iter_mut().rev() {
                scope.spawn(job);
            }
        });
    }
}

fn parts() -> impl proptest::strategy::Strategy<Value = Parts> {
    prop::sample::select(vec![0, 1, 2, 3, 7, 100]).prop_map(Parts)
}

/// A kernel under test with the caller's model of it.
struct Run {
    workers: Parts,
    kernel: Kernel,
    model: Model,
    config: Config,
    decisions: u64,
}

impl Run {
    fn new(config: &Config, workers: Parts) -> Self {
        let (kernel, config) = (new_kernel(config.clone()), config.clone());
        Self { workers, kernel, model: Model::default(), config, decisions: 0 }
    }

    fn take(&mut self, step: &Step) -> Option<(Decision, Vec<NodeScore>)> {
        match step {
            Step::Upsert(nodes) => {
                self.model.upsert(&mut self.kernel, nodes, None);
            }
            Step::Remove(key) => self.model.remove(&mut self.kernel, *key),
            Step::Resync => self.model.resync(&mut self.kernel),
            Step::Arrive { pod, salt, listed, outcome } => {
                return Some(self.arrive(pod, *salt, *listed, *outcome));
            }
        }
        None
    }

    fn arrive(
        &mut self,
        pod: &PodRequest,
        salt: u64,
        listed: Option<u16>,
        outcome: Outcome,
    ) -> (Decision, Vec<NodeScore>) {
        let nothing = common::Model::upsert(&mut self.model, &mut self.kernel, &[], Some(*pod));
        assert_eq!((nothing.added, nothing.changed), (0, 0));
        let nodes: Vec<NodeRef> = match listed {
            Some(bits) => self.model.listed(bits),
            None => self.kernel.cluster().nodes().collect(),
        };
        let candidates = if listed.is_some() { Candidates::Refs(&nodes) } else { Candidates::All };
        let unwritten = NodeScore { score: 7, devices: DeviceMask(7), reason: 7 };
        let mut scores = vec![unwritten; nodes.len()];
        let decision = self
            .kernel
            .decide_with(&self.workers, pod, candidates, salt, Some(&mut scores))
            .expect("a valid request");
        self.decisions += 1;
        self.check(pod, &nodes, salt, &decision, &scores);
        if let Some((node, devices)) = decision.best {
            self.model.place(&mut self.kernel, pod, node, devices, outcome);
        }
        (decision, scores)
    }

    fn check(
        &self,
        pod: &PodRequest,
        nodes: &[NodeRef],
        salt: u64,
        decision: &Decision,
        scores: &[NodeScore],
    ) {
        let random = self.config.strategy == Strategy::Random;
        let salt = if random { mix64(salt ^ mix64(self.decisions)) } else { salt };
        let naive = twin::decide(&self.kernel, &self.config, pod, nodes, salt);
        assert_eq!(decision.feasible, naive.feasible, "feasible nodes for {pod:?}");
        let (Some((node, devices)), Some((expected, expected_devices))) =
            (decision.best, naive.best)
        else {
            assert_eq!(decision.best, naive.best, "{pod:?}");
            assert_eq!(decision.score, i64::MIN);
            return;
        };
        assert_eq!(node, expected, "node for {pod:?}");
        assert_eq!(decision.score, -naive.cost, "score of {pod:?}");
        if random {
            self.check_room(pod, node, devices);
        } else {
            assert_eq!(devices, expected_devices, "devices for {pod:?}");
        }
        for (&node, score) in nodes.iter().zip(scores) {
            let one = twin::decide(&self.kernel, &self.config, pod, &[node], salt);
            if one.feasible == 0 {
                assert_eq!((score.score, score.devices), (i64::MIN, DeviceMask::EMPTY));
                assert!(Reason::ALL.iter().any(|&reason| reason as u16 == score.reason));
            } else {
                assert_eq!((score.score, score.reason), (-one.cost, 0));
                self.check_room(pod, node, score.devices);
            }
        }
    }

    fn check_room(&self, pod: &PodRequest, node: NodeRef, devices: DeviceMask) {
        let view = self.kernel.cluster().view_for(node.index as usize, pod.uid, pod.priority);
        assert_eq!(devices.count(), u32::from(pod.gpu.count()));
        assert!(devices.iter().all(|device| view.shape.free[device] >= pod.gpu.milli()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cached_decisions_are_the_naive_ones(
        config in config(),
        parts in parts(),
        steps in vec(step(), 1..50),
    ) {
        let mut run = Run::new(&config, parts);
        for step in &steps {
            run.take(step);
        }
        prop_assert_eq!(run.kernel.cluster().violations(), Vec::<String>::new());
        prop_assert_eq!(run.kernel.stats().decisions, run.decisions);
    }

    #[test]
    fn same_history_and_seed_give_the_same_answers(
        config in config(),
        parts in parts(),
        steps in vec(step(), 1..40),
    ) {
        // The second kernel has another memory bound and works in parts: neither must matter.
        let other = Config { memo_bytes: 1 << 20, ..config.clone() };
        let (mut one, mut two) = (Run::new(&config, Parts(1)), Run::new(&other, parts));
        for step in &steps {
            prop_assert_eq!(one.take(step), two.take(step));
        }
        prop_assert_eq!(one.kernel.digest(), two.kernel.digest());
        prop_assert_eq!(one.kernel.export_learned(), two.kernel.export_learned());
    }

    #[test]
    fn slots_play_no_part_in_a_decision(
        config in config().prop_filter("counts decisions", |c| c.strategy != Strategy::Random),
        steps in vec(step(), 1..30),
        pod in common::pod_request(),
    ) {
        let mut run = Run::new(&Config { mix: MixMode::Learned, ..config.clone() }, Parts(1));
        for step in &steps {
            run.take(step);
        }
        // Nodes in another order, and nothing learned on either side but what the pods tell.
        let mut kernels = [new_kernel(config.clone()), new_kernel(config)];
        let mut reversed = Model::default();
        for node in run.model.nodes.values().rev() {
            reversed.upsert(&mut kernels[0], std::slice::from_ref(node), None);
        }
        kernels[1].import_state(&run.kernel.export_state().expect("memory")).expect("own bytes");
        let [a, b] = kernels.each_mut().map(|kernel| {
            let decision = kernel.decide(&pod, Candidates::All, 5, None).expect("a valid request");
            let key = decision.best.map(|(node, devices)| (kernel.cluster().key(node.index as usize), devices));
            (key, decision.score, decision.feasible)
        });
        prop_assert_eq!(a, b);
    }
}

#[test]
fn wrong_candidates_and_lengths_are_named_and_change_nothing() {
    let mut run = Run::new(&Config::default(), Parts(1));
    let unknown = NodeRef { index: 9, generation: 1 };
    let pod = PodRequest {
        uid: mortise_core::PodUid(1),
        cpu: MilliCpu(1),
        memory: mortise_core::MemoryBytes(0),
        gpu: GpuRequest::None,
        models: ModelSet::ANY,
        priority: mortise_core::Priority(0),
        tier: mortise_core::Tier::Batch,
        mig: Default::default(),
    };
    let error =
        run.kernel.decide(&pod, Candidates::Refs(&[unknown]), 0, None).expect_err("no such node");
    assert_eq!(error.code(), mortise_core::ErrorCode::UnknownNode);
    assert!(error.to_string().starts_with("candidates[0] refers to slot 9"), "{error}");
    let mut scores = [NodeScore { score: 0, devices: DeviceMask::EMPTY, reason: 0 }];
    let error = run
        .kernel
        .decide(&pod, Candidates::All, 0, Some(&mut scores))
        .expect_err("one score for no node");
    assert_eq!(error.code(), mortise_core::ErrorCode::BadLength);
    let negative = PodRequest { cpu: MilliCpu(-1), ..pod };
    let error = run.kernel.decide(&negative, Candidates::All, 0, None).expect_err("negative CPU");
    assert_eq!(error.code(), mortise_core::ErrorCode::InvalidValue);
    assert_eq!(run.kernel.stats().decisions, 0);
}
