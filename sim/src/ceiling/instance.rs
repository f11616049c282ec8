//! The figures that the bound needs: kinds with the numbers accepted at least and at most, classes of node.

use std::collections::BTreeMap;

use crate::pack::Setup;
use crate::sequence::Sequence;
use crate::trace::{PodSpec, Trace};

/// Pods that are alike.
pub(super) struct Kind {
    pub(super) cpu_milli: i64,
    pub(super) num_gpu: u8,
    pub(super) gpu_milli: u16,
    /// Indices of the classes it may run on.
    pub(super) classes: Vec<usize>,
    /// Number that must be accepted.
    pub(super) at_least: i64,
    /// Number that arrive and may run somewhere.
    pub(super) at_most: i64,
}

impl Kind {
    /// GPU asked for, in devices.
    pub(super) fn devices(&self) -> f64 {
        f64::from(self.num_gpu) * f64::from(self.gpu_milli) / 1000.0
    }
}

/// Nodes of the same model and number of devices.
pub(super) struct Class {
    pub(super) devices: i64,
    pub(super) cpu_milli: i64,
}

pub(super) struct Instance {
    pub(super) kinds: Vec<Kind>,
    pub(super) classes: Vec<Class>,
    /// Greatest common divisor of all shares and of a whole device.
    pub(super) unit: u16,
}

/// CPU, devices, share and classes of a kind.
type KindKey = (i64, u8, u16, Vec<usize>);
/// Accepted at least and at most.
type Counts = (i64, i64);

/// Largest single node of a class: a pod above it fits on none of them.
#[derive(Default)]
struct Largest {
    devices: i64,
    cpu_total: i64,
    cpu: i64,
    memory: i64,
}

impl Instance {
    /// Pods of at most one GPU without a model constraint must be accepted while no more than `until_milli` thousandths
    /// of a GPU have arrived, the pod itself included.
    pub(super) fn new(
        setup: &Setup,
        trace: &Trace,
        sequence: &Sequence,
        until_milli: u64,
    ) -> Instance {
        let mut by_class: BTreeMap<(&str, u8), Largest> = BTreeMap::new();
        for node in &setup.nodes {
            let class = by_class.entry((&node.model, node.gpus)).or_default();
            class.devices += i64::from(node.gpus);
            class.cpu_total += node.cpu_milli;
            class.cpu = class.cpu.max(node.cpu_milli);
            class.memory = class.memory.max(node.memory_mib);
        }
        let mut kinds: BTreeMap<KindKey, Counts> = BTreeMap::new();
        let mut arrived = 0;
        for pod in sequence.pods.iter().map(|&pod| &trace.pods[pod]) {
            arrived += pod.gpu_milli_total();
            let runs_on = |(&(model, gpus), class): (&(&str, u8), &Largest)| {
                may_run(pod, model, gpus)
                    && pod.cpu_milli <= class.cpu
                    && pod.memory_mib <= class.memory
            };
            let classes: Vec<usize> = by_class
                .iter()
                .enumerate()
                .filter(|&(_, class)| runs_on(class))
                .map(|(index, _)| index)
                .collect();
            let must = arrived <= until_milli && pod.num_gpu <= 1 && !pod.is_constrained();
            if classes.is_empty() {
                continue;
            }
            let key = (pod.cpu_milli, pod.num_gpu, pod.gpu_milli, classes);
            let count = kinds.entry(key).or_default();
            count.0 += i64::from(must);
            count.1 += 1;
        }
        let kinds: Vec<Kind> = kinds
            .into_iter()
            .map(|((cpu_milli, num_gpu, gpu_milli, classes), (at_least, at_most))| Kind {
                cpu_milli,
                num_gpu,
                gpu_milli,
                classes,
                at_least,
                at_most,
            })
            .collect();
        let unit = kinds.iter().fold(1000, |unit, kind| gcd(unit, kind.gpu_milli));
        let classes = by_class
            .values()
            .map(|class| Class { devices: class.devices, cpu_milli: class.cpu_total })
            .collect();
        Instance { kinds, classes, unit }
    }
}

fn may_run(pod: &PodSpec, model: &str, gpus: u8) -> bool {
    gpus >= pod.num_gpu && (!pod.is_constrained() || pod.models().any(|allowed| allowed == model))
}

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}
