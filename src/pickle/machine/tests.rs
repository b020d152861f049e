//! The machine against pickles written out opcode by opcode, against Python, and against hostile input.

mod hostile;
mod python;

use super::super::opcode::describe;
use super::super::{PickleError, Tree, Value};
use Value::{Bool, Float, Int, List, UInt};

/// A pickle as its opcodes with their arguments, and what it means.
type Case = (&'static [&'static [u8]], Value);

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn ints(values: &[i64]) -> Value {
    List(values.iter().copied().map(Int).collect())
}

fn dict(pairs: &[(&str, i64)]) -> Value {
    Value::Dict(pairs.iter().map(|&(key, value)| (text(key), Int(value))).collect())
}

/// Together they use every opcode that is carried out.
fn cases() -> Vec<Case> {
    vec![
        // Constants and numbers.
        (&[b"N", b"."], Value::None),
        (&[b"(", b"\x88", b"\x89", b"I01\n", b"I00\n", b"l", b"."], List([true, false, true, false].map(Bool).into())),
        (&[b"(", b"I-5\n", b"I1\n", b"L7L\n", b"L-8L\n", b"L9\n", b"l", b"."], ints(&[-5, 1, 7, -8, 9])),
        (&[b"(", b"K\xff", b"M\xff\xff", b"J\xff\xff\xff\xff", b"J\0\0\0\x80", b"l", b"."], {
            ints(&[255, 65535, -1, i32::MIN as i64])
        }),
        (&[b"(", b"\x8a\0", b"\x8a\x01\xff", b"\x8a\x02\xff\0", b"\x8a\x08\0\0\0\0\0\0\0\x80", b"t", b"."], {
            ints(&[0, -1, 255, i64::MIN])
        }),
        (&[b"\x80\x02", b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", b"."], Int(i64::MAX)),
        (&[b"\x8a\x09\0\0\0\0\0\0\0\x80\0", b"."], UInt(1 << 63)),
        (&[b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0", b"."], UInt(u64::MAX)),
        (&[b"\x8a\x09\0\0\0\0\0\0\0\0\x01", b"."], Float(18446744073709551616.0)),
        (&[b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff", b"."], Float(-9223372036854775809.0)),
        (&[b"\x8b\0\0\0\0", b"."], Int(0)),
        (&[b"\x8b\x0b\0\0\0\x05\0\0\0\0\0\0\0\0\0\0", b"."], Int(5)),
        (&[b"L18446744073709551615L\n", b"."], UInt(u64::MAX)),
        (&[b"I-9223372036854775808\n", b"."], Int(i64::MIN)),
        (&[b"L100000000000000000000L\n", b"."], Float(1e20)),
        (&[b"(", b"F1.5\n", b"F-inf\n", b"F1e-05\n", b"G\xbf\xd0\0\0\0\0\0\0", b"t", b"."], {
            List([1.5, f64::NEG_INFINITY, 1e-5, -0.25].map(Float).into())
        }),
        // Strings and bytes.
        (&[b"S'a\\x41\\'\\n'\n", b"."], text("aA'\n")),
        (&[b"S\"it's\"\n", b"."], text("it's")),
        (&[b"T\x02\0\0\0ab", b"."], text("ab")),
        (&[b"U\x02ab", b"."], text("ab")),
        (&[b"Va\\u000a\\u005c\xe9\\U0001f600\n", b"."], text("a\n\\é😀")),
        (&[b"X\x03\0\0\0\xe2\x82\xac", b"."], text("€")),
        (&[b"\x8c\x02\xc3\xa9", b"."], text("é")),
        (&[b"\x8c\0", b"."], text("")),
        (&[b"\x8d\x02\0\0\0\0\0\0\0ab", b"."], text("ab")),
        (&[b"B\x02\0\0\0ab", b"."], text("ab")),
        (&[b"C\x02ab", b"."], text("ab")),
        (&[b"\x8e\x02\0\0\0\0\0\0\0ab", b"."], text("ab")),
        (&[b"\x80\x05", b"\x96\x02\0\0\0\0\0\0\0ab", b"."], text("ab")),
        // Tuples.
        (
            &[
                b"(", b")", b"K\x01", b"\x85", b"K\x01", b"K\x02", b"\x86", b"K\x01", b"K\x02", b"K\x03", b"\x87",
                b"t", b".",
            ],
            { List(vec![ints(&[]), ints(&[1]), ints(&[1, 2]), ints(&[1, 2, 3])]) },
        ),
        (&[b"(", b"t", b"."], ints(&[])),
        // Lists: at once, item by item, in batches, with empty batches.
        (&[b"]", b"."], ints(&[])),
        (&[b"(", b"l", b"p0\n", b"I1\n", b"a", b"I2\n", b"a", b"."], ints(&[1, 2])),
        (
            &[b"]", b"(", b"K\x01", b"K\x02", b"e", b"(", b"K\x03", b"e", b"K\x04", b"a", b"(", b"e", b"."],
            ints(&[1, 2, 3, 4]),
        ),
        // Dicts likewise.
        (&[b"}", b"(", b"u", b"."], dict(&[])),
        (&[b"(", b"d", b"p0\n", b"Va\n", b"I1\n", b"s", b"Vb\n", b"I2\n", b"s", b"."], dict(&[("a", 1), ("b", 2)])),
        (&[b"(", b"Va\n", b"I1\n", b"d", b"."], dict(&[("a", 1)])),
        (&[b"}", b"(", b"U\x01a", b"K\x01", b"U\x01b", b"K\x02", b"u", b"U\x01c", b"K\x03", b"s", b"."], {
            dict(&[("a", 1), ("b", 2), ("c", 3)])
        }),
        // Sets.
        (&[b"\x8f", b"\x94", b"(", b"K\x01", b"K\x02", b"\x90", b"."], ints(&[1, 2])),
        (&[b"(", b"K\x01", b"\x91", b"\x94", b"."], ints(&[1])),
        // The memo, whose containers are filled after they are stored.
        (&[b"(", b"I1\n", b"p7\n", b"g7\n", b"l", b"."], ints(&[1, 1])),
        (
            &[
                b"]",
                b"q\x02",
                b"(",
                b"]",
                b"r\x03\0\0\0",
                b"j\x03\0\0\0",
                b"h\x02",
                b"K\x05",
                b"a",
                b"0",
                b"h\x03",
                b"e",
                b".",
            ],
            { List(vec![Int(5), ints(&[]), ints(&[]), ints(&[])]) },
        ),
        (
            &[b"\x80\x04", b"\x95\x09\0\0\0\0\0\0\0", b"]", b"\x94", b"(", b"\x8c\x01a", b"\x94", b"h\x01", b"e", b"."],
            { List(vec![text("a"), text("a")]) },
        ),
        (&[b"K\x01", b"q\0", b"0", b"K\x02", b"q\0", b"0", b"h\0", b"."], Int(2)),
        // A gap in the numbers, and one far away.
        (
            &[
                b"K\x01",
                b"q\xff",
                b"0",
                b"K\x02",
                b"r\xff\xff\xff\xff",
                b"0",
                b"h\xff",
                b"j\xff\xff\xff\xff",
                b"\x86",
                b".",
            ],
            { ints(&[1, 2]) },
        ),
        // Stack manipulation.
        (&[b"(", b"K\x01", b"K\x02", b"0", b"2", b"t", b"."], ints(&[1, 1])),
        (&[b"K\x07", b"(", b"K\x01", b"K\x02", b"1", b"."], Int(7)),
        (&[b"K\x07", b"(", b"0", b"."], Int(7)),
        // What STOP does not pop is of no interest.
        (&[b"(", b"K\x01", b"K\x02", b"."], Int(2)),
    ]
}

#[test]
fn every_opcode_means_what_python_says() {
    let cases = cases();
    let used: Vec<u8> = cases.iter().flat_map(|(opcodes, _)| opcodes.iter().map(|opcode| opcode[0])).collect();
    for (opcode, name) in (0..=255).filter_map(|opcode| Some((opcode, describe(opcode)?))) {
        assert_eq!(used.contains(&opcode), name.1.is_none(), "{}", name.0);
    }
    for (opcodes, expected) in cases {
        let bytes = opcodes.concat();
        assert_eq!(Tree::load(&bytes).as_ref(), Ok(&expected), "{}", bytes.escape_ascii());
        let padded = [&bytes[..], &[0; 3]].concat();
        assert_eq!(Tree::load(&padded).as_ref(), Ok(&expected), "NULs behind {}", bytes.escape_ascii());
        for piece in [1, 2, 3, 7] {
            let pieces = Tree::load_in_pieces(&bytes, piece);
            assert_eq!(pieces.as_ref(), Ok(&expected), "{} in pieces of {piece}", bytes.escape_ascii());
        }
    }
}

/// Frames are for readers that read ahead: where they start, and how long they claim to be, must not matter.
#[test]
fn frames_may_stand_anywhere() {
    for (opcodes, expected) in cases() {
        let frame: &[u8] = b"\x95\xff\x01\0\0\0\0\0\x80";
        let bytes: Vec<u8> = opcodes.iter().flat_map(|opcode| [frame, opcode]).flatten().copied().collect();
        assert_eq!(Tree::load(&bytes), Ok(expected), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_cut_is_reported_where_the_incomplete_opcode_starts() {
    for (opcodes, _) in cases() {
        let bytes = opcodes.concat();
        let mut start = 0;
        for opcode in opcodes {
            for cut in start..start + opcode.len() {
                let expected = Err(PickleError::Truncated { offset: start as u64 });
                assert_eq!(Tree::load(&bytes[..cut]), expected, "{}", bytes[..cut].escape_ascii());
                assert_eq!(
                    Tree::load_in_pieces(&bytes[..cut], 2),
                    expected,
                    "{} in pieces",
                    bytes[..cut].escape_ascii()
                );
            }
            start += opcode.len();
        }
    }
}

#[test]
fn opcodes_that_do_something_are_refused_by_name() {
    // Code, name, arguments: from Python's `pickletools`.
    let refused: [(&[u8], &str); 15] = [
        (b"cos\nsystem\n", "GLOBAL"),
        (b"\x93", "STACK_GLOBAL"),
        (b"\x82\x01", "EXT1"),
        (b"\x83\x01\0", "EXT2"),
        (b"\x84\x01\0\0\0", "EXT4"),
        (b"R", "REDUCE"),
        (b"b", "BUILD"),
        (b"ios\nsystem\n", "INST"),
        (b"o", "OBJ"),
        (b"\x81", "NEWOBJ"),
        (b"\x92", "NEWOBJ_EX"),
        (b"Pname\n", "PERSID"),
        (b"Q", "BINPERSID"),
        (b"\x97", "NEXT_BUFFER"),
        (b"\x98", "READONLY_BUFFER"),
    ];
    for (opcode, expected) in refused {
        let bytes = [b"\x80\x04(K\x01K\x02", opcode, b"."].concat();
        for piece in [1, bytes.len()] {
            match Tree::load_in_pieces(&bytes, piece) {
                Err(PickleError::Refused { opcode, offset: 7, .. }) => assert_eq!(opcode, expected),
                other => panic!("{expected}: {other:?}"),
            }
        }
    }
}

#[test]
fn bytes_that_are_no_opcode_are_named() {
    for byte in (0..=255).filter(|&byte| describe(byte).is_none()) {
        let error = Tree::load(&[b'N', b'0', byte, b'.']).unwrap_err();
        assert_eq!(error, PickleError::UnknownOpcode { byte, offset: 2 });
        assert!(error.to_string().contains(&format!("{byte:#04x} at byte 2")), "{error}");
    }
}

/// Operands belong to the innermost MARK: what lies below it is out of reach.
#[test]
fn operands_end_at_the_mark() {
    let malformed: [&[u8]; 22] = [
        b"0",
        b"K\x01(000",
        b"2",
        b"K\x01(2",
        b"a",
        b"]a",
        b"](K\x01a",
        b"]((K\x01e",
        b"](((K\x01e",
        b"e",
        b"(e",
        b"K\x01K\x02s",
        b"}(K\x01K\x02s",
        b"}K\x01(K\x02s",
        b"}(K\x01u",
        b"}((K\x01K\x02u",
        b"(K\x01d",
        b"K\x01(\x85",
        b"K\x01(K\x02\x86",
        b"t",
        b"\x94",
        b"N(.",
    ];
    for pickle in malformed {
        let bytes = [pickle, b"."].concat();
        match Tree::load(&bytes) {
            Err(PickleError::Malformed { offset, .. }) if bytes.ends_with(b"(..") => assert_eq!(offset, 2),
            Err(PickleError::Malformed { offset, .. }) => {
                assert_eq!(offset, pickle.len() as u64 - 1, "{}", bytes.escape_ascii())
            }
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        }
    }
}

#[test]
fn things_that_do_not_fit_are_errors() {
    let cases: [(&[u8], &str); 12] = [
        (b"K\x01K\x02a", "items are appended to something that is not a list at byte 4"),
        (b"}(K\x01e", "items are appended to something that is not a list at byte 4"),
        (b"](K\x01K\x02u", "pairs are set in something that is not a dict at byte 6"),
        (b"h\x05", "an unknown memo entry in opcode BINGET at byte 0"),
        (b"g5\n", "an unknown memo entry in opcode GET at byte 0"),
        (b"gx\n", "no memo index in opcode GET at byte 0"),
        (b"Np-1\n", "no memo index in opcode PUT at byte 1"),
        (b"Ixyz\n", "no number in opcode INT at byte 0"),
        (b"L\n", "no number in opcode LONG at byte 0"),
        (b"F\n", "no number in opcode FLOAT at byte 0"),
        (b"Sabc\n", "an unquoted string in opcode STRING at byte 0"),
        (b"\x80\x06", "an unknown protocol in opcode PROTO at byte 0"),
    ];
    for (bytes, expected) in cases {
        let error = Tree::load(bytes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{}: {error}", bytes.escape_ascii());
    }
}
