//! What can be wrong with an input. Every error names the thing, the value and the fix.

use thiserror::Error;

use crate::units::{NodeKey, NodeRef};

/// Stable class of an [`Error`]; the C ABI maps each to one status.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorCode {
    /// A slice has the wrong length.
    BadLength,
    /// A reference to a node that was removed.
    StaleNode,
    /// A reference that never was a node of this cluster.
    UnknownNode,
    /// One node is named twice.
    DuplicateNode,
    /// A value outside its domain.
    InvalidValue,
    /// A value or count beyond a bound of [`limits`](crate::limits).
    LimitExceeded,
    /// Memory could not be reserved.
    OutOfMemory,
    /// A request for something this build cannot do.
    NotSupported,
}

/// A rejected input. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A slice has the wrong length.
    #[error("{what} has {len} elements, expected {expected}")]
    BadLength {
        /// Which slice.
        what: String,
        /// Its length.
        len: usize,
        /// What it must be.
        expected: String,
    },
    /// The node was removed; its slot is empty or holds another node.
    #[error(
        "{what} refers to {node}, which was removed (the slot is at generation {current}); sync the node list again and use the new reference"
    )]
    StaleNode {
        /// Where the reference stood.
        what: String,
        /// The reference.
        node: NodeRef,
        /// Generation of the slot now.
        current: u32,
    },
    /// The reference was never given out.
    #[error(
        "{what} refers to {node}, which this cluster never gave out; use references returned by sync"
    )]
    UnknownNode {
        /// Where the reference stood.
        what: String,
        /// The reference.
        node: NodeRef,
    },
    /// One node is named twice.
    #[error("{what} names node {key} a second time; list each node once per batch")]
    DuplicateNode {
        /// Where the second mention stood.
        what: String,
        /// The node.
        key: NodeKey,
    },
    /// A value outside its domain.
    #[error("{what} is {value}; {fix}")]
    InvalidValue {
        /// Which value.
        what: String,
        /// As it was given.
        value: String,
        /// What is allowed, or what to do.
        fix: String,
    },
    /// Beyond a bound of [`limits`](crate::limits).
    #[error("{what} is {value}, the limit is {limit}")]
    LimitExceeded {
        /// Which quantity.
        what: String,
        /// As it was given.
        value: i128,
        /// The bound.
        limit: i128,
    },
    /// Memory could not be reserved.
    #[error(
        "out of memory: could not reserve {bytes} bytes for {what}; lower the memo budget or the number of nodes"
    )]
    OutOfMemory {
        /// For what.
        what: &'static str,
        /// How much.
        bytes: usize,
    },
    /// A request for something this build cannot do.
    #[error("{what} is not supported; {fix}")]
    NotSupported {
        /// What was asked.
        what: String,
        /// What to use instead.
        fix: String,
    },
}

impl Error {
    /// The stable class of this error.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::BadLength { .. } => ErrorCode::BadLength,
            Self::StaleNode { .. } => ErrorCode::StaleNode,
            Self::UnknownNode { .. } => ErrorCode::UnknownNode,
            Self::DuplicateNode { .. } => ErrorCode::DuplicateNode,
            Self::InvalidValue { .. } => ErrorCode::InvalidValue,
            Self::LimitExceeded { .. } => ErrorCode::LimitExceeded,
            Self::OutOfMemory { .. } => ErrorCode::OutOfMemory,
            Self::NotSupported { .. } => ErrorCode::NotSupported,
        }
    }

    pub(crate) fn invalid(
        what: impl Into<String>,
        value: impl std::fmt::Display,
        fix: impl Into<String>,
    ) -> Self {
        Self::InvalidValue { what: what.into(), value: value.to_string(), fix: fix.into() }
    }

    pub(crate) fn limit(
        what: impl Into<String>,
        value: impl Into<i128>,
        limit: impl Into<i128>,
    ) -> Self {
        Self::LimitExceeded { what: what.into(), value: value.into(), limit: limit.into() }
    }
}
