//! One row a device and part of its trace: memory over time, for a small picture.

use super::record::record;
use super::source::Source;
use crate::analysis::fleet::live_over_time;

record! {
    /// Highest live and pending bytes in equal parts of the trace, at most 120 of a device; none without history.
    struct TimelineRow in "timeline" {
        /// Device ordinal.
        device: i64,
        /// Number of the part, from 0.
        part: u64,
        /// Highest active bytes in it.
        active: u64,
    }
}

/// The rows.
pub(super) fn rows(source: &Source) -> Vec<TimelineRow> {
    let mut rows = Vec::new();
    for history in &source.histories {
        let device = history.device.ordinal;
        let parts = live_over_time(history, &source.sites).into_iter().zip(0..);
        rows.extend(parts.map(|(active, part)| TimelineRow { device, part, active }));
    }
    rows
}
