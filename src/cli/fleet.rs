//! `oomscope fleet`

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::progress::Files;
use super::{Status, files, output};
use crate::analysis::fleet::{Assigned, Fleet, Rank, RankFile, RankPattern, assign, fleet, place, rank};
use crate::analysis::sites::{By, Sites};
use crate::history::History;
use crate::render::fleet::{heat_map, timelines};
use crate::render::terminal;
use crate::snapshot::{LoadOptions, Source, load};
use crate::units::parse_size;

/// The snapshots of all ranks of a job: which failed first, which is the odd one, which line makes the difference.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope fleet dumps/                          every snapshot in the directory and below it
  oomscope fleet 'dumps/*_rank*.pickle' -o out   also writes fleet.json, heat_map.svg and timelines.svg
  oomscope fleet @files.txt --json               the files that a list names
  oomscope fleet dumps/ --rank-pattern 'worker-(\\d+)'")]
pub struct Args {
    /// Directories, files, patterns (quoted), or @LIST: a file with a name a line
    #[arg(value_name = "DIR|FILE|PATTERN|@LIST", required = true)]
    inputs: Vec<PathBuf>,
    /// Regular expression for the path, with a group for the rank, or groups named `rank`, `node` and `step`
    #[arg(long, value_name = "REGEX", value_parser = RankPattern::new)]
    rank_pattern: Option<RankPattern>,
    /// Use what is complete of files that break off; the exit status is 2
    #[arg(long)]
    salvage: bool,
    /// Memory of each card
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Files read at the same time; memory use grows with it [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Ranks in the table; JSON has all
    #[arg(long, value_name = "N", default_value_t = 32)]
    limit: usize,
    /// Also write fleet.json, heat_map.svg and timelines.svg into this directory, which is made if needed
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print JSON with stable keys; sizes are integers in bytes
    #[arg(long)]
    json: bool,
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
    let paths = files::expand(&args.inputs)?;
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let places: Vec<_> = names
        .iter()
        .map(|name| args.rank_pattern.as_ref().map_or_else(|| place(name), |pattern| pattern.place(name)))
        .collect();
    let Assigned { files: assigned, notes } = assign(&places);
    let from: Vec<RankFile> =
        assigned.into_iter().map(|(at, rank, node)| RankFile { rank, node, file: names[at].clone() }).collect();
    let (ranks, errors, status) = read(args, &from);
    for error in &errors {
        eprintln!("oomscope: {}: {}", crate::text::printable(&error.file), crate::text::printable(&error.error));
    }
    ensure!(!ranks.is_empty(), "none of {} files could be read: see the messages above", from.len());
    let fleet = fleet(ranks);
    let document = Document {
        oomscope: env!("CARGO_PKG_VERSION"),
        command: "fleet",
        file: None,
        warnings: &notes,
        fleet: &fleet,
        errors: &errors,
    };
    let json = || -> Result<String> { Ok(serde_json::to_string_pretty(&document)? + "\n") };
    if let Some(directory) = &args.output {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        output::write(&directory.join("fleet.json"), &json()?)?;
        output::write(&directory.join("heat_map.svg"), &heat_map(&fleet))?;
        output::write(&directory.join("timelines.svg"), &timelines(&fleet))?;
    }
    let text = match args.json {
        true => json()?,
        false => terminal::fleet(&fleet, &notes, errors.len(), args.limit, output::width()),
    };
    output::print(&text)?;
    Ok(status)
}

/// What each of `files` says, in their order, with the files that cannot be read.
///
/// A file is dropped before its worker takes the next one, so that no more than one a worker is in memory.
fn read(args: &Args, files: &[RankFile]) -> (Vec<Rank>, Vec<FileError>, Status) {
    let workers = args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(files.len()));
    let progress = Files::new(files.len());
    thread::scope(|scope| {
        for _ in 0..workers.min(files.len()) {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = read_one(file, args);
                    progress.done();
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((file, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by(|(a, _), (b, _)| (a.rank, &a.file).cmp(&(b.rank, &b.file)));
    let (mut ranks, mut errors, mut status) = (Vec::new(), Vec::new(), Status::Done);
    for (file, result) in results {
        match result {
            Ok((found, read)) => {
                status = status.and(read);
                ranks.extend(found);
            }
            // One bad file must not hide the others.
            Err(error) => {
                status = Status::Partial;
                errors.push(FileError { file: file.file.clone(), error: format!("{error:#}") });
            }
        }
    }
    (ranks, errors, status)
}

fn read_one(file: &RankFile, args: &Args) -> Result<(Vec<Rank>, Status)> {
    let options = LoadOptions { salvage: args.salvage, ..LoadOptions::default() };
    let snapshot = load(&Source::from_arg(Path::new(&file.file)), &options)?;
    let sites = Sites::new(&snapshot, By::Line);
    let used = snapshot.devices.iter();
    let ranks = used.map(|device| {
        let history = History::new(&snapshot, device, &snapshot.settings.rules);
        rank(file, &history, &sites, args.capacity)
    });
    let ranks: Vec<Rank> = ranks.collect();
    ensure!(!ranks.is_empty(), "no device has memory or a trace in it: was it taken in the process that used the GPU?");
    let is_whole =
        !snapshot.warnings.iter().any(|warning| matches!(warning, crate::snapshot::Warning::Salvaged { .. }));
    Ok((ranks, if is_whole { Status::Done } else { Status::Partial }))
}
