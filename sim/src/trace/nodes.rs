//! Node lists: `sn, cpu_milli, memory_mib, gpu, model`.

use std::path::Path;

use super::table::{Names, Table, TraceError};
use super::{MAX_CPU_MILLI, MAX_GPUS, MAX_MEMORY_MIB};

/// One node of the cluster, empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Unique in its list.
    pub name: String,
    /// In thousandths of a core.
    pub cpu_milli: i64,
    /// In MiB.
    pub memory_mib: i64,
    /// Devices, each of 1000 thousandths.
    pub gpus: u8,
    /// The model of all its devices; empty only without devices.
    pub model: String,
}

/// Reads a node list.
///
/// # Errors
/// Names the file, line and column of the first fault; a node with devices must name their model.
pub fn read_nodes(file: &Path) -> Result<Vec<NodeSpec>, TraceError> {
    let table = Table::open(file)?;
    let [sn, cpu, memory, gpu, model] =
        table.required(["sn", "cpu_milli", "memory_mib", "gpu", "model"])?;
    let mut nodes = Vec::new();
    let mut names = Names::default();
    table.for_each_row(|row| {
        let gpus: u8 = row.integer(gpu, 0..=i64::from(MAX_GPUS), "GPUs of the node")?;
        let model_name = row.text(model);
        if gpus > 0 && (model_name.is_empty() || model_name.contains('|')) {
            return Err(row.bad(model, "the name of one GPU model, as the node has GPUs"));
        }
        nodes.push(NodeSpec {
            name: names.claim(row, sn)?,
            cpu_milli: row.integer(cpu, 0..=MAX_CPU_MILLI, "CPU in thousandths of a core")?,
            memory_mib: row.integer(memory, 0..=MAX_MEMORY_MIB, "memory in MiB")?,
            gpus,
            model: model_name.to_owned(),
        });
        Ok(())
    })?;
    if nodes.is_empty() {
        return Err(TraceError::NoRows { file: file.to_owned(), rows: "nodes" });
    }
    Ok(nodes)
}
