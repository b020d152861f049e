//! One out-of-memory message of a log, as figures.

use serde::{Serialize, Serializer};

use super::tag::Tag;

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The caching allocator's `… out of memory. Tried to allocate …`, any release and any device.
    Allocator,
    /// The `cudaMallocAsync` backend's `Allocation on device 0 would exceed allowed memory`.
    CudaMallocAsync,
    /// The C++ warning `memory allocation failed with OOM on device …` (2.13 on).
    AllocationWarning,
    /// `Allocation was preemptively rejected because it would exceed per_process_memory_fraction` (2.12 on).
    PreemptiveRejection,
    /// `Tried to allocate more than 1EB memory`.
    MoreThan1Eb,
    /// Apple's `MPS backend out of memory`.
    Mps,
    /// `Could not allocate tensor with N bytes`, of torch-directml.
    DirectMl,
    /// `cuda runtime error (2) : out of memory`, PyTorch before 0.4.1.
    CudaRuntimeError,
    /// A device that cannot give one block above 4 GiB, whatever is free.
    SingleAllocationLimit,
    /// Look-alike: `NVML_SUCCESS == r INTERNAL ASSERT FAILED`.
    NvmlAssert,
    /// Look-alike: the driver's `CUDA error: out of memory`.
    CudaError,
    /// Look-alike: NCCL got no memory outside PyTorch.
    NcclCalloc,
    /// Look-alike: cuBLAS got no workspace.
    CublasAlloc,
    /// Look-alike: cuDNN got no workspace.
    CudnnAlloc,
    /// Look-alike: vLLM finds its KV cache too small.
    VllmKvCache,
    /// Look-alike: vLLM finds too little free memory when it starts.
    VllmStartupMemory,
    /// Look-alike: SGLang finds too little memory when it starts.
    SglangStartupMemory,
    /// Look-alike: the kernel killed a process for lack of host memory.
    HostMemory,
}

impl Kind {
    /// Whether it is not the allocator that failed, although it looks like it.
    pub fn is_lookalike(self) -> bool {
        self >= Self::NvmlAssert
    }

    /// What it is, in a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Allocator => "PyTorch's caching allocator",
            Self::CudaMallocAsync => "PyTorch's cudaMallocAsync backend",
            Self::AllocationWarning => "PyTorch's warning of a failed cudaMalloc",
            Self::PreemptiveRejection => "PyTorch rejected the request before asking the driver",
            Self::MoreThan1Eb => "a request above 1 EB",
            Self::Mps => "PyTorch's Metal (MPS) allocator",
            Self::DirectMl => "torch-directml",
            Self::CudaRuntimeError => "PyTorch before 0.4.1",
            Self::SingleAllocationLimit => "the device's limit for a single block",
            Self::NvmlAssert => "an NVML assertion: PyTorch failed while writing its out-of-memory message",
            Self::CudaError => "the CUDA driver, not PyTorch's allocator",
            Self::NcclCalloc => "NCCL, which allocates outside PyTorch",
            Self::CublasAlloc => "cuBLAS, which could not get memory for its handle or workspace",
            Self::CudnnAlloc => "cuDNN, which could not get memory for its workspace",
            Self::VllmKvCache => "vLLM's own check: the KV cache is too small",
            Self::VllmStartupMemory => "vLLM's own check when it starts: too little memory is free",
            Self::SglangStartupMemory => "SGLang's own check when it starts: too little memory for the KV pool",
            Self::HostMemory => "the Linux kernel: host memory ran out, not the GPU's",
        }
    }
}

/// A process that the message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NamedProcess {
    /// Its id, as the driver sees it.
    pub pid: u64,
    /// Its memory in bytes; `None` when the driver does not tell.
    pub bytes: Option<u64>,
}

/// The process's own use, as the message gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessUse {
    /// The clause is not there.
    #[default]
    NotSaid,
    /// The clause is there, with the marker for "not known".
    Unknown,
    /// Bytes.
    Known(u64),
}

impl ProcessUse {
    /// Bytes, where known.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Known(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl Serialize for ProcessUse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.bytes().serialize(serializer)
    }
}

