//! Opcodes, and how numbers, strings and references are written with them.

use super::Handle;

/// The opcodes that this writer, or the serialiser of leaf values, emits.
pub(super) mod op {
    pub const PROTO: u8 = 0x80;
    pub const FRAME: u8 = 0x95;
    pub const STOP: u8 = b'.';
    pub const MARK: u8 = b'(';
    pub const NONE: u8 = b'N';
    pub const NEWTRUE: u8 = 0x88;
    pub const NEWFALSE: u8 = 0x89;
    pub const BININT: u8 = b'J';
    pub const BININT1: u8 = b'K';
    pub const BININT2: u8 = b'M';
    pub const LONG1: u8 = 0x8a;
    pub const BINFLOAT: u8 = b'G';
    pub const SHORT_BINUNICODE: u8 = 0x8c;
    pub const BINUNICODE: u8 = b'X';
    pub const BINUNICODE8: u8 = 0x8d;
    pub const SHORT_BINBYTES: u8 = b'C';
    pub const BINBYTES: u8 = b'B';
    pub const EMPTY_DICT: u8 = b'}';
    pub const EMPTY_LIST: u8 = b']';
    pub const EMPTY_TUPLE: u8 = b')';
    pub const TUPLE: u8 = b't';
    pub const TUPLE1: u8 = 0x85;
    pub const TUPLE2: u8 = 0x86;
    pub const TUPLE3: u8 = 0x87;
    pub const APPEND: u8 = b'a';
    pub const APPENDS: u8 = b'e';
    pub const SETITEM: u8 = b's';
    pub const SETITEMS: u8 = b'u';
    pub const MEMOIZE: u8 = 0x94;
    pub const BINGET: u8 = b'h';
    pub const LONG_BINGET: u8 = b'j';
}

/// Items between two `APPENDS` or `SETITEMS`, as CPython batches them: a reader's stack stays this small.
const BATCH: usize = 1000;

/// Makes room in the batch for one more item; `close` ends a full one. Batches are closed late, so that an item stays on top of
/// the stack until the next call and can be memoised.
pub(super) fn next_in_batch(out: &mut Vec<u8>, items: &mut usize, close: u8) {
    if *items == BATCH {
        out.push(close);
        *items = 0;
    }
    if *items == 0 {
        out.push(op::MARK);
    }
    *items += 1;
}

/// The shortest form of a signed integer.
pub(super) fn put_i64(out: &mut Vec<u8>, value: i64) {
    if let Ok(byte) = u8::try_from(value) {
        out.extend_from_slice(&[op::BININT1, byte]);
    } else if let Ok(short) = u16::try_from(value) {
        out.push(op::BININT2);
        out.extend_from_slice(&short.to_le_bytes());
    } else if let Ok(int) = i32::try_from(value) {
        out.push(op::BININT);
        out.extend_from_slice(&int.to_le_bytes());
    } else {
        let significant = i64::BITS - (value ^ (value >> 63)).leading_zeros();
        // One bit more for the sign.
        let len = significant / 8 + 1;
        out.extend_from_slice(&[op::LONG1, len as u8]);
        out.extend_from_slice(&value.to_le_bytes()[..len as usize]);
    }
}

/// The shortest form of an unsigned integer.
pub(super) fn put_u64(out: &mut Vec<u8>, value: u64) {
    match i64::try_from(value) {
        Ok(signed) => put_i64(out, signed),
        Err(_) => {
            out.extend_from_slice(&[op::LONG1, 9]);
            out.extend_from_slice(&value.to_le_bytes());
            out.push(0);
        }
    }
}

/// A float; alone among numbers it is big-endian.
pub(super) fn put_f64(out: &mut Vec<u8>, value: f64) {
    out.push(op::BINFLOAT);
    out.extend_from_slice(&value.to_be_bytes());
}

/// A string, not memoised.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    if let Ok(len) = u8::try_from(text.len()) {
        out.extend_from_slice(&[op::SHORT_BINUNICODE, len]);
    } else if let Ok(len) = u32::try_from(text.len()) {
        out.push(op::BINUNICODE);
        out.extend_from_slice(&len.to_le_bytes());
    } else {
        out.push(op::BINUNICODE8);
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    }
    out.extend_from_slice(text.as_bytes());
}

/// A reference to an object of the memo.
pub(super) fn put_get(out: &mut Vec<u8>, Handle(index): Handle) {
    if let Ok(byte) = u8::try_from(index) {
        out.extend_from_slice(&[op::BINGET, byte]);
    } else {
        out.push(op::LONG_BINGET);
        out.extend_from_slice(&index.to_le_bytes());
    }
}
