//! Giving cached memory back to the device.

use super::event::Action;
use super::free_set::FreeKey;
use super::malloc::{Failure, Params};
use super::{DEFAULT_LARGE, DEFAULT_SMALL, MallocError, Simulator};

impl Simulator {
    /// `torch.cuda.empty_cache()`: waits for all streams, then gives back everything that is free and whole.
    pub fn empty_cache(&mut self) {
        self.events.clear();
        self.flush();
    }

    /// The full flush. The order of the pools is PyTorch's, and shows in the trace.
    pub(super) fn flush(&mut self) {
        self.synchronise();
        self.release_pool(DEFAULT_LARGE);
        self.release_pool(DEFAULT_SMALL);
        self.release_private_pools();
    }

    /// Gives back the whole segments and the whole granules of a pool.
    pub(super) fn release_pool(&mut self, pool: u32) {
        let lists = self.pools[pool as usize].lists.values();
        let free = lists.flat_map(|list| self.lists[*list as usize].free.iter());
        let (expandable, plain): (Vec<u32>, Vec<u32>) = free
            .filter(|id| self.blocks[*id].is_expandable() || !self.blocks[*id].is_split())
            .partition(|id| self.blocks[*id].is_expandable());
        for id in plain {
            self.release_segment(id);
        }
        for id in expandable {
            self.unmap(id);
        }
    }

    /// `cudaFree` of a free block that is a whole segment.
    pub(super) fn release_segment(&mut self, id: u32) {
        self.unshelve(id);
        let kind = self.kind(id);
        let block = &self.blocks[id];
        let (addr, size, list) = (block.addr, block.size, block.list);
        self.device.release(addr, size);
        self.reserved = self.reserved.saturating_sub(size);
        self.stats.segment.sub(kind, 1);
        self.stats.reserved_bytes.sub(kind, size);
        self.stats.num_device_free += 1;
        if self.is_oversize(size) {
            self.stats.oversize_segments.sub(1);
        }
        self.emit(Action::SegmentFree, list, addr, size);
        self.blocks.remove(id);
    }

    /// The partial flush of `max_split_size_mb`: gives back oversize blocks of the request's own list, one that is big
    /// enough or else the largest ones, until they make up for the request. True if they do.
    pub(super) fn flush_oversize(&mut self, params: &Params) -> Result<bool, Failure> {
        let Some(max) = self.rules.max_split_size else { return Ok(false) };
        let needed = params.size.max(max);
        let key = FreeKey::first(needed);
        let enough = self.lists[params.list as usize].free.from(key).next();
        if let Some(id) = enough
            && self.releasable(id)?
        {
            self.release_segment(id);
            return Ok(true);
        }
        let mut released = 0;
        let smaller: Vec<u32> = {
            let list = self.lists[params.list as usize].free.down_from(key);
            list.take_while(|id| self.blocks[*id].size >= max).collect()
        };
        for id in smaller {
            if released >= needed {
                break;
            }
            if self.releasable(id)? {
                released += self.blocks[id].size;
                self.release_segment(id);
            }
        }
        Ok(released >= needed)
    }

    /// Whether the partial flush may release a block; an error where PyTorch does not survive the attempt.
    fn releasable(&self, id: u32) -> Result<bool, Failure> {
        let block = &self.blocks[id];
        match (block.is_expandable(), block.is_split()) {
            (true, _) if !self.behaviour.partial_flush_asserts => Ok(false),
            (false, false) => Ok(true),
            _ => Err(Failure::Final(MallocError::Asserts)),
        }
    }
}
