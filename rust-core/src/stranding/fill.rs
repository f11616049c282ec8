//! W: how much GPU is still idle on a node when nothing more fits, estimated by random fills.
//!
//! A fill draws kinds from the mix, places each that fits on the tightest device, skips the others, and ends after
//! [`MISS_LIMIT`] misses in a row or when no GPU is idle; W' is the sum of the idle milli-GPU left over all
//! [`FILL_STREAMS`] streams (scheduling-quality notes, B.3 and B.4).
//!
//! The straightforward loop spends its time on draws that do not fit. Whether a draw fits depends on three thresholds
//! only (free CPU, largest device or number of whole devices, model), so each stream keeps, for every threshold the
//! mix can tell apart, the set of steps that pass it as a bit set. The next draw that fits is then the first bit of
//! an intersection, and a fill costs a few instructions per *placed* pod. Word i of a set covers the 128 steps
//! from 64 i on, so the 60 steps that matter from any position lie in one word.

use std::ops::RangeInclusive;

use super::mix::Mix;
use super::models::ModelClasses;
use super::params::{FILL_STREAMS, LOOK_AHEAD, MISS_LIMIT, STREAM_STEPS};
use super::shape::{Shape, clamp_cpu};
use super::streams::{Drawer, Tickets};
use crate::limits::{CARD_MILLI, MAX_GPUS_PER_NODE};
use crate::request::GpuRequest;

const WORDS: usize = STREAM_STEPS / LOOK_AHEAD;

/// A set of steps of one stream.
type Steps = [u128; WORDS];

/// What one step asks for.
#[derive(Clone, Copy, Default, Debug)]
struct Ask {
    cpu: i32,
    /// Share of one card, or 0 for whole cards (and for CPU-only kinds).
    share: u16,
    /// Whole cards.
    whole: u16,
}

/// W' of a shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Waste {
    /// Idle milli-GPU left over, summed over all streams; at most 32 x 16,000.
    pub(super) milli: u32,
    /// With any free CPU in this range all fills take the same course.
    pub(super) cpu: RangeInclusive<i32>,
}

/// Precomputed streams of one mix.
#[derive(Default, Debug)]
pub(super) struct Fills {
    /// Distinct CPU requests, rising.
    cpus: Vec<i32>,
    /// `cpu >> bucket_shift` -> number of `cpus` that are not above the bucket's end.
    bucket_rank: Vec<u16>,
    bucket_shift: u32,
    /// Largest free share (0..=1000) -> number of distinct shares that fit.
    share_rank: Vec<u16>,
    /// Number of distinct shares; row `shares + w` of the device sets is for w whole devices.
    shares: usize,
    rows_per_stream: usize,
    device_row: usize,
    class_row: usize,
    take_row: usize,
    rows: Vec<Steps>,
    asks: Vec<[Ask; STREAM_STEPS]>,
}

impl Fills {
    /// Draws the streams of `mix`. Empty for an empty mix.
    pub(super) fn new(
        mix: &Mix,
        models: &ModelClasses,
        tickets: &Tickets,
        take_permille: u64,
    ) -> Self {
        if mix.is_empty() {
            return Self::default();
        }
        let mut cpus: Vec<i32> = mix.kinds().iter().map(|k| clamp_cpu(k.kind.cpu.0)).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let mut sizes: Vec<u16> = mix
            .kinds()
            .iter()
            .filter(|k| matches!(k.kind.gpu, GpuRequest::Share { .. }))
            .map(|k| k.kind.gpu.milli().get())
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let (bucket_shift, bucket_rank) = cpu_buckets(&cpus);
        let share_rank = (0..=CARD_MILLI).map(|level| rank_in(&sizes, level)).collect();
        let device_row = cpus.len() + 1;
        let class_row = device_row + sizes.len() + MAX_GPUS_PER_NODE + 1;
        let take_row = class_row + models.len();
        let mut fills = Self {
            cpus,
            bucket_rank,
            bucket_shift,
            share_rank,
            shares: sizes.len(),
            rows_per_stream: take_row + 1,
            device_row,
            class_row,
            take_row,
            rows: Vec::new(),
            asks: Vec::with_capacity(FILL_STREAMS),
        };
        fills.rows = vec![[0; WORDS]; FILL_STREAMS * fills.rows_per_stream];
        let drawer = Drawer::new(mix, tickets, take_permille);
        for stream in 0..FILL_STREAMS {
            fills.draw_stream(stream, mix, models, &drawer, &sizes);
        }
        fills
    }

