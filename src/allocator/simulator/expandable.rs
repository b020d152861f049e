//! Expandable segments: a reserved range of addresses, into which memory is mapped granule by granule.

use super::block::State;
use super::event::Action;
use super::malloc::Params;
use super::{Block, Simulator};
use crate::allocator::ExpandableReserve;

/// The reserved range of one expandable segment.
#[derive(Clone, Debug)]
pub(super) struct ExpandableSegment {
    pub base: u64,
    pub size: u64,
    /// Unit of mapping.
    pub granule: u64,
}

impl Simulator {
    /// Maps memory until a free block of `params.size` bytes exists, and takes it out of its set. Memory mapped before a
    /// failure stays, as free blocks.
    pub(super) fn grow_expandable(&mut self, params: &Params) -> Option<u32> {
        let mut block = self.find_room(params)?;
        if !self.blocks[block].is_mapped() {
            let wanted = self.blocks[block].size.min(params.size);
            self.map(block, wanted)?;
        }
        while self.blocks[block].size < params.size {
            let next = self.blocks[block].next;
            let rest = self.blocks.neighbour(next).filter(|next| !next.is_mapped())?.size;
            let wanted = rest.min(params.size - self.blocks[block].size);
            self.map(next, wanted)?;
            block = next;
        }
        self.unshelve(block);
        Some(block)
    }

    /// The first block of a run of free and unmapped blocks that has room, by address; else a new segment.
    fn find_room(&mut self, params: &Params) -> Option<u32> {
        self.existing_room(params).or_else(|| self.new_expandable(params))
    }

    fn existing_room(&self, params: &Params) -> Option<u32> {
        let unmapped = self.lists[params.list as usize].unmapped.values().copied();
        let start = |id: u32| {
            let prev = self.blocks[id].prev;
            let available = self.blocks.neighbour(prev).is_some_and(Block::is_available);
            if available { prev } else { id }
        };
        let has_room = |id: &u32| {
            let (mut at, mut bytes) = (*id, 0u64);
            while let Some(block) = self.blocks.neighbour(at).filter(|block| block.is_available()) {
                bytes = bytes.saturating_add(block.size);
                if bytes >= params.size {
                    return true;
                }
                at = block.next;
            }
            false
        };
        unmapped.map(start).find(has_room)
    }

    /// Bytes that a request would map.
    pub(super) fn bytes_to_map(&self, params: &Params) -> u64 {
        let granule = self.rules.granule(params.kind).max(1);
        let (mut missing, mut bytes) = (params.size, 0u64);
        let mut at = self.existing_room(params);
        while let Some(block) = at.and_then(|at| self.blocks.neighbour(at)).filter(|_| missing > 0) {
            let used = missing.min(block.size);
            if !block.is_mapped() {
                bytes = bytes.saturating_add(used.div_ceil(granule).saturating_mul(granule));
            }
            missing -= used;
            at = Some(block.next);
        }
        bytes.saturating_add(missing.div_ceil(granule).saturating_mul(granule))
    }

    fn new_expandable(&mut self, params: &Params) -> Option<u32> {
        let granule = self.rules.granule(params.kind).max(1);
        let size = self.reservation(granule);
        if self.behaviour.checks_reserve && size < params.size {
            return None;
        }
        let base = self.device.reservations.take(size)?;
        Some(self.add_expandable(params.list, ExpandableSegment { base, size, granule }))
    }

    /// The unmapped block of a new segment.
    pub(super) fn add_expandable(&mut self, list: u32, segment: ExpandableSegment) -> u32 {
        let age = self.age();
        let block = self.new_block(list, segment.base, segment.size, age, State::Unmapped);
        self.blocks[block].expandable = self.expandable.len() as u32;
        self.expandable.push(segment);
        self.shelve(block);
        block
    }

    /// Bytes of address space that a new segment reserves.
    pub(super) fn reservation(&self, granule: u64) -> u64 {
        let total = self.device.total;
        let most = total.saturating_add(total / 8);
        let wanted = match self.rules.expandable_reserve {
            None => most,
            Some(ExpandableReserve::Bytes(bytes)) => bytes.min(most),
            Some(ExpandableReserve::Fraction(fraction)) => ((fraction * total as f64) as u64).min(most),
        };
        wanted.div_ceil(granule).saturating_mul(granule)
    }

    /// Maps the granules that cover the first `wanted` bytes of an unmapped block, all or none.
    fn map(&mut self, id: u32, wanted: u64) -> Option<()> {
        let granule = self.expandable[self.blocks[id].expandable as usize].granule;
        let count = wanted.div_ceil(granule);
        if !self.device.map(count, granule) {
            return None;
        }
        let mapped = count.saturating_mul(granule).min(self.blocks[id].size);
        let kind = self.kind(id);
        self.unshelve(id);
        let Block { addr, size, age, list, next, expandable, .. } = self.blocks[id];
        if mapped < size {
            let rest = self.new_block(list, addr + mapped, size - mapped, age, State::Unmapped);
            self.blocks[rest].expandable = expandable;
            self.blocks.link(id, rest, next);
            self.shelve(rest);
            self.blocks[id].size = mapped;
        }
        self.blocks[id].state = State::Idle;
        self.absorb(id, self.blocks[id].prev);
        self.absorb(id, self.blocks[id].next);
        self.shelve(id);
        self.reserved = self.reserved.saturating_add(mapped);
        self.stats.reserved_bytes.add(kind, mapped);
        self.stats.num_device_alloc += 1;
        self.emit(Action::SegmentMap, list, addr, mapped);
        Some(())
    }

    /// Gives back the granules that lie completely inside a free block, and with the last one the segment.
    pub(super) fn unmap(&mut self, id: u32) {
        let Block { addr, size, age, list, expandable, prev, next, .. } = self.blocks[id];
        let ExpandableSegment { base, size: reserved, granule } = self.expandable[expandable as usize];
        let offset = addr - base;
        let (first, last) = (offset.div_ceil(granule), (offset + size) / granule);
        if last <= first {
            return;
        }
        let (start, bytes) = (base + first * granule, (last - first) * granule);
        self.unshelve(id);
        let (before, after) = (start - addr, addr + size - (start + bytes));
        if before > 0 {
            let piece = self.new_block(list, addr, before, age, State::Idle);
            self.blocks[piece].expandable = expandable;
            self.blocks.link(prev, piece, id);
            self.shelve(piece);
        }
        if after > 0 {
            let piece = self.new_block(list, start + bytes, after, age, State::Idle);
            self.blocks[piece].expandable = expandable;
            self.blocks.link(id, piece, next);
            self.shelve(piece);
        }
        let block = &mut self.blocks[id];
        (block.addr, block.size, block.state) = (start, bytes, State::Unmapped);
        self.absorb(id, self.blocks[id].prev);
        self.absorb(id, self.blocks[id].next);
        self.shelve(id);
        self.device.unmap(last - first, granule);
        self.reserved = self.reserved.saturating_sub(bytes);
        let kind = self.kind(id);
        self.stats.reserved_bytes.sub(kind, bytes);
        self.stats.num_device_free += 1;
        self.emit(Action::SegmentUnmap, list, start, bytes);
        if self.blocks[id].size == reserved {
            self.unshelve(id);
            self.blocks.remove(id);
            self.device.reservations.give_back(base, reserved);
        }
    }
}
