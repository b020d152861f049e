//! The ordered set of free blocks of one stream.
//!
//! Most requests look for the smallest block of at least some size, take it and put a smaller one back, so sizes are
//! sorted into bins, 32 for each power of two, with a bitmap of those that hold something. Inside a bin the order is
//! kept by a short vector, or by a tree where many blocks have nearly one size. Sets of a few blocks have no bins.

use std::collections::BTreeMap;
use std::iter;

use super::block::Block;
use crate::allocator::TieBreak;

/// Order of free blocks of one stream: size, then what breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FreeKey {
    size: u64,
    age: u64,
    addr: u64,
}

impl FreeKey {
    pub fn of(block: &Block, tie_break: TieBreak) -> Self {
        let age = if tie_break == TieBreak::SegmentAge { block.age } else { 0 };
        Self { size: block.size, age, addr: block.addr }
    }

    /// Before every block of `size` bytes.
    pub fn first(size: u64) -> Self {
        Self { size, age: 0, addr: 0 }
    }
}

type Entry = (FreeKey, u32);

/// Sets up to this size have no bins.
const FEW: usize = 24;
/// Bins up to this size are vectors.
const SHORT: usize = 64;

#[derive(Clone, Debug)]
pub(super) enum FreeSet {
    Few(Vec<Entry>),
    Many(Box<Bins>),
}

impl Default for FreeSet {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl FreeSet {
    pub fn insert(&mut self, key: FreeKey, id: u32) {
        match self {
            Self::Few(entries) if entries.len() < FEW => insert_sorted(entries, key, id),
            Self::Few(entries) => {
                let mut bins = Box::new(Bins::default());
                for (key, id) in std::mem::take(entries) {
                    bins.insert(key, id);
                }
                bins.insert(key, id);
                *self = Self::Many(bins);
            }
            Self::Many(bins) => bins.insert(key, id),
        }
    }

    pub fn remove(&mut self, key: &FreeKey) {
        match self {
            Self::Few(entries) => remove_sorted(entries, key),
            Self::Many(bins) => bins.remove(key),
        }
    }

    /// The first entry from `key` on.
    pub fn at_least(&self, key: &FreeKey) -> Option<Entry> {
        match self {
            Self::Few(entries) => at_least(entries, key),
            Self::Many(bins) => bins.at_least(key),
        }
    }

    /// The last entry before `key`.
    pub fn before(&self, key: &FreeKey) -> Option<Entry> {
        match self {
            Self::Few(entries) => before(entries, key),
            Self::Many(bins) => bins.before(key),
        }
    }

    /// The blocks from `key` on, in order.
    pub fn from(&self, key: FreeKey) -> impl Iterator<Item = u32> {
        let next = |(key, _): &Entry| self.at_least(&FreeKey { addr: key.addr.checked_add(1)?, ..*key });
        iter::successors(self.at_least(&key), next).map(|(_, id)| id)
    }

    /// The blocks before `key`, the last one first.
    pub fn down_from(&self, key: FreeKey) -> impl Iterator<Item = u32> {
        iter::successors(self.before(&key), |(key, _)| self.before(key)).map(|(_, id)| id)
    }

    /// All blocks, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.from(FreeKey::first(0))
    }

    pub fn contains(&self, key: &FreeKey, id: u32) -> bool {
        self.at_least(key) == Some((*key, id))
    }
}

/// Bins for each power of two, as a power of two.
const PRECISION: u32 = 5;
/// Enough for every size of 64 bits.
const WORDS: usize = 30;

/// Entries by size; bin numbers grow with the size.
#[derive(Clone, Debug, Default)]
pub(super) struct Bins {
    /// As many as were needed.
    bins: Vec<Bin>,
    occupied: [u64; WORDS],
    /// The words of `occupied` that are not zero.
    words: u32,
}

#[derive(Clone, Debug)]
enum Bin {
    Short(Vec<Entry>),
    Long(BTreeMap<FreeKey, u32>),
}

impl Bins {
    fn insert(&mut self, key: FreeKey, id: u32) {
        let at = bin_of(key.size);
        if at >= self.bins.len() {
            self.bins.resize(at + 1, Bin::Short(Vec::new()));
        }
        match &mut self.bins[at] {
            Bin::Short(entries) if entries.len() < SHORT => insert_sorted(entries, key, id),
            Bin::Short(entries) => {
                let mut entries: BTreeMap<_, _> = std::mem::take(entries).into_iter().collect();
                entries.insert(key, id);
                self.bins[at] = Bin::Long(entries);
            }
            Bin::Long(entries) => {
                entries.insert(key, id);
            }
        }
        self.occupied[at / 64] |= 1 << (at % 64);
        self.words |= 1 << (at / 64);
    }

    fn remove(&mut self, key: &FreeKey) {
        let at = bin_of(key.size);
        let empty = match self.bins.get_mut(at) {
            None => return,
            Some(Bin::Short(entries)) => {
                remove_sorted(entries, key);
                entries.is_empty()
            }
            Some(Bin::Long(entries)) => {
                entries.remove(key);
                entries.is_empty()
            }
        };
        if empty {
            self.occupied[at / 64] &= !(1 << (at % 64));
            if self.occupied[at / 64] == 0 {
                self.words &= !(1 << (at / 64));
            }
        }
    }