    fn draw_stream(
        &mut self,
        stream: usize,
        mix: &Mix,
        models: &ModelClasses,
        drawer: &Drawer<'_>,
        sizes: &[u16],
    ) {
        let mut asks = [Ask::default(); STREAM_STEPS];
        let first = stream * self.rows_per_stream;
        let rows = &mut self.rows[first..first + self.rows_per_stream];
        for (step, ask) in asks.iter_mut().enumerate() {
            let draw = drawer.draw(stream, step);
            let kind = &mix.kinds()[draw.kind].kind;
            ask.cpu = clamp_cpu(kind.cpu.0);
            for rank in self.cpus.partition_point(|&cpu| cpu < ask.cpu)..self.cpus.len() {
                insert(&mut rows[rank + 1], step);
            }
            let device_rows = match kind.gpu {
                GpuRequest::None => {
                    if draw.takes_cpu && ask.cpu > 0 {
                        insert(&mut rows[self.take_row], step);
                    }
                    continue;
                }
                GpuRequest::Share { milli } => {
                    ask.share = milli.get();
                    usize::from(rank_in(sizes, ask.share))..self.shares + MAX_GPUS_PER_NODE + 1
                }
                GpuRequest::Whole { count } => {
                    ask.whole = u16::from(count);
                    self.shares + usize::from(count)..self.shares + MAX_GPUS_PER_NODE + 1
                }
            };
            for row in device_rows {
                insert(&mut rows[self.device_row + row], step);
            }
            for class in 0..models.len() {
                if models.allows(class, draw.kind) {
                    insert(&mut rows[self.class_row + class], step);
                }
            }
        }
        self.asks.push(asks);
    }

    /// W' of a shape, and the range of free CPU over which it stays the same for these devices.
    pub(super) fn waste(&self, shape: &Shape) -> Waste {
        let idle = shape.idle();
        if idle == 0 || self.asks.is_empty() {
            return Waste { milli: idle * FILL_STREAMS as u32, cpu: 0..=i32::MAX };
        }
        let start = Devices::of(shape);
        let cpu_rank = self.cpu_rank(shape.cpu, self.cpus.len());
        let mut range = (0, i32::MAX);
        let milli = (0..FILL_STREAMS)
            .map(|stream| self.fill(stream, shape, start, cpu_rank, idle, &mut range))
            .sum();
        Waste { milli, cpu: range.0..=range.1 }
    }

    /// Idle milli-GPU after one fill. Narrows `range` to the free CPU that leads to the same draws.
    fn fill(
        &self,
        stream: usize,
        shape: &Shape,
        mut devices: Devices,
        mut cpu_rank: usize,
        mut idle: u32,
        range: &mut (i32, i32),
    ) -> u32 {
        let first = stream * self.rows_per_stream;
        let rows = &self.rows[first..first + self.rows_per_stream];
        let allowed = &rows[self.class_row + usize::from(shape.class)];
        let takes = &rows[self.take_row];
        let asks = &self.asks[stream];
        let mut cpu = shape.cpu;
        let mut fits = &rows[self.device_row + self.device_rank(&devices)];
        let mut step = 0usize;
        let mut end = MISS_LIMIT as usize;
        loop {
            let (word, shift) = (step / LOOK_AHEAD % WORDS, step % LOOK_AHEAD);
            let window = (1 << (end - step)) - 1;
            let by_cpu = (rows[cpu_rank][word] >> shift) as u64;
            let by_gpu = ((fits[word] & allowed[word]) >> shift) as u64 & window;
            let hits = by_gpu & by_cpu;
            let before_hit = (hits & hits.wrapping_neg()).wrapping_sub(1);
            let wants = (takes[word] >> shift) as u64 & before_hit;
            let takers = wants & by_cpu;
            let event = if hits == 0 || takers == 0 { hits } else { takers };
            let before_event = (event & event.wrapping_neg()).wrapping_sub(1);
            // With more CPU one of these would have come first.
            let wants = if hits == 0 { 0 } else { wants };
            let short = (by_gpu | wants) & !by_cpu & before_event;
            if short != 0
                && let Some(enough) = (shape.cpu - cpu).checked_add(least_cpu(asks, step, short))
            {
                range.1 = range.1.min(enough - 1);
            }
            if hits == 0 {
                return idle;
            }
            step += event.trailing_zeros() as usize + 1;
            let ask = asks[(step - 1) % STREAM_STEPS];
            cpu -= ask.cpu;
            range.0 = range.0.max(shape.cpu - cpu);
            cpu_rank = self.cpu_rank(cpu, cpu_rank);
            if takers != 0 {
                continue;
            }
            idle -= devices.place(ask);
            if idle == 0 {
                return 0;
            }
            fits = &rows[self.device_row + self.device_rank(&devices)];
            end = step + MISS_LIMIT as usize;
        }
    }

