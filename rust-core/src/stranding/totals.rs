//! What the cluster as a whole still holds: idle GPU and places per kind, kept up to date node by node.

use super::mix::Mix;
use super::models::ModelClasses;
use super::scarcity::Places;
use super::shape::Shape;
use crate::cluster::{Cluster, FreeShape};
use crate::limits::CARD_MILLI;

/// Read access to the free shapes of a cluster, by slot.
pub trait NodeShapes {
    /// Number of slots; nodes have distinct slots below it.
    fn slots(&self) -> usize;
    /// Version of the node in `slot`, `None` if the slot is empty. Two different contents of a slot, also of two
    /// nodes that held it one after the other, never have the same version.
    fn version(&self, slot: usize) -> Option<u64>;
    /// Free shape of the node in `slot`, which is not empty.
    fn shape(&self, slot: usize) -> FreeShape;
}

impl NodeShapes for Cluster {
    fn slots(&self) -> usize {
        self.slots()
    }

    fn version(&self, slot: usize) -> Option<u64> {
        self.is_live(slot).then(|| self.version(slot))
    }

    fn shape(&self, slot: usize) -> FreeShape {
        self.shape(slot)
    }
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    version: u64,
    devices: u8,
    shape: Shape,
}

/// Sums over all nodes. Incremental: a node is counted again only when its version changed.
#[derive(Default, Debug)]
pub(super) struct Totals {
    nodes: Vec<Option<Counted>>,
    capacity_milli: u64,
    idle_milli: u64,
    cpu_milli: u64,
    /// Places per model class and request class.
    places: Vec<u64>,
    row: Vec<u16>,
}

impl Totals {
    /// Forgets everything; the next [`Totals::update`] counts all nodes. Needed when the mix changed.
    pub(super) fn reset(&mut self, models: &ModelClasses, places: &Places) {
        self.nodes.clear();
        (self.capacity_milli, self.idle_milli, self.cpu_milli) = (0, 0, 0);
        self.places.clear();
        self.places.resize(models.len() * places.width(), 0);
        self.row.clear();
        self.row.resize(places.width(), 0);
    }

    pub(super) fn update(
        &mut self,
        nodes: &dyn NodeShapes,
        models: &ModelClasses,
        places: &Places,
    ) {
        for slot in 0..self.nodes.len().max(nodes.slots()) {
            let version = if slot < nodes.slots() { nodes.version(slot) } else { None };
            if slot >= self.nodes.len() {
                self.nodes.push(None);
            }
            let counted = self.nodes[slot];
            if counted.map(|counted| counted.version) == version {
                continue;
            }
            if let Some(counted) = counted {
                self.add(&counted, places, false);
            }
            self.nodes[slot] = version.map(|version| {
                let free = nodes.shape(slot);
                let shape = Shape::new(&free, models.of(free.model));
                let counted = Counted { version, devices: free.gpu_count, shape };
                self.add(&counted, places, true);
                counted
            });
        }
    }

    fn add(&mut self, node: &Counted, places: &Places, plus: bool) {
        let shape = &node.shape;
        places.count(shape, &mut self.row);
        let first = usize::from(shape.class) * self.row.len();
        let sums = &mut self.places[first..first + self.row.len()];
        let capacity = u64::from(node.devices) * u64::from(CARD_MILLI);
        let (idle, cpu) = (u64::from(shape.idle()), u64::from(shape.cpu.cast_unsigned()));
        if plus {
            self.capacity_milli += capacity;
            self.idle_milli += idle;
            self.cpu_milli += cpu;
            sums.iter_mut().zip(&self.row).for_each(|(sum, &n)| *sum += u64::from(n));
        } else {
            self.capacity_milli -= capacity;
            self.idle_milli -= idle;
            self.cpu_milli -= cpu;
            sums.iter_mut().zip(&self.row).for_each(|(sum, &n)| *sum -= u64::from(n));
        }
    }

    /// T, milli-GPU of the cluster: a card for each device, healthy or not.
    pub(super) const fn capacity_milli(&self) -> u64 {
        self.capacity_milli
    }

    /// Free milli-CPU of the cluster.
    pub(super) const fn cpu_milli(&self) -> u64 {
        self.cpu_milli
    }

    /// R, idle milli-GPU of the cluster.
    pub(super) const fn idle_milli(&self) -> u64 {
        self.idle_milli
    }

    /// C_m of each kind of the mix.
    pub(super) fn usable_milli(
        &self,
        mix: &Mix,
        models: &ModelClasses,
        places: &Places,
    ) -> Vec<u64> {
        mix.kinds()
            .iter()
            .enumerate()
            .map(|(index, kind)| {
                let Some(class) = places.class_of(index) else { return 0 };
                let sum: u64 = (0..models.len())
                    .filter(|&model| models.allows(model, index))
                    .map(|model| self.places[model * places.width() + class])
                    .sum();
                sum * u64::from(kind.kind.gpu.total_milli())
            })
            .collect()
    }
}
