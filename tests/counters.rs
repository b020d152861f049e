//! Figures against PyTorch's own counters, taken by the program that wrote the snapshot (`NAME.json` beside it).

mod common;

use std::path::{Path, PathBuf};

use common::{files, is_pickle, json, read, shared_data, stem, testdata};
use oomscope::analysis::failures::failures;
use oomscope::history::History;
use oomscope::units::parse_size;
use serde_json::Value;

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    /// The state at the dump.
    Now,
    /// And the peaks, of a trace that holds them.
    NowAndPeaks,
}

/// Differences between a snapshot and the counters of its devices.
fn differences(path: &Path, counters: &Value, scope: Scope) -> Vec<String> {
    let snapshot = read(path);
    let mut wrong = Vec::new();
    for (ordinal, truth) in counters.as_array().into_iter().flatten().enumerate() {
        let stat = |name: &str, when: &str| truth[format!("{name}.all.{when}")].as_u64().unwrap_or(0);
        let now = |name: &str| stat(name, "current");
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
        let Some(peaks) = history.peaks.filter(|_| scope == Scope::NowAndPeaks) else { continue };
        compare("peak of requested", peaks.requested.bytes, stat("requested_bytes", "peak"));
        compare("peak of reserved", peaks.reserved.bytes, stat("reserved_bytes", "peak"));
        if history.health.complete {
            compare("peak of allocated", peaks.allocated.bytes, stat("allocated_bytes", "peak"));
            compare("peak of active", peaks.active.bytes, stat("active_bytes", "peak"));
        }
    }
    wrong
}

/// The counters for a file: those at the OOM for a file written by the OOM observer, else those at the dump.
fn truth(path: &Path) -> Option<Value> {
    let stem = stem(path);
    let beside = PathBuf::from(format!("{stem}.json"));
    if beside.is_file() {
        return Some(json(beside)["at_dump"].clone());
    }
    let run = PathBuf::from(format!("{}.json", stem.strip_suffix("_atoom")?));
    run.is_file().then(|| json(run)["at_oom"].clone())
}

/// Compares every file of `paths`; answers how many had counters.
fn compare_all(paths: &[PathBuf], scope: Scope) -> usize {
    let mut visited = 0;
    let mut wrong = Vec::new();
    for path in paths {
        let Some(counters) = truth(path) else { continue };
        assert!(counters.is_array(), "{}: no counters beside it", path.display());
        visited += 1;
        let found = differences(path, &counters, scope);
        wrong.extend(found.into_iter().map(|what| format!("{}: {what}", path.display())));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    visited
}

#[test]
fn own_files_have_pytorchs_counters() {
    let paths = files(&testdata().join("rig"), is_pickle);
    assert!(compare_all(&paths, Scope::NowAndPeaks) >= 30);
}

#[test]
fn all_rig_files_have_pytorchs_counters() {
    let Some(data) = shared_data() else { return };
    let paths = files(&data.join("rig"), is_pickle);
    // 2.0.1/train_oom has no counters beside it.
    assert_eq!(paths.len(), 130);
    assert_eq!(paths.iter().filter(|path| path.extension().unwrap() == "gz").count(), 33);
    assert_eq!(compare_all(&paths, Scope::NowAndPeaks), 129);
}

#[test]
fn other_files_have_pytorchs_counters_at_the_dump() {
    let Some(data) = shared_data() else { return };
    for (folder, expected) in [("cpp_writer", 90), ("allocator", 36), ("ranks16", 16), ("leaks", 17)] {
        let paths = files(&data.join(folder), is_pickle);
        let visited = compare_all(&paths, Scope::Now);
        assert!(visited >= expected.min(paths.len()), "{folder}: {visited} files visited");
    }
    // A snapshot of one pool has the counters of all beside it.
    let whole = |name: &str| is_pickle(name) && !name.starts_with("pool_snapshots_");
    let whole_device = files(&data.join("metadata"), whole);
    assert!(compare_all(&whole_device, Scope::Now) > 20);
}

/// The text of the error names what the `oom` entry records: the segment asked for and the bytes free.
#[test]
fn oom_entries_fit_the_error_texts() {
    let mut roots = vec![testdata().join("rig")];
    roots.extend(shared_data().map(|data| data.join("rig")));
    let mut visited = 0;
    for path in roots.iter().flat_map(|root| files(root, is_pickle)) {
        let beside = PathBuf::from(format!("{}.json", stem(&path)));
        if !beside.is_file() {
            continue;
        }
        let Value::String(text) = &json(&beside)["oom"] else { continue };
        let snapshot = read(&path);
        let last = snapshot.devices.iter().find_map(|device| {
            let history = History::new(&snapshot, device, &snapshot.settings.rules);
            failures(&history).pop()
        });
        let failure = last.unwrap_or_else(|| panic!("{}: no oom entry", path.display()));
        let size_after = |words: &str| {
            let rest = text.split(words).nth(1).unwrap_or_else(|| panic!("{text}"));
            let size: Vec<&str> = rest.split_whitespace().take(2).collect();
            parse_size(size.join(" ").trim_end_matches(['.', ',', ';'])).unwrap()
        };
        // Texts have two decimals.
        let close = |ours: u64, text: u64| ours.abs_diff(text) as f64 <= 0.01 * (1u64 << 30) as f64;
        assert!(close(failure.segment_size, size_after("Tried to allocate ")), "{}: {text}", path.display());
        assert!(close(failure.device_free, size_after("of which ")), "{}: {text}", path.display());
        visited += 1;
    }
    let expected = if roots.len() == 1 { 8 } else { 30 };
    assert!(visited >= expected, "{visited} files visited");
}
