//! Section "report calls": figures about the cluster and the kernel.

use crate::abi;
use crate::boundary::{OutStruct, Regions, enter};
use crate::handles;
use crate::pin_to_header;

pin_to_header! { mortise_fragmentation mortise_stats }

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_fragmentation(
    handle: abi::mortise_handle,
    out_report: *mut abi::mortise_fragmentation_report,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        // SAFETY: the header's promise for `out_report`.
        let out = unsafe { OutStruct::new(regions, "out_report", out_report)? };
        let found = cluster.read(|kernel| Ok(kernel.fragmentation()))?;
        out.write(abi::mortise_fragmentation_report {
            struct_size: 0,
            reserved: 0,
            capacity_milli: found.capacity_milli.cast_signed(),
            idle_milli: found.idle_milli.cast_signed(),
            fragment_milli: found.fragment_milli.cast_signed(),
            stranded_milli: found.stranded_milli.cast_signed(),
            mig_slices: found.mig_slices.0.cast_signed(),
            mig_used_slices: found.mig_slices.1.cast_signed(),
            mig_stranded_milli: found.mig_stranded_milli.cast_signed(),
        });
        Ok(())
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_stats(
    handle: abi::mortise_handle,
    out_report: *mut abi::mortise_stats_report,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        // SAFETY: the header's promise for `out_report`.
        let out = unsafe { OutStruct::new(regions, "out_report", out_report)? };
        let (stats, nodes) = cluster.read(|kernel| Ok((kernel.stats(), kernel.cluster().len())))?;
        out.write(abi::mortise_stats_report {
            struct_size: 0,
            node_count: nodes as u32,
            decisions: stats.decisions,
            memo_hits: stats.memo_hits,
            memo_misses: stats.memo_misses,
            memo_bytes: stats.memo_bytes,
            column_hits: stats.column_hits,
            column_misses: stats.column_misses,
            column_bytes: stats.column_bytes,
            arrivals: stats.arrivals,
            relearns: stats.relearns,
            price_epochs: stats.price_epochs,
            mix_kind_count: stats.mix_kinds as u32,
            reserved: 0,
        });
        Ok(())
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}
