//! One run: one trace, one policy, one seed.

use std::time::{Duration, Instant};

use mortise_core::limits::MAX_MIX_KINDS;
use mortise_core::stranding::fgd::TypicalPods;
use mortise_core::{
    Candidates, Config, DeviceMask, Error as KernelError, Kernel, MixMode, ModelId, NodeRef,
    PodRequest, PodUid, SyncBatch,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cluster::SimCluster;
use super::requests::{Models, kind_counts, request};
use super::{Mix, Policy, Setup, Ties};
use crate::columns::{Column, Columns, Sample};
use crate::sequence::SequenceError;
use crate::trace::{PodSpec, Trace};

/// The random stream of tie salts; the sequence uses stream 0 of the same seed.
const TIE_STREAM: u64 = 1;

/// What became of the requests of one group of pods.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Accepted {
    /// Thousandths of a GPU asked for.
    pub requested_milli: u64,
    /// Thousandths of a GPU placed.
    pub placed_milli: u64,
}

impl Accepted {
    fn count(&mut self, milli: u64, placed: bool) {
        self.requested_milli += milli;
        self.placed_milli += if placed { milli } else { 0 };
    }

    /// Placed / requested in percent; none where nothing was asked for.
    pub fn percent(self) -> Option<f64> {
        let (placed, requested) = (self.placed_milli as f64, self.requested_milli as f64);
        (self.requested_milli > 0).then(|| 100.0 * placed / requested)
    }
}

/// Result of one run. Only `us_per_pod` depends on the machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Name of the trace.
    pub trace: String,
    /// The policy.
    pub policy: Policy,
    /// Seed of sequence and ties.
    pub seed: u64,
    /// Published columns from 0 % of arrived load on.
    pub columns: Vec<Option<Column>>,
    /// Pods that arrived.
    pub pods: usize,
    /// Pods that found no place.
    pub rejected: usize,
    /// GPU in use after the last arrival, in % of the cluster.
    pub alloc_end: f64,
    /// Requests of all GPU pods.
    pub gpu: Accepted,
    /// Requests of pods of 8 GPUs.
    pub eight_gpu: Accepted,
    /// Requests of pods that name the models they accept.
    pub constrained: Accepted,
    /// Arrived load in % when the first pod of at most one GPU without a model constraint was rejected, or at the end.
    pub accepted_until: f64,
    /// Mean time in the kernel per arriving pod, microseconds: sync of the changed node and decision.
    pub us_per_pod: f64,
}

impl Run {
    /// The column at `percent` of arrived load, if the load reaches it.
    pub fn column(&self, percent: usize) -> Option<Column> {
        self.columns.get(percent).copied().flatten()
    }
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No sequence of arrivals.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// The cluster has nothing to measure.
    #[error("the node list has no GPU; expected at least one node whose column gpu is above 0")]
    NoGpus,
    /// The kernel refused its input.
    #[error("trace {trace}, policy {policy}, seed {seed}: the kernel refused {what}")]
    Kernel {
        /// Name of the trace.
        trace: String,
        /// The policy.
        policy: Policy,
        /// The seed.
        seed: u64,
        /// What it refused.
        what: String,
        /// Its reason.
        source: Box<KernelError>,
    },
    /// The kernel placed a pod where it does not fit: a bug of the kernel.
    #[error(
        "trace {trace}, policy {policy}, seed {seed}: the kernel placed pod {pod} (arrival {arrival}) where it does \
         not fit; this is a bug, please report it"
    )]
    BadPlacement {
        /// Name of the trace.
        trace: String,
        /// The policy.
        policy: Policy,
        /// The seed.
        seed: u64,
        /// Number of the arrival, from 0.
        arrival: usize,
        /// Name of the pod.
        pod: String,
    },
}

