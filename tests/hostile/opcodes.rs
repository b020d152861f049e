//! Cuts a pickle into its opcodes, and changes it in ways that random bytes seldom hit.

use super::random::Random;

/// The bytes of each opcode with its argument, as far as they are complete.
pub fn opcodes(pickle: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = pickle;
    while let Some(length) = length(rest).filter(|&length| length <= rest.len()) {
        found.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    found
}

fn length(bytes: &[u8]) -> Option<usize> {
    let little = |width: usize| {
        let bytes = bytes.get(1..=width)?;
        let number = bytes.iter().rev().fold(0usize, |number, &byte| number << 8 | usize::from(byte));
        Some((1 + width).saturating_add(number))
    };
    let line = || Some(2 + bytes[1..].iter().position(|&byte| byte == b'\n')?);
    match *bytes.first()? {
        b'h' | b'K' | b'q' | 0x80 | 0x82 => Some(2),
        b'M' | 0x83 => Some(3),
        b'j' | b'J' | b'r' | 0x84 => Some(5),
        b'G' | 0x95 => Some(9),
        b'C' | b'U' | 0x8a | 0x8c => little(1),
        b'B' | b'T' | b'X' | 0x8b => little(4),
        0x8d | 0x8e | 0x96 => little(8),
        b'F' | b'I' | b'L' | b'P' | b'S' | b'V' | b'g' | b'p' => line(),
        b'c' | b'i' => None,
        _ => Some(1),
    }
}

/// A number that is not what is expected there.
fn number(random: &mut Random) -> Vec<u8> {
    let value: i64 = match random.below(8) {
        0 => 0,
        1 => -1,
        2 => i64::MAX,
        3 => i64::MIN,
        4 => 1 << random.below(63),
        5 => -(1 << random.below(63)),
        6 => random.below(1 << 20) as i64 * 512,
        _ => random.next() as i64,
    };
    match random.below(8) {
        0 => [&b"G"[..], &(value as f64).to_be_bytes()].concat(),
        1 => [&b"G"[..], &random.pick(&[f64::NAN, f64::INFINITY, -0.0, 1e300]).to_be_bytes()].concat(),
        2 => format!("I{value}\n").into_bytes(),
        3 => [&[0x8a, 9][..], &value.to_le_bytes(), &[random.pick(&[0, 1, 0xff])]].concat(),
        4 => random.pick(&[&b"N"[..], b"\x88", b"\x8c\x01x", b"]", b"}", b")"]).to_vec(),
        _ => [&[0x8a, 8][..], &value.to_le_bytes()].concat(),
    }
}

fn is_number(opcode: &[u8]) -> bool {
    matches!(opcode[0], b'K' | b'M' | b'J' | b'I' | b'L' | 0x8a)
}

fn is_reference(opcode: &[u8]) -> bool {
    matches!(opcode[0], b'h' | b'j' | b'g')
}

fn is_memo(opcode: &[u8]) -> bool {
    matches!(opcode[0], b'q' | b'r' | b'p')
}

fn is_text(opcode: &[u8]) -> bool {
    matches!(opcode[0], b'X' | b'U' | b'T' | b'C' | b'B' | 0x8c | 0x8d | 0x8e)
}

fn place(opcodes: &[Vec<u8>], random: &mut Random, wanted: fn(&[u8]) -> bool) -> Option<usize> {
    let start = random.below(opcodes.len());
    (start..opcodes.len()).chain(0..start).find(|&at| wanted(&opcodes[at]))
}

/// A name that the format knows: rows change their kind by it.
fn key(random: &mut Random) -> Vec<u8> {
    let key = random.pick(&[
        "action",
        "addr",
        "size",
        "stream",
        "frames",
        "time_us",
        "address",
        "total_size",
        "blocks",
        "state",
        "history",
        "name",
        "filename",
        "line",
        "stage",
        "segments",
        "device_traces",
        "device",
        "requested_size",
        "alloc",
        "oom",
        "free_completed",
        "segment_alloc",
        "segment_map",
        "active_allocated",
        "inactive",
        "is_expandable",
        "pool_id",
        "segment_pool_id",
        "allocator_settings",
        "external_annotations",
        "snapshot",
        "free_requested",
        "segment_free",
    ]);
    [&[0x8c, key.len() as u8][..], key.as_bytes()].concat()
}

/// Changes one thing in the pickle that `opcodes` make; `others` are the opcodes of another one.
pub fn change(opcodes: &mut Vec<Vec<u8>>, others: &[Vec<u8>], random: &mut Random) {
    if opcodes.is_empty() {
        return;
    }
    let at = random.below(opcodes.len());
    let end = (at + 1 + random.below(20)).min(opcodes.len());
    match random.below(16) {
        // Numbers, references, texts of another kind.
        0..=3 => {
            if let Some(at) = place(opcodes, random, is_number) {
                opcodes[at] = number(random);
            }
        }
        4 => {
            if let (Some(one), Some(other)) =
                (place(opcodes, random, is_reference), place(opcodes, random, is_reference))
            {
                opcodes.swap(one, other);
            }
        }
        5 => {
            if let (Some(one), Some(other)) = (place(opcodes, random, is_memo), place(opcodes, random, is_memo)) {
                opcodes.swap(one, other);
            }
        }
        6 => {
            if let Some(at) = place(opcodes, random, is_text) {
                opcodes[at] = key(random);
            }
        }
        // A length that lies.
        7 => {
            if let Some(at) = place(opcodes, random, is_text) {
                let last = opcodes[at].len().min(random.pick(&[2, 3, 5]));
                opcodes[at][last - 1] = random.next() as u8;
            }
        }
        // Parts left out, repeated, moved, or taken from elsewhere.
        8 => drop(opcodes.drain(at..end)),
        9 => {
            let part: Vec<_> = opcodes[at..end].to_vec();
            let times = random.pick(&[1, 2, 50]);
            opcodes.splice(at..at, (0..times).flat_map(|_| part.clone()));
        }
        10 => {
            let part: Vec<_> = opcodes.drain(at..end).collect();
            let to = random.below(opcodes.len() + 1);
            opcodes.splice(to..to, part);
        }
        11 if !others.is_empty() => {
            let from = random.below(others.len());
            let to = (from + 1 + random.below(200)).min(others.len());
            opcodes.splice(at..end, others[from..to].iter().cloned());
        }
        // A container within itself, as an item or as a value.
        12 => {
            let put: &[u8] = random.pick(&[&b"\x94"[..], b"q\x07", b"2"]);
            let make: &[u8] = random.pick(&[&b"h\x07a"[..], b"h\x07h\x07s", b"(h\x07h\x07e", b"(h\x07h\x07u", b"a"]);
            opcodes.splice(at..at, [put.to_vec(), make.to_vec()]);
        }
        // Nesting.
        13 => {
            let opcode = random.pick(&[&b"]"[..], b"(", b"}", b"\x85", b"2\x86", b"]\x94", b"(t"]);
            let depth = random.pick(&[3, 200, 2000]);
            opcodes.insert(at, opcode.repeat(depth));
        }
        14 => opcodes[at] = vec![random.next() as u8],
        _ => opcodes.truncate(at),
    }
}
