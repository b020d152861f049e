//! One row a device, moment and line of code: who holds the memory.

use super::record::record;
use super::source::Source;
use crate::analysis::ranking::{Attribution, live};
use crate::history::At;

record! {
    /// Live and pending memory by the line that allocated it, at the dump, at the peak and at the last failure. The
    /// rows of one device and moment sum to its active bytes.
    struct SiteRow in "sites" {
        /// Device ordinal.
        device: i64,
        /// `end`, `peak` (of allocated where that is exact, else of requested) or `oom` (the last one).
        moment: String,
        /// Event that led to the moment; null before the first, and without events.
        event: Option<u64>,
        /// `file:line` of the innermost frame that is the program's own, or why there is none.
        site: String,
        /// Its function.
        function: Option<String>,
        /// Bytes occupied.
        bytes: u64,
        /// Bytes asked for.
        requested: u64,
        /// Number of blocks.
        blocks: u64,
    }
}

/// The rows.
pub(super) fn rows(source: &Source) -> Vec<SiteRow> {
    let mut rows = Vec::new();
    for history in &source.histories {
        // Without history or failure the moment is not there, and has no rows.
        let moments = [At::End, At::Peak(None), At::Oom(None)];
        for moment in moments.into_iter().filter_map(|at| history.moment(at).ok()) {
            let ranking = live(history, moment, &source.sites, Attribution::Own);
            rows.extend(ranking.rows.into_iter().map(|row| SiteRow {
                device: ranking.device,
                moment: moment.what.to_owned(),
                event: moment.event.map(u64::from),
                site: row.site,
                function: row.function,
                bytes: row.bytes,
                requested: row.requested,
                blocks: row.blocks,
            }));
        }
    }
    rows
}
