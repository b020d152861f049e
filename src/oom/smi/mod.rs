//! What `nvidia-smi` prints: cards and the processes on them.
//!
//! In: its plain table, `--query-gpu` or `--query-compute-apps` as CSV, or `-q -x` as XML; several of them one after
//! the other in one text. Out: one [`Smi`] a moment.

mod csv;
mod table;
mod xml;

use serde::Serialize;

use super::figure::ABSURD;

/// A card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Its index, as nvidia-smi counts.
    pub index: Option<u32>,
    /// Its UUID.
    pub uuid: Option<String>,
    /// Its bus id.
    pub bus: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// All its memory.
    pub total: Option<u64>,
    /// Used.
    pub used: Option<u64>,
    /// Free.
    pub free: Option<u64>,
    /// Kept back by the driver.
    pub reserved: Option<u64>,
    /// Whether it is split into MIG instances.
    pub is_mig: bool,
}

/// What a process does on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Computes.
    Compute,
    /// Draws: a desktop.
    Graphics,
    /// Both.
    Both,
}

/// A process on a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Index of its card.
    pub gpu: Option<u32>,
    /// UUID of its card.
    pub uuid: Option<String>,
    /// Its id, as the host sees it.
    pub pid: u64,
    /// What it does.
    pub usage: Use,
    /// Its name.
    pub name: String,
    /// Its memory; `None` where the driver does not tell.
    pub bytes: Option<u64>,
    /// Its MIG instance: GPU and compute instance ids.
    pub instance: Option<(u32, u32)>,
}

/// One moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Smi {
    /// The cards.
    pub gpus: Vec<Gpu>,
    /// The processes.
    pub processes: Vec<Process>,
}

impl Smi {
    fn is_empty(&self) -> bool {
        self.gpus.is_empty() && self.processes.is_empty()
    }

    /// The card that torch calls `device`, when `visible` is what `CUDA_VISIBLE_DEVICES` was.
    ///
    /// An entry of it is an index, a UUID, or the beginning of one. Without it the order is that of nvidia-smi.
    pub fn card(&self, device: u32, visible: Option<&str>) -> Option<&Gpu> {
        let entry = match visible.map(str::trim).filter(|visible| !visible.is_empty()) {
            None => device.to_string(),
            Some(visible) => visible.split(',').nth(device as usize)?.trim().to_owned(),
        };
        if let Ok(index) = entry.parse::<u32>() {
            let known = self.gpus.iter().find(|gpu| gpu.index == Some(index));
            return known.or_else(|| self.gpus.get(index as usize).filter(|gpu| gpu.index.is_none()));
        }
        self.gpus.iter().find(|gpu| gpu.uuid.as_deref().is_some_and(|uuid| uuid.starts_with(&entry)))
    }

    /// The processes on `gpu`; all of them when there is one card, or none is described.
    pub fn processes_on<'a>(&'a self, gpu: Option<&'a Gpu>) -> impl Iterator<Item = &'a Process> {
        self.processes.iter().filter(move |process| {
            let Some(gpu) = gpu else { return true };
            match (process.gpu, &process.uuid) {
                (Some(index), _) => gpu.index.is_none_or(|own| own == index),
                (None, Some(uuid)) => gpu.uuid.as_ref().is_none_or(|own| own == uuid),
                (None, None) => true,
            }
        })
    }
}

/// The moments in `text`, in order. What is not recognised is passed over.
pub fn parse(text: &str) -> Vec<Smi> {
    let mut moments: Vec<Smi> = Vec::new();
    let mut part = String::new();
    let mut close = |part: &mut String| {
        let moment = if part.contains("<nvidia_smi_log>") { xml::parse(part) } else { plain(part) };
        match moments.last_mut() {
            _ if moment.is_empty() => {}
            // `--query-gpu` and `--query-compute-apps` of one moment are two calls.
            Some(last)
                if last.processes.is_empty() != moment.processes.is_empty()
                    && last.gpus.is_empty() != moment.gpus.is_empty() =>
            {
                last.gpus.extend(moment.gpus);
                last.processes.extend(moment.processes);
            }
            _ => moments.push(moment),
        }
        part.clear();
    };
    for line in text.lines() {
        let starts = line.contains("| NVIDIA-SMI") || line.starts_with("<?xml") || csv::is_header(line);
        if starts {
            close(&mut part);
        }
        part.push_str(line);
        part.push('\n');
    }
    close(&mut part);
    moments
}

fn plain(text: &str) -> Smi {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if csv::is_header(first) || !first.contains('|') { csv::parse(text) } else { table::parse(text) }
}

/// `26167MiB`, `26167 MiB`; `None` for `N/A` and the like.
fn mib(text: &str) -> Option<u64> {
    let number = text.trim().strip_suffix("MiB").unwrap_or(text).trim();
    in_bytes(number, 1 << 20)
}

/// `number` of units of `unit` bytes. What no card can have is not known.
fn in_bytes(number: &str, unit: u64) -> Option<u64> {
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes < ABSURD)
}
