//! Writes pickles of protocol 4, with shared objects written once.
//!
//! A snapshot is mostly repetition: the same keys in every entry, the same frames in every stack, the same stack in three
//! entries. [`PickleWriter`] writes key strings once by itself, and any other value once when its caller keeps a
//! [`Handle`] to it. Values go out as they are given; nothing but the distinct strings is kept in memory.
//!
//! ```
//! use oomscope::pickle::write::PickleWriter;
//!
//! let mut pickle = PickleWriter::new(Vec::new());
//! pickle.begin_list()?;
//! pickle.begin_dict()?;
//! let entry = pickle.share()?;
//! pickle.key("size")?;
//! pickle.u64(512)?;
//! pickle.end()?;
//! pickle.refer(entry)?; // the list now holds the same dict twice
//! pickle.end()?;
//! let bytes = pickle.finish()?;
//! assert!(bytes.starts_with(b"\x80\x04"));
//! # Ok::<(), oomscope::pickle::write::WriteError>(())
//! ```

mod encode;
mod error;
mod leaf;
mod machine;
#[cfg(test)]
mod tests;

pub use error::{Result, WriteError};

use encode::{next_in_batch, op, put_f64, put_get, put_i64, put_text, put_u64};
use foldhash::fast::RandomState;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;

/// A frame is closed at the first value that begins after so many bytes, as in CPython.
const FRAME_BYTES: usize = 64 << 10;

/// A value that was written and can be written again as a reference. Only meaningful for the writer that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(u32);

enum Kind {
    List,
    Dict { key_written: bool },
    Tuple { len: usize },
}

struct Open {
    kind: Kind,
    /// Items since the last `MARK`; of a tuple, all its items.
    items: usize,
    /// Where the container is in the memo.
    memo: Option<u64>,
}

/// What stands on top of the reader's stack, for [`PickleWriter::share`].
#[derive(Clone, Copy)]
enum Top {
    Nothing,
    /// A value complete and not memoised.
    Fresh,
    /// A list or dict without items yet, not memoised.
    Opened,
    Memoised(u64),
}

/// Streams one pickle of protocol 4 to `W`. Make it with [`PickleWriter::new`], write one value, call [`PickleWriter::finish`].
///
/// Output goes to `W` in pieces of about 64 KiB, each a pickle frame: `W` needs no buffer of its own.
pub struct PickleWriter<W: Write> {
    out: W,
    frame: Vec<u8>,
    flushed: u64,
    memo_len: u64,
    memo_all: bool,
    strings: HashMap<Box<str>, Handle, RandomState>,
    open: Vec<Open>,
    top: Top,
    root_written: bool,
    scratch: Vec<u8>,
}

impl<W: Write> PickleWriter<W> {
    /// A writer that has written nothing yet. It memoises strings given to [`key`](Self::key) and [`interned`](Self::interned),
    /// and whatever [`share`](Self::share) asks for.
    pub fn new(out: W) -> Self {
        Self {
            out,
            frame: Vec::with_capacity(FRAME_BYTES + 4096),
            flushed: 0,
            memo_len: 0,
            memo_all: false,
            strings: HashMap::default(),
            open: Vec::new(),
            top: Top::Nothing,
            root_written: false,
            scratch: Vec::new(),
        }
    }

    /// Memoises every dict, list, tuple and string, as CPython does, whether or not it is ever referred to. Files get one byte a
    /// value larger; useful where a file should cost a reader what a genuine one costs.
    pub fn memoise_everything(mut self) -> Self {
        self.memo_all = true;
        self
    }

    /// Bytes written so far, those still buffered included.
    pub fn position(&self) -> u64 {
        self.flushed + self.frame.len() as u64
    }

    /// Opens a dict: [`key`](Self::key) and a value in turn, then [`end`](Self::end).
    pub fn begin_dict(&mut self) -> Result<()> {
        self.begin(Kind::Dict { key_written: false }, op::EMPTY_DICT)
    }

    /// Opens a list: values, then [`end`](Self::end).
    pub fn begin_list(&mut self) -> Result<()> {
        self.begin(Kind::List, op::EMPTY_LIST)
    }

    /// Opens a tuple of exactly `len` values, closed by [`end`](Self::end).
    pub fn begin_tuple(&mut self, len: usize) -> Result<()> {
        self.before_value()?;
        if len > 3 {
            self.frame.push(op::MARK);
        }
        self.open.push(Open { kind: Kind::Tuple { len }, items: 0, memo: None });
        self.top = Top::Nothing;
        Ok(())
    }

