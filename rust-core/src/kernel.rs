//! The facade that the C ABI, the simulator and the command line use.

mod decide;
mod learned;
mod mig;
mod types;

use decide::Scratch;
use mig::MigScorer;
pub(crate) use mig::check_mig;
pub use types::{Candidates, Config, Decision, Fragmentation, NodeReason, NodeScore, Stats};

use crate::cluster::{Cluster, SyncBatch, SyncReport};
use crate::error::Error;
use crate::explain::{Explanation, explain};
use crate::filter;
use crate::limits::MAX_MEMO_BYTES;
use crate::request::PodRequest;
use crate::score::{Columns, MemoryFloor, Scorer};
use crate::stranding::{MixMode, Stranding};
use crate::units::{ModelId, ModelSet, NodeRef};
use types::validate_mix;

/// Cluster state, learned mix and scoring in one. Not shared between threads without a lock: every call that decides or
/// syncs takes `&mut self`.
#[derive(Debug)]
pub struct Kernel {
    config: Config,
    cluster: Cluster,
    scorer: Scorer,
    columns: Columns,
    memory_floor: MemoryFloor,
    mig: MigScorer,
    decisions: u64,
    scratch: Scratch,
}

impl Kernel {
    /// A kernel without nodes.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] for a memo bound above 16 GiB or too many mix kinds, [`Error::InvalidValue`] for a mix
    /// that is given but empty or has a kind out of its domain.
    pub fn new(config: Config) -> Result<Self, Error> {
        if config.memo_bytes > MAX_MEMO_BYTES {
            return Err(Error::limit(
                "memo_bytes",
                config.memo_bytes as i128,
                MAX_MEMO_BYTES as i128,
            ));
        }
        if let MixMode::Fixed(counts) = &config.mix {
            validate_mix(counts)?;
        }
        let half = config.memo_bytes / 2;
        let mix = config.mix.clone();
        Ok(Self {
            scorer: Scorer::new(config.strategy, config.score_cpu_only, mix, half),
            columns: Columns::new(half),
            mig: MigScorer::new(config.mig_strategy),
            config,
            cluster: Cluster::new(),
            memory_floor: MemoryFloor::default(),
            decisions: 0,
            scratch: Scratch::default(),
        })
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The id of a GPU model; for the models of nodes only, since it never forgets one.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for an empty name, [`Error::LimitExceeded`] for a name above 63 bytes or a 65th model.
    pub fn intern_model(&mut self, name: &str) -> Result<ModelId, Error> {
        self.cluster.models_mut().intern(name)
    }

    /// The set of the known ones among `names`; unknown ones are left out, so the set may match no node.
    #[must_use]
    pub fn model_set(&self, names: &[&str]) -> ModelSet {
        self.cluster.models().set(names)
    }

    /// Applies changed nodes and writes one reference per upsert; then counts the batch's arrival in the learned mix.
    ///
    /// # Errors
    /// Any error leaves the kernel and `refs` as they were.
    pub fn sync(
        &mut self,
        batch: &SyncBatch<'_>,
        refs: &mut [NodeRef],
    ) -> Result<SyncReport, Error> {
        if let Some(arrival) = &batch.arrival {
            arrival.validate()?;
        }
        let mut report = self.cluster.sync(batch, refs)?;
        if let Some(arrival) = &batch.arrival {
            let before = self.scorer.stranding().stats().arrivals;
            self.scorer.stranding_mut().observe(arrival);
            report.arrival_counted = self.scorer.stranding().stats().arrivals != before;
            if report.arrival_counted {
                self.mig.observe(&arrival.mig);
            }
        }
        Ok(report)
    }

    /// Counts the pods on nodes as past arrivals, in the order of node keys and pod uids (after a restart without a
    /// learned state). Leaves out reservations and pods marked as no sample.
    pub fn learn_from_pods(&mut self) {
        let mut nodes: Vec<NodeRef> = self.cluster.nodes().collect();
        nodes.sort_unstable_by_key(|node| self.cluster.key(node.index as usize));
        for node in nodes {
            for pod in self.cluster.pods(node.index as usize) {
                if pod.no_learn || pod.reservation {
                    continue;
                }
                let mig = self.cluster.asked_mig(node.index as usize, pod);
                self.mig.observe(&mig);
                self.scorer.stranding_mut().observe(&PodRequest {
                    uid: pod.uid,
                    cpu: pod.cpu,
                    memory: pod.memory,
                    gpu: pod.gpu,
                    models: pod.models,
                    priority: pod.priority,
                    tier: pod.tier,
                    mig,
                });
            }
        }
    }

    /// Writes the nodes a pod does not fit and why, in slot order; returns how many there are, which may be more than
    /// `out` has room for.
    pub fn reasons(&self, pod: &PodRequest, out: &mut [NodeReason]) -> usize {
        let mut count = 0;
        for node in self.cluster.nodes() {
            let view = self.cluster.view_for(node.index as usize, pod.uid, pod.priority);
            let checked = filter::check(&view, pod);
            if let Err(unfit) =
                checked.and_then(|()| check_mig(&self.cluster, node.index as usize, pod))
            {
                if let Some(entry) = out.get_mut(count) {
                    *entry = NodeReason { node, unfit };
                }
                count += 1;
            }
        }
        count
    }

    /// How many nodes take a pod, what stands in the way on the others, and how much is free for it.
    #[must_use]
    pub fn explain(&self, pod: &PodRequest) -> Explanation {
        explain(&self.cluster, pod, self.cluster.nodes())
    }

    /// As [`Kernel::explain`], of some nodes.
    ///
    /// # Errors
    /// [`Error::StaleNode`] or [`Error::UnknownNode`] for a candidate.
    pub fn explain_among(
        &self,
        pod: &PodRequest,
        candidates: Candidates<'_>,
    ) -> Result<Explanation, Error> {
        let Candidates::Refs(refs) = candidates else { return Ok(self.explain(pod)) };
        for (position, &node) in refs.iter().enumerate() {
            self.cluster.check_ref(node, || format!("candidates[{position}]"))?;
        }
        Ok(explain(&self.cluster, pod, refs.iter().copied()))
    }

    /// The cluster state.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The learned mix and its prices.
    #[must_use]
    pub fn stranding(&self) -> &Stranding {
        self.scorer.stranding()
    }

    /// Digest of the cluster state: equal for equal nodes and pods, however they were synced.
    #[must_use]
    pub fn digest(&self) -> u128 {
        self.cluster.digest()
    }

    /// The cluster state in canonical order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn export_state(&self) -> Result<Vec<u8>, Error> {
        self.cluster.canonical_bytes()
    }

