//! Costs of one request on every slot, in blocks with their minimum.

use super::columns::ColumnKey;
use super::scorer::{Epoch, Scorer};
use crate::cluster::Cluster;
use crate::request::PodRequest;
use crate::stranding::Quotes;
use crate::units::DeviceMask;
use crate::workers::Workers;

/// Slots per block.
pub(crate) const BLOCK: usize = 64;
/// If more than one in so many nodes changed, all are looked through.
const FEW: u64 = 4;
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
    epoch: Option<Epoch>,
    /// What the costs are made of, where they change with prices.
    quotes: Option<Quotes>,
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
            quotes: None,
            cost: Vec::new(),
            devices: Vec::new(),
            least: Vec::new(),
            fits: Vec::new(),
            dirty: Vec::new(),
        }
    }

    /// Bytes of a column over this many slots, at `per_slot` bytes each.
    pub(crate) fn bytes(slots: usize, per_slot: usize) -> usize {
        let blocks = slots.div_ceil(BLOCK);
        size_of::<Self>() + slots * per_slot + blocks * 9 + blocks.div_ceil(64) * 8
    }

    /// Makes it an empty column of another request.
    pub(crate) fn restart(&mut self, key: ColumnKey) {
        self.key = key;
        self.epoch = None;
    }

    /// Scores what changed; returns how many nodes were scored. `workers` share the work where that is many.
    pub(crate) fn refresh(
        &mut self,
        cluster: &Cluster,
        scorer: &mut Scorer,
        request: &PodRequest,
        workers: &dyn Workers,
    ) -> u64 {
        let epoch = scorer.epoch();
        let before = self.epoch.replace(epoch);
        if before == Some(epoch) && self.seen == cluster.last_change() {
            return 0;
        }
        self.resize(cluster.slots(), scorer, request);
        let same_mix = before.is_some_and(|before| before.mix == epoch.mix);
        let behind = cluster.last_change() - self.seen;
        let few = same_mix && behind <= cluster.slots() as u64 / FEW;
        let scored = match cluster.changed_since(self.seen).filter(|_| few) {
            Some(changed) => changed
                .map(|slot| self.score(cluster, scorer, request, slot as usize))
                .fold(0, |scored, ()| scored + 1),
            None => self.score_many(cluster, scorer, request, same_mix, workers),
        };
        if let Some(quotes) = &mut self.quotes
            && (!few || before != Some(epoch))
        {
            let stranding = scorer.stranding_mut();
            quotes.reprice(stranding, cluster, &mut self.cost, &mut self.devices);
            (0..self.least.len()).for_each(|block| self.sum_up(block));
        }
        self.sum_up_dirty();
        self.seen = cluster.last_change();
        scored
    }

    /// Scores all nodes, or with `same_mix` those that changed. Quotes have no prices yet then.
    fn score_many(
        &mut self,
        cluster: &Cluster,
        scorer: &mut Scorer,
        request: &PodRequest,
        same_mix: bool,
        workers: &dyn Workers,
    ) -> u64 {
        let seen = self.seen;
        let stale = |&slot: &usize| !same_mix || cluster.version(slot) > seen;
        if let Some(quotes) = &mut self.quotes {
            scorer.quote_all(cluster, request, quotes, workers, &stale);
            for slot in (0..cluster.slots()).filter(stale) {
                (self.cost[slot], self.devices[slot]) = (UNFIT, DeviceMask::EMPTY);
            }
        } else {
            (0..cluster.slots())
                .filter(stale)
                .for_each(|slot| self.score(cluster, scorer, request, slot));
        }
        (0..cluster.slots()).filter(stale).count() as u64
    }

    fn resize(&mut self, slots: usize, scorer: &Scorer, request: &PodRequest) {
        let blocks = slots.div_ceil(BLOCK);
        self.cost.resize(slots, UNFIT);
        self.devices.resize(slots, DeviceMask::EMPTY);
        self.least.resize(blocks, UNFIT);
        self.fits.resize(blocks, 0);
        self.dirty.resize(blocks.div_ceil(64), 0);
        if !scorer.quotes(request.gpu) {
            self.quotes = None;
            return;
        }
        match &mut self.quotes {
            Some(quotes) if *quotes.kind() == self.key.kind => quotes.resize(slots),
            Some(quotes) => quotes.restart(self.key.kind, slots),
            None => self.quotes = Some(Quotes::new(self.key.kind, slots)),
        }
    }

    #[inline]
    fn score(&mut self, cluster: &Cluster, scorer: &mut Scorer, request: &PodRequest, slot: usize) {
        let placed = match &mut self.quotes {
            Some(quotes) => scorer.quote(cluster, slot, request, quotes),
            None => scorer.place(cluster, slot, request),
        };
        let (cost, devices) =
            placed.map_or((UNFIT, DeviceMask::EMPTY), |placed| (placed.cost, placed.devices));
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
