//! Input that is made to hurt: it may be refused, but must not panic, recurse, or cost more than in proportion.

use proptest::prelude::*;

use super::super::super::{BuildError, Builder};
use super::super::super::{Kind, Limits, Machine, PickleError, Progress, Tree, Value};
use super::List;

/// Keeps nothing but the number of values made.
#[derive(Default)]
struct Count(u64);

impl Builder for Count {
    type Value = u8;
    type Kept = u8;
    type EntryKeys = ();
    fn keep(&mut self, value: u8) -> u8 {
        value
    }
    fn recall(&self, kept: u8) -> u8 {
        kept
    }
    fn none(&mut self) -> u8 {
        self.float(0.0)
    }
    fn bool(&mut self, _: bool) -> u8 {
        self.float(0.0)
    }
    fn int(&mut self, _: i64) -> u8 {
        self.float(0.0)
    }
    fn uint(&mut self, _: u64) -> u8 {
        self.float(0.0)
    }
    fn float(&mut self, _: f64) -> u8 {
        self.0 += 1;
        0
    }
    fn text(&mut self, _: &[u8]) -> u8 {
        self.float(0.0)
    }
    fn tuple(&mut self, _: &[u8]) -> u8 {
        self.float(0.0)
    }
    fn list(&mut self) -> u8 {
        self.float(0.0)
    }
    fn append(&mut self, _: u8, _: &[u8], _: bool) -> Result<(), BuildError> {
        Ok(())
    }
    fn dict(&mut self) -> u8 {
        self.float(0.0)
    }
    fn set_items(&mut self, _: u8, _: &[u8]) -> Result<(), BuildError> {
        Ok(())
    }
    fn entry_keys(&self, _: &[u8]) -> Option<()> {
        None
    }
    fn set_entry(&mut self, _: u8, _: &(), _: &[u8]) -> Result<(), BuildError> {
        Ok(())
    }
    fn kind(&self, _: u8) -> Kind {
        Kind::Other
    }
}

fn run(bytes: &[u8], limits: Limits) -> Result<Progress, PickleError> {
    Machine::new(Count::default(), limits).feed(bytes)
}

const SMALL: Limits = Limits { marks: 10, stack: 100, memo: 100, string: 1000 };

#[test]
fn nesting_does_not_recurse() {
    let depth = 1 << 20;
    let lists = [vec![b']'; depth], vec![b'a'; depth - 1], b".".to_vec()].concat();
    assert_eq!(run(&lists, Limits::default()), Ok(Progress::Done(2 * depth)));
    let tuples = [b"N".to_vec(), vec![0x85; depth], b".".to_vec()].concat();
    assert_eq!(run(&tuples, Limits::default()), Ok(Progress::Done(depth + 2)));
    // Ended by salvage instead.
    let mut machine = Machine::new(Tree::default(), Limits::default());
    assert_eq!(machine.feed(&lists[..depth]), Ok(Progress::NeedMore(depth)));
    assert!(machine.salvage().1.is_some());
}

#[test]
fn growth_without_input_is_limited() {
    let limit = |bytes: &[u8], limits| match run(bytes, limits) {
        Err(PickleError::Limit { what, offset, .. }) => (what, offset),
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(&[b'('; 20], SMALL), ("the nesting depth", 10));
    let dup = [b"N".to_vec(), vec![b'2'; 1000]].concat();
    let (what, offset) = limit(&dup, SMALL);
    assert_eq!(what, "the number of values on the stack");
    assert!(offset < 130, "{offset}");
    let memoize = [b"N".to_vec(), vec![0x94; 1000]].concat();
    let (what, offset) = limit(&memoize, SMALL);
    assert_eq!(what, "the number of memo entries");
    assert!(offset < 160, "{offset}");
    // Indices that leave as much room between them as the memo allows.
    let gaps: Vec<u8> = (1..1000u32).flat_map(|n| [&b"r"[..], &(n * 1024).to_le_bytes()].concat()).collect();
    assert_eq!(limit(&[b"N", &gaps[..]].concat(), SMALL).0, "the number of memo entries");
    // Indices that are far apart cost no more than their own entries.
    let far: Vec<u8> = (1..1000u32).flat_map(|n| [&b"r"[..], &(n << 20).to_le_bytes()].concat()).collect();
    assert!(run(&[b"N", &far[..]].concat(), SMALL).is_ok());
}

