//! The fast path against its twin, and the rules of the mix.

mod fgd;
mod mix;

use proptest::prelude::*;

use super::fill::Fills;
use super::models::ModelClasses;
use super::scarcity::Places;
use super::shape::Shape;
use super::streams::Tickets;
use super::twin::{self, Twin};
use super::{Mix, MixMode, NodeShapes, Quotes, Stranding, slack};
use crate::cluster::FreeShape;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::request::{GpuRequest, Kind, PodRequest};
use crate::score::Placed;
use crate::units::{
    DeviceMask, MemoryBytes, MilliCpu, MilliGpu, ModelId, ModelSet, PodUid, Priority, Tier,
};

pub(super) fn share(milli: u16) -> GpuRequest {
    GpuRequest::new(1, milli).unwrap()
}

pub(super) fn pod(uid: u128, kind: Kind) -> PodRequest {
    PodRequest {
        uid: PodUid(uid),
        cpu: kind.cpu,
        memory: MemoryBytes(0),
        gpu: kind.gpu,
        models: kind.models,
        priority: Priority(0),
        tier: Tier::Batch,
        mig: Default::default(),
    }
}

pub(super) fn node(cpu: i64, model: u8, free: &[u16]) -> FreeShape {
    let mut shape = FreeShape {
        model: ModelId(model),
        gpu_count: free.len() as u8,
        free: [MilliGpu::ZERO; MAX_GPUS_PER_NODE],
        cpu_free: MilliCpu(cpu),
    };
    for (device, &milli) in free.iter().enumerate() {
        shape.free[device] = MilliGpu::new(milli).unwrap();
    }
    shape
}

/// Nodes by slot; the version of a slot is its position in a list of changes.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) slots: Vec<Option<(u64, FreeShape)>>,
    changes: u64,
}

impl Nodes {
    pub(super) fn of(shapes: &[FreeShape]) -> Self {
        let mut nodes = Self::default();
        for (slot, &shape) in shapes.iter().enumerate() {
            nodes.set(slot, Some(shape));
        }
        nodes
    }

    pub(super) fn set(&mut self, slot: usize, shape: Option<FreeShape>) {
        self.changes += 1;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, None);
        }
        self.slots[slot] = shape.map(|shape| (self.changes, shape));
    }

    pub(super) fn live(&self) -> Vec<FreeShape> {
        self.slots.iter().flatten().map(|&(_, shape)| shape).collect()
    }
}

impl NodeShapes for Nodes {
    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn version(&self, slot: usize) -> Option<u64> {
        self.slots[slot].map(|(version, _)| version)
    }

    fn shape(&self, slot: usize) -> FreeShape {
        self.slots[slot].unwrap().1
    }
}

fn any_gpu() -> impl Strategy<Value = GpuRequest> {
    prop_oneof![
        1 => Just(GpuRequest::None),
        3 => (1u16..=999).prop_map(share),
        2 => prop::sample::select(vec![50u16, 100, 250, 500, 750, 810]).prop_map(share),
        3 => (1u16..=16).prop_map(|count| GpuRequest::new(count, 1000).unwrap()),
        2 => prop::sample::select(vec![1u16, 2, 4, 8]).prop_map(|n| GpuRequest::new(n, 1000).unwrap()),
    ]
}

pub(super) fn any_kind() -> impl Strategy<Value = Kind> {
    let cpu = prop_oneof![
        1 => Just(0i64),
        8 => 1i64..40_000,
        1 => 40_000i64..400_000,
        1 => Just(i64::from(i32::MAX)),
    ];
    let models = prop_oneof![
        4 => Just(ModelSet::ANY),
        2 => (0u64..16).prop_map(ModelSet),
        1 => any::<u64>().prop_map(ModelSet),
    ];
    (cpu, any_gpu(), models).prop_map(|(cpu, gpu, models)| Kind { cpu: MilliCpu(cpu), gpu, models })
}

pub(super) fn any_node() -> impl Strategy<Value = FreeShape> {
    let level = prop_oneof![3 => Just(1000u16), 2 => Just(0u16), 4 => 0u16..=1000];
    let cpu = prop_oneof![
        8 => 0i64..130_000,
        1 => -50_000i64..0,
        1 => Just(i64::from(i32::MAX)),
        2 => 0i64..10_000,
    ];
    let model = prop_oneof![8 => 0u8..4, 1 => 0u8..64, 1 => Just(255u8)];
    (cpu, model, prop::collection::vec(level, 0..=16))
        .prop_map(|(cpu, model, free)| node(cpu, model, &free))
}

pub(super) fn any_mix() -> impl Strategy<Value = Vec<(Kind, u64)>> {
    let weight = prop_oneof![8 => 1u64..2000, 1 => any::<u64>()];
    prop::collection::vec((any_kind(), weight), 1..24)
}

