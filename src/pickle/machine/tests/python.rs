//! The machine against Python's own pickler, against serde-pickle, and against the writer.

use std::process::Command;

use serde_pickle::{DeOptions, HashableValue};

use super::super::super::opcode::describe;
use super::super::super::write::PickleWriter;
use super::super::super::{Tree, Value};
use super::{Bool, Float, Int, List, UInt, cases, dict, ints, text};

/// What `python3 -c script` prints; `None` without python3.
fn python(script: &str) -> Option<String> {
    let Ok(output) = Command::new("python3").args(["-c", script]).output() else {
        println!("skipped: python3 is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn opcodes_have_pythons_names() {
    let script = "import pickletools\nfor o in pickletools.opcodes: print(ord(o.code), o.name)";
    let Some(printed) = python(script) else { return };
    let ours = |code: u8| describe(code).map(|(name, _)| name);
    let theirs = |code: u8| printed.lines().find_map(|line| line.strip_prefix(&format!("{code} ")));
    for code in 0..=255 {
        assert_eq!(ours(code), theirs(code), "{code:#x}");
    }
}

/// Plain data of every kind, as Python source and as what it should become.
fn data() -> (&'static str, Value) {
    let source = "[None, True, False, 0, 1, -1, 255, 256, 65535, 65536, 2**31-1, 2**31, -2**31, -2**31-1, 2**62, 2**63-1, \
                  -2**63, 2**63, 2**64-1, 2**64, -2**63-1, 2**2040, 1.5, -0.0, float('inf'), '', 'a', 'é€😀', 'a\\n\\\\u0041\\'\"\\0', \
                  'x'*300, 'y'*70000, b'ab', b'', bytes(range(97, 123))*20, (), (1,), (1,2), (1,2,3), (1,2,3,4), [], [1], \
                  list(range(2501)), {}, {'a': 1}, {f'{i:04}': i for i in range(2501)}, {1}, frozenset([2]), shared, shared, \
                  [shared, (shared, shared)], many, bytearray(b'ba')]";
    let batch: Vec<i64> = (0..2501).collect();
    let names: Vec<String> = batch.iter().map(|n| format!("{n:04}")).collect();
    let pairs: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(batch.iter().copied()).collect();
    let shared = || Value::Dict(vec![(text("k"), List(vec![text("v")]))]);
    let mut values = vec![Value::None, Bool(true), Bool(false)];
    values.extend([0, 1, -1, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, -(1 << 31)].map(Int));
    values.extend([-(1 << 31) - 1, 1 << 62, i64::MAX, i64::MIN].map(Int));
    values.extend([UInt(1 << 63), UInt(u64::MAX)]);
    values.extend([2f64.powi(64), -(2f64.powi(63)), f64::INFINITY, 1.5, -0.0, f64::INFINITY].map(Float));
    values.extend(["", "a", "é€😀", "a\n\\u0041'\"\0"].map(text));
    values.extend([text(&"x".repeat(300)), text(&"y".repeat(70000))]);
    values.extend([text("ab"), text(""), text(&"abcdefghijklmnopqrstuvwxyz".repeat(20))]);
    values.extend([&[][..], &[1], &[1, 2], &[1, 2, 3], &[1, 2, 3, 4], &[], &[1], &batch].map(ints));
    values.extend([dict(&[]), dict(&[("a", 1)]), dict(&pairs), ints(&[1]), ints(&[2])]);
    values.extend([shared(), shared(), List(vec![shared(), List(vec![shared(), shared()])])]);
    // More entries than BINPUT can number.
    values.push(List((0..300).map(|n| text(&format!("s{}", n % 290))).collect()));
    values.push(text("ba"));
    (source, List(values))
}

/// Protocols below 3 have no bytes or sets, and below 5 no bytearrays: Python then pickles calls.
fn script(source: &str, protocol: u8) -> String {
    let source = match protocol {
        0..=2 => source.replace(" b'", " '").replace("bytes(range(97, 123))", "bytes(range(97, 123)).decode()"),
        _ => source.to_owned(),
    };
    let source = if protocol < 4 { source.replace("{1}, frozenset([2])", "[1], [2]") } else { source };
    let source = if protocol < 5 { source.replace("bytearray(b'ba')", "'ba'") } else { source };
    format!(
        "import pickle\nshared = {{'k': ['v']}}\nmany = [f's{{i}}' for i in range(290)]\nmany += many[:10]\n\
         print(pickle.dumps({source}, protocol={protocol}).hex())\n\
         print(pickle._dumps({source}, protocol={protocol}).hex())"
    )
}

#[test]
fn pythons_pickles_of_every_protocol() {
    let (source, expected) = data();
    for protocol in 0..=5 {
        let Some(printed) = python(&script(source, protocol)) else { return };
        // The C pickler, then the one written in Python, which batches differently.
        for line in printed.lines() {
            let bytes = unhex(line);
            assert_eq!(bytes[0] == 0x80, protocol >= 2);
            let found = Tree::load(&bytes).unwrap_or_else(|error| panic!("protocol {protocol}: {error}"));
            let (List(found), List(expected)) = (&found, &expected) else { panic!() };
            assert_eq!(found.len(), expected.len());
            for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_eq!(found, expected, "protocol {protocol}, item {at}");
            }
            for piece in [1, 2, 3, 7, 4096] {
                assert!(
                    Tree::load_in_pieces(&bytes, piece).as_ref() == Ok(&List(expected.clone())),
                    "{protocol}, {piece}"
                );
            }
        }
    }
}

/// What serde-pickle decoded, in our terms.
fn from_serde(value: serde_pickle::Value) -> Value {
    use serde_pickle::Value as Theirs;
    match value {
        Theirs::None => Value::None,
        Theirs::Bool(value) => Bool(value),
        Theirs::I64(value) => Int(value),
        // Its big integers are those that do not fit 64 signed bits.
        Theirs::Int(value) => {
            value.to_string().parse().map_or_else(|_| Float(value.to_string().parse().unwrap()), UInt)
        }
        Theirs::F64(value) => Float(value),
        Theirs::String(value) => Value::Text(value),
        Theirs::Bytes(value) => Value::Text(String::from_utf8_lossy(&value).into_owned()),
        Theirs::List(items) | Theirs::Tuple(items) => List(items.into_iter().map(from_serde).collect()),
        Theirs::Set(items) | Theirs::FrozenSet(items) => List(items.into_iter().map(from_key).collect()),
        Theirs::Dict(pairs) => {
            Value::Dict(pairs.into_iter().map(|(key, value)| (from_key(key), from_serde(value))).collect())
        }
    }
}

fn from_key(key: HashableValue) -> Value {
    from_serde(key.into_value())
}

#[test]
fn serde_pickle_agrees_where_it_can_read() {
    let mut agreed = 0;
    let (source, _) = data();
    let mut pickles: Vec<Vec<u8>> = cases().iter().map(|(opcodes, _)| opcodes.concat()).collect();
    let of_python = (0..=5).filter_map(|protocol| python(&script(source, protocol)));
    pickles.extend(of_python.flat_map(|printed| printed.lines().map(unhex).collect::<Vec<_>>()));
    for bytes in pickles {
        // It shares no containers, and stops at what Python 2 alone writes.
        if let Ok(theirs) = serde_pickle::value_from_slice(&bytes, DeOptions::new()) {
            assert_eq!(Tree::load(&bytes), Ok(from_serde(theirs)), "{}", bytes.escape_ascii());
            agreed += 1;
        }
    }
    println!("{agreed} pickles agree");
    assert!(agreed >= 35);
}

/// Writes `value` with the crate's own writer.
fn write(pickle: &mut PickleWriter<Vec<u8>>, value: &Value) -> super::super::super::write::Result<()> {
    match value {
        Value::None | Value::Cycle => pickle.none(),
        Bool(value) => pickle.bool(*value),
        Int(value) => pickle.i64(*value),
        UInt(value) => pickle.u64(*value),
        Float(value) => pickle.float(*value),
        Value::Text(value) if value.len() < 20 => pickle.interned(value),
        Value::Text(value) => pickle.text(value),
        List(items) if items.len() < 5 => {
            pickle.begin_tuple(items.len())?;
            items.iter().try_for_each(|item| write(pickle, item))?;
            pickle.end()
        }
        List(items) => {
            pickle.begin_list()?;
            items.iter().try_for_each(|item| write(pickle, item))?;
            pickle.end()
        }
        Value::Dict(pairs) => {
            pickle.begin_dict()?;
            for (key, value) in pairs {
                let Value::Text(key) = key else { panic!() };
                pickle.key(key)?;
                write(pickle, value)?;
            }
            pickle.end()
        }
    }
}

#[test]
fn the_writer_is_read_back() {
    let (_, expected) = data();
    for memoise in [false, true] {
        let mut pickle = PickleWriter::new(Vec::new());
        if memoise {
            pickle = pickle.memoise_everything();
        }
        write(&mut pickle, &expected).unwrap();
        let bytes = pickle.finish().unwrap();
        assert_eq!(Tree::load(&bytes).as_ref(), Ok(&expected));
        assert_eq!(Tree::load_in_pieces(&bytes, 3).as_ref(), Ok(&expected));
    }
}

/// References: the same list twice, and a list inside itself.
#[test]
fn the_writers_references_are_read_back() {
    let mut pickle = PickleWriter::new(Vec::new());
    pickle.begin_list().unwrap();
    let whole = pickle.share().unwrap();
    pickle.begin_list().unwrap();
    pickle.u64(7).unwrap();
    pickle.end().unwrap();
    let inner = pickle.share().unwrap();
    pickle.refer(inner).unwrap();
    pickle.value(&("x", u64::MAX, [1.5])).unwrap();
    pickle.refer(whole).unwrap();
    pickle.end().unwrap();
    let leaf = List(vec![text("x"), UInt(u64::MAX), List(vec![Float(1.5)])]);
    let expected = List(vec![ints(&[7]), ints(&[7]), leaf, Value::Cycle]);
    assert_eq!(Tree::load(&pickle.finish().unwrap()), Ok(expected));
}
