//! `garbage_collection_threshold`: giving back large segments that were idle longest.

use super::{DEFAULT_LARGE, Simulator};

impl Simulator {
    /// Runs before a request that found no block asks the device. Only whole free segments of the default large pool
    /// are considered; the age of a block is the number of searches since it became free.
    pub(super) fn collect_garbage(&mut self) {
        let Some(allowed) = self.allowed else { return };
        let limit = (self.rules.gc_threshold * allowed as f64) as u64;
        let Some(target) = self.reserved.checked_sub(limit).filter(|target| *target > 0) else { return };

        let pool = &self.pools[DEFAULT_LARGE as usize];
        let searches = pool.searches;
        let free = pool.lists.values().flat_map(|list| self.lists[*list as usize].free.iter());
        let mut whole: Vec<u32> = free.filter(|id| !self.blocks[*id].is_split()).collect();
        let age = |sim: &Self, id: u32| searches.saturating_sub(sim.blocks[id].idle_since);
        let mut total_age: f64 = whole.iter().map(|id| age(self, *id) as f64).sum();
        let mut reclaimed = 0;
        let mut count = whole.len();
        while reclaimed < target && count > 0 {
            // A round does not stop at the target: everything as old as the average goes.
            let threshold = total_age / count as f64;
            let (old, young): (Vec<u32>, Vec<u32>) = whole
                .into_iter()
                .partition(|id| !self.blocks[*id].is_expandable() && age(self, *id) as f64 >= threshold);
            if old.is_empty() {
                break;
            }
            for id in old {
                total_age -= age(self, id) as f64;
                reclaimed += self.blocks[id].size;
                count -= 1;
                self.release_segment(id);
            }
            whole = young;
        }
    }
}
