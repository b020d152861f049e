//! The state behind the public calls: open containers, the memo, frames.

use super::encode::{next_in_batch, op, put_get, put_text};
use super::{FRAME_BYTES, Handle, Kind, Open, PickleWriter, Result, Top, WriteError};
use std::io::Write;

impl<W: Write> PickleWriter<W> {
    pub(super) fn begin(&mut self, kind: Kind, empty: u8) -> Result<()> {
        self.before_value()?;
        self.frame.push(empty);
        let memo = self.memo_all.then_some(self.memo_len);
        self.open.push(Open { kind, items: 0, memo });
        self.fresh(Top::Opened);
        Ok(())
    }

    pub(super) fn atom(&mut self, opcode: u8) -> Result<()> {
        self.before_value()?;
        self.frame.push(opcode);
        Ok(())
    }

    /// Counts the value that is about to be written in its container.
    pub(super) fn before_value(&mut self) -> Result<()> {
        self.close_frame_if_full()?;
        self.top = Top::Nothing;
        match self.open.last_mut() {
            Some(Open { kind: Kind::Dict { key_written }, .. }) => {
                if !std::mem::take(key_written) {
                    return Err(WriteError::Misuse("a value in a dict without a key"));
                }
            }
            Some(Open { kind: Kind::List, items, .. }) => next_in_batch(&mut self.frame, items, op::APPENDS),
            Some(Open { kind: Kind::Tuple { .. }, items, .. }) => *items += 1,
            None if self.root_written => return Err(WriteError::Misuse("a second value at the top")),
            None => self.root_written = true,
        }
        Ok(())
    }

    /// Notes that the value on top was written just now; `top` says whether complete.
    pub(super) fn fresh(&mut self, top: Top) {
        self.top = top;
        if self.memo_all {
            self.memoise();
        }
    }

    /// Memoises the object on top of the stack.
    pub(super) fn memoise(&mut self) -> u64 {
        self.frame.push(op::MEMOIZE);
        let index = self.memo_len;
        self.memo_len += 1;
        self.top = Top::Memoised(index);
        index
    }

    pub(super) fn put_interned(&mut self, text: &str) -> Result<()> {
        if let Some(&handle) = self.strings.get(text) {
            put_get(&mut self.frame, handle);
            self.top = Top::Memoised(handle.0.into());
            return Ok(());
        }
        put_text(&mut self.frame, text);
        let handle = u32::try_from(self.memoise()).map(Handle).map_err(|_| WriteError::MemoFull)?;
        self.strings.insert(text.into(), handle);
        Ok(())
    }

    pub(super) fn close_frame_if_full(&mut self) -> Result<()> {
        if self.frame.len() < FRAME_BYTES { Ok(()) } else { self.close_frame() }
    }

    pub(super) fn close_frame(&mut self) -> Result<()> {
        let mut head = [op::PROTO, 4, op::FRAME, 0, 0, 0, 0, 0, 0, 0, 0];
        let len = self.frame.len() as u64;
        head[3..].copy_from_slice(&len.to_le_bytes());
        let head = if self.flushed == 0 { &head[..] } else { &head[2..] };
        self.out.write_all(head)?;
        self.out.write_all(&self.frame)?;
        self.flushed += head.len() as u64 + len;
        self.frame.clear();
        Ok(())
    }
}
