//! Flags for what lies beside a snapshot or a log: `nvidia-smi` output and tables of marks.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::sources;
use crate::oom::reconcile::{Reconciliation, Sources, reconcile};
use crate::oom::smi::{self, Smi};
use crate::oom::{Log, Marks, Message, read};

/// Evidence besides the text.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct EvidenceArgs {
    /// Output of nvidia-smi at the error: the table, CSV of --query-gpu or --query-compute-apps, or XML of -q -x; given
    /// twice, the first is of before the start
    #[arg(long, value_name = "FILE")]
    nvidia_smi: Vec<PathBuf>,
    /// CUDA_VISIBLE_DEVICES of the job: tells which card torch's device is in nvidia-smi's numbering
    #[arg(long, value_name = "LIST")]
    visible_devices: Option<String>,
    /// Lines that tell the phase of a job, besides the built-in ones: rows `phase | program | text`
    #[arg(long, value_name = "FILE")]
    marks: Option<PathBuf>,
}

/// Evidence that was read.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    moments: Vec<Smi>,
    visible: Option<String>,
}

impl EvidenceArgs {
    /// Reads a log by the marks.
    pub fn read_log(&self, log: &[u8]) -> Result<Log> {
        let marks = match &self.marks {
            Some(path) => Marks::with(&text(path)?).with_context(|| path.display().to_string())?,
            None => Marks::built_in(),
        };
        Ok(read(log, &marks))
    }

    /// Reads the rest.
    pub fn load(&self) -> Result<Evidence> {
        let mut moments = Vec::new();
        for path in &self.nvidia_smi {
            let found = smi::parse(&text(path)?);
            ensure!(
                !found.is_empty(),
                "{}: no card and no process was recognised in it: give what `nvidia-smi`, `nvidia-smi -q -x`, or \
                 `nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv` prints (with headings)",
                path.display()
            );
            moments.extend(found);
        }
        Ok(Evidence { moments, visible: self.visible_devices.clone() })
    }
}

fn text(path: &Path) -> Result<String> {
    let bytes = sources::read(path).with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Evidence {
    /// The account of torch's `device`. Only with nvidia-smi, or when the text names other processes.
    pub fn account(
        &self,
        message: Option<&Message>,
        reserved: Option<u64>,
        device_free: Option<u64>,
        device: u32,
    ) -> Option<Reconciliation> {
        let names_others = message.is_some_and(|message| !message.other_processes.is_empty());
        if self.moments.is_empty() && !names_others {
            return None;
        }
        let before = self.moments.len().checked_sub(2).and_then(|at| self.moments.get(at));
        let (smi, visible) = (self.moments.last(), self.visible.as_deref());
        reconcile(&Sources { message, reserved, device_free, device, smi, before, visible })
    }
}
