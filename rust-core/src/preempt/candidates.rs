//! Which nodes could be made to fit, and at what cost at least.

use super::board::Board;
use super::cost::Cost;
use super::scene::{Role, Scene};
use crate::filter::{self, Reason, Unfit};
use crate::limits::MAX_GPUS_PER_NODE;
use crate::request::{GpuRequest, PodRequest};
use crate::units::{MemoryBytes, MilliCpu, MilliGpu};

/// Divisible by every number of cards, so that one unit split over its cards stays whole.
pub(super) const SPLIT: u32 = 720_720;

/// The least that freeing each card costs, when the cost of a unit is split over its cards of this node: the sum over
/// any set of cards is never more than taking all their units. `None` for a card that is free or cannot be freed.
pub(super) type CardShares = [Option<CostShare>; MAX_GPUS_PER_NODE];

/// A part of what a unit costs; units in parts of [`SPLIT`].
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct CostShare {
    pub(super) lost: i64,
    pub(super) tier1_parts: u32,
    pub(super) unit_parts: u32,
}

/// The least that freeing some cards costs, in every component on its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Least {
    pub(super) lost: i64,
    pub(super) tier1_units: u32,
    pub(super) units: u32,
}

/// Free milli-GPU per device if every pod that may go went, and the CPU and memory then.
pub(super) struct Emptied {
    pub(super) levels: [u16; MAX_GPUS_PER_NODE],
    pub(super) cpu: i64,
    pub(super) memory: i64,
    /// GPU of pods that stay.
    pub(super) fixed_milli: u64,
}

/// The least cost at which `request` can have room on the slot, in every component on its own.
///
/// # Errors
/// What stands in the way even if every pod that may go went, with the milli-GPU that cannot go.
pub(super) fn survey(
    board: &mut Board,
    scene: &Scene<'_>,
    slot: usize,
    request: &PodRequest,
) -> Result<Cost, (Unfit, u64)> {
    let none = |reason| (Unfit { reason, need: 0, have: 0, largest_free: 0 }, 0);
    if !scene.cluster.is_live(slot) {
        return Err(none(Reason::NoNode));
    }
    if !request.models.contains(scene.cluster.model(slot)) {
        return Err(none(Reason::ModelMismatch));
    }
    let share = matches!(request.gpu, GpuRequest::Share { .. });
    if share && !scene.cluster.shares_offered(slot) {
        return Err(none(Reason::SharesNotOffered));
    }
    let gpu_fits = board.fits_gpu(scene, slot, request);
    if gpu_fits && board.fits_host(slot, request) {
        return Ok(board.cost);
    }
    let emptied = emptied(board, scene, slot);
    if !would_fit(&emptied, request) {
        return Err((closed(scene, slot, request, &emptied), emptied.fixed_milli));
    }
    let cheapest = cheapest_piece(board, slot, !gpu_fits);
    let mut bound = board.cost;
    bound.units += 1;
    bound.tier1_units += u32::from(cheapest.0);
    let mut lost = cheapest.1;
    if let GpuRequest::Whole { count } = request.gpu
        && !gpu_fits
        && !board.has_unknown(slot)
    {
        let levels = board.levels(scene, slot);
        let shares = card_shares(board, slot, &levels, &emptied.levels);
        let free = levels.iter().filter(|&&level| level == 1_000).count();
        let least = least_of(&shares, 0, usize::from(count) - free);
        lost = lost.max(least.lost);
        bound.tier1_units = bound.tier1_units.max(board.cost.tier1_units + least.tier1_units);
        bound.units = board.cost.units + least.units;
    }
    bound.lost_milli_gpu_seconds = bound.lost_milli_gpu_seconds.saturating_add(lost);
    Ok(bound)
}

/// What the slot could offer at most.
pub(super) fn emptied(board: &mut Board, scene: &Scene<'_>, slot: usize) -> Emptied {
    let state = &board.slots[slot];
    let mut out = Emptied {
        levels: [0; MAX_GPUS_PER_NODE],
        cpu: state.cpu,
        memory: state.memory,
        fixed_milli: 0,
    };
    let mut removable = [0u32; MAX_GPUS_PER_NODE];
    let (mut asked, unknown) = (Vec::new(), board.has_unknown(slot));
    for index in board.on_slot(slot) {
        let piece = &board.pieces[index as usize];
        if piece.gone {
            continue;
        }
        if !board.may_go(index) {
            out.fixed_milli += u64::from(piece.milli);
            continue;
        }
        out.cpu += piece.cpu;
        out.memory += piece.memory;
        for device in piece.devices.iter() {
            removable[device] += u32::from(piece.card_milli);
        }
        if unknown {
            asked.push(index);
        }
    }
    if unknown {
        for &index in &asked {
            board.pieces[index as usize].gone = true;
        }
        out.levels = board.levels(scene, slot);
        for &index in &asked {
            board.pieces[index as usize].gone = false;
        }
    } else {
        out.levels = board.levels_without(slot, &removable);
    }
    out
}

