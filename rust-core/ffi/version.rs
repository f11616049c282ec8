//! Section "version calls": names, version, handshake.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::abi;
use crate::boundary::{enter, read_struct};
use crate::fault::Fault;
use crate::pin_to_header;

pin_to_header! {
    mortise_version mortise_status_name mortise_reason_name mortise_strategy_name mortise_handshake
}

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no NUL"),
    };

const STATUS_NAMES: [&CStr; 19] = [
    c"MORTISE_OK",
    c"MORTISE_ERR_NULL_POINTER",
    c"MORTISE_ERR_MISALIGNED",
    c"MORTISE_ERR_BAD_LENGTH",
    c"MORTISE_ERR_OVERLAP",
    c"MORTISE_ERR_ABI_MISMATCH",
    c"MORTISE_ERR_BAD_STRUCT_SIZE",
    c"MORTISE_ERR_BAD_HANDLE",
    c"MORTISE_ERR_STALE_NODE",
    c"MORTISE_ERR_UNKNOWN_NODE",
    c"MORTISE_ERR_DUPLICATE_NODE",
    c"MORTISE_ERR_INVALID_VALUE",
    c"MORTISE_ERR_LIMIT_EXCEEDED",
    c"MORTISE_ERR_BUFFER_TOO_SMALL",
    c"MORTISE_ERR_BUSY",
    c"MORTISE_ERR_POISONED",
    c"MORTISE_ERR_PANIC",
    c"MORTISE_ERR_OUT_OF_MEMORY",
    c"MORTISE_ERR_NOT_SUPPORTED",
];

const REASON_NAMES: [&CStr; 15] = [
    c"None",
    c"ModelMismatch",
    c"NoGpu",
    c"InsufficientCpu",
    c"InsufficientMemory",
    c"InsufficientWholeCards",
    c"NoCardFitsShare",
    c"InsufficientGpu",
    c"SharesNotOffered",
    c"TooFewCards",
    c"NoNode",
    c"NoMigProfile",
    c"NoLegalMigStart",
    c"InsufficientMigSlices",
    c"InsufficientMigInstances",
];

const STRATEGY_NAMES: [&CStr; 9] = [
    c"expected-stranding",
    c"fgd",
    c"best-fit",
    c"dot-product",
    c"gpu-packing",
    c"gpu-clustering",
    c"whole-card-first",
    c"least-allocated",
    c"random",
];

fn name(names: &[&'static CStr], index: usize) -> *const c_char {
    names.get(index).map_or(ptr::null(), |name| name.as_ptr())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mortise_version() -> *const c_char {
    VERSION.as_ptr()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mortise_status_name(status: abi::mortise_status) -> *const c_char {
    usize::try_from(status).map_or(ptr::null(), |index| name(&STATUS_NAMES, index))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mortise_reason_name(reason: u16) -> *const c_char {
    name(&REASON_NAMES, usize::from(reason))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mortise_strategy_name(index: u32) -> *const c_char {
    name(&STRATEGY_NAMES, index as usize)
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_handshake(
    info: *const abi::mortise_handshake_info,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut _| {
        // SAFETY: the header's promise for `info`.
        let info = unsafe { read_struct(regions, "info", info)? };
        check_version(info.abi_version)?;
        check_sizes(&info)
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

fn check_version(theirs: u32) -> Result<(), Fault> {
    let ours = abi::MORTISE_ABI_VERSION;
    if theirs >> 16 == ours >> 16 && theirs & 0xffff <= ours & 0xffff {
        return Ok(());
    }
    Err(mismatch("abi_version", theirs, ours))
}

fn check_sizes(info: &abi::mortise_handshake_info) -> Result<(), Fault> {
    macro_rules! check {
        ($($field:ident $type:ident;)*) => {$(
            let ours = size_of::<abi::$type>() as u32;
            if info.$field != ours {
                return Err(mismatch(stringify!($field), info.$field, ours));
            }
        )*};
    }
    check! {
        error_size mortise_error;
        config_size mortise_config;
        mix_kind_size mortise_mix_kind;
        node_delta_size mortise_node_delta;
        pod_record_size mortise_pod_record;
        pod_request_size mortise_pod_request;
        sync_request_size mortise_sync_request;
        sync_result_size mortise_sync_result;
        score_request_size mortise_score_request;
        node_score_size mortise_node_score;
        decision_size mortise_decision;
        node_reason_size mortise_node_reason;
        fragmentation_report_size mortise_fragmentation_report;
        stats_report_size mortise_stats_report;
        pod_facts_size mortise_pod_facts;
        gang_size mortise_gang;
        preempt_request_size mortise_preempt_request;
        victim_size mortise_victim;
        plan_placement_size mortise_plan_placement;
        runner_up_size mortise_runner_up;
        blocked_size mortise_blocked;
        checkpoint_warning_size mortise_checkpoint_warning;
        plan_buffers_size mortise_plan_buffers;
        plan_size mortise_plan;
        mig_place_size mortise_mig_place;
        explanation_size mortise_explanation;
    }
    Ok(())
}

fn mismatch(field: &str, theirs: u32, ours: u32) -> Fault {
    Fault::new(
        abi::MORTISE_ERR_ABI_MISMATCH,
        format!(
            "info.{field} is {theirs:#x}, the library has {ours:#x}; compile and link the same version"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mortise_core::{Reason, Strategy};

    #[test]
    fn names_are_those_of_the_kernel() {
        let strategies: Vec<_> = STRATEGY_NAMES.iter().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(strategies, Strategy::ALL.map(Strategy::name));
        assert_eq!(REASON_NAMES.len(), Reason::ALL.len() + 1);
        for reason in Reason::ALL {
            assert_eq!(REASON_NAMES[reason as usize].to_str(), Ok(reason.name()));
        }
    }

    #[test]
    fn reasons_have_the_numbers_of_the_header() {
        let header = [
            abi::MORTISE_REASON_MODEL_MISMATCH,
            abi::MORTISE_REASON_NO_GPU,
            abi::MORTISE_REASON_INSUFFICIENT_CPU,
            abi::MORTISE_REASON_INSUFFICIENT_MEMORY,
            abi::MORTISE_REASON_INSUFFICIENT_WHOLE_CARDS,
            abi::MORTISE_REASON_NO_CARD_FITS_SHARE,
            abi::MORTISE_REASON_INSUFFICIENT_GPU,
            abi::MORTISE_REASON_SHARES_NOT_OFFERED,
            abi::MORTISE_REASON_TOO_FEW_CARDS,
            abi::MORTISE_REASON_NO_NODE,
            abi::MORTISE_REASON_NO_MIG_PROFILE,
            abi::MORTISE_REASON_NO_LEGAL_MIG_START,
            abi::MORTISE_REASON_INSUFFICIENT_MIG_SLICES,
            abi::MORTISE_REASON_INSUFFICIENT_MIG_INSTANCES,
        ];
        assert_eq!(header, Reason::ALL.map(|reason| reason as u32));
        assert_eq!(abi::MORTISE_REASON_NONE, 0);
    }

    #[test]
    fn a_newer_minor_or_another_major_version_is_refused() {
        let ours = abi::MORTISE_ABI_VERSION;
        assert!(check_version(ours).is_ok());
        assert!(check_version(ours + 1).is_err());
        assert!(check_version(ours + 0x1_0000).is_err());
        assert!(check_version(ours - 0x1_0000).is_err());
    }
}
