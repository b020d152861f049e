//! `oomscope export` of profiles and traces: what it writes has the shape that their readers ask for, and the figures of
//! the library.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::process::Command;

use common::{json_of, oomscope};
use serde_json::Value;

const FILE: &str = "testdata/rig/2.6.0/oom_train.pickle";
const MANY_DEVICES: &str = "testdata/rig/2.6.0/multigpu.pickle";

/// A field of a protocol buffer.
#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// The fields of a message, by number.
fn message(mut bytes: &[u8]) -> BTreeMap<u64, Vec<Field>> {
    let mut fields: BTreeMap<u64, Vec<Field>> = BTreeMap::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value.to_vec())
            }
            wire => panic!("wire type {wire}"),
        };
        fields.entry(tag >> 3).or_default().push(value);
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than ten bytes");
}

type Fields = BTreeMap<u64, Vec<Field>>;

fn number(fields: &Fields, field: u64) -> u64 {
    match fields.get(&field).map(Vec::as_slice) {
        None => 0,
        Some([Field::Number(value)]) => *value,
        other => panic!("field {field}: {other:?}"),
    }
}

fn messages(fields: &Fields, field: u64) -> Vec<Vec<u8>> {
    let values = fields.get(&field).into_iter().flatten();
    let bytes = values.map(|value| match value {
        Field::Bytes(bytes) => bytes.clone(),
        other => panic!("field {field}: {other:?}"),
    });
    bytes.collect()
}

fn packed(fields: &Fields, field: u64) -> Vec<u64> {
    let all = messages(fields, field).concat();
    let (mut bytes, mut values) = (all.as_slice(), Vec::new());
    while !bytes.is_empty() {
        values.push(varint(&mut bytes));
    }
    values
}

/// Function, file and line.
type Frame = (String, String, u64);
/// Frames, innermost first; values; labels.
type Sample = (Vec<Frame>, Vec<u64>, Vec<(String, String)>);

/// A decoded profile, all references followed.
struct Profile {
    types: Vec<(String, String)>,
    default: String,
    comments: Vec<String>,
    samples: Vec<Sample>,
}

fn profile(arguments: &[&str]) -> (Profile, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.pb.gz");
    let run = oomscope(arguments.iter().copied().chain(["--format", "pprof", "-o", path.to_str().unwrap()]));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let file = std::fs::read(&path).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*file).read_to_end(&mut bytes).unwrap();
    let top = message(&bytes);
    assert!(top.keys().all(|field| (1..=14).contains(field)), "{:?}", top.keys());
    let strings: Vec<String> = messages(&top, 6).into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
    assert_eq!(strings[0], "");
    let text = |id: u64| strings[id as usize].clone();
    let mut functions = HashMap::new();
    for function in messages(&top, 5).iter().map(|bytes| message(bytes)) {
        let named = (text(number(&function, 2)), text(number(&function, 4)));
        // pprof cuts `<module>` out of a name that equals the system's.
        assert_eq!(number(&function, 3), 0);
        assert!(functions.insert(number(&function, 1), named).is_none());
    }
    // A mapping that has names: pprof looks for no binary.
    let mappings: Vec<Fields> = messages(&top, 3).iter().map(|bytes| message(bytes)).collect();
    assert_eq!(mappings.len(), 1);
    assert!((7..=9).all(|has| number(&mappings[0], has) == 1), "{:?}", mappings[0]);
    let mut locations = HashMap::new();
    for location in messages(&top, 4).iter().map(|bytes| message(bytes)) {
        let lines = messages(&location, 4);
        let line = message(&lines[0]);
        let (function, file) = functions[&number(&line, 1)].clone();
        assert_eq!(lines.len(), 1);
        assert_eq!(number(&location, 2), number(&mappings[0], 1));
        assert!(locations.insert(number(&location, 1), (function, file, number(&line, 2))).is_none());
    }
    assert!(!locations.contains_key(&0) && !functions.contains_key(&0));
    let pair = |bytes: &[u8]| {
        let fields = message(bytes);
        (text(number(&fields, 1)), text(number(&fields, 2)))
    };
    let samples = messages(&top, 2).into_iter().map(|bytes| message(&bytes)).map(|sample| {
        let stack = packed(&sample, 1).iter().map(|id| locations[id].clone()).collect();
        (stack, packed(&sample, 2), messages(&sample, 3).iter().map(|bytes| pair(bytes)).collect())
    });
    let profile = Profile {
        types: messages(&top, 1).iter().map(|bytes| pair(bytes)).collect(),
        default: text(number(&top, 14)),
        comments: top[&13]
            .iter()
            .map(|id| match id {
                Field::Number(id) => text(*id),
                other => panic!("{other:?}"),
            })
            .collect(),
        samples: samples.collect(),
    };
    (profile, file)
}

