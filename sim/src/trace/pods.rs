//! Pod lists: `name, cpu_milli, memory_mib, num_gpu, gpu_milli`, optionally `gpu_spec`; other columns are not used.

use std::path::Path;

use super::table::{Column, Names, Row, Table, TraceError};
use super::{GPU_MILLI_PER_DEVICE, MAX_CPU_MILLI, MAX_GPUS, MAX_MEMORY_MIB};

/// What one pod of a trace asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSpec {
    /// Unique in its trace.
    pub name: String,
    /// In thousandths of a core.
    pub cpu_milli: i64,
    /// In MiB.
    pub memory_mib: i64,
    /// Number of devices.
    pub num_gpu: u8,
    /// Per device; 1000 with several devices, 0 without any.
    pub gpu_milli: u16,
    /// Models allowed, separated by `|`, as the file spells it; empty allows all. Always empty without devices.
    pub gpu_spec: String,
}

impl PodSpec {
    /// Thousandths of a GPU over all devices asked for.
    pub fn gpu_milli_total(&self) -> u64 {
        u64::from(self.num_gpu) * u64::from(self.gpu_milli)
    }

    /// Whether only some GPU models will do.
    pub fn is_constrained(&self) -> bool {
        !self.gpu_spec.is_empty()
    }

    /// The models allowed; none named means all.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.gpu_spec.split('|').filter(|name| !name.is_empty())
    }
}

/// A pod list and the name it goes by.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The file's name without `.csv`.
    pub name: String,
    /// In the file's order.
    pub pods: Vec<PodSpec>,
}

struct Columns {
    name: Column,
    cpu: Column,
    memory: Column,
    num_gpu: Column,
    gpu_milli: Column,
    gpu_spec: Option<Column>,
}

/// Reads a pod list.
///
/// # Errors
/// Names the file, line and column of the first fault.
pub fn read_pods(file: &Path) -> Result<Trace, TraceError> {
    let table = Table::open(file)?;
    let [name, cpu, memory, num_gpu, gpu_milli] =
        table.required(["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"])?;
    let columns =
        Columns { name, cpu, memory, num_gpu, gpu_milli, gpu_spec: table.optional("gpu_spec") };
    let mut names = Names::default();
    let mut pods = Vec::new();
    table.for_each_row(|row| {
        pods.push(read_pod(row, &columns, &mut names)?);
        Ok(())
    })?;
    if pods.is_empty() {
        return Err(TraceError::NoRows { file: file.to_owned(), rows: "pods" });
    }
    let file_name =
        file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = file_name.strip_suffix(".csv").unwrap_or(&file_name).to_owned();
    Ok(Trace { name, pods })
}

fn read_pod(row: &Row<'_>, columns: &Columns, names: &mut Names) -> Result<PodSpec, TraceError> {
    let num_gpu: u8 = row.integer(columns.num_gpu, 0..=i64::from(MAX_GPUS), "GPUs asked for")?;
    let whole = i64::from(GPU_MILLI_PER_DEVICE);
    let gpu_milli: u16 = match num_gpu {
        0 => row.integer(columns.gpu_milli, 0..=0, "thousandths of a GPU of a pod without GPUs")?,
        1 => row.integer(columns.gpu_milli, 1..=whole, "thousandths of the one GPU asked for")?,
        _ => row.integer(
            columns.gpu_milli,
            whole..=whole,
            "thousandths of each GPU, whole ones where a pod takes several",
        )?,
    };
    let gpu_spec = match columns.gpu_spec {
        Some(column) if num_gpu > 0 => {
            let text = row.text(column);
            if !text.is_empty()
                && text.split('|').any(|model| model.trim() != model || model.is_empty())
            {
                return Err(
                    row.bad(column, "GPU models separated by |, or nothing where all will do")
                );
            }
            text.to_owned()
        }
        _ => String::new(),
    };
    Ok(PodSpec {
        name: names.claim(row, columns.name)?,
        cpu_milli: row.integer(columns.cpu, 0..=MAX_CPU_MILLI, "CPU in thousandths of a core")?,
        memory_mib: row.integer(columns.memory, 0..=MAX_MEMORY_MIB, "memory in MiB")?,
        num_gpu,
        gpu_milli,
        gpu_spec,
    })
}
