//! What is still told about a damaged file, and what is said to be missing: for each kind of damage.

mod common;

use std::io::Write;
use std::path::PathBuf;

use common::{oomscope, testdata};
use oomscope::history::History;
use oomscope::snapshot::{BlockState, LoadError, LoadOptions, Snapshot, Warning, load_bytes};

fn format_file(name: &str) -> Vec<u8> {
    std::fs::read(testdata().join("formats").join(name)).unwrap()
}

fn salvage(bytes: &[u8]) -> Result<Snapshot, LoadError> {
    load_bytes(bytes, &LoadOptions { salvage: true, ..LoadOptions::default() })
}

fn missing(snapshot: &Snapshot) -> &str {
    match snapshot.warnings.first() {
        Some(Warning::Salvaged { missing, .. }) => missing,
        other => panic!("{other:?}"),
    }
}

/// The forms in which the same run was written, and how many of its 585 events lie before the middle of the file.
const FORMS: [(&str, usize); 11] = [
    ("run_protocol0.pickle", 248),
    ("run_protocol1.pickle", 248),
    ("run_protocol2.pickle", 248),
    ("run_protocol3.pickle", 248),
    ("run_protocol4.pickle", 248),
    ("run_protocol5.pickle", 248),
    ("run_protocol4.pickle.gz", 200),
    ("run_protocol4.zip", 200),
    ("run_torchsave.pt", 248),
    ("run_trace_plot.html", 248),
    ("run.dump.json.gz", 200),
];

/// Half a file: the segments, which come first, are whole, and so is the first part of the trace.
#[test]
fn half_a_file_gives_its_segments_and_first_events() {
    let whole = load_bytes(&format_file("run_protocol4.pickle"), &LoadOptions::default()).unwrap();
    for (name, least) in FORMS {
        let bytes = format_file(name);
        let half = &bytes[..bytes.len() / 2];
        let error = load_bytes(half, &LoadOptions::default()).err().unwrap_or_else(|| panic!("{name}")).to_string();
        let advises = error.contains("--salvage") || name.ends_with(".zip") || name.ends_with(".pt");
        assert!(advises, "{name}: {error}");

        let found = salvage(half).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.segments.len(), whole.segments.len(), "{name}");
        assert_eq!(found.blocks, whole_blocks(&found, &whole), "{name}");
        let count = found.events.len();
        assert!((least..585).contains(&count), "{name}: {count}");
        for row in 0..count {
            // Interned numbers may differ; what was recorded may not.
            assert_eq!(common::event(&found, row, true), common::event(&whole, row, true), "{name}");
        }
        assert_eq!(missing(&found), format!("the trace of device 0 after its first {count} entries"), "{name}");
        assert!(found.devices[0].cut && found.devices[0].consistent, "{name}");
        // The settings come last: that they are not there must not date the file.
        assert_eq!(found.format.torch_below, None, "{name}");
    }
}

/// The blocks of `whole`, with the numbers that `found` has for their stacks.
fn whole_blocks(found: &Snapshot, whole: &Snapshot) -> Vec<oomscope::snapshot::Block> {
    let same = found.blocks.iter().zip(&whole.blocks);
    same.map(|(found, whole)| oomscope::snapshot::Block { stack: found.stack, forward: found.forward, ..*whole })
        .collect()
}

/// What is missing depends on where the file breaks off.
#[test]
fn what_is_missing_is_named() {
    let bytes = format_file("run_protocol4.pickle");
    let mut kinds = Vec::new();
    for percent in 0..100 {
        match salvage(&bytes[..bytes.len() * percent / 100]) {
            Ok(found) => {
                let what = missing(&found);
                kinds.push(
                    what.trim_matches(|c: char| !c.is_alphabetic()).split(char::is_numeric).next().unwrap().to_owned(),
                );
                let reported = found.segments.len() + found.events.len();
                assert!(reported > 0, "{percent} %");
            }
            Err(LoadError::NothingToSalvage(_) | LoadError::Empty) => kinds.push("everything".to_owned()),
            Err(error) => panic!("{percent} %: {error}"),
        }
    }
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "everything",
            "segments after the first ",
            "the trace of device ",
            "what follows the traces (settings, annotations"
        ]
    );
}

