//! `oomscope export`

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::args::{InputArgs, RuleArgs};
use super::atomic::{self, Existing};
use super::input::Loaded;
use super::{Status, input};
use crate::export::{Excerpt, Names, Pickle, Requests, SeriesFormat, SnapshotFormat};
use crate::history::History;

/// Writes the snapshot for other programs: trimmed, without names, as a table, a profile or a trace.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope export oom.pickle --format requests -o ops.json   what the program asked for, for whatif --requests")]
pub struct Args {
    /// Snapshot: a pickle (.gz, .zst, .zip too), an HTML page of _memory_viz.py, JSON; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to write
    #[arg(short, long, value_enum)]
    format: Format,
    /// Write here instead of to standard output; a file that is there is kept
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace the file that is there
    #[arg(long)]
    force: bool,
    /// Export this device only
    #[arg(long, value_name = "N")]
    device: Option<i64>,
    /// Use what is complete of a file that breaks off; the exit status is 2
    #[arg(long)]
    salvage: bool,
    #[command(flatten)]
    rules: RuleArgs,
}

/// One line a format; [`Format::write`] says what writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A snapshot as PyTorch writes it
    Pickle,
    /// Requests and frees, for `whatif --requests`
    Requests,
}

impl Format {
    /// Whether a terminal can show it.
    fn is_text(self) -> bool {
        match self {
            Self::Requests => true,
            Self::Pickle => false,
        }
    }

    /// Writes `job` to `out` in this format.
    fn write(self, job: &Job, out: &mut dyn Write) -> Result<()> {
        match self {
            Self::Pickle => Pickle.write(&job.excerpt, out)?,
            Self::Requests => Requests.write(&job.histories, out)?,
        }
        Ok(())
    }
}

/// What there is to export.
struct Job<'a> {
    histories: Vec<History<'a>>,
    excerpt: Excerpt<'a>,
}

pub fn run(args: &Args) -> Result<Status> {
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    match &args.output {
        Some(path) => atomic::check(path, existing)?,
        None => ensure!(
            args.format.is_text() || !io::stdout().is_terminal(),
            "this format is not for a terminal: name a file with -o"
        ),
    }
    let loaded = load(args)?;
    loaded.warn();
    let histories = loaded.histories(args.device)?;
    let excerpt = Excerpt::new(&loaded.snapshot, &histories, Names::new(&loaded.snapshot, None));
    let job = Job { histories, excerpt };
    let produce = |out: &mut dyn Write| args.format.write(&job, out).with_context(|| loaded.path.clone());
    match &args.output {
        Some(path) => atomic::write(path, existing, produce)?,
        None => {
            let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
            produce(&mut out)?;
            out.flush()?;
        }
    }
    Ok(loaded.status())
}

fn load(args: &Args) -> Result<Loaded> {
    input::open(&InputArgs {
        file: args.file.clone(),
        salvage: args.salvage,
        device: args.device,
        capacity: None,
        json: false,
        rules: args.rules.clone(),
    })
}
