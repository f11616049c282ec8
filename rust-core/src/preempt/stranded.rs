//! The stranded measure as a plan asks for it: once per kind of free shape, within its bounds.

use std::collections::HashMap;

use super::select::StrandedOf;
use crate::cluster::FreeShape;
use crate::hash::MixBuild;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::units::{MilliGpu, ModelId};

/// Answers of one plan.
#[derive(Debug, Default)]
pub(super) struct StrandedMemo(HashMap<Kind, i64, MixBuild>);

/// A free shape, cards in rising order; in the form that hashes fastest.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Kind {
    levels: [u16; MAX_GPUS_PER_NODE],
    cpu: i64,
    model: ModelId,
    gpu_count: u8,
}

impl StrandedMemo {
    /// Forgets all answers and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What `measure` says of the shape, cards in any order.
    pub(super) fn of(&mut self, shape: &FreeShape, measure: &mut StrandedOf<'_>) -> i64 {
        let idle = i64::from(shape.idle_milli());
        if idle == 0 {
            return 0;
        }
        let mut levels = shape.free.map(MilliGpu::get);
        levels[..shape.levels().len()].sort_unstable();
        let FreeShape { model, gpu_count, cpu_free, .. } = *shape;
        let kind = Kind { levels, cpu: cpu_free.0, model, gpu_count };
        *self.0.entry(kind).or_insert_with(|| {
            let free = levels.map(|level| MilliGpu::clamped(i64::from(level)));
            measure(&FreeShape { free, ..*shape }).clamp(0, idle)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::StrandedMemo;
    use crate::cluster::FreeShape;
    use crate::units::{MilliCpu, MilliGpu, ModelId};

    fn shape(levels: [i64; 3], cpu: i64) -> FreeShape {
        let mut free = [MilliGpu::ZERO; 16];
        for (card, level) in free.iter_mut().zip(levels) {
            *card = MilliGpu::clamped(level);
        }
        FreeShape { model: ModelId::NONE, gpu_count: 3, free, cpu_free: MilliCpu(cpu) }
    }

    #[test]
    fn a_kind_is_asked_for_once_and_answers_stay_within_what_is_idle() {
        let mut asked = Vec::new();
        let mut measure = |shape: &FreeShape| {
            asked.push(shape.cpu_free.0);
            if shape.cpu_free.0 > 5 { i64::MAX } else { -1 }
        };
        let mut memo = StrandedMemo::default();
        assert_eq!(memo.of(&shape([300, 0, 200], 1), &mut measure), 0);
        assert_eq!(memo.of(&shape([300, 0, 200], 6), &mut measure), 500);
        assert_eq!(memo.of(&shape([200, 300, 0], 6), &mut measure), 500);
        assert_eq!(memo.of(&shape([0, 0, 0], 7), &mut measure), 0);
        assert_eq!(asked, [1, 6]);
    }
}
