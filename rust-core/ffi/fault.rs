//! What a call reports when it cannot do its work.

use std::fmt::Display;

use mortise_core::{Error, ErrorCode};

use crate::abi;

/// Status and message of a failed call.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: abi::mortise_status,
    /// Capacity needed, for `BUFFER_TOO_SMALL`.
    pub(crate) required: u64,
    pub(crate) message: String,
}

impl Fault {
    #[cold]
    pub(crate) fn new(status: u32, message: impl Into<String>) -> Self {
        Self { status: status.cast_signed(), required: 0, message: message.into() }
    }

    #[cold]
    pub(crate) fn null(name: &str) -> Self {
        Self::new(abi::MORTISE_ERR_NULL_POINTER, format!("{name} is NULL; it must point to memory"))
    }

    #[cold]
    pub(crate) fn invalid(name: impl Display, value: impl Display, fix: &str) -> Self {
        Self::new(abi::MORTISE_ERR_INVALID_VALUE, format!("{name} is {value}; {fix}"))
    }

    #[cold]
    pub(crate) fn limit(name: impl Display, value: impl Display, limit: impl Display) -> Self {
        Self::new(
            abi::MORTISE_ERR_LIMIT_EXCEEDED,
            format!("{name} is {value}; the limit is {limit}"),
        )
    }

    #[cold]
    pub(crate) fn unsupported(name: impl Display, value: impl Display, fix: &str) -> Self {
        Self::new(abi::MORTISE_ERR_NOT_SUPPORTED, format!("{name} is {value}; {fix}"))
    }

    #[cold]
    pub(crate) fn too_small(name: &str, capacity: usize, required: usize) -> Self {
        Self {
            required: required as u64,
            ..Self::new(
                abi::MORTISE_ERR_BUFFER_TOO_SMALL,
                format!("{name} has room for {capacity}, {required} needed"),
            )
        }
    }

    #[cold]
    pub(crate) fn out_of_memory(what: &str, count: usize) -> Self {
        Self::new(
            abi::MORTISE_ERR_OUT_OF_MEMORY,
            format!("no memory for {count} {what}; pass fewer in one call"),
        )
    }
}

impl From<Error> for Fault {
    #[cold]
    fn from(error: Error) -> Self {
        Self::new(status_of(error.code()), error.to_string())
    }
}

/// Each class of kernel error has one status.
const fn status_of(code: ErrorCode) -> u32 {
    match code {
        ErrorCode::BadLength => abi::MORTISE_ERR_BAD_LENGTH,
        ErrorCode::StaleNode => abi::MORTISE_ERR_STALE_NODE,
        ErrorCode::UnknownNode => abi::MORTISE_ERR_UNKNOWN_NODE,
        ErrorCode::DuplicateNode => abi::MORTISE_ERR_DUPLICATE_NODE,
        ErrorCode::InvalidValue => abi::MORTISE_ERR_INVALID_VALUE,
        ErrorCode::LimitExceeded => abi::MORTISE_ERR_LIMIT_EXCEEDED,
        ErrorCode::OutOfMemory => abi::MORTISE_ERR_OUT_OF_MEMORY,
        ErrorCode::NotSupported => abi::MORTISE_ERR_NOT_SUPPORTED,
    }
}
