//! Exact choice of victims on one node: branch and bound over cards, then over pods.
//!
//! A request for whole cards branches over the cards to free (what must go then follows), a share over the pods of each
//! card, CPU and memory over the pods left. Equal pods are tried once. The search is exact within its budget.

use super::board::{Board, Piece};
use super::candidates::{Emptied, card_shares, emptied, least_of};
use super::cost::Cost;
use super::scene::{Role, Scene};
use crate::cluster::FreeShape;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::request::{GpuRequest, PodRequest};
use crate::units::{DeviceMask, MilliCpu, MilliGpu};

/// The expected stranded milli-GPU of a free shape: between 0 and what is idle, whatever the order of the cards. Answers
/// beyond these bounds are brought back to them.
pub type StrandedOf<'s> = dyn FnMut(&FreeShape) -> i64 + 's;

/// Victims on one node.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) cost: Cost,
    /// Pods to take, in this order; gangs follow from them.
    pub(super) requests: Vec<u32>,
}

/// How much may still be looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) left: u64,
    pub(super) used: u64,
    pub(super) exhausted: bool,
}

impl Budget {
    pub(super) fn new(expansions: u64) -> Self {
        Self { left: expansions, used: 0, exhausted: false }
    }

    fn spend(&mut self) -> bool {
        if self.left == 0 {
            self.exhausted = true;
            return false;
        }
        self.left -= 1;
        self.used += 1;
        true
    }
}

/// What a node has to beat.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// Nothing.
    Open,
    /// Costs above this one are of no interest.
    AtMost(Cost),
    /// Nor are equal ones.
    Below(Cost),
}

impl Limit {
    /// Whether a plan that costs at least `least` is of no interest.
    pub(super) fn excludes(self, least: Cost) -> bool {
        match self {
            Self::Open => false,
            Self::AtMost(limit) => least > limit,
            Self::Below(limit) => least >= limit,
        }
    }
}

/// The pod that has a card to itself, however many other cards it has.
type Owners = [Option<u32>; MAX_GPUS_PER_NODE];

/// One search on one slot.
pub(super) struct Search<'s, 'a, 'f> {
    board: &'s mut Board,
    scene: &'s Scene<'a>,
    slot: usize,
    request: &'s PodRequest,
    limit: Limit,
    budget: &'s mut Budget,
    stranded: &'s mut StrandedOf<'f>,
    /// Stranded on the slot as it is.
    base: i64,
    emptied: Emptied,
    requests: Vec<u32>,
    best: Option<Found>,
}

/// The cheapest victims that make room for `request` on the slot, if any are within `limit`. The board is left as it
/// was.
pub(super) fn search(
    board: &mut Board,
    scene: &Scene<'_>,
    slot: usize,
    request: &PodRequest,
    limit: Limit,
    budget: &mut Budget,
    stranded: &mut StrandedOf<'_>,
) -> Option<Found> {
    let emptied = emptied(board, scene, slot);
    let base = stranded(&scene.cluster.shape(slot));
    let mut search = Search {
        board,
        scene,
        slot,
        request,
        limit,
        budget,
        stranded,
        base,
        emptied,
        requests: Vec::new(),
        best: None,
    };
    if search.board.has_unknown(slot) {
        search.unknown_cards();
    } else {
        match request.gpu {
            GpuRequest::None => search.host(),
            GpuRequest::Whole { count } => search.cards(0, usize::from(count)),
            GpuRequest::Share { milli } => search.share(milli.get()),
        }
    }
    search.best
}

