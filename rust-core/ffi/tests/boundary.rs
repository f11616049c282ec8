//! What the C program in conformance/c cannot see: many threads, agreement with direct calls of the kernel, and that
//! every message names a fix.

mod common;

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::{
    Cluster, NO_SCORE, OK, config, decision, error, message, node, pod, score_request,
    sync_request, text,
};
use mortise::abi;
use mortise_core::{Candidates, Config, Kernel, NodeScore, PodRequest};

fn status(number: u32) -> i32 {
    number.cast_signed()
}

#[test]
fn answers_are_those_of_the_kernel() {
    let mut kernel = Kernel::new(Config { seed: 7, ..Config::default() }).unwrap();
    let nodes: Vec<_> = (1..=40).map(|key| node(key, (key % 9) as u16)).collect();
    let deltas: Vec<_> = nodes
        .iter()
        .map(|node| mortise_core::NodeDelta {
            node: mortise_core::NodeRef::NIL,
            key: mortise_core::NodeKey(node.node_key),
            generation: mortise_core::Generation(1),
            cpu_free: mortise_core::MilliCpu(96_000),
            memory_free: mortise_core::MemoryBytes(1 << 39),
            cpu_allocatable: mortise_core::MilliCpu(96_000),
            memory_allocatable: mortise_core::MemoryBytes(1 << 39),
            model: mortise_core::ModelId::NONE,
            gpu_count: node.gpu_count as u8,
            capacity: node
                .gpu_capacity_milli
                .map(|milli| mortise_core::MilliGpu::new(milli).unwrap()),
            shares_offered: true,
            mig: Default::default(),
            first_pod: 0,
            pod_count: 0,
        })
        .collect();
    let mut direct_refs = vec![mortise_core::NodeRef::NIL; deltas.len()];
    let batch = mortise_core::SyncBatch { upserts: &deltas, ..Default::default() };
    kernel.sync(&batch, &mut direct_refs).unwrap();

    let cluster = Cluster::new(0);
    let mut refs = vec![0; nodes.len()];
    assert_eq!(cluster.sync(&sync_request(&nodes, &[]), &mut refs).0, OK);
    assert_eq!(refs, direct_refs.iter().map(|node| node.to_u64()).collect::<Vec<_>>());
    assert_eq!(cluster.digest(), kernel.digest());

    for (uid, (count, milli)) in
        [(1, 1_000), (1, 250), (8, 1_000), (0, 0), (3, 1_000)].into_iter().enumerate()
    {
        let request = pod(uid as u64, count, milli);
        let direct_request = PodRequest {
            uid: mortise_core::PodUid(uid as u128),
            cpu: mortise_core::MilliCpu(4_000),
            memory: mortise_core::MemoryBytes(1 << 30),
            gpu: mortise_core::GpuRequest::new(count, milli).unwrap(),
            models: mortise_core::ModelSet::ANY,
            priority: mortise_core::Priority(0),
            tier: mortise_core::Tier::Training,
            mig: Default::default(),
        };
        let mut scores = vec![NO_SCORE; refs.len()];
        let (status, decision) = cluster.score(&score_request(&request, &refs), &mut scores);
        assert_eq!(status, OK);
        let blank = NodeScore { score: 0, devices: mortise_core::DeviceMask::EMPTY, reason: 0 };
        let mut direct_scores = vec![blank; refs.len()];
        let direct = kernel
            .decide(&direct_request, Candidates::Refs(&direct_refs), 0, Some(&mut direct_scores))
            .unwrap();
        let best = direct.best.map(|(node, devices)| (node.to_u64(), devices.0));
        assert_eq!(best, Some((decision.node_ref, decision.devices)));
        assert_eq!((direct.score, direct.feasible), (decision.score, decision.feasible_count));
        for (ours, direct) in scores.iter().zip(&direct_scores) {
            assert_eq!(
                (ours.score, ours.devices, ours.reason),
                (direct.score, direct.devices.0, direct.reason)
            );
        }
    }
}

#[test]
fn every_status_and_reason_has_a_name() {
    for number in abi::MORTISE_OK..=abi::MORTISE_ERR_NOT_SUPPORTED {
        assert!(text(mortise::mortise_status_name(status(number))).is_some(), "{number}");
    }
    assert_eq!(text(mortise::mortise_status_name(i32::MIN)), None);
    assert_eq!(text(mortise::mortise_status_name(i32::MAX)), None);
    for number in abi::MORTISE_REASON_NONE..=abi::MORTISE_REASON_NO_NODE {
        assert!(text(mortise::mortise_reason_name(number as u16)).is_some(), "{number}");
    }
    assert_eq!(text(mortise::mortise_version()).as_deref(), Some(env!("CARGO_PKG_VERSION")));
}

