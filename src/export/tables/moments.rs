//! One row a device and moment: how the reserved memory divides at the dump, at the peak and at the last failure.

use super::record::{TimeUs, record, with_totals};
use super::source::{Source, time};
use crate::analysis::totals::totals;
use crate::history::At;

record! {
    /// How the reserved memory divides at the moments of `sites`. Sizes are bytes; null where a contradiction in the
    /// file spoils the figure.
    struct MomentRow in "moments" {
        /// Device ordinal.
        device: i64,
        /// `end`, `peak` (of allocated where that is exact, else of requested) or `oom` (the last one).
        moment: String,
        /// Event that led to it; null before the first, and without events.
        event: Option<u64>,
        /// Its time.
        time_us: Option<TimeUs>,
        ..Totals,
    }
}

/// The moments that tables tell of, as far as a device has them.
pub(super) const MOMENTS: [At; 3] = [At::End, At::Peak(None), At::Oom(None)];

/// The rows.
pub(super) fn rows(source: &Source) -> Vec<MomentRow> {
    let mut rows = Vec::new();
    for history in &source.histories {
        for moment in MOMENTS.into_iter().filter_map(|at| history.moment(at).ok()) {
            let totals = totals(history, &history.state(moment.state));
            rows.push(with_totals!(
                totals,
                MomentRow {
                    device: history.device.ordinal,
                    moment: moment.what.to_owned(),
                    event: moment.event.map(u64::from),
                    time_us: time(moment.time_us),
                }
            ));
        }
    }
    rows
}
