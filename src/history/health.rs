//! How much of the past the trace tells.

use serde::Serialize;

use super::{Lives, Ranges};
use crate::snapshot::{Action, Device, Snapshot};
use crate::units::{bytes, count, number_of};

/// What a device's trace lacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Health {
    /// Whether there is a history at all.
    pub recorded: bool,
    /// Whether the trace explains everything: it starts with no memory and nothing is missing in it.
    pub complete: bool,
    /// Whether the file breaks off before the end of the trace.
    #[serde(skip)]
    pub cut: bool,
    /// Why it is not complete, in words.
    pub reasons: Vec<String>,
    /// Frees of blocks that the trace never allocated.
    pub unmatched_frees: u64,
    /// Their bytes, as requested.
    #[serde(skip)]
    pub unmatched_free_bytes: u64,
    /// Live blocks at the end that the trace never allocated.
    pub ghost_blocks: u64,
    /// Their bytes, as occupied.
    #[serde(skip)]
    pub ghost_bytes: u64,
    /// Allocations at an address that was still live: its free is missing.
    #[serde(skip)]
    pub missing_frees: u64,
    /// Blocks that the trace leaves live, but that the final state does not have.
    #[serde(skip)]
    pub vanished_blocks: u64,
    /// Blocks whose occupied bytes do not follow from the rules.
    #[serde(skip)]
    pub odd_sizes: u64,
    /// Segments asked of the device although a free block would have served, as far as they were looked for.
    #[serde(skip)]
    pub needless_segments: u64,
    /// A setting that the file does not record, but that the trace shows.
    pub inferred_setting: Option<String>,
    /// Segment events that contradict the final segments.
    #[serde(skip)]
    pub odd_ranges: u64,
    /// Kinds of action that should be there, but are not.
    #[serde(skip)]
    pub missing_actions: Vec<&'static str>,
    /// First event after which the counters contradict each other.
    #[serde(skip)]
    pub first_violation: Option<(u32, String)>,
    /// Events whose time lies before that of the event before them.
    #[serde(skip)]
    pub out_of_order: u64,
}

impl Health {
    /// Whether `requested` and `reserved` are exact along the trace: nothing between start and end is missing.
    pub fn counts_are_exact(&self) -> bool {
        self.recorded
            && self.missing_actions.is_empty()
            && self.missing_frees == 0
            && self.vanished_blocks == 0
            && self.odd_ranges == 0
            && self.first_violation.is_none()
            && !self.cut
    }

    /// Fills [`complete`](Self::complete) and the reasons.
    pub(super) fn conclude(&mut self, snapshot: &Snapshot, device: &Device, lives: &Lives, ranges: &Ranges) {
        let events = device.events.len();
        let mut reasons = Vec::new();
        if device.cut && events == 0 {
            reasons
                .push("the file breaks off before the trace: nothing is known of the time before the dump".to_owned());
        } else if device.cut {
            reasons.push(format!(
                "the file breaks off after event {}: what happened from there to the dump is lost, so that blocks of that \
                 time count as older, and figures before the dump may be wrong",
                events - 1
            ));
        } else if events == 0 && snapshot.format.is_before_2_0() {
            reasons.push("no history: PyTorch before 2.0 records only the stacks of live blocks".to_owned());
        } else if events == 0 {
            reasons.push(format!("no history was recorded: call {} first", snapshot.format.recording()));
        } else if events == 1 {
            let name = snapshot.events.action[device.events.start].name();
            let how = match snapshot.format.is_before_2_1() {
                true => "trace_alloc_max_entries=1, the default of these releases",
                false => "enabled=\"state\" or max_entries=1",
            };
            reasons.push(format!(
                "the trace has a single entry ({name}): it was recorded with {how}, so it is no history"
            ));
        } else {
            self.incompleteness(snapshot, device, lives, ranges, &mut reasons);
        }
        self.complete = reasons.is_empty();
        self.reasons = reasons;
    }

    fn incompleteness(
        &self,
        snapshot: &Snapshot,
        device: &Device,
        lives: &Lives,
        ranges: &Ranges,
        reasons: &mut Vec<String>,
    ) {
        let seeded = lives.ids().filter(|&life| lives.alloc_event(life).is_none()).count();
        if seeded > 0 || ranges.reserved_at_start() > 0 {
            let why = match looks_wrapped(snapshot, device) {
                true => "the ring buffer was full and overwrote older events, or recording began late",
                false => "recording began late, or the ring buffer overwrote older events",
            };
            let segments = format!("{} of segments", bytes(ranges.reserved_at_start()));
            let what =
                if seeded > 0 { format!("{} in {segments}", number_of(seeded as u64, "block")) } else { segments };
            let were = if seeded == 1 { "was" } else { "were" };
            reasons.push(format!("{what} {were} there before the first event ({why}); an earlier peak would be lost"));
        }
        if !self.missing_actions.is_empty() {
            reasons.push(format!("no {} entries: the recorder skipped them", self.missing_actions.join(" and ")));
        }
        if self.missing_frees > 0 {
            let blocks = number_of(self.missing_frees, "live block");
            reasons.push(format!("the free of {blocks} is missing: the address was given out again"));
        }
        if self.vanished_blocks > 0 {
            let blocks = number_of(self.vanished_blocks, "live block");
            reasons.push(format!(
                "the segments lack {blocks} of the trace: the snapshot holds one pool only, or is newer than its trace"
            ));
        }
        if self.odd_ranges > 0 {
            reasons.push(format!("segments contradict {}", number_of(self.odd_ranges, "segment event")));
        }
        if self.odd_sizes > 0 {
            reasons.push(format!(
                "the recorded settings do not explain {}, so another setting or release was in force: live bytes along \
                 the trace may be off by what blocks were rounded up; requested and reserved bytes are not",
                number_of(self.odd_sizes, "block size")
            ));
        }
        if let Some((event, what)) = &self.first_violation {
            reasons.push(format!("from event {} on {what}", count((*event).into())));
        }
        if self.out_of_order > 0 {
            reasons.push(format!(
                "{} with a time before that of the one before: recording was restarted with a smaller max_entries",
                number_of(self.out_of_order, "event")
            ));
        }
    }
}

/// Whether the length of the trace is one that people pass as `max_entries`, or that of another device's full ring.
fn looks_wrapped(snapshot: &Snapshot, device: &Device) -> bool {
    let length = device.events.len();
    let same_elsewhere =
        snapshot.devices.iter().any(|other| other.ordinal != device.ordinal && other.events.len() == length);
    let round = |length: usize| length >= 100 && (length.is_multiple_of(100) || length.is_power_of_two());
    round(length) || same_elsewhere && length > 1
}

/// Kinds of free that are missing although the others are there. `has_pending` tells whether the dump has blocks that
/// wait to be completed, which explains frees without completion.
pub(super) fn missing_frees(actions: &[Action], has_pending: bool) -> Vec<&'static str> {
    let mut counts = [0u64; Action::ALL.len()];
    for action in actions {
        counts[*action as usize] += 1;
    }
    let of = |action: Action| counts[action as usize];
    let (requested, completed) =
        (of(Action::FreeRequested) + of(Action::Free), of(Action::FreeCompleted) + of(Action::Free));
    // A short trace may well hold one kind only.
    let many = |count: u64| count >= 3;
    let mut missing = Vec::new();
    if requested == 0 && many(completed) {
        missing.push(Action::FreeRequested.name());
    }
    if completed == 0 && many(requested) && !has_pending {
        missing.push(Action::FreeCompleted.name());
    }
    missing
}
