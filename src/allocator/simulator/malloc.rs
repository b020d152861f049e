//! A request: the search, and what is tried when it finds nothing.

use serde::Serialize;
use thiserror::Error;

use super::block::{Block, BlockId, State};
use super::event::{Action, MempoolId};
use super::{DEFAULT_LARGE, DEFAULT_SMALL, Simulator};
use crate::allocator::oom_text::OomReport;
use crate::allocator::{PoolFallback, PoolKind, format_size};

/// A request that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Allocation {
    /// For the free.
    pub block: BlockId,
    /// Address.
    pub addr: u64,
    /// Bytes of the block; what is beyond the request is lost until the free.
    pub size: u64,
}

/// A request that was not served.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MallocError {
    /// PyTorch gives a null pointer without asking the allocator.
    #[error("a request of 0 bytes needs no memory")]
    Empty,
    /// Sizes from 2^60 on.
    #[error("CUDA out of memory. Tried to allocate more than 1EB memory.")]
    TooLarge,
    /// Nothing that is tried gave enough memory.
    #[error("out of memory: {} needed, {} free on the device", format_size(.0.alloc_size), format_size(.0.device_free))]
    OutOfMemory(Box<OomReport>),
    /// `throw_on_cudamalloc_oom`, in bytes of the request.
    #[error(
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction \
         limit. Requested size: {}", format_size(*.0)
    )]
    Rejected(u64),
    /// PyTorch's own consistency check fails and the process dies: expandable memory in the partial flush of
    /// `max_split_size_mb`, up to 2.5, or split blocks there after the settings were changed.
    #[error("PyTorch stops with an internal assertion: max_split_size_mb meets a block that it cannot release")]
    Asserts,
}

/// A request on its way through the allocator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    pub requested: u64,
    pub size: u64,
    /// What the device would be asked for.
    pub alloc_size: u64,
    pub pool: u32,
    pub list: u32,
    pub stream: u64,
    pub kind: PoolKind,
    /// New memory is mapped into expandable segments.
    pub maps: bool,
    /// Searches and splits as if expandable segments were in use.
    pub expandable: bool,
}

/// Why one attempt gave no memory.
pub(super) enum Failure {
    NoMemory,
    /// The rest of the chain is skipped.
    Final(MallocError),
}

impl Simulator {
    /// A request of `requested` bytes on `stream`, from the default pool.
    pub fn malloc(&mut self, requested: u64, stream: u64) -> Result<Allocation, MallocError> {
        self.malloc_in(MempoolId::DEFAULT, requested, stream)
    }

    /// A request of `requested` bytes on `stream`, from the pool `mempool`, which is made if it is new.
    pub fn malloc_in(&mut self, mempool: MempoolId, requested: u64, stream: u64) -> Result<Allocation, MallocError> {
        self.events.clear();
        if requested == 0 {
            return Err(MallocError::Empty);
        }
        if requested >= MALLOC_LIMIT {
            return Err(MallocError::TooLarge);
        }
        if !self.capturing() {
            self.process_events();
        }
        let mut params = self.params(mempool, requested, stream);
        let block = match self.find_free(params.list, params.size, params.expandable) {
            Some(block) => block,
            None => self.obtain(&mut params)?,
        };
        Ok(self.take(&params, block))
    }

    pub(super) fn params(&mut self, mempool: MempoolId, requested: u64, stream: u64) -> Params {
        let size = self.behaviour.round_size(&self.rules, requested);
        let kind = self.rules.pool_kind(size);
        let pool = match kind {
            _ if mempool.is_private() => self.private_half(mempool, kind),
            PoolKind::Small => DEFAULT_SMALL,
            PoolKind::Large => DEFAULT_LARGE,
        };
        let allowed = match mempool.is_private() {
            true => self.behaviour.expandable_private_pools && !self.pools[pool as usize].custom,
            false => true,
        };
        let maps = self.rules.expandable && allowed;
        Params {
            requested,
            size,
            alloc_size: self.rules.segment_size(size),
            pool,
            list: self.list(pool, stream),
            stream,
            kind,
            maps,
            // Releases without expandable private pools look at the setting alone here.
            expandable: maps || (self.rules.expandable && !self.behaviour.expandable_private_pools),
        }
    }

    /// Everything that is tried after the search: garbage collection, the device, other pools, flushes.
    #[cold]
    fn obtain(&mut self, params: &mut Params) -> Result<u32, MallocError> {
        if self.collects() {
            self.collect_garbage();
        }
        match self.chain(params) {
            Ok(block) => Ok(block),
            Err(Failure::Final(error)) => Err(error),
            Err(Failure::NoMemory) => Err(MallocError::OutOfMemory(Box::new(self.fail(params)))),
        }
    }

    fn chain(&mut self, params: &mut Params) -> Result<u32, Failure> {
        let mut attempt = self.grow(params, false);
        let fallback = |when| params.pool <= DEFAULT_LARGE && self.behaviour.pool_fallback == when;
        let (early, late) = (fallback(PoolFallback::BeforeFlush), fallback(PoolFallback::AfterFlush));
        if early && matches!(attempt, Err(Failure::NoMemory)) {
            attempt = self.borrow(params);
        }
        if matches!(attempt, Err(Failure::NoMemory)) && self.flush_oversize(params)? {
            attempt = self.again(params, false);
        }
        if matches!(attempt, Err(Failure::NoMemory)) && !self.capturing() {
            self.flush();
            attempt = self.again(params, true);
        }
        if late && matches!(attempt, Err(Failure::NoMemory)) {
            attempt = self.borrow(params);
        }
        attempt
    }

