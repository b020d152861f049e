//! The opcode interpreter.

mod cursor;
mod operand;
mod repeat;
mod salvage;
#[cfg(test)]
mod tests;

use cursor::Cursor;
use repeat::Repeats;

use super::memo::Memo;
use super::opcode::*;
use super::text::{self, Integer};
use super::{Builder, PickleError};

/// How far [`Machine::feed`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This many bytes were used; what follows them is an incomplete opcode, to be fed again with more behind it.
    NeedMore(usize),
    /// STOP was reached after this many bytes.
    Done(usize),
}

/// Bounds on what one pickle may make the reader keep, beyond a fixed allowance in proportion to the bytes read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open MARKs. Snapshots nest 8 deep; Python's own pickler gives up near 1000.
    pub marks: usize,
    /// Values on the stack, whatever the file's size; one more is allowed for every 8 bytes read.
    pub stack: usize,
    /// Memo entries, whatever the file's size; one more is allowed for every 3 bytes read.
    pub memo: usize,
    /// Bytes of one string.
    pub string: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { marks: 10_000, stack: 1 << 20, memo: 1 << 20, string: 16 << 20 }
    }
}

/// A resumable pickle interpreter: feed it the input in pieces of any size.
///
/// Time and memory are linear in the input, and nothing recurses.
pub struct Machine<B: Builder> {
    builder: B,
    stack: Vec<B::Value>,
    /// Stack heights at the open MARKs.
    marks: Vec<usize>,
    memo: Memo<B::Kept>,
    repeats: Repeats<B>,
    limits: Limits,
    /// Bytes used so far.
    offset: u64,
    /// The highest protocol that a PROTO opcode named.
    protocol: u8,
    result: Option<B::Value>,
}

/// Why an opcode could not be carried out.
enum Fault {
    /// Its argument lies behind the end of the piece.
    Incomplete,
    Malformed(&'static str),
    Build(super::BuildError),
    Limit(&'static str, u64),
}

impl From<super::BuildError> for Fault {
    fn from(error: super::BuildError) -> Self {
        Self::Build(error)
    }
}

impl<B: Builder> Machine<B> {
    /// A machine that hands its values to `builder`.
    pub fn new(builder: B, limits: Limits) -> Self {
        Self {
            builder,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::new(),
            repeats: Repeats::new(true),
            limits,
            offset: 0,
            protocol: 0,
            result: None,
        }
    }

    /// Carries out every opcode by itself from now on, also where the file repeats itself. The result is the same.
    pub fn without_shortcuts(mut self) -> Self {
        self.repeats = Repeats::new(false);
        self
    }

    /// Bytes used so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The protocol that the file names: 0 when it names none (protocols 0 and 1).
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Bytes of memory that the stack, the memo and what is remembered of repetitions take.
    pub fn kept(&self) -> usize {
        self.stack.capacity() * size_of::<B::Value>()
            + self.marks.capacity() * size_of::<usize>()
            + self.memo.kept()
            + self.repeats.kept()
    }

    /// The builder.
    pub fn builder(&self) -> &B {
        &self.builder
    }

    /// The builder, and the value at STOP if it was reached.
    pub fn into_parts(self) -> (B, Option<B::Value>) {
        (self.builder, self.result)
    }

    /// Carries out the opcodes that lie completely in `input`, which continues where the last call's used bytes ended.
    pub fn feed(&mut self, input: &[u8]) -> Result<Progress, PickleError> {
        let base = self.offset;
        let mut cursor = Cursor { input, at: 0 };
        let mut used = 0;
        loop {
            used = self.references(input, used);
            self.offset = base + used as u64;
            let Some(&opcode) = input.get(used) else { break };
            if matches!(opcode, EMPTY_DICT | EMPTY_LIST) {
                let end = self.shortcut(opcode, input, used, base);
                let end = end.map_err(|fault| Self::error(fault, opcode, self.offset))?;
                if end > used {
                    used = end;
                    continue;
                }
            }
            cursor.at = used + 1;
            match self.step(opcode, &mut cursor) {
                Ok(()) => used = cursor.at,
                Err(Fault::Incomplete) => break,
                Err(fault) => return Err(Self::error(fault, opcode, self.offset)),
            }
            if opcode == STOP {
                self.offset = base + used as u64;
                return Ok(Progress::Done(used));
            }
        }
        // The limits in proportion to the file lag behind by one piece at most.
        self.offset = base + used as u64;
        Ok(Progress::NeedMore(used))
    }

    /// Carries out a run of BINGET and LONG_BINGET from `used` on, and answers where it ends: at another opcode, or at
    /// one that [`step`](Self::step) has to judge. Every key, and most values, are such references: half of all
    /// opcodes.
    #[inline]
    fn references(&mut self, input: &[u8], mut used: usize) -> usize {
        while self.stack.len() < self.limits.stack {
            let (index, length) = match input[used..] {
                [BINGET, index, ..] => (u32::from(index), 2),
                [LONG_BINGET, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]), 5),
                _ => break,
            };
            let Some(kept) = self.memo.get(index) else { break };
            self.stack.push(self.builder.recall(kept));
            used += length;
        }
        used
    }

