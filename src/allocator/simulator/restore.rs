//! Starting from a state that was recorded instead of from nothing.

use thiserror::Error;

use super::block::{NONE, State};
use super::expandable::ExpandableSegment;
use super::free_set::FreeKey;
use super::{BlockStatus, DEFAULT_LARGE, DEFAULT_SMALL, MempoolId, Simulator};
use crate::allocator::{PoolKind, TieBreak};

/// Distance between the ages of loaded segments.
const AGE_STEP: u64 = 1 << 32;

/// A segment at the start, or one contiguous mapped range of an expandable segment. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialSegment {
    /// Start.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Its stream.
    pub stream: u64,
    /// Small or large.
    pub kind: PoolKind,
    /// Its pool.
    pub pool: MempoolId,
    /// Part of an expandable segment.
    pub expandable: bool,
    /// The blocks, by address; they cover the segment.
    pub blocks: Vec<InitialBlock>,
}

/// A block of an [`InitialSegment`]. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialBlock {
    /// Start.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// What the program asked for.
    pub requested: u64,
    /// What the block is doing. Blocks that wait for a stream go on waiting.
    pub status: BlockStatus,
}

/// A state that no allocator can be in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// The blocks leave gaps, overlap, or have no bytes.
    #[error("the blocks of the segment at {0:#x} do not cover it exactly")]
    Blocks(u64),
    /// Two segments share addresses.
    #[error("the segment at {0:#x} overlaps the one before it")]
    Overlap(u64),
    /// Only a new simulator can be loaded.
    #[error("the simulator already holds memory")]
    NotEmpty,
}

impl Simulator {
    /// Puts the recorded `segments` into a new simulator, the first of them being the oldest. Counters start with what is
    /// there. [`Simulator::segments`] gives the numbers of the blocks.
    ///
    /// `bases` are known starts of expandable segments; a range that no base precedes starts a segment of its own, so
    /// that unmapped memory before it is not known.
    pub fn load(&mut self, segments: &[InitialSegment], bases: &[u64]) -> Result<(), RestoreError> {
        if self.blocks.iter().next().is_some() {
            return Err(RestoreError::NotEmpty);
        }
        let mut order: Vec<usize> = (0..segments.len()).collect();
        order.sort_by_key(|at| segments[*at].address);
        let mut end = 0;
        for segment in order.iter().map(|at| &segments[*at]) {
            if segment.address < end {
                return Err(RestoreError::Overlap(segment.address));
            }
            end = covered(segment).ok_or(RestoreError::Blocks(segment.address))?;
        }
        for segment in segments.iter().filter(|segment| !segment.expandable) {
            let age = self.initial_age();
            let list = self.list_of(segment);
            self.device.occupy(segment.size);
            self.add_blocks(segment, list, age, NONE, NONE);
            self.device.segments.carve(segment.address, segment.size);
            self.device.reservations.carve(segment.address, segment.size);
            self.stats.segment.add(segment.kind, 1);
            if self.is_oversize(segment.size) {
                self.stats.oversize_segments.add(1);
            }
        }
        let expandable: Vec<&InitialSegment> =
            order.iter().map(|at| &segments[*at]).filter(|segment| segment.expandable).collect();
        self.add_reservations(&expandable, bases);
        self.next_age += AGE_STEP;
        Ok(())
    }

    /// Ages of loaded segments leave room between them, for what [`Simulator::prefer_initial`] learns.
    fn initial_age(&mut self) -> u64 {
        self.next_age += AGE_STEP;
        self.initial_ages.insert(self.next_age);
        self.next_age
    }

    /// Uses what a record shows about the order of the loaded segments, which snapshots do not write down: if a request
    /// would take a block of a loaded segment, but the record took the equally large free block at `addr`, then the
    /// segment of that one is older. True if the order was changed.
    pub fn prefer_initial(&mut self, mempool: MempoolId, requested: u64, stream: u64, addr: u64) -> bool {
        if self.behaviour.tie_break != TieBreak::SegmentAge {
            return false;
        }
        let params = self.params(mempool, requested, stream);
        let Some(taken) = self.best_fit(params.list, params.size, params.expandable) else { return false };
        let size = self.blocks[taken].size;
        let Some(wanted) = self.free_at(params.list, size, addr) else { return false };
        self.age_before(wanted, taken)
    }

    /// The same for a flush: the record released the free segment at `first`, of `size` bytes, before the equally large
    /// one at `second`, or before all others of its stream. True if the order was changed.
    pub fn prefer_release(&mut self, size: u64, first: u64, second: Option<u64>) -> bool {
        if self.behaviour.tie_break != TieBreak::SegmentAge {
            return false;
        }
        let mut lists = 0..self.lists.len() as u32;
        let Some((list, first)) = lists.find_map(|list| Some((list, self.free_at(list, size, first)?))) else {
            return false;
        };
        let second = match second {
            Some(addr) => self.free_at(list, size, addr),
            None => self.lists[list as usize].free.from(FreeKey::first(size)).next(),
        };
        second.is_some_and(|second| self.blocks[first].age > self.blocks[second].age && self.age_before(first, second))
    }

    /// The free block of exactly `size` bytes at `addr`.
    fn free_at(&self, list: u32, size: u64, addr: u64) -> Option<u32> {
        let larger = self.lists[list as usize].free.from(FreeKey::first(size));
        let mut ties = larger.take_while(|id| self.blocks[*id].size == size);
        ties.find(|id| self.blocks[*id].addr == addr)
    }

