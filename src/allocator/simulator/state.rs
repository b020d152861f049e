//! The state as a snapshot shows it.

use serde::Serialize;

use super::block::{BlockId, NONE, State};
use super::event::MempoolId;
use super::{Block, Simulator};
use crate::allocator::PoolKind;

/// A segment, or one contiguous mapped range of an expandable segment. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentState {
    /// Start.
    pub address: u64,
    /// Bytes.
    pub total_size: u64,
    /// Sum of the allocated blocks.
    pub allocated_size: u64,
    /// Sum of the blocks that are allocated or wait for a stream.
    pub active_size: u64,
    /// What the program asked for in active blocks.
    pub requested_size: u64,
    /// Its stream.
    pub stream: u64,
    /// Small or large.
    pub segment_type: PoolKind,
    /// Its pool.
    pub segment_pool_id: MempoolId,
    /// Part of an expandable segment.
    pub is_expandable: bool,
    /// All blocks, by address.
    pub blocks: Vec<BlockState>,
}

/// A block of a [`SegmentState`]. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockState {
    /// The simulator's number, which a snapshot does not have.
    #[serde(skip)]
    pub id: BlockId,
    /// Start.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// What the program asked for; in a free block a left-over.
    pub requested_size: u64,
    /// What the block is doing.
    pub state: BlockStatus,
}

/// What a block is doing, named as in snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockStatus {
    /// In use.
    ActiveAllocated,
    /// Freed, but other streams may still be using it.
    ActivePendingFree,
    /// Free.
    Inactive,
}

impl Simulator {
    /// All segments with their blocks, by address.
    pub fn segments(&self) -> Vec<SegmentState> {
        let mut segments: Vec<_> = self.first_blocks().map(|id| self.segment(id)).collect();
        segments.sort_unstable_by_key(|segment| segment.address);
        segments
    }

    /// The blocks at which a segment starts.
    fn first_blocks(&self) -> impl Iterator<Item = u32> {
        let starts = self.blocks.iter().filter(|(_, block)| {
            let after_gap = self.blocks.neighbour(block.prev).is_none_or(|prev| !prev.is_mapped());
            block.is_mapped() && (block.prev == NONE || after_gap)
        });
        starts.map(|(id, _)| id)
    }

    fn segment(&self, first: u32) -> SegmentState {
        let block = &self.blocks[first];
        let list = &self.lists[block.list as usize];
        let pool = &self.pools[list.pool as usize];
        let mut segment = SegmentState {
            address: block.addr,
            total_size: 0,
            allocated_size: 0,
            active_size: 0,
            requested_size: 0,
            stream: list.stream,
            segment_type: pool.kind,
            segment_pool_id: pool.mempool,
            is_expandable: block.is_expandable(),
            blocks: Vec::new(),
        };
        let mut at = first;
        while let Some(block) = self.blocks.neighbour(at).filter(|block| block.is_mapped()) {
            let status = status(block);
            segment.total_size += block.size;
            if status == BlockStatus::ActiveAllocated {
                segment.allocated_size += block.size;
            }
            if status != BlockStatus::Inactive {
                segment.active_size += block.size;
                segment.requested_size = segment.requested_size.saturating_add(block.requested);
            }
            segment.blocks.push(BlockState {
                id: BlockId(at),
                address: block.addr,
                size: block.size,
                requested_size: block.requested,
                state: status,
            });
            at = block.next;
        }
        segment
    }
}

fn status(block: &Block) -> BlockStatus {
    match block.state {
        State::Allocated => BlockStatus::ActiveAllocated,
        _ if block.is_available() => BlockStatus::Inactive,
        _ => BlockStatus::ActivePendingFree,
    }
}