/// Replays `trace` under `policy`. Same arguments, same result, but for the time measured.
///
/// # Errors
/// See [`RunError`].
pub fn run(setup: &Setup, trace: &Trace, policy: Policy, seed: u64) -> Result<Run, RunError> {
    let capacity = setup.capacity_milli();
    if capacity == 0 {
        return Err(RunError::NoGpus);
    }
    let sequence = setup.arrivals.sequence(trace, capacity, seed)?;
    let mut replay = Replay::start(setup, trace, policy, seed)?;
    let mut columns = Columns::new(capacity);
    for (arrival, &pod) in sequence.pods.iter().enumerate() {
        columns.record(replay.arrive(arrival, pod)?);
    }
    Ok(Run {
        trace: trace.name.clone(),
        policy,
        seed,
        columns: columns.all(),
        pods: sequence.pods.len(),
        rejected: replay.rejected,
        alloc_end: 100.0 * replay.gpu.placed_milli as f64 / capacity as f64,
        gpu: replay.gpu,
        eight_gpu: replay.eight_gpu,
        constrained: replay.constrained,
        accepted_until: 100.0 * replay.accepted_until_milli as f64 / capacity as f64,
        us_per_pod: 1e6 * replay.kernel_time.as_secs_f64() / sequence.pods.len() as f64,
    })
}

struct Replay<'t> {
    trace: &'t Trace,
    policy: Policy,
    seed: u64,
    ties: Ties,
    kernel: Kernel,
    kernel_time: Duration,
    cluster: SimCluster,
    /// The node of the last placement, not yet synced.
    changed: Option<usize>,
    requests: Vec<PodRequest>,
    fragments: Fragments,
    salts: ChaCha8Rng,
    arrived_milli: u64,
    /// Arrived before the first rejection of an unconstrained pod of at most one GPU.
    accepted_until_milli: u64,
    turned_one_away: bool,
    rejected: usize,
    gpu: Accepted,
    eight_gpu: Accepted,
    constrained: Accepted,
}

