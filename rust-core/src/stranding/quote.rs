//! Placements with the prices left open, so that a change of prices costs no new look at the nodes.

use super::loss::RowId;
use super::measure::cost;
use super::{NodeShapes, Stranding, choice};
use crate::cluster::FreeShape;
use crate::request::{GpuRequest, Kind};
use crate::score::{Placed, first_whole};
use crate::units::DeviceMask;
use crate::workers::Workers;

/// Device choices that a quote holds. A share on a node with more distinct free amounts than this is quoted as
/// [`Quote::OPEN`] and computed anew each time.
const OPTIONS: usize = 4;

/// One choice of devices: rise of W', and which places are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct QuotedOption {
    waste: i32,
    row: RowId,
}

/// What is to be done with a slot's quote.
pub(crate) enum Look {
    /// It is as it was.
    Keep,
    /// The kind does not fit there.
    Unfit,
    /// The node is this now.
    At(FreeShape),
}

/// Choices of devices for one kind on one node, tightest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Quote {
    options: [QuotedOption; OPTIONS],
}

/// No option was cheapest yet.
const NO_CHOICE: u8 = u8::MAX;
const NO_OPTION: QuotedOption = QuotedOption { waste: 0, row: RowId(u32::MAX) };
const OPEN_OPTION: QuotedOption = QuotedOption { waste: 0, row: RowId(u32::MAX - 1) };

impl Quote {
    /// The kind does not fit.
    pub(super) const UNFIT: Self = Self { options: [NO_OPTION; OPTIONS] };
    /// Fits, but nothing is remembered.
    pub(super) const OPEN: Self = Self { options: [OPEN_OPTION; OPTIONS] };

    /// Adds option number `number`; false if there is no room for it.
    pub(super) fn offer(&mut self, number: usize, waste_rise: i32, row: RowId) -> bool {
        let Some(option) = self.options.get_mut(number) else { return false };
        *option = QuotedOption { waste: waste_rise, row };
        true
    }

    /// Gives rows from `first` on the numbers they have now; open if one has none.
    pub(super) fn renumber(&mut self, first: u32, numbers: &[Option<RowId>]) {
        for option in &mut self.options {
            let own = option.row.0.wrapping_sub(first) as usize;
            if *option == NO_OPTION || *option == OPEN_OPTION || option.row.0 < first {
                continue;
            }
            match numbers[own] {
                Some(row) => option.row = row,
                None => {
                    *self = Self::OPEN;
                    return;
                }
            }
        }
    }
}

/// Quotes of one kind for the nodes of a cluster, by slot. Valid while [`Stranding::mix_epoch`] stays the same; then
/// only slots whose free shape changed need [`Quotes::set`], and a change of [`Stranding::price_epoch`] needs one
/// [`Quotes::reprice`]. 33 bytes per slot.
#[derive(Clone, Debug)]
pub struct Quotes {
    kind: Kind,
    quotes: Vec<Quote>,
    /// Option that was cheapest at the last price.
    chosen: Vec<u8>,
}

impl Quotes {
    /// Nothing fits anywhere yet.
    #[must_use]
    pub fn new(kind: Kind, slots: usize) -> Self {
        let mut quotes = Self { kind, quotes: Vec::new(), chosen: Vec::new() };
        quotes.resize(slots);
        quotes
    }

    /// Makes room for `slots` nodes; new ones do not fit.
    pub fn resize(&mut self, slots: usize) {
        self.quotes.resize(slots, Quote::UNFIT);
        self.chosen.resize(slots, 0);
    }

    /// Starts over with another kind or mix, keeping the memory.
    pub fn restart(&mut self, kind: Kind, slots: usize) {
        self.kind = kind;
        self.quotes.clear();
        self.chosen.clear();
        self.resize(slots);
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.quotes.capacity() * size_of::<Quote>() + self.chosen.capacity()
    }

    /// Takes the node out of `slot`: the kind does not fit there, for whatever reason the caller has.
    pub fn clear(&mut self, slot: usize) {
        self.quotes[slot] = Quote::UNFIT;
    }

    /// Quotes the node in `slot` anew and returns its placement, the same as [`Stranding::place`].
    pub fn set(
        &mut self,
        slot: usize,
        stranding: &mut Stranding,
        free: &FreeShape,
    ) -> Option<Placed> {
        let quote = stranding.lookup().quote(free, &self.kind);
        self.quotes[slot] = quote;
        if quote == Quote::UNFIT {
            return None;
        }
        if quote == Quote::OPEN {
            return stranding.place(free, &self.kind);
        }
        let (cost, option) = stranding.cheapest(&quote);
        self.chosen[slot] = option;
        Some(Placed { cost, devices: devices(free, &self.kind, option) })
    }

    /// Quotes the slots that `look` names, sharing the work out to `workers`. Then [`Quotes::reprice`] is due.
    pub(crate) fn fill(
        &mut self,
        stranding: &mut Stranding,
        workers: &dyn Workers,
        look: &(dyn Fn(usize) -> Look + Sync),
    ) {
        stranding.quote_all(&self.kind, &mut self.quotes, workers, look);
        self.chosen.fill(NO_CHOICE);
    }

    /// Writes the placements at the present prices for all slots where the kind fits; the others stay as they are.
    /// `devices` must hold what was last written for these slots. Slices are as long as there are slots.
    pub fn reprice(
        &mut self,
        stranding: &mut Stranding,
        nodes: &dyn NodeShapes,
        costs: &mut [i64],
        device_masks: &mut [DeviceMask],
    ) {
        let slots = self.quotes.iter().zip(&mut self.chosen).zip(costs).zip(device_masks);
        for (slot, (((quote, chosen), cost), mask)) in slots.enumerate() {
            if quote.options[0] == NO_OPTION {
                continue;
            }
            if quote.options[0] == OPEN_OPTION {
                if let Some(placed) = stranding.place(&nodes.shape(slot), &self.kind) {
                    (*cost, *mask) = (placed.cost, placed.devices);
                }
                continue;
            }
            let (least, option) = stranding.cheapest(quote);
            *cost = least;
            if option != *chosen {
                *chosen = option;
                *mask = devices(&nodes.shape(slot), &self.kind, option);
            }
        }
    }
}

/// The devices of option number `option`.
fn devices(free: &FreeShape, kind: &Kind, option: u8) -> DeviceMask {
    match kind.gpu {
        GpuRequest::None => DeviceMask::EMPTY,
        GpuRequest::Whole { count } => first_whole(free, count).unwrap_or(DeviceMask::EMPTY),
        GpuRequest::Share { milli } => {
            let mut level = milli.get();
            for number in 0..=option {
                let above = |l: u16| if number == 0 { l >= level } else { l > level };
                let next = choice::levels(free).map(|(_, l)| l).filter(|&l| above(l)).min();
                level = next.unwrap_or(level);
            }
            choice::first_at(free, level)
        }
    }
}

impl Stranding {
    /// Least cost among the options of a quote that holds some, and its number; the first of equals.
    #[inline]
    fn cheapest(&mut self, quote: &Quote) -> (i64, u8) {
        let mut best = (self.cost_of(quote.options[0]), 0);
        for number in 1..OPTIONS {
            let option = quote.options[number];
            if option == NO_OPTION {
                break;
            }
            let cost = self.cost_of(option);
            if cost < best.0 {
                best = (cost, number as u8);
            }
        }
        best
    }

    #[inline]
    fn cost_of(&mut self, option: QuotedOption) -> i64 {
        let lost =
            self.tables.losses.price(option.row, &self.measure.prices, self.measure.price_stamp);
        cost(i64::from(option.waste), lost)
    }
}
