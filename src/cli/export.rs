//! `oomscope export`

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::args::{InputArgs, RuleArgs};
use super::atomic::{self, Existing};
use super::input::Loaded;
use super::{Status, input};
use crate::export::{Excerpt, Json, NameOptions, Names, Pickle, Requests, SeriesFormat, SnapshotFormat, Window};
use crate::history::History;

/// Writes the snapshot for other programs: trimmed, without names, as a table, a profile or a trace.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope export oom.pickle --format pickle -o small.pickle --window 100..200   the events 100 to 200
  oomscope export oom.pickle --format pickle -o public.pickle --redact           without names of people and projects
  oomscope export oom.pickle --format json | jq '.frames[:3]'                    everything, one row a line
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
    /// Keep the events from moment A to moment B, both included, and the memory after B: event numbers, @MICROSECONDS,
    /// peak, oom:K or step:S; A.. goes to the dump
    #[arg(long, value_name = "A..B")]
    window: Option<Window>,
    /// Replace paths, user and host names and the program's own texts, equal ones by equal ones; what is torch's or a
    /// well-known package's stays
    #[arg(long)]
    redact: bool,
    /// Replace the program's function names too
    #[arg(long, requires = "redact")]
    redact_functions: bool,
    /// Take this directory off the front of file names
    #[arg(long, value_name = "DIR")]
    strip_prefix: Option<String>,
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
    /// Everything that is read of the file, one row a line
    Json,
    /// Requests and frees, for `whatif --requests`
    Requests,
}

impl Format {
    /// Whether a terminal can show it.
    fn is_text(self) -> bool {
        match self {
            Self::Json | Self::Requests => true,
            Self::Pickle => false,
        }
    }

    /// Whether it is made of the part of the file that `--window`, `--redact` and `--strip-prefix` choose.
    fn takes_part(self) -> bool {
        match self {
            Self::Pickle | Self::Json => true,
            Self::Requests => false,
        }
    }

    /// Writes `job` to `out` in this format.
    fn write(self, job: &Job, out: &mut dyn Write) -> Result<()> {
        match self {
            Self::Pickle => Pickle.write(&job.excerpt, out)?,
            Self::Json => Json.write(&job.excerpt, out)?,
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
    ensure!(
        args.format.takes_part() || !(args.window.is_some() || args.redact || args.strip_prefix.is_some()),
        "this format takes no --window, --redact or --strip-prefix: export a pickle with them first, then that"
    );
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
    let excerpt = excerpt(args, &loaded, &histories)?;
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

/// The part of the file that `args` ask for.
fn excerpt<'a>(args: &Args, loaded: &'a Loaded, histories: &[History<'a>]) -> Result<Excerpt<'a>> {
    let snapshot = &loaded.snapshot;
    let options = NameOptions {
        strip_prefix: args.strip_prefix.clone(),
        redact: args.redact,
        redact_functions: args.redact_functions,
    };
    let names = Names::new(snapshot, &options);
    let Some(window) = &args.window else { return Ok(Excerpt::new(snapshot, histories, names)) };
    if snapshot.host.is_some() {
        eprintln!("oomscope: {}: note: pinned host memory is left out of a window", loaded.path);
    }
    Excerpt::windowed(snapshot, histories, window, names).with_context(|| loaded.path.clone())
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
