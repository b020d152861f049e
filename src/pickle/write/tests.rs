use super::{PickleWriter, Result, WriteError};
use serde::Serialize;
use serde_pickle::{DeOptions, Value};
use std::io::Write;
use std::process::{Command, Stdio};

/// What `f` writes, as a pickle.
fn pickle(f: impl FnOnce(&mut PickleWriter<Vec<u8>>) -> Result<()>) -> Result<Vec<u8>> {
    let mut writer = PickleWriter::new(Vec::new());
    f(&mut writer)?;
    writer.finish()
}

/// Runs `script` with CPython's unpickled `root` (nothing may be imported) and returns what it prints; `None` without python3.
fn python(pickle: &[u8], script: &str) -> Option<String> {
    let program = format!(
        "import pickle, sys\nclass U(pickle.Unpickler):\n    def find_class(self, *a): raise SystemExit('import')\n\
         root = U(sys.stdin.buffer).load()\n{script}"
    );
    let child = Command::new("python3").args(["-c", &program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: python3 is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(pickle).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "python3 refused the pickle");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

const INTEGERS: [i64; 17] = [
    0,
    255,
    256,
    65535,
    65536,
    0x7fff_ffff,
    0x8000_0000,
    (1 << 39) - 1,
    1 << 39,
    i64::MAX,
    -1,
    -0x8000_0000,
    -0x8000_0001,
    -(1 << 39),
    -(1 << 39) - 1,
    i64::MIN,
    140_000_000_000_000,
];

#[test]
fn integers_take_their_shortest_form() {
    let lengths = [2, 2, 3, 3, 5, 5, 7, 7, 8, 10, 5, 5, 7, 7, 8, 10, 8];
    for (value, len) in INTEGERS.into_iter().zip(lengths) {
        let mut out = Vec::new();
        super::encode::put_i64(&mut out, value);
        assert_eq!(out.len(), len, "{value}");
    }
}

#[test]
fn integers_survive() {
    let bytes = pickle(|w| {
        w.begin_list()?;
        INTEGERS.iter().try_for_each(|&n| w.i64(n))?;
        w.u64(u64::MAX)?;
        w.end()
    })
    .unwrap();
    let expected = INTEGERS.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    if let Some(printed) = python(&bytes, "print(root)") {
        assert_eq!(printed, format!("[{expected}, {}]", u64::MAX));
    }
    let Value::List(items) = serde_pickle::value_from_slice(&bytes, DeOptions::new()).unwrap() else { panic!() };
    assert_eq!(items[..INTEGERS.len()], INTEGERS.map(Value::I64));
}

#[test]
fn every_kind_of_value_survives() {
    let bytes = pickle(|w| {
        w.begin_dict()?;
        w.key("none")?;
        w.none()?;
        w.key("bools")?;
        w.begin_tuple(2)?;
        w.bool(true)?;
        w.bool(false)?;
        w.end()?;
        w.key("float")?;
        w.float(-0.25)?;
        w.key("tuples")?;
        w.begin_list()?;
        for len in 0..5 {
            w.begin_tuple(len)?;
            (0..len).try_for_each(|n| w.u64(n as u64))?;
            w.end()?;
        }
        w.end()?;
        w.key("texts")?;
        w.begin_list()?;
        w.text("ä")?;
        w.interned("ä")?;
        w.interned("ä")?;
        w.text(&"x".repeat(300))?;
        w.end()?;
        w.key("empty")?;
        w.begin_dict()?;
        w.end()?;
        w.end()
    })
    .unwrap();
    if let Some(printed) = python(&bytes, "root['texts'][3] = len(root['texts'][3]); print(root)") {
        assert_eq!(
            printed,
            "{'none': None, 'bools': (True, False), 'float': -0.25, 'tuples': [(), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)], \
             'texts': ['ä', 'ä', 'ä', 300], 'empty': {}}"
        );
    }
    assert!(serde_pickle::value_from_slice(&bytes, DeOptions::new()).is_ok());
}

/// Two entries share a stack, and stacks share frames: one object each after reading, in both modes.
#[test]
fn shared_values_are_one_object() {
    for memo_all in [false, true] {
        let mut w = PickleWriter::new(Vec::new());
        if memo_all {
            w = w.memoise_everything();
        }
        let mut write = || -> Result<()> {
            w.begin_list()?;
            w.begin_list()?;
            let stack = w.share()?;
            w.value(&Frame { name: "forward", filename: "model.py", line: 7 })?;
            let frame = w.share()?;
            w.end()?;
            w.refer(stack)?;
            w.begin_tuple(2)?;
            w.refer(frame)?;
            w.none()?;
            w.end()?;
            let pair = w.share()?;
            w.refer(pair)?;
            w.begin_list()?;
            w.end()?;
            let late = w.share()?;
            w.refer(late)?;
            w.value(&(vec![1], "x"))?;
            let mixed = w.share()?;
            w.refer(mixed)?;
            w.end()
        };
        write().unwrap();
        let bytes = w.finish().unwrap();
        let checks = "print(root[0] is root[1], root[2][0] is root[0][0], root[2] is root[3], root[4] is root[5], root[6] is root[7], root[6])";
        if let Some(printed) = python(&bytes, checks) {
            assert_eq!(printed, "True True True True True ([1], 'x')", "memo_all {memo_all}");
        }
    }
}

#[derive(Serialize)]
struct Frame {
    name: &'static str,
    filename: &'static str,
    line: u64,
}

#[test]
fn strings_are_written_once() {
    let frame = Frame { name: "forward", filename: "model.py", line: 1 };
    let bytes = pickle(|w| {
        w.begin_list()?;
        (0..500).try_for_each(|_| w.value(&frame))?;
        w.end()
    })
    .unwrap();
    assert_eq!(bytes.windows(8).filter(|w| w == b"filename").count(), 1);
    if let Some(printed) = python(&bytes, "print(len(root), root[0], root[0] == root[499])") {
        assert_eq!(printed, "500 {'name': 'forward', 'filename': 'model.py', 'line': 1} True");
    }
}

#[test]
fn leaves_follow_serde() {
    #[derive(Serialize)]
    enum Stage {
        Start,
        At(u64),
        Named { pool: (u64, u64) },
    }
    let bytes = pickle(|w| {
        w.begin_list()?;
        w.value(&[Stage::Start, Stage::At(1 << 40), Stage::Named { pool: (0, 1) }])?;
        w.value(&(u64::MAX, 1u64 << 63, i64::MIN, 1u64 << 31, -7i8, 0.5f32, None::<u8>, Some(true), 'c', ()))?;
        w.value(&Vec::<u8>::new())?;
        w.value(&vec![3u64 << 32; 2001])?;
        w.end()
    })
    .unwrap();
    let long = |len| bytes.windows(2).filter(|w| *w == [super::op::LONG1, len]).count();
    assert_eq!((long(6), long(9)), (1, 2), "only integers from 2^63 on take 9 bytes");
    let script = "print(*root[:3]); print(len(root[3]), set(root[3]))";
    if let Some(printed) = python(&bytes, script) {
        assert_eq!(
            printed,
            "('Start', {'At': 1099511627776}, {'Named': {'pool': (0, 1)}}) (18446744073709551615, 9223372036854775808, \
             -9223372036854775808, 2147483648, -7, 0.5, None, True, 'c', None) []\n2001 {12884901888}"
        );
    }
}

/// Lists and dicts around the size of a batch, and files of many frames.
#[test]
fn batches_and_frames() {
    for len in [0usize, 1, 999, 1000, 1001, 2500, 100_000] {
        let bytes = pickle(|w| {
            w.begin_list()?;
            w.begin_list()?;
            (0..len).try_for_each(|n| w.u64(n as u64))?;
            w.end()?;
            w.begin_dict()?;
            for n in 0..len {
                w.key(&format!("key {n}"))?;
                w.u64(n as u64)?;
            }
            w.end()?;
            w.end()
        })
        .unwrap();
        if let Some(printed) = python(
            &bytes,
            "n = len(root[0]); print(n, root[0] == list(range(n)), root[1] == {f'key {i}': i for i in range(n)})",
        ) {
            assert_eq!(printed, format!("{len} True True"));
        }
        let Value::List(items) = serde_pickle::value_from_slice(&bytes, DeOptions::new()).unwrap() else { panic!() };
        assert!(matches!(&items[0], Value::List(list) if list.len() == len));
    }
}

#[test]
fn position_counts_bytes() {
    let mut w = PickleWriter::new(Vec::new());
    w.begin_list().unwrap();
    for n in 0..50_000 {
        w.u64(n).unwrap();
    }
    w.end().unwrap();
    let before = w.position();
    // The last frame's head and STOP are still to come.
    assert_eq!(w.finish().unwrap().len() as u64, before + 10);
}

#[test]
fn calls_out_of_order_are_errors() {
    type Calls = fn(&mut PickleWriter<Vec<u8>>) -> Result<()>;
    let wrong: [Calls; 10] = [
        |w| w.end(),
        |w| w.key("k"),
        |w| w.begin_list(),
        |w| w.none().and_then(|()| w.none()),
        |w| w.begin_dict().and_then(|()| w.none()),
        |w| w.begin_dict().and_then(|()| w.key("k")).and_then(|()| w.key("k")),
        |w| w.begin_dict().and_then(|()| w.key("k")).and_then(|()| w.end()),
        |w| w.begin_tuple(2).and_then(|()| w.end()),
        |w| w.u64(1).and_then(|()| w.share().map(drop)),
        |_| Ok(()),
    ];
    for (n, calls) in wrong.into_iter().enumerate() {
        assert!(matches!(pickle(calls), Err(WriteError::Misuse(_))), "case {n}");
    }
}
