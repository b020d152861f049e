//! `export`: what is written can be read again, by this program and by Python, and says the same.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{describe, files, is_pickle, json_of, oomscope, read, run_in, shared_data, testdata};
use oomscope::export::{Excerpt, NameOptions, Names, Pickle, SnapshotFormat};
use oomscope::history::History;
use oomscope::pickle::write::PickleWriter;
use oomscope::snapshot::{LoadOptions, Snapshot, Source, Warning, load};
use serde_json::{Value, json};

const TRAIN: &str = "testdata/rig/2.6.0/oom_train.pickle";

/// The snapshots in `dir` that can be read.
fn snapshots(dir: &Path) -> Vec<PathBuf> {
    let is_snapshot = |name: &str| {
        is_pickle(name) || [".pt", ".zip", ".html", ".dump.json.gz"].iter().any(|ending| name.ends_with(ending))
    };
    let readable = |path: &PathBuf| load(&Source::Path(path.clone()), &LoadOptions::default()).is_ok();
    // Files that no recorder has written need not come back as they were.
    let is_recorded = |path: &PathBuf| !path.iter().any(|part| part == "hostile");
    files(dir, is_snapshot).into_iter().filter(|path| is_recorded(path) && readable(path)).collect()
}

fn export(input: &Path, output: &Path, flags: &[&str]) {
    let mut arguments = vec!["export", input.to_str().unwrap(), "--format", "pickle", "-o", output.to_str().unwrap()];
    arguments.extend(flags);
    let run = oomscope(&arguments);
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
}

/// What a command says, without what only tells which file it was.
fn analysis(command: &str, path: &Path) -> Value {
    let mut result = json_of(&[command, path.to_str().unwrap(), "--json"]);
    result.as_object_mut().unwrap().remove("file");
    for format in [result.get("format").is_some().then_some("/format"), Some("/info/format")].into_iter().flatten() {
        if let Some(format) = result.pointer_mut(format).and_then(Value::as_object_mut) {
            format.remove("protocol");
            format.remove("writer");
        }
    }
    result
}

#[test]
fn what_is_exported_is_analysed_alike() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.pickle");
    let paths = snapshots(&testdata());
    assert!(paths.len() > 40, "{}", paths.len());
    for path in paths {
        export(&path, &copy, &["--force"]);
        for command in ["info", "top", "segments", "report"] {
            assert_eq!(analysis(command, &path), analysis(command, &copy), "{command} {}", path.display());
        }
    }
}

/// `snapshot` written and read again.
fn copied(snapshot: &Snapshot, file: &Path) -> Snapshot {
    let histories = histories(snapshot);
    let excerpt = Excerpt::new(snapshot, &histories, Names::new(snapshot, &NameOptions::default()));
    let mut bytes = Vec::new();
    Pickle.write(&excerpt, &mut bytes).unwrap();
    fs::write(file, bytes).unwrap();
    read(file)
}

fn histories(snapshot: &Snapshot) -> Vec<History<'_>> {
    snapshot.devices.iter().map(|device| History::new(snapshot, device, &snapshot.settings.rules)).collect()
}

#[test]
fn shared_files_say_the_same_when_copied() {
    let Some(data) = shared_data() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("copy.pickle");
    let mut paths = snapshots(&data);
    paths.retain(|path| !path.starts_with(data.join("large")));
    assert!(paths.len() > 360, "{}", paths.len());
    for path in paths {
        let original = read(&path);
        let copy = copied(&original, &file);
        let (before, after) = (describe(&original), describe(&copy));
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "{}", path.display());
        }
        assert_eq!(before.len(), after.len(), "{}", path.display());
    }
}

