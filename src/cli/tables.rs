//! `oomscope export --format csv|parquet`: one table, all tables of a snapshot, or a dataset of many snapshots.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::args::InputArgs;
use super::atomic::{self, Existing};
use super::workers::in_parallel;
use super::{Status, files, input, output};
use crate::analysis::fleet::{RankFile, place};
use crate::export::TableFormat;
use crate::export::dataset::{Content, Dataset, Found, JobRank, Manifest};
use crate::export::tables::{Source, TableName};
use crate::text::printable;

/// Which tables, and where to.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Tables")]
pub struct TableArgs {
    /// Write this table only: devices, segments, blocks, events, stacks, frames, sites, steps, ooms, moments, leaks or timeline
    #[arg(long, value_name = "NAME", value_parser = table_name)]
    pub table: Option<TableName>,
    /// Add the tables to the dataset in DIR; FILE may be a directory of snapshots. What is there already is not read again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "table", "device"])]
    pub tables: Option<PathBuf>,
    /// Name of the job [default: the directory of FILE]
    #[arg(long, value_name = "NAME", requires = "tables")]
    job: Option<String>,
    /// JobRank of FILE [default: the number behind `rank` in its name]
    #[arg(long, value_name = "N", requires = "tables")]
    rank: Option<u64>,
}

fn table_name(text: &str) -> Result<TableName, String> {
    let names: Vec<&str> = TableName::ALL.iter().map(|name| name.name()).collect();
    let found = TableName::ALL.into_iter().find(|name| name.name() == text);
    found.ok_or_else(|| format!("there is no such table: it is one of {}", names.join(", ")))
}

/// Writes every table of `source` to `directory`, a file each.
pub fn write_all(
    directory: &Path,
    existing: Existing,
    source: &Source,
    format: &dyn TableFormat,
    ending: &str,
) -> Result<()> {
    let files: Vec<_> =
        TableName::ALL.into_iter().map(|name| (name, directory.join(format!("{}.{ending}", name.name())))).collect();
    // Nothing is written when one of them is in the way.
    files.iter().try_for_each(|(_, path)| atomic::check(path, existing))?;
    output::make_directory(directory)?;
    for (name, path) in &files {
        let table = source.table(*name);
        atomic::write(path, existing, |out: &mut dyn Write| Ok(format.write(&*table, out)?))?;
    }
    Ok(())
}

/// Adds the snapshots that `input` names to the dataset in `root`, and prints a line for each.
pub fn add(root: &Path, args: &TableArgs, existing: Existing, input: &InputArgs) -> Result<Status> {
    ensure!(
        input.rules.is_empty(),
        "--tables takes the allocator's rules from each file: leave the flags that replace them out"
    );
    let is_directory = input.file.is_dir();
    let files = if is_directory { files::directly_in(&input.file)? } else { vec![input.file.clone()] };
    ensure!(!files.is_empty(), "{}: there is no snapshot in it", input.file.display());
    ensure!(
        args.rank.is_none() || files.len() == 1,
        "--rank names one snapshot, but {} has {}: leave it out, the names tell",
        input.file.display(),
        files.len()
    );
    let dataset = Dataset::new(root).creating(atomic::create);
    let mut ranked = Vec::new();
    for file in files {
        ranked.push((rank_of(&file, args)?, file));
    }
    ranked.sort();
    let mut pairs = ranked.iter().zip(ranked.iter().skip(1));
    if let Some(((rank, one), (_, other))) = pairs.find(|((a, _), (b, _))| a == b) {
        bail!("{} and {} are both rank {}: export one of them", one.display(), other.display(), rank.rank);
    }
    let work = |(rank, file): &(JobRank, PathBuf)| {
        let one = InputArgs { file: file.clone(), ..input.clone() };
        add_one(&dataset, rank, existing, &one)
    };
    let mut status = Status::Done;
    let mut text = String::new();
    for ((rank, file), done) in ranked.iter().zip(in_parallel(&ranked, None, work)) {
        // One bad file must not hide the others.
        match done {
            Ok((what, manifest)) => {
                let events = manifest.rows.get(TableName::Events.name()).copied().unwrap_or(0);
                let name = format!("job {} rank {}", rank.job, rank.rank);
                text += &format!("{}  {what}, {} events\n", printable(&name), crate::units::count(events));
                if manifest.salvaged {
                    eprintln!("oomscope: {}: only a part of the file could be read", file.display());
                    status = Status::Partial;
                }
            }
            Err(error) => {
                eprintln!("oomscope: {error:#}");
                status = Status::Partial;
            }
        }
    }
    output::print(&text)?;
    Ok(status)
}

/// Adds the snapshot that `args` name to `dataset` as that of `rank`, unless it is there; what was done, in a word.
pub fn add_one(
    dataset: &Dataset,
    rank: &JobRank,
    existing: Existing,
    args: &InputArgs,
) -> Result<(&'static str, Manifest)> {
    let file = &args.file;
    let content = Content::of(file).with_context(|| file.display().to_string())?;
    let what = match dataset.find(rank, &content) {
        Found::Same(manifest) if existing == Existing::Keep && (!manifest.salvaged || args.salvage) => {
            return Ok(("unchanged", manifest));
        }
        Found::Other(manifest) if existing == Existing::Keep => bail!(
            "{}: the tables of job {} rank {} are those of another snapshot, {}: name another --job, or replace them \
             with --force",
            file.display(),
            rank.job,
            rank.rank,
            manifest.file
        ),
        Found::Nothing => "written",
        _ => "replaced",
    };
    let loaded = input::open(args)?;
    loaded.warn();
    let histories = loaded.histories(None)?;
    let source = Source::new(&loaded.snapshot, &histories);
    let salvaged = loaded.status() == Status::Partial;
    let _unfinished: Vec<_> = dataset.partials(rank).into_iter().map(atomic::remove_when_interrupted).collect();
    let number = u32::try_from(rank.rank).context("a rank has at most 32 bits")?;
    let from = RankFile { rank: number, node: place(&loaded.path).node, file: loaded.name.clone() };
    let manifest = dataset.write(rank, &source, &from, content, salvaged).with_context(|| {
        let root = dataset.root().display();
        format!("{}: cannot write its tables to {root}: check the directory and the disk space", file.display())
    })?;
    Ok((what, manifest))
}

/// Whose snapshot `file` is, by the flags or by its name.
fn rank_of(file: &Path, args: &TableArgs) -> Result<JobRank> {
    let found = place(&file.to_string_lossy());
    let rank = args.rank.or(found.rank.map(u64::from)).with_context(|| {
        format!("{}: its name does not tell the rank (`rank3`, `rank_3`): say --rank N", file.display())
    })?;
    let job = args.job.clone().or_else(|| {
        let parent = fs::canonicalize(file).ok()?.parent()?.file_name()?.to_string_lossy().into_owned();
        Some(parent)
    });
    let job =
        job.filter(|job| !job.is_empty()).context("the directory has no name to call the job by: say --job NAME")?;
    Ok(JobRank { job, rank })
}
