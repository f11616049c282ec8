//! `mortise mig ...`: layouts of MIG instances.

use mortise_core::mig::{GPU_MODELS, GpuModel};

/// The model of that name; the message lists all.
pub(crate) fn parse_gpu(name: &str) -> Result<&'static GpuModel, String> {
    GpuModel::named(name).ok_or_else(|| {
        let known: Vec<&str> = GPU_MODELS.iter().map(|model| model.name).collect();
        format!("unknown model; expected one of {}", known.join(", "))
    })
}
