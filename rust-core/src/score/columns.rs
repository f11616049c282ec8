//! A bounded cache of what every node costs for a request.
//!
//! A column holds the cost and devices of one request on every slot. Looking one up brings it up to date: only nodes
//! that changed since it was last used are scored again, or all of them after mix or prices changed. Columns never
//! change an answer, only how long it takes.

use std::collections::HashMap;

use super::column::{BLOCK, Column};
use super::scorer::Scorer;
use crate::cluster::Cluster;
use crate::hash::MixBuild;
use crate::request::{Kind, PodRequest};
use crate::units::MemoryBytes;
use crate::workers::Workers;

/// What a column is of: all of a request that its costs depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ColumnKey {
    pub(crate) kind: Kind,
    pub(crate) memory: MemoryBytes,
}

/// Counters of the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ColumnStats {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) nodes_scored: u64,
}

/// Columns by request, least recently used out first.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    position: HashMap<ColumnKey, usize, MixBuild>,
    budget_bytes: usize,
    clock: u64,
    /// Bytes of one column.
    column_bytes: usize,
    pub(crate) stats: ColumnStats,
}

impl Columns {
    /// At most `budget_bytes` of columns, though always one.
    pub(crate) fn new(budget_bytes: usize) -> Self {
        Self {
            columns: Vec::new(),
            position: HashMap::default(),
            budget_bytes,
            clock: 0,
            column_bytes: 1,
            stats: ColumnStats::default(),
        }
    }

    /// Bytes of all columns.
    pub(crate) fn bytes(&self) -> usize {
        self.columns.len() * self.column_bytes
    }

    /// Brings the column of a request up to date and returns its position, good until the next call.
    pub(crate) fn prepare(
        &mut self,
        cluster: &Cluster,
        scorer: &mut Scorer,
        request: &PodRequest,
        workers: &dyn Workers,
    ) -> usize {
        self.clock += 1;
        self.column_bytes = Column::bytes(cluster.slots(), scorer.column_slot_bytes());
        let key = ColumnKey { kind: request.kind(), memory: scorer.memory_in_cost(request) };
        let position = match self.position.get(&key) {
            Some(&position) => {
                self.stats.hits += 1;
                position
            }
            None => {
                self.stats.misses += 1;
                self.insert(key)
            }
        };
        let column = &mut self.columns[position];
        column.used = self.clock;
        self.stats.nodes_scored += column.refresh(cluster, scorer, request, workers);
        position
    }

    /// The column at a position from [`Columns::prepare`].
    pub(crate) fn at(&self, position: usize) -> &Column {
        &self.columns[position]
    }

    /// As [`Columns::at`], to mask slots.
    pub(crate) fn at_mut(&mut self, position: usize) -> &mut Column {
        &mut self.columns[position]
    }

    fn insert(&mut self, key: ColumnKey) -> usize {
        let room = (self.budget_bytes / self.column_bytes).max(1);
        while self.columns.len() > room {
            let oldest = self.oldest();
            self.position.remove(&self.columns[oldest].key);
            self.columns.swap_remove(oldest);
            if let Some(moved) = self.columns.get(oldest) {
                self.position.insert(moved.key, oldest);
            }
        }
        let position = if self.columns.len() == room {
            // Its memory serves the new column.
            let oldest = self.oldest();
            self.position.remove(&self.columns[oldest].key);
            self.columns[oldest].restart(key);
            oldest
        } else {
            self.columns.push(Column::new(key));
            self.columns.len() - 1
        };
        self.position.insert(key, position);
        position
    }

    fn oldest(&self) -> usize {
        let uses = self.columns.iter().map(|column| column.used).enumerate();
        uses.min_by_key(|&(_, used)| used).map_or(0, |(position, _)| position)
    }
}

/// The least free memory of each block of slots, so that a scan needs to look at single nodes only where memory is
/// short.
#[derive(Debug, Default)]
pub(crate) struct MemoryFloor {
    least: Vec<i64>,
    seen: u64,
}

impl MemoryFloor {
    pub(crate) fn refresh(&mut self, cluster: &Cluster) {
        if self.seen == cluster.last_change() {
            return;
        }
        let blocks = cluster.slots().div_ceil(BLOCK);
        let grown = self.least.len() != blocks;
        self.least.resize(blocks, 0);
        match cluster.changed_since(self.seen) {
            Some(slots) if !grown => {
                for slot in slots {
                    let block = slot as usize / BLOCK;
                    self.least[block] = floor_of(cluster, block);
                }
            }
            _ => {
                for block in 0..blocks {
                    self.least[block] = floor_of(cluster, block);
                }
            }
        }
        self.seen = cluster.last_change();
    }

    /// Whether every node of the block has this much memory.
    #[inline]
    pub(crate) fn covers(&self, block: usize, memory: MemoryBytes) -> bool {
        memory.0 == 0 || memory.0 <= self.least[block]
    }
}

fn floor_of(cluster: &Cluster, block: usize) -> i64 {
    let slots = block * BLOCK..((block + 1) * BLOCK).min(cluster.slots());
    let live = slots.filter(|&slot| cluster.is_live(slot));
    live.map(|slot| cluster.memory_free(slot).0).min().unwrap_or(i64::MAX)
}
