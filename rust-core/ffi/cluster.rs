//! Section "cluster calls": make, free, intern models.

use std::ffi::c_char;
use std::time::Duration;

use mortise_core::mig::MigStrategy;
use mortise_core::{Config, Kernel, MixMode, Strategy};

use crate::abi;
use crate::boundary::{InArray, OutArray, Regions, check_flags, enter, read_struct};
use crate::convert::mix_kind;
use crate::fault::Fault;
use crate::handles::{self, HostedCluster};
use crate::pin_to_header;
use crate::scratch::refill;
use crate::threads::Threads;

pin_to_header! { mortise_cluster_new mortise_cluster_free mortise_model_intern }

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_cluster_new(
    config: *const abi::mortise_config,
    out_handle: *mut abi::mortise_handle,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        // SAFETY: the header's promise for `config`.
        let config = unsafe { read_struct(regions, "config", config)? };
        // SAFETY: the header's promise for `out_handle`.
        let out = unsafe { OutArray::packed(regions, "out_handle", out_handle, 1)? };
        let lock_wait = lock_wait(config.lock_wait_milliseconds)?;
        let threads = Threads::new(config.threads)?;
        // SAFETY: the header's promise for the pointers inside `config`.
        let kernel = Kernel::new(unsafe { kernel_config(regions, &config)? })?;
        let cluster = HostedCluster::new(kernel, lock_wait, config.flags, threads);
        out.set(0, handles::insert(cluster)?);
        Ok(())
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

fn lock_wait(milliseconds: u32) -> Result<Duration, Fault> {
    match milliseconds {
        0 => Ok(Duration::from_millis(abi::MORTISE_DEFAULT_LOCK_WAIT_MILLISECONDS.into())),
        1..=abi::MORTISE_MAX_LOCK_WAIT_MILLISECONDS => {
            Ok(Duration::from_millis(milliseconds.into()))
        }
        _ => Err(Fault::limit(
            "config.lock_wait_milliseconds",
            milliseconds,
            abi::MORTISE_MAX_LOCK_WAIT_MILLISECONDS,
        )),
    }
}

/// # Safety
/// The header's promise for the pointers inside `config`.
unsafe fn kernel_config(
    regions: &mut Regions,
    config: &abi::mortise_config,
) -> Result<Config, Fault> {
    const KNOWN: u32 = abi::MORTISE_CONFIG_SKIP_CPU_ONLY
        | abi::MORTISE_CONFIG_ALLOW_DEBUG_PANIC
        | abi::MORTISE_CONFIG_ALLOW_DEBUG_HOLD;
    check_flags("config.flags", config.flags, KNOWN)?;
    let default = Config::default();
    let memo_bytes = match config.memo_bytes {
        0 => default.memo_bytes,
        bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
    };
    Ok(Config {
        // SAFETY: passed on.
        strategy: unsafe { strategy(regions, config)? },
        seed: config.seed,
        // SAFETY: passed on.
        mix: unsafe { mix(regions, config)? },
        score_cpu_only: config.flags & abi::MORTISE_CONFIG_SKIP_CPU_ONLY == 0,
        memo_bytes,
        // SAFETY: passed on.
        mig_strategy: unsafe { mig_strategy(regions, config)? },
    })
}

/// # Safety
/// As [`kernel_config`].
unsafe fn strategy(regions: &mut Regions, config: &abi::mortise_config) -> Result<Strategy, Fault> {
    if config.strategy.is_null() && config.strategy_length == 0 {
        return Ok(Strategy::default());
    }
    // SAFETY: passed on.
    let name = unsafe {
        read_text(
            regions,
            "config.strategy",
            config.strategy,
            config.strategy_length,
            abi::MORTISE_MAX_STRATEGY_BYTES,
        )?
    };
    Ok(name.parse()?)
}

/// # Safety
/// As [`kernel_config`].
unsafe fn mig_strategy(
    regions: &mut Regions,
    config: &abi::mortise_config,
) -> Result<MigStrategy, Fault> {
    if config.mig_strategy.is_null() && config.mig_strategy_length == 0 {
        return Ok(MigStrategy::default());
    }
    // SAFETY: passed on.
    let name = unsafe {
        read_text(
            regions,
            "config.mig_strategy",
            config.mig_strategy,
            config.mig_strategy_length,
            abi::MORTISE_MAX_STRATEGY_BYTES,
        )?
    };
    Ok(name.parse()?)
}

/// # Safety
/// As [`kernel_config`].
unsafe fn mix(regions: &mut Regions, config: &abi::mortise_config) -> Result<MixMode, Fault> {
    match (config.mix_mode, config.mix_kind_count) {
        (abi::MORTISE_MIX_LEARNED, 0) => return Ok(MixMode::Learned),
        (abi::MORTISE_MIX_LEARNED, count) => {
            return Err(Fault::invalid(
                "config.mix_kind_count",
                count,
                "kinds are for MORTISE_MIX_FIXED; a learned mix has none at the start",
            ));
        }
        (abi::MORTISE_MIX_FIXED, 0) => {
            return Err(Fault::invalid(
                "config.mix_kind_count",
                0,
                "MORTISE_MIX_FIXED needs at least one kind",
            ));
        }
        (abi::MORTISE_MIX_FIXED, _) => {}
        (mode, _) => {
            return Err(Fault::unsupported(
                "config.mix_mode",
                mode,
                "use MORTISE_MIX_LEARNED or MORTISE_MIX_FIXED",
            ));
        }
    }
    // SAFETY: passed on.
    let array = unsafe {
        InArray::strided(
            regions,
            "config.mix_kinds",
            config.mix_kinds,
            config.mix_kind_count,
            config.mix_kind_stride,
            abi::MORTISE_MAX_MIX_KINDS.into(),
        )?
    };
    let mut kinds = Vec::new();
    let converted = array.iter().enumerate().map(|(index, kind)| mix_kind(index, &kind?));
    refill(&mut kinds, "kinds of the mix", array.len(), converted)?;
    Ok(MixMode::Fixed(kinds))
}

/// # Safety
/// The header's promise for `pointer`.
unsafe fn read_text(
    regions: &mut Regions,
    name: &'static str,
    pointer: *const c_char,
    length: usize,
    max: u32,
) -> Result<String, Fault> {
    if length == 0 {
        return Err(Fault::invalid(name, "empty", "give its name with its length in bytes"));
    }
    // SAFETY: passed on; c_char and u8 are the same memory.
    let bytes =
        unsafe { InArray::packed(regions, name, pointer.cast::<u8>(), length, max.into())? };
    String::from_utf8(bytes.to_vec()?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Fault::invalid(name, format_args!("not UTF-8 at byte {at}"), "encode it as UTF-8")
    })
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_cluster_free(
    handle: abi::mortise_handle,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, |_| handles::remove(handle).map(drop)) }
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_model_intern(
    handle: abi::mortise_handle,
    name: *const c_char,
    name_length: usize,
    out_model_id: *mut u32,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        let cluster = handles::get(handle)?;
        let max = abi::MORTISE_MAX_MODEL_NAME_BYTES;
        // SAFETY: the header's promise for `name`.
        let name = unsafe { read_text(regions, "name", name, name_length, max)? };
        // SAFETY: the header's promise for `out_model_id`.
        let out = unsafe { OutArray::packed(regions, "out_model_id", out_model_id, 1)? };
        let id = cluster.write(|kernel| Ok(kernel.intern_model(&name)?))?;
        out.set(0, u32::from(id.0));
        Ok(())
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}
