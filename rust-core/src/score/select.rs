//! The total order of candidates, and the scan that finds its first.

use super::column::{BLOCK, Column, UNFIT};
use super::columns::MemoryFloor;
use crate::cluster::Cluster;
use crate::filter::memory_fits;
use crate::hash::mix64;
use crate::units::{MemoryBytes, NodeKey};

/// Cost, then tie hash, then node key: no two nodes are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Rank {
    pub(crate) cost: i64,
    pub(crate) tie: u64,
    pub(crate) key: u64,
}

/// Finds the first candidate of the order and counts the feasible ones.
#[derive(Debug)]
pub(crate) struct Selection {
    tie_seed: u64,
    pub(crate) best: Option<(Rank, usize)>,
    pub(crate) feasible: u32,
}

impl Selection {
    /// The order of equals is that of `mix64(seed ^ node key ^ salt)`.
    pub(crate) fn new(seed: u64, salt: u64) -> Self {
        Self { tie_seed: seed ^ salt, best: None, feasible: 0 }
    }

    /// Offers one feasible candidate.
    #[inline]
    pub(crate) fn offer(&mut self, cluster: &Cluster, slot: usize, cost: i64) {
        self.feasible += 1;
        if self.best.is_some_and(|(best, _)| best.cost < cost) {
            return;
        }
        let key = cluster.key(slot).0;
        let rank = Rank { cost, tie: mix64(self.tie_seed ^ key), key };
        if self.best.is_none_or(|(best, _)| rank < best) {
            self.best = Some((rank, slot));
        }
    }

    /// Offers every slot of a column that fits and has the memory. `block_least` is working memory.
    pub(crate) fn scan(
        &mut self,
        cluster: &Cluster,
        column: &Column,
        memory: MemoryBytes,
        floor: &MemoryFloor,
        block_least: &mut Vec<i64>,
    ) {
        let free = cluster.memory_column();
        block_least.clear();
        let mut least = UNFIT;
        for (block, (&block_cost, &fits)) in column.least.iter().zip(&column.fits).enumerate() {
            let mut here = block_cost;
            if here == UNFIT || floor.covers(block, memory) {
                self.feasible += u32::from(fits);
            } else {
                let slots = block * BLOCK..((block + 1) * BLOCK).min(column.cost.len());
                here = UNFIT;
                for (&cost, &free) in column.cost[slots.clone()].iter().zip(&free[slots]) {
                    let fits = cost != UNFIT && memory_fits(free, memory);
                    self.feasible += u32::from(fits);
                    here = here.min(if fits { cost } else { UNFIT });
                }
            }
            least = least.min(here);
            block_least.push(here);
        }
        if least == UNFIT || self.best.is_some_and(|(best, _)| best.cost < least) {
            return;
        }
        for block in (0..block_least.len()).filter(|&block| block_least[block] == least) {
            let first = block * BLOCK;
            let slots = first..(first + BLOCK).min(column.cost.len());
            let covered = floor.covers(block, memory);
            let figures = column.cost[slots.clone()].iter().zip(&free[slots.clone()]);
            for (slot, ((&cost, &free), &NodeKey(key))) in
                slots.clone().zip(figures.zip(&cluster.key_column()[slots]))
            {
                if cost == least && (covered || memory_fits(free, memory)) {
                    let rank = Rank { cost, tie: mix64(self.tie_seed ^ key), key };
                    if self.best.is_none_or(|(best, _)| rank < best) {
                        self.best = Some((rank, slot));
                    }
                }
            }
        }
    }
}
