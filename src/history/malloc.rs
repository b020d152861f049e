//! Which trace entries belong to one call of the allocator.
//!
//! A call that finds no free block writes its segment entries directly before its own `alloc` or `oom`: what it gave
//! back (`segment_free`, `segment_unmap`, with the frees that the synchronisation completed) and what it took
//! (`segment_alloc`, `segment_map`). Nothing marks where they begin.

use super::History;
use crate::snapshot::{Action, StackId};

/// The entries of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malloc {
    /// Its `alloc` or `oom`.
    pub event: u32,
    /// The first entry by which it gave memory back.
    pub first_flush: Option<u32>,
    /// The first entry by which it took memory from the device.
    pub first_growth: Option<u32>,
}

impl Malloc {
    /// The state that the call found: before it gave anything back or, if it did not, before it took anything.
    pub fn state_before(&self) -> u32 {
        self.first_flush.or(self.first_growth).unwrap_or(self.event)
    }
}

impl History<'_> {
    /// The entries that belong to the call that ends with `event`, an `alloc` or `oom`.
    ///
    /// `torch.cuda.empty_cache()` writes the same entries as a flush. It is told apart by its stack; where the trace
    /// has no stacks, a flush directly before the call counts as the call's own.
    pub fn malloc(&self, event: u32) -> Malloc {
        let events = &self.snapshot.events;
        let stack = events.stack[self.row(event)];
        let is_same = |other: StackId| other == stack || !other.has_frames() || !stack.has_frames();
        let mut call = Malloc { event, first_flush: None, first_growth: None };
        for earlier in (0..event).rev() {
            let row = self.row(earlier);
            match events.action[row] {
                Action::SegmentAlloc | Action::SegmentMap if is_same(events.stack[row]) => {
                    call.first_growth = Some(earlier);
                }
                Action::SegmentFree | Action::SegmentUnmap if is_same(events.stack[row]) => {
                    call.first_flush = Some(earlier);
                }
                Action::FreeCompleted => {}
                _ => break,
            }
        }
        call
    }
}
