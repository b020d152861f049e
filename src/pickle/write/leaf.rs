//! Splices what `serde-pickle` wrote into a stream of ours.
//!
//! serde-pickle writes no memo, so its bytes may stand anywhere. They are not copied blindly: strings are interned, and integers
//! take their shortest form, because serde-pickle gives every `u64` from 2^31 on a `LONG1` of 9 bytes that older viewers reject.

use super::encode::{op, put_i64, put_u64};
use super::{PickleWriter, Result, Top, WriteError};
use std::io::Write;

/// The bytes of one leaf, taken from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// The next `n` bytes. serde-pickle does not end early; if it did, the opcode is what could not be written.
    fn take(&mut self, opcode: u8, n: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(WriteError::Unsupported(opcode))?;
        self.0 = rest;
        Ok(head)
    }

    /// A little-endian length of `width` bytes.
    fn len(&mut self, opcode: u8, width: usize) -> Result<usize> {
        Ok(self.take(opcode, width)?.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte)))
    }
}

impl<W: Write> PickleWriter<W> {
    /// Appends one pickled value without its `PROTO` and `STOP`.
    pub(super) fn splice(&mut self, pickled: &[u8]) -> Result<()> {
        let mut bytes = Bytes(pickled.strip_prefix(&[op::PROTO, 3]).unwrap_or(pickled));
        // What `share` finds on top: a list or dict is made first of all, anything else last.
        let made_first = matches!(bytes.0.first(), Some(&(op::EMPTY_DICT | op::EMPTY_LIST)));
        let mut root = None;
        while let Some((&opcode, rest)) = bytes.0.split_first() {
            bytes.0 = rest;
            self.close_frame_if_full()?;
            match opcode {
                op::STOP => break,
                op::BININT1 => put_u64(&mut self.frame, bytes.len(opcode, 1)? as u64),
                op::BININT2 => put_u64(&mut self.frame, bytes.len(opcode, 2)? as u64),
                op::BININT => put_i64(&mut self.frame, signed(bytes.take(opcode, 4)?)),
                op::LONG1 => {
                    let len = bytes.len(opcode, 1)?;
                    self.put_long(bytes.take(opcode, len)?);
                }
                op::BINUNICODE => {
                    let len = bytes.len(opcode, 4)?;
                    let text = std::str::from_utf8(bytes.take(opcode, len)?);
                    self.put_interned(text.map_err(|_| WriteError::Unsupported(opcode))?)?;
                }
                op::BINFLOAT => self.copy(opcode, bytes.take(opcode, 8)?),
                op::SHORT_BINBYTES => {
                    let len = bytes.len(opcode, 1)?;
                    self.copy(opcode, &[len as u8]);
                    self.frame.extend_from_slice(bytes.take(opcode, len)?);
                }
                op::BINBYTES => {
                    let len = bytes.len(opcode, 4)?;
                    self.copy(opcode, &(len as u32).to_le_bytes());
                    self.frame.extend_from_slice(bytes.take(opcode, len)?);
                }
                op::EMPTY_DICT | op::EMPTY_LIST | op::TUPLE | op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                    self.frame.push(opcode);
                    self.fresh(Top::Fresh);
                }
                op::MARK | op::APPEND | op::APPENDS | op::SETITEM | op::SETITEMS | op::EMPTY_TUPLE => {
                    self.frame.push(opcode)
                }
                op::NONE | op::NEWTRUE | op::NEWFALSE => self.frame.push(opcode),
                other => return Err(WriteError::Unsupported(other)),
            }
            if made_first {
                root.get_or_insert(self.top);
            }
        }
        if let Some(top) = root {
            self.top = top;
        }
        Ok(())
    }

    /// A `LONG1` of any length, shortened where it fits 64 bits.
    fn put_long(&mut self, digits: &[u8]) {
        match digits {
            [] => put_i64(&mut self.frame, 0),
            [low @ .., 0] if low.len() == 8 => put_u64(&mut self.frame, signed(low) as u64),
            _ if digits.len() <= 8 => put_i64(&mut self.frame, signed(digits)),
            _ => {
                self.copy(op::LONG1, &[digits.len() as u8]);
                self.frame.extend_from_slice(digits);
            }
        }
    }

    fn copy(&mut self, opcode: u8, operand: &[u8]) {
        self.frame.push(opcode);
        self.frame.extend_from_slice(operand);
    }
}

/// Little-endian two's complement of at most 8 bytes.
fn signed(digits: &[u8]) -> i64 {
    let fill = if digits.last().is_some_and(|&high| high >= 0x80) { 0xff } else { 0 };
    let mut bytes = [fill; 8];
    for (byte, &digit) in bytes.iter_mut().zip(digits) {
        *byte = digit;
    }
    i64::from_le_bytes(bytes)
}
