//! Fragment amounts fast enough to score every node: the rule of
//! [`TypicalPods`] (its twin in tests), tabulated.
//!
//! With w_c the weight of the kinds of card class c = (cards, milli) that the node's model and CPU allow, and u_c the
//! idle GPU on devices with at least `milli` free (0 if fewer than `cards` of them): amount = T * idle - sum w_c * u_c.

use super::Placed;
use crate::cluster::FreeShape;
use crate::limits::MAX_MODELS;
use crate::request::{GpuRequest, Kind};
use crate::score::first_whole;
use crate::stranding::fgd::TypicalPods;
use crate::units::{DeviceMask, ModelId, ModelSet};

/// The published score of a fall x of the mean fragment amount is trunc(100 / (1 + exp(-x / 1000))). It is at least k
/// from x = 1000 ln(k / (100 - k)) on: here for k = 51..=99 in units of 2^-40, rounded up; k = 50 is 0, below it the
/// same values negative.
const SCORE_STEPS: [i64; 49] = [
    43_986_330_580_832,
    88_007_887_805_729,
    132_100_067_881_495,
    176_298_608_186_079,
    220_639_763_014_532,
    265_160_485_648_545,
    309_898_619_081_079,
    354_893_097_929_929,
    400_184_164_340_830,
    445_813_601_022_380,
    491_824_984_985_283,
    538_263_966_095_023,
    585_178_575_213_060,
    632_619_567_526_862,
    680_640_807_691_894,
    729_299_704_679_168,
    778_657_705_805_193,
    828_780_861_402_504,
    879_740_474_081_264,
    931_613_849_685_457,
    984_485_171_061_932,
    1_038_446_520_908_545,
    1_093_599_086_619_405,
    1_150_054_588_711_428,
    1_207_936_985_808_191,
    1_267_384_524_276_397,
    1_328_552_220_886_067,
    1_391_614_894_362_818,
    1_456_770_899_446_526,
    1_524_246_769_571_621,
    1_594_303_048_362_364,
    1_667_241_696_309_158,
    1_743_415_613_801_193,
    1_823_241_051_730_216,
    1_907_214_029_951_745,
    1_995_932_426_103_863,
    2_090_126_261_854_416,
    2_190_700_133_608_533,
    2_298_794_146_747_829,
    2_415_873_971_616_381,
    2_543_868_507_062_806,
    2_685_388_964_452_682,
    2_844_095_011_279_963,
    3_025_345_070_925_899,
    3_237_444_894_870_397,
    3_494_307_140_165_622,
    3_822_010_928_770_803,
    4_279_101_670_987_293,
    5_052_387_706_247_293,
];
const STEP_SHIFT: u32 = 40;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct CardClass {
    cards: u8,
    milli: u16,
}

/// Idle GPU as one card class sees it.
#[derive(Clone, Copy, Default, Debug)]
struct Usable {
    devices: u32,
    milli: u32,
}

/// Tabulated typical pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    total: u64,
    classes: Vec<CardClass>,
    /// Distinct CPU requests, rising.
    cpus: Vec<i64>,
    /// Per model id, [`ModelId::NONE`] last: its group of models that the kinds tell apart.
    groups: Vec<u8>,
    /// Weight per group, number of CPU steps that fit, and class.
    weights: Vec<u64>,
    /// Least fall (times total) of each score 1..=99.
    score_from: Vec<i64>,
    usable: Vec<Usable>,
}

impl Fragments {
    pub(crate) fn new(typical: &TypicalPods) -> Self {
        let kinds = typical.mix().kinds();
        let on_cards = || kinds.iter().filter(|known| !known.kind.gpu.is_none());
        let mut classes: Vec<CardClass> =
            on_cards().map(|known| class_of(known.kind.gpu)).collect();
        classes.sort_unstable();
        classes.dedup();
        let mut cpus: Vec<i64> = on_cards().map(|known| known.kind.cpu.0).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let (groups, samples) = group_models(on_cards().map(|known| known.kind.models));
        let row = classes.len();
        let mut weights = vec![0; samples.len() * (cpus.len() + 1) * row];
        for known in on_cards() {
            let kind = &known.kind;
            let class = classes.partition_point(|&class| class < class_of(kind.gpu));
            for (group, &model) in samples.iter().enumerate() {
                if !kind.models.contains(model) {
                    continue;
                }
                for step in cpus.partition_point(|&cpu| cpu < kind.cpu.0)..cpus.len() {
                    weights[(group * (cpus.len() + 1) + step + 1) * row + class] += known.weight;
                }
            }
        }
        let total = typical.total_weight();
        let usable = vec![Usable::default(); row];
        Self { total, classes, cpus, groups, weights, score_from: score_from(total), usable }
    }

