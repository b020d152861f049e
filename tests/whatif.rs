//! Recordings replayed under their own settings and others, through the library.

mod common;

use std::path::{Path, PathBuf};

use common::{files, is_pickle, read, shared_data, testdata};
use oomscope::analysis::whatif::{Options, Scenario, WhatIf, WhatIfError, whatif};
use oomscope::history::History;
use oomscope::snapshot::Snapshot;

/// Only the recorded settings; the one setting named is there because an empty list means the usual ones.
fn same_settings() -> Options {
    Options { settings: vec!["max_split_size_mb:512".to_owned()], ..Options::default() }
}

fn each_device(snapshot: &Snapshot, options: &Options) -> Vec<(i64, bool, Result<WhatIf, WhatIfError>)> {
    let devices = snapshot.devices.iter();
    devices
        .map(|device| {
            let history = History::new(snapshot, device, &snapshot.settings.rules);
            (device.ordinal, history.health.complete, whatif(&history, options))
        })
        .collect()
}

/// Device traces, faithful ones, and the first differences of the others.
fn survey(paths: &[PathBuf]) -> (usize, usize, Vec<String>) {
    let (mut traces, mut faithful, mut others) = (0, 0, Vec::new());
    for path in paths {
        let snapshot = read(path);
        for (device, complete, result) in each_device(&snapshot, &same_settings()) {
            let name = format!("{} device {device} (complete: {complete})", path.display());
            match result {
                Err(WhatIfError::NoHistory) => continue,
                Err(error) => others.push(format!("{name}: {error}")),
                Ok(result) => match result.baseline.first_divergence {
                    None => faithful += 1,
                    Some(first) => others.push(format!("{name}: torch {} {first:?}", result.torch)),
                },
            }
            traces += 1;
        }
    }
    (traces, faithful, others)
}

#[test]
fn the_recorded_settings_reproduce_the_own_recordings() {
    let (traces, faithful, others) = survey(&files(&testdata().join("rig"), is_pickle));
    println!("{faithful} of {traces} traces\n{}", others.join("\n"));
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn the_recorded_settings_reproduce_every_recording() {
    let Some(data) = shared_data() else { return };
    for part in ["rig", "allocator", "metadata", "cpp_writer", "leaks", "ranks16", "public"] {
        let (traces, faithful, others) = survey(&files(&data.join(part), is_pickle));
        println!("{part}: {faithful} of {traces} traces\n{}", others.join("\n"));
    }
}