    fn at_least(&self, key: &FreeKey) -> Option<Entry> {
        let at = bin_of(key.size);
        let here = match self.bins.get(at)? {
            Bin::Short(entries) => at_least(entries, key),
            Bin::Long(entries) => entries.range(key..).next().map(|(key, id)| (*key, *id)),
        };
        here.or_else(|| match &self.bins[self.occupied_after(at)?] {
            Bin::Short(entries) => entries.first().copied(),
            Bin::Long(entries) => entries.first_key_value().map(|(key, id)| (*key, *id)),
        })
    }

    fn before(&self, key: &FreeKey) -> Option<Entry> {
        let at = bin_of(key.size);
        let here = match self.bins.get(at) {
            None => None,
            Some(Bin::Short(entries)) => before(entries, key),
            Some(Bin::Long(entries)) => entries.range(..key).next_back().map(|(key, id)| (*key, *id)),
        };
        here.or_else(|| match &self.bins[self.occupied_before(at)?] {
            Bin::Short(entries) => entries.last().copied(),
            Bin::Long(entries) => entries.last_key_value().map(|(key, id)| (*key, *id)),
        })
    }

    fn occupied_after(&self, at: usize) -> Option<usize> {
        let (word, bit) = (at / 64, at % 64);
        let here = self.occupied[word] & (u64::MAX << bit << 1);
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let words = self.words & (u32::MAX << word << 1);
        let word = (words != 0).then(|| words.trailing_zeros() as usize)?;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    fn occupied_before(&self, at: usize) -> Option<usize> {
        let (word, bit) = (at / 64, at % 64);
        let here = self.occupied[word] & !(u64::MAX << bit);
        if here != 0 {
            return Some(word * 64 + here.ilog2() as usize);
        }
        let words = self.words & !(u32::MAX << word);
        let word = words.checked_ilog2()? as usize;
        Some(word * 64 + self.occupied[word].ilog2() as usize)
    }
}

/// The bin of a size: one for each unit of 512 bytes up to 16 KiB, then 32 for each power of two.
fn bin_of(size: u64) -> usize {
    let units = size / 512;
    let exponent = units.checked_ilog2().unwrap_or(0).saturating_sub(PRECISION);
    ((u64::from(exponent) << PRECISION) + (units >> exponent)) as usize
}

fn insert_sorted(entries: &mut Vec<Entry>, key: FreeKey, id: u32) {
    match entries.binary_search_by(|entry| entry.0.cmp(&key)) {
        Ok(at) => entries[at].1 = id,
        Err(at) => entries.insert(at, (key, id)),
    }
}

fn remove_sorted(entries: &mut Vec<Entry>, key: &FreeKey) {
    if let Ok(at) = entries.binary_search_by(|entry| entry.0.cmp(key)) {
        entries.remove(at);
    }
}

fn at_least(entries: &[Entry], key: &FreeKey) -> Option<Entry> {
    entries.get(entries.partition_point(|entry| entry.0 < *key)).copied()
}

fn before(entries: &[Entry], key: &FreeKey) -> Option<Entry> {
    entries[..entries.partition_point(|entry| entry.0 < *key)].last().copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_grow_with_the_size() {
        let sizes = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) + (1 << bit >> 1), ((1 << bit) - 1)]);
        let mut sizes: Vec<_> = sizes.chain([u64::MAX]).collect();
        sizes.sort_unstable();
        assert!(sizes.windows(2).all(|pair| bin_of(pair[0]) <= bin_of(pair[1])));
        assert!(bin_of(u64::MAX) < WORDS * 64 && WORDS <= 32);
        assert_eq!([bin_of(0), bin_of(512), bin_of(1024), bin_of(63 * 512), bin_of(64 * 512)], [0, 1, 2, 63, 64]);
    }

    proptest! {
        #[test]
        fn a_set_agrees_with_a_tree(
            calls in prop::collection::vec((0..3u8, 0..40u32, 0..3u64, 0..200u64), 1..600),
            steps in 0..3u64,
        ) {
            let (mut set, mut tree) = (FreeSet::default(), BTreeMap::new());
            for (call, bits, age, addr) in calls {
                let size = if steps == 0 { 512 } else { (1u64 << bits) + addr * steps };
                let key = FreeKey { size, age, addr };
                match call {
                    0 => {
                        set.remove(&key);
                        tree.remove(&key);
                    }
                    _ => {
                        set.insert(key, bits);
                        tree.insert(key, bits);
                    }
                }
                let copied = |(key, id): (&FreeKey, &u32)| (*key, *id);
                let key = FreeKey { addr: addr / 2, ..key };
                prop_assert_eq!(set.at_least(&key), tree.range(key..).next().map(copied));
                prop_assert_eq!(set.before(&key), tree.range(..key).next_back().map(copied));
            }
            prop_assert!(set.iter().eq(tree.values().copied()));
        }
    }
}
