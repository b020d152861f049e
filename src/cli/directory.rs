//! A directory: one line a file.

use anyhow::{Result, ensure};

use super::args::InputArgs;
use super::{Status, files, input, output};
use crate::analysis::ranking::{Attribution, live};
use crate::analysis::sites::{By, Sites};
use crate::history::At;
use crate::render::terminal::{self, FileDevice, FileRow};
use crate::text::printable;
use crate::units::count;

/// Prints a line for each device of each snapshot directly in the directory.
pub fn run(args: &InputArgs) -> Result<Status> {
    let paths = files::directly_in(&args.file)?;
    ensure!(
        !paths.is_empty(),
        "{}: there is no snapshot in it (files ending in {})",
        args.file.display(),
        files::ENDINGS.join(", ")
    );
    ensure!(
        !args.json,
        "{0}: --json describes one file: name it, or try `oomscope fleet {0} --json`",
        args.file.display()
    );
    let mut rows = Vec::new();
    let mut status = Status::Done;
    for path in paths {
        let one = InputArgs { file: path.clone(), ..args.clone() };
        match lines(&one) {
            Ok((found, read)) => {
                status = status.and(read);
                rows.extend(found);
            }
            // One bad file must not hide the others.
            Err(error) => {
                eprintln!("oomscope: {}", printable(&format!("{error:#}")));
                status = Status::Partial;
            }
        }
    }
    let directory = args.file.display().to_string();
    output::print(&(terminal::directory(&rows, output::width()) + &failures(&rows, &printable(&directory))))?;
    Ok(status)
}

/// The rows of one file, the device with the OOM first.
fn lines(args: &InputArgs) -> Result<(Vec<FileRow>, Status)> {
    let loaded = input::open(args)?;
    let sites = Sites::new(&loaded.snapshot, By::Line);
    let mut rows = Vec::new();
    for history in loaded.histories(args.device)? {
        let moment = history.moment(At::Default)?;
        let ranking = live(&history, moment, &sites, Attribution::Own);
        rows.push(FileRow { name: loaded.name.clone(), device: Some(FileDevice::new(&history, moment, &ranking)) });
    }
    if rows.is_empty() {
        rows.push(FileRow { name: loaded.name.clone(), device: None });
    }
    Ok((rows, loaded.status()))
}

/// Which file failed, the first of several, and what tells more.
fn failures(rows: &[FileRow], directory: &str) -> String {
    let failed = rows.iter().filter_map(|row| Some((row, row.device.as_ref().filter(|device| device.ooms > 0)?)));
    let failed: Vec<_> = failed.collect();
    // Without times the order of failures is open.
    let is_timed = failed.iter().all(|(_, device)| device.moment.time_us.is_some());
    let first = failed.iter().min_by_key(|(_, device)| device.moment.time_us);
    let mut text = match first {
        None => "\nNone ran out of memory.".to_owned(),
        Some((row, device)) => {
            let event = count(device.moment.event.unwrap_or(0).into());
            let name = format!("{} (device {}, event {event})", printable(&row.name), device.ordinal);
            match failed.len() {
                1 => format!("\nOne ran out of memory: {name}."),
                n if is_timed => format!("\n{n} ran out of memory, the first of them {name}."),
                n => format!("\n{n} ran out of memory, without times that would tell the first."),
            }
        }
    };
    text += &match rows.len() {
        1 => "\n".to_owned(),
        _ => format!("\nIf these are the ranks of one job: oomscope fleet {directory}\n"),
    };
    text
}
