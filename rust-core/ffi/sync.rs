//! Section "sync calls": the caller's nodes and pods into the kernel.

use mortise_core::{NodeRef, SyncBatch};

use crate::abi;
use crate::boundary::{InArray, OutArray, OutStruct, Regions, check_flags, enter, read_struct};
use crate::convert::{Place, node_delta, pod_record, pod_request};
use crate::fault::Fault;
use crate::handles;
use crate::pin_to_header;
use crate::scratch::{Scratch, refill, reset};

pin_to_header! { mortise_sync mortise_learn_from_pods }

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_sync(
    handle: abi::mortise_handle,
    request: *const abi::mortise_sync_request,
    out_refs: *mut abi::mortise_node_ref,
    out_result: *mut abi::mortise_sync_result,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        // SAFETY: the header's promise for `request`.
        let request = unsafe { read_struct(regions, "request", request)? };
        check_flags("request.flags", request.flags, abi::MORTISE_SYNC_FULL)?;
        // SAFETY: the header's promise for the pointers inside `request`.
        let input = unsafe { SyncInput::new(regions, &request)? };
        let ref_count = if out_refs.is_null() { 0 } else { input.upserts.len() };
        // SAFETY: the header's promise for `out_refs`: one element per upsert.
        let out_refs = unsafe { OutArray::packed(regions, "out_refs", out_refs, ref_count)? };
        // SAFETY: the header's promise for `out_result`.
        let out_result = unsafe { OutStruct::new(regions, "out_result", out_result)? };

        let mut scratch = cluster.scratch();
        let Scratch { upserts, pods, refs, named, .. } = &mut *scratch;
        refill(
            upserts,
            "nodes",
            input.upserts.len(),
            input.upserts.iter().enumerate().map(|(index, node)| node_delta(index, &node?)),
        )?;
        refill(
            pods,
            "pods",
            input.pods.len(),
            input.pods.iter().enumerate().map(|(index, pod)| pod_record(index, &pod?)),
        )?;
        let removed = input.removals.iter().map(|node| Ok(NodeRef::from_u64(node?)));
        refill(named, "removals", input.removals.len(), removed)?;
        reset(refs, "node references", upserts.len(), NodeRef::NIL)?;
        let arrival = match input.arrival {
            Some(pod) => {
                let (arrival, learn) = pod_request(Place::of("request.arrival"), &pod)?;
                learn.then_some(arrival)
            }
            None => None,
        };
        let batch = SyncBatch {
            full: request.flags & abi::MORTISE_SYNC_FULL != 0,
            upserts,
            pods,
            removals: named,
            arrival,
        };
        let result = cluster.write(|kernel| {
            let report = kernel.sync(&batch, refs)?;
            let totals = kernel.cluster().totals();
            Ok(abi::mortise_sync_result {
                struct_size: 0,
                node_count: kernel.cluster().len() as u32,
                pod_count: totals.pods,
                added_count: report.added,
                changed_count: report.changed,
                removed_count: report.removed,
                arrival_counted: report.arrival_counted.into(),
                overcommitted_milli: totals.overcommitted_milli,
            })
        })?;
        for (index, node) in refs.iter().enumerate().take(ref_count) {
            out_refs.set(index, node.to_u64());
        }
        out_result.write(result);
        Ok(())
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

/// The arrays of a request.
struct SyncInput {
    upserts: InArray<abi::mortise_node_delta>,
    pods: InArray<abi::mortise_pod_record>,
    removals: InArray<abi::mortise_node_ref>,
    arrival: Option<abi::mortise_pod_request>,
}

impl SyncInput {
    /// # Safety
    /// The header's promise for the pointers inside `request`.
    unsafe fn new(
        regions: &mut Regions,
        request: &abi::mortise_sync_request,
    ) -> Result<Self, Fault> {
        const MAX_NODES: u64 = abi::MORTISE_MAX_NODES as u64;
        // SAFETY: passed on.
        let upserts = unsafe {
            InArray::strided(
                regions,
                "request.upserts",
                request.upserts,
                request.upsert_count,
                request.upsert_stride,
                MAX_NODES,
            )?
        };
        // SAFETY: passed on.
        let pods = unsafe {
            InArray::strided(
                regions,
                "request.pods",
                request.pods,
                request.pod_count,
                request.pod_stride,
                abi::MORTISE_MAX_PODS_PER_SYNC.into(),
            )?
        };
        // SAFETY: passed on.
        let removals = unsafe {
            InArray::packed(
                regions,
                "request.removals",
                request.removals,
                request.removal_count,
                MAX_NODES,
            )?
        };
        let arrival = if request.arrival.is_null() {
            None
        } else {
            // SAFETY: passed on.
            Some(unsafe { read_struct(regions, "request.arrival", request.arrival)? })
        };
        Ok(Self { upserts, pods, removals, arrival })
    }
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_learn_from_pods(
    handle: abi::mortise_handle,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |_: &mut Regions| {
        handles::get(handle)?.write(|kernel| {
            kernel.learn_from_pods();
            Ok(())
        })
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}
