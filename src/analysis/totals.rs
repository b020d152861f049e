//! How the reserved memory of one device divides, each part summed on its own.

use serde::Serialize;

use crate::allocator::AllocatorRules;
use crate::history::{History, LiveBlock, State, StateRange};
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

/// The free parts of `range`. Granules of expandable memory count from the start of the range.
pub fn free_parts(state: &State, range: &StateRange, rules: &AllocatorRules) -> FreeParts {
    let mut parts = FreeParts::default();
    let granule = rules.granule(range.range.kind).max(1);
    for hole in state.holes_of(range) {
        parts.free += hole.bytes;
        parts.blocks += 1;
        parts.largest = parts.largest.max(hole.bytes);
        if range.range.pool != PoolId::DEFAULT {
            parts.pool_idle += hole.bytes;
        } else if range.range.expandable {
            let start = hole.addr - range.addr;
            let whole = ((start + hole.bytes) / granule * granule).saturating_sub(start.div_ceil(granule) * granule);
            parts.releasable += whole;
            parts.stranded += hole.bytes - whole;
        } else if range.blocks.is_empty() {
            parts.releasable += hole.bytes;
        } else {
            parts.stranded += hole.bytes;
        }
    }
    parts
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
    let mut totals = Totals::default();
    let (mut rounding, mut is_sound) = (0, history.device.consistent && state.is_sound);
    for block in blocks {
        if block.is_pending {
            totals.pending += block.bytes;
        } else {
            totals.allocated += block.bytes;
        }
        totals.active += block.bytes;
        totals.requested += block.requested;
        match block.bytes.checked_sub(block.requested) {
            Some(lost) => rounding += lost,
            None => is_sound = false,
        }
    }
    let mut sum = FreeParts::default();
    for range in ranges {
        totals.reserved += range.bytes;
        let parts = free_parts(state, range, &history.rules);
        sum.free += parts.free;
        sum.largest = sum.largest.max(parts.largest);
        sum.releasable += parts.releasable;
        sum.pool_idle += parts.pool_idle;
        sum.stranded += parts.stranded;
    }
    is_sound &= totals.reserved == totals.requested + rounding + sum.releasable + sum.stranded + sum.pool_idle;
    let known = |value: u64| is_sound.then_some(value);
    totals.rounding = known(rounding);
    totals.free = known(sum.free);
    totals.releasable = known(sum.releasable);
    totals.pool_idle = known(sum.pool_idle);
    totals.stranded = known(sum.stranded);
    totals.largest_free = known(sum.largest);
    totals
}
