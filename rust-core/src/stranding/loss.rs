//! What placements cost in places: the falls of U, each kept once.
//!
//! A placement lowers the places of every request class by some row of small numbers. Nodes that differ in CPU, and
//! even kinds that differ, share most rows (a few hundred rows for thousands of nodes), while prices change with every
//! refresh. So rows are numbered, quotes name them, and after a refresh each row is multiplied with the prices once.

use super::scarcity::{Places, Prices};
use crate::hash::mix64;

/// Number of a row; valid until the mix changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowId(pub(super) u32);

const VACANT: u32 = u32::MAX;
const FIRST_SLOTS: usize = 1 << 10;

/// Rows of falls for one mix, and their price at the present prices.
#[derive(Debug)]
pub(super) struct Losses {
    width: usize,
    max_rows: usize,
    max_bytes: usize,
    /// `width` falls per row.
    falls: Vec<u16>,
    /// Model class of each row: it decides which kinds lose a place.
    class: Vec<u8>,
    /// Price of each row, and the stamp of the prices it was computed from.
    price: Vec<(u64, u32)>,
    /// Open addressing: row numbers or [`VACANT`].
    slots: Vec<u32>,
}

impl Losses {
    /// At most about `max_bytes` are used.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            width: 0,
            max_rows: 0,
            max_bytes,
            falls: Vec::new(),
            class: Vec::new(),
            price: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Forgets all rows; for a new mix.
    pub(super) fn reset(&mut self, places: &Places) {
        self.width = places.width();
        // The vectors may have grown to twice what they hold, and there are two slots per row at least.
        let row_bytes = self.width * size_of::<u16>() + 1 + size_of::<(u64, u32)>();
        self.max_rows = self.max_bytes / (2 * row_bytes + 4 * size_of::<u32>());
        self.clear();
    }

    fn clear(&mut self) {
        self.falls.clear();
        self.class.clear();
        self.price.clear();
        self.slots.clear();
        self.slots.resize(FIRST_SLOTS, VACANT);
    }

    pub(super) fn bytes(&self) -> usize {
        self.falls.capacity() * size_of::<u16>()
            + self.class.capacity()
            + self.price.capacity() * size_of::<(u64, u32)>()
            + self.slots.capacity() * size_of::<u32>()
    }

    /// Number of rows.
    pub(super) fn len(&self) -> u32 {
        self.class.len() as u32
    }

    /// Number of the row of falls from `before` to `after`, if it is known.
    pub(super) fn find(&self, class: u8, before: &[u16], after: &[u16]) -> Option<RowId> {
        let row = self.slots[self.slot_of(class, before, after)];
        (row != VACANT).then_some(RowId(row))
    }

    /// Number of the row of falls from `before` to `after`; `None` if the table is full.
    pub(super) fn row(&mut self, class: u8, before: &[u16], after: &[u16]) -> Option<RowId> {
        let slot = self.slot_of(class, before, after);
        if self.slots[slot] != VACANT {
            return Some(RowId(self.slots[slot]));
        }
        if self.class.len() >= self.max_rows {
            return None;
        }
        let row = self.class.len() as u32;
        self.slots[slot] = row;
        self.falls.extend(before.iter().zip(after).map(|(before, after)| before - after));
        self.class.push(class);
        self.price.push((0, 0));
        if self.class.len() * 2 > self.slots.len() {
            self.grow();
        }
        Some(RowId(row))
    }

    /// The slot of a row, or the vacant one where it belongs.
    fn slot_of(&self, class: u8, before: &[u16], after: &[u16]) -> usize {
        let mut slot = hash(class, before, after) as usize & (self.slots.len() - 1);
        while self.slots[slot] != VACANT
            && !self.is_row(self.slots[slot] as usize, class, before, after)
        {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    /// Moves all rows over from `other`, which is empty then, and returns their new numbers in order.
    pub(super) fn absorb(&mut self, other: &mut Self) -> Vec<Option<RowId>> {
        let zero = vec![0; self.width];
        let rows = other.falls.chunks_exact(self.width.max(1)).zip(&other.class);
        let numbers = rows.map(|(falls, &class)| self.row(class, falls, &zero)).collect();
        other.clear();
        numbers
    }

    fn is_row(&self, row: usize, class: u8, before: &[u16], after: &[u16]) -> bool {
        let falls = &self.falls[row * self.width..][..self.width];
        let same = |((before, after), fall): ((&u16, &u16), &u16)| before - after == *fall;
        self.class[row] == class && before.iter().zip(after).zip(falls).all(same)
    }

    fn grow(&mut self) {
        let len = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(len, VACANT);
        let zero = vec![0; self.width];
        for row in 0..self.class.len() {
            let falls = &self.falls[row * self.width..][..self.width];
            let mut slot = hash(self.class[row], falls, &zero) as usize & (len - 1);
            while self.slots[slot] != VACANT {
                slot = (slot + 1) & (len - 1);
            }
            self.slots[slot] = row as u32;
        }
    }

    /// sum P_m (U_m before - U_m after) of a row at `prices`, whose stamp is `stamp`.
    #[inline]
    pub(super) fn price(&mut self, row: RowId, prices: &Prices, stamp: u32) -> u64 {
        let row = row.0 as usize;
        let (price, priced_at) = self.price[row];
        if priced_at == stamp {
            return price;
        }
        let falls = &self.falls[row * self.width..][..self.width];
        let price = prices.worth(self.class[row], falls);
        self.price[row] = (price, stamp);
        price
    }
}

fn hash(class: u8, before: &[u16], after: &[u16]) -> u64 {
    let mut hash = mix64(u64::from(class));
    for (before, after) in before.chunks_exact(4).zip(after.chunks_exact(4)) {
        let mut word = 0u64;
        for (before, after) in before.iter().zip(after) {
            word = word << 16 | u64::from(before - after);
        }
        hash = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    mix64(hash)
}
