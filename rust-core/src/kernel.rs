//! The facade that the C ABI, the simulator and the command line use.

use crate::cluster::{Cluster, NodeView, SyncBatch, SyncReport};
use crate::error::Error;
use crate::filter::{self, Reason};
use crate::hash::mix64;
use crate::limits::MAX_MEMO_BYTES;
use crate::request::PodRequest;
use crate::score::{self, Placed, Strategy};
use crate::stranding::MixMode;
use crate::units::{DeviceMask, ModelId, ModelSet, NodeRef};

/// How a kernel decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The scoring rule.
    pub strategy: Strategy,
    /// Seeds the order of equals.
    pub seed: u64,
    /// Where the workload mix comes from.
    pub mix: MixMode,
    /// Score pods without GPUs too: they take CPU beside idle GPUs. Otherwise every feasible node is as good.
    pub score_cpu_only: bool,
    /// Bound of memo tables and score columns together, in bytes.
    pub memo_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            seed: 0,
            mix: MixMode::Learned,
            score_cpu_only: true,
            memo_bytes: 256 << 20,
        }
    }
}

/// The nodes a decision chooses from.
#[derive(Clone, Copy, Debug)]
pub enum Candidates<'a> {
    /// Every node.
    All,
    /// These nodes; one listed twice counts twice.
    Refs(&'a [NodeRef]),
}

/// Outcome of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The best node and the devices to use, `None` when no candidate is feasible.
    pub best: Option<(NodeRef, DeviceMask)>,
    /// Number of feasible candidates.
    pub feasible: u32,
    /// Score of the best, higher is better; `i64::MIN` without one.
    pub score: i64,
}

/// Score of one candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeScore {
    /// Higher is better; `i64::MIN` when the pod does not fit.
    pub score: i64,
    /// Devices the pod would use.
    pub devices: DeviceMask,
    /// Number of the [`Reason`] when the pod does not fit, else 0.
    pub reason: u16,
}

/// How fragmented the idle GPU is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fragmentation {
    /// Idle GPU.
    pub idle_milli: u64,
    /// Fragment amount F of the published measure over the mix.
    pub fragment_milli: u64,
    /// Idle GPU expected to stay idle when nothing more of the mix fits (W).
    pub stranded_milli: u64,
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Decisions taken.
    pub decisions: u64,
    /// Look-ups in memo tables that found their entry.
    pub memo_hits: u64,
    /// Look-ups that had to compute it.
    pub memo_misses: u64,
    /// Bytes of memo tables now.
    pub memo_bytes: u64,
    /// Decisions that found a column of their request.
    pub column_hits: u64,
    /// Decisions that had to build one.
    pub column_misses: u64,
    /// Bytes of columns now.
    pub column_bytes: u64,
    /// Nodes scored anew in columns.
    pub nodes_scored: u64,
    /// Times the mix was relearned.
    pub relearns: u64,
    /// Times the prices were refreshed.
    pub price_epochs: u64,
}

/// Cluster state, learned mix and scoring in one. Not shared between threads without a lock: every call that decides or
/// syncs takes `&mut self`.
#[derive(Debug)]
pub struct Kernel {
    config: Config,
    cluster: Cluster,
    stats: Stats,
}

impl Kernel {
    /// A kernel without nodes.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] for a memo bound above 16 GiB or too many mix kinds, [`Error::InvalidValue`] for a mix
    /// kind out of its domain.
    pub fn new(config: Config) -> Result<Self, Error> {
        if config.memo_bytes > MAX_MEMO_BYTES {
            return Err(Error::limit(
                "memo_bytes",
                config.memo_bytes as i128,
                MAX_MEMO_BYTES as i128,
            ));
        }
        Ok(Self { config, cluster: Cluster::new(), stats: Stats::default() })
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

    /// Applies changed nodes and writes one reference per upsert; counts the batch's arrival in the learned mix.
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
        self.cluster.sync(batch, refs)
    }

    /// Counts the pods on nodes as past arrivals (after a restart without a learned state).
    pub fn learn_from_pods(&mut self) {}