    /// An attempt after something was released.
    fn again(&mut self, params: &Params, retry: bool) -> Result<u32, Failure> {
        if self.behaviour.search_after_flush
            && let Some(block) = self.find_free(params.list, params.size, params.expandable)
        {
            return Ok(block);
        }
        self.grow(params, retry)
    }

    /// New memory from the device, as a free block that is in no set.
    fn grow(&mut self, params: &Params, retry: bool) -> Result<u32, Failure> {
        if retry {
            self.stats.num_alloc_retries += 1;
        }
        let reserved = self.reserved.saturating_add(params.alloc_size);
        if self.allowed.is_some_and(|allowed| reserved > allowed) {
            return Err(Failure::NoMemory);
        }
        if self.rules.reject_above_fraction && self.behaviour.rejects_above_fraction {
            // Only the fraction of the configuration string counts here, whose default is the whole device.
            let limit = self.rules.memory_fraction.unwrap_or(1.0) * self.device.total as f64;
            if reserved > limit as u64 {
                self.stats.num_oom_rejections += 1;
                return Err(Failure::Final(MallocError::Rejected(params.requested)));
            }
        }
        if params.maps {
            return self.grow_expandable(params).ok_or(Failure::NoMemory);
        }
        let addr = self.device.allocate(params.alloc_size).ok_or(Failure::NoMemory)?;
        let age = self.age();
        let block = self.new_block(params.list, addr, params.alloc_size, age, State::Idle);
        self.reserved += params.alloc_size;
        self.stats.segment.add(params.kind, 1);
        self.stats.reserved_bytes.add(params.kind, params.alloc_size);
        self.stats.num_device_alloc += 1;
        if self.is_oversize(params.alloc_size) {
            self.stats.oversize_segments.add(1);
        }
        self.emit(Action::SegmentAlloc, params.list, addr, params.alloc_size);
        Ok(block)
    }

    /// Uses a block that was found or made, split if the rules say so.
    fn take(&mut self, params: &Params, found: u32) -> Allocation {
        let remaining = self.blocks[found].size.saturating_sub(params.size);
        let was_split = self.blocks[found].is_split();
        let expandable = self.blocks[found].is_expandable();
        let pool = &self.pools[params.pool as usize];
        let splits = remaining > 0
            && !pool.no_split
            && self.rules.splits(params.size, remaining, params.kind, params.expandable);
        let taken = if splits {
            let taken = self.split_front(found, params.size);
            self.shelve(found);
            if was_split && !expandable {
                self.stats.inactive_split_bytes.sub(params.kind, params.size);
            } else if !expandable {
                self.stats.inactive_split_bytes.add(params.kind, remaining);
                self.stats.inactive_split.add(params.kind, 1);
            }
            taken
        } else {
            if was_split && !expandable {
                self.stats.inactive_split_bytes.sub(params.kind, self.blocks[found].size);
                self.stats.inactive_split.sub(params.kind, 1);
            }
            found
        };
        let block = &mut self.blocks[taken];
        block.state = State::Allocated;
        block.requested = params.requested;
        let (addr, size) = (block.addr, block.size);
        let stats = &mut self.stats;
        stats.allocation.add(params.kind, 1);
        stats.allocated_bytes.add(params.kind, size);
        stats.active.add(params.kind, 1);
        stats.active_bytes.add(params.kind, size);
        stats.requested_bytes.add(params.kind, params.requested);
        if self.is_oversize(size) {
            self.stats.oversize_allocations.add(1);
        }
        self.emit(Action::Alloc, params.list, addr, params.requested);
        Allocation { block: BlockId(taken), addr, size }
    }

    /// Makes a block of the first `size` bytes of `id`, which keeps the rest.
    pub(super) fn split_front(&mut self, id: u32, size: u64) -> u32 {
        let Block { addr, age, list, prev, expandable, state, .. } = self.blocks[id];
        let front = self.new_block(list, addr, size, age, state);
        self.blocks[front].expandable = expandable;
        self.blocks.link(prev, front, id);
        let rest = &mut self.blocks[id];
        rest.addr += size;
        rest.size -= size;
        front
    }

    /// Writes the failure down, and says what PyTorch knew.
    fn fail(&mut self, params: &Params) -> OomReport {
        let device_free = self.device.free_bytes();
        self.emit(Action::Oom, params.list, device_free, params.size);
        self.stats.num_ooms += 1;
        let private = self.private.values().flat_map(|pool| [pool.small, pool.large]);
        let lists = private.flat_map(|pool| self.pools[pool as usize].lists.values());
        let free = lists.flat_map(|list| self.lists[*list as usize].free.iter());
        OomReport {
            requested: params.requested,
            size: params.size,
            alloc_size: params.alloc_size,
            stream: params.stream,
            device_free,
            device_total: self.device.total,
            allowed: self.allowed,
            allocated: self.stats.allocated_bytes.all.current,
            reserved: self.stats.reserved_bytes.all.current,
            private_free: free.map(|id| self.blocks[id].size).sum(),
            process_memory: None,
        }
    }
}

/// PyTorch refuses requests from this size on.
const MALLOC_LIMIT: u64 = 1 << 60;
