//! The plain table.

use super::{Gpu, Process, Smi, Use, mib};

pub(super) fn parse(text: &str) -> Smi {
    let mut smi = Smi::default();
    for line in text.lines() {
        let Some(row) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { continue };
        if let Some(process) = process(row) {
            smi.processes.push(process);
        } else if let Some(gpu) = first_line(row) {
            smi.gpus.push(gpu);
        } else {
            second_line(row, &mut smi);
        }
    }
    smi
}

/// `    0   N/A  N/A   2695172      C   python                 26167MiB `; before 2020 without the instance columns.
fn process(row: &str) -> Option<Process> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let at = words.iter().take(6).position(|word| matches!(*word, "C" | "G" | "C+G" | "M+C"))?;
    let usage = match words[at] {
        "G" => Use::Graphics,
        "C+G" => Use::Both,
        _ => Use::Compute,
    };
    let gpu = words.first()?.parse().ok()?;
    let pid = words.get(at.checked_sub(1)?)?.parse().ok()?;
    let instance = match words.get(1..at - 1)? {
        [gi, ci] => gi.parse().ok().zip(ci.parse().ok()),
        _ => None,
    };
    let (last, name) = words[at + 1..].split_last()?;
    Some(Process { gpu: Some(gpu), uuid: None, pid, usage, name: name.join(" "), bytes: mib(last), instance })
}

/// `   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 `
fn first_line(row: &str) -> Option<Gpu> {
    let mut cells = row.split('|');
    let (name, bus) = (cells.next()?, cells.next()?);
    let mut words = name.split_whitespace();
    let index = words.next()?.parse().ok()?;
    let bus = bus.split_whitespace().find(|word| word.matches(':').count() == 2 && word.contains('.'))?;
    let mut name: Vec<&str> = words.collect();
    // The last word is the persistence mode.
    if name.last().is_some_and(|word| matches!(*word, "On" | "Off" | "N/A" | "WDDM" | "TCC")) {
        name.pop();
    }
    Some(Gpu { index: Some(index), name: Some(name.join(" ")), bus: Some(bus.to_owned()), ..Gpu::default() })
}

/// ` N/A   34C    P0    65W / 400W |  26167MiB / 81920MiB |      0%      Default `, and the same cell of a MIG row.
fn second_line(row: &str, smi: &mut Smi) {
    let memory = row.split('|').find_map(|cell| {
        let (used, total) = cell.split_once('/')?;
        Some((mib(used)?, mib(total)?))
    });
    let Some(gpu) = smi.gpus.last_mut() else { return };
    if let Some((used, total)) = memory {
        if gpu.total.is_none() {
            (gpu.used, gpu.total) = (Some(used), Some(total));
            gpu.free = Some(total.saturating_sub(used));
        } else {
            gpu.is_mig = true;
        }
    }
    let mode = row.rsplit('|').next().unwrap_or_default();
    if mode.trim() == "Enabled" {
        gpu.is_mig = true;
    }
}
