//! Random bytes as structs: the library never crashes, answers with a status of the header, and a refused call leaves
//! cluster and outputs as they were.

mod common;

use std::mem::MaybeUninit;
use std::ptr;

use common::{Cluster, OK, decision, error, message, score_request, sync_request, sync_result};
use mortise::abi;
use proptest::prelude::*;

/// Any bytes as a struct of integers.
fn from_bytes<T: Copy>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>());
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr().cast::<u8>();
    // SAFETY: as many bytes as T has.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    // SAFETY: used with structs of integers only, for which all bytes are valid.
    unsafe { value.assume_init() }
}

/// Bytes of which most are small, so that some values get past the first check.
fn bytes(length: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![6 => Just(0u8), 2 => 0..4u8, 1 => any::<u8>()];
    prop::collection::vec(byte, length)
}

fn known(status: i32) -> bool {
    (0..=abi::MORTISE_ERR_NOT_SUPPORTED.cast_signed()).contains(&status)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn node_and_pod_bytes(
        nodes in prop::collection::vec(bytes(size_of::<abi::mortise_node_delta>()), 0..4),
        pods in prop::collection::vec(bytes(size_of::<abi::mortise_pod_record>()), 0..4),
        flags in 0..3u32,
    ) {
        let (cluster, _) = Cluster::with_nodes(3);
        let before = cluster.digest();
        let nodes: Vec<abi::mortise_node_delta> = nodes.iter().map(|node| from_bytes(node)).collect();
        let pods: Vec<abi::mortise_pod_record> = pods.iter().map(|pod| from_bytes(pod)).collect();
        let mut request = sync_request(&nodes, &pods);
        request.flags = flags;
        let mut refs = vec![42; nodes.len()];
        let (status, err) = cluster.sync(&request, &mut refs);
        prop_assert!(known(status));
        prop_assert!(status != abi::MORTISE_ERR_PANIC.cast_signed(), "{}", message(&err));
        if status == OK {
            prop_assert!(refs.iter().all(|&node| node != 42 && node != 0));
        } else {
            prop_assert!(refs.iter().all(|&node| node == 42));
            prop_assert_eq!(cluster.digest(), before);
            prop_assert!(!message(&err).is_empty());
        }
    }

    #[test]
    fn pod_request_bytes(pod in bytes(size_of::<abi::mortise_pod_request>()), exact in any::<bool>()) {
        let (cluster, refs) = Cluster::with_nodes(3);
        let mut pod: abi::mortise_pod_request = from_bytes(&pod);
        if exact {
            pod.struct_size = size_of::<abi::mortise_pod_request>() as u32;
        }
        // A larger struct_size would promise memory that is not there.
        pod.struct_size = pod.struct_size.min(size_of::<abi::mortise_pod_request>() as u32);
        let (status, choice) = cluster.score(&score_request(&pod, &refs), &mut []);
        prop_assert!(known(status) && status != abi::MORTISE_ERR_PANIC.cast_signed());
        let untouched = decision();
        if status != OK {
            prop_assert_eq!(choice.feasible_count, untouched.feasible_count);
            prop_assert_eq!(choice.node_ref, untouched.node_ref);
        }
    }

    #[test]
    fn state_and_learned_bytes(garbage in prop::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>(), flip in any::<u8>()) {
        let (cluster, _) = Cluster::with_nodes(3);
        let before = cluster.digest();
        let mut length = 0;
        let mut state = vec![0u8; 4096];
        // SAFETY: `state` has the capacity that is given.
        let status = unsafe {
            mortise::mortise_state_export(cluster.0, state.as_mut_ptr(), state.len(), &mut length, ptr::null_mut())
        };
        prop_assert_eq!(status, OK);
        state.truncate(length);
        let at = cut.index(length);
        state[at] ^= flip;
        for bytes in [&garbage, &state] {
            let mut err = error();
            // SAFETY: `bytes` has the length that is given.
            let status = unsafe { mortise::mortise_state_import(cluster.0, bytes.as_ptr(), bytes.len(), &mut err) };
            prop_assert!(known(status) && status != abi::MORTISE_ERR_PANIC.cast_signed(), "{}", message(&err));
            // SAFETY: as above.
            let learned = unsafe { mortise::mortise_learned_import(cluster.0, bytes.as_ptr(), bytes.len(), &mut err) };
            prop_assert!(learned != OK && learned != abi::MORTISE_ERR_PANIC.cast_signed(), "{}", message(&err));
            if status != OK {
                prop_assert_eq!(cluster.digest(), before);
            } else {
                break;
            }
        }
    }

    #[test]
    fn handles_out_of_nowhere(handle in any::<u64>()) {
        let (mut result, mut err) = (sync_result(), error());
        let request = sync_request(&[], &[]);
        // SAFETY: all point at live values.
        let status = unsafe { mortise::mortise_sync(handle | 1 << 63, &request, ptr::null_mut(), &mut result, &mut err) };
        prop_assert_eq!(status, abi::MORTISE_ERR_BAD_HANDLE.cast_signed());
    }
}
