//! One row a recorded failure.

use super::record::{TimeUs, record, with_totals};
use super::source::{Source, time};
use crate::analysis::failures::failures;

record! {
    /// Recorded failures, oldest first. Sizes are bytes at the failure; null where a contradiction in the file spoils
    /// the figure.
    struct OomRow in "ooms" {
        /// Device ordinal.
        device: i64,
        /// Number of the failure on its device, from 1.
        oom: u64,
        /// Event number.
        event: u64,
        /// When.
        time_us: Option<TimeUs>,
        /// The request, rounded.
        rounded: u64,
        /// What the allocator had to ask the device for.
        segment_size: u64,
        /// Free on the device after the allocator had given back what it could.
        device_free: u64,
        /// Whether the device had enough: then a limit was hit, not the card.
        is_limit: bool,
        /// Events that follow: the job went on.
        events_after: u64,
        ..Totals,
    }
}

/// The rows.
pub(super) fn rows(source: &Source) -> Vec<OomRow> {
    let mut rows = Vec::new();
    for history in &source.histories {
        for (failure, oom) in failures(history).iter().zip(1..) {
            rows.push(with_totals!(
                failure.totals,
                OomRow {
                    device: history.device.ordinal,
                    oom,
                    event: u64::from(failure.event),
                    time_us: time(failure.time_us),
                    rounded: failure.rounded,
                    segment_size: failure.segment_size,
                    device_free: failure.device_free,
                    is_limit: failure.is_limit,
                    events_after: u64::from(failure.events_after),
                }
            ));
        }
    }
    rows
}
