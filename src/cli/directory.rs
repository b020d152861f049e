//! A directory: one line a file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::args::InputArgs;
use super::{Status, input, output};
use crate::analysis::ranking::{Attribution, live};
use crate::analysis::sites::{By, Sites};
use crate::history::At;
use crate::render::table::{Align, Table};
use crate::units::bytes;

/// Endings of the files that are looked at.
const ENDINGS: [&str; 4] = [".pickle", ".pkl", ".pickle.gz", ".pickle.zst"];

/// Prints a line for each device of each snapshot directly in the directory.
pub fn run(args: &InputArgs) -> Result<Status> {
    let files = snapshots(&args.file)?;
    ensure!(
        !files.is_empty(),
        "{}: there is no snapshot in it (files ending in {})",
        args.file.display(),
        ENDINGS.join(", ")
    );
    ensure!(!args.json, "{}: --json describes one file: name it", args.file.display());
    let mut table = Table::new([
        ("file", Align::Left),
        ("device", Align::Right),
        ("peak live", Align::Right),
        ("reserved", Align::Right),
        ("OOMs", Align::Right),
        ("top line", Align::Left),
    ]);
    let mut status = Status::Done;
    for path in files {
        let one = InputArgs { file: path.clone(), ..args.clone() };
        match lines(&one) {
            Ok((rows, read)) => {
                status = status.and(read);
                for row in rows {
                    table.row(row);
                }
            }
            // One bad file must not hide the others.
            Err(error) => {
                eprintln!("oomscope: {error:#}");
                status = Status::Partial;
            }
        }
    }
    output::print(&table.render(output::width()))?;
    Ok(status)
}

/// The rows of one file, the device with the OOM first.
fn lines(args: &InputArgs) -> Result<(Vec<Vec<String>>, Status)> {
    let loaded = input::open(args)?;
    let sites = Sites::new(&loaded.snapshot, By::Line);
    let mut rows = Vec::new();
    for history in loaded.histories(args.device)? {
        let moment = history.moment(At::Default)?;
        let ranking = live(&history, moment, &sites, Attribution::Own);
        let peak = match history.peak(None) {
            Some(peak) => bytes(peak.bytes),
            None => format!("{} at the end", bytes(ranking.total)),
        };
        rows.push(vec![
            loaded.name.clone(),
            history.device.ordinal.to_string(),
            peak,
            bytes(history.counters(moment.state).reserved),
            history.ooms.len().to_string(),
            ranking.rows.first().map_or_else(String::new, |row| format!("{} ({})", row.site, bytes(row.bytes))),
        ]);
    }
    if rows.is_empty() {
        rows.push(vec![loaded.name.clone(), "none".to_owned()]);
    }
    Ok((rows, loaded.status()))
}

/// The snapshots directly in `directory`, by name.
pub fn snapshots(directory: &Path) -> Result<Vec<PathBuf>> {
    let describe = || format!("{}: cannot be listed", directory.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(describe)? {
        let path = entry.with_context(describe)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
