//! Why a replay leaves the record, as far as the first difference tells.

use super::recording::Recorded;
use crate::allocator::{Action, Behaviour, Divergence, TieBreak, TorchVersion, TraceEvent};
use crate::history::History;
use crate::snapshot::Writer;
use crate::units::bytes;

/// An entry in words: `segment_alloc of 20.0 MiB at 0x7f0000000000`.
pub fn describe(event: &TraceEvent) -> String {
    match event.action {
        Action::Oom => format!("oom of {}", bytes(event.size)),
        action => format!("{} of {} at {:#x}", action.name(), bytes(event.size), event.addr),
    }
}

/// The likely reason of `divergence`.
pub fn cause(history: &History, recorded: &Recorded, version: TorchVersion, divergence: &Divergence) -> String {
    let theirs = divergence.recorded.map(|event| event.action);
    let ours = divergence.simulated.map(|event| event.action);
    let settings = &history.snapshot.settings;
    let is = |action: Option<Action>, one, other| action == Some(one) || action == Some(other);
    let released = is(theirs, Action::SegmentFree, Action::SegmentUnmap);
    let by_address = Behaviour::of(version).tie_break == TieBreak::Address;
    let collects = recorded.rules.gc_threshold > 0.0;
    let reason = if history.snapshot.format.writer == Writer::TorchNpu {
        "a fork for Ascend NPUs wrote the file, whose allocator has other rules"
    } else if released && collects {
        "garbage collection follows a memory fraction, which the file does not record"
    } else if is_switch(theirs, ours) || is_switch(ours, theirs) {
        "expandable_segments was switched while the program ran"
    } else if !settings.recorded && version < TorchVersion::new(2, 3) && history.health.inferred_setting.is_none() {
        "the file does not record its settings, and the defaults do not explain this"
    } else if by_address && recorded.has_private_pools {
        "the file names no pools in its trace: which requests came from a private pool is a guess"
    } else if !history.health.complete {
        return format!("the trace is not complete: {}", history.health.reasons.join("; "));
    } else if history.health.odd_sizes > 0 {
        "the settings were changed while the program ran: blocks have sizes that the recorded ones do not give"
    } else if theirs == Some(Action::Oom) && ours != Some(Action::Oom) {
        "other processes or libraries had taken memory that was free at other times"
    } else if released || is(ours, Action::SegmentFree, Action::SegmentUnmap) {
        "memory was given back for a reason that the trace does not show: a private pool's last user, a memory fraction, \
         or garbage collection"
    } else if theirs == Some(Action::Alloc) && ours == Some(Action::Alloc) {
        "another free block of the same size was taken: the order of the segments is not in the file"
    } else if recorded.has_private_pools {
        "a private pool with options (use_on_oom, no_split, an allocator of its own) that the file does not record"
    } else {
        "the settings were changed while the program ran, or entries are missing"
    };
    reason.to_owned()
}

/// Whether one maps memory where the other asks for a segment.
fn is_switch(one: Option<Action>, other: Option<Action>) -> bool {
    one == Some(Action::SegmentMap) && other == Some(Action::SegmentAlloc)
}
