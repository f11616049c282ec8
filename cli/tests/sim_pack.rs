//! `mortise sim pack` as its users meet it.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use tempfile::TempDir;

fn mortise() -> Command {
    Command::cargo_bin("mortise").unwrap()
}

/// A directory with nodes.csv, a.csv and b.csv.
fn files() -> TempDir {
    let dir = TempDir::new().unwrap();
    let mut nodes = "sn,cpu_milli,memory_mib,gpu,model\n".to_owned();
    for node in 0..90 {
        nodes +=
            &format!("n{node},64000,262144,{},{}\n", [8, 4, 2][node % 3], ["G2", "T4"][node % 2]);
    }
    let mut pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n".to_owned();
    for pod in 0..200 {
        let request = ["1,1000,", "1,470,", "0,0,", "1,810,T4", "1,160,", "8,1000,"][pod % 6];
        pods += &format!("p{pod},4000,8192,{request}\n");
    }
    fs::write(dir.path().join("nodes.csv"), nodes).unwrap();
    fs::write(dir.path().join("a.csv"), &pods).unwrap();
    fs::write(dir.path().join("b.csv"), pods.replace(",T4", ",")).unwrap();
    dir
}

fn pack(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = mortise();
    command
        .current_dir(dir)
        .args(["sim", "pack", "--nodes", "nodes.csv", "--pods", "a.csv,b.csv", "--seeds", "2"])
        .args(arguments);
    command
}

