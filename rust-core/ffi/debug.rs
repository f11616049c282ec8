//! Section "fault test calls": what hosts test their own handling of panics and waiting with.

use std::thread;
use std::time::Duration;

use crate::abi;
use crate::boundary::{Regions, enter};
use crate::fault::Fault;
use crate::handles::{self, HostedCluster};
use crate::pin_to_header;

pin_to_header! { mortise_debug_panic mortise_debug_hold }

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_debug_panic(
    handle: abi::mortise_handle,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |_: &mut Regions| {
        let cluster = handles::get(handle)?;
        check_allowed(&cluster, abi::MORTISE_CONFIG_ALLOW_DEBUG_PANIC, "mortise_debug_panic")?;
        cluster.write(|_| panic!("mortise_debug_panic was called"))
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_debug_hold(
    handle: abi::mortise_handle,
    milliseconds: u32,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |_: &mut Regions| {
        let cluster = handles::get(handle)?;
        check_allowed(&cluster, abi::MORTISE_CONFIG_ALLOW_DEBUG_HOLD, "mortise_debug_hold")?;
        let max = abi::MORTISE_MAX_LOCK_WAIT_MILLISECONDS;
        if milliseconds > max {
            return Err(Fault::limit("milliseconds", milliseconds, max));
        }
        cluster.write(|_| {
            thread::sleep(Duration::from_millis(milliseconds.into()));
            Ok(())
        })
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

fn check_allowed(cluster: &HostedCluster, flag: u32, call: &str) -> Result<(), Fault> {
    if cluster.flags & flag != 0 {
        return Ok(());
    }
    Err(Fault::unsupported(
        call,
        "switched off",
        &format!("set flag {flag:#x} in mortise_config.flags for fault tests"),
    ))
}
