//! Snapshots that somebody converted to JSON: the same keys, tuples as lists.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::super::decode::{SnapshotBuilder, Word};
use super::LoadError;
use super::input::{CountingReader, Input};
use super::limits::in_proportion;
use crate::pickle::Builder;

/// Values between two looks at what they cost.
const CHECKED: usize = 4096;

/// What was decoded.
pub(super) enum Decoded {
    /// Everything: the outermost value.
    Whole(Word),
    /// The beginning of a text that breaks off.
    Part {
        /// The outermost value.
        top: Option<Word>,
        /// The lists that were not at their end.
        open: Vec<Word>,
        /// Bytes of the text.
        offset: u64,
    },
}

/// Decodes `text` into `builder`. It may break off where `salvage` is asked for.
pub(super) fn decode(text: Input, builder: &mut SnapshotBuilder, salvage: bool) -> Result<Decoded, LoadError> {
    let read = Cell::new(0);
    let mut parts = Parts { builder, stack: Vec::new(), open: Vec::new(), values: 0, read: &read, excess: None };
    let top = match text {
        Input::Slice { bytes, at, .. } => {
            read.set((bytes.len() - at) as u64);
            outermost(serde_json::Deserializer::from_slice(&bytes[at..]), &mut parts)
        }
        stream => {
            let reader = CountingReader::new(stream.into_buffered(), None, None).seen_by(&read);
            let reader = std::io::BufReader::with_capacity(1 << 16, reader);
            outermost(serde_json::Deserializer::from_reader(reader), &mut parts)
        }
    };
    if let Some(kept) = parts.excess {
        return Err(LoadError::OutOfProportion { kept, read: read.get() });
    }
    match top {
        Ok(top) => Ok(Decoded::Whole(top)),
        Err(error) if salvage && (error.is_eof() || error.is_io()) => match LoadError::from(error) {
            LoadError::Expands => Err(LoadError::Expands),
            _ => {
                let (top, open) = parts.close();
                Ok(Decoded::Part { top, open, offset: read.get() })
            }
        },
        Err(error) => Err(error.into()),
    }
}

fn outermost<'de, R: serde_json::de::Read<'de>>(
    mut json: serde_json::Deserializer<R>,
    parts: &mut Parts,
) -> serde_json::Result<Word> {
    let top = Node { parts }.deserialize(&mut json)?;
    json.end()?;
    Ok(top)
}

/// What is there of the snapshot so far.
struct Parts<'a> {
    builder: &'a mut SnapshotBuilder,
    /// The items of the open lists and objects.
    stack: Vec<Word>,
    /// Where the items of each open one start, and whether it is a list.
    open: Vec<(usize, bool)>,
    /// How many values came.
    values: usize,
    /// Bytes of text read.
    read: &'a Cell<u64>,
    /// Bytes of memory, when they are out of proportion.
    excess: Option<usize>,
}

impl Parts<'_> {
    fn push<E: Error>(&mut self, value: Word) -> Result<(), E> {
        self.stack.push(value);
        self.values += 1;
        if self.values.is_multiple_of(CHECKED) {
            let kept = self.builder.kept() + self.stack.capacity() * size_of::<Word>();
            if !in_proportion(kept, self.read.get()) {
                self.excess = Some(kept);
                return Err(E::custom("out of proportion"));
            }
        }
        Ok(())
    }

    /// Closes what is open, from the inside out, and answers with the outermost value and the lists among them. A list
    /// keeps its items, the outermost object its complete pairs; any other object would be a row without all its keys.
    fn close(mut self) -> (Option<Word>, Vec<Word>) {
        let (mut top, mut lists) = (None, Vec::new());
        while let Some((start, is_list)) = self.open.pop() {
            let mut items = self.stack.split_off(start.min(self.stack.len()));
            let closed = if is_list {
                let list = self.builder.list();
                // The list stays as it is when it cannot take them.
                let _ = self.builder.append(list, &items, true);
                lists.push(list);
                Some(list)
            } else if self.open.is_empty() {
                let dict = self.builder.dict();
                items.truncate(items.len() / 2 * 2);
                let _ = self.builder.set_items(dict, &items);
                Some(dict)
            } else {
                None
            };
            match closed {
                Some(closed) if self.open.is_empty() => top = Some(closed),
                closed => self.stack.extend(closed),
            }
        }
        (top, lists)
    }
}

/// One JSON value on its way into the builder.
struct Node<'a, 'b> {
    parts: &'a mut Parts<'b>,
}

impl<'b> Node<'_, 'b> {
    fn reborrow(&mut self) -> Node<'_, 'b> {
        Node { parts: self.parts }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Word;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Word, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Word, E> {
        Ok(self.parts.builder.none())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Word, E> {
        Ok(self.parts.builder.bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Word, E> {
        Ok(self.parts.builder.int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Word, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => self.parts.builder.int(value),
            Err(_) => self.parts.builder.uint(value),
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<Word, E> {
        Ok(self.parts.builder.float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Word, E> {
        Ok(self.parts.builder.text(value.as_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Word, A::Error> {
        let start = self.parts.stack.len();
        self.parts.open.push((start, true));
        while let Some(item) = items.next_element_seed(self.reborrow())? {
            self.parts.push(item)?;
        }
        self.parts.open.pop();
        let list = self.parts.builder.list();
        if self.parts.stack.len() > start {
            self.parts.builder.append(list, &self.parts.stack[start..], true).map_err(A::Error::custom)?;
            self.parts.stack.truncate(start);
        }
        Ok(list)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut pairs: A) -> Result<Word, A::Error> {
        let start = self.parts.stack.len();
        self.parts.open.push((start, false));
        while let Some(key) = pairs.next_key_seed(self.reborrow())? {
            self.parts.push(key)?;
            let value = pairs.next_value_seed(self.reborrow())?;
            self.parts.push(value)?;
        }
        self.parts.open.pop();
        let dict = self.parts.builder.dict();
        if self.parts.stack.len() > start {
            self.parts.builder.set_items(dict, &self.parts.stack[start..]).map_err(A::Error::custom)?;
            self.parts.stack.truncate(start);
        }
        Ok(dict)
    }
}
