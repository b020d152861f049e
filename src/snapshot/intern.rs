//! Tables of distinct values.

use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::HashTable;

use super::ids::{FrameId, MAX_ROWS, StackId, StrId};
use crate::pickle::BuildError;

/// Randomly seeded, so that a file cannot be made to collide. Nothing depends on the order of a table.
type Seed = foldhash::fast::RandomState;

fn next_id(len: usize, what: &'static str) -> Result<u32, BuildError> {
    u32::try_from(len).ok().filter(|&id| id < MAX_ROWS).ok_or(BuildError::TooMany(what))
}

/// Bytes of memory of `table`: an id and a byte of its own for each place.
fn kept(table: &HashTable<u32>) -> usize {
    table.capacity() * 8 / 7 * 5
}

/// Distinct strings in one buffer.
#[derive(Default)]
pub struct Strings {
    text: String,
    ends: Vec<usize>,
    table: HashTable<u32>,
    seed: Seed,
}

impl Strings {
    pub(super) fn intern(&mut self, bytes: &[u8]) -> Result<StrId, BuildError> {
        let hash = self.seed.hash_one(bytes);
        let (text, ends) = (&self.text, &self.ends);
        if let Some(&id) = self.table.find(hash, |&id| slice(text, ends, id).as_bytes() == bytes) {
            return Ok(StrId(id));
        }
        // Only malformed text is copied, and looked up again under its repaired form.
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => return self.intern(String::from_utf8_lossy(bytes).as_bytes()),
        };
        let id = next_id(self.ends.len(), "strings")?;
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (text, ends, seed) = (&self.text, &self.ends, &self.seed);
        self.table.insert_unique(hash, id, |&id| seed.hash_one(slice(text, ends, id).as_bytes()));
        Ok(StrId(id))
    }

    pub(super) fn kept(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>() + kept(&self.table)
    }

    /// The string of `id`.
    pub fn get(&self, id: StrId) -> &str {
        slice(&self.text, &self.ends, id.0)
    }

    /// Number of strings.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all strings.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The same strings with the same numbers, but of those that `is_cut` names only the first `most` bytes or a few
    /// less. Strings that become equal by that remain two.
    pub(super) fn shortened(&self, is_cut: impl Fn(StrId) -> bool, most: usize) -> Self {
        let mut short = Self { seed: self.seed.clone(), ..Self::default() };
        for id in (0..self.ends.len() as u32).map(StrId) {
            let text = self.get(id);
            let end = if is_cut(id) { most.min(text.len()) } else { text.len() };
            let end = (0..=end).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            short.text.push_str(&text[..end]);
            short.ends.push(short.text.len());
        }
        let (text, ends, seed) = (&short.text, &short.ends, &short.seed);
        let hash = |&id: &u32| seed.hash_one(slice(text, ends, id).as_bytes());
        for id in 0..ends.len() as u32 {
            short.table.insert_unique(hash(&id), id, hash);
        }
        short
    }
}

fn slice<'a>(text: &'a str, ends: &[usize], id: u32) -> &'a str {
    let at = id as usize;
    let start = if at == 0 { 0 } else { ends[at - 1] };
    &text[start..ends[at]]
}

/// One frame of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Function name.
    pub name: StrId,
    /// Source file, as the recorder wrote it.
    pub filename: StrId,
    /// Line in the file; 0 when unknown. Some C++ symbolisers write a byte offset here.
    pub line: u32,
}

/// A value kept in a [`Table`].
trait Row: Copy + Eq + Hash {}
impl<T: Copy + Eq + Hash> Row for T {}

/// Distinct small values, numbered in order of appearance.
pub(super) struct Table<T> {
    pub(super) rows: Vec<T>,
    table: HashTable<u32>,
    seed: Seed,
    what: &'static str,
    last: u32,
}

#[allow(private_bounds)]
impl<T: Row> Table<T> {
    /// A table whose value number 0 is `first`; `what` names its values in an error.
    pub(super) fn starting_with(first: T, what: &'static str) -> Self {
        let seed = Seed::default();
        let mut table = HashTable::new();
        table.insert_unique(seed.hash_one(first), 0, |_| 0);
        Self { rows: vec![first], table, seed, what, last: 0 }
    }

    pub(super) fn kept(&self) -> usize {
        self.rows.capacity() * size_of::<T>() + kept(&self.table)
    }

