//! Best fit among the free blocks of one stream.

use super::block::{NONE, State};
use super::free_set::FreeKey;
use super::{Block, Simulator};

impl Simulator {
    /// Takes the smallest suitable free block of at least `size` bytes out of a list.
    ///
    /// `expandable` says whether the request may use expandable memory.
    pub(super) fn find_free(&mut self, list: u32, size: u64, expandable: bool) -> Option<u32> {
        if self.collects() {
            let pool = self.lists[list as usize].pool;
            self.pools[pool as usize].searches += 1;
        }
        let found = self.best_fit(list, size, expandable)?;
        self.unshelve(found);
        Some(found)
    }

    /// The block that [`Simulator::find_free`] would take.
    pub(super) fn best_fit(&self, list: u32, size: u64, expandable: bool) -> Option<u32> {
        let mut candidates = self.lists[list as usize].free.from(FreeKey::first(size));
        let mut found = candidates.next()?;
        if self.blocks[found].is_expandable() {
            if expandable {
                // The piece before the unmapped rest of a segment counts with that rest, so that holes are filled first.
                let mut extent = self.extent(&self.blocks[found]);
                while self.blocks[found].is_expandable()
                    && let Some(next) = candidates.next()
                {
                    let next_extent = self.extent(&self.blocks[next]);
                    if next_extent >= extent {
                        break;
                    }
                    (found, extent) = (next, next_extent);
                }
            } else {
                found = candidates.find(|id| !self.blocks[*id].is_expandable())?;
            }
        }
        let block = &self.blocks[found];
        // Larger candidates would fail the same test, so the search ends here.
        let refused = match self.rules.max_split_size {
            Some(max) if size < max => block.size >= max,
            Some(_) => block.size >= size.saturating_add(self.rules.max_non_split_rounding),
            None => false,
        };
        (!refused).then_some(found)
    }

    /// Size of a block with the unmapped range behind it.
    fn extent(&self, block: &Block) -> u64 {
        let rest = if block.next == NONE { None } else { self.blocks.neighbour(block.next) };
        block.size + rest.filter(|rest| rest.state == State::Unmapped).map_or(0, |rest| rest.size)
    }
}