impl Search<'_, '_, '_> {
    /// Whether nothing from here can beat the best, even if it stranded nothing. Of equals the first stays.
    fn hopeless(&self, victims: Cost) -> bool {
        let least = Cost { stranded_milli: -self.base, ..victims };
        self.limit.excludes(least) || self.best.as_ref().is_some_and(|best| least >= best.cost)
    }

    /// Takes a pod and goes on; back to where it was afterwards.
    fn with(&mut self, index: u32, go_on: impl FnOnce(&mut Self)) {
        if !self.budget.spend() {
            return;
        }
        let mark = self.board.mark();
        if self.board.take(self.scene, index) && !self.hopeless(self.board.cost) {
            self.requests.push(index);
            go_on(self);
            self.requests.pop();
        }
        self.board.undo(self.scene, mark);
    }

    /// Frees cards from `from` on until `count` are free.
    fn cards(&mut self, from: usize, count: usize) {
        let levels = self.board.levels(self.scene, self.slot);
        let free = levels.iter().filter(|&&level| level == 1_000).count();
        if free >= count {
            return self.host();
        }
        let missing = count - free;
        let shares = card_shares(self.board, self.slot, &levels, &self.emptied.levels);
        let least = least_of(&shares, from, missing);
        let mut bound = self.board.cost;
        bound.lost_milli_gpu_seconds = bound.lost_milli_gpu_seconds.saturating_add(least.lost);
        bound.tier1_units += least.tier1_units;
        bound.units += least.units;
        if self.hopeless(bound) {
            return;
        }
        let mut order = [0usize; MAX_GPUS_PER_NODE];
        let mut len = 0;
        for (device, share) in shares.iter().enumerate().skip(from) {
            if share.is_some() {
                order[len] = device;
                len += 1;
            }
        }
        if len < missing {
            return;
        }
        if self.best.is_none() && from == 0 {
            self.dive(&shares, missing, count);
        }
        let owners = self.owners();
        for (at, &device) in order[..=len - missing].iter().enumerate() {
            let tried = &order[..at];
            if !tried.iter().any(|&tried| self.alike_cards(&owners, tried, device)) {
                self.free_card(device, |search| search.cards(device + 1, count));
            }
        }
    }

    /// Whether two cards each hold one pod of one card, and these pods are alike: then one need not be tried after the
    /// other was left out.
    fn alike_cards(&self, owners: &Owners, a: usize, b: usize) -> bool {
        let (Some(a), Some(b)) = (owners[a], owners[b]) else { return false };
        let (a, b) = (&self.board.pieces[a as usize], &self.board.pieces[b as usize]);
        a.devices.count() == 1 && b.devices.count() == 1 && self.alike(a, b)
    }

    /// Whether a card before this one is alike, as it is and once it is empty.
    fn alike_tried(&self, owners: &Owners, device: usize) -> bool {
        let emptied = &self.emptied.levels;
        (0..device).any(|tried| {
            emptied[tried] == emptied[device] && self.alike_cards(owners, tried, device)
        })
    }

    fn owners(&self) -> Owners {
        let mut owners: Owners = [None; MAX_GPUS_PER_NODE];
        let mut taken = 0u32;
        for index in self.board.on_slot(self.slot) {
            let piece = &self.board.pieces[index as usize];
            if piece.gone {
                continue;
            }
            for device in piece.devices.iter() {
                let bit = 1 << device;
                owners[device] = if taken & bit == 0 { Some(index) } else { None };
                taken |= bit;
            }
        }
        owners
    }

    /// A first answer, so that the search can prune: the cheapest cards by their shares.
    fn dive(&mut self, shares: &super::candidates::CardShares, missing: usize, count: usize) {
        let mut cheap = [(u32::MAX, i64::MAX, usize::MAX); MAX_GPUS_PER_NODE];
        for (device, share) in shares.iter().enumerate() {
            if let Some(share) = share {
                cheap[device] = (share.tier1_parts, share.lost, device);
            }
        }
        cheap.sort_unstable();
        self.dive_from(&cheap[..missing], count);
    }

    fn dive_from(&mut self, cards: &[(u32, i64, usize)], count: usize) {
        match cards.split_first() {
            Some((&(_, _, device), rest)) => {
                self.free_card(device, |search| search.dive_from(rest, count));
            }
            None => self.cards(MAX_GPUS_PER_NODE, count),
        }
    }

    /// Takes every pod of a card, one expansion in all.
    fn free_card(&mut self, device: usize, go_on: impl FnOnce(&mut Self)) {
        if !self.budget.spend() {
            return;
        }
        let mark = self.board.mark();
        let asked = self.requests.len();
        let mut possible = true;
        for index in self.board.on_slot(self.slot) {
            let piece = &self.board.pieces[index as usize];
            if piece.gone || !piece.devices.contains(device) {
                continue;
            }
            self.requests.push(index);
            if !self.board.take(self.scene, index) {
                possible = false;
                break;
            }
        }
        if possible && !self.hopeless(self.board.cost) {
            go_on(self);
        }
        self.requests.truncate(asked);
        self.board.undo(self.scene, mark);
    }

    /// Makes room for a share on one card after the other.
    fn share(&mut self, milli: u16) {
        if self.board.fits_gpu(self.scene, self.slot, self.request) {
            return self.host();
        }
        let owners = self.owners();
        for device in 0..MAX_GPUS_PER_NODE {
            if self.emptied.levels[device] < milli || self.alike_tried(&owners, device) {
                continue;
            }
            if let Some(only) = owners[device] {
                self.with(only, |search| search.host());
                continue;
            }
            let list =
                self.sorted(|board, index| board.pieces[index as usize].devices.contains(device));
            self.on_card(&list, 0, device, milli);
        }
    }

    fn on_card(&mut self, list: &[u32], from: usize, device: usize, milli: u16) {
        if self.board.levels(self.scene, self.slot)[device] >= milli {
            return self.host();
        }
        for at in self.distinct(list, from) {
            self.with(list[at], |search| search.on_card(list, at + 1, device, milli));
        }
    }

    /// Cards of unknown identity move when others go: pods are taken one by one.
    fn unknown_cards(&mut self) {
        let list = self.sorted(|board, index| board.pieces[index as usize].milli > 0);
        self.until_gpu_fits(&list, 0);
    }

    fn until_gpu_fits(&mut self, list: &[u32], from: usize) {
        if self.board.fits_gpu(self.scene, self.slot, self.request) {
            return self.host();
        }
        for at in self.distinct(list, from) {
            self.with(list[at], |search| search.until_gpu_fits(list, at + 1));
        }
    }

    /// Frees CPU and memory.
    fn host(&mut self) {
        if self.board.fits_host(self.slot, self.request) {
            return self.leaf();
        }
        let list = self.sorted(|board, index| {
            let piece = &board.pieces[index as usize];
            piece.cpu > 0 || piece.memory > 0
        });
        self.until_host_fits(&list, 0);
    }

    fn until_host_fits(&mut self, list: &[u32], from: usize) {
        if self.board.fits_host(self.slot, self.request) {
            return self.leaf();
        }
        let slot = &self.board.slots[self.slot];
        let (need_cpu, need_memory) =
            (self.request.cpu.0 - slot.cpu, self.request.memory.0 - slot.memory);
        let (mut cpu, mut memory, mut largest) = (0i64, 0i64, 1i64);
        for &index in &list[from..] {
            let piece = &self.board.pieces[index as usize];
            if !piece.gone {
                cpu += piece.cpu;
                memory += piece.memory;
                largest = largest.max(piece.cpu);
            }
        }
        let short = |need: i64, have: i64, asked: i64| asked > 0 && need > have;
        if short(need_cpu, cpu, self.request.cpu.0)
            || short(need_memory, memory, self.request.memory.0)
        {
            return;
        }
        let mut bound = self.board.cost;
        bound.units += 1;
        if self.hopeless(bound) {
            return;
        }
        for at in self.distinct(list, from) {
            self.with(list[at], |search| search.until_host_fits(list, at + 1));
        }
    }

    /// Pods that may go and pass `wanted`, cheapest first, equals together.
    fn sorted(&self, wanted: impl Fn(&Board, u32) -> bool) -> Vec<u32> {
        let board = &*self.board;
        let mut list: Vec<u32> = board
            .on_slot(self.slot)
            .filter(|&index| {
                !board.pieces[index as usize].gone && board.may_go(index) && wanted(board, index)
            })
            .collect();
        list.sort_by_key(|&index| {
            let piece = &board.pieces[index as usize];
            let tier1 = piece.role == Role::Victim { tier1: true };
            (tier1, piece.lost, -piece.cpu, -piece.memory, piece.milli, piece.devices.0, index)
        });
        list
    }

    /// Positions from `from` on whose pods are there and unlike the one just before.
    fn distinct(&self, list: &[u32], from: usize) -> Vec<usize> {
        (from..list.len())
            .filter(|&at| {
                let here = &self.board.pieces[list[at] as usize];
                let tried = at > from && {
                    let before = &self.board.pieces[list[at - 1] as usize];
                    !before.gone && before.devices == here.devices && self.alike(before, here)
                };
                !here.gone && !tried
            })
            .collect()
    }

    /// Whether taking one pod or the other comes to the same.
    fn alike(&self, a: &Piece, b: &Piece) -> bool {
        let size = |piece: &Piece| (piece.cpu, piece.memory, piece.milli);
        let known = !a.unknown && !b.unknown;
        let free = |piece: &Piece| self.scene.facts(piece).budget_count == 0;
        let cost = |piece: &Piece| (piece.role, piece.lost, piece.gang);
        known && size(a) == size(b) && cost(a) == cost(b) && free(a) && free(b)
    }

    /// The pod fits: keeps the victims if they are the best so far.
    fn leaf(&mut self) {
        let victims = self.board.cost;
        if self.hopeless(victims) {
            return;
        }
        let shape = self.board.shape(self.scene, self.slot);
        let Some((_, stranded)) = choose_devices(&shape, self.request, self.stranded) else {
            return;
        };
        let cost = Cost { stranded_milli: stranded - self.base, ..victims };
        if self.best.as_ref().is_none_or(|best| cost < best.cost) {
            self.best = Some(Found { cost, requests: self.requests.clone() });
        }
    }
}

