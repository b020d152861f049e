//! The memory at the moment of the dump: segments and the blocks that tile them.

use std::ops::Range;

use serde::Serialize;

use super::ids::{PoolId, StackId, StreamId};
use super::schema::HistoryRows;
use crate::allocator::PoolKind;

/// A cudaMalloc'd range, or with expandable segments one contiguous mapped range.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Device ordinal; −1 for pinned host memory.
    pub device: i64,
    /// Start address.
    pub address: u64,
    /// Bytes.
    pub total_size: u64,
    /// The file's own sums over the blocks, where it has them: bytes of live blocks.
    pub allocated_size: Option<u64>,
    /// The file's own sum: live and pending blocks.
    pub active_size: Option<u64>,
    /// The file's own sum: requested bytes of live and pending blocks.
    pub requested_size: Option<u64>,
    /// Stream that the segment belongs to.
    pub stream: StreamId,
    /// Small or large pool.
    pub kind: PoolKind,
    /// Private pool, or the default one.
    pub pool: PoolId,
    /// Whether it is mapped memory of an expandable segment.
    pub expandable: bool,
    /// Stack of the cudaMalloc.
    pub stack: StackId,
    /// Stack of the forward pass, when the backward pass caused the cudaMalloc.
    pub forward: StackId,
    /// Its blocks: rows of [`Snapshot::blocks`](super::Snapshot::blocks), in address order.
    pub blocks: Range<usize>,
}

impl Segment {
    /// First address behind the segment.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.total_size)
    }
}

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockState {
    /// Owned by a tensor.
    Allocated,
    /// Freed by the program, but still waiting for another stream or the end of a graph capture.
    Pending,
    /// Free.
    Inactive,
}

/// A piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// Start address.
    pub address: u64,
    /// Bytes occupied, after rounding and splitting.
    pub size: u64,
    /// Bytes asked for; 0 for a free block, where the file's value is a leftover.
    pub requested: u64,
    /// The file's own `requested_size`: of a free block a leftover of its last user.
    pub stated: u64,
    /// What it is doing.
    pub state: BlockState,
    /// Stack of the allocation.
    pub stack: StackId,
    /// Stack of the forward pass, for a block allocated in the backward pass.
    pub forward: StackId,
    /// Its users as torch 1.13 and 2.0 record them.
    pub history: HistoryRows,
}

impl Block {
    /// First address behind the block.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    /// Whether it is not free.
    pub fn is_active(&self) -> bool {
        self.state != BlockState::Inactive
    }
}
