//! A bounded table of values by free shape. What it holds never changes an answer, only how long it takes.

use std::hash::{Hash, Hasher};

use super::shape::Shape;
use crate::hash::MixHasher;

const WAYS: usize = 4;
const FIRST_SETS: usize = 1 << 10;

/// W' of a free shape.
#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    shape: Shape,
    /// Mix that `waste` belongs to; 0 for an unused entry.
    mix: u32,
    waste: u32,
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
    /// At most `bytes` (but room for a thousand sets at least).
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
    pub(super) fn get(&mut self, shape: &Shape, mix: u32) -> Option<u32> {
        let set = &self.sets[self.set_of(shape)];
        let found = set.iter().find(|entry| entry.mix == mix && entry.shape == *shape);
        match found {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        found.map(|entry| entry.waste)
    }

    /// Remembers a value that [`Memo::get`] did not find. Stamps of mixes start at 1 and only rise.
    pub(super) fn insert(&mut self, shape: &Shape, mix: u32, waste: u32) {
        if self.used > self.sets.len() * WAYS / 2 && self.sets.len() < self.max_sets {
            self.grow(mix);
        }
        self.put(Entry { shape: *shape, mix, waste });
    }

    fn put(&mut self, entry: Entry) {
        let set = self.set_of(&entry.shape);
        let way = usize::from(self.next[set]);
        self.next[set] = (self.next[set] + 1) % WAYS as u8;
        self.used += usize::from(self.sets[set][way].mix == 0);
        self.sets[set][way] = entry;
    }

    fn grow(&mut self, mix: u32) {
        let len = self.sets.len() * 2;
        let old = std::mem::replace(&mut self.sets, vec![[Entry::default(); WAYS]; len]);
        self.next = vec![0; len];
        self.used = 0;
        for entry in old.iter().flatten().filter(|entry| entry.mix == mix) {
            self.put(*entry);
        }
    }

    fn set_of(&self, shape: &Shape) -> usize {
        let mut hasher = MixHasher::default();
        for levels in shape.levels.chunks_exact(4) {
            let word = levels.iter().fold(0u64, |word, &level| word << 16 | u64::from(level));
            hasher.write_u64(word);
        }
        (u64::from(shape.cpu.cast_unsigned()) << 8 | u64::from(shape.class)).hash(&mut hasher);
        hasher.finish() as usize & (self.sets.len() - 1)
    }
}
