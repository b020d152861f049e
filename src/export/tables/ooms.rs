//! One row a recorded failure.

use super::record::{TimeUs, record};
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
        /// Taken from the device.
        reserved: u64,
        /// In blocks that tensors own.
        allocated: u64,
        /// In blocks that are freed but wait for another stream.
        pending: u64,
        /// allocated + pending.
        active: u64,
        /// Asked for by the program, in active blocks.
        requested: u64,
        /// Lost inside active blocks.
        rounding: Option<u64>,
        /// In free blocks.
        free: Option<u64>,
        /// What `torch.cuda.empty_cache()` would have given back.
        releasable: Option<u64>,
        /// Free in private pools.
        pool_idle: Option<u64>,
        /// Free next to a live block, or in less than a granule.
        stranded: Option<u64>,
        /// The largest free block.
        largest_free: Option<u64>,
    }
}

/// The rows.
pub(super) fn rows(source: &Source) -> Vec<OomRow> {
    let mut rows = Vec::new();
    for history in &source.histories {
        for (failure, oom) in failures(history).iter().zip(1..) {
            let totals = &failure.totals;
            rows.push(OomRow {
                device: history.device.ordinal,
                oom,
                event: u64::from(failure.event),
                time_us: time(failure.time_us),
                rounded: failure.rounded,
                segment_size: failure.segment_size,
                device_free: failure.device_free,
                is_limit: failure.is_limit,
                events_after: u64::from(failure.events_after),
                reserved: totals.reserved,
                allocated: totals.allocated,
                pending: totals.pending,
                active: totals.active,
                requested: totals.requested,
                rounding: totals.rounding,
                free: totals.free,
                releasable: totals.releasable,
                pool_idle: totals.pool_idle,
                stranded: totals.stranded,
                largest_free: totals.largest_free,
            });
        }
    }
    rows
}
