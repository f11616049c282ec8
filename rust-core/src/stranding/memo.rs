//! A bounded table of W' by free shape. What it holds never changes an answer, only how long it takes.
//!
//! W' is constant over ranges of free CPU, and where CPU is plentiful that range has no upper end: nodes whose free CPU
//! differs share entries. An entry is found by devices, model class and a band of CPU about as wide as its range.

use std::hash::Hasher;

use super::fill::Waste;
use super::shape::Shape;
use crate::hash::MixHasher;
use crate::limits::MAX_GPUS_PER_NODE;

const WAYS: usize = 4;
const FIRST_SETS: usize = 1 << 10;
/// Band of the ranges without an upper end.
const PLENTY: u32 = u32::MAX;
/// Bands per power of two of CPU, as binary digits: each range uses the widest bands that are not wider than it, or
/// the narrowest.
const BAND_DIGITS: [u32; 3] = [3, 6, 9];

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Entry {
    levels: [u16; MAX_GPUS_PER_NODE],
    band: u32,
    least_cpu: i32,
    most_cpu: i32,
    waste: u32,
    /// Mix that `waste` belongs to; 0 for an unused entry.
    mix: u32,
    class: u8,
}

/// Set-associative table: grows by doubling up to its bound, then the oldest entry of a full set goes.
#[derive(Debug)]
pub(super) struct Memo {
    sets: Vec<[Entry; WAYS]>,
    next: Vec<u8>,
    max_sets: usize,
    used: usize,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Memo {
    /// At most `bytes`, but one set at least.
    pub(super) fn new(bytes: usize) -> Self {
        let sets = bytes / (size_of::<[Entry; WAYS]>() + 1);
        let max_sets = if sets == 0 { 1 } else { 1 << sets.ilog2() };
        let first = FIRST_SETS.min(max_sets);
        Self {
            sets: vec![[Entry::default(); WAYS]; first],
            next: vec![0; first],
            max_sets,
            used: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// Bytes held now.
    pub(super) fn bytes(&self) -> usize {
        self.sets.len() * (size_of::<[Entry; WAYS]>() + 1)
    }

    /// W' of `shape` under the mix with stamp `mix`, if it is known.
    #[inline]
    pub(super) fn find(&self, shape: &Shape, mix: u32) -> Option<u32> {
        let devices = hash_devices(&shape.levels, shape.class);
        let in_band = |band| self.find_in(shape, mix, devices, band);
        let narrow = || BAND_DIGITS.into_iter().find_map(|digits| in_band(band(shape.cpu, digits)));
        in_band(PLENTY).or_else(narrow)
    }

    #[inline]
    fn find_in(&self, shape: &Shape, mix: u32, devices: u64, band: u32) -> Option<u32> {
        let fits = |entry: &&Entry| {
            entry.band == band
                && entry.mix == mix
                && entry.least_cpu <= shape.cpu
                && shape.cpu <= entry.most_cpu
                && entry.class == shape.class
                && entry.levels == shape.levels
        };
        self.sets[self.set_of(devices, band)].iter().find(fits).map(|entry| entry.waste)
    }

    /// Remembers a value that [`Memo::find`] did not find. Stamps of mixes start at 1 and only rise.
    pub(super) fn insert(&mut self, shape: &Shape, mix: u32, waste: &Waste) {
        self.make_room(mix);
        let (&least_cpu, &most_cpu) = (waste.cpu.start(), waste.cpu.end());
        let width = (most_cpu - least_cpu).cast_unsigned();
        let narrow = |digits: &u32| shape.cpu.cast_unsigned() >> digits <= width;
        let digits = BAND_DIGITS.into_iter().find(narrow).unwrap_or(BAND_DIGITS[2]);
        let band = if most_cpu == i32::MAX { PLENTY } else { band(shape.cpu, digits) };
        self.put(Entry {
            levels: shape.levels,
            band,
            least_cpu,
            most_cpu,
            waste: waste.milli,
            mix,
            class: shape.class,
        });
    }

    /// Moves the entries of `mix` over from `other`, which is empty then, and its counters.
    pub(super) fn absorb(&mut self, other: &mut Self, mix: u32) {
        for entry in other.sets.iter_mut().flatten() {
            let entry = std::mem::take(entry);
            let known = |set: &[Entry; WAYS]| set.contains(&entry);
            if entry.mix == mix && !known(&self.sets[self.set_of_entry(&entry)]) {
                self.make_room(mix);
                self.put(entry);
            }
        }
        other.used = 0;
        self.hits += std::mem::take(&mut other.hits);
        self.misses += std::mem::take(&mut other.misses);
    }

    fn make_room(&mut self, mix: u32) {
        if self.used > self.sets.len() * WAYS / 2 && self.sets.len() < self.max_sets {
            self.grow(mix);
        }
    }

    fn put(&mut self, entry: Entry) {
        let set = self.set_of_entry(&entry);
        let way = usize::from(self.next[set]);
        self.next[set] = (self.next[set] + 1) % WAYS as u8;
        self.used += usize::from(self.sets[set][way].mix == 0);
        self.sets[set][way] = entry;
    }

    fn grow(&mut self, mix: u32) {
        let len = self.sets.len() * 2;
        let (mut sets, mut next) = (Vec::new(), Vec::new());
        if sets.try_reserve_exact(len).and_then(|()| next.try_reserve_exact(len)).is_err() {
            self.max_sets = self.sets.len(); // what is not remembered is computed again
            return;
        }
        sets.resize(len, [Entry::default(); WAYS]);
        next.resize(len, 0);
        let old = std::mem::replace(&mut self.sets, sets);
        self.next = next;
        self.used = 0;
        for entry in old.iter().flatten().filter(|entry| entry.mix == mix) {
            self.put(*entry);
        }
    }

    fn set_of_entry(&self, entry: &Entry) -> usize {
        self.set_of(hash_devices(&entry.levels, entry.class), entry.band)
    }

    fn set_of(&self, devices: u64, band: u32) -> usize {
        let mut hasher = MixHasher::default();
        hasher.write_u64(devices ^ u64::from(band));
        hasher.finish() as usize & (self.sets.len() - 1)
    }
}

fn hash_devices(levels: &[u16; MAX_GPUS_PER_NODE], class: u8) -> u64 {
    let mut hash = u64::from(class);
    for levels in levels.chunks_exact(4) {
        let word = levels.iter().fold(0u64, |word, &level| word << 16 | u64::from(level));
        hash = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash
}

/// Exponent and leading digits of a CPU figure, told apart from those with another number of digits.
fn band(cpu: i32, digits: u32) -> u32 {
    let cpu = cpu.cast_unsigned().max(1 << digits);
    let exponent = cpu.ilog2();
    digits << 24 | exponent << digits | (cpu >> (exponent - digits)) & ((1 << digits) - 1)
}