/// Figures of the time before the dump need the lost events: they are not given.
#[test]
fn a_cut_trace_gives_no_peak() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let bytes = format_file("run_protocol4.pickle");
    file.write_all(&bytes[..bytes.len() / 2]).unwrap();
    let path = file.path().to_str().unwrap();
    let refused = oomscope(["report", path]);
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""));
    assert!(
        refused.stderr.contains("cut off at byte 24322") && refused.stderr.contains("--salvage"),
        "{}",
        refused.stderr
    );

    let report = oomscope(["report", "--salvage", path]);
    assert_eq!(report.status, 2);
    for expected in [
        "salvaged: the file breaks off at byte 24322",
        "Missing: the trace of device 0 after its first 248 entries",
        "MEMORY at the end",
        "the file breaks off after event 247",
    ] {
        assert!(report.stdout.contains(expected), "{expected}: {}", report.stdout);
    }
    for wrong in ["peak", "before the recording", "recording began late"] {
        assert!(!report.stdout.contains(wrong), "{wrong}: {}", report.stdout);
    }
}

/// Something done to the bytes of a file.
type Damage = fn(&mut Vec<u8>);

/// Damage in the middle is not skipped: what lies behind it cannot be trusted.
#[test]
fn damage_in_the_middle_is_an_error() {
    let cases: [(&str, Damage, &str); 6] = [
        ("an unknown opcode", |bytes| bytes[20_000..20_400].fill(0xfe), "the file is damaged"),
        ("a hole", |bytes| drop(bytes.drain(20_000..30_000)), "at byte "),
        ("zeros", |bytes| bytes[20_000..].fill(0), "the file is damaged"),
        ("a call", |bytes| bytes[20_000..20_400].fill(b'R'), "at byte "),
        ("another beginning", |bytes| bytes[..400].fill(b'a'), "is not a pickle"),
        ("nothing", Vec::clear, "is empty"),
    ];
    for (name, damage, expected) in cases {
        let mut bytes = format_file("run_protocol4.pickle");
        damage(&mut bytes);
        for salvage in [false, true] {
            let error = load_bytes(&bytes, &LoadOptions { salvage, ..LoadOptions::default() }).err();
            let error = error.unwrap_or_else(|| panic!("{name}")).to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }
}

/// A snapshot in protocol 0 with two segments, three entries, and `change` made to it.
fn text(change: (&str, &str)) -> Snapshot {
    let block = |address: u64, size: u64| {
        format!(
            "(lp9\n(dVaddress\nI{address}\nsVsize\nI{size}\nsVrequested_size\nI{size}\nsVstate\nVactive_allocated\nsa"
        )
    };
    let segment = |address: u64| {
        format!("(dVdevice\nI0\nsVaddress\nI{address}\nsVtotal_size\nI512\nsVblocks\n{}sa", block(address, 512))
    };
    let entry = |addr: u64| format!("(dVaction\nValloc\nsVaddr\nI{addr}\nsVsize\nI512\nsa");
    let pickle = format!(
        "(dp0\nVsegments\n(lp1\n{}{}sVdevice_traces\n(lp2\n(lp3\n{}{}{}as.",
        segment(4096),
        segment(8192),
        entry(4096),
        entry(8192),
        entry(12288),
    );
    let changed = pickle.replacen(change.0, change.1, 1);
    assert!(change.0.is_empty() || changed != pickle, "{change:?}");
    load_bytes(changed.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{change:?}: {error}"))
}

/// Wrong values in a file that is complete: everything else is read, and what cannot be right is said.
#[test]
fn wrong_values_are_said() {
    assert!(text(("", "")).warnings.is_empty());
    let cases = [
        ("I4096\nsVsize\nI512", "I4096\nsVsize\nI-5", "1 sizes are negative or above 16 TiB"),
        ("I4096\nsVsize\nI512", "I4096\nsVsize\nI1024", "its blocks are 1024 B"),
        ("Vtotal_size\nI512", "Vtotal_size\nI99999999999999999999999", "1 sizes are negative or above 16 TiB"),
        ("Vdevice\nI0", "Vdevice\nI-77", "1 items of `segments` are not readable"),
        ("Vdevice\nI0", "Vdevice\nI4000", "1 items of `segments` are not readable"),
        ("Vaddress\nI8192", "Vaddress\nI4096", "overlaps the one before it"),
        ("Valloc", "Vallot", "not understood and left out: action `allot` (1 times)"),
        ("Vaddr\n", "Vadder\n", "not understood and left out: key `adder` of a trace entry (1 times)"),
        ("(dVaction", "(dVreaction", "1 items of `device_traces` are not readable"),
    ];
    for (from, to, expected) in cases {
        let found = text((from, to));
        let warnings: Vec<String> = found.warnings.iter().map(ToString::to_string).collect();
        assert!(warnings.iter().any(|warning| warning.contains(expected)), "{to}: {warnings:?}");
        assert!(found.segments.len() + found.events.len() >= 4, "{to}");
    }
}

/// Whatever keys the program gives its annotations, they stay annotations.
#[test]
fn an_annotation_with_a_key_of_an_entry_is_no_entry() {
    for key in ["action", "total_size", "state", "size", "real_size", "filename"] {
        let pickle = format!(
            "(dp0\nVsegments\n(lp1\nsVdevice_traces\n(lp2\n(lp3\nasVexternal_annotations\n(lp4\n\
             (dV{key}\nValloc\nsVstage\nVSTART\nsVname\nVstep\nsVdevice\nI0\nsVtime_us\nI7\nsas."
        );
        let found = load_bytes(pickle.as_bytes(), &LoadOptions::default());
        let found = found.unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(found.events.len(), 0, "{key}");
        assert_eq!(found.annotations.len(), 1, "{key}");
    }
}

/// A file that shrinks to nothing, or is no file at all.
#[test]
fn what_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing: PathBuf = directory.path().join("missing.pickle");
    let run = oomscope(["report", missing.to_str().unwrap()]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("cannot be opened"), "{}", run.stderr);
    let run = oomscope(["top", directory.path().to_str().unwrap()]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("is a directory"), "{}", run.stderr);
}

/// What the segments say of the dump is told as they say it, whatever the trace had come to where it breaks off: another
/// block may have taken an address since.
#[test]
fn the_dump_of_a_cut_trace_is_that_of_its_segments() {
    let bytes = std::fs::read(testdata().join("rig/2.6.0/oom_train_atoom.pickle")).unwrap();
    let mut traces_cut = 0;
    for percent in 30..100 {
        let Ok(found) = salvage(&bytes[..bytes.len() * percent / 100]) else { continue };
        let Some(device) = found.devices.first().filter(|device| device.cut && !device.events.is_empty()) else {
            continue;
        };
        traces_cut += 1;
        let history = History::new(&found, device, &found.settings.rules);
        let state = history.state(history.events());
        let told = state.blocks.iter().map(|block| (block.addr, block.bytes, block.is_pending, block.stack));
        let segments = found.segments_of(device).iter().flat_map(|segment| found.blocks_of(segment));
        let active = segments.filter(|block| block.is_active());
        let expected = active.map(|block| (block.address, block.size, block.state == BlockState::Pending, block.stack));
        assert!(told.eq(expected), "cut at {percent} %");
    }
    assert!(traces_cut > 20, "{traces_cut}");
}
