//! Block lifetimes, one column a field.

use hashbrown::HashMap;

use crate::snapshot::{Action, Device, Snapshot, StackId, StreamId};

/// The number of a state that never comes.
pub const NEVER: u32 = u32::MAX;

/// A row of [`Lives`].
pub type LifeId = u32;

/// A block that was there before the trace began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seed {
    pub(super) addr: u64,
    pub(super) requested: u64,
    pub(super) stream: StreamId,
    pub(super) stack: StackId,
}

/// Every block that was live in some state.
///
/// Blocks allocated in the trace come with their event; the others are *seeded*: they existed in state 0.
pub struct Lives<'a> {
    snapshot: &'a Snapshot,
    /// Event of the allocation, or the number of events plus a row of `seeds`.
    birth: Vec<u32>,
    /// First state in which the program has freed it.
    freed_at: Vec<u32>,
    /// First state in which it is back in its pool.
    done_at: Vec<u32>,
    /// Bytes occupied.
    bytes: Vec<u64>,
    seeds: Vec<Seed>,
    /// Stacks of blocks whose events have none.
    stacks: HashMap<LifeId, StackId, foldhash::fast::RandomState>,
    /// Life of each event that concerns a block, else [`NEVER`].
    of_event: Vec<LifeId>,
    /// Ends that no event records, by state: blocks that were replaced, or that the dump no longer has.
    unrecorded_ends: Vec<(u32, LifeId)>,
    /// Row of event 0 in the snapshot's table.
    first_row: usize,
}

/// One block's life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Life {
    /// Start address.
    pub addr: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes occupied.
    pub bytes: u64,
    /// Stack of the allocation.
    pub stack: StackId,
    /// Stream of the allocation.
    pub stream: StreamId,
    /// Event of the allocation; `None` when it was there before the trace began.
    pub alloc_event: Option<u32>,
    /// First state in which it exists.
    pub born_at: u32,
    /// First state in which the program has freed it, or [`NEVER`].
    pub freed_at: u32,
    /// First state in which it is back in its pool, or [`NEVER`].
    pub done_at: u32,
}

impl<'a> Lives<'a> {
    /// None yet, with room for as many as an honest trace has: each of them ends in the trace, or is there at its end.
    pub(super) fn new(snapshot: &'a Snapshot, device: &Device) -> Self {
        let mut counts = [0; Action::ALL.len()];
        for &action in &snapshot.events.action[device.events.clone()] {
            counts[action as usize] += 1;
        }
        let of = |action: Action| counts[action as usize];
        let blocks = snapshot.segments_of(device).iter().flat_map(|segment| snapshot.blocks_of(segment));
        let at_end = blocks.filter(|block| block.is_active()).count();
        let ended = of(Action::FreeRequested).max(of(Action::FreeCompleted)) + of(Action::Free);
        // Growing them step by step would leave the memory of each step behind in between.
        let room = (ended + at_end).max(of(Action::Alloc));
        Self {
            snapshot,
            birth: Vec::with_capacity(room),
            freed_at: Vec::with_capacity(room),
            done_at: Vec::with_capacity(room),
            bytes: Vec::with_capacity(room),
            seeds: Vec::new(),
            stacks: HashMap::default(),
            of_event: vec![NEVER; device.events.len()],
            unrecorded_ends: Vec::new(),
            first_row: device.events.start,
        }
    }

    fn push(&mut self, birth: u32) -> LifeId {
        self.birth.push(birth);
        self.freed_at.push(NEVER);
        self.done_at.push(NEVER);
        self.bytes.push(0);
        self.birth.len() as LifeId - 1
    }

    pub(super) fn push_traced(&mut self, event: u32) -> LifeId {
        let life = self.push(event);
        self.of_event[event as usize] = life;
        life
    }

    pub(super) fn push_seeded(&mut self, seed: Seed) -> LifeId {
        let birth = self.of_event.len() as u32 + self.seeds.len() as u32;
        self.seeds.push(seed);
        self.push(birth)
    }

    pub(super) fn set_of_event(&mut self, event: u32, life: LifeId) {
        self.of_event[event as usize] = life;
    }

    pub(super) fn set_freed(&mut self, life: LifeId, state: u32) {
        self.freed_at[life as usize] = state;
    }