fn would_fit(emptied: &Emptied, request: &PodRequest) -> bool {
    let gpu = match request.gpu {
        GpuRequest::None => true,
        GpuRequest::Whole { count } => {
            emptied.levels.iter().filter(|&&level| level == 1_000).count() >= usize::from(count)
        }
        GpuRequest::Share { milli } => emptied.levels.iter().any(|&level| level >= milli.get()),
    };
    gpu && (request.cpu.0 == 0 || request.cpu.0 <= emptied.cpu)
        && (request.memory.0 == 0 || request.memory.0 <= emptied.memory)
}

fn closed(scene: &Scene<'_>, slot: usize, request: &PodRequest, emptied: &Emptied) -> Unfit {
    let mut view = scene.cluster.view(slot);
    view.shape.free = emptied.levels.map(|level| MilliGpu::clamped(i64::from(level)));
    view.shape.cpu_free = MilliCpu(emptied.cpu);
    view.memory_free = MemoryBytes(emptied.memory);
    let unknown = Unfit { reason: Reason::InsufficientGpu, need: 0, have: 0, largest_free: 0 };
    filter::check(&view, request).err().unwrap_or(unknown)
}

/// Whether even the cheapest unit is of tier 1, and the least lost work of one eviction.
fn cheapest_piece(board: &Board, slot: usize, with_gpu: bool) -> (bool, i64) {
    let mut cheapest = (true, i64::MAX);
    for index in board.on_slot(slot) {
        let piece = &board.pieces[index as usize];
        if piece.gone || !board.may_go(index) || (with_gpu && piece.milli == 0) {
            continue;
        }
        let tier1 = piece.role == Role::Victim { tier1: true };
        cheapest = (cheapest.0 && tier1, cheapest.1.min(piece.lost));
    }
    if cheapest.1 == i64::MAX { (false, 0) } else { cheapest }
}

/// See [`CardShares`].
pub(super) fn card_shares(
    board: &Board,
    slot: usize,
    levels: &[u16; MAX_GPUS_PER_NODE],
    emptied: &[u16; MAX_GPUS_PER_NODE],
) -> CardShares {
    let mut shares: CardShares = [None; MAX_GPUS_PER_NODE];
    for (device, share) in shares.iter_mut().enumerate() {
        if levels[device] < 1_000 && emptied[device] == 1_000 {
            *share = Some(CostShare::default());
        }
    }
    for index in board.on_slot(slot) {
        let piece = &board.pieces[index as usize];
        if piece.gone || piece.devices.is_empty() {
            continue;
        }
        let Role::Victim { tier1 } = piece.role else { continue };
        let part = board.split_cost(index, tier1);
        for device in piece.devices.iter() {
            if let Some(sum) = &mut shares[device] {
                sum.lost = sum.lost.saturating_add(part.lost);
                sum.tier1_parts = sum.tier1_parts.saturating_add(part.tier1_parts);
                sum.unit_parts = sum.unit_parts.saturating_add(part.unit_parts);
            }
        }
    }
    shares
}

/// The least that freeing `cards` more among the devices from `from` on costs; one unit at least.
pub(super) fn least_of(shares: &CardShares, from: usize, cards: usize) -> Least {
    let mut lost = [i64::MAX; MAX_GPUS_PER_NODE];
    let mut tier1_parts = [u32::MAX; MAX_GPUS_PER_NODE];
    let mut unit_parts = [u32::MAX; MAX_GPUS_PER_NODE];
    let mut len = 0;
    for share in shares[from..].iter().flatten() {
        lost[len] = share.lost;
        tier1_parts[len] = share.tier1_parts;
        unit_parts[len] = share.unit_parts;
        len += 1;
    }
    lost[..len].sort_unstable();
    let cards = cards.min(len);
    Least {
        lost: lost[..cards].iter().fold(0i64, |sum, &lost| sum.saturating_add(lost)),
        tier1_units: least_units(&mut tier1_parts[..len], cards),
        units: least_units(&mut unit_parts[..len], cards).max(1),
    }
}

fn least_units(parts: &mut [u32], cards: usize) -> u32 {
    parts.sort_unstable();
    let sum: u64 = parts[..cards].iter().map(|&parts| u64::from(parts)).sum();
    sum.div_ceil(u64::from(SPLIT)) as u32
}
