//! `oomscope diff`, through the binary: its figures are PyTorch's own, and it is as true backwards as forwards.

mod common;

use std::fs;
use std::io::Read;
use std::path::Path;

use common::{files, is_pickle, json, json_of, oomscope, read, run_in, testdata};
use oomscope::snapshot::Action;
use serde_json::Value;

const RIG: &str = "testdata/rig/2.6.0";

fn rig(name: &str) -> String {
    format!("{RIG}/{name}")
}

fn diff(a: &str, b: &str, more: &[&str]) -> Value {
    json_of(&[&["diff", "--json", a, b], more].concat())
}

/// Counter `name` of `side`'s dump or failure, as PyTorch counted it.
fn counter(name: &str, moment: &str, what: &str) -> u64 {
    json(testdata().join("rig/2.6.0").join(format!("{name}.json")))[moment][0][what].as_u64().unwrap()
}

/// A line is never broken inside a figure, nor between a figure and its unit.
#[test]
fn figures_are_not_broken() {
    for columns in 60..120 {
        let arguments = ["diff", &rig("decode_atoom.pickle"), &rig("oom_train.pickle")];
        let run = run_in(Path::new(env!("CARGO_MANIFEST_DIR")), arguments, &[("COLUMNS", &columns.to_string())]);
        assert!(run.stdout.contains("event 1 803") || run.stdout.contains(" 1 803\n"), "{columns}: {}", run.stdout);
        for (line, next) in run.stdout.lines().zip(run.stdout.lines().skip(1)) {
            let word = next.split_whitespace().next().unwrap_or_default().trim_end_matches([',', '.', ';']);
            let continues = word.parse::<u32>().is_ok_and(|_| word.len() == 3) || ["KiB", "MiB", "GiB"].contains(&word);
            assert!(!continues || !line.ends_with(|c: char| c.is_ascii_digit()), "{columns}: {}", run.stdout);
        }
    }
}

#[test]
fn json_has_the_promised_keys() {
    let result = diff(&rig("decode.pickle"), &rig("decode_expandable.pickle"), &[]);
    assert_eq!(result["command"], "diff");
    for side in ["a", "b"] {
        assert!(result[side]["file"].as_str().unwrap().starts_with(RIG), "{side}");
        assert!(result[side]["settings"]["conf"].is_string());
    }
    let device = &result["devices"][0];
    for key in ["device", "at", "totals", "peak", "segments", "sites", "conclusions", "caveats", "steps"] {
        assert!(device.get(key).is_some(), "no {key}");
    }
    for key in ["reserved", "allocated", "active", "requested", "stranded", "releasable"] {
        assert!(device["totals"]["a"][key].is_u64() && device["totals"]["b"][key].is_u64(), "{key}");
    }
    assert!(device["peak"]["b"]["allocated"]["bytes"].is_u64());
    for key in ["site", "a_bytes", "b_bytes", "delta", "only_in"] {
        assert!(device["sites"][0].get(key).is_some(), "no {key}");
    }
}

/// What PyTorch counted beside the files is what the comparison says.
#[test]
fn the_figures_are_those_of_pytorch() {
    for (before, after) in [("frag", "frag_expandable"), ("decode", "decode_expandable")] {
        let ending = |name: &str| if name.starts_with("frag") { ".pickle.gz" } else { ".pickle" };
        let result =
            diff(&rig(&format!("{before}{}", ending(before))), &rig(&format!("{after}{}", ending(after))), &[]);
        let device = &result["devices"][0];
        for part in ["allocated", "active", "requested", "reserved"] {
            let expected = counter(before, "at_oom", &format!("{part}_bytes.all.current"));
            assert_eq!(device["totals"]["a"][part], expected, "{before} {part}");
            for (side, name) in [("a", before), ("b", after)] {
                let expected = counter(name, "at_dump", &format!("{part}_bytes.all.peak"));
                assert_eq!(device["peak"][side][part]["bytes"], expected, "{name} {part}");
            }
        }
        assert_eq!(device["totals"]["a"]["stranded"], counter(before, "at_oom", "inactive_split_bytes.all.current"));
        let calls = &device["segments"]["calls"];
        assert_eq!(calls["a"]["segment_allocs"], counter(before, "at_dump", "num_device_alloc"));
        assert_eq!(calls["a"]["segment_frees"], counter(before, "at_dump", "num_device_free"));
        assert_eq!(calls["b"]["segment_maps"], counter(after, "at_dump", "num_device_alloc"));
        assert_eq!((&calls["a"]["ooms"], &calls["b"]["ooms"]), (&1.into(), &0.into()));

        let conclusion = &device["conclusions"][0];
        assert_eq!(conclusion["kind"], "fragmentation", "{conclusion}");
        let text = conclusion["text"].as_str().unwrap();
        assert!(text.contains("b serves") && text.contains("same live memory"), "{text}");
        assert_eq!(device["totals"]["a"]["requested"], device["totals"]["b"]["requested"], "the same request");
    }
}

