//! An exact simulation of one device's caching allocator, in PyTorch's native backend.
//!
//! In: requests, frees and calls of `empty_cache`, one at a time. Out of each: a block or an error, and the entries that
//! PyTorch would write into its trace. `docs/allocator.md` says what is modelled and against what it was checked.

mod block;
mod check;
mod config;
mod device;
mod event;
mod expandable;
mod flush;
mod free;
mod free_set;
mod gc;
mod malloc;
mod pool;
mod private;
mod probe;
mod restore;
mod search;
mod shelf;
mod state;
mod stats;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::RandomState;

pub use block::BlockId;
pub use config::SimulatorConfig;
pub use device::AddressPolicy;
pub use event::{Action, MempoolId, TraceEvent};
pub use malloc::{Allocation, MallocError};
pub use private::PoolOptions;
pub use restore::{InitialBlock, InitialSegment, RestoreError};
pub use state::{BlockState, BlockStatus, SegmentState};
pub use stats::{PoolStat, Stat, Stats};

use super::{AllocatorRules, Behaviour, PoolKind};
use block::{Block, Slab};
use device::Device;
use expandable::ExpandableSegment;
use free_set::FreeSet;
use pool::{FreeList, Pool};
use private::PrivatePool;

type HashMap<K, V> = hashbrown::HashMap<K, V, RandomState>;

/// The default pool's halves come first in the list of pools.
const DEFAULT_SMALL: u32 = 0;
const DEFAULT_LARGE: u32 = 1;

/// When a block that other streams have used becomes free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventPolicy {
    /// At the next request: the streams are always done by then.
    #[default]
    Ready,
    /// When the caller says so ([`Simulator::complete`]), or when a full flush waits for all streams.
    Manual,
}

/// What surrounds the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// Nothing special.
    #[default]
    None,
    /// Requests of some thread go to a private pool (`torch.cuda.use_mem_pool`). Up to 2.12 this counts as a capture.
    Diverted,
    /// The requesting stream is being captured into a CUDA graph.
    Capturing,
}

/// The allocator of one device.
///
/// ```
/// use oomscope::allocator::{Action, AllocatorRules, GIB, MIB, Simulator, SimulatorConfig};
///
/// let mut gpu = Simulator::new(SimulatorConfig::new(AllocatorRules::default(), GIB));
/// let block = gpu.malloc(3 * MIB, 0)?.block;
/// let actions: Vec<_> = gpu.events().iter().map(|event| event.action).collect();
/// assert_eq!(actions, [Action::SegmentAlloc, Action::Alloc]);
/// assert_eq!(gpu.stats().reserved_bytes.all.current, 20 * MIB);
///
/// gpu.free(block);
/// gpu.empty_cache();
/// assert_eq!(gpu.stats().reserved_bytes.all.current, 0);
/// # Ok::<(), oomscope::allocator::MallocError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Simulator {
    rules: AllocatorRules,
    behaviour: Behaviour,
    device: Device,
    /// Limit of the memory fraction in bytes.
    allowed: Option<u64>,
    /// Segments and mapped memory of all pools.
    reserved: u64,
    blocks: Slab,
    pools: Vec<Pool>,
    lists: Vec<FreeList>,
    private: BTreeMap<MempoolId, PrivatePool>,
    expandable: Vec<ExpandableSegment>,
    /// Blocks that wait, by the stream they wait for; a block is in the queue of each of its streams.
    waiting: BTreeMap<u64, VecDeque<u32>>,
    /// Blocks freed during a capture, which wait for its end.
    deferred: Vec<u32>,
    /// Streams other than its own that have used a block.
    uses: HashMap<u32, Vec<u64>>,
    event_policy: EventPolicy,
    capture: Capture,
    next_age: u64,
    /// Ages of the segments that were loaded.
    initial_ages: BTreeSet<u64>,
    stats: Stats,
    events: Vec<TraceEvent>,
}

impl Simulator {
    /// An allocator that has not reserved anything.
    pub fn new(config: SimulatorConfig) -> Self {
        let SimulatorConfig { rules, behaviour, total, capacity, addresses, allowed } = config;
        let allowed = allowed.or_else(|| rules.memory_fraction.and_then(|fraction| behaviour.limit(fraction, total)));
        let default = |kind| Pool::new(kind, MempoolId::DEFAULT);
        Self {
            rules,
            behaviour,
            device: Device::new(total, capacity, addresses),
            allowed,
            reserved: 0,
            blocks: Slab::default(),
            pools: vec![default(PoolKind::Small), default(PoolKind::Large)],
            lists: Vec::new(),
            private: BTreeMap::new(),
            expandable: Vec::new(),
            waiting: BTreeMap::new(),
            deferred: Vec::new(),
            uses: HashMap::default(),
            event_policy: EventPolicy::default(),
            capture: Capture::default(),
            next_age: 0,
            initial_ages: BTreeSet::new(),
            stats: Stats::default(),
            events: Vec::new(),
        }
    }