    /// Closes the container opened last.
    pub fn end(&mut self) -> Result<()> {
        let Some(open) = self.open.pop() else { return Err(WriteError::Misuse("end without an open container")) };
        match open.kind {
            Kind::Dict { key_written: true } => return Err(WriteError::Misuse("a dict ends after a key")),
            Kind::Dict { .. } if open.items > 0 => self.frame.push(op::SETITEMS),
            Kind::List if open.items > 0 => self.frame.push(op::APPENDS),
            Kind::Dict { .. } | Kind::List => {}
            Kind::Tuple { len } if len != open.items => {
                return Err(WriteError::Misuse("a tuple has not the length it was opened with"));
            }
            Kind::Tuple { len } => {
                self.frame.push(match len {
                    0 => op::EMPTY_TUPLE,
                    1 => op::TUPLE1,
                    2 => op::TUPLE2,
                    3 => op::TUPLE3,
                    _ => op::TUPLE,
                });
                // CPython's empty tuple is one object, and never memoised.
                if self.memo_all && len > 0 {
                    self.memoise();
                    return Ok(());
                }
            }
        }
        self.top = open.memo.map_or(Top::Fresh, Top::Memoised);
        Ok(())
    }

    /// The next key of the open dict. Each distinct key is written once and referred to from then on.
    pub fn key(&mut self, key: &str) -> Result<()> {
        self.close_frame_if_full()?;
        match self.open.last_mut() {
            Some(Open { kind: Kind::Dict { key_written }, items, .. }) if !*key_written => {
                *key_written = true;
                next_in_batch(&mut self.frame, items, op::SETITEMS);
            }
            _ => return Err(WriteError::Misuse("a key outside a dict, or two keys in a row")),
        }
        self.put_interned(key)?;
        self.top = Top::Nothing;
        Ok(())
    }

    /// A string, written once for all its occurrences through this method or [`key`](Self::key). Distinct strings stay in memory.
    pub fn interned(&mut self, text: &str) -> Result<()> {
        self.before_value()?;
        self.put_interned(text)
    }

    /// A string written out in full, for texts that hardly repeat.
    pub fn text(&mut self, text: &str) -> Result<()> {
        self.before_value()?;
        put_text(&mut self.frame, text);
        self.fresh(Top::Fresh);
        Ok(())
    }

    /// A signed integer.
    pub fn i64(&mut self, value: i64) -> Result<()> {
        self.before_value()?;
        put_i64(&mut self.frame, value);
        Ok(())
    }

    /// An unsigned integer. From 2^63 on it takes a `LONG1` of 9 bytes, which some viewers do not accept.
    pub fn u64(&mut self, value: u64) -> Result<()> {
        self.before_value()?;
        put_u64(&mut self.frame, value);
        Ok(())
    }

    /// `True` or `False`.
    pub fn bool(&mut self, value: bool) -> Result<()> {
        self.atom(if value { op::NEWTRUE } else { op::NEWFALSE })
    }

    /// `None`.
    pub fn none(&mut self) -> Result<()> {
        self.atom(op::NONE)
    }

    /// A float.
    pub fn float(&mut self, value: f64) -> Result<()> {
        self.before_value()?;
        put_f64(&mut self.frame, value);
        Ok(())
    }

    /// Any serialisable value: structs become dicts in the order of their fields, strings are interned, integers take their
    /// shortest form.
    pub fn value<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        serde_pickle::to_writer(&mut scratch, value, serde_pickle::SerOptions::new())?;
        self.before_value()?;
        let spliced = self.splice(&scratch);
        self.scratch = scratch;
        spliced
    }

    /// Makes the value just written one that [`refer`](Self::refer) can repeat. Right after `begin_list` or `begin_dict` it means the
    /// container just opened.
    ///
    /// # Errors
    /// [`WriteError::Misuse`] when no value was just written, or it was a number, bool or `None`.
    pub fn share(&mut self) -> Result<Handle> {
        let index = match self.top {
            Top::Nothing => {
                return Err(WriteError::Misuse("nothing to share: call it right after a string or container"));
            }
            Top::Fresh => self.memoise(),
            Top::Opened => {
                let index = self.memoise();
                if let Some(open) = self.open.last_mut() {
                    open.memo = Some(index);
                }
                index
            }
            Top::Memoised(index) => index,
        };
        u32::try_from(index).map(Handle).map_err(|_| WriteError::MemoFull)
    }

    /// The value of an earlier [`share`](Self::share) again. A reader sees one object in two places; inside that very object it makes a cycle.
    pub fn refer(&mut self, handle: Handle) -> Result<()> {
        self.before_value()?;
        put_get(&mut self.frame, handle);
        self.top = Top::Memoised(handle.0.into());
        Ok(())
    }

    /// Ends the pickle, flushes and gives the output back.
    pub fn finish(mut self) -> Result<W> {
        if !self.open.is_empty() || !self.root_written {
            return Err(WriteError::Misuse("finish before the value was complete"));
        }
        self.frame.push(op::STOP);
        self.close_frame()?;
        self.out.flush()?;
        Ok(self.out)
    }
}
