//! One row a device, moment and line of code: who holds the memory.

use super::moments::MOMENTS;
use super::record::record;
use super::source::Source;
use crate::analysis::ranking::{Attribution, Ranking, allocated, live};

/// Name of the whole trace among the moments.
pub const TRACE: &str = "trace";

record! {
    /// Live and pending memory by the line that allocated it, at the dump, at the peak and at the last failure: the rows
    /// of one device and moment sum to its active bytes. And what each line allocated in the whole trace, freed or not.
    struct SiteRow in "sites" {
        /// Device ordinal.
        device: i64,
        /// `end`, `peak` (of allocated where that is exact, else of requested), `oom` (the last one), or `trace` for what
        /// was allocated in all of it.
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
        for moment in MOMENTS.into_iter().filter_map(|at| history.moment(at).ok()) {
            let ranking = live(history, moment, &source.sites, Attribution::Own);
            rows.extend(of(ranking, moment.what, moment.event));
        }
        if let Some(ranking) = allocated(history, &source.sites) {
            rows.extend(of(ranking, TRACE, None));
        }
    }
    rows
}

/// The rows of `ranking`.
fn of(ranking: Ranking, moment: &'static str, event: Option<u32>) -> impl Iterator<Item = SiteRow> {
    let device = ranking.device;
    ranking.rows.into_iter().map(move |row| SiteRow {
        device,
        moment: moment.to_owned(),
        event: event.map(u64::from),
        site: row.site,
        function: row.function,
        bytes: row.bytes,
        requested: row.requested,
        blocks: row.blocks,
    })
}
