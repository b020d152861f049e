//! Every number of `torch.cuda.memory_stats()`.

use serde::Serialize;

use crate::allocator::{Behaviour, PoolKind};

/// One statistic: its value now, the highest one, and what was added and taken away in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// The value now.
    pub current: u64,
    /// The highest value since the start.
    pub peak: u64,
    /// Sum of all increases.
    pub allocated: u64,
    /// Sum of all decreases.
    pub freed: u64,
}

impl Stat {
    #[inline]
    pub(super) fn add(&mut self, n: u64) {
        self.current = self.current.saturating_add(n);
        self.peak = self.peak.max(self.current);
        self.allocated = self.allocated.saturating_add(n);
    }

    #[inline]
    pub(super) fn sub(&mut self, n: u64) {
        self.current = self.current.saturating_sub(n);
        self.freed = self.freed.saturating_add(n);
    }

    fn fields(&self) -> [(&'static str, u64); 4] {
        [("allocated", self.allocated), ("current", self.current), ("freed", self.freed), ("peak", self.peak)]
    }
}

/// A statistic for all memory and for each kind of pool; private pools count into the kind of their half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolStat {
    /// Both kinds.
    pub all: Stat,
    /// Small pools.
    pub small_pool: Stat,
    /// Large pools.
    pub large_pool: Stat,
}

impl PoolStat {
    #[inline]
    pub(super) fn add(&mut self, kind: PoolKind, n: u64) {
        self.all.add(n);
        self.half(kind).add(n);
    }

    #[inline]
    pub(super) fn sub(&mut self, kind: PoolKind, n: u64) {
        self.all.sub(n);
        self.half(kind).sub(n);
    }

    #[inline]
    fn half(&mut self, kind: PoolKind) -> &mut Stat {
        match kind {
            PoolKind::Small => &mut self.small_pool,
            PoolKind::Large => &mut self.large_pool,
        }
    }
}

/// The allocator's statistics, with the names of `torch.cuda.memory_stats()`. Sizes in bytes.
///
/// As in PyTorch, `segment` and `inactive_split` do not count expandable memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Allocated blocks.
    pub allocation: PoolStat,
    /// Segments from `cudaMalloc`.
    pub segment: PoolStat,
    /// Blocks that are allocated or wait for a stream.
    pub active: PoolStat,
    /// Free pieces of split segments.
    pub inactive_split: PoolStat,
    /// Sizes of allocated blocks.
    pub allocated_bytes: PoolStat,
    /// Segments and mapped memory.
    pub reserved_bytes: PoolStat,
    /// Sizes of active blocks.
    pub active_bytes: PoolStat,
    /// Sizes of free pieces of split segments.
    pub inactive_split_bytes: PoolStat,
    /// What the program asked for, for active blocks.
    pub requested_bytes: PoolStat,
    /// Allocated blocks of at least `max_split_size`.
    pub oversize_allocations: Stat,
    /// Segments of at least `max_split_size`.
    pub oversize_segments: Stat,
    /// Device allocations tried again after a flush.
    pub num_alloc_retries: u64,
    /// Requests that failed.
    pub num_ooms: u64,
    /// Waits for all streams: one for each full flush.
    pub num_sync_all_streams: u64,
    /// `segment_alloc` and `segment_map` entries.
    pub num_device_alloc: u64,
    /// `segment_free` and `segment_unmap` entries.
    pub num_device_free: u64,
    /// Requests refused by `throw_on_cudamalloc_oom`.
    pub num_oom_rejections: u64,
}

impl Stats {
    /// The statistics as `torch.cuda.memory_stats()` lists them, without `max_split_size`. Counters that the release does
    /// not have are left out.
    pub fn flat(&self, behaviour: &Behaviour) -> Vec<(String, u64)> {
        let by_pool = [
            ("active", &self.active),
            ("active_bytes", &self.active_bytes),
            ("allocated_bytes", &self.allocated_bytes),
            ("allocation", &self.allocation),
            ("inactive_split", &self.inactive_split),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("requested_bytes", &self.requested_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("segment", &self.segment),
        ];
        let mut flat = Vec::with_capacity(128);
        for (name, stat) in by_pool {
            let pools = [("all", &stat.all), ("large_pool", &stat.large_pool), ("small_pool", &stat.small_pool)];
            for (pool, stat) in pools {
                flat.extend(stat.fields().map(|(field, n)| (format!("{name}.{pool}.{field}"), n)));
            }
        }
        let oversize =
            [("oversize_allocations", &self.oversize_allocations), ("oversize_segments", &self.oversize_segments)];
        for (name, stat) in oversize {
            flat.extend(stat.fields().map(|(field, n)| (format!("{name}.{field}"), n)));
        }
        let counters = [
            ("num_alloc_retries", self.num_alloc_retries, true),
            ("num_ooms", self.num_ooms, true),
            ("num_sync_all_streams", self.num_sync_all_streams, behaviour.device_counters),
            ("num_device_alloc", self.num_device_alloc, behaviour.device_counters),
            ("num_device_free", self.num_device_free, behaviour.device_counters),
            ("num_oom_rejections", self.num_oom_rejections, behaviour.rejects_above_fraction),
        ];
        flat.extend(counters.into_iter().filter(|(.., exists)| *exists).map(|(name, n, _)| (name.to_owned(), n)));
        flat
    }
}
