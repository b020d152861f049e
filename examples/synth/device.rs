//! A model of the caching allocator: one device, one stream, the default pools, no expandable segments. It says what happens; where
//! that goes is the business of a [`Trace`].

use crate::stacks::StackId;
use oomscope::allocator::{AllocatorRules, PoolKind};
use oomscope::pickle::write::WriteError;
use std::collections::{BTreeMap, BTreeSet};

/// Why a run ends.
pub enum Stop {
    /// The wanted length is reached.
    Complete,
    /// A request did not fit.
    OutOfMemory,
    /// The trace could not be written.
    Write(WriteError),
}

impl From<WriteError> for Stop {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

/// One call of the program into the allocator. All its events carry the same stack object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub number: u64,
    pub stack: StackId,
}

/// One trace entry. `address` is the free memory of the device when `action` is `oom`.
pub struct Event {
    pub action: &'static str,
    pub address: u64,
    pub size: u64,
    pub time_us: u64,
    pub call: Call,
}

/// Takes the events of a device.
pub trait Trace {
    /// Takes one event.
    fn event(&mut self, event: &Event) -> Result<(), WriteError>;
    /// Whether no further call should begin.
    fn is_full(&self) -> bool;
}

/// A segment as the device gave it.
pub struct Segment {
    pub size: u64,
    pub kind: PoolKind,
    pub call: Call,
    /// Creation order, which breaks ties between free blocks from 2.13 on.
    counter: u64,
}

/// A piece of a segment. `requested` of a free block is what its last user asked for, as in PyTorch.
pub struct Block {
    pub size: u64,
    pub requested: u64,
    /// The call that allocated it, while it is allocated.
    pub owner: Option<Call>,
    /// Address of its segment.
    segment: u64,
}

/// Sums at one moment, in bytes.
#[derive(Clone, Copy, Default, serde::Serialize)]
pub struct Counters {
    pub requested: u64,
    pub allocated: u64,
    pub reserved: u64,
}

/// What the file should show, in bytes; event numbers count from 0.
#[derive(Clone, Copy, Default, serde::Serialize)]
pub struct Peaks {
    pub requested: u64,
    pub requested_event: Option<u64>,
    pub allocated: u64,
    pub reserved: u64,
}

/// The failed request that ended a run.
#[derive(Clone, Copy, serde::Serialize)]
pub struct Oom {
    pub event: u64,
    pub size: u64,
    pub device_free: u64,
}

/// The allocator of one device, and what it did so far.
pub struct Device<'a> {
    rules: AllocatorRules,
    /// Bytes that all segments together may take.
    capacity: u64,
    ties_by_age: bool,
    max_events: u64,
    trace: &'a mut dyn Trace,
    pub segments: BTreeMap<u64, Segment>,
    pub blocks: BTreeMap<u64, Block>,
    /// Free blocks of the small and the large pool as (size, age of the segment or 0, address).
    free: [BTreeSet<(u64, u64, u64)>; 2],
    /// Ranges that the device took back, by size: the driver hands them out again.
    returned: BTreeMap<u64, Vec<u64>>,
    next_address: u64,
    next_counter: u64,
    next_call: u64,
    pub now_us: u64,
    pub events: u64,
    pub counters: Counters,
    pub peaks: Peaks,
    pub oom: Option<Oom>,
}

impl<'a> Device<'a> {
    /// Device number `ordinal`, empty. `ties_by_age` is the order of PyTorch 2.13 and newer among free blocks of one size.
    pub fn new(ordinal: u64, capacity: u64, ties_by_age: bool, max_events: u64, trace: &'a mut dyn Trace) -> Self {
        Self {
            rules: AllocatorRules::default(),
            capacity,
            ties_by_age,
            max_events,
            trace,
            segments: BTreeMap::new(),
            blocks: BTreeMap::new(),
            free: [BTreeSet::new(), BTreeSet::new()],
            returned: BTreeMap::new(),
            next_address: 0x7000_4000_0000 + (ordinal << 40),
            next_counter: 0,
            // Calls of different devices must not be taken for one.
            next_call: ordinal << 48,
            now_us: 1_790_000_000_000_000,
            events: 0,
            counters: Counters::default(),
            peaks: Peaks::default(),
            oom: None,
        }
    }

    /// Allocates `requested` bytes and returns the address.
    pub fn malloc(&mut self, requested: u64, stack: StackId) -> Result<u64, Stop> {
        let call = self.call(stack)?;
        let size = self.rules.round_size(requested);
        let kind = self.rules.pool_kind(size);
        let found = self.free[kind as usize].range((size, 0, 0)..).next().copied();
        let address = match found {
            Some(key) => {
                self.free[kind as usize].remove(&key);
                key.2
            }
            None => self.new_segment(size, kind, call)?,
        };
        self.take(address, size, requested, kind, call);
        self.counters.requested += requested;
        self.record("alloc", address, requested, call)?;
        Ok(address)
    }

