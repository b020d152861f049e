//! Blocks in and out of the ordered sets, and merged with their neighbours.

use super::Simulator;
use super::block::{Block, NONE, State};
use super::free_set::FreeKey;

impl Simulator {
    /// Puts a block into the set that its state asks for.
    pub(super) fn shelve(&mut self, id: u32) {
        let block = &mut self.blocks[id];
        let list = &mut self.lists[block.list as usize];
        if block.state == State::Unmapped {
            list.unmapped.insert(block.addr, id);
        } else {
            block.idle_since = self.pools[list.pool as usize].searches;
            list.free.insert(FreeKey::of(block, self.behaviour.tie_break), id);
        }
    }

    /// Takes a block out of its set.
    pub(super) fn unshelve(&mut self, id: u32) {
        let block = &self.blocks[id];
        let list = &mut self.lists[block.list as usize];
        if block.state == State::Unmapped {
            list.unmapped.remove(&block.addr);
        } else {
            list.free.remove(&FreeKey::of(block, self.behaviour.tie_break));
        }
    }

    /// Lets `id` absorb its neighbour `other` if both are equally free; gives the neighbour's size.
    pub(super) fn absorb(&mut self, id: u32, other: u32) -> Option<u64> {
        let neighbour = self.blocks.neighbour(other)?;
        if !neighbour.is_available() || neighbour.state != self.blocks[id].state {
            return None;
        }
        let (addr, size, prev, next) = (neighbour.addr, neighbour.size, neighbour.prev, neighbour.next);
        self.unshelve(other);
        self.blocks.remove(other);
        self.blocks[id].size += size;
        if self.blocks[id].prev == other {
            self.blocks[id].addr = addr;
            let after = self.blocks[id].next;
            self.blocks.link(prev, id, after);
        } else {
            let before = self.blocks[id].prev;
            self.blocks.link(before, id, next);
        }
        Some(size)
    }

    /// The next number in the order of segments.
    pub(super) fn age(&mut self) -> u64 {
        let age = self.next_age;
        self.next_age += 1;
        age
    }

    /// A free block of new memory, not yet in a set.
    pub(super) fn new_block(&mut self, list: u32, addr: u64, size: u64, age: u64, state: State) -> u32 {
        self.blocks.insert(Block {
            addr,
            size,
            requested: 0,
            idle_since: 0,
            age,
            list,
            prev: NONE,
            next: NONE,
            expandable: NONE,
            pending: 0,
            state,
            used_elsewhere: false,
        })
    }
}
