//! Which free block the allocator takes for a request, and what it would have to map if it finds none.
//!
//! `get_free_block` of `CUDACachingAllocator.cpp` takes the smallest block of the request's own pool and stream that is
//! large enough, with exceptions for expandable memory and oversize blocks; it tries no second candidate.

use std::collections::BTreeMap;

use super::pool_key::PoolKey;
use crate::allocator::{AllocatorRules, PoolKind};
use crate::history::{Hole, State, StateRange};

/// A free block as the search sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeBlock {
    /// Where it is.
    pub hole: Hole,
    /// Whether it is expandable memory.
    pub expandable: bool,
    /// Its bytes with the unmapped address space that follows it, which can be mapped to make it larger.
    pub reach: u64,
}

/// The free blocks of one pool, stream and size class: by size, then by address.
///
/// From torch 2.13 on ties go to the oldest segment instead, whose age the file does not have: another block of the
/// same size may be taken then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FreeSet {
    blocks: Vec<FreeBlock>,
    /// Expandable memory by address: mapped free, mapped and used, unmapped.
    chain: Vec<Link>,
}

/// A stretch of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// Offset from the start of its range, and bytes.
    Free(u64, u64),
    Used,
    Unmapped(u64),
}

/// The free blocks of every pool in `state`.
pub fn free_sets(state: &State) -> BTreeMap<PoolKey, FreeSet> {
    let mut sets: BTreeMap<PoolKey, FreeSet> = BTreeMap::new();
    let mut last_of: BTreeMap<PoolKey, u64> = BTreeMap::new();
    for (range, next) in state.ranges.iter().zip(next_expandable(state)) {
        let key = PoolKey::from(&range.range);
        let set = sets.entry(key).or_default();
        let end = range.addr.saturating_add(range.bytes);
        let mut unmapped_behind = 0;
        if range.range.expandable {
            if let Some(before) = last_of.insert(key, end) {
                set.gap(range.addr.saturating_sub(before));
            }
            unmapped_behind = next.saturating_sub(end);
            set.chain_of(state, range);
        }
        for hole in state.holes_of(range) {
            let reach =
                if hole.addr + hole.bytes == end { hole.bytes.saturating_add(unmapped_behind) } else { hole.bytes };
            set.blocks.push(FreeBlock { hole, expandable: range.range.expandable, reach });
        }
    }
    for set in sets.values_mut() {
        set.blocks.sort_unstable_by_key(|block| (block.hole.bytes, block.hole.addr));
    }
    sets
}

/// For each range of `state` where the next expandable one of its pool begins. Behind the last lies the rest of the
/// reservation, which is more than the device has.
fn next_expandable(state: &State) -> Vec<u64> {
    let mut nearest: BTreeMap<PoolKey, u64> = BTreeMap::new();
    let mut next: Vec<u64> = Vec::with_capacity(state.ranges.len());
    for range in state.ranges.iter().rev() {
        let key = PoolKey::from(&range.range);
        next.push(nearest.get(&key).copied().unwrap_or(u64::MAX));
        if range.range.expandable {
            nearest.insert(key, range.addr);
        }
    }
    next.reverse();
    next
}

impl FreeSet {
    fn gap(&mut self, bytes: u64) {
        if bytes > 0 {
            self.chain.push(Link::Unmapped(bytes));
        }
    }

    fn chain_of(&mut self, state: &State, range: &StateRange) {
        let mut at = range.addr;
        for block in state.blocks_of(range) {
            if block.addr > at {
                self.chain.push(Link::Free(at - range.addr, block.addr - at));
            }
            if self.chain.last() != Some(&Link::Used) {
                self.chain.push(Link::Used);
            }
            at = at.max(block.end());
        }
        let end = range.addr.saturating_add(range.bytes);
        if end > at {
            self.chain.push(Link::Free(at - range.addr, end - at));
        }
    }

    /// The blocks, smallest first.
    pub fn blocks(&self) -> &[FreeBlock] {
        &self.blocks
    }

    /// The block that a request of `rounded` bytes gets.
    pub fn find(&self, rounded: u64, rules: &AllocatorRules) -> Option<&FreeBlock> {
        let mut at = self.blocks.partition_point(|block| block.hole.bytes < rounded);
        if self.blocks.get(at)?.expandable {
            if rules.expandable {
                // A free tail looks as large as all that can be mapped behind it, and is spared.
                while let [here, next, ..] = &self.blocks[at..]
                    && here.expandable
                    && next.reach < here.reach
                {
                    at += 1;
                }
            } else {
                at += self.blocks[at..].iter().position(|block| !block.expandable)?;
            }
        }
        let found = self.blocks.get(at)?;
        let is_accepted = match rules.max_split_size {
            Some(max) if rounded < max => found.hole.bytes < max,
            Some(_) => found.hole.bytes < rounded.saturating_add(rules.max_non_split_rounding),
            None => true,
        };
        is_accepted.then_some(found)
    }

