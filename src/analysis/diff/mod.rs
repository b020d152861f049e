//! Two or more snapshots beside each other.
//!
//! In: one device's history of each file. Out: [`Diff`]: totals, peaks, pools, holes and calls of each, the lines whose
//! live memory differs, and what that comes to in a sentence.

mod align;
mod caveats;
mod conclusion;
mod segments;
mod sides;
mod sites;
mod steps;

pub use align::{Moments, moments};
pub use conclusion::{Change, Conclusion, alike};
pub use segments::{Calls, HoleCount, HolesDiff, PoolMemory, PoolsDiff, SegmentsDiff};
pub use sides::{MAX_FILES, Sides, delta, letter};
pub use sites::{Renamed, RenamedError, SiteRow};
pub use steps::{StepRow, StepsDiff};

use rayon::prelude::*;
use serde::Serialize;

use self::conclusion::{Case, conclude};
use super::fragmentation::fragmentation;
use super::holes;
use super::pools;
use super::sites::{BEFORE, NO_STACK, Sites};
use super::totals::Totals;
use crate::history::{At, History, Moment, MomentError, Peaks};
use crate::units::bytes;

/// What differs between files on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// Device ordinal in the first file.
    pub device: i64,
    /// The moment in each file.
    pub at: Sides<Moment>,
    /// The request, in bytes, at which one file failed and another did not, when the moments are those before it.
    pub same_request: Option<u64>,
    /// What each file against the first one comes to.
    pub conclusions: Vec<Conclusion>,
    /// Why the files may not be comparable.
    pub caveats: Vec<String>,
    /// How the reserved memory divides.
    pub totals: Sides<Totals>,
    /// 1 − largest free block / free.
    pub external_fragmentation: Sides<Option<f64>>,
    /// Peaks of the counters; `None` without history.
    pub peak: Sides<Option<Peaks>>,
    /// Reserved memory by pool, holes, and calls of the device.
    pub segments: SegmentsDiff,
    /// Lines whose live memory differs, the largest change first.
    pub sites: Vec<SiteRow>,
    /// Lines that hold as much in each file.
    pub equal_sites: usize,
    /// Their bytes.
    pub equal_bytes: u64,
    /// Steps that all files have.
    pub steps: Option<StepsDiff>,
}

/// What the caller decides.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The moment; see [`moments`] for the default.
    pub at: Option<At>,
    /// Paths that were renamed.
    pub renamed: Vec<Renamed>,
}

/// Compares the devices of `files`, each with the sites of its file.
///
/// # Errors
/// The number of the file that has no such moment, and why.
pub fn diff(files: &[(&History, &Sites)], options: &Options) -> Result<Diff, (usize, MomentError)> {
    let histories: Vec<&History> = files.iter().map(|(history, _)| *history).collect();
    let moments = moments(&histories, options.at)?;
    let at: Vec<_> =
        files.iter().zip(&moments.of).map(|((history, sites), moment)| (*history, *sites, *moment)).collect();
    let looked: Vec<_> = at
        .par_iter()
        .map(|(history, _, moment)| {
            let state = history.state(moment.state);
            (fragmentation(history, *moment), pools::pools(history, &state), holes::holes(history, &state, *moment))
        })
        .collect();
    let (mut fragmentation, mut pools, mut holes) = (Vec::new(), Vec::new(), Vec::new());
    for (one, of_pools, of_holes) in looked {
        fragmentation.push(one);
        pools.push(of_pools);
        holes.push(of_holes);
    }
    let sites = sites::site_rows(&at, &options.renamed);
    let caveats =
        caveats::caveats(&at.iter().map(|(history, _, moment)| (*history, *moment)).collect::<Vec<_>>(), &sites);
    let mut diff = Diff {
        device: histories.first().map_or(0, |history| history.device.ordinal),
        same_request: moments.same_request,
        at: Sides(moments.of),
        conclusions: Vec::new(),
        caveats,
        totals: fragmentation.iter().map(|one| one.totals).collect(),
        external_fragmentation: fragmentation.iter().map(|one| one.external_fragmentation).collect(),
        peak: histories.iter().map(|history| history.peaks).collect(),
        segments: SegmentsDiff {
            pools: segments::pools(&pools),
            holes: segments::holes(&holes),
            calls: histories.iter().map(|history| segments::calls(history)).collect(),
        },
        sites: sites.rows,
        equal_sites: sites.equal,
        equal_bytes: sites.equal_bytes,
        steps: steps::steps(&histories),
    };
    diff.conclusions = (1..files.len()).map(|file| diff.conclude(&histories, file)).collect();
    Ok(diff)
}

impl Diff {
    /// What `file` against the first one comes to.
    fn conclude(&self, histories: &[&History], file: usize) -> Conclusion {
        let when = self.when();
        let case = |file: usize| Case {
            file,
            totals: &self.totals.0[file],
            failed: !histories[file].ooms.is_empty(),
            when: &when,
        };
        let (a, b) = (case(0), case(file));
        let grows = b.totals.active > a.totals.active;
        let changed =
            |row: &&SiteRow| if grows { row.bytes[file] > row.bytes[0] } else { row.bytes[file] < row.bytes[0] };
        let is_line = |row: &&SiteRow| row.site != NO_STACK && row.site != BEFORE;
        let line =
            self.sites.iter().filter(is_line).filter(changed).max_by_key(|row| row.bytes[file].abs_diff(row.bytes[0]));
        conclude(
            &a,
            &b,
            self.is_equal(file),
            self.same_request,
            line.map(|row| (row.site.as_str(), row.bytes[0], row.bytes[file])),
        )
    }

    /// Whether `file` has the figures of the first one.
    fn is_equal(&self, file: usize) -> bool {
        let heights = |peaks: &Option<Peaks>| {
            peaks.map(|peaks| [peaks.requested, peaks.allocated, peaks.active, peaks.reserved].map(|peak| peak.bytes))
        };
        self.totals.0[0] == self.totals.0[file]
            && heights(&self.peak.0[0]) == heights(&self.peak.0[file])
            && self.segments.calls.0[0] == self.segments.calls.0[file]
            && self.sites.iter().all(|row| row.bytes[0] == row.bytes[file] && row.blocks[0] == row.blocks[file])
    }

    /// The moments in words.
    fn when(&self) -> String {
        if let Some(request) = self.same_request {
            return format!("before the request of {}", bytes(request));
        }
        let what = self.at.first().map_or("end", |moment| moment.what);
        match what {
            "peak" => "at their peaks",
            "oom" => "at their failures",
            "event" => "at that event",
            _ => "at the end",
        }
        .to_owned()
    }
}
