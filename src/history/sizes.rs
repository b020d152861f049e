//! Second pass: the bytes that each block occupied.
//!
//! The file has them only for blocks that live at the end. For the others they follow from the rounding rule and, in
//! the large pool of cudaMalloc'd memory, from the layout: a remainder of 1 MiB or less is not split off, so the
//! block takes the whole gap (`should_split` in `CUDACachingAllocator.cpp`).

use std::collections::BTreeMap;

use super::Health;
use super::lives::{LifeId, Lives, NEVER};
use super::ranges::{RangeId, Ranges, Walk};
use crate::allocator::{AllocatorRules, PoolKind};
use crate::snapshot::{Action, Device, PoolId, Snapshot};

/// Live blocks of the large pool by address: their end.
type Layout = BTreeMap<u64, u64>;

/// Fills in the bytes of `lives`, and what they tell about `ranges`. Segments that were asked of the device without need
/// are looked for until `search` blocks and ranges have been looked at for them.
pub(super) fn fill(
    snapshot: &Snapshot,
    device: &Device,
    rules: &AllocatorRules,
    lives: &mut Lives<'_>,
    ranges: &mut Ranges<'_>,
    health: &mut Health,
    search: usize,
) {
    let mut corrections = Vec::new();
    {
        let (layout, walk) = (Layout::new(), ranges.walk());
        let mut pass = Pass { snapshot, rules, layout, walk, corrections: &mut corrections, search };
        pass.seed(lives);
        pass.trace(device, lives, health);
    }
    for (range, kind, pool) in corrections {
        let range = &mut ranges.kinds[range as usize];
        (range.kind, range.pool, range.is_certain) = (kind, pool, true);
    }
}

struct Pass<'a> {
    snapshot: &'a Snapshot,
    rules: &'a AllocatorRules,
    layout: Layout,
    walk: Walk<'a>,
    /// What the first block in a range of unknown kind tells about the range.
    corrections: &'a mut Vec<(RangeId, PoolKind, PoolId)>,
    /// Blocks and ranges that may still be looked at for a segment.
    search: usize,
}

