//! Which types are copied over the border, and how: as bytes, as many as both sides know.

use std::mem::{self, MaybeUninit};
use std::ptr;

use crate::abi;
use crate::fault::Fault;

/// A type of the header that is copied in and out as bytes.
///
/// # Safety
/// `repr(C)` or primitive, made of integers and raw pointers only: every initialised byte pattern is a value.
pub(crate) unsafe trait Plain: Copy {
    /// Bytes that every caller has.
    const MIN_SIZE: usize;
}

/// A [`Plain`] struct that says its own size.
///
/// # Safety
/// Its first field is `struct_size: u32`.
pub(crate) unsafe trait Sized32: Plain {}

macro_rules! plain {
    ($($type:ident $min:expr;)*) => {$(
        // SAFETY: bindgen makes a repr(C) struct of integers, arrays of them and raw pointers.
        unsafe impl Plain for abi::$type {
            const MIN_SIZE: usize = $min as usize;
        }
        const _: () = assert!($min as usize <= size_of::<abi::$type>());
    )*};
}
macro_rules! sized {
    ($($type:ident $min:expr;)*) => {$(
        plain! { $type $min; }
        // SAFETY: the header puts struct_size first; the assertion below checks its place.
        unsafe impl Sized32 for abi::$type {}
        const _: () = assert!(mem::offset_of!(abi::$type, struct_size) == 0);
    )*};
}
plain! {
    mortise_mix_kind abi::MORTISE_MIX_KIND_MIN_SIZE;
    mortise_node_delta abi::MORTISE_NODE_DELTA_MIN_SIZE;
    mortise_pod_record abi::MORTISE_POD_RECORD_MIN_SIZE;
    mortise_node_score abi::MORTISE_NODE_SCORE_MIN_SIZE;
    mortise_node_reason abi::MORTISE_NODE_REASON_MIN_SIZE;
    mortise_pod_facts abi::MORTISE_POD_FACTS_MIN_SIZE;
    mortise_gang abi::MORTISE_GANG_MIN_SIZE;
    mortise_victim abi::MORTISE_VICTIM_MIN_SIZE;
    mortise_plan_placement abi::MORTISE_PLAN_PLACEMENT_MIN_SIZE;
    mortise_runner_up abi::MORTISE_RUNNER_UP_MIN_SIZE;
    mortise_blocked abi::MORTISE_BLOCKED_MIN_SIZE;
    mortise_checkpoint_warning abi::MORTISE_CHECKPOINT_WARNING_MIN_SIZE;
}
sized! {
    mortise_handshake_info abi::MORTISE_HANDSHAKE_INFO_MIN_SIZE;
    mortise_config abi::MORTISE_CONFIG_MIN_SIZE;
    mortise_pod_request abi::MORTISE_POD_REQUEST_MIN_SIZE;
    mortise_sync_request abi::MORTISE_SYNC_REQUEST_MIN_SIZE;
    mortise_sync_result abi::MORTISE_SYNC_RESULT_MIN_SIZE;
    mortise_score_request abi::MORTISE_SCORE_REQUEST_MIN_SIZE;
    mortise_decision abi::MORTISE_DECISION_MIN_SIZE;
    mortise_fragmentation_report abi::MORTISE_FRAGMENTATION_REPORT_MIN_SIZE;
    mortise_stats_report abi::MORTISE_STATS_REPORT_MIN_SIZE;
    mortise_preempt_request abi::MORTISE_PREEMPT_REQUEST_MIN_SIZE;
    mortise_plan_buffers abi::MORTISE_PLAN_BUFFERS_MIN_SIZE;
    mortise_plan abi::MORTISE_PLAN_MIN_SIZE;
    mortise_error abi::MORTISE_ERROR_MIN_SIZE;
    mortise_mig_place abi::MORTISE_MIG_PLACE_MIN_SIZE;
    mortise_explanation abi::MORTISE_EXPLANATION_MIN_SIZE;
}
macro_rules! primitive {
    ($($type:ty),*) => {$(
        // SAFETY: an integer.
        unsafe impl Plain for $type {
            const MIN_SIZE: usize = size_of::<$type>();
        }
    )*};
}
primitive!(u8, u32, u64, usize);

pub(super) fn check_size(
    name: &'static str,
    what: &str,
    size: usize,
    min: usize,
) -> Result<(), Fault> {
    let max = abi::MORTISE_MAX_STRUCT_SIZE as usize;
    if (min..=max).contains(&size) {
        return Ok(());
    }
    Err(Fault::new(
        abi::MORTISE_ERR_BAD_STRUCT_SIZE,
        format!("{what} of {name} is {size}; it must be in {min}..{max}: set it to sizeof"),
    ))
}

/// Copies what both sides know of one value; the rest is zero.
///
/// # Safety
/// `from` is valid for reads of `size` initialised bytes (padding excepted).
pub(super) unsafe fn copy_in<T: Plain>(from: *const u8, size: usize) -> T {
    if size >= size_of::<T>() {
        // SAFETY: `from` has all of T, whose every byte pattern is a value; a length known here makes it one move.
        return unsafe { from.cast::<T>().read_unaligned() };
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size;
    // SAFETY: `from` has `size` bytes, `value` has size_of::<T>(); a fresh local overlaps nothing.
    unsafe { ptr::copy_nonoverlapping(from, value.as_mut_ptr().cast::<u8>(), known) };
    // SAFETY: all bytes were zeroed or copied from initialised ones, and T is Plain.
    unsafe { value.assume_init() }
}

/// Whether the bytes that this library does not know are zero.
///
/// # Safety
/// `from` is valid for reads of `size` initialised bytes.
pub(super) unsafe fn tail_is_zero<T: Plain>(from: *const u8, size: usize) -> bool {
    (size_of::<T>()..size).all(|at| {
        // SAFETY: `at` < `size`.
        let byte = unsafe { from.add(at) };
        // SAFETY: as above; the bytes are initialised.
        unsafe { byte.read() == 0 }
    })
}

#[cold]
pub(super) fn unknown_tail(name: &str, known: usize) -> Fault {
    Fault::new(
        abi::MORTISE_ERR_NOT_SUPPORTED,
        format!(
            "{name} is set beyond the {known} bytes this library knows; use a newer library or zero the rest"
        ),
    )
}
