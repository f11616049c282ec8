//! Section "state calls": digest, export and import.

use mortise_core::Kernel;

use crate::abi;
use crate::boundary::{InArray, OutArray, Regions, enter};
use crate::fault::Fault;
use crate::handles;
use crate::pin_to_header;

pin_to_header! {
    mortise_state_digest mortise_state_export mortise_state_import
    mortise_learned_export mortise_learned_import
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_state_digest(
    handle: abi::mortise_handle,
    out_high: *mut u64,
    out_low: *mut u64,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        // SAFETY: the header's promise for `out_high`.
        let high = unsafe { OutArray::packed(regions, "out_high", out_high, 1)? };
        // SAFETY: the header's promise for `out_low`.
        let low = unsafe { OutArray::packed(regions, "out_low", out_low, 1)? };
        let digest = cluster.read(|kernel| Ok(kernel.digest()))?;
        high.set(0, (digest >> 64) as u64);
        low.set(0, digest as u64);
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
pub unsafe extern "C" fn mortise_state_export(
    handle: abi::mortise_handle,
    out_bytes: *mut u8,
    capacity: usize,
    out_length: *mut usize,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    // SAFETY: passed on.
    unsafe {
        export(handle, out_bytes, capacity, out_length, err, |kernel| Ok(kernel.export_state()?))
    }
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_state_import(
    handle: abi::mortise_handle,
    bytes: *const u8,
    length: usize,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let max = abi::MORTISE_MAX_STATE_BYTES;
    // SAFETY: passed on.
    unsafe {
        import(handle, bytes, length, max, err, |kernel, bytes| Ok(kernel.import_state(bytes)?))
    }
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_learned_export(
    handle: abi::mortise_handle,
    out_bytes: *mut u8,
    capacity: usize,
    out_length: *mut usize,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    // SAFETY: passed on.
    unsafe {
        export(handle, out_bytes, capacity, out_length, err, |kernel| Ok(kernel.export_learned()))
    }
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_learned_import(
    handle: abi::mortise_handle,
    bytes: *const u8,
    length: usize,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let max = abi::MORTISE_MAX_LEARNED_BYTES.into();
    // SAFETY: passed on.
    unsafe {
        import(handle, bytes, length, max, err, |kernel, bytes| Ok(kernel.import_learned(bytes)?))
    }
}

/// # Safety
/// The header's promise for the pointers.
unsafe fn export(
    handle: abi::mortise_handle,
    out_bytes: *mut u8,
    capacity: usize,
    out_length: *mut usize,
    err: *mut abi::mortise_error,
    exported: impl FnOnce(&Kernel) -> Result<Vec<u8>, Fault>,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        // SAFETY: passed on.
        let out = unsafe { OutArray::packed(regions, "out_bytes", out_bytes, capacity)? };
        // SAFETY: passed on.
        let out_length = unsafe { OutArray::packed(regions, "out_length", out_length, 1)? };
        let bytes = cluster.read(exported)?;
        if !out.is_query() {
            out.check_room(bytes.len())?;
            for (index, &byte) in bytes.iter().enumerate() {
                out.set(index, byte);
            }
        }
        out_length.set(0, bytes.len());
        Ok(())
    };
    // SAFETY: passed on.
    unsafe { enter(err, body) }
}

/// # Safety
/// The header's promise for the pointers.
unsafe fn import(
    handle: abi::mortise_handle,
    bytes: *const u8,
    length: usize,
    max: u64,
    err: *mut abi::mortise_error,
    imported: impl FnOnce(&mut Kernel, &[u8]) -> Result<(), Fault>,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        if bytes.is_null() {
            return Err(Fault::null("bytes"));
        }
        // SAFETY: passed on.
        let bytes = unsafe { InArray::packed(regions, "bytes", bytes, length, max)? }.to_vec()?;
        cluster.write(|kernel| imported(kernel, &bytes))
    };
    // SAFETY: passed on.
    unsafe { enter(err, body) }
}
