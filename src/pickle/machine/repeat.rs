//! Shortcuts for what a file repeats a million times: a trace entry whose keys are written like those of the one before
//! it, and a list of the same references as an earlier one.
//!
//! Each carries out whole opcodes only and leaves the machine as these leave it one by one. Where the file goes on in
//! another way, it stops there, and the opcode loop continues. Both rest on what a reference means staying the same, so
//! that they end for good once a memo entry is replaced, which no pickler does.

use std::hash::BuildHasher;

use super::super::opcode::*;
use super::operand::{Operand, operand, reference};
use super::{Builder, Fault, Machine};

/// Lists that are remembered.
const LISTS: usize = 1 << 12;

/// Bytes of the longest list that is remembered: some 800 frames. It bounds what the lists take to 16 MB.
const LONGEST_LIST: usize = 1 << 12;

/// Keys of the largest entry that is carried out at once; the format has 12.
const MOST_KEYS: usize = 16;

/// What was seen before.
pub(super) struct Repeats<V> {
    /// Whether shortcuts are taken at all.
    pub(super) enabled: bool,
    /// The keys of the last entry as they are written, and what they are.
    written: Vec<Key>,
    keys: Vec<V>,
    /// The values of the entry at hand; kept to be reused, as is the next.
    values: Vec<V>,
    items: Vec<V>,
    /// References of a list, and the list: each at the place that the hash of the references names. A newer one takes
    /// the place of an older one, so that memory is bounded and only repetition counts.
    lists: Vec<Option<(Box<[u8]>, V)>>,
    /// Bytes of the references in `lists`.
    referring: usize,
}

/// A reference as it is written.
struct Key {
    bytes: u64,
    length: usize,
}

impl Key {
    /// Whether the input that starts with `word` starts with this key.
    #[inline]
    fn starts(&self, word: u64) -> bool {
        (word ^ self.bytes) << (64 - 8 * self.length) == 0
    }
}

impl<V> Repeats<V> {
    pub(super) fn new(enabled: bool) -> Self {
        let (written, keys, values, items, lists, referring) = Default::default();
        Self { enabled, written, keys, values, items, lists, referring }
    }

    /// Bytes of memory that grow with the file.
    pub(super) fn kept(&self) -> usize {
        self.items.capacity() * size_of::<V>()
            + self.lists.capacity() * size_of::<Option<(Box<[u8]>, V)>>()
            + self.referring
    }
}

impl<B: Builder> Machine<B> {
    /// Carries out as much as possible at once of the dict or list that starts at `used`, and answers where that ends.
    /// In case of a fault, `self.offset` is that of its opcode.
    #[inline]
    pub(super) fn shortcut(&mut self, opcode: u8, input: &[u8], used: usize, base: u64) -> Result<usize, Fault> {
        if !self.repeats.enabled || self.memo.is_rewritten() {
            return Ok(used);
        }
        if opcode == EMPTY_DICT {
            return self.entry(input, used, base);
        }
        let Some((Operand::List(references), length)) = operand(&input[used..]) else { return Ok(used) };
        if !self.has_room(references.len()) {
            return Ok(used);
        }
        match self.list(references, base + (used + length) as u64)? {
            Some(list) => {
                self.stack.push(list);
                Ok(used + length)
            }
            None => Ok(used),
        }
    }

    /// Whether a dict or list with so many values stays within the limits, whatever its length in bytes.
    #[inline]
    fn has_room(&self, values: usize) -> bool {
        let most = self.offset / 3 + self.limits.memo as u64;
        self.stack.len() + 2 * MOST_KEYS + values < self.limits.stack
            && self.marks.len() + 2 < self.limits.marks
            && ((self.memo.len() + MOST_KEYS + 1) as u64) < most
    }

    /// EMPTY_DICT MEMOIZE MARK (key value) … SETITEMS, as far as the keys are written like those of the entry before.
    fn entry(&mut self, input: &[u8], start: usize, base: u64) -> Result<usize, Fault> {
        let [EMPTY_DICT, MEMOIZE, MARK, rest @ ..] = &input[start..] else { return Ok(start) };
        let Some(&first) = rest.first_chunk() else { return Ok(start) };
        let first = u64::from_le_bytes(first);
        let known = self.repeats.written.first().is_some_and(|key| key.starts(first));
        if !self.has_room(0) || !known && !self.learn(rest) {
            return Ok(start);
        }

        let dict = self.builder.dict();
        self.memoize(dict);
        self.repeats.values.clear();
        let mut at = start + 3;
        for place in 0..self.repeats.written.len() {
            let key = &self.repeats.written[place];
            let after = at + key.length;
            let same = input[at..].first_chunk().is_some_and(|&bytes| key.starts(u64::from_le_bytes(bytes)));
            if !same {
                return Ok(self.give_way(dict, at));
            }
            let Some((operand, length)) = operand(&input[after..]) else { return Ok(self.give_way(dict, at)) };
            let end = after + length;
            let Some(value) = self.value(operand, base + end as u64)? else { return Ok(self.give_way(dict, at)) };
            self.repeats.values.push(value);
            at = end;
        }
        if input.get(at) != Some(&SETITEMS) {
            return Ok(self.give_way(dict, at));
        }
        self.offset = base + at as u64;
        self.builder.set_entry(dict, &self.repeats.keys, &self.repeats.values)?;
        self.stack.push(dict);
        Ok(at + 1)
    }