/// One message. Sizes in bytes, `None` where the text does not have the clause or gives a marker for "unknown".
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// What kind of message it is.
    pub kind: Kind,
    /// `CUDA`, `HIP`, `XPU`, `NPU` … as written.
    pub backend: Option<String>,
    /// Line of the log, from 1.
    pub line: u64,
    /// Byte of the log at which it begins.
    pub offset: usize,
    /// The byte behind its last clause.
    #[serde(skip)]
    pub end: usize,
    /// Which rank or process wrote it.
    pub source: Option<Tag>,
    /// How often the same message of the same source is in the log.
    pub count: u64,
    /// Device ordinal as torch counts.
    pub device: Option<u32>,
    /// What was to be taken from the device: the request in segments, so at least the request itself.
    pub tried: Option<u64>,
    /// The card.
    pub total: Option<u64>,
    /// Free on the card.
    pub free: Option<u64>,
    /// What the driver counts for this process.
    pub process_in_use: ProcessUse,
    /// The processes that it names, in its order.
    pub other_processes: Vec<NamedProcess>,
    /// The limit set by the program, or MPS's watermark.
    pub allowed: Option<u64>,
    /// Allocated by PyTorch; with [`private_pools`](Self::private_pools) in it.
    pub allocated: Option<u64>,
    /// Idle in private pools, which the text calls allocated.
    pub private_pools: Option<u64>,
    /// Reserved, but not allocated.
    pub reserved_unallocated: Option<u64>,
    /// Reserved in total, where the text gives that figure.
    pub reserved: Option<u64>,
    /// `current active` of NPU texts: allocated, and freed but waiting.
    pub active: Option<u64>,
    /// `other allocations` of MPS texts.
    pub other_allocations: Option<u64>,
    /// Bytes that vLLM's KV cache needs for one sequence of the greatest length.
    pub kv_needed: Option<u64>,
    /// Bytes that it has.
    pub kv_available: Option<u64>,
    /// The greatest length, in tokens.
    pub kv_tokens_needed: Option<u64>,
    /// The longest sequence that fits, in tokens, as vLLM says it.
    pub kv_tokens_available: Option<u64>,
    /// Clauses whose figure was a marker for "unknown" and was dropped.
    pub dropped: Vec<&'static str>,
    /// Whether the text says that expandable segments are on.
    pub says_expandable: bool,
    /// Whether it has the sentences of PyTorch 2.1 and later, not the parentheses of older ones.
    #[serde(skip)]
    pub is_new_wording: bool,
    /// Whether the text is cut before its figures.
    pub is_cut: bool,
    /// How far any figure may be off by its decimals.
    #[serde(skip)]
    pub tolerance: u64,
}

impl Message {
    /// A message without figures.
    pub fn new(kind: Kind, offset: usize, end: usize) -> Self {
        Self {
            kind,
            backend: None,
            line: 0,
            offset,
            end,
            source: None,
            count: 1,
            device: None,
            tried: None,
            total: None,
            free: None,
            process_in_use: ProcessUse::NotSaid,
            other_processes: Vec::new(),
            allowed: None,
            allocated: None,
            private_pools: None,
            reserved_unallocated: None,
            reserved: None,
            active: None,
            other_allocations: None,
            kv_needed: None,
            kv_available: None,
            kv_tokens_needed: None,
            kv_tokens_available: None,
            dropped: Vec::new(),
            says_expandable: false,
            is_new_wording: false,
            is_cut: false,
            tolerance: 0,
        }
    }

    /// Whether it has any figure.
    pub fn has_figures(&self) -> bool {
        let figures = [self.tried, self.total, self.free, self.allocated, self.reserved_unallocated, self.reserved];
        figures.iter().any(Option::is_some) || self.kv_available.or(self.kv_tokens_available).is_some()
    }

    /// Live bytes: allocated without what idles in private pools.
    pub fn live(&self) -> Option<u64> {
        Some(self.allocated?.saturating_sub(self.private_pools.unwrap_or(0)))
    }

    /// All that PyTorch has taken from the device.
    pub fn reserved_in_total(&self) -> Option<u64> {
        self.reserved.or_else(|| match (self.allocated, self.reserved_unallocated) {
            (Some(allocated), Some(rest)) => Some(allocated.saturating_add(rest)),
            // cudaMallocAsync has no figure for what it holds beyond that; it is the least.
            (Some(allocated), None) if matches!(self.kind, Kind::CudaMallocAsync | Kind::Mps) => Some(allocated),
            _ => None,
        })
    }

    /// The named process that is this one, seen under another id from inside a container: the only one named, and
    /// large enough for all that PyTorch has reserved.
    pub fn own_process(&self) -> Option<NamedProcess> {
        match (self.process_in_use, self.other_processes.as_slice(), self.reserved_in_total()) {
            (ProcessUse::NotSaid, [only], Some(reserved)) => {
                only.bytes.filter(|bytes| bytes + 2 * self.tolerance >= reserved).map(|_| *only)
            }
            _ => None,
        }
    }

    /// Bytes of named processes other than this one.
    pub fn others_in_use(&self) -> u64 {
        match self.own_process() {
            Some(_) => 0,
            None => {
                let known = self.other_processes.iter().filter_map(|process| process.bytes);
                known.fold(0, u64::saturating_add)
            }
        }
    }

    /// Whether two are the same message, wherever in the log. A log of retries asks this a million times.
    pub fn is_same(&self, other: &Self) -> bool {
        let figures = |m: &Self| {
            [
                m.tried,
                m.total,
                m.free,
                m.allowed,
                m.allocated,
                m.private_pools,
                m.reserved_unallocated,
                m.reserved,
                m.active,
                m.other_allocations,
                m.kv_needed,
                m.kv_available,
                m.kv_tokens_needed,
                m.kv_tokens_available,
            ]
        };
        self.kind == other.kind
            && self.source == other.source
            && self.device == other.device
            && figures(self) == figures(other)
            && self.process_in_use == other.process_in_use
            && self.other_processes == other.other_processes
            && self.backend == other.backend
    }
}
