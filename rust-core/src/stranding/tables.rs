//! What is remembered of a measure: W' by shape, and which places placements cost. Tables hold only what can be
//! computed again, so an answer never depends on them.

use super::choice;
use super::loss::{Losses, RowId};
use super::measure::{Measure, cost};
use super::memo::Memo;
use super::quote::Quote;
use super::scarcity::Places;
use super::shape::Shape;
use crate::cluster::FreeShape;
use crate::request::{GpuRequest, Kind};
use crate::score::{Placed, first_whole};
use crate::units::DeviceMask;

/// Tables, and working memory of a look into them.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) memo: Memo,
    pub(super) losses: Losses,
    row: Vec<u16>,
    row_after: Vec<u16>,
}

impl Tables {
    /// At most about these many bytes for the two tables.
    pub(super) fn new(memo_bytes: usize, loss_bytes: usize) -> Self {
        Self {
            memo: Memo::new(memo_bytes),
            losses: Losses::new(loss_bytes),
            row: Vec::new(),
            row_after: Vec::new(),
        }
    }

    /// For a new mix.
    pub(super) fn reset(&mut self, places: &Places) {
        self.losses.reset(places);
        for row in [&mut self.row, &mut self.row_after] {
            row.clear();
            row.resize(places.width(), 0);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.memo.bytes() + self.losses.bytes()
    }
}

/// A measure that looks into tables first.
pub(super) struct Lookup<'a> {
    pub(super) measure: &'a Measure,
    /// Tables that others read at the same time.
    pub(super) shared: Option<&'a Tables>,
    /// Tables that may be written.
    pub(super) own: &'a mut Tables,
}

impl Lookup<'_> {
    /// W' of a shape.
    fn waste(&mut self, shape: &Shape) -> u32 {
        let stamp = self.measure.mix_stamp;
        let shared = self.shared.and_then(|tables| tables.memo.find(shape, stamp));
        let memo = &mut self.own.memo;
        if let Some(waste) = shared.or_else(|| memo.find(shape, stamp)) {
            memo.hits += 1;
            return waste;
        }
        memo.misses += 1;
        let waste = self.measure.fills.waste(shape);
        memo.insert(shape, stamp, &waste);
        waste.milli
    }

    /// sum P_m U_m of a shape.
    fn worth(&mut self, shape: &Shape) -> u64 {
        self.measure.places.count(shape, &mut self.own.row);
        self.measure.prices.worth(shape.class, &self.own.row)
    }

    /// See [`Stranding::place`](super::Stranding::place).
    pub(super) fn place(&mut self, free: &FreeShape, kind: &Kind) -> Option<Placed> {
        if !choice::fits(free, kind) {
            return None;
        }
        if self.measure.mix.is_empty() {
            return choice::without_mix(free, kind);
        }
        let shape = self.measure.shape_of(free);
        let (waste, worth) = (self.waste(&shape), self.worth(&shape));
        let mut best: Option<(i64, u16)> = None;
        let mut level = 0;
        while let Some(next) = shape.next_level(kind, level) {
            level = next;
            let after = shape.after(kind, level);
            let rise = i64::from(self.waste(&after)) - i64::from(waste);
            let cost = cost(rise, worth - self.worth(&after));
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, level));
            }
        }
        let (cost, level) = best?;
        let devices = match kind.gpu {
            GpuRequest::None => DeviceMask::EMPTY,
            GpuRequest::Whole { count } => first_whole(free, count)?,
            GpuRequest::Share { .. } => choice::first_at(free, level),
        };
        Some(Placed { cost, devices })
    }

    /// What a placement of `kind` would change, prices aside.
    pub(super) fn quote(&mut self, free: &FreeShape, kind: &Kind) -> Quote {
        if !choice::fits(free, kind) {
            return Quote::UNFIT;
        }
        if self.measure.mix.is_empty() {
            return Quote::OPEN;
        }
        let shape = self.measure.shape_of(free);
        let waste = self.waste(&shape);
        self.measure.places.count(&shape, &mut self.own.row);
        let mut quote = Quote::UNFIT;
        let mut options = 0;
        let mut level = 0;
        while let Some(next) = shape.next_level(kind, level) {
            level = next;
            let after = shape.after(kind, level);
            let rise = self.waste(&after).cast_signed() - waste.cast_signed();
            self.measure.places.count(&after, &mut self.own.row_after);
            let Some(row) = self.row(shape.class) else { return Quote::OPEN };
            if !quote.offer(options, rise, row) {
                return Quote::OPEN;
            }
            options += 1;
        }
        quote
    }

    /// Number of the falls between the two rows; those of own tables follow those of the shared ones.
    fn row(&mut self, class: u8) -> Option<RowId> {
        let Tables { losses, row, row_after, .. } = &mut *self.own;
        let Some(shared) = self.shared else { return losses.row(class, row, row_after) };
        shared.losses.find(class, row, row_after).or_else(|| {
            let own = losses.row(class, row, row_after)?;
            Some(RowId(own.0 + shared.losses.len()))
        })
    }
}
