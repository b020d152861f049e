//! Shortcuts for what a file repeats a million times: a trace entry whose keys are written like those of the one before
//! it, and a list of the same references as an earlier one.
//!
//! Each carries out whole opcodes only and leaves the machine as these leave it one by one. Where the file goes on in
//! another way, it stops there, and the opcode loop continues. Both rest on what a reference means staying the same, so
//! that they end for good once a memo entry is replaced, which no pickler does.

use std::hash::BuildHasher;

use super::super::opcode::*;
use super::operand::{AHEAD, Operand, Scalar, operand, reference, scalar};
use super::{Builder, Fault, Machine};

/// Lists that are remembered.
const LISTS: usize = 1 << 12;

/// Bytes of the longest list that is remembered: some 800 frames. It bounds what the lists take to 16 MB.
const LONGEST_LIST: usize = 1 << 12;

/// Keys of the largest entry that is carried out at once; the format has 12.
const MOST_KEYS: usize = 16;

/// Bytes at which a key and the start of its value are looked at together: a long reference and the longest integer.
const WINDOW: usize = 5 + AHEAD + 1;

/// What was seen before.
pub(super) struct Repeats<B: Builder> {
    /// Whether shortcuts are taken at all.
    pub(super) enabled: bool,
    /// The keys of the last entry as they are written, and what they are.
    written: Vec<Key>,
    keys: Vec<B::Value>,
    known: Option<B::EntryKeys>,
    /// The values of the entry at hand, one for each key; kept to be reused, as are the items of a list.
    values: Vec<B::Value>,
    items: Vec<B::Value>,
    /// Each list at the place that the hash of its references names. A newer one takes the place of an older one, so
    /// that memory is bounded and only repetition counts.
    lists: Vec<Option<Seen<B::Value>>>,
    /// Bytes of the references in `lists`.
    referring: usize,
}

/// References of a list, and the list.
type Seen<V> = (Box<[u8]>, V);

/// A key of an entry.
#[derive(Clone, Copy)]
struct Key {
    /// The reference as it is written, and which bits of the word it takes.
    bytes: u64,
    mask: u64,
    length: usize,
    /// Whether its value is a pair, which starts like an integer.
    has_pair: bool,
}

impl Key {
    /// The key of `length` bytes that `word` starts with.
    fn new(word: u64, length: usize, has_pair: bool) -> Self {
        let mask = (1 << (8 * length)) - 1;
        Self { bytes: word & mask, mask, length, has_pair }
    }

    /// Whether the input that starts with `word` starts with this key.
    #[inline]
    fn starts(&self, word: u64) -> bool {
        word & self.mask == self.bytes
    }

    /// What follows the key in the window that starts with it.
    #[inline]
    fn behind<'a>(&self, window: &'a [u8; WINDOW]) -> &'a [u8; AHEAD] {
        let [_, _, short @ .., _, _, _, _] = window;
        let [_, _, _, _, _, long @ .., _] = window;
        if self.length == 2 { short } else { long }
    }
}

impl<B: Builder> Repeats<B> {
    pub(super) fn new(enabled: bool) -> Self {
        let (written, keys, known, values, items, lists, referring) = Default::default();
        Self { enabled, written, keys, known, values, items, lists, referring }
    }

    /// Bytes of memory that grow with the file.
    pub(super) fn kept(&self) -> usize {
        self.items.capacity() * size_of::<B::Value>()
            + self.lists.capacity() * size_of::<Option<Seen<B::Value>>>()
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
        let (mut place, mut at) = (0, start + 3);
        while let Some(&key) = self.repeats.written.get(place) {
            let Some(window) = input[at..].first_chunk::<WINDOW>() else { break };
            if !window.first_chunk().is_some_and(|&word| key.starts(u64::from_le_bytes(word))) {
                break;
            }
            let behind = at + key.length;
            let (value, length) = match scalar(key.behind(window)) {
                Some((Scalar::Int(value), length)) if !key.has_pair => (self.builder.int(value), length),
                Some((Scalar::Reference(index), length)) => {
                    let Some(kept) = self.memo.get(index) else { break };
                    (self.builder.recall(kept), length)
                }
                _ => {
                    let Some((operand, length)) = operand(&input[behind..]) else { break };
                    let Some(value) = self.value(operand, base + (behind + length) as u64)? else { break };
                    (value, length)
                }
            };
            self.repeats.values[place] = value;
            (place, at) = (place + 1, behind + length);
        }
        let is_whole = place == self.repeats.written.len() && input.get(at) == Some(&SETITEMS);
        let Some(keys) = self.repeats.known.as_ref().filter(|_| is_whole) else {
            return Ok(self.give_way(dict, place, at));
        };
        self.offset = base + at as u64;
        self.builder.set_entry(dict, keys, &self.repeats.values)?;
        self.stack.push(dict);
        Ok(at + 1)
    }

    /// Leaves an unfinished `dict` to the opcode loop: its first `pairs` on the stack, above a MARK. The keys have
    /// changed: those of the next entry are to be learnt.
    #[cold]
    fn give_way(&mut self, dict: B::Value, pairs: usize, at: usize) -> usize {
        self.stack.push(dict);
        self.marks.push(self.stack.len());
        let pairs = self.repeats.keys.iter().zip(&self.repeats.values).take(pairs);
        self.stack.extend(pairs.flat_map(|(&key, &value)| [key, value]));
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
        // Each is replaced before it is read.
        self.repeats.values.clone_from(&self.repeats.keys);
        learnt
    }

    fn read_keys(&mut self, mut input: &[u8]) -> Option<()> {
        let Repeats { written, keys, known, .. } = &mut self.repeats;
        while *input.first()? != SETITEMS && keys.len() < MOST_KEYS {
            let (index, length) = reference(input)?;
            let word = u64::from_le_bytes(*input.first_chunk()?);
            keys.push(self.builder.recall(self.memo.get(index)?));
            // Most dicts that are no entries are known by their first key.
            *known = Some(self.builder.entry_keys(keys)?);
            let (value, skipped) = operand(&input[length..])?;
            written.push(Key::new(word, length, matches!(value, Operand::Pair(..))));
            input = &input[length + skipped..];
        }
        Some(())
    }

    /// The value that `operand`, which ends at `end` of the file, stands for. `None`, with nothing done, when it
    /// refers to what does not exist.
    #[inline]
    fn value(&mut self, operand: Operand, end: u64) -> Result<Option<B::Value>, Fault> {
        Ok(match operand {
            Operand::Scalar(Scalar::Reference(index)) => self.recall(index),
            Operand::Scalar(Scalar::Int(value)) => Some(self.builder.int(value)),
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
