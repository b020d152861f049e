//! Questions about a request that do not change anything.

use super::event::MempoolId;
use super::{DEFAULT_LARGE, Simulator};

impl Simulator {
    /// Whether a request would have to release cached memory, by garbage collection or a flush, before it is served or
    /// fails.
    pub fn would_release(&mut self, mempool: MempoolId, requested: u64, stream: u64) -> bool {
        let params = self.params(mempool, requested, stream);
        if self.best_fit(params.list, params.size, params.expandable).is_some() {
            return false;
        }
        if self.would_collect()
            || self.allowed.is_some_and(|most| self.reserved.saturating_add(params.alloc_size) > most)
        {
            return true;
        }
        let bytes = if params.maps { self.bytes_to_map(&params) } else { params.alloc_size };
        bytes > self.device.free_bytes()
    }

    fn would_collect(&self) -> bool {
        let Some(allowed) = self.allowed.filter(|_| self.collects()) else { return false };
        let limit = (self.rules.gc_threshold * allowed as f64) as u64;
        let lists = self.pools[DEFAULT_LARGE as usize].lists.values();
        let mut free = lists.flat_map(|list| self.lists[*list as usize].free.iter());
        self.reserved > limit && free.any(|id| !self.blocks[id].is_split())
    }
}