    fn error(fault: Fault, opcode: u8, offset: u64) -> PickleError {
        let Some((name, effect)) = describe(opcode) else {
            return PickleError::UnknownOpcode { byte: opcode, offset };
        };
        if let Some(effect) = effect {
            return PickleError::Refused { opcode: name, effect, offset };
        }
        match fault {
            Fault::Incomplete => PickleError::Truncated { offset },
            Fault::Malformed(what) => PickleError::Malformed { what, opcode: name, offset },
            Fault::Build(what) => PickleError::Build { what, offset },
            Fault::Limit(what, limit) => PickleError::Limit { what, limit, offset },
        }
    }

    #[inline]
    fn step(&mut self, opcode: u8, cursor: &mut Cursor) -> Result<(), Fault> {
        match opcode {
            // The opcodes of a trace entry, most frequent first.
            BINGET => {
                let index = u32::from(cursor.byte()?);
                self.get(index)
            }
            LONG_BINGET => {
                let index = u32::from_le_bytes(cursor.array()?);
                self.get(index)
            }
            LONG1 => {
                let length = usize::from(cursor.byte()?);
                // Addresses and times come this way: every trace entry has both.
                match cursor.signed(length) {
                    Some(value) => self.push_int(value),
                    None => {
                        let value = text::long(cursor.take(length)?);
                        self.push_integer(value)
                    }
                }
            }
            BININT1 => {
                let value = i64::from(cursor.byte()?);
                self.push_int(value)
            }
            BININT2 => {
                let value = i64::from(u16::from_le_bytes(cursor.array()?));
                self.push_int(value)
            }
            BININT => {
                let value = i64::from(i32::from_le_bytes(cursor.array()?));
                self.push_int(value)
            }
            MEMOIZE => {
                let top = self.top()?;
                self.memoize(top);
                self.check_memo()
            }
            EMPTY_DICT => {
                let dict = self.builder.dict();
                self.push(dict)
            }
            EMPTY_LIST | EMPTY_SET => {
                let list = self.builder.list();
                self.push(list)
            }
            MARK => {
                self.marks.push(self.stack.len());
                if self.marks.len() > self.limits.marks {
                    return Err(Fault::Limit("the nesting depth", self.limits.marks as u64));
                }
                Ok(())
            }
            SETITEMS => {
                let mark = self.pop_mark()?;
                let dict = self.below(mark).ok_or(Fault::Malformed("no dict below the mark"))?;
                let pairs = &self.stack[mark..];
                if !pairs.len().is_multiple_of(2) {
                    return Err(Fault::Malformed("a key without a value"));
                }
                self.builder.set_items(dict, pairs)?;
                self.stack.truncate(mark);
                Ok(())
            }
            APPENDS | ADDITEMS => {
                let mark = self.pop_mark()?;
                let list = self.below(mark).ok_or(Fault::Malformed("no list below the mark"))?;
                self.builder.append(list, &self.stack[mark..], true)?;
                self.stack.truncate(mark);
                Ok(())
            }
            SHORT_BINUNICODE | SHORT_BINBYTES | SHORT_BINSTRING => {
                let length = usize::from(cursor.byte()?);
                self.push_text(cursor.take(length)?)
            }
            TUPLE1 => self.tuple(1),
            TUPLE2 => self.tuple(2),
            TUPLE3 => self.tuple(3),
            BINPUT => {
                let (index, top) = (u32::from(cursor.byte()?), self.top()?);
                self.put(index, top)
            }
            LONG_BINPUT => {
                let (index, top) = (u32::from_le_bytes(cursor.array()?), self.top()?);
                self.put(index, top)
            }
            _ => self.rare_step(opcode, cursor),
        }
    }

