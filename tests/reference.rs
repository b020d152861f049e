//! Sums over every row of every snapshot, against an independent reading in Python (`reference.py`).

mod common;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{files, honest_files, is_pickle, shared_data};
use oomscope::snapshot::{Action, BlockState, Device, LoadOptions, Snapshot, Source, StackId, load};
use serde_json::{Map, Value, json};

/// The same sums as in `reference.py`, by the same names.
fn sums(snapshot: &Snapshot, device: &Device) -> Map<String, Value> {
    let mut sums: BTreeMap<String, u128> = BTreeMap::new();
    let mut add = |name: &str, value: u64| *sums.entry(name.to_owned()).or_default() += u128::from(value);
    let mut stacks: HashSet<StackId> = HashSet::new();
    let mut max_address = 0;
    for segment in snapshot.segments_of(device) {
        add("segments", 1);
        add("reserved", segment.total_size);
        add("expandable", segment.expandable.into());
        stacks.insert(segment.stack);
        for block in snapshot.blocks_of(segment) {
            max_address = max_address.max(block.end());
            add("blocks", 1);
            match block.state {
                BlockState::Inactive => continue,
                BlockState::Allocated => add("allocated", block.size),
                BlockState::Pending => add("pending", block.size),
            }
            add("requested", block.requested);
            stacks.insert(block.stack);
        }
    }
    for row in device.events.clone() {
        let event = snapshot.events.get(row);
        add(&format!("event {}", event.action.name()), 1);
        add("event sizes", event.size);
        add("streams", snapshot.streams[event.stream.index()]);
        add("times", event.time_us);
        add("addresses", event.addr);
        if event.action != Action::Oom {
            max_address = max_address.max(event.addr);
        }
        stacks.insert(event.stack);
    }
    stacks.retain(|stack| stack.has_frames());
    let frames: HashSet<_> = stacks.iter().flat_map(|&stack| snapshot.stacks.get(stack)).collect();
    add("max_address", max_address);
    add("stacks", stacks.len() as u64);
    add("frames", frames.len() as u64);
    sums.into_iter().filter(|(_, sum)| *sum > 0).map(|(name, sum)| (name, sum.to_string().into())).collect()
}

fn ours(path: &Path) -> Value {
    let Ok(snapshot) = load(&Source::Path(path.to_owned()), &LoadOptions::default()) else { return json!("error") };
    let devices = snapshot.devices.iter().map(|device| (device.ordinal.to_string(), sums(&snapshot, device).into()));
    let mut all: Map<String, Value> = devices.collect();
    all.insert("annotations".to_owned(), snapshot.annotations.len().into());
    all.into()
}

/// Compares `paths`; answers how many both could read, or `None` without python3.
fn compare(paths: &[PathBuf]) -> Option<usize> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference.py");
    let Ok(output) = Command::new("python3").arg(script).args(paths).output() else {
        println!("skipped: python3 is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut wrong = Vec::new();
    let mut read = 0;
    assert_eq!(printed.lines().count(), paths.len());
    for (path, line) in paths.iter().zip(printed.lines()) {
        let mut theirs: Value = serde_json::from_str(line).unwrap();
        if theirs.get("error").is_some() {
            theirs = json!("error");
        } else {
            read += 1;
        }
        let ours = ours(path);
        if ours != theirs {
            wrong.push(format!("{}:\n  ours   {ours}\n  theirs {theirs}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{} files differ:\n{}", wrong.len(), wrong.join("\n"));
    Some(read)
}

/// Python's standard library reads no zstd.
fn is_readable(name: &str) -> bool {
    is_pickle(name) && !name.ends_with(".zst")
}

#[test]
fn sums_agree_with_python() {
    let paths = honest_files(is_readable);
    // All but the cases of a truncated file, an empty one, and one that would run code.
    if let Some(read) = compare(&paths) {
        assert_eq!(read, paths.len() - 3);
    }
}

#[test]
fn sums_of_shared_files_agree_with_python() {
    let Some(data) = shared_data() else { return };
    let paths = files(&data, is_readable);
    // All but the cases of a truncated file, an empty one, and one that would run code.
    if let Some(read) = compare(&paths) {
        assert_eq!((read, paths.len()), (366, 369));
    }
}
