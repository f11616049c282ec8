//! Rust's view of the C ABI: `include/mortise.h` through bindgen, and nothing else.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const HEADER: &str = "include/mortise.h";

fn main() {
    println!("cargo::rerun-if-changed={HEADER}");
    println!("cargo::rerun-if-changed=build.rs");
    let bindings = bindgen::Builder::default()
        .header(HEADER)
        .allowlist_item("(mortise|MORTISE)_.*")
        .clang_args(compiler_includes())
        .rust_edition(bindgen::RustEdition::Edition2024)
        .clang_macro_fallback()
        .clang_macro_fallback_build_dir(out_dir())
        .layout_tests(true)
        .derive_debug(true)
        .size_t_is_usize(true)
        .use_core()
        .generate_comments(true)
        .merge_extern_blocks(true)
        .generate()
        .expect("include/mortise.h does not go through bindgen (is libclang installed?)");
    bindings.write_to_file(out_dir().join("abi.rs")).expect("OUT_DIR is writable");
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}

/// A libclang without its own headers finds `stddef.h` where the C compiler keeps it.
fn compiler_includes() -> Vec<String> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    Command::new(compiler)
        .arg("-print-file-name=include")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|path| format!("-I{}", path.trim()))
        .into_iter()
        .collect()
}
