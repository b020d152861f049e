//! Reads the values of a trace entry ahead, without carrying them out.

use super::super::opcode::*;

/// A value that one opcode describes.
#[derive(Clone, Copy)]
pub(super) enum Scalar {
    /// BINGET, LONG_BINGET: a memo entry.
    Reference(u32),
    /// BININT1, BININT2, BININT, LONG1.
    Int(i64),
}

/// A value that a few opcodes in a row describe.
pub(super) enum Operand<'a> {
    Scalar(Scalar),
    /// A tuple of two integers, memoized.
    Pair(i64, i64),
    /// A list, memoized while it is empty, of these references: none, or one batch.
    List(&'a [u8]),
}

/// Bytes that must follow for a value to be looked at at all: the longest integer.
pub(super) const AHEAD: usize = 10;

/// The scalar at the start of `ahead`, and its length.
#[inline(always)]
pub(super) fn scalar(ahead: &[u8; AHEAD]) -> Option<(Scalar, usize)> {
    let &[opcode, a, b, c, d, ..] = ahead;
    Some(match opcode {
        BINGET => (Scalar::Reference(a.into()), 2),
        LONG_BINGET => (Scalar::Reference(u32::from_le_bytes([a, b, c, d])), 5),
        BININT1 => (Scalar::Int(a.into()), 2),
        BININT2 => (Scalar::Int(u16::from_le_bytes([a, b]).into()), 3),
        BININT => (Scalar::Int(i32::from_le_bytes([a, b, c, d]).into()), 5),
        LONG1 if (1..=8).contains(&a) => {
            let word = i64::from_le_bytes(*ahead.last_chunk()?);
            let unused = 64 - 8 * u32::from(a);
            (Scalar::Int(word << unused >> unused), 2 + usize::from(a))
        }
        _ => return None,
    })
}

/// The operand at the start of `input` and its length. `None` for everything else, and near the end of the input.
#[inline]
pub(super) fn operand(input: &[u8]) -> Option<(Operand<'_>, usize)> {
    match *input.first_chunk::<AHEAD>()? {
        [EMPTY_LIST, MEMOIZE, MARK, ..] => {
            let length = references(&input[3..]);
            (input.get(3 + length) == Some(&APPENDS)).then(|| (Operand::List(&input[3..3 + length]), length + 4))
        }
        [EMPTY_LIST, MEMOIZE, ..] => Some((Operand::List(&[]), 2)),
        _ => {
            let (first, length) = scalar(input.first_chunk()?)?;
            // A key is a reference, so that what follows a single integer is none.
            let (Scalar::Int(a), Some((Scalar::Int(b), more))) =
                (first, input[length..].first_chunk().and_then(scalar))
            else {
                return Some((Operand::Scalar(first), length));
            };
            let end = length + more;
            (input.get(end..end + 2) == Some(&[TUPLE2, MEMOIZE])).then_some((Operand::Pair(a, b), end + 2))
        }
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