    /// Replaces the cluster state by exported bytes; the learned mix stays.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] or [`Error::LimitExceeded`] naming what is wrong and where, [`Error::OutOfMemory`];
    /// nothing is changed then.
    pub fn import_state(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.cluster.load_canonical(bytes)
    }

    /// Idle, fragmented and expected stranded GPU over the cluster. Recomputed on each call.
    #[must_use]
    pub fn fragmentation(&self) -> Fragmentation {
        let shapes: Vec<_> =
            self.cluster.nodes().map(|node| self.cluster.shape(node.index as usize)).collect();
        let stranding = self.scorer.stranding();
        Fragmentation {
            capacity_milli: self.cluster.totals().capacity_milli,
            idle_milli: self.cluster.totals().idle_milli,
            fragment_milli: self.scorer.typical_pods().cluster(&shapes).fragment_milli,
            stranded_milli: shapes
                .iter()
                .map(|shape| u64::from(stranding.expected_stranded_milli(shape)))
                .sum(),
            mig_slices: self.cluster.mig_slices(),
            mig_stranded_milli: self.mig.stranded_milli(&self.cluster),
        }
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let stranding = self.scorer.stranding().stats();
        Stats {
            decisions: self.decisions,
            memo_hits: stranding.memo_hits,
            memo_misses: stranding.memo_misses,
            memo_bytes: stranding.memo_bytes as u64,
            column_hits: self.columns.stats.hits,
            column_misses: self.columns.stats.misses,
            column_bytes: self.columns.bytes() as u64,
            nodes_scored: self.columns.stats.nodes_scored,
            arrivals: stranding.arrivals,
            mix_kinds: stranding.mix_kinds as u64,
            relearns: stranding.relearns,
            price_epochs: stranding.price_refreshes,
        }
    }
}