fn json(dir: &Path, arguments: &[&str]) -> Value {
    let output = pack(dir, arguments).args(["--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress bar without a terminal");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn sorted(mut keys: Vec<&str>) -> Vec<&str> {
    keys.sort_unstable();
    keys
}

#[test]
fn json_has_the_documented_form() {
    let dir = files();
    let document = json(dir.path(), &["--policy", "expected-stranding,fgd,BestFit"]);
    assert_eq!(sorted(keys(&document)), ["means", "runs"]);
    let (runs, means) =
        (document["runs"].as_array().unwrap(), document["means"].as_array().unwrap());
    assert_eq!((runs.len(), means.len()), (2 * 3 * 2, 2 * 3));
    let run_keys = [
        "alloc_100",
        "alloc_130",
        "frag_amount_100",
        "frag_ratio_80",
        "policy",
        "seed",
        "trace",
        "us_per_pod",
    ];
    let mean_keys = [
        "accepted_8gpu",
        "accepted_constrained",
        "alloc_100",
        "alloc_100_sd",
        "alloc_130",
        "alloc_130_sd",
        "policy",
        "trace",
        "us_per_pod",
    ];
    assert!(runs.iter().all(|run| sorted(keys(run)) == run_keys));
    assert!(means.iter().all(|mean| sorted(keys(mean)) == mean_keys));
    assert_eq!(
        (&runs[0]["trace"], &runs[0]["policy"], &runs[0]["seed"]),
        (&"a".into(), &"expected-stranding".into(), &42.into())
    );
    assert_eq!(means[2]["policy"], "best-fit");
    for mean in means {
        let alloc = mean["alloc_130"].as_f64().unwrap();
        assert!((50.0..=100.0).contains(&alloc), "{alloc}");
        assert_eq!(
            mean["accepted_constrained"].is_null(),
            mean["trace"] == "b",
            "null where nobody asks"
        );
        assert!((0.0..=100.0).contains(&mean["accepted_8gpu"].as_f64().unwrap()));
    }
    let of_runs =
        (runs[0]["alloc_130"].as_f64().unwrap() + runs[1]["alloc_130"].as_f64().unwrap()) / 2.0;
    assert!((means[0]["alloc_130"].as_f64().unwrap() - of_runs).abs() < 1e-3);
}

#[test]
fn a_lower_load_leaves_null() {
    let dir = files();
    let document = json(dir.path(), &["--load", "1.05", "--policy", "fgd"]);
    assert!(
        document["means"][0]["alloc_100"].is_f64() && document["means"][0]["alloc_130"].is_null()
    );
}

#[test]
fn a_file_can_be_its_own_sequence() {
    let dir = files();
    let arguments = ["--sequence", "file", "--policy", "fgd", "--format", "csv"];
    let output = pack(dir.path(), &arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let field = |line: usize, name: &str| {
        let at = text.lines().next().unwrap().split(',').position(|column| column == name).unwrap();
        text.lines().nth(line).unwrap().split(',').nth(at).unwrap().to_owned()
    };
    assert_eq!(field(1, "pods"), "200");
    let end: f64 = field(1, "alloc_end").parse().unwrap();
    assert!((50.0..=100.0).contains(&end), "{end}");
    pack(dir.path(), &["--sequence", "file", "--load", "1.2"])
        .assert()
        .failure()
        .stderr(contains("--load 1.2").and(contains("--sequence published")));
}

#[test]
fn jobs_do_not_change_the_result() {
    let dir = files();
    let without_times = |mut document: Value| {
        for list in ["runs", "means"] {
            for row in document[list].as_array_mut().unwrap() {
                row["us_per_pod"] = 0.into();
            }
        }
        document
    };
    let one = without_times(json(dir.path(), &["--jobs", "1"]));
    assert_eq!(one, without_times(json(dir.path(), &["--jobs", "3"])));
}

#[test]
fn csv_has_a_row_per_run() {
    let dir = files();
    let output = pack(dir.path(), &["--format", "csv", "--policy", "random"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 4);
    assert!(lines[0].starts_with("trace,policy,seed,pods,rejected,alloc_80,"));
    assert!(lines.iter().all(|line| line.split(',').count() == lines[0].split(',').count()));
}

#[test]
fn table_and_report() {
    let dir = files();
    let report = dir.path().join("report.html");
    pack(dir.path(), &["--policy", "fgd,random", "--report", "report.html"])
        .assert()
        .success()
        .stdout(
            contains("TRACE")
                .and(contains("fgd"))
                .and(contains("CEILING"))
                .and(contains("mean of 2 traces")),
        );
    let page = fs::read_to_string(report).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for outside in ["http://", "https://", "src=", "@import", "/*DATA*/", "/*STYLE*/", "/*SCRIPT*/"]
    {
        assert!(!page.contains(outside), "the page needs nothing else, but has {outside}");
    }
    let data =
        page.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["traces"].as_array().unwrap().len(), 2);
    assert!(data["traces"][0]["ceiling"].is_f64());
    let unwritable =
        pack(dir.path(), &["--policy", "fgd", "--report", "no/such/dir/r.html"]).assert().failure();
    unwritable.stderr(contains("no/such/dir/r.html"));
}

#[test]
fn comparison_with_published_figures() {
    let dir = files();
    let header = "trace,policy,n_seeds,alloc_100_mean,alloc_100_sd,alloc_130_mean,alloc_130_sd\n";
    fs::write(dir.path().join("published.csv"), format!("{header}a,06-FGD,10,10,0,10,0\n"))
        .unwrap();
    let compared =
        ["--policy", "fgd", "--published", "published.csv", "--ties", "rank", "--mix", "trace"];
    pack(dir.path(), &compared).assert().success().stdout(contains("DIFF@130").and(contains("!")));
    fs::write(dir.path().join("published.csv"), format!("{header}a,06-FGD,10,ten,0,10,0\n"))
        .unwrap();
    pack(dir.path(), &compared)
        .assert()
        .failure()
        .stderr(contains("published.csv:2: column alloc_100_mean: found \"ten\""));
}

#[test]
fn errors_name_the_place_and_the_fix() {
    let dir = files();
    fs::write(
        dir.path().join("bad.csv"),
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,x\n",
    )
    .unwrap();
    fs::create_dir(dir.path().join("c")).unwrap();
    fs::copy(dir.path().join("a.csv"), dir.path().join("c/a.csv")).unwrap();
    fs::write(
        dir.path().join("cpu.csv"),
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,0,0\n",
    )
    .unwrap();
    let failing: [(&[&str], &str); 10] = [
        (&["--pods", "bad.csv"], "bad.csv:2: column gpu_milli: found \"x\"; expected"),
        (&["--pods", "none.csv"], "none.csv: the file cannot be read"),
        (&["--pods", "c/a.csv"], "both named a"),
        (&["--pods", "cpu.csv"], "no pod asks for a GPU"),
        (&["--policy", "bestest"], "expected-stranding, fgd, best-fit"),
        (&["--policy", "fgd,06-FGD"], "fgd is named twice"),
        (&["--load", "nan"], "0.01 to 100"),
        (&["--seeds", "0"], "--seeds"),
        (&["--jobs", "0"], "--jobs"),
        (&["--ties", "first"], "random, rank"),
    ];
    for (arguments, message) in failing {
        let mut command = mortise();
        command.current_dir(dir.path()).args(["sim", "pack", "--nodes", "nodes.csv"]);
        if arguments[0] != "--pods" || arguments[1] == "c/a.csv" {
            command.args(["--pods", "a.csv"]);
        }
        let overriding: &[&str] = if arguments[0] == "--seeds" { &[] } else { &["--seeds", "1"] };
        command
            .args(overriding)
            .args(arguments)
            .assert()
            .failure()
            .stderr(contains(message))
            .stdout("");
    }
}
