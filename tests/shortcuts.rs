//! The shortcuts that decoding takes where a file repeats itself change nothing.

mod common;

use std::path::{Path, PathBuf};

use common::{describe, files, is_pickle, shared_data, testdata};
use oomscope::snapshot::{LoadError, LoadOptions, Snapshot, Source, load};

fn both(path: &Path, salvage: bool) -> [Result<Snapshot, LoadError>; 2] {
    [false, true].map(|without_shortcuts| {
        let options = LoadOptions { salvage, without_shortcuts, ..LoadOptions::default() };
        load(&Source::Path(path.to_owned()), &options)
    })
}

/// Compares without writing out a line for each of millions of rows: both number what they meet in the same order.
fn assert_same_tables(with: &Snapshot, without: &Snapshot, name: &str) {
    let (a, b) = (&with.events, &without.events);
    assert!(a.action == b.action && a.addr == b.addr && a.size == b.size && a.stack == b.stack, "{name}");
    assert!((0..a.len()).all(|row| a.get(row) == b.get(row)), "{name}");
    assert!(with.blocks == without.blocks && with.segments == without.segments, "{name}");
    assert!(with.frames == without.frames && with.streams == without.streams && with.pools == without.pools, "{name}");
    assert_eq!(with.stacks.len(), without.stacks.len(), "{name}");
    for row in 0..a.len() {
        let event = a.get(row);
        assert_eq!(with.stacks.get(event.stack), without.stacks.get(event.stack), "{name}");
        for text in [event.compile_context, event.user_metadata] {
            assert_eq!(with.text(text), without.text(text), "{name}");
        }
    }
    for frame in &with.frames {
        assert_eq!(with.text(frame.name), without.text(frame.name), "{name}");
        assert_eq!(with.text(frame.filename), without.text(frame.filename), "{name}");
    }
}

fn assert_same(path: &Path) {
    let name = path.display().to_string();
    match both(path, false) {
        [Ok(with), Ok(without)] => {
            assert_same_tables(&with, &without, &name);
            if with.events.len() < 100_000 {
                assert_eq!(describe(&with), describe(&without), "{name}");
            }
            assert_eq!(format!("{:?}", with.warnings), format!("{:?}", without.warnings), "{name}");
        }
        [Err(with), Err(without)] => assert_eq!(with.to_string(), without.to_string(), "{name}"),
        [with, without] => panic!("{name}: {:?}, {:?}", with.err(), without.err()),
    }
}

#[test]
fn every_file_of_the_project() {
    let found = files(&testdata(), is_pickle);
    assert!(found.len() > 20);
    found.iter().for_each(|path| assert_same(path));
}

#[test]
fn every_file_of_the_collection() {
    let Some(data) = shared_data() else { return };
    files(&data, is_pickle).iter().for_each(|path| assert_same(path));
}

/// A file cut anywhere is salvaged alike: no shortcut does half of an opcode.
#[test]
fn cut_files() {
    let path = smallest_with_a_trace();
    let bytes = std::fs::read(&path).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let cut = directory.path().join("cut.pickle");
    for length in (1..bytes.len()).step_by(bytes.len() / 1500 + 1) {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        match both(&cut, true) {
            [Ok(with), Ok(without)] => assert_eq!(describe(&with), describe(&without), "{length} bytes"),
            [Err(with), Err(without)] => assert_eq!(with.to_string(), without.to_string(), "{length} bytes"),
            [with, without] => panic!("{length} bytes: {:?}, {:?}", with.err(), without.err()),
        }
    }
}

/// Damaged bytes are refused, or mean the same, at the same place.
#[test]
fn damaged_files() {
    let path = smallest_with_a_trace();
    let bytes = std::fs::read(&path).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let damaged = directory.path().join("damaged.pickle");
    for round in 0..1500 {
        // Spread over the file and over the byte values.
        let at = round * 7919 % bytes.len();
        let mut changed = bytes.clone();
        changed[at] = changed[at].wrapping_add(1 + (round * 31 % 255) as u8);
        std::fs::write(&damaged, &changed).unwrap();
        match both(&damaged, false) {
            [Ok(with), Ok(without)] => assert_eq!(describe(&with), describe(&without), "byte {at}"),
            [Err(with), Err(without)] => assert_eq!(with.to_string(), without.to_string(), "byte {at}"),
            [with, without] => panic!("byte {at}: {:?}, {:?}", with.err(), without.err()),
        }
    }
}

fn smallest_with_a_trace() -> PathBuf {
    let plain = files(&testdata(), |name| name.ends_with(".pickle"));
    let with_trace = plain.into_iter().filter(|path| {
        load(&Source::Path(path.clone()), &LoadOptions::default()).is_ok_and(|snapshot| snapshot.events.len() > 100)
    });
    with_trace.min_by_key(|path| path.metadata().unwrap().len()).expect("a snapshot with a trace")
}
