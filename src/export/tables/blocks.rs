//! One row a block of the dump.

use super::record::{TimeUs, record};
use super::source::{Source, stack_number, time};
use crate::history::{History, LifeId};
use crate::snapshot::BlockState;

record! {
    /// Blocks at the dump, free ones included. The sizes of those with state `active_allocated` sum to the device's
    /// allocated bytes.
    struct BlockRow<'a> in "blocks" {
        /// Number of the block in this file.
        block: u64,
        /// Number of its segment.
        segment: u64,
        /// Device ordinal; −1 for pinned host memory.
        device: i64,
        /// Start address.
        address: u64,
        /// Bytes occupied, after rounding and splitting.
        size: u64,
        /// Bytes asked for; 0 for a free block.
        requested: u64,
        /// `active_allocated`, `active_pending_free` or `inactive`, as PyTorch says.
        state: &'a str,
        /// Number of the stack of the allocation; null when it was not recorded.
        stack: Option<u64>,
        /// Number of the stack of the forward pass, for a block allocated in the backward pass.
        forward_stack: Option<u64>,
        /// Line that allocated it; null for a free block.
        site: Option<&'a str>,
        /// Event of the allocation; null for a free block, and when it is not in the trace.
        alloc_event: Option<u64>,
        /// Its time.
        alloc_time_us: Option<TimeUs>,
    }
}

/// What the rows need beside the snapshot.
pub(super) struct Blocks<'s, 'a> {
    source: &'s Source<'a>,
    /// For each part: blocks in front of it, and the rest.
    parts: Vec<PartBlocks<'a>>,
    rows: usize,
}

struct PartBlocks<'a> {
    first_row: usize,
    first_block: usize,
    device: i64,
    history: Option<&'a History<'a>>,
    /// Start block of each segment, ascending, and the segment.
    segments: Vec<(usize, usize)>,
    /// Lives at the dump, by address.
    alive: Vec<(u64, LifeId)>,
}

impl<'s, 'a> Blocks<'s, 'a> {
    pub(super) fn new(source: &'s Source<'a>) -> Self {
        let mut rows = 0;
        let mut parts = Vec::new();
        for part in &source.parts {
            let segments = part.segments.clone();
            let starts: Vec<_> =
                segments.clone().map(|number| (source.snapshot.segments[number].blocks.start, number)).collect();
            let first_block = starts.first().map_or(0, |(start, _)| *start);
            let end = segments.last().map_or(0, |number| source.snapshot.segments[number].blocks.end);
            let alive = part.history.map_or_else(Vec::new, alive);
            parts.push(PartBlocks {
                first_row: rows,
                first_block,
                device: part.device,
                history: part.history,
                segments: starts,
                alive,
            });
            rows += end - first_block;
        }
        Self { source, parts, rows }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn row(&self, row: usize) -> BlockRow<'_> {
        let part = &self.parts[self.parts.partition_point(|part| part.first_row <= row) - 1];
        let number = part.first_block + row - part.first_row;
        let (_, segment) = part.segments[part.segments.partition_point(|(start, _)| *start <= number) - 1];
        let block = &self.source.snapshot.blocks[number];
        let life = part.alive.binary_search_by_key(&block.address, |(addr, _)| *addr).ok().map(|at| part.alive[at].1);
        let life = part.history.zip(life.filter(|_| block.is_active()));
        let alloc = life.and_then(|(history, life)| Some((history, history.lives.alloc_event(life)?)));
        let site = match life {
            Some((history, life)) => Some(self.source.sites.slot(history, life)),
            None if block.is_active() && block.stack.has_frames() => Some(block.stack.index()),
            None => None,
        };
        BlockRow {
            block: number as u64,
            segment: segment as u64,
            device: part.device,
            address: block.address,
            size: block.size,
            requested: block.requested,
            state: match block.state {
                BlockState::Allocated => "active_allocated",
                BlockState::Pending => "active_pending_free",
                BlockState::Inactive => "inactive",
            },
            stack: stack_number(block.stack),
            forward_stack: stack_number(block.forward),
            site: site.map(|slot| self.source.names[slot].as_str()),
            alloc_event: alloc.map(|(_, event)| u64::from(event)),
            alloc_time_us: time(alloc.and_then(|(history, event)| history.time_us(event))),
        }
    }
}

/// The lives that are not over at the dump, by address.
fn alive(history: &History) -> Vec<(u64, LifeId)> {
    let lives = &history.lives;
    let at_dump = lives.ids().filter(|&life| lives.is_alive(life, history.events()));
    let mut alive: Vec<_> = at_dump.map(|life| (lives.addr(life), life)).collect();
    alive.sort_unstable();
    alive
}