#[test]
fn a_profile_has_the_figures_of_the_ranking() {
    for (file, at) in [(FILE, "oom"), (FILE, "end"), (FILE, "peak"), (MANY_DEVICES, "end")] {
        let (profile, _) = profile(&["export", file, "--at", at]);
        let types: Vec<&str> = profile.types.iter().map(|(name, _)| name.as_str()).collect();
        let units: Vec<&str> = profile.types.iter().map(|(_, unit)| unit.as_str()).collect();
        assert_eq!(types, ["live_objects", "live_space", "alloc_objects", "alloc_space"]);
        assert_eq!(units, ["count", "bytes", "count", "bytes"]);
        assert_eq!(profile.default, "live_space");
        assert!(profile.samples.iter().all(|(stack, values, _)| !stack.is_empty() && values.len() == 4));
        let top = json_of(&["top", file, "--at", at, "--by", "stack", "--json"]);
        let devices = top["devices"].as_array().unwrap();
        assert_eq!(profile.comments.len(), devices.len());
        let info = json_of(&["info", file, "--json"]);
        for device in devices {
            let name = device["device"].to_string();
            let label = format!("device {name}");
            let mine =
                || profile.samples.iter().filter(|(.., labels)| *labels == [("device".to_owned(), label.clone())]);
            let sum = |at: usize| mine().map(|(_, values, _)| values[at]).sum::<u64>();
            assert_eq!(sum(1), device["total"].as_u64().unwrap(), "{file} {at} {name}");
            let blocks: u64 =
                device["rows"].as_array().unwrap().iter().map(|row| row["blocks"].as_u64().unwrap()).sum();
            assert_eq!(sum(0), blocks, "{file} {at} {name}");
            let info =
                info["devices"].as_array().unwrap().iter().find(|info| info["device"] == device["device"]).unwrap();
            assert_eq!(sum(2), info["actions"]["alloc"].as_u64().unwrap_or(0), "{file} {at} {name}");
        }
    }
}

#[test]
fn a_profile_has_the_stacks_innermost_first() {
    let (profile, _) = profile(&["export", FILE, "--at", "oom"]);
    let python = profile.samples.iter().filter(|(stack, ..)| stack.iter().any(|(_, file, _)| file.ends_with(".py")));
    let mut visited = 0;
    for (stack, ..) in python.filter(|(stack, ..)| stack.iter().any(|(function, ..)| function == "<module>")) {
        assert_eq!(stack.last().unwrap().0, "<module>", "{stack:?}");
        assert!(stack.iter().all(|(_, file, line)| file.contains(".py") && *line > 0), "{stack:?}");
        visited += 1;
    }
    assert!(visited > 5, "{visited} stacks");
}

