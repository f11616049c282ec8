//! The preemption experiment on a small made-up trace.

use std::fmt::Write as _;
use std::fs;

use mortise_sim::preempt::{
    Guarantee, Policy, Run, Setup, comparisons, means, read_jobs, read_requests, run, sweep,
};
use mortise_sim::report::PreemptReport;

/// Two tenants, jobs of 1 to 12 GPUs for a week, on 6 nodes.
fn jobs_csv() -> String {
    let mut text = String::from("timestamp,duration,num_gpus,gpu_time,cluster\n");
    for number in 0..700u64 {
        let draw = mortise_core::hash::mix64(number);
        let gpus = [1, 1, 1, 1, 2, 4, 8, 12][(draw % 8) as usize];
        let duration = 600 + (draw >> 8) % 40_000;
        let (day, second) = (1 + number / 100, number % 100 * 864);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let tenant = draw >> 40 & 1;
        let time = format!("2020-01-{day:02} {hour:02}:{minute:02}:{second:02}");
        writeln!(text, "{time},{duration}.0,{gpus},0,t{tenant}").expect("a string takes all");
    }
    text
}

fn requests_csv() -> String {
    let mut text = String::from("gmt_create,predict_type\n");
    for hour in 0..48u64 {
        for minute in 0..if hour % 24 < 10 { 1 } else { 30 } {
            let (day, hour) = (15 + hour / 24, hour % 24);
            writeln!(text, "2024-11-{day:02} {hour:02}:{minute:02}:00,X").expect("a string");
        }
    }
    text
}

fn setup() -> Setup {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (jobs, requests) = (folder.path().join("jobs.csv"), folder.path().join("requests.csv"));
    fs::write(&jobs, jobs_csv()).expect("written");
    fs::write(&requests, requests_csv()).expect("written");
    Setup {
        jobs: read_jobs(&jobs).expect("valid jobs"),
        demand: read_requests(&requests).expect("valid requests"),
        nodes: 6,
        warm_up_days: 1,
        measured_days: 6,
        inference_share: (0.05, 0.35),
        grace_seconds: 30,
        guarantee: Guarantee { after: 1, gpus_per_tenant: 8, unsaved_gpu_hours: None },
        requeue_wait_seconds: 0,
    }
}

/// Everything but the time that planning took.
fn without_times(run: Run) -> Run {
    Run { plan_us_p50: 0.0, plan_us_p99: 0.0, ..run }
}

#[test]
fn one_seed_gives_one_answer_whatever_the_number_of_threads() {
    let setup = setup();
    let policies = [Policy::MinLostWork, Policy::KubeDefault, Policy::Random];
    let one = sweep(&setup, &policies, &[1, 2], 1, |_| {}).expect("runs");
    let two = sweep(&setup, &policies, &[1, 2], 2, |_| {}).expect("runs");
    let plain = |runs: Vec<Run>| runs.into_iter().map(without_times).collect::<Vec<_>>();
    assert_eq!(plain(one), plain(two));
}

#[test]
fn every_policy_evicts_whole_gangs_and_keeps_the_figures_in_range() {
    let setup = setup();
    for policy in Policy::ALL {
        let run = run(&setup, policy, 7).expect("a run");
        assert!(run.evictions > 20, "{policy}: {} evictions judge nothing", run.evictions);
        assert_eq!(run.gangs_broken, 0, "{policy}");
        assert!(run.goodput > 0.1 && run.goodput <= run.utilisation, "{policy}: {run:?}");
        assert!(run.utilisation <= 1.0, "{policy}");
        assert!(run.tier1_evictions <= run.evictions, "{policy}");
    }
}

#[test]
fn the_kernel_loses_less_work_than_the_others() {
    let setup = setup();
    let policies =
        [Policy::MinLostWork, Policy::MinLostWorkStrict, Policy::KubeDefault, Policy::Random];
    let runs = sweep(&setup, &policies, &[1, 2, 3, 4], 2, |_| {}).expect("runs");
    let means = means(&runs);
    let lost: Vec<f64> = means.iter().map(|mean| mean.run.lost_gpu_hours).collect();
    assert!(lost[0] < lost[2] && lost[1] < lost[2] && lost[2] < lost[3], "{lost:?}");
    assert!(means[0].run.max_unsaved_evictions <= means[1].run.max_unsaved_evictions);
    let beside = comparisons(&runs, Policy::KubeDefault);
    assert_eq!(beside.len(), 3);
    assert!(beside.iter().all(|row| row.lost.half_width.is_some()));
}

#[test]
fn faults_in_a_trace_are_named_by_line_and_column() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("jobs.csv");
    for (row, place) in [
        ("2020-13-01 00:00:00,5,1,t", "column timestamp"),
        ("2020-01-01 00:00:00,-5,1,t", "column duration"),
        ("2020-01-01 00:00:00,nan,1,t", "column duration"),
        ("2020-01-01 00:00:00,5,0,t", "column num_gpus"),
        ("2020-01-01 00:00:00,5,1,", "column cluster"),
    ] {
        fs::write(&file, format!("timestamp,duration,num_gpus,cluster\n{row}\n")).expect("written");
        let error = read_jobs(&file).expect_err("a faulty row").to_string();
        assert!(error.contains(":2: ") && error.contains(place), "{error}");
    }
    fs::write(&file, "gmt_create\n").expect("written");
    let error = read_requests(&file).expect_err("no rows").to_string();
    assert!(error.contains("holds no requests"), "{error}");
}

#[test]
fn the_report_carries_every_run_in_one_page() {
    let setup = setup();
    let runs = sweep(&setup, &[Policy::MinLostWork, Policy::KubeDefault], &[1, 2], 2, |_| {})
        .expect("runs");
    let (means, comparisons) = (means(&runs), comparisons(&runs, Policy::KubeDefault));
    let report =
        PreemptReport { setup: &setup, runs: &runs, means: &means, comparisons: &comparisons };
    let mut page = Vec::new();
    report.write(&mut page).expect("a vector takes all");
    let page = String::from_utf8(page).expect("a page of text");
    let (_, rest) = page.split_once("type=\"application/json\">").expect("the data");
    let (data, rest) = rest.split_once("</script>").expect("its end");
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    let ours = &data["policies"][0];
    assert_eq!(ours["policy"], "min-lost-work");
    let lost = ours["seeds"][1]["lost_gpu_hours"].as_f64().expect("a number");
    assert!((lost - runs[1].lost_gpu_hours).abs() < 1e-3);
    let ratio = ours["lost_ratio"][0].as_f64().expect("a ratio to the baseline");
    assert!((ratio - comparisons[0].lost.mean).abs() < 1e-9);
    assert!(data["policies"][1]["lost_ratio"].is_null());
    assert!(rest.contains("function legend(") && rest.contains("GPU-hours lost"));
    for place in ["TITLE", "STYLE", "BODY", "DATA", "BASE", "SCRIPT"] {
        let left = [format!("/*{place}*/"), format!("<!--{place}-->")];
        assert!(!left.iter().any(|left| page.contains(left)), "{place} is still a placeholder");
    }
}
