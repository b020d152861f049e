//! Reserved memory in each file, so grouped that cudaMalloc'd segments and expandable ranges can be compared.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sides::Sides;
use crate::allocator::PoolKind;
use crate::analysis::holes::Holes;
use crate::analysis::pools::PoolRow;
use crate::history::History;
use crate::snapshot::{Action, PoolId};

/// The reserved memory of each file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SegmentsDiff {
    /// By size class and kind of pool: all streams, and all private pools, are one, as their ids differ from run to run.
    pub pools: Vec<PoolsDiff>,
    /// Free blocks by size.
    pub holes: Vec<HolesDiff>,
    /// What was asked of the device over the trace; `None` for a file without history.
    pub calls: Sides<Option<Calls>>,
}

/// The memory of one size class, in default or private pools.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolsDiff {
    /// Size class.
    pub kind: PoolKind,
    /// Whether it is that of CUDA graphs and `MemPool`s.
    pub private: bool,
    /// In each file.
    #[serde(flatten)]
    pub sides: Sides<PoolMemory>,
}

/// Memory of some pools. Bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolMemory {
    /// cudaMalloc'd segments.
    pub segments: u64,
    /// Contiguous mapped ranges of expandable memory.
    pub ranges: u64,
    /// All of it.
    pub reserved: u64,
    /// In live and pending blocks.
    pub active: u64,
    /// Free next to live blocks.
    pub stranded: Option<u64>,
    /// What `empty_cache()` would give back.
    pub releasable: Option<u64>,
    /// The largest free block.
    pub largest_free: Option<u64>,
}

/// Free blocks of one size class and size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HolesDiff {
    /// Size class.
    pub kind: PoolKind,
    /// Smallest size.
    pub from: u64,
    /// Sizes are below this.
    pub below: u64,
    /// In each file.
    #[serde(flatten)]
    pub sides: Sides<HoleCount>,
}

/// Some free blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HoleCount {
    /// How many.
    pub holes: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What was asked of the device over the whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// `segment_alloc`: cudaMalloc.
    pub segment_allocs: u64,
    /// `segment_free`: cudaFree.
    pub segment_frees: u64,
    /// `segment_map`: cuMemMap of expandable memory.
    pub segment_maps: u64,
    /// `segment_unmap`.
    pub segment_unmaps: u64,
    /// Requests before which the allocator gave memory back.
    pub flushes: u64,
    /// Requests that failed.
    pub ooms: u64,
}

/// What `history` asked of the device; `None` without history.
pub fn calls(history: &History) -> Option<Calls> {
    if !history.health.recorded {
        return None;
    }
    let mut calls = Calls::default();
    let actions = &history.snapshot.events.action[history.device.events.clone()];
    let mut before = None;
    for (&action, event) in actions.iter().zip(0..) {
        match action {
            Action::SegmentAlloc => calls.segment_allocs += 1,
            Action::SegmentFree => calls.segment_frees += 1,
            Action::SegmentMap => calls.segment_maps += 1,
            Action::SegmentUnmap => calls.segment_unmaps += 1,
            Action::Oom => calls.ooms += 1,
            _ => {}
        }
        let may_have_flushed = matches!(
            before,
            Some(Action::SegmentAlloc | Action::SegmentMap | Action::SegmentFree | Action::SegmentUnmap)
        );
        if matches!(action, Action::Alloc | Action::Oom) && may_have_flushed {
            calls.flushes += u64::from(history.malloc(event).first_flush.is_some());
        }
        before = Some(action);
    }
    Some(calls)
}

/// The pools of each file, by size class and kind.
pub fn pools(files: &[Vec<PoolRow>]) -> Vec<PoolsDiff> {
    let mut found: BTreeMap<(bool, PoolKind), Vec<PoolMemory>> = BTreeMap::new();
    for (at, rows) in files.iter().enumerate() {
        for row in rows {
            let sides = found
                .entry((row.key.pool != PoolId::DEFAULT, row.kind))
                .or_insert_with(|| vec![PoolMemory::nothing(); files.len()]);
            sides[at].add(row);
        }
    }
    found.into_iter().map(|((private, kind), sides)| PoolsDiff { kind, private, sides: Sides(sides) }).collect()
}

impl PoolMemory {
    fn nothing() -> Self {
        Self { stranded: Some(0), releasable: Some(0), largest_free: Some(0), ..Self::default() }
    }

    fn add(&mut self, row: &PoolRow) {
        let totals = &row.totals;
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        self.segments += row.segments as u64;
        self.ranges += row.ranges as u64;
        self.reserved += totals.reserved;
        self.active += totals.active;
        self.stranded = sum(self.stranded, totals.stranded);
        self.releasable = sum(self.releasable, totals.releasable);
        self.largest_free = self.largest_free.zip(totals.largest_free).map(|(a, b)| a.max(b));
    }
}

/// The free blocks of each file, by size.
pub fn holes(files: &[Holes]) -> Vec<HolesDiff> {
    let mut found: BTreeMap<(PoolKind, u64, u64), Vec<HoleCount>> = BTreeMap::new();
    for (at, holes) in files.iter().enumerate() {
        for row in holes.rows.iter().filter(|row| row.holes > 0) {
            let sides = found.entry((row.kind, row.from, row.below));
            let sides = sides.or_insert_with(|| vec![HoleCount::default(); files.len()]);
            sides[at] = HoleCount { holes: row.holes, bytes: row.bytes };
        }
    }
    found.into_iter().map(|((kind, from, below), sides)| HolesDiff { kind, from, below, sides: Sides(sides) }).collect()
}