    /// The settings in force.
    pub fn rules(&self) -> &AllocatorRules {
        &self.rules
    }

    /// Changes the settings from now on, as `torch.cuda.memory._set_allocator_settings` does. The memory fraction is not
    /// touched: PyTorch reads it once, when the device's allocator is made.
    pub fn set_rules(&mut self, rules: AllocatorRules) {
        self.rules = rules;
    }

    /// The release's behaviour.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// `torch.cuda.set_per_process_memory_fraction(fraction)`.
    pub fn set_memory_fraction(&mut self, fraction: f64) {
        self.allowed = self.behaviour.limit(fraction, self.device.total);
    }

    /// Sets the limit of the memory fraction in bytes directly, where it is known from an error message.
    pub fn set_allowed(&mut self, allowed: Option<u64>) {
        self.allowed = allowed;
    }

    /// The limit of the memory fraction in bytes.
    pub fn allowed(&self) -> Option<u64> {
        self.allowed
    }

    /// Changes how much of the device PyTorch can have, in bytes.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.device.capacity = capacity;
    }

    /// Bytes of the device that are free for PyTorch.
    pub fn device_free(&self) -> u64 {
        self.device.free_bytes()
    }

    /// Bytes of segments and mapped memory.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Chooses when blocks used by other streams become free.
    pub fn set_event_policy(&mut self, policy: EventPolicy) {
        self.event_policy = policy;
    }

    /// Says that a capture or a diversion starts or ends.
    pub fn set_capture(&mut self, capture: Capture) {
        self.capture = capture;
    }

    /// The statistics so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The trace entries of the last call that changed something.
    pub fn events(&self) -> &[TraceEvent] {
        &self.events
    }

    /// Address, size in bytes and stream of a block, if the number is in use.
    pub fn block(&self, id: BlockId) -> Option<(u64, u64, u64)> {
        let block = self.blocks.get(id)?;
        Some((block.addr, block.size, self.lists[block.list as usize].stream))
    }

    /// Lets the next segment of exactly `size` bytes start at `addr`, if that range is free then. Hints are used in order.
    pub fn hint_segment(&mut self, addr: u64, size: u64) {
        self.device.segments.hint(addr, size);
    }

    /// Lets the next new expandable segment start at `addr`, if that range is free then.
    pub fn hint_expandable(&mut self, addr: u64) {
        self.device.reservations.hint_any(addr);
    }

    /// Drops the hints that were not used.
    pub fn forget_hints(&mut self) {
        self.device.segments.forget_hints();
        self.device.reservations.forget_hints();
    }

    /// Whether requests count as part of a capture, for this release.
    fn capturing(&self) -> bool {
        match self.capture {
            Capture::None => false,
            Capture::Diverted => !self.behaviour.capture_by_stream,
            Capture::Capturing => true,
        }
    }

    /// Whether searches count towards garbage collection.
    fn collects(&self) -> bool {
        self.rules.gc_threshold > 0.0 && self.allowed.is_some()
    }

    /// Whether `size` is at least `max_split_size`.
    fn is_oversize(&self, size: u64) -> bool {
        self.rules.max_split_size.is_some_and(|max| size >= max)
    }

    fn kind(&self, block: u32) -> PoolKind {
        self.pools[self.lists[self.blocks[block].list as usize].pool as usize].kind
    }

    /// The free list of a stream in a pool, made if it is new.
    fn list(&mut self, pool: u32, stream: u64) -> u32 {
        if let Some(list) = self.pools[pool as usize].lists.get(&stream) {
            return *list;
        }
        let list = self.lists.len() as u32;
        self.lists.push(FreeList { pool, stream, free: FreeSet::default(), unmapped: BTreeMap::new() });
        self.pools[pool as usize].lists.insert(stream, list);
        list
    }

    fn emit(&mut self, action: Action, list: u32, addr: u64, size: u64) {
        let FreeList { pool, stream, .. } = self.lists[list as usize];
        let pool = self.pools[pool as usize].mempool;
        self.events.push(TraceEvent { action, addr, size, stream, pool });
    }
}
