//! Which nodes changed since a reader last looked.

/// A ring of the slots that changed, numbered by a sequence that starts at 1. Readers keep the number they have read up
/// to; one that fell behind the ring looks at every node's version instead.
#[derive(Debug, Clone)]
pub(crate) struct ChangeLog {
    ring: Vec<u32>,
    last: u64,
}

/// Entries kept: 64 KiB. A reader that is further behind rescans versions, which costs about as much.
const CAPACITY: usize = 16_384;

impl ChangeLog {
    pub(crate) fn new() -> Self {
        Self { ring: vec![0; CAPACITY], last: 0 }
    }

    /// Number of the newest change.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Records a change of `slot` and returns its number.
    #[inline]
    pub(crate) fn push(&mut self, slot: u32) -> u64 {
        self.ring[(self.last % CAPACITY as u64) as usize] = slot;
        self.last += 1;
        self.last
    }

    /// Changes after number `seen` as (number, slot); `None` when the ring no longer holds them all.
    #[inline]
    pub(crate) fn since(&self, seen: u64) -> Option<impl Iterator<Item = (u64, u32)> + '_> {
        let behind = self.last.saturating_sub(seen);
        (behind <= CAPACITY as u64).then(|| {
            (self.last - behind..self.last)
                .map(|n| (n + 1, self.ring[(n % CAPACITY as u64) as usize]))
        })
    }
}
