use proptest::prelude::*;

use super::*;
use crate::pack::{Mix, Ties};
use crate::sequence::{Arrivals, Sequence};
use crate::trace::{NodeSpec, PodSpec};

fn node(index: usize, gpus: u8, cpu_milli: i64, model: &str) -> NodeSpec {
    let model = if gpus == 0 { String::new() } else { model.to_owned() };
    NodeSpec { name: format!("node-{index}"), cpu_milli, memory_mib: 100, gpus, model }
}

fn pod(index: usize, request: (u8, u16), cpu_milli: i64, gpu_spec: &str) -> PodSpec {
    let gpu_spec = if request.0 == 0 { String::new() } else { gpu_spec.to_owned() };
    let (num_gpu, gpu_milli) = request;
    PodSpec { name: format!("pod-{index}"), cpu_milli, memory_mib: 1, num_gpu, gpu_milli, gpu_spec }
}

fn bound_milli(nodes: &[NodeSpec], pods: &[PodSpec], until_milli: u64) -> u64 {
    let setup = Setup {
        nodes: nodes.to_vec(),
        arrivals: Arrivals::Published { load: 1.0 },
        ties: Ties::Random,
        mix: Mix::Learned,
    };
    let trace = Trace { name: "t".into(), pods: pods.to_vec() };
    let sequence = Sequence { pods: (0..pods.len()).collect() };
    search::least_bound(&Instance::new(&setup, &trace, &sequence, until_milli))
}

/// Free CPU and free devices of a node.
type Room = (i64, Vec<u16>);

/// The most GPU that can be in use when the pods that must be accepted are all placed; none if they cannot be.
fn brute_force(nodes: &[NodeSpec], rooms: &mut [Room], pods: &[(PodSpec, bool)]) -> Option<u64> {
    let Some(((pod, must), rest)) = pods.split_first() else { return Some(0) };
    let mut best = if *must { None } else { brute_force(nodes, rooms, rest) };
    for index in 0..nodes.len() {
        let node = &nodes[index];
        let allowed = pod.gpu_spec.is_empty() || pod.models().any(|model| model == node.model);
        if !allowed || rooms[index].0 < pod.cpu_milli {
            continue;
        }
        for devices in choices(&rooms[index].1, pod) {
            take(&mut rooms[index], pod, &devices, 1);
            if let Some(used) = brute_force(nodes, rooms, rest) {
                best = best.max(Some(used + pod.gpu_milli_total()));
            }
            take(&mut rooms[index], pod, &devices, -1);
        }
    }
    best
}

fn take(room: &mut Room, pod: &PodSpec, devices: &[usize], sign: i32) {
    room.0 -= i64::from(sign) * pod.cpu_milli;
    for &device in devices {
        room.1[device] =
            u16::try_from(i32::from(room.1[device]) - sign * i32::from(pod.gpu_milli)).unwrap();
    }
}

/// Every device for a share; for whole devices the first free ones, as they are all alike.
fn choices(free: &[u16], pod: &PodSpec) -> Vec<Vec<usize>> {
    let fitting: Vec<usize> =
        (0..free.len()).filter(|&device| free[device] >= pod.gpu_milli).collect();
    match usize::from(pod.num_gpu) {
        0 => vec![vec![]],
        1 => fitting.into_iter().map(|device| vec![device]).collect(),
        count if fitting.len() >= count => vec![fitting[..count].to_vec()],
        _ => vec![],
    }
}

fn instances() -> impl Strategy<Value = (Vec<NodeSpec>, Vec<PodSpec>, u64)> {
    let model = prop_oneof![Just("A"), Just("B")];
    let node_of = (0..=2u8, prop_oneof![Just(10i64), Just(20)], model);
    let nodes = proptest::collection::vec(node_of, 1..=2).prop_map(|nodes| {
        nodes
            .into_iter()
            .enumerate()
            .map(|(index, (gpus, cpu, model))| node(index, gpus, cpu, model))
            .collect()
    });
    let shares =
        prop_oneof![Just(190u16), Just(300), Just(450), Just(500), Just(550), Just(700), Just(810)];
    let request = prop_oneof![
        Just((0u8, 0u16)),
        shares.prop_map(|milli| (1, milli)),
        Just((1u8, 1000u16)),
        Just((2u8, 1000u16))
    ];
    let spec = prop_oneof![4 => Just(""), 1 => Just("A"), 1 => Just("A|B"), 1 => Just("C")];
    let pods = proptest::collection::vec((request, 0..=8i64, spec), 1..=6).prop_map(|pods| {
        pods.into_iter()
            .enumerate()
            .map(|(index, (request, cpu, spec))| pod(index, request, cpu, spec))
            .collect()
    });
    (nodes, pods, 0..3000u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_placement_passes_it((nodes, pods, until_milli) in instances()) {
        let mut arrived = 0;
        let marked: Vec<(PodSpec, bool)> = pods.iter().map(|pod| {
            arrived += pod.gpu_milli_total();
            (pod.clone(), arrived <= until_milli && pod.num_gpu <= 1 && pod.gpu_spec.is_empty())
        }).collect();
        let mut rooms: Vec<Room> =
            nodes.iter().map(|node| (node.cpu_milli, vec![1000; usize::from(node.gpus)])).collect();
        // Without a placement of all pods that must be accepted there is no such policy and nothing to bound.
        if let Some(most) = brute_force(&nodes, &mut rooms, &marked) {
            let bound = bound_milli(&nodes, &pods, until_milli);
            prop_assert!(bound >= most, "bound {bound}, but {most} can be placed");
        }
    }
}

fn assert_near(bound: u64, exact: u64) {
    assert!(bound >= exact && bound <= exact + exact / 200 + 2, "bound {bound}, exact {exact}");
}

#[test]
fn a_rest_that_nothing_fits_is_lost() {
    let nodes = [node(0, 2, 100, "A")];
    let pods = [pod(0, (1, 810), 1, ""), pod(1, (1, 810), 1, ""), pod(2, (2, 1000), 1, "")];
    assert_near(bound_milli(&nodes, &pods, 1620), 1620);
    assert_near(bound_milli(&nodes, &pods, 0), 2000);
}

#[test]
fn a_rest_is_filled_only_by_what_arrives() {
    let nodes = [node(0, 4, 100, "A")];
    let mut pods: Vec<PodSpec> = (0..4).map(|index| pod(index, (1, 810), 1, "")).collect();
    pods.push(pod(4, (1, 190), 1, ""));
    pods.extend((5..9).map(|index| pod(index, (1, 1000), 1, "")));
    assert_near(bound_milli(&nodes, &pods, 3240), 3430);
}

#[test]
fn cpu_bounds_it_too() {
    let nodes = [node(0, 8, 40, "A")];
    let pods: Vec<PodSpec> = (0..8).map(|index| pod(index, (1, 1000), 10, "")).collect();
    assert_near(bound_milli(&nodes, &pods, 0), 4000);
    let mut with_cpu_only = vec![pod(20, (0, 0), 20, "")];
    with_cpu_only.extend(pods);
    assert_near(bound_milli(&nodes, &with_cpu_only, 0), 2000);
}

#[test]
fn only_allowed_models_count() {
    let nodes = [node(0, 1, 100, "A"), node(1, 3, 100, "B")];
    let pods: Vec<PodSpec> = (0..4).map(|index| pod(index, (1, 1000), 1, "A")).collect();
    assert_near(bound_milli(&nodes, &pods, 0), 1000);
}
