//! Figures against PyTorch's own counters, taken by the program that wrote the snapshot (`NAME.json` beside it).

mod common;

use std::path::{Path, PathBuf};

use common::{files, is_pickle, json, read, shared_data, stem, testdata};
use oomscope::history::History;
use serde_json::Value;

/// Differences between a snapshot and the counters of its devices.
fn differences(path: &Path, counters: &Value) -> Vec<String> {
    let snapshot = read(path);
    let mut wrong = Vec::new();
    let empty = Vec::new();
    for (ordinal, truth) in counters.as_array().unwrap_or(&empty).iter().enumerate() {
        let now = |name: &str| truth[format!("{name}.all.current")].as_u64().unwrap();
        let Some(device) = snapshot.devices.iter().find(|device| device.ordinal == ordinal as i64) else {
            if now("reserved_bytes") != 0 {
                wrong.push(format!("device {ordinal} is missing"));
            }
            continue;
        };
        let history = History::new(&snapshot, device, &snapshot.settings.rules);
        let end = history.counters(history.events());
        let mut compare = |what: &str, ours: u64, truth: u64| {
            if ours != truth {
                wrong.push(format!("device {ordinal} {what}: {ours} instead of {truth}"));
            }
        };
        compare("allocated", end.allocated, now("allocated_bytes"));
        compare("active", end.active, now("active_bytes"));
        compare("requested", end.requested, now("requested_bytes"));
        compare("reserved", end.reserved, now("reserved_bytes"));
        let peak = |name: &str| truth[format!("{name}.all.peak")].as_u64().unwrap();
        let Some(peaks) = history.peaks else { continue };
        compare("peak of requested", peaks.requested.bytes, peak("requested_bytes"));
        compare("peak of reserved", peaks.reserved.bytes, peak("reserved_bytes"));
        if history.health.complete {
            compare("peak of allocated", peaks.allocated.bytes, peak("allocated_bytes"));
            compare("peak of active", peaks.active.bytes, peak("active_bytes"));
        }
    }
    wrong
}

/// The counters for a file: those at the OOM for a file written by the OOM observer, else those at the dump.
fn truth(path: &Path) -> Option<Value> {
    let stem = stem(path);
    if let Some(run) = stem.strip_suffix("_atoom") {
        let at_oom = json(format!("{run}.json"))["at_oom"].clone();
        if !at_oom.is_null() {
            return Some(at_oom);
        }
    }
    let beside = PathBuf::from(format!("{stem}.json"));
    beside.is_file().then(|| json(beside)["at_dump"].clone())
}

/// Compares every file of `paths`; answers how many had counters.
fn compare_all(paths: &[PathBuf]) -> usize {
    let mut visited = 0;
    let mut wrong = Vec::new();
    for path in paths {
        let Some(counters) = truth(path) else { continue };
        visited += 1;
        wrong.extend(differences(path, &counters).into_iter().map(|what| format!("{}: {what}", path.display())));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    visited
}

#[test]
fn rig_files_have_pytorchs_counters() {
    let Some(data) = shared_data() else { return };
    let paths = files(&data.join("rig"), is_pickle);
    // 2.0.1/train_oom has no counters beside it.
    assert_eq!(paths.len(), 130);
    assert_eq!(paths.iter().filter(|path| path.extension().unwrap() == "gz").count(), 33);
    // 2.0.1/train_oom has no counters beside it.
    assert_eq!(compare_all(&paths), 129);
}
