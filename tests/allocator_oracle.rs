//! The simulator against recordings of PyTorch itself: every statistic, segment, block, address, trace entry and error
//! text has to be equal. `testdata/oracle/README.md` says how the recordings were made.

use std::fs;
use std::path::Path;

use oomscope::allocator::{RunOptions, TorchVersion, Workload, WorkloadRun};
use serde_json::{Map, Value};

/// Recordings a list: 7 settings of 2.3, and 9 of 2.6, 2.9 and 2.15.
const RECORDINGS: usize = 7 + 3 * 9;

fn read(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/oracle").join(name);
    let packed = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    zstd::decode_all(packed.as_slice()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What differs on purpose: the device's number is always 0, the trace's `pool_id` is younger than some recordings.
fn normalise(report: &mut Value, recorded: bool) {
    let segments = report["segments"].as_array_mut().unwrap();
    for segment in segments {
        assert_eq!(segment.as_object_mut().unwrap().remove("device"), recorded.then(|| Value::from(0)));
    }
    let Some(entries) = report.get_mut("trace") else { return };
    for entry in entries.as_array_mut().unwrap() {
        let pool = entry.as_object_mut().unwrap().remove("pool_id");
        assert!(pool.is_none_or(|pool| pool == serde_json::json!([0, 0])));
    }
    report.as_object_mut().unwrap().remove("torch");
}

/// The first place where two values differ.
fn difference(ours: &Value, recorded: &Value) -> Option<String> {
    let keys = |a: &Map<_, _>, b: &Map<String, Value>| a.keys().chain(b.keys()).cloned().collect::<Vec<String>>();
    match (ours, recorded) {
        (Value::Object(a), Value::Object(b)) => keys(a, b).into_iter().find_map(|key| {
            let found = difference(a.get(&key).unwrap_or(&Value::Null), b.get(&key).unwrap_or(&Value::Null))?;
            Some(format!(".{key}{found}"))
        }),
        (Value::Array(a), Value::Array(b)) => {
            let found =
                a.iter().zip(b).enumerate().find_map(|(at, (a, b))| Some(format!("[{at}]{}", difference(a, b)?)));
            found.or_else(|| (a.len() != b.len()).then(|| format!(": {} entries instead of {}", a.len(), b.len())))
        }
        (a, b) => (a != b).then(|| format!(": {a} instead of {b}")),
    }
}

fn compare(list: &str) {
    let recordings = read(&format!("{list}.jsonl.zst"));
    let workload = Workload::from_json(&read(&format!("{list}.ops.json.zst"))).unwrap();
    let mut visited = 0;
    let mut wrong = Vec::new();
    for line in recordings.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let recording: Value = serde_json::from_slice(line).unwrap();
        let (version, setting) = (recording["version"].as_str().unwrap(), recording["setting"].as_str().unwrap());
        let reports = recording["reports"].as_array().unwrap();
        let conf = reports.last().unwrap()["settings"].as_str().unwrap();
        let fraction = ["gc", "frac"].contains(&setting).then_some(0.9);
        let workload = Workload { fraction, ..workload.clone() };
        let version_number: TorchVersion = version.parse().unwrap();
        let options =
            RunOptions { version: version_number, settings: Some(conf.to_owned()), every: 500, ..Default::default() };
        let mut run = WorkloadRun::new(&workload, &options);
        assert!(run.settings().problems.is_empty(), "{conf}: {:?}", run.settings().problems);
        let mut out = Vec::new();
        run.run(&mut out).unwrap();
        run.simulator().check_invariants().unwrap();
        let lines: Vec<_> = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), reports.len());
        // The trace comes first: where it differs is where the two runs part.
        let last = lines.len() - 1;
        let found = std::iter::once(last).chain(0..last).find_map(|at| {
            let mut ours: Value = serde_json::from_slice(lines[at]).unwrap();
            let mut recorded = reports[at].clone();
            normalise(&mut ours, false);
            normalise(&mut recorded, true);
            let trace = difference(&ours["trace"], &recorded["trace"]).map(|found| format!(".trace{found}"));
            trace.or_else(|| difference(&ours, &recorded)).map(|found| format!("report {at}{found}"))
        });
        wrong.extend(found.map(|found| format!("{list} {version} {setting}: {found}")));
        visited += 1;
    }
    assert!(wrong.is_empty(), "{} of {visited} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(visited, RECORDINGS);
}

#[test]
fn mixed_sizes() {
    compare("mixed");
}

#[test]
fn small_sizes() {
    compare("small");
}

#[test]
fn large_sizes() {
    compare("large");
}

#[test]
fn growing_sizes() {
    compare("grow");
}

#[test]
fn three_streams() {
    compare("streams");
}