    /// Chooses the best node for a pod: least cost, then the tie hash of seed, node key and `tie_salt`, then node key.
    ///
    /// A salt of 0 in every decision is one fixed order of the nodes, a new salt per decision is a random choice of
    /// equals. `scores`, if given, receives one entry per candidate; for [`Candidates::All`] one per slot
    /// ([`Cluster::slots`]), indexed by [`NodeRef::index`].
    ///
    /// # Errors
    /// [`Error::InvalidValue`] or [`Error::LimitExceeded`] for the request, [`Error::StaleNode`] or
    /// [`Error::UnknownNode`] for a candidate, [`Error::BadLength`] for `scores`.
    pub fn decide(
        &mut self,
        pod: &PodRequest,
        candidates: Candidates<'_>,
        tie_salt: u64,
        mut scores: Option<&mut [NodeScore]>,
    ) -> Result<Decision, Error> {
        pod.validate()?;
        let slots: Vec<u32> = match candidates {
            Candidates::All => (0..self.cluster.slots() as u32).collect(),
            Candidates::Refs(refs) => refs
                .iter()
                .enumerate()
                .map(|(i, &node)| self.cluster.check_ref(node, || format!("candidates[{i}]")))
                .collect::<Result<_, _>>()?,
        };
        if let Some(scores) = scores.as_deref()
            && scores.len() != slots.len()
        {
            return Err(Error::BadLength {
                what: "scores",
                len: scores.len(),
                expected: slots.len().to_string(),
            });
        }
        self.stats.decisions += 1;
        let salt = match self.config.strategy {
            Strategy::Random => mix64(tie_salt ^ mix64(self.stats.decisions)),
            _ => tie_salt,
        };
        let mut decision = Decision { best: None, feasible: 0, score: i64::MIN };
        let mut best_order = (i64::MAX, u64::MAX, u64::MAX);
        for (position, &slot) in slots.iter().enumerate() {
            let slot = slot as usize;
            let placed = self.place(slot, pod);
            if let Some(scores) = scores.as_deref_mut() {
                scores[position] = NodeScore::of(placed);
            }
            let Ok(placed) = placed else { continue };
            decision.feasible += 1;
            let key = self.cluster.key(slot).0;
            let order = (placed.cost, mix64(self.config.seed ^ key ^ salt), key);
            if decision.best.is_none() || order < best_order {
                best_order = order;
                decision.best = Some((self.cluster.node_ref(slot), placed.devices));
                decision.score = -placed.cost;
            }
        }
        Ok(decision)
    }

    fn place(&mut self, slot: usize, pod: &PodRequest) -> Result<Placed, Reason> {
        if !self.cluster.is_live(slot) {
            return Err(Reason::NoNode);
        }
        let node: NodeView = self.cluster.view_for(slot, pod.uid, pod.priority);
        filter::feasible(&node, pod)?;
        score::place(self.config.strategy, &node, pod).ok_or(Reason::InsufficientGpu)
    }

    /// Writes the nodes a pod does not fit and why, in slot order; returns how many there are, which may be more than
    /// `out` has room for.
    pub fn reasons(&self, pod: &PodRequest, out: &mut [(NodeRef, Reason)]) -> usize {
        let mut count = 0;
        for node in self.cluster.nodes() {
            let view = self.cluster.view_for(node.index as usize, pod.uid, pod.priority);
            if let Err(reason) = filter::feasible(&view, pod) {
                if let Some(entry) = out.get_mut(count) {
                    *entry = (node, reason);
                }
                count += 1;
            }
        }
        count
    }

    /// The cluster state.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Idle, fragmented and expected stranded GPU over the cluster.
    #[must_use]
    pub fn fragmentation(&self) -> Fragmentation {
        let idle =
            self.cluster.nodes().map(|n| u64::from(self.cluster.idle_milli(n.index as usize)));
        Fragmentation { idle_milli: idle.sum(), ..Fragmentation::default() }
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl NodeScore {
    fn of(placed: Result<Placed, Reason>) -> Self {
        match placed {
            Ok(placed) => Self { score: -placed.cost, devices: placed.devices, reason: 0 },
            Err(reason) => {
                Self { score: i64::MIN, devices: DeviceMask::EMPTY, reason: reason as u16 }
            }
        }
    }
}
