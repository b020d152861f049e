//! Snapshots that somebody converted to JSON: the same keys, tuples as lists.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::super::decode::{SnapshotBuilder, Word};
use super::LoadError;
use crate::pickle::Builder;

/// Decodes `text` into `builder`; answers with the outermost value.
pub(super) fn decode(text: &[u8], builder: &mut SnapshotBuilder) -> Result<Word, LoadError> {
    let mut stack = Vec::new();
    let mut json = serde_json::Deserializer::from_slice(text);
    let top = Node { builder, stack: &mut stack }.deserialize(&mut json)?;
    json.end()?;
    Ok(top)
}

/// One JSON value on its way into the builder. `stack` holds the items of the open lists and objects.
struct Node<'a> {
    builder: &'a mut SnapshotBuilder,
    stack: &'a mut Vec<Word>,
}

impl Node<'_> {
    fn reborrow(&mut self) -> Node<'_> {
        Node { builder: self.builder, stack: self.stack }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Word;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Word, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Word, E> {
        Ok(self.builder.none())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Word, E> {
        Ok(self.builder.bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Word, E> {
        Ok(self.builder.int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Word, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => self.builder.int(value),
            Err(_) => self.builder.uint(value),
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<Word, E> {
        Ok(self.builder.float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Word, E> {
        Ok(self.builder.text(value.as_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Word, A::Error> {
        let start = self.stack.len();
        while let Some(item) = items.next_element_seed(self.reborrow())? {
            self.stack.push(item);
        }
        let list = self.builder.list();
        if self.stack.len() > start {
            self.builder.append(list, &self.stack[start..], true).map_err(A::Error::custom)?;
            self.stack.truncate(start);
        }
        Ok(list)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut pairs: A) -> Result<Word, A::Error> {
        let start = self.stack.len();
        while let Some(key) = pairs.next_key_seed(self.reborrow())? {
            self.stack.push(key);
            let value = pairs.next_value_seed(self.reborrow())?;
            self.stack.push(value);
        }
        let dict = self.builder.dict();
        if self.stack.len() > start {
            self.builder.set_items(dict, &self.stack[start..]).map_err(A::Error::custom)?;
            self.stack.truncate(start);
        }
        Ok(dict)
    }
}