    /// Frees the block at `address`.
    pub fn free(&mut self, address: u64, stack: StackId) -> Result<(), Stop> {
        let call = self.call(stack)?;
        let Some(mut block) = self.blocks.remove(&address) else { return Ok(()) };
        self.record("free_requested", address, block.requested, call)?;
        block.owner = None;
        self.counters.requested -= block.requested;
        self.counters.allocated -= block.size;
        let (requested, mut start) = (block.requested, address);
        if let Some((&before, _)) =
            self.blocks.range(..address).next_back().filter(|(_, b)| is_free_in(b, block.segment))
        {
            block.size += self.absorb(before);
            start = before;
        }
        let end = start + block.size;
        if self.blocks.get(&end).is_some_and(|after| is_free_in(after, block.segment)) {
            block.size += self.absorb(end);
        }
        self.insert_free(start, block);
        self.record("free_completed", address, requested, call)
    }

    /// Runs end here, between calls, so that the state at the end is one that the events explain.
    fn call(&mut self, stack: StackId) -> Result<Call, Stop> {
        if self.events >= self.max_events || self.trace.is_full() {
            return Err(Stop::Complete);
        }
        self.next_call += 1;
        Ok(Call { number: self.next_call, stack })
    }

    /// The free block of a fresh segment, outside the free sets; flushes the cache once when the device is full.
    fn new_segment(&mut self, size: u64, kind: PoolKind, call: Call) -> Result<u64, Stop> {
        let wanted = self.rules.segment_size(size);
        if self.counters.reserved + wanted > self.capacity {
            self.flush(PoolKind::Large, call)?;
            self.flush(PoolKind::Small, call)?;
        }
        if self.counters.reserved + wanted > self.capacity {
            let device_free = self.capacity - self.counters.reserved;
            self.oom = Some(Oom { event: self.events, size, device_free });
            self.record("oom", device_free, size, call)?;
            return Err(Stop::OutOfMemory);
        }
        let address = match self.returned.get_mut(&wanted).and_then(Vec::pop) {
            Some(address) => address,
            None => {
                self.next_address += wanted;
                self.next_address - wanted
            }
        };
        self.segments.insert(address, Segment { size: wanted, kind, call, counter: self.next_counter });
        self.next_counter += 1;
        self.blocks.insert(address, Block { size: wanted, requested: 0, owner: None, segment: address });
        self.counters.reserved += wanted;
        self.record("segment_alloc", address, wanted, call)?;
        Ok(address)
    }

    /// Gives the whole free segments of a pool back to the device.
    fn flush(&mut self, kind: PoolKind, call: Call) -> Result<(), Stop> {
        for key in self.free[kind as usize].clone() {
            let (size, _, address) = key;
            if self.segments.get(&address).is_some_and(|segment| segment.size == size) {
                self.free[kind as usize].remove(&key);
                self.segments.remove(&address);
                self.blocks.remove(&address);
                self.returned.entry(size).or_default().push(address);
                self.counters.reserved -= size;
                self.record("segment_free", address, size, call)?;
            }
        }
        Ok(())
    }

    /// Hands the front of a free block out, and puts the rest back where the rules split.
    fn take(&mut self, address: u64, size: u64, requested: u64, kind: PoolKind, call: Call) {
        let Some(block) = self.blocks.get_mut(&address) else { return };
        let rest = block.size - size;
        let stale = std::mem::replace(&mut block.requested, requested);
        block.owner = Some(call);
        let segment = block.segment;
        if self.rules.splits(size, rest, kind, false) {
            block.size = size;
            self.insert_free(address + size, Block { size: rest, requested: stale, owner: None, segment });
            self.counters.allocated += size;
        } else {
            self.counters.allocated += block.size;
        }
    }

    /// Removes a free block from the books and returns its size.
    fn absorb(&mut self, address: u64) -> u64 {
        let Some(block) = self.blocks.remove(&address) else { return 0 };
        if let Some((kind, age)) = self.place(&block) {
            self.free[kind as usize].remove(&(block.size, age, address));
        }
        block.size
    }

    fn insert_free(&mut self, address: u64, block: Block) {
        if let Some((kind, age)) = self.place(&block) {
            self.free[kind as usize].insert((block.size, age, address));
        }
        self.blocks.insert(address, block);
    }

    /// The pool of a block, and its rank among blocks of equal size.
    fn place(&self, block: &Block) -> Option<(PoolKind, u64)> {
        let segment = self.segments.get(&block.segment)?;
        Some((segment.kind, if self.ties_by_age { segment.counter } else { 0 }))
    }

    fn record(&mut self, action: &'static str, address: u64, size: u64, call: Call) -> Result<(), Stop> {
        let Counters { requested, allocated, reserved } = self.counters;
        if requested > self.peaks.requested && action == "alloc" {
            self.peaks.requested = requested;
            self.peaks.requested_event = Some(self.events);
        }
        self.peaks.allocated = self.peaks.allocated.max(allocated);
        self.peaks.reserved = self.peaks.reserved.max(reserved);
        self.events += 1;
        self.now_us += 1 + (call.number ^ size >> 9) % 7;
        Ok(self.trace.event(&Event { action, address, size, time_us: self.now_us, call })?)
    }
}

fn is_free_in(block: &Block, segment: u64) -> bool {
    block.owner.is_none() && block.segment == segment
}