    /// Makes the loaded segment of block `id` the next older one than the loaded segment of block `than`.
    fn age_before(&mut self, id: u32, than: u32) -> bool {
        let (old, age) = (self.blocks[id].age, self.blocks[than].age);
        if old == age || !self.initial_ages.contains(&old) || !self.initial_ages.contains(&age) {
            return false;
        }
        let before = self.initial_ages.range(..age).next_back().copied().unwrap_or(0);
        let middle = before + (age - before) / 2;
        if middle <= before {
            return false;
        }
        self.initial_ages.remove(&old);
        self.initial_ages.insert(middle);
        let mut at = id;
        while self.blocks[at].prev != NONE {
            at = self.blocks[at].prev;
        }
        while at != NONE {
            let since = self.blocks[at].idle_since;
            let listed = self.blocks[at].is_available() && self.blocks[at].is_mapped();
            if listed {
                self.unshelve(at);
            }
            self.blocks[at].age = middle;
            if listed {
                self.shelve(at);
                self.blocks[at].idle_since = since;
            }
            at = self.blocks[at].next;
        }
        true
    }

    /// Groups mapped ranges, in order of addresses, into expandable segments.
    fn add_reservations(&mut self, ranges: &[&InitialSegment], bases: &[u64]) {
        let mut at = 0;
        while at < ranges.len() {
            let first = ranges[at];
            let list = self.list_of(first);
            let granule = self.rules.granule(first.kind).max(1);
            let size = self.reservation(granule);
            let before = at.checked_sub(1).map_or(0, |at| ranges[at].address + ranges[at].size);
            let known = bases.iter().copied().filter(|base| (before..=first.address).contains(base)).max();
            let base = known.unwrap_or(first.address);
            let reach = base.saturating_add(size);
            let mut count = 1;
            while let Some(range) = ranges.get(at + count)
                && self.list_of(range) == list
                && range.address + range.size <= reach
                && !bases.contains(&range.address)
            {
                count += 1;
            }
            let members = &ranges[at..at + count];
            let last = members[count - 1];
            let mapped_end = last.address + last.size;
            // The size is a guess that must not run into the next segment.
            let limit = ranges.get(at + count).map_or(u64::MAX, |next| next.address);
            let most = (limit - mapped_end) / granule * granule;
            let end = mapped_end + reach.saturating_sub(mapped_end).min(most);
            self.add_reservation(members, list, ExpandableSegment { base, size: end - base, granule });
            at += count;
        }
    }

    fn add_reservation(&mut self, ranges: &[&InitialSegment], list: u32, segment: ExpandableSegment) {
        let (base, end) = (segment.base, segment.base + segment.size);
        self.device.reservations.carve(base, segment.size);
        self.device.segments.carve(base, segment.size);
        let expandable = self.expandable.len() as u32;
        self.expandable.push(segment);
        let age = self.initial_age();
        let (mut at, mut prev) = (base, NONE);
        for range in ranges {
            if range.address > at {
                prev = self.add_unmapped((at, range.address), list, age, expandable, prev);
            }
            self.device.occupy(range.size);
            prev = self.add_blocks(range, list, age, expandable, prev);
            at = range.address + range.size;
        }
        if end > at {
            self.add_unmapped((at, end), list, age, expandable, prev);
        }
    }

    fn add_unmapped(&mut self, (start, end): (u64, u64), list: u32, age: u64, expandable: u32, prev: u32) -> u32 {
        let id = self.new_block(list, start, end - start, age, State::Unmapped);
        self.blocks[id].expandable = expandable;
        self.blocks.link(prev, id, NONE);
        self.shelve(id);
        id
    }

    /// The blocks of a segment, behind the block `prev`; gives the last one.
    fn add_blocks(&mut self, segment: &InitialSegment, list: u32, age: u64, expandable: u32, mut prev: u32) -> u32 {
        let kind = segment.kind;
        for block in &segment.blocks {
            let state = if block.status == BlockStatus::ActiveAllocated { State::Allocated } else { State::Idle };
            let id = self.new_block(list, block.address, block.size, age, state);
            self.blocks[id].requested = block.requested;
            self.blocks[id].expandable = expandable;
            self.blocks.link(prev, id, NONE);
            prev = id;
            if block.status == BlockStatus::Inactive {
                if expandable == NONE && segment.blocks.len() > 1 {
                    self.stats.inactive_split.add(kind, 1);
                    self.stats.inactive_split_bytes.add(kind, block.size);
                }
                self.shelve(id);
                continue;
            }
            self.stats.active.add(kind, 1);
            self.stats.active_bytes.add(kind, block.size);
            self.stats.requested_bytes.add(kind, block.requested);
            if block.status == BlockStatus::ActivePendingFree {
                self.blocks[id].pending = 1;
                self.waiting.entry(segment.stream).or_default().push_back(id);
                continue;
            }
            self.stats.allocation.add(kind, 1);
            self.stats.allocated_bytes.add(kind, block.size);
            if self.is_oversize(block.size) {
                self.stats.oversize_allocations.add(1);
            }
        }
        self.reserved = self.reserved.saturating_add(segment.size);
        self.stats.reserved_bytes.add(kind, segment.size);
        prev
    }

    fn list_of(&mut self, segment: &InitialSegment) -> u32 {
        let pool = match segment.kind {
            kind if segment.pool.is_private() => self.private_half(segment.pool, kind),
            PoolKind::Small => DEFAULT_SMALL,
            PoolKind::Large => DEFAULT_LARGE,
        };
        self.list(pool, segment.stream)
    }
}

/// The end of a segment whose blocks cover it.
fn covered(segment: &InitialSegment) -> Option<u64> {
    let mut at = segment.address;
    for block in &segment.blocks {
        if block.address != at || block.size == 0 {
            return None;
        }
        at = at.checked_add(block.size)?;
    }
    (at == segment.address.checked_add(segment.size)? && segment.size > 0).then_some(at)
}
