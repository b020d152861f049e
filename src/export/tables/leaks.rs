//! One row a line that grows from step to step.

use super::record::record;
use super::source::Source;
use crate::analysis::leaks::leaks;

record! {
    /// Lines that hold more after each step, the fastest first. Sizes are bytes.
    struct LeakRow in "leaks" {
        /// Device ordinal.
        device: i64,
        /// `file:line` of the innermost frame that is the program's own, or why there is none.
        site: String,
        /// Its function.
        function: Option<String>,
        /// What it adds in a step: the slope over the later half of the samples.
        bytes_per_step: u64,
        /// Blocks that it adds in a step.
        blocks_per_step: f64,
        /// Live at the failure, or at the end of the trace.
        live_bytes: u64,
        /// The step in which it began to grow.
        since_step: u64,
        /// How likely so steady a rise is, if it were none.
        p_value: f64,
        /// What it probably is.
        kind: String,
    }
}

/// The rows.
pub(super) fn rows(source: &Source) -> Vec<LeakRow> {
    let mut rows = Vec::new();
    for history in &source.histories {
        rows.extend(leaks(history, &source.sites, None).leaks.into_iter().map(|leak| LeakRow {
            device: history.device.ordinal,
            site: leak.site,
            function: leak.function,
            bytes_per_step: leak.bytes_per_step,
            blocks_per_step: leak.blocks_per_step,
            live_bytes: leak.live_bytes,
            since_step: leak.since_step,
            p_value: leak.p_value,
            kind: leak.kind.name().to_owned(),
        }));
    }
    rows
}
