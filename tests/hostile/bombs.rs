//! A few opcodes again and again: what costs a byte or two in the file, and much more in memory.

use std::io::Write;
use std::time::{Duration, Instant};

use oomscope::analysis::failures::failures;
use oomscope::history::History;
use oomscope::snapshot::{LoadError, LoadOptions, load_bytes};

use super::exercise::{everything, exercise};
use super::{alone, processor_time, took, within_limits};

/// A pickle that begins as a snapshot, and then has `unit` again and again up to `length` bytes.
fn repeated(start: &[u8], unit: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = start.to_vec();
    while bytes.len() < length {
        bytes.extend_from_slice(unit);
    }
    bytes
}

/// Memoised names: 0 the key `action`, 1 `alloc`, 2 `size`, 3 `state`, 4 `total_size`, 5 `frames`, 6 `name`,
/// 7 `filename`, 8 `line`, 9 `stage`, 10 `segments`, 11 `device_traces`, 12 `device`, 13 `addr`, 14 `real_size`.
fn names() -> Vec<u8> {
    let names = [
        "action",
        "alloc",
        "size",
        "state",
        "total_size",
        "frames",
        "name",
        "filename",
        "line",
        "stage",
        "segments",
        "device_traces",
        "device",
        "addr",
        "real_size",
        "blocks",
        "free_completed",
        "segment_alloc",
        "oom",
    ];
    let mut bytes = b"\x80\x04".to_vec();
    for name in names {
        bytes.extend([0x8c, name.len() as u8]);
        bytes.extend(name.as_bytes());
        bytes.extend([0x94, b'0']);
    }
    bytes
}

/// A dict with `segments`, `device_traces` and what is to follow in the trace of device 0.
fn in_trace() -> Vec<u8> {
    [&names()[..], b"}(h\x0a]h\x0b](]("].concat()
}

/// A dict whose `segments` are being listed.
fn in_segments() -> Vec<u8> {
    [&names()[..], b"}(h\x0b](]eh\x0a]("].concat()
}

/// The opcodes of one repetition, by its number.
type Numbered<'a> = &'a dyn Fn(u32) -> Vec<u8>;

#[test]
fn opcodes_cost_in_proportion() {
    let _alone = alone();
    let many = 4 << 20;
    let counted = |unit: &dyn Fn(u32) -> Vec<u8>, start: &[u8]| {
        let mut bytes = start.to_vec();
        let mut number = 0;
        while bytes.len() < many {
            bytes.extend(unit(number));
            number += 1;
        }
        bytes
    };
    let start = names();
    let plain: [(&str, &[u8]); 22] = [
        ("tuples of one", b"\x85"),
        ("tuples of one, kept", b"\x85\x94"),
        ("pairs of pairs", b"2\x86"),
        ("pairs of lists", b"]]\x860"),
        ("tuples of three", b"22\x87"),
        ("empty lists", b"]0"),
        ("empty lists, kept", b"]\x94"),
        ("empty dicts", b"}0"),
        ("empty tuples", b")0"),
        ("lists of one", b"]Na0"),
        ("lists in lists", b"]a"),
        ("dicts of one pair", b"}NNs0"),
        ("floats", b"F1\n0"),
        ("floats on the stack", b"F1\n"),
        ("numbers", b"K\x01"),
        ("memo entries", b"\x94"),
        ("marks", b"("),
        ("copies", b"2"),
        ("lists of marks", b"(l"),
        ("segments", b"}h\x04K\x01s0"),
        ("entries", b"}h\x00h\x01s0"),
        ("blocks", b"}(h\x02K\x01h\x03h\x03u0"),
    ];
    for (name, unit) in plain {
        let bytes = repeated(&[&start[..], b"]N"].concat(), unit, many);
        assert!(within_limits(name, bytes.len(), || exercise(&bytes)).is_err(), "{name}");
    }
    let numbered: [(&str, Numbered); 8] = [
        ("distinct texts", &|n| [&[0x8c, 3][..], &n.to_le_bytes()[..3], b"0"].concat()),
        ("distinct texts, kept", &|n| [&[0x8c, 3][..], &n.to_le_bytes()[..3], b"\x94"].concat()),
        ("distinct pairs", &|n| [b"h\x01M", &n.to_le_bytes()[..2], b"\x860"].concat()),
        ("distinct frames", &|n| [b"}(h\x06h\x01h\x07h\x01h\x08J", &n.to_le_bytes()[..], b"u0"].concat()),
        ("far memo entries", &|n| [b"Nr", &(n << 12).to_le_bytes()[..], b"0"].concat()),
        ("keys without meaning", &|n| [b"}(h\x00h\x01\x8c\x03", &n.to_le_bytes()[..3], b"Nu0"].concat()),
        ("actions without meaning", &|n| [b"}h\x00\x8c\x03", &n.to_le_bytes()[..3], b"s0"].concat()),
        ("stacks", &|n| [b"](}(h\x06h\x01h\x07h\x01h\x08J", &n.to_le_bytes()[..], b"ue0"].concat()),
    ];
    for (name, unit) in numbered {
        let bytes = counted(unit, &start);
        assert!(within_limits(name, bytes.len(), || exercise(&bytes)).is_err(), "{name}");
    }
}

