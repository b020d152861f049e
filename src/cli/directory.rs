//! A directory: one line a file.

use anyhow::{Result, ensure};

use super::args::InputArgs;
use super::{Status, files, input, output};
use crate::analysis::ranking::{Attribution, live};
use crate::analysis::sites::{By, Sites};
use crate::history::At;
use crate::render::table::{Align, Table};
use crate::units::bytes;

/// Prints a line for each device of each snapshot directly in the directory.
pub fn run(args: &InputArgs) -> Result<Status> {
    let paths = files::directly_in(&args.file)?;
    ensure!(
        !paths.is_empty(),
        "{}: there is no snapshot in it (files ending in {})",
        args.file.display(),
        files::ENDINGS.join(", ")
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
    for path in paths {
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
