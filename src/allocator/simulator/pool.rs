//! Pools and their ordered sets of free blocks.
//!
//! PyTorch keeps one set a pool, ordered by stream first. A search never leaves its stream, so each stream has a list of
//! its own here, and walks over a pool go through the lists in the order of the streams.

use std::collections::BTreeMap;

use super::event::MempoolId;
use super::free_set::FreeSet;
use crate::allocator::PoolKind;

/// The free blocks of one stream in one pool.
#[derive(Clone, Debug)]
pub(super) struct FreeList {
    pub pool: u32,
    pub stream: u64,
    pub free: FreeSet,
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
