//! Which jobs hold the progress guarantee.

use super::policy::Policy;
use super::tables::{NONE, Tables};
use crate::units::PodUid;

/// A pod that was evicted without having saved and asks for the guarantee.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guaranteed {
    pub(super) tenant: u32,
    pub(super) evictions: u32,
    pub(super) start_seconds: i64,
    pub(super) uid: PodUid,
    pub(super) gang: u32,
    pub(super) milli: u64,
    pub(super) piece: u32,
}

/// Keeps the jobs that the tenants' budgets cover, most often evicted first, then longest running, then by uid; returns
/// how many pods hold the guarantee. A gang holds it with all its pods or not at all.
pub(super) fn grant_guarantees(
    jobs: &mut Vec<Guaranteed>,
    tables: &Tables,
    policy: &Policy,
) -> u32 {
    jobs.sort_unstable_by_key(|job| {
        (job.tenant, std::cmp::Reverse(job.evictions), job.start_seconds, job.gang, job.uid)
    });
    let budget = |tenant: u32| match tables.tenants.get(tenant as usize) {
        Some(tenant) => tenant.guarantee_milli,
        None => policy.guarantee_milli,
    };
    let mut kept = 0;
    let mut tenant = None;
    let mut left = 0;
    let mut at = 0;
    while at < jobs.len() {
        let head = jobs[at];
        if tenant != Some(head.tenant) {
            tenant = Some(head.tenant);
            left = budget(head.tenant);
        }
        let same_job = |job: &Guaranteed| {
            head.gang != NONE && job.gang == head.gang && job.tenant == head.tenant
        };
        let mut end = at + 1;
        while end < jobs.len() && same_job(&jobs[end]) {
            end += 1;
        }
        let milli: u64 = jobs[at..end].iter().map(|job| job.milli).sum();
        if milli <= left {
            left -= milli;
            jobs.copy_within(at..end, kept);
            kept += end - at;
        }
        at = end;
    }
    jobs.truncate(kept);
    kept as u32
}
