//! Everything that is done with a file: shared by the tests on hostile input and by the fuzz targets.
#![allow(dead_code)]

#[path = "commands.rs"]
mod commands;

use oomscope::allocator::AllocatorRules;
use oomscope::analysis::layout::{LayoutOptions, layout};
use oomscope::analysis::report::{Report, report};
use oomscope::analysis::sites::{By, Sites};
use oomscope::analysis::verdict::Evidence;
use oomscope::history::{At, History};
use oomscope::render::map::{MapOptions, map_svg};
use oomscope::render::terminal;
use oomscope::render::timeline::{TimelineOptions, timeline_svg};
use oomscope::snapshot::{LoadError, LoadOptions, Snapshot, load_bytes};

/// Reads `bytes` whole, and if that fails what can be salvaged; reports on what was read. Answers why it was not.
pub fn exercise(bytes: &[u8]) -> Result<(), LoadError> {
    read_and(bytes, |snapshot| analyse(snapshot, |_, _, _| ()))
}

/// The same, and then what all other commands do.
pub fn everything(bytes: &[u8]) -> Result<(), LoadError> {
    read_and(bytes, |snapshot| {
        analyse(snapshot, commands::pages);
        commands::commands(snapshot, None);
    })
}

/// The same, and then a part of it, which follows from the bytes. All of it takes so long that few inputs could be tried.
pub fn some(bytes: &[u8]) -> Result<(), LoadError> {
    let number = bytes.iter().fold(7, |hash: usize, &byte| hash.wrapping_mul(31).wrapping_add(usize::from(byte)));
    read_and(bytes, |snapshot| match number % 12 {
        0 => analyse(snapshot, commands::pages),
        _ => {
            analyse(snapshot, |_, _, _| ());
            commands::commands(snapshot, Some(number / 12));
        }
    })
}

fn read_and(bytes: &[u8], work: impl Fn(&Snapshot)) -> Result<(), LoadError> {
    let read = |salvage| load_bytes(bytes, &LoadOptions { salvage, ..LoadOptions::default() });
    match read(false) {
        Ok(snapshot) => {
            work(&snapshot);
            Ok(())
        }
        Err(error) => {
            if let Ok(snapshot) = read(true) {
                work(&snapshot);
            }
            // Its text is what the user sees.
            assert!(!error.to_string().is_empty());
            Err(error)
        }
    }
}

/// The report on `snapshot` and its pictures; `and` takes it further.
fn analyse(snapshot: &Snapshot, and: impl FnOnce(&[History], &Sites, &Report)) {
    let rules: &AllocatorRules = &snapshot.settings.rules;
    let histories: Vec<History> = snapshot.devices.iter().map(|device| History::new(snapshot, device, rules)).collect();
    let sites = Sites::new(snapshot, By::Line);
    let result = report(snapshot, &histories, &sites, At::Default, None, &Evidence::default());
    let result = result.unwrap_or_else(|error| panic!("there is always a moment to describe: {error}"));
    terminal::report("file", &result, Some(100));
    let series: Vec<_> = result.devices.iter().filter_map(|device| device.series.clone()).collect();
    if !series.is_empty() {
        commands::well_formed(&timeline_svg(&series, &TimelineOptions::default()));
    }
    and(&histories, &sites, &result);
    let layouts: Vec<_> = histories
        .iter()
        .filter_map(|history| {
            Some(layout(history, history.moment(At::Default).ok()?, &sites, &LayoutOptions::default()))
        })
        .collect();
    commands::well_formed(&map_svg(&layouts, &MapOptions::default()));
}
