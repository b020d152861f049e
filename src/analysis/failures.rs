//! Recorded out-of-memory failures: what was asked, what was free, what the process could have had.

use serde::Serialize;

use super::totals::{Totals, totals};
use super::totals_along::totals_along;
use crate::history::{History, Oom};

/// One recorded failure with the memory at that moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// Event number.
    pub event: u32,
    /// Microseconds since 1970.
    pub time_us: Option<u64>,
    /// The request as recorded, which is already rounded.
    pub requested: u64,
    /// The request, rounded.
    pub rounded: u64,
    /// What the allocator had to ask the device for.
    pub segment_size: u64,
    /// Bytes free on the device after the allocator had given back what it could.
    pub device_free: u64,
    /// Whether the device had enough: then a limit was hit, not the card.
    pub is_limit: bool,
    /// The memory at that moment.
    pub totals: Totals,
    /// Events that follow: the job went on.
    pub events_after: u32,
}

impl Failure {
    /// Bytes that the process could have had at this failure: what it had reserved plus what was free. `None` where a
    /// limit was hit: the limit is not in the file.
    pub fn capacity(&self) -> Option<u64> {
        (!self.is_limit).then(|| self.totals.reserved.saturating_add(self.device_free))
    }
}

/// The failures of `history`'s device, oldest first.
pub fn failures(history: &History) -> Vec<Failure> {
    let states: Vec<u32> = history.ooms.iter().map(|oom| oom.event + 1).collect();
    let totals = totals_along(history, &states);
    history.ooms.iter().zip(totals).map(|(oom, totals)| with_totals(history, oom, totals)).collect()
}

/// `oom` with the memory at that moment.
pub fn failure(history: &History, oom: &Oom) -> Failure {
    with_totals(history, oom, totals(history, &history.state(oom.event + 1)))
}

fn with_totals(history: &History, oom: &Oom, totals: Totals) -> Failure {
    let segment_size = history.rules.segment_size(oom.rounded);
    Failure {
        event: oom.event,
        time_us: history.time_us(oom.event),
        requested: oom.rounded,
        rounded: oom.rounded,
        segment_size,
        device_free: oom.device_free,
        is_limit: oom.device_free >= segment_size,
        totals,
        events_after: history.events() - oom.event - 1,
    }
}

/// Bytes that the process could have had: what it had reserved plus what was free, the least of all failures.
/// `None` without a failure, or where a limit was hit: the limit is not in the file.
pub fn capacity(history: &History) -> Option<u64> {
    let card_was_full = history.ooms.iter().filter(|oom| oom.device_free < history.rules.segment_size(oom.rounded));
    card_was_full.map(|oom| history.ranges.reserved_at(oom.event + 1) + oom.device_free).min()
}
