//! Frees, and blocks that wait for other streams.

use super::block::{BlockId, State};
use super::event::Action;
use super::{EventPolicy, Simulator};

impl Simulator {
    /// Notes that `stream` uses a block (`Tensor.record_stream`). Uses on the block's own stream mean nothing.
    pub fn record_stream(&mut self, id: BlockId, stream: u64) {
        self.events.clear();
        let Some(block) = self.allocated(id) else { return };
        if self.lists[self.blocks[block].list as usize].stream == stream {
            return;
        }
        let uses = self.uses.entry(block).or_default();
        if !uses.contains(&stream) {
            uses.push(stream);
            self.blocks[block].used_elsewhere = true;
        }
    }

    /// Gives a block back. False, and no change, if the number is not that of an allocated block.
    pub fn free(&mut self, id: BlockId) -> bool {
        self.events.clear();
        let Some(block) = self.request_free(id) else { return false };
        if !self.blocks[block].used_elsewhere {
            self.finish_free(block);
        } else if self.capturing() {
            self.deferred.push(block);
        } else {
            self.wait_for_uses(block);
        }
        true
    }

    /// Gives a block back that stays occupied until [`Simulator::complete`], or until a full flush waits for it.
    pub fn free_held(&mut self, id: BlockId) -> bool {
        self.events.clear();
        let Some(block) = self.request_free(id) else { return false };
        self.uses.remove(&block);
        self.blocks[block].used_elsewhere = false;
        self.blocks[block].pending = 1;
        let stream = self.lists[self.blocks[block].list as usize].stream;
        self.waiting.entry(stream).or_default().push_back(block);
        true
    }

    /// Lets a block go that waits. False, and no change, if the block does not wait.
    pub fn complete(&mut self, id: BlockId) -> bool {
        self.events.clear();
        let waits = self.blocks.get(id).is_some_and(|block| block.state == State::Idle && block.pending > 0);
        if !waits {
            return false;
        }
        for queue in self.waiting.values_mut() {
            if let Some(at) = queue.iter().position(|block| *block == id.0) {
                queue.remove(at);
            }
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        self.blocks[id.0].pending = 0;
        self.finish_free(id.0);
        true
    }

    /// Whether a freed block still waits for a stream.
    pub fn is_waiting(&self, id: BlockId) -> bool {
        self.blocks.get(id).is_some_and(|block| block.state == State::Idle && !block.is_available())
    }

    fn allocated(&self, id: BlockId) -> Option<u32> {
        self.blocks.get(id).filter(|block| block.state == State::Allocated).map(|_| id.0)
    }

    /// The first half of a free.
    fn request_free(&mut self, id: BlockId) -> Option<u32> {
        let id = self.allocated(id)?;
        let kind = self.kind(id);
        let block = &mut self.blocks[id];
        block.state = State::Idle;
        let (addr, size, requested, list) = (block.addr, block.size, block.requested, block.list);
        self.stats.allocation.sub(kind, 1);
        self.stats.allocated_bytes.sub(kind, size);
        if self.is_oversize(size) {
            self.stats.oversize_allocations.sub(1);
        }
        self.emit(Action::FreeRequested, list, addr, requested);
        Some(id)
    }

    /// The second half of a free: the block merges with its free neighbours and can be used again.
    pub(super) fn finish_free(&mut self, id: u32) {
        let kind = self.kind(id);
        let block = &self.blocks[id];
        let (size, requested) = (block.size, block.requested);
        self.emit(Action::FreeCompleted, block.list, block.addr, requested);
        self.stats.active.sub(kind, 1);
        self.stats.active_bytes.sub(kind, size);
        self.stats.requested_bytes.sub(kind, requested);

        // Absorbed neighbours leave the count of split pieces, the merged block enters it: booked as one net change.
        let before = self.absorb(id, self.blocks[id].prev);
        let after = self.absorb(id, self.blocks[id].next);
        self.shelve(id);
        let block = &self.blocks[id];
        if block.is_expandable() {
            return;
        }
        let added = if block.is_split() { (1, block.size) } else { (0, 0) };
        let count = u64::from(before.is_some()) + u64::from(after.is_some());
        let bytes = before.unwrap_or(0) + after.unwrap_or(0);
        for (stat, plus, minus) in
            [(&mut self.stats.inactive_split, added.0, count), (&mut self.stats.inactive_split_bytes, added.1, bytes)]
        {
            match plus.checked_sub(minus) {
                Some(0) => {}
                Some(net) => stat.add(kind, net),
                None => stat.sub(kind, minus - plus),
            }
        }
    }

    /// Queues a freed block for each stream that has used it.
    fn wait_for_uses(&mut self, id: u32) {
        let streams = self.uses.remove(&id).unwrap_or_default();
        self.blocks[id].used_elsewhere = false;
        self.blocks[id].pending = streams.len() as u32;
        if streams.is_empty() {
            return self.finish_free(id);
        }
        for stream in streams {
            self.waiting.entry(stream).or_default().push_back(id);
        }
    }

    /// What each request does first: looks which streams are done.
    pub(super) fn process_events(&mut self) {
        if !self.deferred.is_empty() {
            for block in std::mem::take(&mut self.deferred) {
                self.wait_for_uses(block);
            }
        }
        if self.event_policy == EventPolicy::Ready && !self.waiting.is_empty() {
            self.complete_all();
        }
    }

    /// Waits for all streams.
    pub(super) fn synchronise(&mut self) {
        for block in std::mem::take(&mut self.deferred) {
            self.wait_for_uses(block);
        }
        self.complete_all();
        self.stats.num_sync_all_streams += 1;
    }

    /// Completes every waiting block, stream by stream. PyTorch's order between streams is that of a hash table; the
    /// state afterwards is the same.
    fn complete_all(&mut self) {
        for (_, queue) in std::mem::take(&mut self.waiting) {
            for id in queue {
                self.blocks[id].pending -= 1;
                if self.blocks[id].pending == 0 {
                    self.finish_free(id);
                }
            }
        }
    }
}
