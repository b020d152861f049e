//! `--query-gpu=… --format=csv` and `--query-compute-apps=… --format=csv`, columns in any order.

use super::{Gpu, Process, Smi, Use, in_bytes};

const NAMES: [&str; 14] = [
    "pid",
    "process_name",
    "name",
    "used_gpu_memory",
    "used_memory",
    "gpu_uuid",
    "uuid",
    "gpu_bus_id",
    "pci.bus_id",
    "index",
    "memory.total",
    "memory.used",
    "memory.free",
    "memory.reserved",
];

/// Whether `line` is a heading of such a table.
pub(super) fn is_header(line: &str) -> bool {
    let mut columns = line.split(',').map(column);
    let known = columns.clone().filter(|(name, _)| NAMES.contains(name)).count();
    known >= 2 && columns.any(|(name, _)| name.contains("memory"))
}

/// `used_gpu_memory [MiB]` → name and unit.
fn column(heading: &str) -> (&str, Option<&str>) {
    match heading.trim().split_once(" [") {
        Some((name, unit)) => (name, unit.strip_suffix(']')),
        None => (heading.trim(), None),
    }
}

pub(super) fn parse(text: &str) -> Smi {
    let mut smi = Smi::default();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(heading) = lines.next().filter(|line| is_header(line)) else { return smi };
    let columns: Vec<(&str, Option<&str>)> = heading.split(',').map(column).collect();
    for line in lines {
        // A command line with commas stays in one cell: it is the only one that may have any.
        let cells = cells(line, &columns);
        let Some(cells) = cells else { continue };
        let get = |names: &[&str]| {
            let at = columns.iter().position(|(name, _)| names.contains(name))?;
            Some((cells[at].as_str(), columns[at].1)).filter(|(cell, _)| !cell.starts_with('[') && !cell.is_empty())
        };
        let size = |name: &str| get(&[name]).and_then(|(cell, unit)| size(cell, unit));
        let text = |names: &[&str]| get(names).map(|(cell, _)| cell.to_owned());
        let uuid = text(&["gpu_uuid", "uuid"]);
        let bus = text(&["gpu_bus_id", "pci.bus_id"]);
        let index = get(&["index"]).and_then(|(cell, _)| cell.parse().ok());
        if let Some(pid) = get(&["pid"]).and_then(|(cell, _)| cell.parse().ok()) {
            let bytes = size("used_gpu_memory").or_else(|| size("used_memory"));
            let name = text(&["process_name", "name"]).unwrap_or_default();
            smi.processes.push(Process { gpu: index, uuid, pid, usage: Use::Compute, name, bytes, instance: None });
        } else if columns.iter().any(|(name, _)| name.starts_with("memory.")) {
            smi.gpus.push(Gpu {
                index,
                uuid,
                bus,
                name: text(&["name"]),
                total: size("memory.total"),
                used: size("memory.used"),
                free: size("memory.free"),
                reserved: size("memory.reserved"),
                is_mig: false,
            });
        }
    }
    smi
}

fn cells(line: &str, columns: &[(&str, Option<&str>)]) -> Option<Vec<String>> {
    let parts: Vec<&str> = line.split(',').map(str::trim).collect();
    let extra = parts.len().checked_sub(columns.len())?;
    let free_text = columns.iter().position(|(name, _)| *name == "process_name" || *name == "name");
    let at = match (extra, free_text) {
        (0, _) => columns.len(),
        (_, Some(at)) => at,
        (_, None) => return None,
    };
    let mut cells: Vec<String> = parts[..at.min(parts.len())].iter().map(|part| (*part).to_owned()).collect();
    if at < columns.len() {
        cells.push(parts[at..=at + extra].join(", "));
        cells.extend(parts[at + extra + 1..].iter().map(|part| (*part).to_owned()));
    }
    Some(cells)
}

/// `26167 MiB`; with `nounits` the heading has the unit.
fn size(cell: &str, unit: Option<&str>) -> Option<u64> {
    let (number, unit) = match cell.split_once(' ') {
        Some((number, unit)) => (number, Some(unit)),
        None => (cell, unit),
    };
    let factor = match unit {
        Some("MiB") | None => 1 << 20,
        Some("KiB") => 1 << 10,
        Some("GiB") => 1 << 30,
        Some("bytes" | "B") => 1,
        Some(_) => return None,
    };
    in_bytes(number, factor)
}
