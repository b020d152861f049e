//! Reading a snapshot for a command.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::{Context, Result};
use rayon::prelude::*;

use super::Status;
use super::args::InputArgs;
use super::meant;
use super::progress::{Reading, Step};
use super::sources;
use crate::allocator::AllocatorRules;
use crate::analysis::categories::Rules;
use crate::history::History;
use crate::snapshot::{LoadOptions, Snapshot, Source, Warning, load};

/// A snapshot that was read, and the rules to look at it with.
pub struct Loaded {
    /// The file's name as printed: without its directory.
    pub name: String,
    /// The file as it was named.
    pub path: String,
    /// Its content.
    pub snapshot: Snapshot,
    /// The rules by which it is looked at.
    pub rules: AllocatorRules,
}

/// Reads the file that `args` name.
pub fn open(args: &InputArgs) -> Result<Loaded> {
    let path = display(&args.file);
    sources::note(&args.file);
    let progress = Reading::new(&path);
    let report = |done, total| progress.report(done, total);
    let options = LoadOptions { salvage: args.salvage, progress: Some(&report), ..LoadOptions::default() };
    let snapshot = load(&Source::from_arg(&args.file), &options)
        .map_err(|error| meant::not_a_snapshot(error, &path))
        .with_context(|| path.clone())?;
    let rules = args.rules.apply(&snapshot.settings.rules)?;
    let name = args.file.file_name().map_or_else(|| path.clone(), |name| display(Path::new(name)));
    Ok(Loaded { name, path, snapshot, rules })
}

/// Reads the rules for categories in the file at `path`.
pub fn rules(path: &Path) -> Result<Rules> {
    let text = sources::read_text(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Rules::parse(&text).with_context(|| path.display().to_string())
}

fn display(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

impl Loaded {
    /// The past of each device, or of the one asked for. The device with the latest OOM comes first, then the others
    /// by ordinal.
    pub fn histories(&self, device: Option<i64>) -> Result<Vec<History<'_>>> {
        let _step = Step::new("replaying the trace");
        let devices = &self.snapshot.devices;
        if let Some(wanted) = device {
            let known: Vec<String> = devices.iter().map(|device| device.ordinal.to_string()).collect();
            anyhow::ensure!(
                devices.iter().any(|device| device.ordinal == wanted),
                "{}: nothing is recorded of device {wanted}; there is {}",
                self.path,
                if known.is_empty() {
                    "no device in the file".to_owned()
                } else {
                    format!("device {}", known.join(", "))
                }
            );
        }
        let chosen: Vec<_> = devices.iter().filter(|found| device.is_none_or(|only| only == found.ordinal)).collect();
        let mut histories: Vec<History> =
            chosen.into_par_iter().map(|device| History::new(&self.snapshot, device, &self.rules)).collect();
        // The sort is stable: devices without OOM stay in order.
        histories.sort_by_key(|history| {
            let last = history.ooms.last();
            (last.is_none(), last.map(|oom| std::cmp::Reverse(oom.time_us)))
        });
        Ok(histories)
    }

    /// Prints the file's warnings to standard error.
    pub fn warn(&self) {
        for warning in &self.snapshot.warnings {
            eprintln!("oomscope: {}: warning: {}", self.path, crate::text::printable(&warning.to_string()));
        }
    }

    /// The line that every text begins with when only a part of the file could be used; nothing where the warning on
    /// standard error stands just above it.
    pub fn preface(&self) -> String {
        if io::stdout().is_terminal() && io::stderr().is_terminal() {
            return String::new();
        }
        self.salvaged().map_or_else(String::new, |warning| format!("{warning}\n\n"))
    }

    /// The file's name for the title of a picture.
    pub fn title(&self) -> String {
        let part = if self.salvaged().is_some() { " (salvaged: a part only)" } else { "" };
        format!("{}{part}", self.name)
    }

    /// Whether the whole file was used.
    pub fn status(&self) -> Status {
        if self.salvaged().is_some() { Status::Partial } else { Status::Done }
    }

    /// What says that only a part of the file could be used.
    pub fn salvaged(&self) -> Option<&Warning> {
        self.snapshot.warnings.iter().find(|warning| matches!(warning, Warning::Salvaged { .. }))
    }
}
