//! The types and declarations of `include/mortise.h`, made by bindgen.

#![allow(
    missing_docs,
    non_camel_case_types,
    clippy::all,
    clippy::pedantic,
    rustdoc::all,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/abi.rs"));
