//! One row a trace entry.

use super::record::{TimeUs, record};
use super::source::{Part, Source, stack_number, time};
use crate::history::{Change, NEVER};
use crate::snapshot::Action;

record! {
    /// Trace entries, by device, oldest first. A counter after an event is the device's `start_` value with the
    /// changes up to that event added.
    struct EventRow<'a> in "events" {
        /// Device ordinal; −1 for pinned host memory.
        device: i64,
        /// Number of the event on its device, from 0.
        event: u64,
        /// `alloc`, `free_requested`, `free_completed`, `segment_alloc`, `segment_free`, `segment_map`,
        /// `segment_unmap`, `snapshot`, `oom`, `annotate`, or `free` and `other` of unusual writers.
        action: &'a str,
        /// When.
        time_us: Option<TimeUs>,
        /// Address of the block or range; null for an oom.
        address: Option<u64>,
        /// Bytes: as requested for a block, rounded for an oom, as mapped for a segment.
        size: u64,
        /// Stream pointer; 0 is the default stream.
        stream: u64,
        /// Private pool, first half of its id; null for the default pool and before torch 2.12.
        pool_owner: Option<u64>,
        /// Private pool, second half of its id.
        pool_number: Option<u64>,
        /// Number of the stack; null when it was not recorded.
        stack: Option<u64>,
        /// Number of the stack of the forward pass, for a block allocated in the backward pass.
        forward_stack: Option<u64>,
        /// Line that the block, or else the event, is attributed to.
        site: Option<&'a str>,
        /// Bytes that the block occupies; null for other events, and for frees of blocks that are not known.
        bytes: Option<u64>,
        /// Event that allocated the block.
        alloc_event: Option<u64>,
        /// Event by which the program has freed the block; null when it never did.
        free_event: Option<u64>,
        /// Event by which the block was back in its pool; null when it never was.
        done_event: Option<u64>,
        /// Free on the device at an oom.
        device_free: Option<u64>,
        /// Name of the torch.compile region.
        compile_context: Option<&'a str>,
        /// Text set by `_set_memory_metadata`.
        user_metadata: Option<&'a str>,
        /// What the event adds to requested. Null for pinned host memory, as all that follow.
        requested_change: Option<i64>,
        /// What it adds to allocated.
        allocated_change: Option<i64>,
        /// What it adds to active.
        active_change: Option<i64>,
        /// What it adds to reserved.
        reserved_change: Option<i64>,
    }
}

/// Number of rows.
pub(super) fn rows(source: &Source) -> usize {
    source.parts.iter().map(|part| part.events.len()).sum()
}

/// Row `row`.
pub(super) fn row<'s>(source: &'s Source, mut row: usize) -> EventRow<'s> {
    let mut parts = source.parts.iter();
    loop {
        // There are as many rows as the parts have events.
        let part = parts.next().unwrap_or_else(|| unreachable!("row {row} behind the last"));
        match row.checked_sub(part.events.len()) {
            Some(rest) => row = rest,
            None => return in_part(source, part, row),
        }
    }
}

fn in_part<'s>(source: &'s Source, part: &Part, at: usize) -> EventRow<'s> {
    let snapshot = source.snapshot;
    let event = snapshot.events.get(part.events.start + at);
    let number = at as u32;
    let pool = source.pool(event.pool);
    let life = part.history.and_then(|history| Some((history, history.lives.of_event(number)?)));
    let slot = match life {
        Some((history, life)) => Some(source.sites.slot(history, life)),
        None => event.stack.has_frames().then(|| event.stack.index()),
    };
    let led_by = |state: u32| (state != NEVER && state > 0).then(|| u64::from(state - 1));
    let text = |id| Some(snapshot.text(id)).filter(|text| !text.is_empty());
    let change: Option<Change> = part.history.map(|history| history.change(number));
    let is_oom = event.action == Action::Oom;
    EventRow {
        device: part.device,
        event: at as u64,
        action: event.action.name(),
        time_us: time(Some(event.time_us).filter(|_| snapshot.events.time_us.is_used())),
        address: (!is_oom).then_some(event.addr),
        size: event.size,
        stream: snapshot.streams[event.stream.index()],
        pool_owner: pool.map(|pool| pool.0),
        pool_number: pool.map(|pool| pool.1),
        stack: stack_number(event.stack),
        forward_stack: stack_number(event.forward),
        site: slot.map(|slot| source.names[slot].as_str()),
        bytes: life.map(|(history, life)| history.lives.bytes(life)),
        alloc_event: life.and_then(|(history, life)| history.lives.alloc_event(life)).map(u64::from),
        free_event: life.and_then(|(history, life)| led_by(history.lives.freed_at(life))),
        done_event: life.and_then(|(history, life)| led_by(history.lives.done_at(life))),
        device_free: is_oom.then_some(event.addr),
        compile_context: text(event.compile_context),
        user_metadata: text(event.user_metadata),
        requested_change: change.map(|change| change.requested),
        allocated_change: change.map(|change| change.allocated),
        active_change: change.map(|change| change.active),
        reserved_change: change.map(|change| change.reserved),
    }
}
