//! Damaged and hostile snapshots: an error or an answer, never a panic, and no more memory than in proportion.

use proptest::prelude::*;

use super::*;
use crate::pickle::write::{PickleWriter, Result as WriteResult};
use crate::snapshot::{BlockState, StackId, Writer};

fn load_bytes(bytes: &[u8], salvage: bool) -> Result<Snapshot, LoadError> {
    super::load_bytes(bytes, &LoadOptions { salvage, ..LoadOptions::default() })
}

/// A snapshot that `write` writes with the crate's own writer.
fn snapshot(write: impl FnOnce(&mut PickleWriter<Vec<u8>>) -> WriteResult<()>) -> Snapshot {
    let mut pickle = PickleWriter::new(Vec::new());
    write(&mut pickle).unwrap();
    load_bytes(&pickle.finish().unwrap(), false).unwrap_or_else(|error| panic!("{error}"))
}

fn format_file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/formats").join(name)).unwrap()
}

/// One change of some bytes at a place given as a fraction of the file.
#[derive(Clone, Debug)]
enum Damage {
    Set(f64, u8),
    Remove(f64, usize),
    Insert(f64, Vec<u8>),
    Repeat(f64, usize),
    Cut(f64),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = 0.0..1.0f64;
    let opcodes = prop::sample::select(b"()]}.012NaeldtsuKMJXh\x85\x86\x87\x8a\x8c\x94\x95\xff".to_vec());
    prop_oneof![
        4 => (at.clone(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        4 => (at.clone(), opcodes.clone()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        2 => (at.clone(), 1..40usize).prop_map(|(at, length)| Damage::Remove(at, length)),
        2 => (at.clone(), prop::collection::vec(opcodes, 1..10)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => (at.clone(), 1..3000usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
        1 => at.prop_map(Damage::Cut),
    ]
}

fn apply(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        let place = |at: f64| (at * bytes.len() as f64) as usize;
        let range = |at: f64, length: usize| place(at)..(place(at) + length).min(bytes.len());
        match damage {
            _ if bytes.is_empty() => {}
            Damage::Set(at, byte) => {
                let at = place(*at);
                bytes[at] = *byte;
            }
            Damage::Remove(at, length) => {
                bytes.drain(range(*at, *length));
            }
            Damage::Insert(at, inserted) => {
                let at = place(*at);
                bytes.splice(at..at, inserted.iter().copied());
            }
            Damage::Repeat(at, length) => {
                let range = range(*at, *length);
                bytes.extend_from_within(range.clone());
                bytes[range.start..].rotate_right(range.len());
            }
            Damage::Cut(at) => bytes.truncate(place(*at)),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_files_answer(
        name in prop::sample::select(vec![
            "run_protocol0.pickle", "run_protocol1.pickle", "run_protocol4.pickle", "run_torchsave.pt", "run_trace_plot.html",
            "run.dump.json.gz", "run_protocol4.pickle.zst",
        ]),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let bytes = apply(format_file(name), &damages);
        for salvage in [false, true] {
            if let Ok(snapshot) = load_bytes(&bytes, salvage) {
                // Every handle leads somewhere.
                for segment in &snapshot.segments {
                    snapshot.blocks_of(segment);
                    snapshot.stacks.get(segment.stack);
                }
                for device in &snapshot.devices {
                    snapshot.segments_of(device);
                    for row in device.events.clone() {
                        let event = snapshot.events.get(row);
                        snapshot.text(event.user_metadata);
                        let _ = (snapshot.streams[event.stream.index()], snapshot.pools[event.pool.index()]);
                        for frame in snapshot.stacks.get(event.stack) {
                            snapshot.text(snapshot.frame(*frame).name);
                        }
                    }
                }
            }
        }
    }
}

/// Writes a dict of `pairs` whose values are numbers, then whatever `more` writes.
fn dict(
    w: &mut PickleWriter<Vec<u8>>,
    pairs: &[(&str, u64)],
    more: impl FnOnce(&mut PickleWriter<Vec<u8>>) -> WriteResult<()>,
) -> WriteResult<()> {
    w.begin_dict()?;
    for (key, value) in pairs {
        w.key(key)?;
        w.u64(*value)?;
    }
    more(w)?;
    w.end()
}

fn state(w: &mut PickleWriter<Vec<u8>>, state: &str) -> WriteResult<()> {
    w.key("state")?;
    w.interned(state)
}

/// Sums of sizes at the limits must not overflow.
#[test]
fn sizes_at_the_limit_do_not_overflow() {
    let huge = snapshot(|w| {
        w.begin_list()?;
        dict(w, &[("address", u64::MAX), ("total_size", u64::MAX)], |w| {
            w.key("blocks")?;
            w.begin_list()?;
            // 2^44 each, at most: 2^64 together.
            (0..1 << 20).try_for_each(|_| {
                let sizes = [("address", u64::MAX), ("size", u64::MAX), ("requested_size", u64::MAX)];
                dict(w, &sizes, |w| state(w, "active_allocated"))
            })?;
            w.end()
        })?;
        w.end()
    });
    assert!(!huge.devices[0].consistent);
    assert!(huge.warnings.iter().any(|warning| matches!(warning, Warning::ImplausibleSizes(1_048_577..))));
}

/// A few bytes that refer to the same list again and again are not worth a copy of it each.
#[test]
fn shared_rows_are_not_multiplied() {
    const MANY: usize = 3000;
    let loaded = snapshot(|w| {
        w.begin_dict()?;
        w.key("segments")?;
        w.begin_list()?;
        let mut blocks = None;
        dict(w, &[("address", 4096), ("total_size", 512)], |w| {
            w.key("blocks")?;
            w.begin_list()?;
            blocks = Some(w.share()?);
            (0..MANY).try_for_each(|_| dict(w, &[("address", 4096), ("size", 512)], |w| state(w, "inactive")))?;
            w.end()
        })?;
        let segment = w.share()?;
        (0..MANY).try_for_each(|_| w.refer(segment))?;
        for _ in 0..MANY {
            dict(w, &[("address", 8192), ("total_size", 512)], |w| {
                w.key("blocks")?;
                w.refer(blocks.unwrap())
            })?;
        }
        w.end()?;
        w.key("device_traces")?;
        w.begin_list()?;
        w.begin_list()?;
        let trace = w.share()?;
        // Not the rows that follow each other: the second comes first.
        let entry = |w: &mut PickleWriter<Vec<u8>>| {
            w.begin_dict()?;
            w.key("action")?;
            w.interned("alloc")?;
            w.end()
        };
        entry(w)?;
        let first = w.share()?;
        w.refer(first)?;
        (0..MANY).try_for_each(|_| entry(w))?;
        w.end()?;
        (0..MANY).try_for_each(|_| w.refer(trace))?;
        w.end()?;
        w.end()
    });
    assert!(loaded.blocks.len() < 3 * MANY, "{} blocks", loaded.blocks.len());
    assert!(loaded.segments.len() < 3 * MANY, "{} segments", loaded.segments.len());
    assert!(loaded.events.len() < 4 * MANY, "{} events", loaded.events.len());
}

/// Settings that hold each other many times over are cut, not spelled out.
#[test]
fn shared_settings_are_not_multiplied() {
    let loaded = snapshot(|w| {
        w.begin_dict()?;
        w.key("segments")?;
        w.begin_list()?;
        w.end()?;
        w.key("allocator_settings")?;
        let keys: Vec<String> = (0..300).map(|key| key.to_string()).collect();
        let mut inner = None;
        // The innermost dict first, kept under keys of no meaning.
        w.begin_dict()?;
        for level in 0..5 {
            w.key(&format!("level {level}"))?;
            w.begin_dict()?;
            for key in &keys {
                w.key(key)?;
                match inner {
                    None => w.u64(1)?,
                    Some(inner) => w.refer(inner)?,
                }
            }
            w.end()?;
            inner = Some(w.share()?);
        }
        w.end()?;
        w.end()
    });
    assert_eq!(loaded.settings.stated.len(), 5);
}

/// A list that is used as a stack, then grows, again and again.
#[test]
fn growing_stacks_stay_small() {
    const MANY: usize = 3000;
    let mut bytes = b"\x80\x02}(X\x08\0\0\0segments](e".to_vec();
    bytes.extend(
        b"X\x0d\0\0\0device_traces](]((X\x06\0\0\0actionq\x01X\x05\0\0\0allocq\x02X\x06\0\0\0framesq\x03]q\x041",
    );
    for _ in 0..MANY {
        // Appends a line, then takes the list as the frames of an entry.
        bytes.extend(b"h\x04h\x02a0}(h\x01h\x02h\x03h\x04u");
    }
    bytes.extend(b"eeu.");
    let loaded = load_bytes(&bytes, false).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.events.len(), MANY);
    let frames: usize = (0..loaded.stacks.len()).map(|id| loaded.stacks.get(StackId(id as u32)).len()).sum();
    assert!(frames < 20 * MANY, "{frames} frames");
}

/// Keys that come one by one, in any order, make the same row as keys that come together.
#[test]
fn rows_may_grow_key_by_key() {
    let pickle = |body: &str| format!("(dVsegments\n(l(d{body}asVdevice_traces\n(ls.").into_bytes();
    let block = "Vblocks\n(l(dVstate\nVactive_allocated\nsVsize\nI512\ns";
    let segment = "Vtotal_size\nI512\nsVaddress\nI4096\ns";
    for (rest, requested) in [
        ("Vrequested_size\nI100\nsVaddress\nI4096\nsas", 100),
        ("Vaddress\nI4096\nsVrequested_size\nI100\nsas", 100),
        ("Vhistory\n(l(dVreal_size\nI90\nsVaddr\nI4096\nsVframes\n(lsasas", 90),
        ("Vhistory\n(l(dVaddr\nI4096\nsVreal_size\nI90\nsasas", 90),
    ] {
        let bytes = pickle(&format!("{segment}{block}{rest}"));
        let loaded = load_bytes(&bytes, false).unwrap_or_else(|error| panic!("{error}: {}", bytes.escape_ascii()));
        assert_eq!(loaded.blocks.len(), 1, "{rest}");
        assert_eq!(loaded.blocks[0].requested, requested, "{rest}");
        assert_eq!((loaded.blocks[0].state, loaded.blocks[0].address), (BlockState::Allocated, 4096));
        assert_eq!(loaded.segments[0].total_size, 512);
    }
}

/// Rows that get keys after they were put in a list and read as what they are.
#[test]
fn rows_may_grow_after_they_were_used() {
    let bytes = b"\x80\x02}(X\x08\0\0\0segments]}(X\x0a\0\0\0total_sizeM\0\x02X\x06\0\0\0blocks]}(X\x04\0\0\0sizeM\0\x02\
        X\x05\0\0\0stateX\x10\0\0\0active_allocatedu\
        X\x0e\0\0\0requested_sizeK\x64sau}(X\x04\0\0\0nameX\x01\0\0\0aX\x05\0\0\0stageX\x05\0\0\0STARTuX\x07\0\0\0time_usK\x07s0\
        au.";
    let loaded = load_bytes(bytes, false).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.blocks[0].requested, 100);
    assert_eq!(loaded.annotations[0].time_us, 7);
}

/// An empty tuple is not an empty batch, by which the C++ writer is told.
#[test]
fn an_empty_tuple_is_pythons() {
    let loaded = load_bytes(b"\x80\x02}(X\x08\0\0\0segments]X\x05\0\0\0other)u.", false).unwrap();
    assert_eq!(loaded.format.writer, Writer::Python);
    let loaded = load_bytes(b"\x80\x02}(X\x08\0\0\0segments](eu.", false).unwrap();
    assert_eq!(loaded.format.writer, Writer::Cpp);
}
