//! One run in every form in which snapshots are passed around gives one answer.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{describe, files, read, shared_data, testdata};
use oomscope::snapshot::{LoadError, LoadOptions, Snapshot, Source, Warning, Writer, load};

/// The forms of one state, first of which is the standard; `skip` names what is not a snapshot.
fn compare(dir: &Path, skip: &[&str]) -> usize {
    let standard = describe(&read(&dir.join("run_protocol4.pickle")));
    assert!(standard.len() > 600, "{} lines", standard.len());
    let is_data = |name: &str| name.starts_with("run") && name.contains('.');
    let mut compared = 0;
    for path in files(dir, is_data) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if skip.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        let snapshot = read(&path);
        assert_eq!(snapshot.warnings, [], "{name}");
        let described = describe(&snapshot);
        for (found, expected) in described.iter().zip(&standard) {
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(described.len(), standard.len(), "{name}");
        let (protocol, writer) = match name {
            _ if name.contains(".json") => (None, Writer::Json),
            "run_torchsave.pt" => (Some(2), Writer::Python),
            // The header of protocols 0 and 1 does not exist.
            "run_protocol1.pickle" => (Some(0), Writer::Python),
            _ => (Some(name.split_once("protocol").map_or(4, |(_, rest)| rest.as_bytes()[0] - b'0')), Writer::Python),
        };
        assert_eq!((snapshot.format.protocol, snapshot.format.writer), (protocol, writer), "{name}");
        compared += 1;
    }
    compared
}

#[test]
fn every_form_gives_one_answer() {
    assert_eq!(compare(&testdata().join("formats"), &[]), 12);
}

#[test]
fn every_shared_form_gives_one_answer() {
    let Some(data) = shared_data() else { return };
    let others = [".txt", "protocol0.json", "protocol1.json", "protocol2.json", "protocol3.json", "protocol4.json"];
    let skip = [&others[..], &["protocol5.json", ".pt.json"]].concat();
    assert_eq!(compare(&data.join("formats"), &skip), 13);
}

/// The same state, written by Python and by PyTorch's C++ pickler.
#[test]
fn the_cpp_writer_gives_pythons_answer() {
    let Some(data) = shared_data() else { return };
    let mut pairs = 0;
    for python in
        files(&data.join("cpp_writer"), |name| name.ends_with("_py.pickle") || name.ends_with("_py_atoom.pickle"))
    {
        let cpp = PathBuf::from(python.to_str().unwrap().replace("_py", "_cpp"));
        let (ours, theirs) = (read(&python), read(&cpp));
        assert_eq!((ours.format.writer, theirs.format.writer), (Writer::Python, Writer::Cpp), "{}", cpp.display());
        assert_eq!(ours.format.torch(), theirs.format.torch(), "{}", cpp.display());
        let difference = difference(&ours, &theirs);
        assert!(difference.is_empty(), "{}:\n{}", cpp.display(), difference.join("\n"));
        pairs += 1;
    }
    assert_eq!(pairs, 26);
}

/// What differs beyond one more `snapshot` entry at the end of each of the C++ file's traces, and one microsecond.
fn difference(python: &Snapshot, cpp: &Snapshot) -> Vec<String> {
    let mut different = Vec::new();
    let mut theirs = describe(cpp);
    let mut ours = describe(python);
    // Compared below, with a tolerance.
    for lines in [&mut ours, &mut theirs] {
        lines.retain(|line| !line.starts_with("event"));
    }
    different.extend(ours.iter().filter(|line| !theirs.contains(line)).map(|line| format!("- {line}")));
    different.extend(theirs.iter().filter(|line| !ours.contains(line)).map(|line| format!("+ {line}")));
    for (device, other) in python.devices.iter().zip(&cpp.devices) {
        let entries = |snapshot: &Snapshot, device: &oomscope::snapshot::Device| -> Vec<(u64, String)> {
            let rows = device.events.clone();
            rows.map(|row| (snapshot.events.get(row).time_us, common::event(snapshot, row, false))).collect()
        };
        let (ours, mut theirs) = (entries(python, device), entries(cpp, other));
        if theirs.len() > ours.len() {
            let last = theirs.pop().unwrap();
            if !last.1.contains("Snapshot") {
                different.push(format!("+ {}", last.1));
            }
        }
        different.extend((ours.len() != theirs.len()).then(|| format!("{} and {} events", ours.len(), theirs.len())));
        for ((time, entry), (other_time, other)) in ours.iter().zip(&theirs) {
            if entry != other || time.abs_diff(*other_time) > 1 {
                different.push(format!("- {time} {entry}\n+ {other_time} {other}"));
            }
        }
    }
    different
}