/// Compares value by value in Python; answers with a result a file, or `None` without python3.
fn compare(paths: &[PathBuf]) -> Option<Vec<Value>> {
    let directory = tempfile::tempdir().unwrap();
    let mut script = Command::new("python3");
    script.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export.py"));
    for (number, path) in paths.iter().enumerate() {
        let copy = directory.path().join(format!("{number}.pickle"));
        export(path, &copy, &[]);
        script.args([path, &copy]);
    }
    let Ok(output) = script.output() else {
        println!("skipped: python3 is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), paths.len());
    Some(results)
}

/// Python's standard library reads no zstd.
fn is_pythons(path: &Path) -> bool {
    let name = path.to_str().unwrap();
    name.ends_with(".pickle") || name.ends_with(".pickle.gz")
}

#[test]
fn python_finds_every_value_in_the_copy() {
    let paths: Vec<PathBuf> = snapshots(&testdata()).into_iter().filter(|path| is_pythons(path)).collect();
    let Some(results) = compare(&paths) else { return };
    let mut taken_apart = 0;
    for (path, result) in paths.iter().zip(results) {
        // The case writes the same pointers in both forms, as no program does.
        if !path.ends_with("12_high_addr.pickle") {
            assert_eq!(result["differences"], json!([]), "{}", path.display());
        }
        // Long files are not taken apart.
        if let Some(long) = result.get("long_integers") {
            taken_apart += 1;
            assert_eq!((long, &result["strange_opcodes"]), (&json!(0), &json!([])), "{}", path.display());
        }
        assert!(result["ratio"].as_f64().unwrap() <= 1.2, "{}: {}", path.display(), result["ratio"]);
    }
    assert!(taken_apart > 20, "{taken_apart}");
}

#[test]
fn python_finds_every_value_in_copies_of_shared_files() {
    let Some(data) = shared_data() else { return };
    let mut paths = snapshots(&data.join("rig"));
    paths.extend(["metadata", "cpp_writer"].iter().flat_map(|dir| snapshots(&data.join(dir))));
    paths.retain(|path| is_pythons(path));
    let Some(results) = compare(&paths) else { return };
    for (path, result) in paths.iter().zip(results) {
        assert_eq!(result["differences"], json!([]), "{}", path.display());
        assert!(result["ratio"].as_f64().unwrap() <= 1.2, "{}: {}", path.display(), result["ratio"]);
    }
}

/// A snapshot that names a person, a machine, a project and a command wherever the format has room for text.
fn telling(path: &Path) {
    let frame = |name: &str, filename: &str| {
        json!({"name": name, "filename": filename, "line": 7, "fx_node_op": "call_function", "fx_node_name": "zanzibar_n",
            "fx_node_target": "zanzibar_t", "fx_original_trace": "File \"/home/zanzibar/x.py\", line 3"})
    };
    let frames = json!([
        frame("zanzibar_step", "/home/zanzibar/quokka/train.py"),
        frame("forward", "/opt/zanzibar/lib/python3.11/site-packages/torch/nn/modules/linear.py"),
        frame("forward", "/opt/zanzibar/lib/python3.11/site-packages/quokka_models/net.py"),
        frame("zanzibar::launch(quokka*)", "/home/zanzibar/quokka/ext.cpp"),
        frame("c10::alloc<quokka>() from /home/zanzibar/c10.cpp:3", ""),
        frame("<module>", "<ipython-input-3-quokka>"),
    ]);
    let mut entry = json!({"action": "alloc", "addr": 4096, "size": 100, "stream": 0, "frames": frames, "time_us": 5,
        "compile_context": "Torch-Compiled Region: zanzibar", "user_metadata": "python quokka.py --user zanzibar",
        "internal_metadata": "zanzibar", "category": "zanzibar", "pool_id": [0, 0],
        "forward_frames": ["File \"/home/zanzibar/train.py\", line 3, in f\n    y = quokka(x)"]});
    let block =
        json!({"address": 4096, "size": 512, "requested_size": 100, "state": "active_allocated", "frames": frames});
    let segment = json!({"device": 0, "address": 4096, "total_size": 512, "allocated_size": 512, "active_size": 512,
        "requested_size": 100, "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0],
        "is_expandable": false, "frames": frames, "blocks": [block]});
    let mut trace = vec![entry.clone()];
    entry["action"] = "zanzibar_action".into();
    trace.push(entry);
    let snapshot = json!({"segments": [segment], "device_traces": [trace],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,quokka:1,backend:zanzibar",
            "host": "zanzibar", "expandable_segments": false},
        "external_annotations": [
            {"name": "zanzibar's step", "stage": "START", "device": 0, "time_us": 5, "quokka_key": "zanzibar"},
            {"name": "ProfilerStep#3", "stage": "START", "device": 0, "time_us": 5}]});
    let mut pickle = PickleWriter::new(Vec::new());
    pickle.value(&snapshot).unwrap();
    fs::write(path, pickle.finish().unwrap()).unwrap();
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

#[test]
fn a_redacted_file_names_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (original, redacted) = (directory.path().join("telling.pickle"), directory.path().join("redacted.pickle"));
    telling(&original);
    let before = fs::read(&original).unwrap();
    assert!(contains(&before, "zanzibar") && contains(&before, "quokka"));
    export(&original, &redacted, &["--redact", "--redact-functions"]);
    let after = fs::read(&redacted).unwrap();
    for word in ["zanzibar", "quokka", "train.py", "home", "user zan"] {
        assert!(!contains(&after, word), "{word}");
    }
    for word in ["site-packages/torch/nn/modules/linear.py", "max_split_size_mb:64", "ProfilerStep#3", "c10::alloc"] {
        assert!(contains(&after, word), "{word}");
    }
    // Function names stay if nobody asks for more; paths in them do not.
    export(&original, &redacted, &["--redact", "--force"]);
    let after = fs::read(&redacted).unwrap();
    assert!(contains(&after, "zanzibar_step") && !contains(&after, "/home/"));
    // The other text format writes the same names.
    let json = oomscope(["export", original.to_str().unwrap(), "-f", "json", "--redact", "--redact-functions"]).stdout;
    assert!(!contains(json.as_bytes(), "zanzibar") && !contains(json.as_bytes(), "quokka"), "{json}");
}

/// The parts of the paths of a program's own files are gone, and every figure is still there.
#[test]
fn redaction_changes_names_only() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("redacted.pickle");
    let mut checked = 0;
    for path in snapshots(&testdata().join("rig")) {
        export(&path, &copy, &["--redact", "--redact-functions", "--force"]);
        let (original, redacted) = (read(&path), read(&copy));
        let is_own = |filename: &&str| filename.starts_with('/') && !filename.contains("python3.");
        let own = original.frames.iter().map(|frame| original.text(frame.filename)).filter(is_own);
        let parts: Vec<&str> = own.flat_map(|filename| filename.split('/')).filter(|part| !part.is_empty()).collect();
        checked += parts.len();
        for frame in &redacted.frames {
            let texts = [redacted.text(frame.filename), redacted.text(frame.name)];
            for part in texts.iter().flat_map(|text| text.split('/')) {
                assert!(!parts.contains(&part) || part == "python", "{}: {part}", path.display());
            }
        }
        for by in ["line", "file", "stack"] {
            let figures = |path: &Path| {
                let top = json_of(&["top", path.to_str().unwrap(), "--by", by, "--json"]);
                let rows = top["rows"].as_array().unwrap().iter();
                let figure = |row: &Value, key: &str| row[key].as_u64().unwrap();
                // Equal ones stand in the order of their names.
                let mut figures: Vec<_> = rows.map(|row| (figure(row, "bytes"), figure(row, "blocks"))).collect();
                figures.sort_unstable();
                figures
            };
            assert_eq!(figures(&path), figures(&copy), "{by} {}", path.display());
        }
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn a_prefix_is_taken_off() {
    let directory = tempfile::tempdir().unwrap();
    let (original, copy) = (directory.path().join("telling.pickle"), directory.path().join("copy.pickle"));
    telling(&original);
    export(&original, &copy, &["--strip-prefix", "/home/zanzibar/"]);
    let snapshot = read(&copy);
    let names: Vec<&str> = snapshot.frames.iter().map(|frame| snapshot.text(frame.filename)).collect();
    assert!(names.contains(&"quokka/train.py") && names.iter().any(|name| name.starts_with("/opt/zanzibar")));
}

/// What was reserved and requested after each event of a window is what it was in the whole file, and the end of the
/// window is a snapshot like any other.
#[test]
fn a_window_replays_as_the_whole_does() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("window.pickle");
    let mut windows = 0;
    for path in snapshots(&testdata().join("rig")) {
        let original = read(&path);
        for whole in histories(&original) {
            let events = whole.events();
            let device = whole.device.ordinal.to_string();
            for (first, last) in [(events / 4, events / 2), (events / 2, events * 9 / 10), (0, events / 3)] {
                if last <= first + 1 || whole.health.odd_ranges > 0 || !whole.state(last + 1).is_sound {
                    continue;
                }
                windows += 1;
                let window = format!("{first}..{last}");
                export(&path, &copy, &["--window", &window, "--device", &device, "--force"]);
                let part = read(&copy);
                let is_broken = |warning: &Warning| matches!(warning, Warning::Inconsistent { .. });
                assert!(!part.warnings.iter().any(is_broken), "{} {window}: {:?}", path.display(), part.warnings);
                let part = histories(&part).remove(0);
                assert_eq!(part.events(), last - first + 1);
                for event in first..=last {
                    let (a, b) = (whole.counters(event + 1), part.counters(event + 1 - first));
                    let place = format!("{} {window}: event {event}", path.display());
                    assert_eq!((a.reserved, a.requested), (b.reserved, b.requested), "{place}");
                    if event == last {
                        assert_eq!(a, b, "{place}");
                    }
                }
            }
        }
    }
    assert!(windows > 30, "{windows}");
}

#[test]
fn windows_are_refused_where_they_mean_nothing() {
    let refused = |arguments: &[&str]| {
        let run = oomscope([&["export", "-f", "pickle"], arguments].concat());
        assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{arguments:?}");
        run.stderr
    };
    assert!(refused(&[TRAIN, "--window", "200..100"]).contains("holds no event"));
    assert!(refused(&[TRAIN, "--window", "99999.."]).contains("numbered from 0"));
    assert!(refused(&["testdata/rig/2.6.0/multigpu.pickle", "--window", "1..5"]).contains("--device N"));
    let run = oomscope(["export", TRAIN, "-f", "requests", "--redact"]);
    assert!(run.status == 2 && run.stderr.contains("--redact"), "{}", run.stderr);
}

#[test]
fn a_file_that_is_there_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.json");
    fs::write(&output, "mine").unwrap();
    let arguments = ["export", TRAIN, "-f", "json", "-o", output.to_str().unwrap()];
    let run = oomscope(arguments);
    assert!(run.status == 2 && run.stderr.contains("--force"), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&output).unwrap(), "mine");
    assert_eq!(oomscope(arguments.iter().copied().chain(["--force"])).status, 0);
    assert!(fs::read_to_string(&output).unwrap().starts_with('{'));
}