/// Nodes enough for two threads, and kinds enough for the mix to be relearned several times.
#[test]
fn threads_change_no_answer() {
    let mut nodes: Vec<_> = (1..=2_100).map(|key| node(key, (key % 9) as u16)).collect();
    for (index, node) in (0i64..).zip(&mut nodes) {
        node.cpu_free_milli = 20_000 + 37 * (index % 500);
    }
    let answers = |threads: u32| {
        let cluster = Cluster::of(&abi::mortise_config { threads, ..config() });
        let mut refs = vec![0; nodes.len()];
        assert_eq!(cluster.sync(&sync_request(&nodes, &[]), &mut refs).0, OK);
        let mut scores = vec![NO_SCORE; refs.len()];
        let mut answers = Vec::new();
        for uid in 1..=40u16 {
            let milli = [0, 50 * (uid % 7 + 1), 1_000][usize::from(uid % 3)];
            let pod = pod(uid.into(), uid % 3, milli);
            let mut arrival = sync_request(&[], &[]);
            arrival.arrival = &pod;
            assert_eq!(cluster.sync(&arrival, &mut []).0, OK);
            let (status, decision) = cluster.score(&score_request(&pod, &refs), &mut scores);
            assert_eq!(status, OK);
            answers.push((decision.node_ref, decision.devices, decision.score));
            answers.extend(scores.iter().map(|s| (s.node_ref, s.devices, s.score)));
        }
        answers
    };
    let alone = answers(0);
    assert!(alone.iter().any(|answer| answer.2 != alone[0].2), "nodes are told apart");
    assert!(alone == answers(2), "two threads give another answer");
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let name = "\u{20ac}".repeat(21); // 63 bytes, unknown as a strategy
    let config = abi::mortise_config {
        strategy: name.as_ptr().cast(),
        strategy_length: name.len(),
        ..config()
    };
    for size in 16..=272 {
        let mut err = abi::mortise_error { struct_size: size, ..error() };
        let mut handle = 42;
        // SAFETY: all point at live values.
        let got = unsafe { mortise::mortise_cluster_new(&config, &mut handle, &mut err) };
        assert_eq!((got, handle), (status(abi::MORTISE_ERR_INVALID_VALUE), 42));
        if size > 16 {
            let bytes: Vec<u8> = err.message.iter().map(|byte| byte.cast_unsigned()).collect();
            let end = bytes.iter().position(|&byte| byte == 0).expect("a NUL");
            assert!(end < size as usize - 16, "size {size}: NUL at {end}");
            assert!(std::str::from_utf8(&bytes[..end]).is_ok(), "size {size}");
            assert!(bytes[size as usize - 16..].iter().all(|&byte| byte == 0x5a), "size {size}");
        }
    }
}

#[test]
fn many_threads_use_and_free_the_same_handles() {
    let (cluster, refs) = Cluster::with_nodes(16);
    let decided = AtomicUsize::new(0);
    thread::scope(|scope| {
        for worker in 0..4u64 {
            let (refs, decided, handle) = (&refs, &decided, cluster.0);
            scope.spawn(move || {
                for round in 0..200 {
                    let wanted = pod(worker << 32 | round, 1, 500);
                    let (mut choice, mut err) = (decision(), error());
                    let request = score_request(&wanted, refs);
                    // SAFETY: all point at live values of this thread.
                    let got = unsafe {
                        mortise::mortise_score(
                            handle,
                            &request,
                            ptr::null_mut(),
                            0,
                            &mut choice,
                            &mut err,
                        )
                    };
                    match got {
                        OK => {
                            assert_eq!(choice.feasible_count, 16);
                            decided.fetch_add(1, Ordering::Relaxed);
                        }
                        other => {
                            assert_eq!(other, status(abi::MORTISE_ERR_BUSY), "{}", message(&err));
                        }
                    }
                    let own = Cluster::new(0);
                    assert_ne!(own.0, handle);
                }
            });
        }
    });
    assert!(decided.into_inner() > 0);
}

#[test]
fn a_panic_poisons_one_handle_and_frees_its_lock() {
    let cluster = Cluster::new(abi::MORTISE_CONFIG_ALLOW_DEBUG_PANIC);
    let other = Cluster::new(0);
    let mut err = error();
    // SAFETY: `err` is live.
    let got = unsafe { mortise::mortise_debug_panic(cluster.0, &mut err) };
    assert_eq!(got, status(abi::MORTISE_ERR_PANIC));
    assert!(message(&err).contains("mortise_debug_panic was called"), "{}", message(&err));
    for _ in 0..2 {
        // SAFETY: `err` is live.
        let got = unsafe { mortise::mortise_learn_from_pods(cluster.0, &mut err) };
        assert_eq!(got, status(abi::MORTISE_ERR_POISONED), "not BUSY: the lock is free");
    }
    // SAFETY: `err` is live.
    let got = unsafe { mortise::mortise_learn_from_pods(other.0, &mut err) };
    assert_eq!((got, message(&err).as_str()), (OK, ""));
}