    /// Row of the device sets: by the largest share, or by the whole devices if there are any.
    fn device_rank(&self, devices: &Devices) -> usize {
        if devices.whole > 0 {
            self.shares + usize::from(devices.whole)
        } else {
            usize::from(self.share_rank[usize::from(devices.largest_share())])
        }
    }

    /// Number of distinct CPU requests that are not above `cpu`; `bound` is known not to be below it.
    #[inline]
    fn cpu_rank(&self, cpu: i32, bound: usize) -> usize {
        let bucket = (cpu.cast_unsigned() >> self.bucket_shift) as usize;
        let mut rank = match self.bucket_rank.get(bucket) {
            Some(&rank) => usize::from(rank).min(bound),
            None => bound,
        };
        while rank > 0 && self.cpus[rank - 1] > cpu {
            rank -= 1;
        }
        rank
    }
}

/// Free devices of a node while it fills.
#[derive(Clone, Copy)]
struct Devices {
    /// Free amounts of the devices that are neither full nor fully free, in no order.
    shares: [u16; MAX_GPUS_PER_NODE],
    len: u16,
    whole: u16,
}

impl Devices {
    fn of(shape: &Shape) -> Self {
        let whole = shape.whole();
        let mut devices = Self { shares: [0; MAX_GPUS_PER_NODE], len: 0, whole: whole as u16 };
        for &level in shape.levels[whole..].iter().take_while(|&&level| level > 0) {
            devices.push(level);
        }
        devices
    }

    fn push(&mut self, level: u16) {
        self.shares[usize::from(self.len)] = level;
        self.len += 1;
    }

    fn largest_share(&self) -> u16 {
        self.shares[..usize::from(self.len)].iter().copied().fold(0, u16::max)
    }

    /// Takes what `ask` wants, a share from the tightest device. Returns the milli-GPU taken.
    fn place(&mut self, ask: Ask) -> u32 {
        if ask.share == 0 {
            self.whole -= ask.whole;
            return u32::from(ask.whole) * u32::from(CARD_MILLI);
        }
        let mut tightest = CARD_MILLI;
        let mut at = usize::from(self.len);
        for (index, &level) in self.shares[..usize::from(self.len)].iter().enumerate() {
            if level >= ask.share && level < tightest {
                tightest = level;
                at = index;
            }
        }
        let rest = tightest - ask.share;
        if at == usize::from(self.len) {
            self.whole -= 1;
            self.push(rest);
        } else {
            self.shares[at] = rest;
        }
        u32::from(ask.share)
    }
}

fn insert(steps: &mut Steps, step: usize) {
    let (word, bit) = (step / LOOK_AHEAD, step % LOOK_AHEAD);
    steps[word] |= 1 << bit;
    steps[(word + WORDS - 1) % WORDS] |= 1 << (bit + LOOK_AHEAD);
}

/// The least CPU that any of `steps`, counted from `step`, asks for.
fn least_cpu(asks: &[Ask; STREAM_STEPS], step: usize, mut steps: u64) -> i32 {
    let mut least = i32::MAX;
    while steps != 0 {
        let next = step + steps.trailing_zeros() as usize;
        least = least.min(asks[next % STREAM_STEPS].cpu);
        steps &= steps - 1;
    }
    least
}

/// Number of elements of `sorted` that are not above `value`.
fn rank_in(sorted: &[u16], value: u16) -> u16 {
    sorted.partition_point(|&v| v <= value) as u16
}

/// A table that finds the rank of a CPU figure in one look-up and at most a few steps down.
fn cpu_buckets(cpus: &[i32]) -> (u32, Vec<u16>) {
    const BUCKETS: usize = 1024;
    let largest = cpus.last().map_or(0, |cpu| cpu.cast_unsigned());
    let mut shift = 0;
    while (largest >> shift) as usize >= BUCKETS {
        shift += 1;
    }
    let table = (0..=u64::from(largest >> shift))
        .map(|bucket| {
            let end = ((bucket + 1) << shift) - 1;
            cpus.partition_point(|&cpu| u64::from(cpu.cast_unsigned()) <= end) as u16
        })
        .collect();
    (shift, table)
}