proptest! {
    #[test]
    fn fills_match_the_twin(
        counts in any_mix(),
        nodes in prop::collection::vec(any_node(), 1..6),
        at in prop::collection::vec(any::<prop::sample::Index>(), 4),
        take_permille in 0u64..=1000,
    ) {
        let mix = Mix::commonest(counts, 1000);
        let models = ModelClasses::new(&mix);
        let fills = Fills::new(&mix, &models, &Tickets::new(), take_permille);
        let twin = Twin::new(mix, take_permille);
        for node in nodes {
            let mut shape = Shape::new(&node, models.of(node.model));
            let waste = fills.waste(&shape);
            prop_assert_eq!(u64::from(waste.milli), twin.waste(&node));
            let (least, most) = (*waste.cpu.start(), (*waste.cpu.end()).min(400_000.max(*waste.cpu.start())));
            prop_assert!(waste.cpu.contains(&shape.cpu));
            for cpu in [least, most].into_iter().chain(at.iter().map(|i| {
                least + i.index((most - least).max(0) as usize + 1) as i32
            })) {
                let elsewhere = FreeShape { cpu_free: MilliCpu(i64::from(cpu)), ..node };
                prop_assert_eq!(u64::from(waste.milli), twin.waste(&elsewhere));
                shape.cpu = cpu;
                prop_assert_eq!(fills.waste(&shape).milli, waste.milli);
            }
        }
    }

    #[test]
    fn places_match_the_twin(counts in any_mix(), node in any_node()) {
        let mix = Mix::commonest(counts, 1000);
        let models = ModelClasses::new(&mix);
        let places = Places::new(&mix);
        let class = models.of(node.model);
        let mut row = vec![0; places.width()];
        places.count(&Shape::new(&node, class), &mut row);
        for (index, kind) in mix.kinds().iter().enumerate() {
            let here = models.allows(usize::from(class), index).then(|| places.class_of(index)).flatten();
            let usable = here.map_or(0, |c| u64::from(row[c]) * u64::from(kind.kind.gpu.total_milli()));
            prop_assert_eq!(usable, twin::usable_milli(&kind.kind, &node), "kind {:?}", kind);
        }
    }

    #[test]
    fn the_cpu_only_probability_matches_the_twin(
        counts in any_mix(),
        nodes in prop::collection::vec(any_node(), 0..6),
    ) {
        let mix = Mix::commonest(counts, 1000);
        let cluster = Nodes::of(&nodes);
        let mut stranding = Stranding::new(MixMode::Fixed(vec![]), 0);
        stranding.adopt(mix.clone());
        stranding.refresh_if_due(&cluster);
        prop_assert_eq!(stranding.measure.take_permille, twin::take_permille(&mix, &nodes));
        prop_assert_eq!(slack::take_permille(&mix, 0, 0), 100);
    }

    #[test]
    fn placements_and_prices_match_the_twin(
        counts in any_mix(),
        nodes in prop::collection::vec(any_node(), 1..6),
        changes in prop::collection::vec((0usize..8, prop::option::of(any_node())), 0..6),
        kinds in prop::collection::vec(any_kind(), 1..5),
        memo_bytes in prop::sample::select(vec![0usize, 1 << 20]),
    ) {
        let mut stranding = Stranding::new(MixMode::Fixed(counts), memo_bytes);
        let mut cluster = Nodes::of(&nodes);
        stranding.refresh_if_due(&cluster);
        for (slot, change) in changes {
            cluster.set(slot, change);
        }
        for uid in 0..25 {
            stranding.observe(&pod(uid, kinds[0]));
        }
        let (mix_epoch, price_epoch) = (stranding.mix_epoch(), stranding.price_epoch());
        stranding.refresh_if_due(&cluster);
        prop_assert_eq!(mix_epoch, stranding.mix_epoch());
        prop_assert_ne!(price_epoch, stranding.price_epoch());
        let prices = twin::prices(stranding.mix(), &stranding.weights(), &cluster.live());
        prop_assert_eq!(stranding.prices(), &prices[..]);
        let twin = Twin::of(&stranding);
        for node in &nodes {
            for kind in &kinds {
                let expected = twin.place(&prices, node, kind);
                prop_assert_eq!(stranding.place(node, kind), expected);
                prop_assert_eq!(stranding.place(node, kind), expected);
            }
        }
    }
}

proptest! {
    /// Quotes kept over changes of nodes, prices and mix give what a fresh look at every node gives.
    #[test]
    fn quotes_match_placements(
        nodes in prop::collection::vec(any_node(), 1..6),
        kinds in prop::collection::vec(any_kind(), 1..6),
        asked in any_kind(),
        steps in prop::collection::vec((0usize..6, any_node(), any::<prop::sample::Index>()), 1..40),
        memo_bytes in prop::sample::select(vec![0usize, 1 << 20]),
    ) {
        let mut stranding = Stranding::new(MixMode::Learned, memo_bytes);
        let mut cluster = Nodes::of(&nodes);
        let mut quotes = Quotes::new(asked, nodes.len());
        let (mut costs, mut devices) = (vec![0; nodes.len()], vec![DeviceMask::EMPTY; nodes.len()]);
        let mut fit = vec![false; nodes.len()];
        let (mut mix_epoch, mut price_epoch) = (0, 0);
        for (uid, (slot, changed, kind)) in steps.into_iter().enumerate() {
            stranding.observe(&pod(uid as u128, kinds[kind.index(kinds.len())]));
            let slot = slot % nodes.len();
            cluster.set(slot, Some(changed));
            stranding.refresh_if_due(&cluster);
            let all = stranding.mix_epoch() != mix_epoch;
            for slot in (0..nodes.len()).filter(|&s| all || s == slot) {
                let placed = quotes.set(slot, &mut stranding, &cluster.shape(slot));
                fit[slot] = placed.is_some();
                if let Some(placed) = placed {
                    (costs[slot], devices[slot]) = (placed.cost, placed.devices);
                }
            }
            if stranding.price_epoch() != price_epoch {
                quotes.reprice(&mut stranding, &cluster, &mut costs, &mut devices);
            }
            (mix_epoch, price_epoch) = (stranding.mix_epoch(), stranding.price_epoch());
            for slot in 0..nodes.len() {
                let placed = fit[slot].then(|| Placed { cost: costs[slot], devices: devices[slot] });
                prop_assert_eq!(placed, stranding.place(&cluster.shape(slot), &asked));
            }
        }
    }
}
