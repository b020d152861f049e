//! Everything that is done with a file: shared by the tests on hostile input and by the fuzz targets.

use oomscope::allocator::AllocatorRules;
use oomscope::analysis::layout::{LayoutOptions, layout};
use oomscope::analysis::report::report;
use oomscope::analysis::sites::{By, Sites};
use oomscope::analysis::verdict::Evidence;
use oomscope::history::{At, History};
use oomscope::render::map::{MapOptions, map_svg};
use oomscope::render::terminal;
use oomscope::render::timeline::{TimelineOptions, timeline_svg};
use oomscope::snapshot::{LoadError, LoadOptions, Snapshot, load_bytes};

/// Reads `bytes` whole, and if that fails what can be salvaged; reports on what was read. Answers why it was not.
pub fn exercise(bytes: &[u8]) -> Result<(), LoadError> {
    let read = |salvage| load_bytes(bytes, &LoadOptions { salvage, ..LoadOptions::default() });
    match read(false) {
        Ok(snapshot) => {
            analyse(&snapshot);
            Ok(())
        }
        Err(error) => {
            if let Ok(snapshot) = read(true) {
                analyse(&snapshot);
            }
            // Its text is what the user sees.
            assert!(!error.to_string().is_empty());
            Err(error)
        }
    }
}

/// The report on `snapshot` and its pictures.
pub fn analyse(snapshot: &Snapshot) {
    let rules: &AllocatorRules = &snapshot.settings.rules;
    let histories: Vec<History> = snapshot.devices.iter().map(|device| History::new(snapshot, device, rules)).collect();
    let sites = Sites::new(snapshot, By::Line);
    let result = report(snapshot, &histories, &sites, At::Default, None, &Evidence::default());
    let result = result.unwrap_or_else(|error| panic!("there is always a moment to describe: {error}"));
    terminal::report("file", &result, Some(100));
    let series: Vec<_> = result.devices.iter().filter_map(|device| device.series.clone()).collect();
    if !series.is_empty() {
        timeline_svg(&series, &TimelineOptions::default());
    }
    let layouts: Vec<_> = histories
        .iter()
        .filter_map(|history| {
            Some(layout(history, history.moment(At::Default).ok()?, &sites, &LayoutOptions::default()))
        })
        .collect();
    map_svg(&layouts, &MapOptions::default());
}