    fn rare_step(&mut self, opcode: u8, cursor: &mut Cursor) -> Result<(), Fault> {
        match opcode {
            STOP => {
                self.result = Some(self.pop()?);
                Ok(())
            }
            PROTO => {
                self.protocol = self.protocol.max(cursor.byte()?);
                if self.protocol > 5 {
                    return Err(Fault::Malformed("an unknown protocol"));
                }
                Ok(())
            }
            FRAME => cursor.array::<8>().map(drop),
            NONE => {
                let none = self.builder.none();
                self.push(none)
            }
            NEWTRUE | NEWFALSE => {
                let value = self.builder.bool(opcode == NEWTRUE);
                self.push(value)
            }
            BINFLOAT => {
                let value = self.builder.float(f64::from_be_bytes(cursor.array()?));
                self.push(value)
            }
            LONG4 => {
                let length = u32::from_le_bytes(cursor.array()?);
                let bytes = self.string_bytes(cursor, u64::from(length))?;
                self.push_integer(text::long(bytes))
            }
            BINUNICODE | BINBYTES | BINSTRING => {
                let length = u64::from(u32::from_le_bytes(cursor.array()?));
                let bytes = self.string_bytes(cursor, length)?;
                self.push_text(bytes)
            }
            BINUNICODE8 | BINBYTES8 | BYTEARRAY8 => {
                let length = u64::from_le_bytes(cursor.array()?);
                let bytes = self.string_bytes(cursor, length)?;
                self.push_text(bytes)
            }
            EMPTY_TUPLE => self.tuple(0),
            TUPLE => {
                let mark = self.pop_mark()?;
                self.tuple(self.stack.len() - mark)
            }
            SETITEM => {
                let at = self.stack.len().checked_sub(2).filter(|&at| at > self.floor());
                let (below, pair) = self.stack.split_at(at.ok_or(Fault::Malformed("too few values"))?);
                let dict = below[below.len() - 1];
                self.builder.set_items(dict, pair)?;
                self.stack.truncate(self.stack.len() - 2);
                Ok(())
            }
            APPEND => {
                let item = self.pop()?;
                let list = self.top()?;
                self.builder.append(list, &[item], false)?;
                Ok(())
            }
            LIST | FROZENSET => {
                let mark = self.pop_mark()?;
                let list = self.builder.list();
                self.builder.append(list, &self.stack[mark..], true)?;
                self.stack.truncate(mark);
                self.push(list)
            }
            DICT => {
                let mark = self.pop_mark()?;
                if !(self.stack.len() - mark).is_multiple_of(2) {
                    return Err(Fault::Malformed("a key without a value"));
                }
                let dict = self.builder.dict();
                self.builder.set_items(dict, &self.stack[mark..])?;
                self.stack.truncate(mark);
                self.push(dict)
            }
            POP => {
                if self.stack.len() == self.floor() && self.marks.pop().is_some() {
                    return Ok(());
                }
                self.pop().map(drop)
            }
            POP_MARK => {
                let mark = self.pop_mark()?;
                self.stack.truncate(mark);
                Ok(())
            }
            DUP => {
                let top = self.top()?;
                self.push(top)
            }
            GET => {
                let index = index(cursor.line()?)?;
                self.get(index)
            }
            PUT => {
                let (index, top) = (index(cursor.line()?)?, self.top()?);
                self.put(index, top)
            }
            INT => match cursor.line()? {
                b"00" => {
                    let value = self.builder.bool(false);
                    self.push(value)
                }
                b"01" => {
                    let value = self.builder.bool(true);
                    self.push(value)
                }
                line => self.push_integer(text::decimal(line).ok_or(Fault::Malformed("no number"))?),
            },
            LONG => {
                let value = text::decimal(cursor.line()?).ok_or(Fault::Malformed("no number"))?;
                self.push_integer(value)
            }
            FLOAT => {
                let line = std::str::from_utf8(cursor.line()?).ok().and_then(|text| text.trim().parse().ok());
                let value = self.builder.float(line.ok_or(Fault::Malformed("no number"))?);
                self.push(value)
            }
            UNICODE => {
                let value = text::raw_unicode(cursor.line()?);
                self.push_text(value.as_bytes())
            }
            STRING => {
                let value = text::quoted(cursor.line()?).ok_or(Fault::Malformed("an unquoted string"))?;
                self.push_text(&value)
            }
            // Refused or unknown: `error` tells which from the opcode.
            _ => Err(Fault::Malformed("an opcode that is not carried out")),
        }
    }

