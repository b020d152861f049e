//! Reads the values of a trace entry ahead, without carrying them out.

use super::super::opcode::*;

/// A value that a few opcodes in a row describe.
pub(super) enum Operand<'a> {
    /// BINGET, LONG_BINGET: a memo entry.
    Reference(u32),
    /// BININT1, BININT2, BININT, LONG1.
    Int(i64),
    /// A tuple of two integers, memoized.
    Pair(i64, i64),
    /// A list, memoized while it is empty, of these references: none, or one batch.
    List(&'a [u8]),
}

/// Bytes that must follow for [`operand`] to look at all: the longest integer.
const AHEAD: usize = 10;

/// The operand at the start of `input` and its length. `None` for everything else, and near the end of the input.
#[inline(always)]
pub(super) fn operand(input: &[u8]) -> Option<(Operand<'_>, usize)> {
    let ahead = input.first_chunk::<AHEAD>()?;
    match *ahead {
        [BINGET, index, ..] => Some((Operand::Reference(index.into()), 2)),
        [LONG_BINGET, a, b, c, d, ..] => Some((Operand::Reference(u32::from_le_bytes([a, b, c, d])), 5)),
        [EMPTY_LIST, MEMOIZE, MARK, ..] => {
            let length = references(&input[3..]);
            (input.get(3 + length) == Some(&APPENDS)).then(|| (Operand::List(&input[3..3 + length]), length + 4))
        }
        [EMPTY_LIST, MEMOIZE, ..] => Some((Operand::List(&[]), 2)),
        _ => {
            let (first, length) = integer(ahead)?;
            // A key is a reference, so that what follows a single integer is none.
            let Some((second, more)) = input[length..].first_chunk().and_then(integer) else {
                return Some((Operand::Int(first), length));
            };
            let end = length + more;
            (input.get(end..end + 2) == Some(&[TUPLE2, MEMOIZE])).then_some((Operand::Pair(first, second), end + 2))
        }
    }
}

/// An integer opcode and its length.
#[inline]
fn integer(ahead: &[u8; AHEAD]) -> Option<(i64, usize)> {
    let &[opcode, a, b, c, d, ..] = ahead;
    match opcode {
        BININT1 => Some((a.into(), 2)),
        BININT2 => Some((u16::from_le_bytes([a, b]).into(), 3)),
        BININT => Some((i32::from_le_bytes([a, b, c, d]).into(), 5)),
        LONG1 if (1..=8).contains(&a) => {
            let word = i64::from_le_bytes(*ahead.last_chunk()?);
            let unused = 64 - 8 * u32::from(a);
            Some((word << unused >> unused, 2 + usize::from(a)))
        }
        _ => None,
    }
}

/// Bytes of the run of BINGET and LONG_BINGET that `input` starts with.
#[inline]
pub(super) fn references(input: &[u8]) -> usize {
    let mut length = 0;
    loop {
        length += match input.get(length) {
            Some(&LONG_BINGET) => 5,
            Some(&BINGET) => 2,
            _ => return length.min(input.len()),
        };
    }
}

/// The memo index of the reference at the start of `input`, and its length.
#[inline]
pub(super) fn reference(input: &[u8]) -> Option<(u32, usize)> {
    match *input {
        [BINGET, index, ..] => Some((index.into(), 2)),
        [LONG_BINGET, a, b, c, d, ..] => Some((u32::from_le_bytes([a, b, c, d]), 5)),
        _ => None,
    }
}