    /// `life` is over in `state`, although no event says so.
    pub(super) fn end_unrecorded(&mut self, life: LifeId, state: u32) {
        self.end(life, state);
        self.unrecorded_ends.push((state, life));
    }

    /// `life` is over in `state`.
    pub(super) fn end(&mut self, life: LifeId, state: u32) {
        if self.freed_at[life as usize] == NEVER {
            self.freed_at[life as usize] = state;
        }
        self.done_at[life as usize] = state;
    }

    /// State and life of each block that was replaced, or that the dump no longer has, although no event says so; in
    /// order of states.
    pub fn unrecorded_ends(&self) -> &[(u32, LifeId)] {
        &self.unrecorded_ends
    }

    pub(super) fn set_bytes(&mut self, life: LifeId, bytes: u64) {
        self.bytes[life as usize] = bytes;
    }

    /// Names the stack of `life`, whose own entry has none.
    pub(super) fn set_stack(&mut self, life: LifeId, stack: StackId) {
        self.stacks.insert(life, stack);
    }

    /// Number of lives.
    pub fn len(&self) -> usize {
        self.birth.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.birth.is_empty()
    }

    /// All life ids.
    pub fn ids(&self) -> std::ops::Range<LifeId> {
        0..self.birth.len() as LifeId
    }

    /// The life that `event` begins or ends.
    pub fn of_event(&self, event: u32) -> Option<LifeId> {
        self.of_event.get(event as usize).copied().filter(|&life| life != NEVER)
    }

    /// Event of the allocation; `None` for a seeded block.
    pub fn alloc_event(&self, life: LifeId) -> Option<u32> {
        let birth = self.birth[life as usize];
        ((birth as usize) < self.of_event.len()).then_some(birth)
    }

    pub(super) fn seed(&self, life: LifeId) -> Option<Seed> {
        let at = (self.birth[life as usize] as usize).checked_sub(self.of_event.len())?;
        self.seeds.get(at).copied()
    }

    /// First state in which it exists.
    pub fn born_at(&self, life: LifeId) -> u32 {
        self.alloc_event(life).map_or(0, |event| event + 1)
    }

    /// See [`Life::freed_at`].
    pub fn freed_at(&self, life: LifeId) -> u32 {
        self.freed_at[life as usize]
    }

    /// See [`Life::done_at`].
    pub fn done_at(&self, life: LifeId) -> u32 {
        self.done_at[life as usize]
    }

    /// See [`Life::bytes`].
    pub fn bytes(&self, life: LifeId) -> u64 {
        self.bytes[life as usize]
    }

    /// See [`Life::stack`].
    pub fn stack(&self, life: LifeId) -> StackId {
        let own = match self.seed(life) {
            Some(seed) => seed.stack,
            None => self.snapshot.events.stack[self.first_row + self.birth[life as usize] as usize],
        };
        match own.has_frames() || self.stacks.is_empty() {
            true => own,
            false => self.stacks.get(&life).copied().unwrap_or(own),
        }
    }

    /// Whether it exists in `state`, pending or not.
    pub fn is_alive(&self, life: LifeId, state: u32) -> bool {
        self.born_at(life) <= state && state < self.done_at[life as usize]
    }

    /// See [`Life::addr`].
    pub fn addr(&self, life: LifeId) -> u64 {
        match self.seed(life) {
            Some(seed) => seed.addr,
            None => self.snapshot.events.addr[self.first_row + self.birth[life as usize] as usize],
        }
    }

    /// See [`Life::requested`].
    pub fn requested(&self, life: LifeId) -> u64 {
        match self.seed(life) {
            Some(seed) => seed.requested,
            None => self.snapshot.events.size[self.first_row + self.birth[life as usize] as usize],
        }
    }

    /// Everything about one life.
    pub fn get(&self, life: LifeId) -> Life {
        let stream = match self.seed(life) {
            Some(seed) => seed.stream,
            None => self.snapshot.events.stream[self.first_row + self.birth[life as usize] as usize],
        };
        Life {
            addr: self.addr(life),
            requested: self.requested(life),
            bytes: self.bytes(life),
            stack: self.stack(life),
            stream,
            alloc_event: self.alloc_event(life),
            born_at: self.born_at(life),
            freed_at: self.freed_at(life),
            done_at: self.done_at(life),
        }
    }
}
