//! MIG experiment: requests of profiles arrive and leave, those that fit nowhere are lost.
//!
//! Arrivals are Poisson, lives exponential with mean 1; at load 1 the requests ask for as many memory slices as the
//! cards have. Nothing of the mix is known in advance.

mod mix;
mod output;
mod run;
mod summary;

pub use mix::{MIXES, MigMix};
pub use output::{render_mig_table, write_mig_json, write_mig_report};
pub use run::{MigRun, MigRunSpec, mig_run};
pub use summary::{MigComparison, MigMean, mig_comparisons, mig_means};

use mortise_core::mig::{GpuModel, MigStrategy};

use crate::pack::steal_all;

/// What all runs share.
#[derive(Clone, Debug)]
pub struct MigSetup {
    /// The cards' model.
    pub model: &'static GpuModel,
    /// Number of cards, eight to a node.
    pub cards: usize,
    /// Measured time in mean lives, after [`WARM_UP_LIVES`].
    pub lives: u32,
}

/// Mean lives before measuring starts: from empty cards to a steady state.
pub const WARM_UP_LIVES: u32 = 10;

/// Cards of a node.
pub const CARDS_PER_NODE: u8 = 8;

/// The runs of an experiment: by load, mix, policy, then seed.
#[must_use]
pub fn mig_plan(
    mixes: &[MigMix],
    loads: &[f64],
    policies: &[MigStrategy],
    seeds: &[u64],
) -> Vec<MigRunSpec> {
    let mut specs = Vec::new();
    for &load in loads {
        for &mix in mixes {
            for &policy in policies {
                specs.extend(seeds.iter().map(|&seed| MigRunSpec { mix, load, policy, seed }));
            }
        }
    }
    specs
}

/// Does all runs on `jobs` threads and returns them in order. `done` is called from those threads after every run.
///
/// # Errors
/// The first error in order: a fleet that the kernel refuses.
///
/// # Panics
/// A run panicked.
pub fn mig_sweep(
    setup: &MigSetup,
    specs: &[MigRunSpec],
    jobs: usize,
    done: impl Fn(&MigRun) + Sync,
) -> Result<Vec<MigRun>, mortise_core::Error> {
    let slots: Vec<_> = specs.iter().map(|_| std::sync::Mutex::new(None)).collect();
    steal_all(specs.len(), jobs, |index| {
        let result = mig_run(setup, specs[index]);
        if let Ok(run) = &result {
            done(run);
        }
        let go_on = result.is_ok();
        *slots[index].lock().expect("no holder of this lock panics") = Some(result);
        go_on
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().expect("no holder panicked")).collect()
}
