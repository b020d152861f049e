//! Pools and their ordered sets of free blocks.
//!
//! PyTorch keeps one set a pool, ordered by stream first. A search never leaves its stream, so each stream has a list of
//! its own here, and walks over a pool go through the lists in the order of the streams.

use std::collections::BTreeMap;

use super::block::Block;
use super::event::MempoolId;
use crate::allocator::{PoolKind, TieBreak};

/// Order of free blocks of one stream: size, then what breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FreeKey {
    size: u64,
    age: u64,
    addr: u64,
}

impl FreeKey {
    pub fn of(block: &Block, tie_break: TieBreak) -> Self {
        let age = if tie_break == TieBreak::SegmentAge { block.age } else { 0 };
        Self { size: block.size, age, addr: block.addr }
    }

    /// Before every block of `size` bytes.
    pub fn first(size: u64) -> Self {
        Self { size, age: 0, addr: 0 }
    }
}

/// The free blocks of one stream in one pool.
#[derive(Clone, Debug)]
pub(super) struct FreeList {
    pub pool: u32,
    pub stream: u64,
    pub free: BTreeMap<FreeKey, u32>,
    /// Address space without memory, by address.
    pub unmapped: BTreeMap<u64, u32>,
}

/// The small or the large half of a pool.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub kind: PoolKind,
    pub mempool: MempoolId,
    /// Blocks are handed out whole.
    pub no_split: bool,
    /// Memory comes from a function of the program, never from expandable segments.
    pub custom: bool,
    /// The list of each stream.
    pub lists: BTreeMap<u64, u32>,
    /// Searches so far, counted only while garbage collection is on.
    pub searches: u64,
}

impl Pool {
    pub fn new(kind: PoolKind, mempool: MempoolId) -> Self {
        Self { kind, mempool, no_split: false, custom: false, lists: BTreeMap::new(), searches: 0 }
    }
}
