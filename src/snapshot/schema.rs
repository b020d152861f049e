//! Which keys a file has, and what only the file itself needs: a copy of a snapshot has the same shape.

use std::collections::BTreeMap;

use super::ids::{FrameId, StackId, StrId};
use super::keys;

/// A set of keys of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys(u64);

impl Keys {
    /// Whether `key` is in it.
    pub fn has(self, key: &str) -> bool {
        keys::TEXTS.iter().position(|text| *text == key).is_some_and(|at| self.0 & (1 << at) != 0)
    }

    /// Whether the known string `key` is in it.
    pub(super) fn has_id(self, key: u32) -> bool {
        self.0 & (1 << key) != 0
    }

    #[inline]
    pub(super) fn insert(&mut self, key: StrId) {
        if key.0 < keys::COUNT {
            self.0 |= 1 << key.0;
        }
    }

    #[inline]
    pub(super) fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Which keys occurred in the rows of each kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// Keys of the outermost dict; `None` when it is a list of segments.
    pub top: Option<Keys>,
    /// Number of lists in `device_traces`.
    pub traces: usize,
    /// Of trace entries.
    pub event: Keys,
    /// Of blocks.
    pub block: Keys,
    /// Of segments.
    pub segment: Keys,
    /// Of the entries of a block's history.
    pub history: Keys,
    /// Whether pointers from 2^63 on are written as such.
    pub wide_pointers: bool,
    /// Whether pointers are negative, as the C++ writer makes those from 2^63 on.
    pub negative_pointers: bool,
}

/// What a file says beyond what is analysed.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Entries of blocks' histories (torch 1.13 and 2.0); [`Block::history`](super::Block::history) are rows of it.
    pub histories: Vec<BlockHistory>,
    /// What `torch.fx` says of a frame, where it says anything.
    pub fx: BTreeMap<FrameId, Fx>,
    /// Pairs that the program gave annotations: the annotation's row, key and value.
    pub annotation_pairs: Vec<(u32, StrId, StrId)>,
}

/// A use of a block (torch 1.13 and 2.0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHistory {
    /// Start address.
    pub addr: u64,
    /// Bytes asked for.
    pub real_size: u64,
    /// Stack of the allocation.
    pub stack: StackId,
}

/// Rows of [`Extras::histories`]: the most recent user of the block first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryRows {
    /// The first row.
    pub first: u32,
    /// How many there are.
    pub len: u32,
}

impl HistoryRows {
    /// The rows as a range.
    pub fn range(self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.len) as usize
    }
}

/// Values of the keys that `torch.fx` adds to a frame; the outer `None` is a key that is not there, the inner one is
/// Python's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fx {
    /// `fx_node_op`
    pub op: Option<Option<StrId>>,
    /// `fx_node_name`
    pub name: Option<Option<StrId>>,
    /// `fx_node_target`
    pub target: Option<Option<StrId>>,
    /// `fx_original_trace`
    pub original_trace: Option<Option<StrId>>,
}
