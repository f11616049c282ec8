//! Section "score calls": what there is for a pod, in a few figures and a sentence.

use std::ffi::c_char;

use mortise_core::explain::Explanation;
use mortise_core::{Candidates, NodeRef, Reason};

use crate::abi;
use crate::boundary::{InArray, OutStruct, Regions, enter, read_struct};
use crate::convert::{Place, pod_request};
use crate::handles;
use crate::pin_to_header;
use crate::scratch::{Scratch, refill};

pin_to_header! { mortise_explain }

const REASONS: usize = abi::MORTISE_MAX_REASONS as usize;
const _: () = assert!(Reason::ALL.len() < REASONS);

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_explain(
    handle: abi::mortise_handle,
    pod: *const abi::mortise_pod_request,
    candidates: *const abi::mortise_node_ref,
    candidate_count: usize,
    out_explanation: *mut abi::mortise_explanation,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        // SAFETY: the header's promise for `pod`.
        let pod = unsafe { read_struct(regions, "pod", pod)? };
        let all = candidates.is_null() && candidate_count == 0;
        // SAFETY: the header's promise for `candidates`.
        let candidates = unsafe {
            InArray::packed(
                regions,
                "candidates",
                candidates,
                candidate_count,
                abi::MORTISE_MAX_NODES.into(),
            )?
        };
        // SAFETY: the header's promise for `out_explanation`.
        let out = unsafe { OutStruct::new(regions, "out_explanation", out_explanation)? };
        let (pod, _) = pod_request(Place::of("pod"), &pod)?;
        let mut scratch = cluster.scratch();
        let Scratch { named, .. } = &mut *scratch;
        let listed = candidates.iter().map(|node| Ok(NodeRef::from_u64(node?)));
        refill(named, "candidates", candidates.len(), listed)?;
        let found = cluster.read(|kernel| {
            let choice = if all { Candidates::All } else { Candidates::Refs(named) };
            Ok(kernel.explain_among(&pod, choice)?)
        })?;
        out.write(explanation_struct(&found));
        Ok(())
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

fn explanation_struct(found: &Explanation) -> abi::mortise_explanation {
    let mut out = abi::mortise_explanation {
        struct_size: 0,
        node_count: found.nodes,
        feasible_count: found.feasible,
        gpu_node_count: found.free.nodes,
        free_node_count: found.free.nodes_with_any,
        free_cards: found.free.cards,
        free_milli: found.free.milli,
        largest_node: found.largest_hole.map_or(NodeRef::NIL, |hole| hole.at).to_u64(),
        largest_hole: found.largest_hole.map_or(0, |hole| hole.size),
        reserved: 0,
        reason_counts: [0; REASONS],
        text: [0; 256],
    };
    for &(reason, count) in &found.counts {
        out.reason_counts[reason as usize] = count;
    }
    let text = found.room().to_string();
    let end = text.floor_char_boundary(out.text.len() - 1);
    for (to, from) in out.text.iter_mut().zip(&text.as_bytes()[..end]) {
        *to = *from as c_char;
    }
    out
}
