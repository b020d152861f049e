//! `oomscope fleet`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::args::InputArgs;
use super::atomic::{self, Existing};
use super::workers::in_parallel;
use super::{Status, files, output, sources, tables};
use crate::analysis::fleet::{Fleet, Rank, RankFile, RankPattern, fleet, rank};
use crate::analysis::sites::{By, Sites};
use crate::export::dataset::{Dataset, JobRank, Manifest};
use crate::export::ranks::ranks;
use crate::history::History;
use crate::render::fleet::{heat_map, markdown, timelines};
use crate::render::html::{FleetInput, fleet_page};
use crate::render::terminal;
use crate::snapshot::{LoadOptions, Source, Warning, load};
use crate::text::printable;
use crate::units::parse_size;

/// The snapshots of all ranks of a job: which failed first, which is the odd one, which line makes the difference.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope fleet dumps/                          every snapshot in the directory and below it
  oomscope fleet 'dumps/*_rank*.pickle' -o out   also writes a page, pictures and JSON
  oomscope fleet @files.txt --json               the files that a list names
  oomscope fleet dumps/ --tables db              also keeps tables, as `oomscope export --tables` does
  oomscope fleet db                              reads the tables instead of the snapshots
  oomscope fleet dumps/ --rank-pattern 'worker-(\\d+)'")]
pub struct Args {
    /// Directories, files, patterns (quoted), @LIST: a file with a name a line; or one directory of tables
    #[arg(value_name = "DIR|FILE|PATTERN|@LIST", required = true)]
    inputs: Vec<PathBuf>,
    /// Regular expression for the path, with a group for the rank, or groups named `rank`, `node` and `step`
    #[arg(long, value_name = "REGEX", value_parser = RankPattern::new)]
    rank_pattern: Option<RankPattern>,
    /// Use what is complete of files that break off; the exit status is 2
    #[arg(long)]
    salvage: bool,
    /// Memory of each card
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "tables")]
    capacity: Option<u64>,
    /// Keep what was read as tables in DIR, for SQL and for the next time: only what is new is read then
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
    /// Name of the job in the tables [default: that of the first input]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Replace the tables of other snapshots
    #[arg(long, requires = "tables")]
    force: bool,
    /// Files read at the same time; memory use grows with it [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Ranks in the table; JSON has all
    #[arg(long, value_name = "N", default_value_t = 32)]
    limit: usize,
    /// Also write fleet.html, fleet.json, heat_map.svg and timelines.svg into this directory, which is made if needed
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print JSON with stable keys; sizes are integers in bytes
    #[arg(long)]
    json: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "json")]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// For a terminal
    Text,
    /// Markdown for a ticket or a chat
    Md,
    /// As --json
    Json,
}

/// A file that could not be read.
#[derive(Clone, Debug, Serialize)]
struct FileError {
    file: String,
    error: String,
}

#[derive(Serialize)]
struct Document<'a> {
    oomscope: &'static str,
    command: &'static str,
    file: Option<String>,
    warnings: &'a [String],
    #[serde(flatten)]
    fleet: &'a Fleet,
    errors: &'a [FileError],
}

pub fn run(args: &Args) -> Result<Status> {
    let (read, notes) = match args.inputs.as_slice() {
        [root] if Dataset::is_at(root) => (from_tables(args, root)?, Vec::new()),
        inputs => {
            let (files, notes) = files::rank_files(inputs, args.rank_pattern.as_ref())?;
            let results = match &args.tables {
                Some(root) => {
                    let (dataset, job) = (Dataset::new(root).creating(atomic::create), job(args)?);
                    in_parallel(&files, args.jobs, |file| through_tables(&dataset, &job, file, args))
                }
                None => in_parallel(&files, args.jobs, |file| from_snapshot(file, args)),
            };
            (Read::new(files.iter().map(|file| file.file.clone()).zip(results)), notes)
        }
    };
    for error in &read.errors {
        eprintln!("oomscope: {}: {}", printable(&error.file), printable(&error.error));
    }
    ensure!(!read.ranks.is_empty(), "none of the files could be read: see the messages above");
    let fleet = fleet(read.ranks);
    let name = args.job.clone().unwrap_or_else(|| args.inputs[0].display().to_string());
    let document = Document {
        oomscope: env!("CARGO_PKG_VERSION"),
        command: "fleet",
        file: None,
        warnings: &notes,
        fleet: &fleet,
        errors: &read.errors,
    };
    let json = || -> Result<String> { Ok(serde_json::to_string_pretty(&document)? + "\n") };
    if let Some(directory) = &args.output {
        output::make_directory(directory)?;
        output::write(&directory.join("fleet.json"), &json()?)?;
        output::write(&directory.join("heat_map.svg"), &heat_map(&fleet))?;
        output::write(&directory.join("timelines.svg"), &timelines(&fleet))?;
        let errors: Vec<_> = read.errors.iter().map(|error| (error.file.clone(), error.error.clone())).collect();
        let page = fleet_page(&FleetInput { name: &name, fleet: &fleet, notes: &notes, errors: &errors });
        output::write(&directory.join("fleet.html"), &page)?;
    }
    let text = match args.format {
        _ if args.json => json()?,
        Format::Json => json()?,
        Format::Md => markdown(&name, &fleet, &notes, read.errors.len()),
        Format::Text => terminal::fleet(&fleet, &notes, read.errors.len(), args.limit, output::width()),
    };
    output::print(&text)?;
    Ok(read.status)
}

