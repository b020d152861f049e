//! Blocks, in a slab with 32-bit numbers.

use serde::Serialize;

/// A block of the simulator. Valid from the allocation to the completion of the free; numbers are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct BlockId(pub(super) u32);

/// A neighbour that does not exist.
pub(super) const NONE: u32 = u32::MAX;

/// A piece of a segment, or of the reserved range of an expandable segment.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub addr: u64,
    pub size: u64,
    /// Bytes of the last request served by this object; stale in free blocks, as in PyTorch's snapshots.
    pub requested: u64,
    /// The pool's search count when the block became free.
    pub idle_since: u64,
    /// Number of the segment in order of creation.
    pub age: u64,
    /// The free list (pool and stream) that the block belongs to.
    pub list: u32,
    pub prev: u32,
    pub next: u32,
    /// The expandable segment, or [`NONE`].
    pub expandable: u32,
    /// Streams that have to pass before the block is free.
    pub pending: u32,
    pub state: State,
    /// Other streams have used the block since it was allocated.
    pub used_elsewhere: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot holds no block.
    Vacant,
    Allocated,
    /// Freed, or waiting for other streams.
    Idle,
    /// Address space without memory.
    Unmapped,
}

impl Block {
    pub fn is_split(&self) -> bool {
        self.prev != NONE || self.next != NONE
    }

    pub fn is_expandable(&self) -> bool {
        self.expandable != NONE
    }

    pub fn end(&self) -> u64 {
        self.addr.saturating_add(self.size)
    }

    /// Neither in use nor waiting for a stream.
    pub fn is_available(&self) -> bool {
        matches!(self.state, State::Idle | State::Unmapped) && self.pending == 0 && !self.used_elsewhere
    }

    pub fn is_mapped(&self) -> bool {
        self.state != State::Unmapped
    }
}

/// All blocks of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct Slab {
    blocks: Vec<Block>,
    vacant: Vec<u32>,
}

impl Slab {
    pub fn insert(&mut self, block: Block) -> u32 {
        match self.vacant.pop() {
            Some(id) => {
                self.blocks[id as usize] = block;
                id
            }
            None => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as u32
            }
        }
    }

    pub fn remove(&mut self, id: u32) {
        self.blocks[id as usize].state = State::Vacant;
        self.vacant.push(id);
    }

    /// The block of a number that came from a caller.
    pub fn get(&self, id: BlockId) -> Option<&Block> {
        self.blocks.get(id.0 as usize).filter(|block| block.state != State::Vacant)
    }

    /// The neighbour with this number, if there is one.
    pub fn neighbour(&self, id: u32) -> Option<&Block> {
        self.blocks.get(id as usize)
    }

    /// Puts the block `id` between `prev` and `next`.
    pub fn link(&mut self, prev: u32, id: u32, next: u32) {
        self[id].prev = prev;
        self[id].next = next;
        if prev != NONE {
            self[prev].next = id;
        }
        if next != NONE {
            self[next].prev = id;
        }
    }

    /// Number and block of everything in the slab, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Block)> {
        let all = self.blocks.iter().enumerate();
        all.filter(|(_, block)| block.state != State::Vacant).map(|(id, block)| (id as u32, block))
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Block;

    fn index(&self, id: u32) -> &Block {
        &self.blocks[id as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, id: u32) -> &mut Block {
        &mut self.blocks[id as usize]
    }
}