    /// The published choice: the devices whose fall scores best, and that score as a negative cost.
    pub(crate) fn place(&mut self, free: &FreeShape, kind: &Kind) -> Option<Placed> {
        let milli = u32::from(kind.gpu.milli().get());
        self.measure(free);
        match kind.gpu {
            GpuRequest::None => {
                let fall = self.fall(free, kind, |usable, _| usable);
                Some(self.scored(fall, DeviceMask::EMPTY))
            }
            GpuRequest::Whole { count } => {
                let devices = first_whole(free, count)?;
                let taken = u32::from(count);
                let fall = self.fall(free, kind, |usable, _| Usable {
                    devices: usable.devices - taken,
                    milli: usable.milli - taken * milli,
                });
                Some(self.scored(fall, devices))
            }
            GpuRequest::Share { .. } => {
                let mut best: Option<Placed> = None;
                for (device, level) in free.levels().iter().enumerate() {
                    let repeated = free.levels()[..device].contains(level);
                    let level = u32::from(level.get());
                    if level < milli || repeated {
                        continue;
                    }
                    let fall = self.fall(free, kind, |usable, class| {
                        let size = u32::from(class.milli);
                        let (mut usable, left) = (usable, level - milli);
                        if level >= size {
                            usable.devices -= 1;
                            usable.milli -= level;
                        }
                        if left >= size {
                            usable.devices += 1;
                            usable.milli += left;
                        }
                        usable
                    });
                    let placed = self.scored(fall, DeviceMask::only(device));
                    if best.is_none_or(|best| placed.cost < best.cost) {
                        best = Some(placed);
                    }
                }
                best
            }
        }
    }

    fn measure(&mut self, free: &FreeShape) {
        for (class, usable) in self.classes.iter().zip(&mut self.usable) {
            *usable = Usable::default();
            for level in free.levels() {
                let fits = level.get() >= class.milli;
                usable.devices += u32::from(fits);
                usable.milli += if fits { u32::from(level.get()) } else { 0 };
            }
        }
    }

    /// Fall of the amount (times total) when CPU falls by the kind's and each class sees what `after` says.
    fn fall(
        &self,
        free: &FreeShape,
        kind: &Kind,
        after: impl Fn(Usable, CardClass) -> Usable,
    ) -> i64 {
        let before = self.row(free.model, free.cpu_free.0);
        let behind = self.row(free.model, free.cpu_free.0 - kind.cpu.0);
        let mut fall = self.total * u64::from(kind.gpu.total_milli());
        let classes = self.classes.iter().zip(&self.usable);
        for ((&class, &usable), (&weight, &left)) in classes.zip(before.iter().zip(behind)) {
            let place = |usable: Usable| {
                u64::from(if usable.devices >= u32::from(class.cards) { usable.milli } else { 0 })
            };
            fall = fall
                .wrapping_add(left * place(after(usable, class)))
                .wrapping_sub(weight * place(usable));
        }
        fall.cast_signed()
    }

    fn row(&self, model: ModelId, cpu_free: i64) -> &[u64] {
        let group = usize::from(self.groups[usize::from(model.0).min(MAX_MODELS)]);
        let steps = self.cpus.partition_point(|&cpu| cpu <= cpu_free.max(0));
        let first = (group * (self.cpus.len() + 1) + steps) * self.classes.len();
        &self.weights[first..first + self.classes.len()]
    }

    fn scored(&self, fall: i64, devices: DeviceMask) -> Placed {
        Placed { cost: -score(&self.score_from, fall), devices }
    }
}

fn class_of(gpu: GpuRequest) -> CardClass {
    CardClass { cards: gpu.count(), milli: gpu.milli().get() }
}

/// The group of every model, and one model of each group: two models are in one group if the same sets hold them.
fn group_models(sets: impl Iterator<Item = ModelSet>) -> (Vec<u8>, Vec<ModelId>) {
    let mut sets: Vec<ModelSet> = sets.collect();
    sets.sort_unstable();
    sets.dedup();
    let (mut groups, mut samples) = (Vec::new(), Vec::<ModelId>::new());
    for id in 0..=MAX_MODELS as u8 {
        let model = if usize::from(id) == MAX_MODELS { ModelId::NONE } else { ModelId(id) };
        let same =
            |&sample: &ModelId| sets.iter().all(|set| set.contains(sample) == set.contains(model));
        let group = samples.iter().position(same).unwrap_or(samples.len());
        if group == samples.len() {
            samples.push(model);
        }
        groups.push(group as u8);
    }
    (groups, samples)
}

fn score_from(total: u64) -> Vec<i64> {
    let least = |step: i64| {
        let scaled = i128::from(step) * i128::from(total);
        (-(-scaled >> STEP_SHIFT)) as i64
    };
    let below = SCORE_STEPS.iter().rev().map(|&step| least(-step));
    below.chain([0]).chain(SCORE_STEPS.iter().map(|&step| least(step))).collect()
}

/// Score of a fall, 0..=99.
fn score(score_from: &[i64], fall: i64) -> i64 {
    score_from.partition_point(|&least| least <= fall) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_the_truncated_sigmoid() {
        let total = 1_000;
        let table = score_from(total);
        assert_eq!(table.len(), 99);
        for fall in (-9_000_000i64..9_000_000).step_by(517) {
            let x = fall as f64 / total as f64 / 1000.0;
            let exact = 100.0 / (1.0 + (-x).exp());
            // Where the float result is too near a step to be told apart, either side will do.
            let distance = (exact - exact.round()).abs();
            if distance > 1e-9 {
                assert_eq!(score(&table, fall), exact.trunc() as i64, "fall {fall}");
            }
        }
        assert_eq!(score(&table, 0), 50);
        assert_eq!(score(&table, -1), 49);
        assert_eq!(score(&table, i64::MIN), 0);
        assert_eq!(score(&table, i64::MAX), 99);
    }
}