/// The devices that strand least, and how much is stranded then: whole cards take the first free ones, a share the best
/// of the distinct levels, tightest first.
pub(super) fn choose_devices(
    shape: &FreeShape,
    request: &PodRequest,
    stranded: &mut StrandedOf<'_>,
) -> Option<(DeviceMask, i64)> {
    let cpu: MilliCpu = request.cpu;
    match request.gpu {
        GpuRequest::None => {
            let after = shape.after(cpu, request.gpu.milli(), DeviceMask::EMPTY);
            Some((DeviceMask::EMPTY, stranded(&after)))
        }
        GpuRequest::Whole { count } => {
            let mut devices = DeviceMask::EMPTY;
            for (device, level) in shape.levels().iter().enumerate() {
                if level.get() == 1_000 && devices.count() < u32::from(count) {
                    devices = devices.with(device);
                }
            }
            let full = devices.count() == u32::from(count);
            full.then(|| (devices, stranded(&shape.after(cpu, request.gpu.milli(), devices))))
        }
        GpuRequest::Share { milli } => {
            let levels = shape.levels();
            let mut order = [(MilliGpu::ZERO, 0); MAX_GPUS_PER_NODE];
            let mut len = 0;
            for (device, &level) in levels.iter().enumerate() {
                let known = order[..len].iter().any(|&(other, _)| other == level);
                if level >= milli && !known {
                    order[len] = (level, device);
                    len += 1;
                }
            }
            order[..len].sort_unstable();
            order[..len]
                .iter()
                .map(|&(_, device)| {
                    let devices = DeviceMask::only(device);
                    (devices, stranded(&shape.after(cpu, milli, devices)))
                })
                .min_by_key(|&(_, stranded)| stranded)
        }
    }
}
