//! How the reserved memory of one device divides, each part summed on its own.

use serde::Serialize;

use crate::allocator::AllocatorRules;
use crate::history::{History, Hole, LiveBlock, Range, State, StateRange};
use crate::snapshot::PoolId;

/// The parts of a device's reserved memory, in bytes. `None` where a contradiction in the file spoils the figure.
///
/// reserved = requested + rounding + releasable + stranded + pool_idle
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Taken from the device.
    pub reserved: u64,
    /// In blocks that tensors own.
    pub allocated: u64,
    /// In blocks that are freed, but wait for another stream.
    pub pending: u64,
    /// allocated + pending.
    pub active: u64,
    /// Asked for by the program, in active blocks.
    pub requested: u64,
    /// Lost inside active blocks.
    pub rounding: Option<u64>,
    /// In free blocks.
    pub free: Option<u64>,
    /// What `torch.cuda.empty_cache()` would give back.
    pub releasable: Option<u64>,
    /// Free in private pools: of no use to others.
    pub pool_idle: Option<u64>,
    /// Free next to a live block, or in less than a granule.
    pub stranded: Option<u64>,
    /// The largest free block.
    pub largest_free: Option<u64>,
}

/// What the free blocks of one range add up to, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeParts {
    /// All free blocks.
    pub free: u64,
    /// Number of free blocks.
    pub blocks: usize,
    /// The largest.
    pub largest: u64,
    /// See [`Totals::releasable`].
    pub releasable: u64,
    /// See [`Totals::pool_idle`].
    pub pool_idle: u64,
    /// See [`Totals::stranded`].
    pub stranded: u64,
}

impl FreeParts {
    /// What `hole` counts as in `range`, which begins at `start`. Granules of expandable memory count from there.
    pub fn of_hole(hole: Hole, start: u64, range: &Range, has_blocks: bool, rules: &AllocatorRules) -> Self {
        let mut parts = Self { free: hole.bytes, blocks: 1, largest: hole.bytes, ..Self::default() };
        if range.pool != PoolId::DEFAULT {
            parts.pool_idle = hole.bytes;
        } else if range.expandable {
            let granule = rules.granule(range.kind).max(1);
            let offset = hole.addr - start;
            let end = (offset + hole.bytes) / granule * granule;
            parts.releasable = end.saturating_sub(offset.div_ceil(granule) * granule);
            parts.stranded = hole.bytes - parts.releasable;
        } else if has_blocks {
            parts.stranded = hole.bytes;
        } else {
            parts.releasable = hole.bytes;
        }
        parts
    }

    /// Without `part`, but for the largest.
    pub fn minus(self, part: Self) -> Self {
        Self {
            free: self.free - part.free,
            blocks: self.blocks - part.blocks,
            largest: self.largest,
            releasable: self.releasable - part.releasable,
            pool_idle: self.pool_idle - part.pool_idle,
            stranded: self.stranded - part.stranded,
        }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            free: self.free + other.free,
            blocks: self.blocks + other.blocks,
            largest: self.largest.max(other.largest),
            releasable: self.releasable + other.releasable,
            pool_idle: self.pool_idle + other.pool_idle,
            stranded: self.stranded + other.stranded,
        }
    }
}

/// The free parts of `range`.
pub fn free_parts(state: &State, range: &StateRange, rules: &AllocatorRules) -> FreeParts {
    let has_blocks = !range.blocks.is_empty();
    let holes = state.holes_of(range);
    holes.fold(FreeParts::default(), |sum, hole| {
        sum.plus(FreeParts::of_hole(hole, range.addr, &range.range, has_blocks, rules))
    })
}

/// The sums from which the parts of a device's reserved memory follow, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// See [`Totals::reserved`].
    pub(super) reserved: u64,
    /// See [`Totals::allocated`].
    pub(super) allocated: u64,
    /// See [`Totals::pending`].
    pub(super) pending: u64,
    /// See [`Totals::requested`].
    pub(super) requested: u64,
    /// See [`Totals::rounding`], of the blocks that are not smaller than their request.
    pub(super) rounding: u64,
    /// Of the free blocks.
    pub(super) free: FreeParts,
}

impl Sums {
    /// Adds a block.
    pub(super) fn add(&mut self, block: &LiveBlock) {
        if block.is_pending {
            self.pending += block.bytes;
        } else {
            self.allocated += block.bytes;
        }
        self.requested += block.requested;
        self.rounding += block.bytes.saturating_sub(block.requested);
    }

    /// Takes a block away.
    pub(super) fn remove(&mut self, block: &LiveBlock) {
        if block.is_pending {
            self.pending -= block.bytes;
        } else {
            self.allocated -= block.bytes;
        }
        self.requested -= block.requested;
        self.rounding -= block.bytes.saturating_sub(block.requested);
    }

    /// A block of `bytes` is freed, but waits.
    pub(super) fn pend(&mut self, bytes: u64) {
        self.allocated -= bytes;
        self.pending += bytes;
    }

    /// The parts; `is_sound` tells whether they can be known.
    pub(super) fn totals(&self, is_sound: bool) -> Totals {
        let free = self.free;
        let parts = self.requested + self.rounding + free.releasable + free.stranded + free.pool_idle;
        let is_sound = is_sound && self.reserved == parts;
        let known = |value: u64| is_sound.then_some(value);
        Totals {
            reserved: self.reserved,
            allocated: self.allocated,
            pending: self.pending,
            active: self.allocated + self.pending,
            requested: self.requested,
            rounding: known(self.rounding),
            free: known(free.free),
            releasable: known(free.releasable),
            pool_idle: known(free.pool_idle),
            stranded: known(free.stranded),
            largest_free: known(free.largest),
        }
    }
}

/// The parts of `state`.
pub fn totals(history: &History, state: &State) -> Totals {
    sum(history, state, &state.blocks, state.ranges.iter())
}

/// The parts of some ranges of `state`.
pub fn totals_of(history: &History, state: &State, ranges: &[&StateRange]) -> Totals {
    let blocks = ranges.iter().flat_map(|range| state.blocks_of(range));
    sum(history, state, blocks, ranges.iter().copied())
}

fn sum<'s>(
    history: &History,
    state: &'s State,
    blocks: impl IntoIterator<Item = &'s LiveBlock>,
    ranges: impl Iterator<Item = &'s StateRange>,
) -> Totals {
    let mut sums = Sums::default();
    let mut is_sound = history.device.consistent && state.is_sound;
    for block in blocks {
        sums.add(block);
        is_sound &= block.requested <= block.bytes;
    }
    for range in ranges {
        sums.reserved += range.bytes;
        sums.free = sums.free.plus(free_parts(state, range, &history.rules));
    }
    sums.totals(is_sound)
}