/// The moment before the failed request in the file that served it, found by walking the raw trace.
#[test]
fn files_of_one_program_meet_before_the_failed_request() {
    let before = read(&testdata().join("rig/2.6.0/decode.pickle"));
    let allocs = |snapshot: &oomscope::snapshot::Snapshot, until: usize| {
        snapshot.events.action[..until].iter().filter(|action| **action == Action::Alloc).count()
    };
    let oom = before.events.action.iter().rposition(|action| *action == Action::Oom).unwrap();
    let wanted = allocs(&before, oom);
    let after = read(&testdata().join("rig/2.6.0/decode_expandable.pickle"));
    let (mut seen, mut mapped, mut mapped_before) = (0, 0, 0);
    for (action, size) in after.events.action.iter().zip(&after.events.size) {
        match action {
            Action::SegmentMap => mapped += size,
            Action::SegmentUnmap => mapped -= size,
            Action::Alloc if seen == wanted => break,
            other => {
                seen += usize::from(*other == Action::Alloc);
                mapped_before = mapped;
            }
        }
    }
    let result = diff(&rig("decode.pickle"), &rig("decode_expandable.pickle"), &[]);
    let device = &result["devices"][0];
    assert_eq!(device["totals"]["b"]["reserved"], mapped_before);
    assert_eq!(device["same_request"], before.events.size[oom]);
}

#[test]
fn a_file_against_itself_is_no_difference() {
    for path in files(&testdata().join("rig"), is_pickle).into_iter().chain(files(&testdata().join("cases"), is_pickle))
    {
        let path = path.to_str().unwrap();
        let run = oomscope(["diff", "--json", path, path]);
        if run.status != 0 {
            // Nothing to compare, or nothing to be read.
            assert!(
                path.contains("12_empty") || path.contains("12_truncated") || path.contains("12_code"),
                "{path}: {}",
                run.stderr
            );
            continue;
        }
        let result: Value = serde_json::from_str(&run.stdout).unwrap();
        for device in result["devices"].as_array().unwrap() {
            assert_eq!(device["sites"].as_array().unwrap().len(), 0, "{path}");
            assert_eq!(device["totals"]["a"], device["totals"]["b"], "{path}");
            assert_eq!(device["conclusions"][0]["text"], "no difference", "{path}");
        }
    }
}

/// Backwards every change has the other sign, and the conclusion names the same part.
#[test]
fn a_comparison_mirrors_its_reverse() {
    let pairs = [
        ("frag.pickle.gz", "frag_expandable.pickle.gz"),
        ("decode.pickle", "decode_expandable.pickle"),
        ("oom_train.pickle", "oom_train_expandable.pickle"),
        ("steady.pickle.gz", "steps_leak.pickle.gz"),
        ("emptycache.pickle", "emptycache_expandable.pickle"),
        ("train_late.pickle", "train_ring500.pickle"),
        ("graph.pickle", "streams.pickle"),
    ];
    for (a, b) in pairs {
        let (forth, back) = (diff(&rig(a), &rig(b), &[]), diff(&rig(b), &rig(a), &[]));
        let (forth, back) = (&forth["devices"][0], &back["devices"][0]);
        for key in ["totals", "peak", "at", "external_fragmentation"] {
            assert_eq!((&forth[key]["a"], &forth[key]["b"]), (&back[key]["b"], &back[key]["a"]), "{a} {b} {key}");
        }
        for (one, other) in [("a", "b"), ("b", "a")] {
            assert_eq!(forth["segments"]["calls"][one], back["segments"]["calls"][other], "{a} {b}");
        }
        assert_eq!(forth["conclusions"][0]["kind"], back["conclusions"][0]["kind"], "{a} {b}");
        let rows = |device: &Value, a: &str, b: &str, sign: i64| -> Vec<(String, u64, u64, i64)> {
            let row = |row: &Value| {
                let bytes = |side: &str| row[format!("{side}_bytes")].as_u64().unwrap();
                (row["site"].as_str().unwrap().to_owned(), bytes(a), bytes(b), row["delta"].as_i64().unwrap() * sign)
            };
            device["sites"].as_array().unwrap().iter().map(row).collect()
        };
        assert_eq!(rows(forth, "a", "b", 1), rows(back, "b", "a", -1), "{a} {b}");
        // Every byte is accounted for.
        let sum: i64 = rows(forth, "a", "b", 1).iter().map(|row| row.3).sum();
        let active = |side: &str| forth["totals"][side]["active"].as_i64().unwrap();
        assert_eq!(sum, active("b") - active("a"), "{a} {b}");
    }
}

