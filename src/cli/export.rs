//! `oomscope export`

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use super::args::{InputArgs, MomentArgs, RuleArgs};
use super::atomic::{self, Existing};
use super::input::Loaded;
use super::tables::{self, TableArgs};
use super::{Status, input, sources};
use crate::analysis::window::WindowSpec;
use crate::export::tables::{Source, TableName};
use crate::export::{
    Csv, Excerpt, Folded, Json, NameOptions, Names, Parquet, Perfetto, Pickle, Pprof, Requests, SeriesFormat,
    SnapshotFormat, TableFormat,
};
use crate::history::{At, History};

/// Writes the snapshot for other programs: trimmed, without names, as a table, a profile or a trace.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope export oom.pickle --format pickle -o small.pickle --window 100..200   the events 100 to 200
  oomscope export oom.pickle --format pickle -o public.pickle --redact           without names of people and projects
  oomscope export oom.pickle --format json | jq '.frames[:3]'                    everything, one row a line
  oomscope export oom.pickle --format requests -o ops.json   what the program asked for, for whatif --requests
  oomscope export oom.pickle --format pprof -o mem.pb.gz     go tool pprof -http : mem.pb.gz
  oomscope export oom.pickle --format perfetto -o mem.json   open it in ui.perfetto.dev
  oomscope export oom.pickle --format csv --table sites      one table; -o DIR writes all of them
  oomscope export snapshots/ --format parquet --tables DB    a dataset for SQL: TABLE/job=…/rank=…/part.parquet")]
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
    /// peak, oom:K or step:S; A.. goes to the dump, step:S alone is that step
    #[arg(long, value_name = "A..B")]
    window: Option<WindowSpec>,
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
    at: MomentArgs,
    #[command(flatten)]
    tables: TableArgs,
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
    /// Tables as comma-separated values
    Csv,
    /// Tables as Parquet files
    Parquet,
    /// Stacks with their live bytes, one a line, for flame graphs
    Folded,
    /// Heap profile for `go tool pprof` and speedscope
    Pprof,
    /// Counters over time for ui.perfetto.dev
    Perfetto,
}

impl Format {
    /// Whether a terminal can show it.
    fn is_text(self) -> bool {
        match self {
            Self::Json | Self::Requests | Self::Csv | Self::Folded | Self::Perfetto => true,
            Self::Pickle | Self::Parquet | Self::Pprof => false,
        }
    }

    /// The tables' format and the ending of its files, when it is one of tables.
    fn of_tables(self) -> Option<(&'static dyn TableFormat, &'static str)> {
        match self {
            Self::Csv => Some((&Csv, "csv")),
            Self::Parquet => Some((&Parquet, "parquet")),
            _ => None,
        }
    }

    /// Whether it is made of the part of the file that `--window`, `--redact` and `--strip-prefix` choose.
    fn takes_part(self) -> bool {
        matches!(self, Self::Pickle | Self::Json)
    }

    /// Writes `job` to `out` in this format.
    fn write(self, job: &Job, out: &mut dyn Write) -> Result<()> {
        match self {
            Self::Pickle => Pickle.write(&job.excerpt, out)?,
            Self::Json => Json.write(&job.excerpt, out)?,
            Self::Requests => Requests.write(&job.histories, out)?,
            Self::Csv | Self::Parquet => {
                if let Some(((format, _), name)) = self.of_tables().zip(job.table) {
                    format.write(&*Source::new(job.excerpt.snapshot, &job.histories).table(name), out)?;
                }
            }
            Self::Folded => Folded { at: job.at, ..Folded::default() }.write(&job.histories, out)?,
            Self::Pprof => Pprof { at: job.at, ..Pprof::default() }.write(&job.histories, out)?,
            Self::Perfetto => Perfetto::default().write(&job.histories, out)?,
        }
        Ok(())
    }
}

/// What there is to export.
struct Job<'a> {
    histories: Vec<History<'a>>,
    excerpt: Excerpt<'a>,
    at: At,
    table: Option<TableName>,
}

pub fn run(args: &Args) -> Result<Status> {
    ensure!(
        args.format.takes_part() || !(args.window.is_some() || args.redact || args.strip_prefix.is_some()),
        "this format takes no --window, --redact or --strip-prefix: export a pickle with them first, then that"
    );
    ensure!(
        args.at.at.is_none() || matches!(args.format, Format::Folded | Format::Pprof),
        "--at goes with --format folded or pprof: the others have every moment"
    );
    sources::note(&args.file);
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    if let Some(root) = &args.tables.tables {
        ensure!(args.format == Format::Parquet, "a dataset is of Parquet files: --tables goes with --format parquet");
        return tables::add(root, &args.tables, existing, &input(args));
    }
    let of_tables = args.format.of_tables();
    ensure!(of_tables.is_some() || args.tables.table.is_none(), "--table goes with --format csv or parquet");
    let all = of_tables.filter(|_| args.tables.table.is_none());
    match &args.output {
        Some(_) if all.is_some() => {}
        None if all.is_some() => bail!("this format writes several tables: name a directory with -o, or one --table"),
        Some(path) => atomic::check(path, existing)?,
        None => ensure!(
            args.format.is_text() || !io::stdout().is_terminal(),
            "this format is not for a terminal: name a file with -o"
        ),
    }
    let loaded = load(args)?;
    loaded.warn();
    let histories = loaded.histories(args.device)?;
    if let Some(((format, ending), directory)) = all.zip(args.output.as_deref()) {
        let source = Source::new(&loaded.snapshot, &histories);
        tables::write_all(directory, existing, &source, format, ending)?;
        return Ok(loaded.status());
    }
    let excerpt = excerpt(args, &loaded, &histories)?;
    let job = Job { histories, excerpt, at: args.at.moment(), table: args.tables.table };
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
    let Some(window) = args.window else { return Ok(Excerpt::new(snapshot, histories, names)) };
    if snapshot.host.is_some() {
        eprintln!("oomscope: {}: note: pinned host memory is left out of a window", loaded.path);
    }
    Excerpt::windowed(snapshot, histories, window, names).with_context(|| loaded.path.clone())
}

fn load(args: &Args) -> Result<Loaded> {
    input::open(&input(args))
}

fn input(args: &Args) -> InputArgs {
    InputArgs {
        file: args.file.clone(),
        salvage: args.salvage,
        device: args.device,
        capacity: None,
        json: false,
        rules: args.rules.clone(),
    }
}
