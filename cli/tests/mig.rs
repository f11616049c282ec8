//! `mortise mig check`, `mortise mig plan` and `mortise sim mig` as users run them.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use predicates::str::contains;
use tempfile::TempDir;

fn mortise(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("mortise").expect("built").args(args).assert()
}

fn file(directory: &TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = directory.path().join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

fn config(body: &str) -> String {
    format!("version: v1\nmig-configs:\n  ours:\n{body}")
}

fn entry(devices: &str, wanted: &str) -> String {
    format!("    - devices: {devices}\n      mig-enabled: true\n      mig-devices: {wanted}\n")
}

#[test]
fn seven_wide_instances_are_refused_with_the_largest_set() {
    let directory = TempDir::new().expect("a directory");
    let path = file(&directory, "c.yaml", &config(&entry("all", "{\"1g.20gb\": 7}")));
    mortise(&["mig", "check", &path, "--gpu", "h100-80gb"]).failure().stdout(contains(format!(
        "{path}:4: error: config ours: 7 x 1g.20gb cannot exist on one h100-80gb: they need 14 memory slices, a card has 8; \
         the largest set of them that can is 4 x 1g.20gb\n"
    )));
}

#[test]
fn a_layout_that_some_model_can_hold_passes_and_a_filter_makes_it_strict() {
    let directory = TempDir::new().expect("a directory");
    let wanted = "{\"1g.10gb\": 7}";
    let path = file(&directory, "c.yaml", &config(&entry("all", wanted)));
    mortise(&["mig", "check", &path])
        .success()
        .stdout(contains("note: config ours: 7 x 1g.10gb cannot exist on one a100-40gb"));
    let filtered =
        entry("all", wanted).replace("- devices", "- device-filter: \"0x20B010DE\"\n      devices");
    let path = file(&directory, "f.yaml", &config(&filtered));
    mortise(&["mig", "check", &path]).failure().stdout(contains("a100-40gb"));
}

#[test]
fn what_the_table_does_not_know_is_said_not_judged() {
    let directory = TempDir::new().expect("a directory");
    for (name, wanted) in [("2g.47gb", 9), ("1g.24gb+gfx", 4), ("1c.3g.40gb", 1)] {
        let path = file(
            &directory,
            "c.yaml",
            &config(&entry("all", &format!("{{\"{name}\": {wanted}}}"))),
        );
        mortise(&["mig", "check", &path])
            .success()
            .stdout(contains(format!("no GPU of the table has {name}; not judged")));
    }
}

#[test]
fn errors_name_line_value_and_fix() {
    let directory = TempDir::new().expect("a directory");
    let entries = [
        ("[0, x]", "{}", ":4: error: config ours: devices has \"x\"; expected a card index"),
        ("some", "{}", ":4: error: config ours: devices is \"some\"; expected all or a list"),
        ("all", "{\"1g.10gb\": -1}", ":6: error: config ours: the count of 1g.10gb is \"-1\""),
        ("all", "{\"1gb.20g\": 1}", ":4: error: config ours: \"1gb.20g\" is no MIG profile"),
        ("all", "{\"1g.5gb\": 1, \"3g.40gb\": 1}", "no GPU has all of 1g.5gb, 3g.40gb"),
        ("all", "7", ":6: error: config ours: mig-devices is not a mapping"),
        ("all", "{}\n      extra: 1", ":7: error: config ours: unknown key \"extra\""),
        ("all", "{}\n      devices: all", ":7: error: the file is not the YAML"),
    ];
    for (devices, wanted, expected) in entries {
        let path = file(&directory, "c.yaml", &config(&entry(devices, wanted)));
        mortise(&["mig", "check", &path]).failure().stdout(contains(expected));
    }
    let both = entry("[0, 1]", "{\"1g.10gb\": 7}") + &entry("[1]", "{\"7g.80gb\": 1}");
    let path = file(&directory, "c.yaml", &config(&both));
    mortise(&["mig", "check", &path])
        .failure()
        .stdout(contains("the entry of line 4 already names"));
    for (text, expected) in [
        (
            "version: v2\nmig-configs:\n  a:\n  - {devices: all, mig-enabled: false}\n",
            "expected v1",
        ),
        ("[]", "error"),
        ("a: [\n b", ":3: error"),
        ("version: v1\n", "mig-configs is missing"),
        ("version: v1\nmig-configs: {a: []}\n", "config a: expected a list"),
        (
            "version: v1\nmig-configs:\n  a:\n  - {devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}}\n",
            "mig-enabled is false",
        ),
    ] {
        let path = file(&directory, "c.yaml", text);
        mortise(&["mig", "check", &path]).failure().stdout(contains(expected));
    }
    mortise(&["mig", "check", "/nowhere.yaml"]).failure().stderr(contains("cannot be read"));
}

#[test]
fn a_plan_serves_more_than_today_and_passes_the_check() {
    let directory = TempDir::new().expect("a directory");
    let today = file(&directory, "today.yaml", &config(&entry("all", "{\"1g.10gb\": 7}")));
    let requests = file(
        &directory,
        "r.csv",
        "profile,requests\n1g.10gb,15\n3g.40gb,4\n1g.10gb,5\n7g.80gb,2\n",
    );
    let plan = mortise(&[
        "mig",
        "plan",
        "--requests-file",
        &requests,
        "--today",
        &today,
        "--today-config",
        "ours",
    ])
    .success()
    .stdout(contains("# this plan: 26 of 26 requests served, on 52 memory slices"))
    .stdout(contains("# today's: 20 of 26 requests served, on 20 memory slices"));
    let text = String::from_utf8(plan.get_output().stdout.clone()).expect("UTF-8");
    let planned = file(&directory, "plan.yaml", &text);
    mortise(&["mig", "check", &planned, "--gpu", "h100-80gb"]).success();
}

#[test]
fn a_mix_is_scaled_to_the_cards() {
    mortise(&["mig", "plan", "--mix", "3g.40gb=1", "--cards", "2"])
        .success()
        .stdout(contains("4 of 4 requests served, on 16 memory slices"))
        .stdout(contains("    - devices: all\n"))
        .stdout(contains("\"3g.40gb\": 2"));
}

#[test]
fn a_demand_that_makes_no_sense_is_refused() {
    let directory = TempDir::new().expect("a directory");
    for (args, expected) in [
        (["--mix", "1g.5gb=4"], "\"1g.5gb\" is no profile of h100-80gb"),
        (["--requests", "1g.10gb"], "expected PROFILE=NUMBER"),
        (["--requests", "1g.10gb=-1"], "expected a whole number"),
        (["--requests", "1g.10gb=0"], "nothing is asked for"),
    ] {
        mortise(&["mig", "plan", args[0], args[1]]).failure().stderr(contains(expected));
    }
    let bad = file(&directory, "r.csv", "profile,requests\n1g.10gb,many\n");
    mortise(&["mig", "plan", "--requests-file", &bad])
        .failure()
        .stderr(contains(format!("{bad}:2")));
    let bad = file(&directory, "r.csv", "profile\n1g.10gb\n");
    mortise(&["mig", "plan", "--requests-file", &bad])
        .failure()
        .stderr(contains("column requests is missing"));
}

#[test]
fn the_experiment_reports_every_policy_and_does_not_depend_on_threads() {
    let directory = TempDir::new().expect("a directory");
    let page = directory.path().join("p.html");
    let run = |jobs: &str| {
        let args = [
            "sim",
            "mig",
            "--gpu",
            "h100-80gb",
            "--cards",
            "12",
            "--load",
            "1.0",
            "--mix",
            "uniform,big",
            "--seeds",
            "2",
            "--lives",
            "10",
            "--format",
            "json",
            "--jobs",
            jobs,
            "--report",
            page.to_str().expect("UTF-8"),
        ];
        let output = mortise(&args).success().get_output().stdout.clone();
        serde_json::from_slice::<serde_json::Value>(&output).expect("JSON")
    };
    let untimed = |mut document: serde_json::Value| {
        for mean in document["means"].as_array_mut().expect("means") {
            let time = mean.as_object_mut().expect("an object").remove("us_per_request");
            assert!(time.is_some());
        }
        document
    };
    let document = untimed(run("1"));
    assert_eq!(document, untimed(run("2")));
    let means = document["means"].as_array().expect("means");
    assert_eq!(means.len(), 8);
    for mean in means {
        for key in ["accepted_ratio", "accepted_slices_ratio"] {
            let ratio = mean[key].as_f64().expect("a number");
            assert!((0.5..1.0).contains(&ratio), "{mean}");
        }
        assert!(mean["cards_used"].as_f64().expect("a number") <= 12.0);
    }
    let page = fs::read_to_string(&page).expect("the page");
    assert!(page.contains("expected-stranding") && page.ends_with("</html>\n"));
    mortise(&["sim", "mig", "--policy", "best"]).failure().stderr(contains("best-fit"));
    mortise(&["sim", "mig", "--gpu", "h100"]).failure().stderr(contains("h100-80gb"));
    mortise(&["sim", "mig", "--load", "0"]).failure().stderr(contains("0.01 to 100"));
}