    /// Lowest stack height that operands may come from: the innermost open MARK.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    /// The container that a MARK which was just taken off stands on.
    #[inline]
    fn below(&self, mark: usize) -> Option<B::Value> {
        if mark > self.floor() { self.stack.get(mark - 1).copied() } else { None }
    }

    #[inline]
    fn push(&mut self, value: B::Value) -> Result<(), Fault> {
        self.stack.push(value);
        if self.stack.len() > self.limits.stack && (self.stack.len() - self.limits.stack) as u64 > self.offset / 8 {
            return Err(Fault::Limit("the number of values on the stack", self.limits.stack as u64));
        }
        Ok(())
    }

    fn check_memo(&self) -> Result<(), Fault> {
        if self.memo.len() > self.limits.memo && (self.memo.len() - self.limits.memo) as u64 > self.offset / 3 {
            return Err(Fault::Limit("the number of memo entries", self.limits.memo as u64));
        }
        Ok(())
    }

    #[inline]
    fn push_int(&mut self, value: i64) -> Result<(), Fault> {
        let value = self.builder.int(value);
        self.push(value)
    }

    #[inline]
    fn push_integer(&mut self, value: Integer) -> Result<(), Fault> {
        let value = match value {
            Integer::Signed(value) => self.builder.int(value),
            Integer::Unsigned(value) => self.builder.uint(value),
            Integer::Huge(value) => self.builder.float(value),
        };
        self.push(value)
    }

    fn push_text(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let value = self.builder.text(bytes);
        self.push(value)
    }

    #[inline]
    fn get(&mut self, index: u32) -> Result<(), Fault> {
        let value = self.recall(index).ok_or(Fault::Malformed("an unknown memo entry"))?;
        self.push(value)
    }

    #[inline]
    fn recall(&self, index: u32) -> Option<B::Value> {
        self.memo.get(index).map(|kept| self.builder.recall(kept))
    }

    #[inline]
    fn memoize(&mut self, value: B::Value) {
        let kept = self.builder.keep(value);
        self.memo.push(kept);
    }

    fn put(&mut self, index: u32, value: B::Value) -> Result<(), Fault> {
        let kept = self.builder.keep(value);
        self.memo.put(index, kept);
        self.check_memo()
    }

    #[inline]
    fn top(&self) -> Result<B::Value, Fault> {
        match self.stack.last() {
            Some(&top) if self.stack.len() > self.floor() => Ok(top),
            _ => Err(Fault::Malformed("an empty stack")),
        }
    }

    fn pop(&mut self) -> Result<B::Value, Fault> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    #[inline]
    fn pop_mark(&mut self) -> Result<usize, Fault> {
        self.marks.pop().ok_or(Fault::Malformed("no mark"))
    }

    fn tuple(&mut self, length: usize) -> Result<(), Fault> {
        let at = self.stack.len().checked_sub(length).filter(|&at| at >= self.floor());
        let at = at.ok_or(Fault::Malformed("too few values"))?;
        let tuple = self.builder.tuple(&self.stack[at..]);
        self.stack.truncate(at);
        self.push(tuple)
    }

    fn string_bytes<'a>(&self, cursor: &mut Cursor<'a>, length: u64) -> Result<&'a [u8], Fault> {
        if length > self.limits.string {
            return Err(Fault::Limit("the length of a string", self.limits.string));
        }
        cursor.take(usize::try_from(length).unwrap_or(usize::MAX))
    }
}

/// A decimal memo index (GET, PUT).
fn index(line: &[u8]) -> Result<u32, Fault> {
    std::str::from_utf8(line).ok().and_then(|text| text.trim().parse().ok()).ok_or(Fault::Malformed("no memo index"))
}
