//! Blocks and mapped memory after any number of events.
//!
//! No layout is kept along the trace: live blocks follow from the lives, mapped ranges from the segment events, and
//! what lies between is free, because the allocator merges neighbouring free blocks at once.

use super::ranges::Range;
use super::{History, LifeId};
use crate::snapshot::StackId;

/// A block that is live or pending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveBlock {
    /// Start address.
    pub addr: u64,
    /// Bytes occupied.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Whether the program has freed it, but another stream may still use it.
    pub is_pending: bool,
    /// Stack of the allocation.
    pub stack: StackId,
    /// Its life.
    pub life: LifeId,
}

impl LiveBlock {
    /// First address behind it.
    pub fn end(&self) -> u64 {
        self.addr.saturating_add(self.bytes)
    }
}

/// A free block: the gap between two live ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Start address.
    pub addr: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A cudaMalloc'd segment, or a contiguous mapped range of an expandable one.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRange {
    /// Start address.
    pub addr: u64,
    /// Bytes.
    pub bytes: u64,
    /// What it is.
    pub range: Range,
    /// Its blocks: rows of [`State::blocks`].
    pub blocks: std::ops::Range<usize>,
}

/// The memory of one device in one state.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Mapped ranges, by address.
    pub ranges: Vec<StateRange>,
    /// Live and pending blocks, by address.
    pub blocks: Vec<LiveBlock>,
    /// Whether every block lies in a mapped range, and the ranges follow from the trace without contradiction.
    pub is_sound: bool,
}

impl State {
    /// The blocks in `range`.
    pub fn blocks_of(&self, range: &StateRange) -> &[LiveBlock] {
        &self.blocks[range.blocks.clone()]
    }

    /// The free blocks in `range`, by address.
    pub fn holes_of<'s>(&'s self, range: &'s StateRange) -> impl Iterator<Item = Hole> + 's {
        let ends = std::iter::once(range.addr).chain(self.blocks_of(range).iter().map(LiveBlock::end));
        let starts = self.blocks_of(range).iter().map(|block| block.addr);
        let starts = starts.chain(std::iter::once(range.addr.saturating_add(range.bytes)));
        ends.zip(starts).filter(|(end, start)| end < start).map(|(end, start)| Hole { addr: end, bytes: start - end })
    }
}

impl History<'_> {
    /// The memory in `state`.
    pub fn state(&self, state: u32) -> State {
        let mut blocks: Vec<LiveBlock> = self
            .lives
            .ids()
            .filter(|&life| self.lives.is_alive(life, state))
            .map(|life| LiveBlock {
                addr: self.lives.addr(life),
                bytes: self.lives.bytes(life),
                requested: self.lives.requested(life),
                is_pending: state >= self.lives.freed_at(life),
                stack: self.lives.stack(life),
                life,
            })
            .collect();
        blocks.sort_unstable_by_key(|block| (block.addr, block.life));
        let mut ranges = self.mapped(state);
        let mut placed = 0;
        for range in &mut ranges {
            let start = blocks.partition_point(|block| block.addr < range.addr);
            let end = blocks.partition_point(|block| block.addr < range.addr.saturating_add(range.bytes));
            range.blocks = start..end.max(start);
            placed += range.blocks.len();
        }
        let is_end = state >= self.events();
        let is_sound = placed == blocks.len() && (is_end || self.health.odd_ranges == 0);
        State { ranges, is_sound, blocks }
    }

    fn mapped(&self, state: u32) -> Vec<StateRange> {
        if state >= self.events() {
            // The file's own segments: adjacent ranges of an expandable segment stay as they are listed.
            let segments = self.snapshot.segments_of(self.device).iter();
            let births = self.ranges.births();
            return segments
                .zip(&self.ranges.kinds)
                .map(|(segment, &range)| StateRange {
                    addr: segment.address,
                    bytes: segment.total_size,
                    range: Range { born: births.get(&segment.address).copied(), ..range },
                    blocks: 0..0,
                })
                .collect();
        }
        let mut walk = self.ranges.walk();
        walk.advance(state);
        let ranges = walk.map.iter();
        ranges
            .map(|(&addr, &(end, id))| StateRange { addr, bytes: end - addr, range: walk.kind(id), blocks: 0..0 })
            .collect()
    }
}
