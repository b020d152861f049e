//! What the allocator writes into its trace.

use serde::Serialize;

/// A pool of memory as PyTorch numbers them (`segment_pool_id`, `pool_id`); `(0, 0)` is the default pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct MempoolId(pub u64, pub u64);

impl MempoolId {
    /// The pool of ordinary requests.
    pub const DEFAULT: Self = Self(0, 0);

    /// Whether this is a pool of a CUDA graph or of a `MemPool` object.
    pub fn is_private(self) -> bool {
        self != Self::DEFAULT
    }
}

/// Kinds of trace entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A request was served; the size is the one the program asked for.
    Alloc,
    /// The program gave a block back.
    FreeRequested,
    /// The block is free: at once, or when the streams that used it have passed.
    FreeCompleted,
    /// `cudaMalloc`.
    SegmentAlloc,
    /// `cudaFree`.
    SegmentFree,
    /// Memory was mapped into an expandable segment.
    SegmentMap,
    /// Memory of an expandable segment was given back.
    SegmentUnmap,
    /// A request failed.
    Oom,
}

impl Action {
    /// The name in a snapshot.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Oom => "oom",
        }
    }
}

/// One entry of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TraceEvent {
    /// What happened.
    pub action: Action,
    /// Address; for [`Action::Oom`] the free bytes of the device.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Stream of the memory.
    pub stream: u64,
    /// Pool of the memory.
    pub pool: MempoolId,
}