#[test]
fn three_files_are_compared_with_the_first() {
    let (a, b, c) = (rig("oom_train.pickle"), rig("oom_train_expandable.pickle"), rig("steady.pickle.gz"));
    let result = json_of(&["diff", "--json", &a, &b, &c]);
    let device = &result["devices"][0];
    assert!(result["c"]["file"].as_str().unwrap().ends_with("steady.pickle.gz"));
    let conclusions = device["conclusions"].as_array().unwrap();
    let pairs: Vec<_> =
        conclusions.iter().map(|one| (one["from"].as_str().unwrap(), one["to"].as_str().unwrap())).collect();
    assert_eq!(pairs, [("a", "b"), ("a", "c")]);
    for row in device["sites"].as_array().unwrap() {
        let bytes = |side: &str| row[format!("{side}_bytes")].as_i64().unwrap();
        assert_eq!(row["delta"].as_i64().unwrap(), bytes("c") - bytes("a"));
    }
    let text = oomscope(["diff", &a, &b, &c]).stdout;
    assert!(text.contains("CONCLUSION  a → b:") && text.contains("CONCLUSION  a → c:"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// One run as JSON, with each line of code one further down.
fn moved_down(directory: &Path) -> String {
    let mut text = String::new();
    let packed = fs::File::open(testdata().join("formats/run.dump.json.gz")).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    fn shift(value: &mut Value) {
        match value {
            Value::Object(map) => {
                let line = map.get("line").and_then(Value::as_i64).filter(|_| map.contains_key("filename"));
                if let Some(line) = line {
                    map.insert("line".into(), (line + 1).into());
                }
                map.values_mut().for_each(shift);
            }
            Value::Array(list) => list.iter_mut().for_each(shift),
            _ => {}
        }
    }
    shift(&mut value);
    let path = directory.join("moved.json");
    fs::write(&path, value.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn moved_lines_and_renamed_files_are_matched() {
    let directory = tempfile::tempdir().unwrap();
    let moved = moved_down(directory.path());
    let before = "testdata/formats/run.dump.json.gz";
    let device = |more: &[&str]| diff(before, &moved, more)["devices"][0].clone();
    assert!(!device(&[])["sites"].as_array().unwrap().is_empty(), "lines have moved");
    assert_eq!(device(&["--ignore-lines"])["conclusions"][0]["kind"], "none");

    let path = testdata().join("rig/2.6.0/decode.pickle");
    let (old, new) = (b"workloads.py", b"w0rkloads.py");
    let mut bytes = fs::read(&path).unwrap();
    let found: Vec<usize> = (0..bytes.len() - old.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
    assert!(!found.is_empty());
    found.into_iter().for_each(|at| bytes[at..at + old.len()].copy_from_slice(new));
    let renamed = directory.path().join("renamed.pickle");
    fs::write(&renamed, bytes).unwrap();
    let device = |more: &[&str]| diff(path.to_str().unwrap(), renamed.to_str().unwrap(), more)["devices"][0].clone();
    let lost = device(&[]);
    assert!(lost["caveats"].to_string().contains("--map"), "{}", lost["caveats"]);
    let only: Vec<&Value> = lost["sites"].as_array().unwrap().iter().map(|row| &row["only_in"]).collect();
    assert!(only.iter().any(|side| **side == "a") && only.iter().any(|side| **side == "b"));
    let found = device(&["--map", "workloads.py=w0rkloads.py"]);
    assert_eq!(found["conclusions"][0]["kind"], "none", "{}", found["sites"]);
    assert_eq!(found["caveats"].as_array().unwrap().len(), 0);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let caveats = |a: &str, b: &str| diff(a, b, &[])["devices"][0]["caveats"].to_string();
    let late = caveats(&rig("train_late.pickle"), &rig("steady.pickle.gz"));
    assert!(late.contains("another window"), "{late}");
    let graph = caveats(&rig("graph.pickle"), &rig("steady.pickle.gz"));
    assert!(graph.contains("private pools (CUDA graphs, MemPool) in a only"), "{graph}");
    let none = caveats("testdata/cases/03_soft_free_segments.pickle", &rig("steady.pickle.gz"));
    assert!(none.contains("without history: a"), "{none}");

    let result = diff(&rig("multigpu.pickle"), &rig("decode.pickle"), &[]);
    assert_eq!((result["devices"].as_array().unwrap().len(), &result["left_out"]), (1, &serde_json::json!([1])));

    let truncated = "testdata/cases/12_truncated.pickle";
    assert_eq!(oomscope(["diff", truncated, &rig("decode.pickle")]).status, 2);
    let run = oomscope(["diff", truncated, &rig("decode.pickle"), "--salvage"]);
    assert_eq!(run.status, 2, "only a part");
    assert!(run.stdout.contains("salvaged") && run.stdout.contains("a breaks off"), "{}", run.stdout);
}

#[test]
fn moments_can_be_chosen() {
    let (a, b) = (rig("steady.pickle.gz"), rig("steps_leak.pickle.gz"));
    for at in ["end", "peak", "peak:reserved", "100", "step:5"] {
        let device = diff(&a, &b, &["--at", at])["devices"][0].clone();
        for (side, file) in [("a", &a), ("b", &b)] {
            let top = json_of(&["top", "--json", file, "--at", at]);
            assert_eq!(device["totals"][side]["active"], top["total"], "{at} {file}");
        }
    }
    let run = oomscope(["diff", &rig("decode.pickle"), &b, "--at", "oom"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("b (") && run.stderr.contains("0 recorded OOMs"), "{}", run.stderr);
    let steps = &diff(&a, &b, &[])["devices"][0]["steps"];
    let rows = steps["rows"].as_array().unwrap();
    let grown = |row: &Value| row["peak"]["b"].as_i64().unwrap() - row["peak"]["a"].as_i64().unwrap();
    assert!(rows.len() > 20 && rows.iter().all(|row| row["delta"].as_i64().unwrap() == grown(row)));
}

#[test]
fn pictures_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (testdata().join("rig/2.6.0/decode.pickle"), testdata().join("rig/2.6.0/decode_expandable.pickle"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let run = run_in(directory.path(), ["diff", a, b, "-o", "out"], &[]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    for name in ["timeline.svg", "flame.svg"] {
        let text = fs::read_to_string(directory.path().join("out").join(name)).unwrap();
        roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains("decode.pickle") && text.contains("decode_expandable.pickle"), "{name}");
    }
    let written = json(directory.path().join("out/diff.json"));
    assert_eq!(written["devices"], diff(a, b, &[])["devices"]);
    let run = run_in(directory.path(), ["diff", a, b, "-o", "both.svg"], &[]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let both = fs::read_to_string(directory.path().join("both.svg")).unwrap();
    assert_eq!(both, fs::read_to_string(directory.path().join("out/timeline.svg")).unwrap());
}

#[test]
fn a_single_file_is_no_comparison() {
    let run = oomscope(["diff", &rig("decode.pickle")]);
    assert_eq!(run.status, 2);
    let run = oomscope(["diff", &rig("decode.pickle"), "testdata/cases/12_empty.pickle"]);
    assert!(run.status == 2 && run.stderr.contains("12_empty"), "{}", run.stderr);
    let run = oomscope(["diff", &rig("multigpu.pickle"), &rig("decode.pickle"), "--device", "1"]);
    assert!(run.status == 2 && run.stderr.contains("device 1"), "{}", run.stderr);
}
