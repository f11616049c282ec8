//! Training jobs: `timestamp, duration, num_gpus, cluster` (submission, run time in seconds, GPUs, tenant).

use std::collections::HashMap;
use std::path::Path;

use super::clock::parse_time;
use crate::trace::TraceError;
use crate::trace::table::Table;

/// Most GPUs of one job.
const MAX_JOB_GPUS: i64 = 4_096;

/// One job as it was submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobSpec {
    /// Seconds after the first submission of the trace.
    pub submit_seconds: i64,
    /// Time it needs, at least one second.
    pub duration_seconds: i64,
    /// GPUs it runs on, all or none.
    pub gpus: u16,
    /// Index of its tenant.
    pub tenant: u32,
}

/// Jobs in the order of their submission.
#[derive(Clone, Debug, Default)]
pub struct JobTrace {
    /// The jobs.
    pub jobs: Vec<JobSpec>,
    /// Names of the tenants.
    pub tenants: Vec<String>,
}

/// Reads a job trace.
///
/// # Errors
/// Names the file, line and column of the first fault.
pub fn read_jobs(file: &Path) -> Result<JobTrace, TraceError> {
    let table = Table::open(file)?;
    let [timestamp, duration, num_gpus, cluster] =
        table.required(["timestamp", "duration", "num_gpus", "cluster"])?;
    let mut trace = JobTrace::default();
    let mut tenants: HashMap<String, u32> = HashMap::new();
    table.for_each_row(|row| {
        let submit_seconds = parse_time(row.text(timestamp))
            .ok_or_else(|| row.bad(timestamp, "a time such as 2017-10-09 07:01:55"))?;
        let seconds = row
            .text(duration)
            .parse::<f64>()
            .ok()
            .filter(|seconds| (0.0..=1e9).contains(seconds))
            .ok_or_else(|| row.bad(duration, "a run time in seconds from 0 to 1000000000"))?;
        let name = row.name(cluster)?;
        let known = tenants.len() as u32;
        let tenant = *tenants.entry(name.to_owned()).or_insert(known);
        if tenant == known {
            trace.tenants.push(name.to_owned());
        }
        trace.jobs.push(JobSpec {
            submit_seconds,
            duration_seconds: (seconds.round() as i64).max(1),
            gpus: row.integer(num_gpus, 1..=MAX_JOB_GPUS, "GPUs of the job")?,
            tenant,
        });
        Ok(())
    })?;
    let Some(first) = trace.jobs.iter().map(|job| job.submit_seconds).min() else {
        return Err(TraceError::NoRows { file: file.to_owned(), rows: "jobs" });
    };
    for job in &mut trace.jobs {
        job.submit_seconds -= first;
    }
    trace.jobs.sort_by_key(|job| job.submit_seconds);
    Ok(trace)
}
