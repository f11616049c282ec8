//! The border itself: panics stop here, and every pointer, length and size of a caller is checked here before it is used.
//!
//! The checks cannot know whether a pointer really points at as many readable (or writable) bytes as the caller says.
//! That one promise is the safety contract of each `unsafe fn` here, called "the header's promise" in SAFETY comments:
//! non-NULL, aligned pointers of the caller are valid for the stated number of bytes during the call, inputs are
//! initialised, and nobody else writes inputs or touches outputs meanwhile.

mod arrays;
mod plain;
mod regions;
mod structs;

use std::any::Any;
use std::mem;
use std::panic::{self, AssertUnwindSafe};

pub(crate) use self::arrays::{InArray, OutArray};
pub(crate) use self::plain::Plain;
pub(crate) use self::regions::Regions;
pub(crate) use self::structs::{OutStruct, read_struct};
use crate::abi;
use crate::fault::Fault;

/// Runs the body of one call: reports its fault, turns a panic into a status, fills `err`.
///
/// # Safety
/// The header's promise for `err`.
pub(crate) unsafe fn enter(
    err: *mut abi::mortise_error,
    body: impl FnOnce(&mut Regions) -> Result<(), Fault>,
) -> abi::mortise_status {
    let mut regions = Regions::default();
    let report = if err.is_null() {
        None
    } else {
        // SAFETY: the caller passes the header's promise on.
        match unsafe { OutStruct::new(&mut regions, "err", err) } {
            Ok(report) => Some(report),
            Err(fault) => return fault.status,
        }
    };
    // The poison flag of the handle, not unwind safety, keeps broken state from being used again.
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| body(&mut regions)))
        .unwrap_or_else(|payload| Err(panicked(payload)));
    let fault = outcome.err();
    let status = fault.as_ref().map_or(OK, |fault| fault.status);
    if let Some(report) = report {
        let room = report.size().saturating_sub(mem::offset_of!(abi::mortise_error, message));
        report.write(error_struct(fault.as_ref(), room));
    }
    status
}

pub(crate) const OK: abi::mortise_status = abi::MORTISE_OK.cast_signed();

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> Fault {
    let text = payload_text(payload);
    Fault::new(
        abi::MORTISE_ERR_PANIC,
        format!(
            "panic inside the library: {text}; if a handle was given it is poisoned: free it, build a new cluster and report this"
        ),
    )
}

fn payload_text(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<&'static str>() {
        Ok(text) => return (*text).to_owned(),
        Err(payload) => payload,
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            // A payload of another type may panic once more when it is dropped.
            mem::forget(payload);
            "without a message".to_owned()
        }
    }
}

/// `room`: bytes of the caller's message, its NUL included.
fn error_struct(fault: Option<&Fault>, room: usize) -> abi::mortise_error {
    let mut error = abi::mortise_error {
        struct_size: 0,
        status: fault.map_or(OK, |fault| fault.status),
        required: fault.map_or(0, |fault| fault.required),
        message: [0; 256],
    };
    if let Some(fault) = fault {
        let room = room.min(error.message.len());
        let end = fault.message.floor_char_boundary(room.saturating_sub(1));
        for (to, from) in error.message.iter_mut().zip(fault.message.as_bytes()[..end].iter()) {
            *to = from.cast_signed();
        }
    }
    error
}

/// Refuses flag bits that the header does not define.
pub(crate) fn check_flags(name: &str, flags: u32, known: u32) -> Result<(), Fault> {
    if flags & !known == 0 {
        return Ok(());
    }
    Err(Fault::unsupported(
        name,
        format_args!("{flags:#x}"),
        &format!("defined bits are {known:#x}"),
    ))
}

/// Refuses a reserved field that is in use.
pub(crate) fn check_reserved(name: &str, value: u64) -> Result<(), Fault> {
    if value == 0 {
        return Ok(());
    }
    Err(Fault::unsupported(name, value, "reserved fields must be 0"))
}
