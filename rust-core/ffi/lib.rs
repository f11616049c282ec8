//! The C ABI of Mortise: what `include/mortise.h` declares, on top of [`mortise_core`].
//!
//! The header is the contract and its documentation; the functions here carry the header's names and are `pub` so that
//! Rust tests and benchmarks reach them. One file per section of the header, [`boundary`] for the checks, [`handles`]
//! for locks and poison. This crate has all the `unsafe` there is.

pub mod abi;
mod boundary;
mod cluster;
mod convert;
mod debug;
mod explain;
mod fault;
mod handles;
mod mig;
mod plan_output;
mod preempt;
mod report;
mod score;
mod scratch;
mod state;
mod sync;
mod threads;
mod version;

pub use cluster::*;
pub use debug::*;
pub use explain::*;
pub use mig::*;
pub use preempt::*;
pub use report::*;
pub use score::*;
pub use state::*;
pub use sync::*;
pub use version::*;

/// Makes a function whose signature differs from the header's a compile error.
macro_rules! pin_to_header {
    ($($name:ident)*) => {
        const _: () = {
            $(let _ = [crate::abi::$name, $name];)*
        };
    };
}
use pin_to_header;