fn load_bytes(name: &str, bytes: &[u8], salvage: bool) -> Result<Snapshot, LoadError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    load(&Source::Path(path), &LoadOptions { salvage, ..LoadOptions::default() })
}

fn formats(name: &str) -> Vec<u8> {
    fs::read(testdata().join("formats").join(name)).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    std::io::copy(&mut flate2::read::GzEncoder::new(bytes, flate2::Compression::fast()), &mut out).unwrap();
    out
}

#[test]
fn wrappings_may_be_nested() {
    let expected = describe(&read(&testdata().join("formats/run_protocol4.pickle")));
    for inner in ["run_protocol4.zip", "run_protocol4.pickle.zst", "run_trace_plot.html", "run_torchsave.pt"] {
        let snapshot = load_bytes("snapshot", &gzip(&gzip(&formats(inner))), false).unwrap();
        assert!(describe(&snapshot) == expected, "{inner}");
    }
    let packed = (0..6).fold(formats("run_protocol4.pickle"), |bytes, _| gzip(&bytes));
    let error = load_bytes("snapshot", &packed, false).err().unwrap();
    assert_eq!(error.to_string(), "is packed more than four times over: unpack it first");
}

#[test]
fn what_is_no_snapshot_is_named() {
    let pickle = formats("run_protocol4.pickle");
    let needs = "; it needs the pickle that torch.cuda.memory._dump_snapshot writes";
    let cases: Vec<(&str, Vec<u8>, String)> = vec![
        (
            "empty",
            vec![],
            "is empty: the dump failed. Dump again with _record_memory_history(stacks=\"python\")".into(),
        ),
        ("empty.gz", gzip(b""), "is empty: the dump failed".into()),
        ("trace.txt", b"cuda_free_requested 0x7f00 512\n".into(), {
            format!("is plain text (a log, or the output of a viewer), not a snapshot{needs}")
        }),
        ("trace.txt.gz", gzip(b"    0 alloc(1, 512)\n"), "is plain text".into()),
        ("log", b"[rank0]: torch.OutOfMemoryError: CUDA out of memory".into(), "is plain text".into()),
        ("db", b"SQLite format 3\0\x10\0".into(), format!("is an SQLite database, not a snapshot{needs}")),
        ("x.parquet", b"PAR1\x15\0".into(), "is a Parquet table".into()),
        ("x.xz", b"\xfd7zXZ\0\0".into(), "is compressed in a way that is not read here".into()),
        ("x.bin", vec![0; 600], format!("is not a pickle{needs}")),
        (
            "x.html",
            b"<html><body>memory_viz</body></html>".into(),
            "is an HTML page without an embedded snapshot".into(),
        ),
        ("x.json", b"{\"loss\": [1, 2]}".into(), "holds no memory snapshot: neither `segments`".into()),
        ("x.json", b"{\"segments\": [}".into(), "is not valid JSON: ".into()),
        ("x.pickle", b"\x80\x04}\x94.".into(), "holds no memory snapshot".into()),
        ("x.pickle", b"\x80\x04](K\x01K\x02e.".into(), "holds no memory snapshot".into()),
        ("x.pickle", b"\x80\x04\x95\x05\0\0\0\0\0\0\0K\x01.".into(), "holds no memory snapshot".into()),
        ("code.pickle", b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x94.".into(), {
            "opcode STACK_GLOBAL at byte 16 would import a Python object: refused, nothing was executed. \
             No snapshot needs this opcode: do not load this file in Python either"
                .into()
        }),
        ("cut.pickle", pickle[..20000].into(), "the pickle is cut off at byte 1999".into()),
        ("cut.gz", gzip(&pickle)[..3000].into(), {
            "cannot be read: incomplete deflate stream; if it is compressed, its copy may be incomplete: try --salvage"
                .into()
        }),
        ("damaged.pickle", [&pickle[..9000], &[0xff; 9], &pickle[9000..]].concat(), { "byte 0xff at byte 90".into() }),
        ("x.zip", formats("run_protocol4.zip")[..900].into(), "is a zip archive that cannot be read".into()),
    ];
    for (name, bytes, expected) in cases {
        match load_bytes(name, &bytes, false) {
            Err(error) => assert!(error.to_string().starts_with(&expected), "{name}: {error}"),
            Ok(_) => panic!("{name} was read"),
        }
    }
    assert!(matches!(load(&Source::Path(testdata()), &LoadOptions::default()), Err(LoadError::Directory)));
    let missing = load(&Source::Path(testdata().join("no such file")), &LoadOptions::default()).err().unwrap();
    assert!(missing.to_string().starts_with("cannot be opened: No such file"), "{missing}");
}