impl Pass<'_> {
    /// Sizes of the blocks that were there before the first event. Their requests are known, and where a gap of up
    /// to 1 MiB follows one in large cudaMalloc'd memory, it belongs to the block.
    fn seed(&mut self, lives: &mut Lives) {
        let mut seeded: Vec<(u64, LifeId)> = lives
            .ids()
            .filter(|&life| lives.alloc_event(life).is_none())
            .map(|life| (lives.addr(life), life))
            .collect();
        seeded.sort_unstable();
        for at in 0..seeded.len() {
            let (addr, life) = seeded[at];
            let next = seeded.get(at + 1).map(|&(next, _)| next);
            if lives.bytes(life) == 0 {
                let rounded = self.rules.round_size(lives.requested(life));
                lives.set_bytes(life, self.seeded_size(addr, rounded, next));
            }
            self.enter(addr, lives.bytes(life));
        }
    }

    fn seeded_size(&self, addr: u64, rounded: u64, next: Option<u64>) -> u64 {
        if !self.takes_gaps(rounded) {
            return rounded;
        }
        let Some((end, range)) = self.walk.containing(addr) else { return rounded };
        if self.walk.kind(range).expandable {
            return rounded;
        }
        let gap = next.filter(|&next| next < end).unwrap_or(end) - addr;
        let is_oversize = self.rules.max_split_size.is_some_and(|max| rounded >= max);
        if gap >= rounded && (gap - rounded <= self.rules.small_limit || is_oversize) { gap } else { rounded }
    }

    /// Whether a block of `rounded` bytes may be larger than that. Sizes that are no multiple of the minimum block
    /// (`roundup_power2_divisions:1` up to torch 2.3) may leave too little to split off anywhere.
    fn takes_gaps(&self, rounded: u64) -> bool {
        self.rules.pool_kind(rounded) == PoolKind::Large || !rounded.is_multiple_of(self.rules.min_block)
    }

    fn enter(&mut self, addr: u64, bytes: u64) {
        if self.takes_gaps(bytes) {
            self.layout.insert(addr, addr.saturating_add(bytes));
        }
    }

    fn trace(&mut self, device: &Device, lives: &mut Lives, health: &mut Health) {
        let events = &self.snapshot.events;
        for event in 0..device.events.len() as u32 {
            let row = device.events.start + event as usize;
            match events.action[row] {
                Action::Alloc => {
                    let Some(life) = lives.of_event(event) else { continue };
                    let addr = events.addr[row];
                    let rounded = self.rules.round_size(events.size[row]);
                    let size = if self.takes_gaps(rounded) || self.rules.expandable {
                        self.walk.advance(event);
                        self.block_size(row, addr, rounded, &mut health.odd_sizes)
                    } else {
                        rounded
                    };
                    // What lives at the end has its size in the file, which is the truth.
                    match lives.bytes(life) {
                        0 => lives.set_bytes(life, size),
                        known => health.odd_sizes += u64::from(known != size),
                    }
                    self.enter(addr, lives.bytes(life));
                }
                Action::SegmentAlloc => {
                    let next = row + 1;
                    if self.search > 0 && next < device.events.end && events.action[next] == Action::Alloc {
                        self.walk.advance(event);
                        health.needless_segments += u64::from(self.had_hole(next));
                    }
                }
                Action::FreeRequested | Action::FreeCompleted | Action::Free => {
                    let Some(life) = lives.of_event(event) else { continue };
                    if lives.done_at(life) == event + 1 && self.takes_gaps(lives.bytes(life)) {
                        self.layout.remove(&events.addr[row]);
                    }
                }
                _ => {}
            }
        }
        debug_assert!(lives.ids().all(|life| lives.bytes(life) > 0 || lives.done_at(life) != NEVER));
    }

    /// Whether the allocation in `row`, for which a segment is asked of the device, would have found a free block in
    /// memory of its stream and the default pool. Only large requests are looked at.
    fn had_hole(&mut self, row: usize) -> bool {
        let (events, rules) = (&self.snapshot.events, self.rules);
        let rounded = rules.round_size(events.size[row]);
        let is_default_pool = events.pool.get(row) == PoolId::DEFAULT;
        if rules.pool_kind(rounded) != PoolKind::Large || rules.expandable || !is_default_pool {
            return false;
        }
        let serves = |gap: u64| {
            let is_oversize = |size: u64| rules.max_split_size.is_some_and(|max| size >= max);
            match (is_oversize(rounded), is_oversize(gap)) {
                _ if gap < rounded => false,
                (false, is_oversize) => !is_oversize,
                (true, _) => gap < rounded + rules.max_non_split_rounding,
            }
        };
        for (&start, &(end, id)) in &self.walk.map {
            let range = self.walk.kind(id);
            let is_same = range.stream == events.stream[row]
                && range.kind == PoolKind::Large
                && range.pool == PoolId::DEFAULT
                && range.is_certain
                && !range.expandable;
            self.search = self.search.saturating_sub(1);
            if is_same {
                let blocks = self.layout.range(start..end).map(|(&addr, &stop)| (addr, stop));
                let mut free = start;
                for (addr, stop) in blocks.chain([(end, end)]) {
                    self.search = self.search.saturating_sub(1);
                    if serves(addr.saturating_sub(free)) {
                        return true;
                    }
                    free = stop;
                }
            }
            if self.search == 0 {
                return false;
            }
        }
        false
    }

    /// Bytes that the allocation in `row` takes, from the gap at its address.
    fn block_size(&mut self, row: usize, addr: u64, rounded: u64, odd_sizes: &mut u64) -> u64 {
        let Some((end, id)) = self.walk.containing(addr) else { return rounded };
        let range = self.walk.kind(id);
        let kind = self.rules.pool_kind(rounded);
        if !range.is_certain {
            self.corrections.push((id, kind, self.snapshot.events.pool.get(row)));
        }
        if range.expandable {
            return rounded;
        }
        let is_taken = self.layout.range(..=addr).next_back().is_some_and(|(_, &before)| before > addr);
        let next = self.layout.range(addr..).next().map(|(&next, _)| next);
        let gap = next.filter(|&next| next < end).unwrap_or(end).saturating_sub(addr);
        match gap.checked_sub(rounded) {
            // The record places a block where another one lies under these rules.
            _ if is_taken => {
                *odd_sizes += 1;
                rounded
            }
            None => {
                *odd_sizes += 1;
                rounded
            }
            Some(remaining) if !self.rules.splits(rounded, remaining, kind, self.rules.expandable) => gap,
            _ => rounded,
        }
    }
}