/// Files that are well formed, and so go through all commands.
#[test]
fn reports_cost_in_proportion() {
    let _alone = alone();
    let address = |n: u32| (u64::from(n) * 512 + (1 << 40)).to_le_bytes();
    let long = |n: u32| [&[0x8a, 8][..], &address(n)].concat();
    let entry = |action: u8, n: u32| [&b"}(h\x00h"[..], &[action], b"h\x0d", &long(n), b"h\x02M\0\x02u"].concat();
    let segment = |n: u32, device: &[u8]| {
        [&b"}(h\x04M\0\x02\x8c\x07address"[..], &long(n), b"h\x0c", device, b"h\x0f](}(h\x02M\0\x02h\x03h\x03ueu"]
            .concat()
    };
    let repeat = |start: Vec<u8>, end: &[u8], length: usize, unit: &dyn Fn(u32) -> Vec<u8>| {
        let mut bytes = start;
        for number in 0.. {
            if bytes.len() >= length {
                break;
            }
            bytes.extend(unit(number));
        }
        bytes.extend_from_slice(end);
        bytes
    };
    let end: &[u8] = b"eeu.";
    let mega = 1 << 20;
    let long_name = |n: u32| {
        let mut unit = b"}(h\x06X".to_vec();
        unit.extend(200_000u32.to_le_bytes());
        unit.extend(vec![b'0' + (n % 10) as u8; 199_996]);
        unit.extend(n.to_le_bytes());
        unit.extend(b"u0");
        [unit, entry(1, n)].concat()
    };
    let framed = |n: u32| {
        // Every entry at a line of its own in a file with a long name, which is memoised as 19.
        [
            &b"}(h\x00h\x01h\x0d"[..],
            &long(n),
            b"h\x02M\0\x02h\x05](}(h\x06h\x01h\x07h\x13h\x08J",
            &n.to_le_bytes(),
            b"ueu",
        ]
        .concat()
    };
    let named = || {
        let mut bytes = names();
        bytes.extend([b'X']);
        bytes.extend(60_000u32.to_le_bytes());
        bytes.extend(vec![b'/'; 60_000]);
        bytes.extend(b"\x940}(h\x0a]h\x0b](](");
        bytes
    };
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("live blocks", repeat(in_trace(), end, mega, &|n| entry(1, n))),
        ("blocks that come and go", repeat(in_trace(), end, mega, &|n| entry(if n % 2 == 0 { 1 } else { 16 }, n / 2))),
        ("the same block", repeat(in_trace(), end, mega, &|_| entry(1, 7))),
        ("frees of nothing", repeat(in_trace(), end, mega, &|n| entry(16, n))),
        ("segments in the trace", repeat(in_trace(), end, mega, &|n| entry(17, n))),
        ("failures", repeat(in_trace(), end, mega, &|n| entry(18, n))),
        ("failures between blocks", repeat(in_trace(), end, mega, &|n| entry(if n % 8 == 0 { 18 } else { 1 }, n))),
        ("short entries", repeat(in_trace(), end, mega, &|_| b"}h\x00h\x01s".to_vec())),
        ("many segments", repeat(in_segments(), b"eu.", mega, &|n| segment(n, b"K\x00"))),
        ("segments over each other", repeat(in_segments(), b"eu.", mega, &|_| segment(3, b"K\x00"))),
        ("many devices", repeat(in_segments(), b"eu.", mega, &|n| segment(n, &[&b"J"[..], &n.to_le_bytes()].concat()))),
        (
            "many traces",
            repeat([&names()[..], b"}(h\x0a]h\x0b]("].concat(), b"eu.", mega, &|n| {
                [b"](", &entry(1, n)[..], b"e"].concat()
            }),
        ),
        ("empty traces", repeat([&names()[..], b"}(h\x0a]h\x0b]("].concat(), b"eu.", mega, &|_| b"]".to_vec())),
        (
            "one entry, shared",
            repeat([in_trace(), entry(1, 1), b"\x94".to_vec()].concat(), end, mega, &|_| b"h\x13".to_vec()),
        ),
        ("long names", repeat(in_trace(), end, mega, &long_name)),
        ("lines of a long name", repeat(named(), end, mega, &framed)),
    ];
    for (name, bytes) in files {
        within_limits(name, bytes.len(), || {
            if let Err(error) = everything(&bytes) {
                assert!(matches!(error, LoadError::OutOfProportion { .. }), "{name}: {error}");
            }
        });
    }
}