/// What was read of a job.
struct Read {
    ranks: Vec<Rank>,
    errors: Vec<FileError>,
    status: Status,
}

impl Read {
    /// One bad file must not hide the others.
    fn new(results: impl IntoIterator<Item = (String, Result<(Vec<Rank>, Status)>)>) -> Self {
        let mut read = Self { ranks: Vec::new(), errors: Vec::new(), status: Status::Done };
        for (file, result) in results {
            match result {
                Ok((ranks, status)) => {
                    read.status = read.status.and(status);
                    read.ranks.extend(ranks);
                }
                Err(error) => {
                    read.status = Status::Partial;
                    read.errors.push(FileError { file, error: format!("{error:#}") });
                }
            }
        }
        read
    }
}

fn from_snapshot(file: &RankFile, args: &Args) -> Result<(Vec<Rank>, Status)> {
    sources::note(Path::new(&file.file));
    let options = LoadOptions { salvage: args.salvage, ..LoadOptions::default() };
    let snapshot = load(&Source::from_arg(Path::new(&file.file)), &options)?;
    let sites = Sites::new(&snapshot, By::Line);
    let ranks = snapshot.devices.iter().map(|device| {
        let history = History::new(&snapshot, device, &snapshot.settings.rules);
        rank(file, &history, &sites, args.capacity)
    });
    let ranks: Vec<Rank> = ranks.collect();
    ensure!(!ranks.is_empty(), "no device has memory or a trace in it: was it taken in the process that used the GPU?");
    let is_whole = !snapshot.warnings.iter().any(|warning| matches!(warning, Warning::Salvaged { .. }));
    Ok((ranks, if is_whole { Status::Done } else { Status::Partial }))
}

/// Adds `file` to the tables of `job`, unless they have it, and reads it from there.
fn through_tables(dataset: &Dataset, job: &str, file: &RankFile, args: &Args) -> Result<(Vec<Rank>, Status)> {
    let rank = JobRank { job: job.to_owned(), rank: file.rank.into() };
    let input = InputArgs::file(PathBuf::from(&file.file), args.salvage);
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let (_, manifest) = tables::add_one(dataset, &rank, existing, &input)?;
    from_table(dataset, &rank, &manifest)
}

fn from_table(dataset: &Dataset, rank: &JobRank, manifest: &Manifest) -> Result<(Vec<Rank>, Status)> {
    let ranks = ranks(dataset, rank, manifest).with_context(|| format!("tables of rank {}", rank.rank))?;
    Ok((ranks, if manifest.salvaged { Status::Partial } else { Status::Done }))
}

/// The ranks of one job of the tables in `root`.
fn from_tables(args: &Args, root: &Path) -> Result<Read> {
    ensure!(args.capacity.is_none(), "--capacity goes with snapshots: the verdicts in tables were made without it");
    let dataset = Dataset::new(root);
    let mut found = dataset.ranks().with_context(|| root.display().to_string())?;
    let mut jobs: Vec<&str> = found.iter().map(|(rank, _)| rank.job.as_str()).collect();
    jobs.dedup();
    if let Some(job) = &args.job {
        ensure!(
            jobs.contains(&job.as_str()),
            "{}: there is no job {job}: there are {}",
            root.display(),
            jobs.join(", ")
        );
        found.retain(|(rank, _)| rank.job == *job);
    } else {
        ensure!(
            jobs.len() < 2,
            "{}: several jobs are in it, choose one with --job: {}",
            root.display(),
            jobs.join(", ")
        );
    }
    let results = in_parallel(&found, args.jobs, |(rank, manifest)| from_table(&dataset, rank, manifest));
    Ok(Read::new(found.iter().map(|(_, manifest)| manifest.file.clone()).zip(results)))
}

/// Name of the job in the tables.
fn job(args: &Args) -> Result<String> {
    let directory = || Some(fs::canonicalize(args.inputs.first()?).ok()?.file_name()?.to_string_lossy().into_owned());
    args.job.clone().or_else(directory).context("say --job NAME: the first input has no name to call the job by")
}
