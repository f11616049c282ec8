//! Section "score calls": the best candidate, and why others do not fit.

use mortise_core::mig::MigInstances;
use mortise_core::{Candidates, DeviceMask, NodeReason, NodeRef, NodeScore, Reason, Unfit};

use crate::abi;
use crate::boundary::{
    InArray, OutArray, OutStruct, Regions, check_flags, check_reserved, enter, read_struct,
};
use crate::convert::{Place, pod_request};
use crate::fault::Fault;
use crate::handles;
use crate::pin_to_header;
use crate::scratch::{Scratch, refill, reset};

pin_to_header! { mortise_score mortise_reasons }

const NO_SCORE: NodeScore = NodeScore { score: i64::MIN, devices: DeviceMask::EMPTY, reason: 0 };
const NO_REASON: NodeReason = NodeReason {
    node: NodeRef::NIL,
    unfit: Unfit { reason: Reason::NoNode, need: 0, have: 0, largest_free: 0 },
};

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_score(
    handle: abi::mortise_handle,
    request: *const abi::mortise_score_request,
    out_scores: *mut abi::mortise_node_score,
    score_capacity: usize,
    out_decision: *mut abi::mortise_decision,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        // SAFETY: the header's promise for `request`.
        let request = unsafe { read_struct(regions, "request", request)? };
        let all = check_request(&request)?;
        // SAFETY: the header's promise for `request->pod`.
        let pod = unsafe { read_struct(regions, "request.pod", request.pod)? };
        // SAFETY: the header's promise for `request->candidates`.
        let candidates = unsafe {
            InArray::packed(
                regions,
                "request.candidates",
                request.candidates,
                request.candidate_count,
                abi::MORTISE_MAX_NODES.into(),
            )?
        };
        let wants_scores = !out_scores.is_null();
        let capacity = if wants_scores { score_capacity } else { 0 };
        // SAFETY: the header's promise for `out_scores`.
        let out_scores = unsafe {
            OutArray::strided(regions, "out_scores", out_scores, capacity, request.score_stride)?
        };
        // SAFETY: the header's promise for `out_decision`.
        let out_decision = unsafe { OutStruct::new(regions, "out_decision", out_decision)? };
        let (pod, _) = pod_request(Place::of("request.pod"), &pod)?;

        let mut scratch = cluster.scratch();
        let Scratch { named, scores, .. } = &mut *scratch;
        let listed = candidates.iter().map(|node| Ok(NodeRef::from_u64(node?)));
        refill(named, "candidates", candidates.len(), listed)?;
        let decision = cluster.write(|kernel| {
            if all && wants_scores {
                let nodes = kernel.cluster().nodes().map(Ok);
                refill(named, "candidates", kernel.cluster().len(), nodes)?;
            }
            if wants_scores {
                out_scores.check_room(named.len())?;
                reset(scores, "scores", named.len(), NO_SCORE)?;
            }
            let choice = if all { Candidates::All } else { Candidates::Refs(named) };
            let wanted = wants_scores.then_some(&mut scores[..]);
            Ok(kernel.decide_with(&cluster.threads, &pod, choice, request.tie_salt, wanted)?)
        })?;
        if wants_scores {
            for (index, (node, score)) in named.iter().zip(scores.iter()).enumerate() {
                out_scores.set(index, score_struct(*node, *score));
            }
        }
        let (node, devices) = decision.best.unwrap_or((NodeRef::NIL, DeviceMask::EMPTY));
        out_decision.write(abi::mortise_decision {
            struct_size: 0,
            feasible_count: decision.feasible,
            node_ref: node.to_u64(),
            score: decision.score,
            candidate_index: decision.candidate.unwrap_or(abi::MORTISE_CANDIDATE_NONE),
            devices: devices.0,
            mig_count: decision.mig.as_slice().len() as u16,
            mig: mig_instances(&decision.mig),
        });
        Ok(())
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

fn mig_instances(
    chosen: &MigInstances,
) -> [abi::mortise_mig_instance; abi::MORTISE_MAX_MIG_PER_POD as usize] {
    let mut out =
        [abi::mortise_mig_instance { device: 0, place: 0 }; abi::MORTISE_MAX_MIG_PER_POD as usize];
    for (to, from) in out.iter_mut().zip(chosen.as_slice()) {
        *to = abi::mortise_mig_instance { device: from.device, place: from.placement };
    }
    out
}

/// Whether every node is a candidate.
fn check_request(request: &abi::mortise_score_request) -> Result<bool, Fault> {
    check_flags("request.flags", request.flags, abi::MORTISE_SCORE_ALL_NODES)?;
    check_reserved("request.reserved", request.reserved.into())?;
    let all = request.flags & abi::MORTISE_SCORE_ALL_NODES != 0;
    if all && request.candidate_count > 0 {
        return Err(Fault::invalid(
            "request.candidate_count",
            request.candidate_count,
            "with MORTISE_SCORE_ALL_NODES it must be 0",
        ));
    }
    Ok(all)
}

const fn score_struct(node: NodeRef, score: NodeScore) -> abi::mortise_node_score {
    abi::mortise_node_score {
        node_ref: node.to_u64(),
        score: score.score,
        devices: score.devices.0,
        reason: score.reason,
        reserved: 0,
    }
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_reasons(
    handle: abi::mortise_handle,
    pod: *const abi::mortise_pod_request,
    reason_stride: u32,
    out_reasons: *mut abi::mortise_node_reason,
    reason_capacity: usize,
    out_reason_count: *mut usize,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        // SAFETY: the header's promise for `pod`.
        let pod = unsafe { read_struct(regions, "pod", pod)? };
        // SAFETY: the header's promise for `out_reasons`.
        let out = unsafe {
            OutArray::strided(regions, "out_reasons", out_reasons, reason_capacity, reason_stride)?
        };
        // SAFETY: the header's promise for `out_reason_count`.
        let out_count =
            unsafe { OutArray::packed(regions, "out_reason_count", out_reason_count, 1)? };
        let (pod, _) = pod_request(Place::of("pod"), &pod)?;
        let mut scratch = cluster.scratch();
        let reasons = &mut scratch.reasons;
        let count = cluster.read(|kernel| {
            let room = reason_capacity.min(kernel.cluster().len());
            reset(reasons, "reasons", room, NO_REASON)?;
            Ok(kernel.reasons(&pod, reasons))
        })?;
        if !out.is_query() {
            out.check_room(count)?;
            for (index, reason) in reasons.iter().take(count).enumerate() {
                out.set(index, reason_struct(reason));
            }
        }
        out_count.set(0, count);
        Ok(())
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

const fn reason_struct(reason: &NodeReason) -> abi::mortise_node_reason {
    abi::mortise_node_reason {
        node_ref: reason.node.to_u64(),
        need: reason.unfit.need,
        have: reason.unfit.have,
        largest_free: reason.unfit.largest_free,
        reason: reason.unfit.reason as u16,
        reserved16: 0,
        reserved: 0,
    }
}
