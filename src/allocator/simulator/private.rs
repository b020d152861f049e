//! Pools of CUDA graphs and of `MemPool` objects.

use super::event::MempoolId;
use super::malloc::{Failure, Params};
use super::{Pool, Simulator};
use crate::allocator::PoolKind;

/// How a private pool is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolOptions {
    /// Other requests may take its free memory when the device has none (2.8).
    pub use_on_oom: bool,
    /// Its blocks are never split (2.10).
    pub no_split: bool,
    /// Memory comes from a function of the program, never from expandable segments.
    pub custom: bool,
}

/// The two halves of a private pool, as numbers of [`Pool`]s.
#[derive(Clone, Debug)]
pub(super) struct PrivatePool {
    pub small: u32,
    pub large: u32,
    use_on_oom: bool,
    /// Nothing can allocate from it any more, so that a flush may release it.
    released: bool,
}

impl Simulator {
    /// Makes a private pool, or changes the options of one that exists.
    pub fn create_pool(&mut self, id: MempoolId, options: PoolOptions) {
        if !id.is_private() {
            return;
        }
        self.private_half(id, PoolKind::Small);
        let no_split = options.no_split && self.behaviour.no_split_pools;
        if let Some(pool) = self.private.get_mut(&id) {
            pool.use_on_oom = options.use_on_oom;
            for half in [pool.small, pool.large] {
                self.pools[half as usize].no_split = no_split;
                self.pools[half as usize].custom = options.custom;
            }
        }
    }

    /// Says that the last user of a private pool is gone: the next full flush gives back its free memory.
    pub fn release_private_pool(&mut self, id: MempoolId) {
        if let Some(pool) = self.private.get_mut(&id) {
            pool.released = true;
        }
    }

    /// Half of a private pool, which is made, or used again, if need be.
    pub(super) fn private_half(&mut self, id: MempoolId, kind: PoolKind) -> u32 {
        let pools = &mut self.pools;
        let pool = self.private.entry(id).or_insert_with(|| {
            let small = pools.len() as u32;
            pools.extend([Pool::new(PoolKind::Small, id), Pool::new(PoolKind::Large, id)]);
            PrivatePool { small, large: small + 1, use_on_oom: false, released: false }
        });
        pool.released = false;
        match kind {
            PoolKind::Small => pool.small,
            PoolKind::Large => pool.large,
        }
    }

    /// Looks for the request in the pools that help out; the block then counts as one of that pool.
    pub(super) fn borrow(&mut self, params: &mut Params) -> Result<u32, Failure> {
        let halves: Vec<u32> = self
            .private
            .values()
            .filter(|pool| pool.use_on_oom)
            .map(|pool| match params.kind {
                PoolKind::Small => pool.small,
                PoolKind::Large => pool.large,
            })
            .collect();
        for pool in halves {
            let list = self.list(pool, params.stream);
            if let Some(block) = self.find_free(list, params.size, false) {
                *params = Params { pool, list, expandable: false, ..*params };
                return Ok(block);
            }
        }
        Err(Failure::NoMemory)
    }

    /// Gives back what is free in pools that nobody uses any more.
    pub(super) fn release_private_pools(&mut self) {
        let released: Vec<_> = self.private.values().filter(|pool| pool.released).map(|p| [p.small, p.large]).collect();
        for half in released.into_iter().flatten() {
            self.release_pool(half);
        }
    }
}
