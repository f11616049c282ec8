//! Quotes of one kind for all nodes, in parts that may run side by side.
//!
//! Each part reads the tables that are there and writes tables of its own; afterwards these are moved over, part by
//! part. Tables never change an answer, so the number of parts does not either.

use super::Stranding;
use super::quote::{Look, Quote};
use super::tables::{Lookup, Tables};
use crate::request::Kind;
use crate::workers::{MAX_PARTS, Workers};

impl Stranding {
    /// Quotes `kind` for every slot that `look` names.
    pub(super) fn quote_all(
        &mut self,
        kind: &Kind,
        quotes: &mut [Quote],
        workers: &dyn Workers,
        look: &(dyn Fn(usize) -> Look + Sync),
    ) {
        let parts = workers.parts(quotes.len()).min(MAX_PARTS).min(quotes.len());
        if parts <= 1 {
            return self.lookup().quote_each(kind, 0, quotes, look);
        }
        self.prepare_shards(parts);
        let (measure, shared, len) = (&self.measure, &self.tables, quotes.len().div_ceil(parts));
        let first_own = shared.losses.len();
        let parts = self.shards.iter_mut().zip(quotes.chunks_mut(len)).enumerate();
        let mut jobs: Vec<_> = parts
            .map(|(part, (own, quotes))| {
                move || {
                    let mut lookup = Lookup { measure, shared: Some(shared), own: &mut *own };
                    lookup.quote_each(kind, part * len, quotes, look);
                }
            })
            .collect();
        let mut jobs: Vec<&mut (dyn FnMut() + Send)> =
            jobs.iter_mut().map(|job| job as &mut (dyn FnMut() + Send)).collect();
        workers.run(&mut jobs);
        for (own, quotes) in self.shards.iter_mut().zip(quotes.chunks_mut(len)) {
            self.tables.memo.absorb(&mut own.memo, self.measure.mix_stamp);
            let numbers = self.tables.losses.absorb(&mut own.losses);
            quotes.iter_mut().for_each(|quote| quote.renumber(first_own, &numbers));
        }
    }

    /// Tables for so many parts, together in a quarter of the memory bound.
    fn prepare_shards(&mut self, parts: usize) {
        if self.shards.len() == parts {
            return;
        }
        let bytes = self.memo_bytes / 4 / parts;
        self.shards.clear();
        self.shards.resize_with(parts, || {
            let mut tables = Tables::new(bytes / 4 * 3, bytes / 4);
            tables.reset(&self.measure.places);
            tables
        });
    }
}

impl Lookup<'_> {
    fn quote_each(
        &mut self,
        kind: &Kind,
        first: usize,
        quotes: &mut [Quote],
        look: &(dyn Fn(usize) -> Look + Sync),
    ) {
        for (at, quote) in quotes.iter_mut().enumerate() {
            match look(first + at) {
                Look::Keep => {}
                Look::Unfit => *quote = Quote::UNFIT,
                Look::At(free) => *quote = self.quote(&free, kind),
            }
        }
    }
}
