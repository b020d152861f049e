//! Many files, one line each.

use super::memory::peak_text;
use crate::analysis::ranking::Ranking;
use crate::history::{Counters, History, Moment, Peak};
use crate::render::table::{Align, Table};
use crate::text::base_name;
use crate::units::bytes;

/// What is said of one device of one file.
pub struct FileRow {
    /// The file's name.
    pub name: String,
    /// Device ordinal; `None` where the file has no device.
    pub device: Option<FileDevice>,
}

/// The device of a [`FileRow`].
pub struct FileDevice {
    /// Its ordinal.
    pub ordinal: i64,
    /// The moment that a report of the file describes.
    pub moment: Moment,
    /// The memory at that moment.
    pub counters: Counters,
    /// The peak of live memory; `None` without history.
    pub peak: Option<Peak>,
    /// Number of recorded failures.
    pub ooms: usize,
    /// The line that holds most at the moment, and its bytes.
    pub top: Option<(String, u64)>,
}

impl FileDevice {
    /// What `ranking`, which is of `history` at `moment`, has to be said in a line.
    pub fn new(history: &History, moment: Moment, ranking: &Ranking) -> Self {
        Self {
            ordinal: history.device.ordinal,
            moment,
            counters: history.counters(moment.state),
            peak: history.peaks.map(|peaks| peaks.allocated),
            ooms: history.ooms.len(),
            top: ranking.rows.first().map(|row| (row.site.clone(), row.bytes)),
        }
    }
}

/// Columns of a terminal from which on there is room for the top line.
const ROOMY: usize = 100;

/// A table of `rows`.
pub fn directory(rows: &[FileRow], width: Option<usize>) -> String {
    let mut columns = vec![
        ("file", Align::Left),
        ("device", Align::Right),
        ("at the", Align::Left),
        ("live then", Align::Right),
        ("reserved", Align::Right),
        ("peak live", Align::Right),
        ("OOMs", Align::Right),
        ("top line then", Align::Left),
    ];
    // Names of ranks differ in their middle, so they need their room.
    if width.is_some_and(|width| width < ROOMY) {
        columns.pop();
    }
    let mut table = Table::new(columns);
    for row in rows {
        let Some(device) = &row.device else {
            table.row([row.name.as_str(), "none"]);
            continue;
        };
        let moment = if device.moment.what == "oom" { "OOM" } else { device.moment.what };
        // The files may be of anything: what their directories share says nothing.
        let top = device.top.as_ref().map(|(site, size)| (base_name(site), size));
        table.row([
            row.name.clone(),
            device.ordinal.to_string(),
            moment.to_owned(),
            bytes(device.counters.allocated),
            bytes(device.counters.reserved),
            device.peak.map_or_else(|| "unknown".to_owned(), peak_text),
            device.ooms.to_string(),
            top.map_or_else(String::new, |(site, size)| format!("{site} ({})", bytes(*size))),
        ]);
    }
    table.render(width)
}