/// The real reader, where Go is installed.
#[test]
fn go_reads_the_profile() {
    if Command::new("go").arg("version").output().is_err() {
        println!("skipped: no go");
        return;
    }
    let (profile, file) = profile(&["export", FILE, "--at", "oom"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.pb.gz");
    std::fs::write(&path, file).unwrap();
    let output =
        Command::new("go").args(["tool", "pprof", "-top", "-unit=B", "-nodecount=1"]).arg(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let total: u64 = profile.samples.iter().map(|(_, values, _)| values[1]).sum();
    assert!(text.contains("live_space") && text.contains(&format!("of {total}B total")), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let run = |arguments: &[&str]| {
        let output = Command::new("go").args(["tool", "pprof"]).args(arguments).arg(&path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let traces = run(&["-traces"]);
    assert!(traces.contains("<module>") && !traces.contains("<unknown>"), "{traces}");
    let focused = run(&["-top", "-unit=B", "-nodecount=1", "-tagfocus=device 0"]);
    assert!(focused.contains(&format!("of {total}B total")), "{focused}");
}

#[test]
fn folded_lines_sum_to_the_ranking() {
    for (file, at) in [(FILE, "oom"), (MANY_DEVICES, "end")] {
        let run = oomscope(["export", file, "--format", "folded", "--at", at]);
        let values = run.stdout.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        let sum: u64 = values.sum();
        let top = json_of(&["top", file, "--at", at, "--json"]);
        let devices = top["devices"].as_array().unwrap();
        assert_eq!(sum, devices.iter().map(|device| device["total"].as_u64().unwrap()).sum::<u64>(), "{file}");
        assert_eq!(run.stdout.lines().all(|line| line.starts_with("device ")), devices.len() > 1, "{file}");
    }
}

/// What the Trace Event Format asks of each entry.
fn check_entry(entry: &Value) {
    let has = |key: &str, is: fn(&Value) -> bool| assert!(entry.get(key).is_some_and(is), "{key} of {entry}");
    has("name", Value::is_string);
    has("pid", Value::is_u64);
    has("tid", Value::is_u64);
    has("args", Value::is_object);
    match entry["ph"].as_str().unwrap() {
        "M" => {}
        "C" => {
            has("ts", Value::is_u64);
            assert!(entry["args"].as_object().unwrap().values().all(Value::is_u64), "{entry}");
        }
        "i" => {
            has("ts", Value::is_u64);
            assert_eq!(entry["s"], "p");
        }
        "X" => {
            has("ts", Value::is_u64);
            has("dur", Value::is_u64);
        }
        other => panic!("phase {other}"),
    }
}

#[test]
fn a_trace_has_the_counters_failures_and_regions() {
    let leak = "testdata/rig/2.6.0/leak_eval_atoom.pickle";
    for file in [FILE, MANY_DEVICES, leak, "testdata/rig/2.0.1/train_oom.pickle"] {
        let run = oomscope(["export", file, "--format", "perfetto"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let trace: Value = serde_json::from_str(&run.stdout).unwrap();
        let entries = trace["traceEvents"].as_array().unwrap();
        entries.iter().for_each(check_entry);
        let info = json_of(&["info", file, "--json"]);
        for device in info["devices"].as_array().unwrap() {
            let name = format!("device {}", device["device"]);
            let process =
                entries.iter().find(|entry| entry["name"] == "process_name" && entry["args"]["name"] == *name);
            let pid = &process.unwrap_or_else(|| panic!("{file}: no {name}"))["pid"];
            let mine = |ph: &'static str| entries.iter().filter(move |entry| entry["ph"] == ph && entry["pid"] == *pid);
            for counter in ["allocated", "active", "requested", "reserved"] {
                let points: Vec<&Value> = mine("C").filter(|entry| entry["name"] == counter).collect();
                let mut values = points.iter().map(|entry| entry["args"]["bytes"].as_u64().unwrap());
                let peak = &device["peak"][counter];
                if peak["exact"] == true {
                    assert_eq!(values.clone().max(), peak["bytes"].as_u64(), "{file} {counter}");
                }
                if !device["peak"].is_null() && device["trace"]["complete"] == true {
                    assert_eq!(values.next_back(), device["totals"][counter].as_u64(), "{file} {counter}");
                }
            }
            assert_eq!(mine("i").count(), device["ooms"].as_array().unwrap().len(), "{file}");
        }
        let regions = entries.iter().filter(|entry| entry["ph"] == "X").count();
        assert_eq!(regions > 0, file == leak, "{file}");
        let clock = trace["otherData"]["clock"].as_str().unwrap();
        assert_eq!(clock.starts_with("event numbers"), file.contains("2.0.1"), "{file}: {clock}");
    }
}

/// Start, end and details of the regions of a trace; a track each.
type Regions = BTreeMap<u64, Vec<(u64, u64, Value)>>;

fn regions_of(file: &str) -> Regions {
    let run = oomscope(["export", file, "--format", "perfetto"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let trace: Value = serde_json::from_str(&run.stdout).unwrap();
    let mut regions = Regions::new();
    for entry in trace["traceEvents"].as_array().unwrap().iter().filter(|entry| entry["ph"] == "X") {
        let start = entry["ts"].as_u64().unwrap();
        let end = start + entry["dur"].as_u64().unwrap();
        regions.entry(entry["tid"].as_u64().unwrap()).or_default().push((start, end, entry["args"].clone()));
    }
    regions
}

/// A snapshot without memory whose annotations are `(name, start, end)`.
fn annotated(regions: &[(&str, u64, u64)]) -> tempfile::TempPath {
    let mark = |name: &str, stage: &str, time: u64| serde_json::json!({"stage": stage, "name": name, "device": 0, "time_us": time});
    let mut marks: Vec<Value> = Vec::new();
    for &(name, start, end) in regions {
        marks.extend([mark(name, "START", start), mark(name, "END", end)]);
    }
    marks.sort_by_key(|mark| mark["time_us"].as_u64());
    let event = |action: &str, time: u64| serde_json::json!({"action": action, "addr": 1u64 << 40, "size": 512, "stream": 0, "time_us": time, "frames": []});
    let segment = serde_json::json!({
        "device": 0, "address": 1u64 << 40, "total_size": 2_097_152, "allocated_size": 0, "active_size": 0,
        "requested_size": 0, "stream": 0, "segment_type": "small", "is_expandable": false, "frames": [],
        "blocks": [{"address": 1u64 << 40, "size": 2_097_152, "requested_size": 0, "state": "inactive", "frames": []}]});
    let trace = [event("alloc", 1_000), event("free_requested", 9_000), event("free_completed", 9_000)];
    let snapshot = serde_json::json!({"segments": [segment], "device_traces": [trace], "external_annotations": marks});
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap().into_temp_path();
    std::fs::write(&file, snapshot.to_string()).unwrap();
    file
}

/// A loop of a thousand steps is one track, not a thousand: only regions that overlap without nesting need another.
#[test]
fn regions_share_tracks_as_they_nest() {
    let steps: Vec<(String, u64, u64)> =
        (0..1_000).map(|step| (format!("ProfilerStep#{step}"), 1_000 + 8 * step, 1_008 + 8 * step)).collect();
    let mut regions: Vec<(&str, u64, u64)> =
        steps.iter().map(|(name, start, end)| (name.as_str(), *start, *end)).collect();
    regions.extend([("step", 1_002, 1_005), ("inner", 1_002, 1_003), ("epoch", 1_000, 9_000)]);
    let file = annotated(&regions);
    let tracks = regions_of(file.to_str().unwrap());
    assert_eq!(tracks.keys().copied().collect::<Vec<u64>>(), [1]);
    assert_eq!(tracks[&1].len(), 1_003);
    regions.push(("across", 1_012, 1_020));
    let file = annotated(&regions);
    let tracks = regions_of(file.to_str().unwrap());
    assert_eq!(tracks.values().map(Vec::len).collect::<Vec<usize>>(), [1_003, 1]);
    for slices in tracks.values() {
        assert!(slices.is_sorted_by_key(|(start, ..)| *start));
        for (at, (_, end, _)) in slices.iter().enumerate() {
            assert!(slices[at + 1..].iter().all(|(start, inner, _)| start >= end || inner <= end));
        }
    }
}

/// The step in which a job dies has no end in the file, and is in the trace all the same.
#[test]
fn regions_that_the_recording_cuts_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.pickle");
    let (file, cut) = ("testdata/rig/2.6.0/leak_eval_atoom.pickle", path.to_str().unwrap());
    let region_in = |window: &str| {
        let arguments = ["export", file, "--format", "pickle", "--force", "--window", window, "-o", cut];
        let run = oomscope(arguments);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let run = oomscope(["export", cut, "--format", "json"]);
        let snapshot: Value = serde_json::from_str(&run.stdout).unwrap();
        let events = snapshot["devices"][0]["events"].as_array().unwrap();
        let time = |event: Option<&Value>| event.unwrap()["time_us"].as_u64().unwrap();
        let mut tracks: Vec<_> = regions_of(cut).into_values().collect();
        assert_eq!(tracks.iter().map(Vec::len).collect::<Vec<usize>>(), [1], "{window}");
        (tracks.remove(0).remove(0), time(events.first()), time(events.last()))
    };
    let (region, first, _) = region_in("@1795977345321000..");
    assert_eq!(region, (first, 1_795_977_345_323_373, serde_json::json!({"start": "before the recording"})));
    let (region, _, last) = region_in("@1795977345312000..@1795977345321000");
    assert_eq!(region, (1_795_977_345_320_532, last, serde_json::json!({"end": "after the recording"})));
}