/// A limit on the size of files stands for a disk that is full.
#[cfg(unix)]
#[test]
fn a_write_that_is_cut_off_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let input = testdata().join("rig/2.6.0/oom_train.pickle");
    for (trap, what) in [("trap '' XFSZ;", "fails"), ("", "is killed")] {
        let script = format!("{trap} ulimit -f 8; exec \"$0\" export \"$1\" -f json -o out.json");
        let run = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_oomscope")])
            .arg(&input)
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(!run.status.success(), "{what}");
        assert!(!directory.path().join("out.json").exists(), "{what}");
        if what == "fails" {
            let text = String::from_utf8(run.stderr).unwrap();
            assert!(text.contains("disk space"), "{text}");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }
}

#[test]
fn requests_run_again_and_fail_where_the_program_did() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("ops.json");
    let run = oomscope(["export", TRAIN, "-f", "requests", "-o", output.to_str().unwrap()]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let text = fs::read_to_string(&output).unwrap();
    let operations: Value = serde_json::from_str(&text).unwrap();
    let operations = operations["ops"].as_array().unwrap();
    assert_eq!(text.lines().count(), operations.len() + 2, "one operation a line");
    let snapshot = read(&testdata().join("rig/2.6.0/oom_train.pickle"));
    let history = histories(&snapshot).remove(0);
    let asked = operations.iter().filter(|operation| operation[0] == "a").count();
    let recorded = json_of(&["info", TRAIN, "--json"])["devices"][0]["actions"].clone();
    let expected = recorded["alloc"].as_u64().unwrap() + recorded["oom"].as_u64().unwrap();
    assert_eq!(asked as u64, expected + history.state(0).blocks.len() as u64);
    let replayed = run_in(directory.path(), ["whatif", "--requests", "ops.json"], &[]).stdout;
    assert!(replayed.contains("1 request failed"), "{replayed}");
}

#[test]
fn json_has_every_row() {
    let run = oomscope(["export", TRAIN, "-f", "json"]);
    let model: Value = serde_json::from_str(&run.stdout).unwrap();
    let snapshot = read(&testdata().join("rig/2.6.0/oom_train.pickle"));
    let rows = |pointer: &str| model.pointer(pointer).unwrap().as_array().unwrap();
    assert_eq!(rows("/frames").len(), snapshot.frames.len());
    assert_eq!(rows("/stacks").len(), snapshot.stacks.len());
    assert_eq!(rows("/devices/0/events").len(), snapshot.events.len());
    let segments = rows("/devices/0/segments");
    let sum = |key: &str| segments.iter().map(|segment| segment[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("total_size"), snapshot.segments.iter().map(|segment| segment.total_size).sum::<u64>());
    assert_eq!(
        segments.iter().flat_map(|segment| segment["blocks"].as_array().unwrap()).count(),
        snapshot.blocks.len()
    );
    for row in rows("/devices/0/events") {
        let stack = row["stack"].as_u64().unwrap_or(0) as usize;
        assert!(stack < snapshot.stacks.len() && row.get("addr").is_some() != row.get("device_free").is_some());
    }
}