#[test]
fn lengths_are_not_believed() {
    let truncated = Err(PickleError::Truncated { offset: 0 });
    for bytes in [
        &b"X\xff\xff\xff\0abc"[..],
        b"T\xff\xff\xff\0abc",
        b"B\xff\xff\xff\0abc",
        b"\x8b\xff\xff\xff\0abc",
        b"\x8d\0\0\0\x01\0\0\0\0abc",
        b"\x8c\xffabc",
        b"\x8a\xffabc",
    ] {
        assert_eq!(Tree::load(bytes), truncated, "{}", bytes.escape_ascii());
    }
    for opcode in [0x8d, 0x8e, 0x96] {
        let bytes = [&[opcode][..], &[0xff; 8], b"abc"].concat();
        assert!(matches!(
            Tree::load(&bytes),
            Err(PickleError::Limit { what: "the length of a string", offset: 0, .. })
        ));
    }
}

#[test]
fn containers_may_hold_themselves() {
    assert_eq!(Tree::load(b"]\x94h\0a."), Ok(List(vec![Value::Cycle])));
    assert_eq!(Tree::load(b"}\x94\x8c\x01ah\0s."), Ok(Value::Dict(vec![(super::text("a"), Value::Cycle)])));
    assert_eq!(Tree::load(b"]\x94(h\0h\0\x85e."), Ok(List(vec![Value::Cycle, List(vec![Value::Cycle])])));
}

/// Any opcode in any state: an error or not, but an answer, the same however the bytes arrive.
fn answers(bytes: &[u8]) {
    let whole = Tree::load(bytes);
    for piece in [1, 3] {
        // NaN is not equal to itself.
        assert_eq!(format!("{:?}", Tree::load_in_pieces(bytes, piece)), format!("{whole:?}"));
    }
    let mut machine = Machine::new(Tree::default(), Limits::default());
    if machine.feed(bytes).is_ok() {
        machine.salvage();
    }
}

#[test]
fn single_opcodes_answer() {
    for opcode in 0..=255 {
        for before in [&b""[..], b"N", b"(", b"]", b"}", b"](", b"}(", b"N(N", b"}(NN("] {
            answers(&[before, &[opcode, 1, b'\n', 0, 0, 0, 0, 0, 0, 0, b'.']].concat());
            answers(&[before, &[opcode]].concat());
        }
    }
}

/// Opcodes that work on the stack, and a few values: random bytes seldom get past their first error.
fn opcodes() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop::sample::select(vec![
        &b"N"[..],
        b"(",
        b"(",
        b"]",
        b"}",
        b"K\x05",
        b"\x8c\x01k",
        b"\x8c\x04size",
        b"a",
        b"e",
        b"s",
        b"u",
        b"l",
        b"d",
        b"t",
        b")",
        b"\x85",
        b"\x86",
        b"\x87",
        b"\x8f",
        b"\x90",
        b"\x91",
        b"\x94",
        b"q\0",
        b"q\x01",
        b"h\0",
        b"h\x01",
        b"0",
        b"1",
        b"2",
        b"I7\n",
        b"Vx\n",
        b"p0\n",
        b"g0\n",
        b"G\0\0\0\0\0\0\0\0",
    ]);
    prop::collection::vec(opcode, 0..60).prop_map(|opcodes| opcodes.concat())
}

proptest! {
    #[test]
    fn random_bytes_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        answers(&bytes);
    }

    #[test]
    fn random_opcodes_answer(bytes in opcodes()) {
        answers(&bytes);
        answers(&[&bytes[..], b"."].concat());
    }
}
