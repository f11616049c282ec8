//! Means over seeds, and each policy beside a baseline seed by seed.

use super::measure::Run;
use super::policy::Policy;

/// Mean figures of one policy, and the largest number of unsaved evictions of any run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mean {
    /// As of one run; the seed is the first.
    pub run: Run,
    /// Counts as means.
    pub evictions: f64,
    /// Counts as means.
    pub tier1_evictions: f64,
    /// Sum over the runs.
    pub gangs_broken: u64,
}

/// One figure of a policy as a multiple of the baseline's with the same seed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// Mean over the seeds.
    pub mean: f64,
    /// Half the width of the 95 % interval of that mean; `None` with one seed.
    pub half_width: Option<f64>,
}

/// A policy beside a baseline.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// The policy.
    pub policy: Policy,
    /// The baseline.
    pub baseline: Policy,
    /// Lost GPU-hours.
    pub lost: Ratio,
    /// Tier-1 evictions.
    pub tier1_evictions: Ratio,
    /// Mean job completion time.
    pub completion: Ratio,
}

fn policies(runs: &[Run]) -> Vec<Policy> {
    let mut policies = Vec::new();
    for run in runs {
        if !policies.contains(&run.policy) {
            policies.push(run.policy);
        }
    }
    policies
}

/// The means, in the order in which the policies first appear.
pub fn means(runs: &[Run]) -> Vec<Mean> {
    policies(runs).into_iter().map(|policy| mean_of(runs, policy)).collect()
}

fn mean_of(runs: &[Run], policy: Policy) -> Mean {
    let own: Vec<&Run> = runs.iter().filter(|run| run.policy == policy).collect();
    let mean = |of: fn(&Run) -> f64| own.iter().map(|run| of(run)).sum::<f64>() / own.len() as f64;
    let run = Run {
        policy,
        seed: own[0].seed,
        lost_gpu_hours: mean(|run| run.lost_gpu_hours),
        evictions: 0,
        tier1_evictions: 0,
        max_unsaved_evictions: own.iter().map(|run| run.max_unsaved_evictions).max().unwrap_or(0),
        evicted_per_requested: mean(|run| run.evicted_per_requested),
        tier0_wait_p50_seconds: mean(|run| run.tier0_wait_p50_seconds),
        tier0_wait_p99_seconds: mean(|run| run.tier0_wait_p99_seconds),
        jct_mean_seconds: mean(|run| run.jct_mean_seconds),
        jct_p99_seconds: mean(|run| run.jct_p99_seconds),
        goodput: mean(|run| run.goodput),
        utilisation: mean(|run| run.utilisation),
        gangs_broken: 0,
        plan_us_p50: mean(|run| run.plan_us_p50),
        plan_us_p99: mean(|run| run.plan_us_p99),
    };
    Mean {
        run,
        evictions: mean(|run| run.evictions as f64),
        tier1_evictions: mean(|run| run.tier1_evictions as f64),
        gangs_broken: own.iter().map(|run| run.gangs_broken).sum(),
    }
}

/// Every policy beside `baseline`, for the seeds both have; empty without the baseline.
pub fn comparisons(runs: &[Run], baseline: Policy) -> Vec<Comparison> {
    let others = policies(runs).into_iter().filter(|&policy| policy != baseline);
    others
        .filter_map(|policy| {
            let pairs: Vec<(&Run, &Run)> = runs
                .iter()
                .filter(|run| run.policy == policy)
                .filter_map(|run| {
                    let base = |other: &&Run| other.policy == baseline && other.seed == run.seed;
                    runs.iter().find(base).map(|base| (run, base))
                })
                .collect();
            Some(Comparison {
                policy,
                baseline,
                lost: ratio(&pairs, |run| run.lost_gpu_hours)?,
                tier1_evictions: ratio(&pairs, |run| run.tier1_evictions as f64)?,
                completion: ratio(&pairs, |run| run.jct_mean_seconds)?,
            })
        })
        .collect()
}

/// Mean of the per-seed ratios; seeds whose baseline is nought say nothing.
fn ratio(pairs: &[(&Run, &Run)], of: fn(&Run) -> f64) -> Option<Ratio> {
    let ratios: Vec<f64> = pairs
        .iter()
        .filter(|(_, base)| of(base) > 0.0)
        .map(|(run, base)| of(run) / of(base))
        .collect();
    if ratios.is_empty() {
        return None;
    }
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let half_width = (ratios.len() > 1).then(|| {
        let variance = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
        student_t(ratios.len() - 1) * (variance / n).sqrt()
    });
    Some(Ratio { mean, half_width })
}

/// Two-sided 95 % quantile of Student's distribution: tabled, from 30 degrees of freedom on within 0.5 %.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 29] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045,
    ];
    TABLE.get(freedom - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::student_t;

    #[test]
    fn the_interval_factor_falls_towards_the_normal_one() {
        let factors: Vec<f64> = (1..200).map(student_t).collect();
        assert!(factors.is_sorted_by(|a, b| a > b));
        assert!((factors[198] - 1.972).abs() < 0.01);
    }
}