    #[inline]
    pub(super) fn intern(&mut self, value: T) -> Result<u32, BuildError> {
        // Neighbouring rows mostly repeat the value.
        if self.rows[self.last as usize] == value { Ok(self.last) } else { self.intern_another(value) }
    }

    fn intern_another(&mut self, value: T) -> Result<u32, BuildError> {
        let hash = self.seed.hash_one(value);
        let (rows, seed) = (&self.rows, &self.seed);
        if let Some(&id) = self.table.find(hash, |&id| rows[id as usize] == value) {
            self.last = id;
            return Ok(id);
        }
        let id = next_id(self.rows.len(), self.what)?;
        self.rows.push(value);
        let rows = &self.rows;
        self.table.insert_unique(hash, id, |&id| seed.hash_one(rows[id as usize]));
        self.last = id;
        Ok(id)
    }
}

/// Distinct lists of frames in one buffer.
pub struct Stacks {
    frames: Vec<FrameId>,
    ends: Vec<usize>,
    table: HashTable<u32>,
    seed: Seed,
}

impl Default for Stacks {
    fn default() -> Self {
        let mut stacks = Self { frames: Vec::new(), ends: vec![0], table: HashTable::new(), seed: Seed::default() };
        let hash = hash_stack(&stacks.seed, &[]);
        stacks.table.insert_unique(hash, StackId::EMPTY.0, |_| 0);
        stacks
    }
}

impl Stacks {
    pub(super) fn intern(&mut self, stack: &[FrameId]) -> Result<StackId, BuildError> {
        let hash = hash_stack(&self.seed, stack);
        let (frames, ends) = (&self.frames, &self.ends);
        if let Some(&id) = self.table.find(hash, |&id| range(frames, ends, id) == stack) {
            return Ok(StackId(id));
        }
        let id = next_id(self.ends.len(), "stacks")?;
        self.frames.extend_from_slice(stack);
        self.ends.push(self.frames.len());
        let (frames, ends, seed) = (&self.frames, &self.ends, &self.seed);
        self.table.insert_unique(hash, id, |&id| hash_stack(seed, range(frames, ends, id)));
        Ok(StackId(id))
    }

    pub(super) fn kept(&self) -> usize {
        self.frames.capacity() * size_of::<FrameId>() + self.ends.capacity() * size_of::<usize>() + kept(&self.table)
    }

    /// The frames of `id`, innermost first; none for [`StackId::NONE`].
    pub fn get(&self, id: StackId) -> &[FrameId] {
        if id == StackId::NONE { &[] } else { range(&self.frames, &self.ends, id.0) }
    }

    /// Number of distinct stacks, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether only the empty stack exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }
}

/// Two frames at a time: stacks are long, and most of them were seen before.
fn hash_stack(seed: &Seed, stack: &[FrameId]) -> u64 {
    let mut hasher = seed.build_hasher();
    for pair in stack.chunks(2) {
        // The value that pads an odd number is no frame's.
        let second = pair.get(1).map_or(u32::MAX, |frame| frame.0);
        hasher.write_u64(u64::from(pair[0].0) << 32 | u64::from(second));
    }
    hasher.finish()
}

fn range<'a>(frames: &'a [FrameId], ends: &[usize], id: u32) -> &'a [FrameId] {
    let at = id as usize;
    let start = if at == 0 { 0 } else { ends[at - 1] };
    &frames[start..ends[at]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_get_one_id() {
        let mut strings = Strings::default();
        let ids: Vec<_> = ["", "a", "b", "a", ""].iter().map(|s| strings.intern(s.as_bytes()).unwrap()).collect();
        assert_eq!(ids, [StrId(0), StrId(1), StrId(2), StrId(1), StrId(0)]);
        assert_eq!(strings.get(StrId(2)), "b");

        let mut stacks = Stacks::default();
        assert_eq!(stacks.intern(&[]).unwrap(), StackId::EMPTY);
        let one = stacks.intern(&[FrameId(1), FrameId(2)]).unwrap();
        assert_eq!(stacks.intern(&[FrameId(1), FrameId(2)]).unwrap(), one);
        assert_eq!(stacks.get(one), [FrameId(1), FrameId(2)]);
        assert_eq!(stacks.get(StackId::NONE), []);
    }

    #[test]
    fn malformed_text_is_repaired_once() {
        let mut strings = Strings::default();
        let id = strings.intern(b"a\xff").unwrap();
        assert_eq!(strings.intern(b"a\xff").unwrap(), id);
        assert_eq!(strings.get(id), "a\u{fffd}");
    }
}
