//! How much memory the device has: what is known of it, and how much a trace needs.

use super::baseline::Room;
use super::{Bench, Options, Recorded};
use crate::allocator::{Action, AddressPolicy, AllocatorRules, Behaviour, Limits, MIB, RestoreError, TieBreak};
use crate::history::History;
use crate::units::bytes;

/// Device memory comes in pages of this size, in bytes.
const PAGE: u64 = 2 * MIB;

/// The smallest capacity in bytes, of those tried, with which every recorded request is served; `None` if none is.
///
/// Less memory can suffice where more does not, because a flush changes what comes after it: capacities below the answer
/// that were not tried may do as well.
pub fn smallest(bench: &Bench, rules: &AllocatorRules) -> Result<Option<u64>, RestoreError> {
    let runs = |capacity: Option<u64>| -> Result<(bool, u64, u64), RestoreError> {
        let room = Room { capacity, allowed: None };
        let figures = bench.replay(bench.config(rules, room, AddressPolicy::FirstFit))?;
        Ok((figures.runs_through(), figures.peak_allocated, figures.peak_reserved))
    };
    let (passes, live, most) = runs(None)?;
    if !passes {
        return Ok(None);
    }
    let (mut low, mut high) = (live.div_ceil(PAGE), most.div_ceil(PAGE));
    while low < high {
        let middle = low + (high - low) / 2;
        match runs(Some(middle * PAGE))?.0 {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(Some(high * PAGE))
}

/// The highest capacity in bytes at which the record's flushes were needed, if there is one that the record fits in:
/// where memory is given back and more is taken at once, the request had probably failed.
pub fn from_flushes(recorded: &Recorded) -> Option<u64> {
    let mut reserved = recorded.segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.size));
    let (mut before, mut bound) = (None, None::<u64>);
    for event in &recorded.trace {
        match event.action {
            Action::SegmentFree | Action::SegmentUnmap => {
                before.get_or_insert(reserved);
                reserved = reserved.saturating_sub(event.size);
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                if let Some(before) = before.take() {
                    let needed = before.saturating_add(event.size);
                    if needed > recorded.peak_reserved {
                        bound = Some(bound.map_or(needed - 1, |bound| bound.min(needed - 1)));
                    }
                }
                reserved = reserved.saturating_add(event.size);
            }
            Action::FreeCompleted => {}
            _ => before = None,
        }
    }
    // Device memory comes in pages.
    bound.map(|bound| (bound / PAGE * PAGE).max(recorded.peak_reserved))
}

/// What has to be known to read the figures.
pub fn notes(history: &History, bench: &Bench, limits: &Limits, options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    match (options.capacity, limits.capacity, limits.allowed) {
        (Some(_), ..) => {}
        (None, None, None) if bench.room.capacity.is_some() => notes.push(format!(
            "how much memory there was follows from flushes only: about {}; --capacity sets it",
            bytes(bench.room.capacity.unwrap_or(0))
        )),
        (None, None, None) => notes.push(
            "the file does not tell how much memory there was: the replay has no limit; --capacity sets one".to_owned(),
        ),
        (None, None, Some(_)) => notes.push(
            "a limit was hit, not the card: how much the card has is not in the file; --capacity sets it".to_owned(),
        ),
        (None, Some(_), _) => {}
    }
    if let (None, Some((least, most))) = (options.capacity, limits.allowed) {
        notes.push(format!(
            "the limit is only known to lie between {} and {}: the lower one is simulated",
            bytes(least),
            bytes(most)
        ));
    }
    let before: u64 = bench.recorded.segments.iter().map(|segment| segment.size).sum();
    if before > 0 {
        notes.push(format!(
            "{} of segments were there before the trace begins: they stay as they are under every setting",
            bytes(before)
        ));
    }
    if bench.horizon.is_oom {
        notes.push("what would have followed the failed request is not in the file".to_owned());
    }
    let behaviour = Behaviour::of(bench.version);
    if behaviour.tie_break == TieBreak::SegmentAge && !bench.recorded.segments.is_empty() {
        notes
            .push("the order of the segments at the start is not in the file; it is learned from the trace".to_owned());
    }
    if bench.recorded.has_private_pools {
        notes.push(
            "private pools are in use: expandable_segments does not go with pluggable allocators or sleep mode"
                .to_owned(),
        );
    }
    if history.events() > super::MANY_EVENTS && options.settings.is_empty() {
        notes.push("the trace is long: only expandable segments were tried; --set tries others".to_owned());
    }
    notes
}