impl<'t> Replay<'t> {
    fn start(
        setup: &Setup,
        trace: &'t Trace,
        policy: Policy,
        seed: u64,
    ) -> Result<Replay<'t>, RunError> {
        let refused = |what: String| {
            let trace = trace.name.clone();
            move |source| RunError::Kernel { trace, policy, seed, what, source: Box::new(source) }
        };
        let mut models = Models::default();
        let node_models: Vec<ModelId> =
            setup.nodes.iter().map(|node| models.intern(&node.model)).collect();
        let requests: Vec<PodRequest> =
            trace.pods.iter().map(|pod| request(pod, &models)).collect();
        let kinds = kind_counts(&requests);
        let mix = match setup.mix {
            Mix::Learned => MixMode::Learned,
            Mix::Trace => MixMode::Fixed(kinds[..kinds.len().min(MAX_MIX_KINDS)].to_vec()),
        };
        let config = Config { strategy: policy.0, seed, mix, ..Config::default() };
        let mut kernel = Kernel::new(config).map_err(refused("its configuration".into()))?;
        for (name, id) in models.in_order() {
            let interned = kernel.intern_model(name);
            let interned = interned.map_err(refused(format!("GPU model {name:?}")))?;
            assert_eq!(interned, id, "a new kernel numbers models from 0");
        }
        let mut cluster = SimCluster::new(&setup.nodes, &node_models);
        let upserts: Vec<_> =
            (0..cluster.len()).map(|node| cluster.delta(node, &mut Vec::new())).collect();
        let mut references = vec![NodeRef::NIL; upserts.len()];
        let batch = SyncBatch { full: true, upserts: &upserts, ..SyncBatch::default() };
        kernel.sync(&batch, &mut references).map_err(refused("the node list".into()))?;
        cluster.set_references(&references);
        let mut salts = ChaCha8Rng::seed_from_u64(seed);
        salts.set_stream(TIE_STREAM);
        Ok(Replay {
            trace,
            policy,
            seed,
            ties: setup.ties,
            kernel,
            kernel_time: Duration::ZERO,
            fragments: Fragments::new(TypicalPods::from_counts(kinds), &cluster),
            cluster,
            changed: None,
            requests,
            salts,
            arrived_milli: 0,
            accepted_until_milli: 0,
            turned_one_away: false,
            rejected: 0,
            gpu: Accepted::default(),
            eight_gpu: Accepted::default(),
            constrained: Accepted::default(),
        })
    }

    /// One pod arrives and is placed or rejected.
    fn arrive(&mut self, arrival: usize, pod: usize) -> Result<Sample, RunError> {
        let spec = &self.trace.pods[pod];
        let request = PodRequest { uid: PodUid(arrival as u128 + 1), ..self.requests[pod] };
        let best = self.decide(&request).map_err(|source| self.refused(arrival, spec, source))?;
        if let Some((reference, devices)) = best {
            let node = self.cluster.find(reference);
            let node = node.filter(|&node| self.cluster.place(node, &request, devices));
            let node = node.ok_or_else(|| self.bad_placement(arrival, spec))?;
            self.changed = Some(node);
            self.fragments.update(node, &self.cluster);
        }
        self.count(spec, best.is_some());
        Ok(Sample {
            arrived_milli: self.arrived_milli,
            used_milli: self.cluster.used_milli(),
            fragment_milli: self.fragments.milli(),
        })
    }

    /// What the scheduler does for a pod: sync the node that changed, then decide.
    fn decide(
        &mut self,
        request: &PodRequest,
    ) -> Result<Option<(NodeRef, DeviceMask)>, KernelError> {
        let salt = match self.ties {
            Ties::Rank => 0,
            Ties::Random => self.salts.next_u64() | 1,
        };
        let mut pods = Vec::new();
        let changed = self.changed.take().map(|node| self.cluster.delta(node, &mut pods));
        let upserts = changed.as_slice();
        let mut references = [NodeRef::NIL];
        let arrival = Some(*request);
        let batch = SyncBatch { upserts, pods: &pods, arrival, ..SyncBatch::default() };
        let start = Instant::now();
        self.kernel.sync(&batch, &mut references[..upserts.len()])?;
        let decision = self.kernel.decide(request, Candidates::All, salt, None)?;
        self.kernel_time += start.elapsed();
        debug_assert!(
            decision.best.is_some() || !self.cluster.fits_somewhere(request),
            "only a pod that fits nowhere is rejected"
        );
        Ok(decision.best)
    }

    fn count(&mut self, spec: &PodSpec, placed: bool) {
        let milli = spec.gpu_milli_total();
        self.turned_one_away |= !placed && spec.num_gpu <= 1 && !spec.is_constrained();
        self.arrived_milli += milli;
        if !self.turned_one_away {
            self.accepted_until_milli = self.arrived_milli;
        }
        self.rejected += usize::from(!placed);
        self.gpu.count(milli, placed);
        if spec.num_gpu == 8 {
            self.eight_gpu.count(milli, placed);
        }
        if spec.is_constrained() {
            self.constrained.count(milli, placed);
        }
    }

    fn refused(&self, arrival: usize, pod: &PodSpec, source: KernelError) -> RunError {
        let (policy, seed) = (self.policy, self.seed);
        let what = format!("pod {} (arrival {arrival})", pod.name);
        let (trace, source) = (self.trace.name.clone(), Box::new(source));
        RunError::Kernel { trace, policy, seed, what, source }
    }

    fn bad_placement(&self, arrival: usize, pod: &PodSpec) -> RunError {
        let (trace, pod) = (self.trace.name.clone(), pod.name.clone());
        RunError::BadPlacement { trace, policy: self.policy, seed: self.seed, arrival, pod }
    }
}

/// Fragment amount F of the cluster, kept up to date node by node.
struct Fragments {
    typical: TypicalPods,
    /// F of every node times the total weight of the typical pods.
    amounts: Vec<u64>,
    sum: u64,
}

impl Fragments {
    fn new(typical: TypicalPods, cluster: &SimCluster) -> Fragments {
        let amounts: Vec<u64> =
            (0..cluster.len()).map(|node| typical.amount(cluster.shape(node))).collect();
        Fragments { typical, sum: amounts.iter().sum(), amounts }
    }

    fn update(&mut self, node: usize, cluster: &SimCluster) {
        let amount = self.typical.amount(cluster.shape(node));
        self.sum = self.sum - self.amounts[node] + amount;
        self.amounts[node] = amount;
    }

    /// Thousandths of a GPU.
    fn milli(&self) -> f64 {
        self.sum as f64 / self.typical.total_weight() as f64
    }
}