/// The memory at each of many failures is not worked out from the start: four times the failures between four times the
/// blocks take four times as long, not sixteen times.
#[test]
fn failures_cost_in_proportion() {
    let _alone = alone();
    let time = |entries: u32| {
        let start: u64 = 1 << 40;
        let long = |value: u64| [&[0x8a, 8][..], &value.to_le_bytes()].concat();
        let bytes = long(u64::from(entries) * 1024);
        let segment = [
            &b"}(h\x04"[..],
            &bytes,
            b"\x8c\x07address",
            &long(start),
            b"h\x0cK\x00h\x0f](}(h\x02",
            &bytes,
            b"h\x03\x8c\x08inactiveueu",
        ];
        let mut pickle = [&names()[..], b"}(h\x0a](", &segment.concat(), b"eh\x0b](]("].concat();
        for number in 0..entries {
            let action = if number % 8 == 7 { 18 } else { 1 };
            let addr = long(start + u64::from(number) * 1024);
            pickle.extend([&b"}(h\x00h"[..], &[action], b"h\x0d", &addr, b"h\x02M\0\x02u"].concat());
        }
        pickle.extend(b"eeu.");
        let snapshot = load_bytes(&pickle, &LoadOptions::default()).unwrap();
        let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
        let (started, used) = (Instant::now(), processor_time());
        let failures = failures(&history);
        let took = took(started, used);
        assert_eq!(failures.len() as u32, entries / 8);
        assert!(failures.iter().all(|failure| failure.totals.stranded.is_some()), "what is measured is the full work");
        took
    };
    let (few, many) = (time(100_000), time(400_000));
    println!("{few:?} for 12 500 failures, {many:?} for 50 000");
    assert!(many < 8 * few.max(Duration::from_millis(50)), "{few:?}, then {many:?}");
}

#[test]
fn nesting_costs_in_proportion() {
    let _alone = alone();
    for (name, unit) in [("lists", &b"]"[..]), ("dicts", b"}"), ("marks", b"("), ("batches", b"]("), ("JSON", b"[")] {
        let bytes = match name {
            "JSON" => unit.repeat(1 << 20),
            _ => repeated(b"\x80\x04", unit, 1 << 20),
        };
        assert!(within_limits(name, bytes.len(), || exercise(&bytes)).is_err());
    }
    for unit in [&b"[],"[..], b"1,", b"{},", b"\"a\",", b"1.5,", b"{\"a\":1},"] {
        let bytes = repeated(b"{\"segments\": [", unit, 4 << 20);
        let name = format!("JSON {}", String::from_utf8_lossy(unit));
        assert!(within_limits(&name, bytes.len(), || exercise(&bytes)).is_err());
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Packed zeros unpack to a thousand times their size and more. What is packed into them is not believed either.
#[test]
fn packed_bombs_are_refused() {
    let _alone = alone();
    let length = 300 << 20;
    let kinds: [(&str, &[u8], u8); 4] = [
        ("pickle", b"\x80\x04", b'N'),
        ("JSON", b"{\"segments\": \"", b' '),
        ("page", b"<html>", b' '),
        ("text", b"\x80\x04X\0\0\0\x7f", b' '),
    ];
    for (name, start, byte) in kinds {
        let mut bytes = vec![byte; length];
        bytes[..start.len()].copy_from_slice(start);
        let gzipped = gzip(&bytes);
        let zstd = zstd::encode_all(&bytes[..], 1).unwrap();
        drop(bytes);
        for (wrapping, packed) in [("gzip", &gzipped), ("zstd", &zstd)] {
            // A JSON text must be whole before it is judged: what was unpacked of it is in memory.
            let length = if name == "JSON" { 64 << 20 } else { packed.len() };
            within_limits(&format!("{name} in {wrapping}"), length, || {
                let error = exercise(packed).unwrap_err();
                assert!(
                    matches!(error, LoadError::Expands | LoadError::OutOfProportion { .. } | LoadError::Pickle(_)),
                    "{name} in {wrapping}: {error}"
                );
            });
        }
    }
}