    /// The block that a request of `rounded` bytes gets although the search refused it as too large for the request: the
    /// path that maps expandable memory starts from a free tail, and finds that nothing needs to be mapped.
    pub fn find_tail(&self, rounded: u64, granule: u64, rules: &AllocatorRules) -> Option<&FreeBlock> {
        if !rules.expandable || !self.has_expandable() || self.growth(rounded, granule, false) > 0 {
            return None;
        }
        let tails = self.blocks.iter().filter(|block| block.expandable && block.reach > block.hole.bytes);
        tails.filter(|block| block.hole.bytes >= rounded).min_by_key(|block| block.hole.addr)
    }

    /// The largest request that a block here serves, in bytes as the program asks for them.
    pub fn largest_request(&self, kind: PoolKind, rules: &AllocatorRules) -> Option<u64> {
        self.blocks.iter().rev().find_map(|block| {
            let request = largest_within(block.hole.bytes, kind, rules)?;
            self.find(rules.round_size(request), rules).map(|_| request)
        })
    }

    /// Bytes that a request of `rounded` bytes would map in expandable memory when no block serves it; after a flush of
    /// the default pools when `is_flushed`, which unmaps every whole granule that is free.
    pub fn growth(&self, rounded: u64, granule: u64, is_flushed: bool) -> u64 {
        let granule = granule.max(1);
        let whole = |bytes: u64| bytes.div_ceil(granule).saturating_mul(granule);
        let mut chain = if is_flushed { self.flushed(granule) } else { self.chain.clone() };
        chain.push(Link::Unmapped(u64::MAX));
        for (at, _) in chain.iter().enumerate().filter(|(_, link)| matches!(link, Link::Unmapped(_))) {
            let start = match at.checked_sub(1).map(|before| chain[before]) {
                Some(Link::Free(..)) => at - 1,
                _ => at,
            };
            let (mut have, mut mapped) = (0u64, 0u64);
            for link in &chain[start..] {
                match *link {
                    Link::Used => break,
                    Link::Free(_, bytes) => have = have.saturating_add(bytes),
                    Link::Unmapped(bytes) => {
                        let taken = whole(bytes.min(rounded.saturating_sub(have)));
                        (have, mapped) = (have.saturating_add(taken), mapped.saturating_add(taken));
                    }
                }
                if have >= rounded {
                    return mapped;
                }
            }
        }
        whole(rounded)
    }

    /// The chain when every whole granule of its free stretches is unmapped.
    fn flushed(&self, granule: u64) -> Vec<Link> {
        let mut chain = Vec::with_capacity(self.chain.len());
        for &link in &self.chain {
            let Link::Free(at, bytes) = link else {
                chain.push(link);
                continue;
            };
            let (from, to) = (at.next_multiple_of(granule), (at + bytes) / granule * granule);
            let pieces = match from < to {
                true => [Link::Free(at, from - at), Link::Unmapped(to - from), Link::Free(to, at + bytes - to)],
                false => [link, Link::Unmapped(0), Link::Free(0, 0)],
            };
            chain.extend(pieces.iter().filter(|piece| !matches!(piece, Link::Free(_, 0) | Link::Unmapped(0))));
        }
        chain
    }

    /// Whether it has expandable memory.
    pub fn has_expandable(&self) -> bool {
        !self.chain.is_empty()
    }
}

/// Bytes that a request of `rounded` bytes takes of `block`: all of it when what would remain is not split off.
pub fn taken(rounded: u64, block: &FreeBlock, kind: PoolKind, rules: &AllocatorRules) -> u64 {
    let remaining = block.hole.bytes.saturating_sub(rounded);
    if rules.splits(rounded, remaining, kind, rules.expandable) { rounded } else { block.hole.bytes }
}

/// The largest request whose rounded size is at most `bytes` and goes to pools of `kind`.
fn largest_within(bytes: u64, kind: PoolKind, rules: &AllocatorRules) -> Option<u64> {
    let limit = match kind {
        PoolKind::Small => bytes.min(rules.small_limit),
        PoolKind::Large => bytes,
    };
    // Rounding never decreases with the request, so the border can be searched for.
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if rules.round_size(middle) <= limit { low = middle } else { high = middle - 1 }
    }
    (low > 0 && rules.pool_kind(rules.round_size(low)) == kind).then_some(low)
}
