//! Trace entries, one column a field.

use std::ops::Index;

use serde::Serialize;

use super::ids::{PoolId, StackId, StrId, StreamId};

/// What a trace entry records. The names are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Action {
    /// A block was handed out; `size` is the requested size.
    Alloc,
    /// The program freed a block.
    FreeRequested,
    /// The block returned to its pool.
    FreeCompleted,
    /// Both at once: only files that passed through a viewer have it.
    Free,
    /// cudaMalloc succeeded.
    SegmentAlloc,
    /// A segment is given back by cudaFree.
    SegmentFree,
    /// Expandable memory was mapped.
    SegmentMap,
    /// Expandable memory was unmapped.
    SegmentUnmap,
    /// `_snapshot()` was called.
    Snapshot,
    /// An out-of-memory error is about to be raised; `addr` holds the device's free bytes, `size` the rounded request.
    Oom,
    /// A live tensor was given a name.
    Annotate,
    /// Any other action, of a newer recorder or another backend.
    Other,
}

impl Action {
    /// Every action, in the order of declaration.
    pub const ALL: [Self; 12] = [
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::Free,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::SegmentMap,
        Self::SegmentUnmap,
        Self::Snapshot,
        Self::Oom,
        Self::Annotate,
        Self::Other,
    ];

    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::Free => "free",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
            Self::Annotate => "annotate",
            Self::Other => "other",
        }
    }
}

/// One trace entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// Address of the block or range; for [`Action::Oom`] the bytes free on the device.
    pub addr: u64,
    /// Bytes; see [`Action`] for which.
    pub size: u64,
    /// Stream of the block or segment.
    pub stream: StreamId,
    /// Python and C++ frames, innermost first.
    pub stack: StackId,
    /// Microseconds since 1970; 0 before torch 2.2.
    pub time_us: u64,
    /// Private pool of the block; only recorded from torch 2.12 on.
    pub pool: PoolId,
    /// Name of the torch.compile region, or `N/A`; empty before torch 2.8.
    pub compile_context: StrId,
    /// Text set by `_set_memory_metadata`; empty when unset.
    pub user_metadata: StrId,
    /// Stack of the forward pass for a block allocated in the backward pass.
    pub forward: StackId,
    /// The allocator's own remark; empty when there is none.
    pub internal_metadata: StrId,
    /// What a converter from profiles says the block is for; empty when there is none.
    pub category: StrId,
    /// The file's name of an [`Action::Other`]; empty otherwise.
    pub other: StrId,
}

impl Default for Event {
    fn default() -> Self {
        Self {
            action: Action::Other,
            addr: 0,
            size: 0,
            stream: StreamId::default(),
            stack: StackId::NONE,
            time_us: 0,
            pool: PoolId::DEFAULT,
            compile_context: StrId::default(),
            user_metadata: StrId::default(),
            forward: StackId::NONE,
            internal_metadata: StrId::default(),
            category: StrId::default(),
            other: StrId::default(),
        }
    }
}

/// A column that costs nothing as long as every value is the default.
#[derive(Clone, Debug)]
pub struct Column<T> {
    default: T,
    values: Vec<T>,
}

impl<T: Copy + PartialEq> Column<T> {
    fn new(default: T) -> Self {
        Self { default, values: Vec::new() }
    }

    fn set(&mut self, row: usize, value: T) {
        if value == self.default && self.values.is_empty() {
            return;
        }
        if self.values.len() <= row {
            self.values.resize(row, self.default);
            self.values.push(value);
        } else {
            self.values[row] = value;
        }
    }

    /// The value of `row`.
    pub fn get(&self, row: usize) -> T {
        self.values.get(row).copied().unwrap_or(self.default)
    }

    /// Whether any row differs from the default.
    pub fn is_used(&self) -> bool {
        !self.values.is_empty()
    }
}

impl<T> Index<usize> for Column<T> {
    type Output = T;

    fn index(&self, row: usize) -> &T {
        self.values.get(row).unwrap_or(&self.default)
    }
}

/// Trace entries of all devices, one column a field. A device's entries are one range of rows.
#[derive(Clone, Debug)]
pub struct Events {
    /// See [`Event::action`].
    pub action: Vec<Action>,
    /// See [`Event::addr`].
    pub addr: Vec<u64>,
    /// See [`Event::size`].
    pub size: Vec<u64>,
    /// See [`Event::stream`].
    pub stream: Column<StreamId>,
    /// See [`Event::stack`].
    pub stack: Vec<StackId>,
    /// See [`Event::time_us`].
    pub time_us: Column<u64>,
    /// See [`Event::pool`].
    pub pool: Column<PoolId>,
    /// See [`Event::compile_context`].
    pub compile_context: Column<StrId>,
    /// See [`Event::user_metadata`].
    pub user_metadata: Column<StrId>,
    /// See [`Event::forward`].
    pub forward: Column<StackId>,
    /// See [`Event::internal_metadata`].
    pub internal_metadata: Column<StrId>,
    /// See [`Event::category`].
    pub category: Column<StrId>,
    /// See [`Event::other`].
    pub other: Column<StrId>,
}

impl Default for Events {
    fn default() -> Self {
        let none = Event::default();
        Self {
            action: Vec::new(),
            addr: Vec::new(),
            size: Vec::new(),
            stream: Column::new(none.stream),
            stack: Vec::new(),
            time_us: Column::new(none.time_us),
            pool: Column::new(none.pool),
            compile_context: Column::new(none.compile_context),
            user_metadata: Column::new(none.user_metadata),
            forward: Column::new(none.forward),
            internal_metadata: Column::new(none.internal_metadata),
            category: Column::new(none.category),
            other: Column::new(none.other),
        }
    }
}

impl Events {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.action.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.action.is_empty()
    }

    /// The entry in `row`.
    pub fn get(&self, row: usize) -> Event {
        Event {
            action: self.action[row],
            addr: self.addr[row],
            size: self.size[row],
            stream: self.stream[row],
            stack: self.stack[row],
            time_us: self.time_us.get(row),
            pool: self.pool.get(row),
            compile_context: self.compile_context.get(row),
            user_metadata: self.user_metadata.get(row),
            forward: self.forward.get(row),
            internal_metadata: self.internal_metadata.get(row),
            category: self.category.get(row),
            other: self.other.get(row),
        }
    }

    pub(super) fn push(&mut self, event: &Event) {
        self.action.push(event.action);
        self.addr.push(event.addr);
        self.size.push(event.size);
        self.stack.push(event.stack);
        self.set_optional(self.action.len() - 1, event);
    }

    pub(super) fn set(&mut self, row: usize, event: &Event) {
        self.action[row] = event.action;
        self.addr[row] = event.addr;
        self.size[row] = event.size;
        self.stack[row] = event.stack;
        self.set_optional(row, event);
    }

    fn set_optional(&mut self, row: usize, event: &Event) {
        self.stream.set(row, event.stream);
        self.time_us.set(row, event.time_us);
        self.pool.set(row, event.pool);
        self.compile_context.set(row, event.compile_context);
        self.user_metadata.set(row, event.user_metadata);
        self.forward.set(row, event.forward);
        self.internal_metadata.set(row, event.internal_metadata);
        self.category.set(row, event.category);
        self.other.set(row, event.other);
    }
}
