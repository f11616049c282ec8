//! Malformed traces: file, line, column, value and what was expected.

use std::fs;
use std::path::PathBuf;

use mortise_sim::trace::{read_nodes, read_pods};
use tempfile::TempDir;

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";

fn file(name: &str, text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn pods_error(text: impl AsRef<[u8]>) -> String {
    let (_dir, path) = file("pods.csv", text);
    read_pods(&path).unwrap_err().to_string()
}

fn nodes_error(text: &str) -> String {
    let (_dir, path) = file("nodes.csv", text);
    read_nodes(&path).unwrap_err().to_string()
}

#[track_caller]
fn assert_says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn bad_values_are_named_with_their_place() {
    let rows = [
        ("p,NaN,1,0,0,", "cpu_milli", "\"NaN\""),
        ("p,-1,1,0,0,", "cpu_milli", "\"-1\""),
        ("p,1e3,1,0,0,", "cpu_milli", "\"1e3\""),
        ("p,99999999999999999999,1,0,0,", "cpu_milli", "\"99999999999999999999\""),
        ("p,1,-5,0,0,", "memory_mib", "\"-5\""),
        ("p,1,1,17,1000,", "num_gpu", "0 to 16"),
        ("p,1,1,1.5,1000,", "num_gpu", "\"1.5\""),
        ("p,1,1,1,0,", "gpu_milli", "1 to 1000"),
        ("p,1,1,1,1001,", "gpu_milli", "1 to 1000"),
        ("p,1,1,2,500,", "gpu_milli", "1000 to 1000"),
        ("p,1,1,0,500,", "gpu_milli", "0 to 0"),
        ("p,1,1,1,,", "gpu_milli", "\"\""),
        (",1,1,1,100,", "name", "a name"),
        ("p,1,1,1,100,T4||V100", "gpu_spec", "separated by |"),
    ];
    for (row, column, what) in rows {
        let error = pods_error(format!("{PODS}first,1,1,1,100,\n{row}\n"));
        assert_says(&error, &["pods.csv:3:", column, what, "expected"]);
    }
}

#[test]
fn bad_nodes_are_named_with_their_place() {
    assert_says(
        &nodes_error(&format!("{NODES}a,1,1,17,T4\n")),
        &["nodes.csv:2:", "column gpu", "0 to 16"],
    );
    assert_says(
        &nodes_error(&format!("{NODES}a,1,1,2,\n")),
        &["nodes.csv:2:", "column model", "one GPU model"],
    );
    assert_says(&nodes_error(&format!("{NODES}a,1,1,2,T4|P100\n")), &["column model"]);
    assert_says(
        &nodes_error(&format!("{NODES}a,1,1,2,T4\nb,1,1,2,T4\na,1,1,2,T4\n")),
        &["nodes.csv:4:", "column sn", "\"a\"", "line 2"],
    );
}

#[test]
fn shapes_of_files_are_checked() {
    assert_says(
        &pods_error("name,cpu_milli,memory_mib,num_gpu\np,1,1,1\n"),
        &["pods.csv:1:", "gpu_milli", "name,cpu_milli,memory_mib,num_gpu,gpu_milli"],
    );
    assert_says(
        &pods_error("name,cpu_milli,memory_mib,num_gpu,gpu_milli,name\n"),
        &["column name", "twice"],
    );
    assert_says(
        &pods_error(format!("{PODS}p,1,1\n")),
        &["pods.csv:2:", "3 fields", "expected 6", "num_gpu"],
    );
    assert_says(
        &pods_error(format!("{PODS}p,1,1,1,100,T4,8\n")),
        &["pods.csv:2:", "7 fields", "expected 6"],
    );
    assert_says(&pods_error(PODS), &["no pods"]);
    assert_says(&pods_error(""), &["column name is missing"]);
    assert_says(
        &pods_error([PODS.as_bytes(), b"p\xff,1,1,1,100,\n"].concat()),
        &["pods.csv:2:", "UTF-8"],
    );
    let missing = read_pods("no/such/file.csv".as_ref()).unwrap_err().to_string();
    assert_says(&missing, &["no/such/file.csv", "cannot be read"]);
}

#[test]
fn what_is_allowed_is_read() {
    let text = "\u{feff}qos,name, cpu_milli ,memory_mib,num_gpu,gpu_milli,gpu_spec\r\nBE,p,1000,2,1, 460 ,T4|P100\r\nLS,\"q,r\",0,0,0,0,ignored without GPUs\r\n";
    let (_dir, path) = file("some_trace.csv", text);
    let trace = read_pods(&path).unwrap();
    assert_eq!(trace.name, "some_trace");
    assert_eq!(trace.pods.len(), 2);
    assert_eq!((trace.pods[0].cpu_milli, trace.pods[0].gpu_milli), (1000, 460));
    assert_eq!(trace.pods[0].models().collect::<Vec<_>>(), ["T4", "P100"]);
    assert_eq!((trace.pods[1].name.as_str(), trace.pods[1].is_constrained()), ("q,r", false));
    let (_dir, path) =
        file("five.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,8,1000\n");
    assert_eq!(read_pods(&path).unwrap().pods[0].gpu_milli_total(), 8000);
}