/// What the shared data has of files that are none.
#[test]
fn shared_files_that_are_no_snapshot_are_named() {
    let Some(data) = shared_data() else { return };
    for (name, expected) in [
        ("cases/12_empty.pickle", "is empty: the dump failed"),
        ("cases/12_truncated.pickle", "the pickle is cut off at byte "),
        ("cases/12_code.pickle", "opcode "),
        ("formats/run_trace.txt", "is plain text"),
        ("formats/run_segsum.txt", "is plain text"),
        ("oom_messages.jsonl", "is not valid JSON"),
        ("formats/derived.json", "holds no memory snapshot"),
    ] {
        let error = load(&Source::Path(data.join(name)), &LoadOptions::default()).err();
        let error = error.unwrap_or_else(|| panic!("{name} was read")).to_string();
        assert!(error.starts_with(expected), "{name}: {error}");
    }
}

/// Checks what was salvaged of a file cut short against the whole one; answers how many rows and events it has.
fn check_salvaged(name: &str, whole: &[String], salvaged: &Snapshot) -> (usize, usize) {
    assert!(matches!(salvaged.warnings.first(), Some(Warning::Salvaged { .. })), "{name}");
    let rows = describe(salvaged);
    // Rows keep their order; those that are there are the first of their kind.
    let kinds = ["segment", "block", "event"];
    for kind in kinds {
        let of = |lines: &[String]| lines.iter().filter(|line| line.starts_with(kind)).cloned().collect::<Vec<_>>();
        let (found, expected) = (of(&rows), of(whole));
        assert!(found.len() <= expected.len(), "{name}: {} {kind}s", found.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{name}");
        }
    }
    (count(&rows, &kinds), count(&rows, &["event"]))
}

fn count(lines: &[String], kinds: &[&str]) -> usize {
    lines.iter().filter(|line| kinds.iter().any(|kind| line.starts_with(kind))).count()
}

#[test]
fn whatever_is_complete_is_salvaged() {
    for (name, at_least) in [
        ("run_protocol0.pickle", 0.97),
        ("run_protocol1.pickle", 0.97),
        ("run_protocol2.pickle", 0.97),
        ("run_protocol4.pickle", 0.97),
        ("run_protocol4.pickle.gz", 0.5),
        ("run_protocol4.pickle.zst", 0.0),
        ("run_trace_plot.html", 0.97),
    ] {
        let bytes = formats(name);
        let whole = describe(&read(&testdata().join("formats").join(name)));
        let total = count(&whole, &["segment", "block", "event"]);
        let (mut most, mut events) = (0, 0);
        for cut in (0..bytes.len()).step_by(613).chain(bytes.len() - 60..bytes.len()) {
            match load_bytes(name, &bytes[..cut], true) {
                // What is behind STOP may be missing.
                Ok(snapshot) if snapshot.warnings.is_empty() => {
                    assert!(describe(&snapshot) == whole, "{name} cut at {cut}")
                }
                Ok(snapshot) => {
                    let name = format!("{name} cut at {cut}");
                    let (rows, found) = check_salvaged(&name, &whole, &snapshot);
                    // More bytes never give less, but for an entry that may not be complete yet.
                    assert!(found + 1 >= events, "{name}: {found} events, {events} before");
                    (most, events) = (most.max(rows), found);
                }
                // The first segment is not complete, or nothing can be unpacked.
                Err(error) => assert!(cut < 6000.max(bytes.len() / 5), "{name} cut at {cut}: {error}"),
            }
        }
        assert!(most as f64 >= at_least * total as f64, "{name}: at most {most} of {total} rows");
    }
}