    /// Leaves an unfinished `dict` to the opcode loop: its pairs so far on the stack, above a MARK. The keys have
    /// changed: those of the next entry are to be learnt.
    #[cold]
    fn give_way(&mut self, dict: B::Value, at: usize) -> usize {
        self.stack.push(dict);
        self.marks.push(self.stack.len());
        self.stack.extend(self.repeats.keys.iter().zip(&self.repeats.values).flat_map(|(&key, &value)| [key, value]));
        self.repeats.written.clear();
        at
    }

    /// Reads ahead which keys the dict has whose first one `input` starts with. Answers whether it is an entry all of
    /// whose keys are references.
    #[cold]
    fn learn(&mut self, input: &[u8]) -> bool {
        self.repeats.written.clear();
        self.repeats.keys.clear();
        let learnt = self.read_keys(input).is_some();
        if !learnt {
            self.repeats.written.clear();
        }
        learnt
    }

    fn read_keys(&mut self, mut input: &[u8]) -> Option<()> {
        let Repeats { written, keys, .. } = &mut self.repeats;
        while *input.first()? != SETITEMS && keys.len() < MOST_KEYS {
            let (index, length) = reference(input)?;
            written.push(Key { bytes: u64::from_le_bytes(*input.first_chunk()?), length });
            keys.push(self.builder.recall(self.memo.get(index)?));
            // Most dicts that are no entries are known by their first key.
            if !self.builder.is_entry(keys) {
                return None;
            }
            let (_, skipped) = operand(&input[length..])?;
            input = &input[length + skipped..];
        }
        Some(())
    }

    /// The value that `operand`, which ends at `end` of the file, stands for. `None`, with nothing done, when it
    /// refers to what does not exist.
    #[inline]
    fn value(&mut self, operand: Operand, end: u64) -> Result<Option<B::Value>, Fault> {
        Ok(match operand {
            Operand::Reference(index) => self.recall(index),
            Operand::Int(value) => Some(self.builder.int(value)),
            Operand::Pair(first, second) => {
                let items = [self.builder.int(first), self.builder.int(second)];
                let tuple = self.builder.tuple(&items);
                self.memoize(tuple);
                Some(tuple)
            }
            Operand::List(references) => {
                if !self.has_room(references.len()) {
                    return Ok(None);
                }
                self.list(references, end)?
            }
        })
    }

    /// A new list of these references, memoized. `None`, with nothing done, when one refers to what does not exist.
    #[inline]
    fn list(&mut self, references: &[u8], end: u64) -> Result<Option<B::Value>, Fault> {
        if references.is_empty() {
            let list = self.builder.list();
            self.memoize(list);
            return Ok(Some(list));
        }
        let place = foldhash::fast::FixedState::default().hash_one(references) as usize % LISTS;
        if let Some(Some((same, like))) = self.repeats.lists.get(place)
            && **same == *references
            && let Some(list) = self.builder.list_like(*like)
        {
            self.memoize(list);
            return Ok(Some(list));
        }
        self.new_list(references, place, end)
    }

    fn new_list(&mut self, references: &[u8], place: usize, end: u64) -> Result<Option<B::Value>, Fault> {
        self.repeats.items.clear();
        let mut rest = references;
        while let Some((index, length)) = reference(rest) {
            let Some(kept) = self.memo.get(index) else { return Ok(None) };
            self.repeats.items.push(self.builder.recall(kept));
            rest = &rest[length..];
        }
        let list = self.builder.list();
        self.memoize(list);
        self.offset = end - 1;
        self.builder.append(list, &self.repeats.items, true)?;
        if references.len() <= LONGEST_LIST {
            let lists = &mut self.repeats.lists;
            if lists.is_empty() {
                lists.resize_with(LISTS, || None);
            }
            self.repeats.referring += references.len();
            if let Some((older, _)) = lists[place].replace((references.into(), list)) {
                self.repeats.referring -= older.len();
            }
        }
        Ok(Some(list))
    }
}
