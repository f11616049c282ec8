//! Costs of one request on every slot, in blocks with their minimum.

use super::columns::ColumnKey;
use super::scorer::Scorer;
use crate::cluster::Cluster;
use crate::request::PodRequest;
use crate::units::DeviceMask;

/// Slots per block.
pub(crate) const BLOCK: usize = 64;
/// Cost where the pod does not fit.
pub(crate) const UNFIT: i64 = i64::MAX;

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) key: ColumnKey,
    /// Clock of the last use.
    pub(crate) used: u64,
    /// Number of the newest change of the cluster that is in the column.
    seen: u64,
    /// Epoch of the scorer that the costs are of; `None` before the first scoring.
    epoch: Option<u64>,
    pub(crate) cost: Vec<i64>,
    pub(crate) devices: Vec<DeviceMask>,
    /// Per block: least cost, and number of slots that fit.
    pub(crate) least: Vec<i64>,
    pub(crate) fits: Vec<u8>,
    /// One bit per block that is to be summed up again.
    dirty: Vec<u64>,
}

impl Column {
    pub(crate) fn new(key: ColumnKey) -> Self {
        Self {
            key,
            used: 0,
            seen: 0,
            epoch: None,
            cost: Vec::new(),
            devices: Vec::new(),
            least: Vec::new(),
            fits: Vec::new(),
            dirty: Vec::new(),
        }
    }

    /// Bytes of a column over this many slots.
    pub(crate) fn bytes(slots: usize) -> usize {
        size_of::<Self>() + slots * 10 + slots.div_ceil(BLOCK) * 9 + slots.div_ceil(BLOCK * 64) * 8
    }

    /// Makes it an empty column of another request.
    pub(crate) fn restart(&mut self, key: ColumnKey) {
        self.key = key;
        self.epoch = None;
    }

    /// Scores what changed; returns how many nodes were scored.
    pub(crate) fn refresh(
        &mut self,
        cluster: &Cluster,
        scorer: &mut Scorer,
        request: &PodRequest,
    ) -> u64 {
        let slots = cluster.slots();
        let current = self.epoch == Some(scorer.epoch());
        if current && self.seen == cluster.last_change() {
            return 0;
        }
        self.resize(slots);
        let behind = cluster.last_change() - self.seen;
        let mut scored = 0;
        match cluster.changed_since(self.seen) {
            Some(changed) if current && behind <= slots as u64 => {
                for slot in changed {
                    self.score(cluster, scorer, request, slot as usize);
                    scored += 1;
                }
            }
            _ => {
                for slot in 0..slots {
                    if !current || cluster.version(slot) > self.seen {
                        self.score(cluster, scorer, request, slot);
                        scored += 1;
                    }
                }
            }
        }
        self.sum_up_dirty();
        self.seen = cluster.last_change();
        self.epoch = Some(scorer.epoch());
        scored
    }

    fn resize(&mut self, slots: usize) {
        let blocks = slots.div_ceil(BLOCK);
        self.cost.resize(slots, UNFIT);
        self.devices.resize(slots, DeviceMask::EMPTY);
        self.least.resize(blocks, UNFIT);
        self.fits.resize(blocks, 0);
        self.dirty.resize(blocks.div_ceil(64), 0);
    }

    #[inline]
    fn score(&mut self, cluster: &Cluster, scorer: &mut Scorer, request: &PodRequest, slot: usize) {
        let (cost, devices) = match scorer.place(cluster, slot, request) {
            Some(placed) => (placed.cost, placed.devices),
            None => (UNFIT, DeviceMask::EMPTY),
        };
        self.devices[slot] = devices;
        self.set_cost(slot, cost);
    }

    #[inline]
    fn set_cost(&mut self, slot: usize, cost: i64) {
        if self.cost[slot] != cost {
            self.cost[slot] = cost;
            let block = slot / BLOCK;
            self.dirty[block / 64] |= 1 << (block % 64);
        }
    }

    fn sum_up_dirty(&mut self) {
        for word in 0..self.dirty.len() {
            let mut bits = std::mem::take(&mut self.dirty[word]);
            while bits != 0 {
                self.sum_up(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    fn sum_up(&mut self, block: usize) {
        let costs = &self.cost[block * BLOCK..((block + 1) * BLOCK).min(self.cost.len())];
        let (mut least, mut fits) = (UNFIT, 0u8);
        for &cost in costs {
            least = least.min(cost);
            fits += u8::from(cost != UNFIT);
        }
        self.least[block] = least;
        self.fits[block] = fits;
    }

    /// Takes a slot out of the scan and returns its cost, for [`Column::unmask`].
    pub(crate) fn mask(&mut self, slot: usize) -> i64 {
        let cost = self.cost[slot];
        self.set_cost(slot, UNFIT);
        self.sum_up_dirty();
        cost
    }

    /// Puts a masked slot back.
    pub(crate) fn unmask(&mut self, slot: usize, cost: i64) {
        self.set_cost(slot, cost);
        self.sum_up_dirty();
    }
}
