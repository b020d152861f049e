//! Everything that `oomscope segments` says of one device.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::failed_fits::{FailedFits, failed_fits};
use super::fit::{Fit, OomFit, Room, fits, oom_fits, room};
use super::fragmentation::{Fragmentation, MAX_NAMES, SegmentRow, fragmentation};
use super::freeing::{Freeing, Holders, freeing, holders};
use super::holes::{Holes, holes};
use super::pinning::{Pinning, pinning_of};
use super::pools::{PoolRow, pools};
use super::sites::Sites;
use crate::allocator::AllocatorRules;
use crate::history::{History, Moment};

/// Recorded failures whose request is tried again in every pool: the last ones.
const OOMS: usize = 8;

/// What to look for beside the segments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Questions {
    /// Requests to try, in bytes; without any, the request of the OOM that is looked at.
    pub requests: Vec<u64>,
    /// Bytes to be freed.
    pub free: Option<u64>,
    /// Addresses of segments whose holders are asked for.
    pub segments: Vec<u64>,
    /// Bytes that the process may have in all, where the caller knows it.
    pub capacity: Option<u64>,
}

/// One device's memory at one moment: how it divides, who pins it, what fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Segments {
    /// Totals and segments.
    #[serde(flatten)]
    pub fragmentation: Fragmentation,
    /// The totals by pool, stream and size class.
    pub pools: Vec<PoolRow>,
    /// Expandable ranges of one pool, stream and size class as one row, to be compared with cudaMalloc'd segments.
    pub reservations: Vec<SegmentRow>,
    /// Who is in the way.
    #[serde(flatten)]
    pub pinning: Pinning,
    /// What the device still had.
    pub room: Option<Room>,
    /// What fits.
    pub fit: Vec<Fit>,
    /// The requests of the last recorded failures.
    pub oom_fits: Vec<OomFit>,
    /// Free blocks by size.
    pub holes: Holes,
    /// Requests that found memory in pieces, over the whole trace.
    pub failed_fits: Option<FailedFits>,
    /// Sites that would have to go.
    pub freeing: Option<Freeing>,
    /// What is live in the segments asked for.
    pub holders: Vec<Holders>,
}

/// Looks at `history`'s device at `moment`.
pub fn segments(history: &History, moment: Moment, sites: &Sites, questions: &Questions) -> Segments {
    let state = history.state(moment.state);
    let mut fragmentation = fragmentation(history, moment);
    let pinning = pinning_of(history, &state, moment, sites, |_| true);
    for row in &mut fragmentation.segments {
        name_sites(row, &pinning);
    }
    let room = room(history, moment, questions.capacity);
    let failed = history.ooms.iter().find(|oom| moment.what == "oom" && Some(oom.event) == moment.event);
    let requests = match questions.requests.is_empty() {
        true => failed.map(|oom| oom.rounded).into_iter().collect(),
        false => questions.requests.clone(),
    };
    Segments {
        pools: pools(history, &state),
        reservations: reservations(&fragmentation.segments),
        fit: fits(history, &state, &requests, room),
        room,
        oom_fits: oom_fits(history, OOMS),
        holes: holes(history, &state, moment),
        failed_fits: failed_fits(history, sites),
        freeing: questions.free.map(|bytes| freeing(&pinning, bytes)),
        holders: questions.segments.iter().filter_map(|&at| holders(history, &state, sites, at)).collect(),
        fragmentation,
        pinning,
    }
}

/// Names the sites with a block in the segment.
fn name_sites(row: &mut SegmentRow, pinning: &Pinning) {
    let mut found: Vec<u32> =
        pinning.units_in(row.address, row.total).iter().flat_map(|unit| unit.sites.iter().copied()).collect();
    found.sort_unstable();
    found.dedup();
    row.site_count = found.len();
    row.sites = found.iter().take(MAX_NAMES).map(|&site| pinning.site(site).site.clone()).collect();
}

/// The expandable ranges of each pool, stream and size class as one row, at the lowest address.
fn reservations(rows: &[SegmentRow]) -> Vec<SegmentRow> {
    let mut joined: BTreeMap<_, SegmentRow> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.expandable) {
        let key = (row.pool.clone(), row.stream.clone(), row.kind);
        let Some(sum) = joined.get_mut(&key) else {
            joined.insert(key, row.clone());
            continue;
        };
        sum.ranges += row.ranges;
        sum.total += row.total;
        sum.active += row.active;
        sum.pending += row.pending;
        sum.blocks += row.blocks;
        sum.free += row.free;
        sum.largest_free = sum.largest_free.max(row.largest_free);
        sum.free_blocks += row.free_blocks;
        sum.releasable += row.releasable;
        sum.stranded += row.stranded;
        sum.pool_idle += row.pool_idle;
        sum.rounding += row.rounding;
        sum.conforms_to_rules &= row.conforms_to_rules;
        sum.external_fragmentation = match sum.free {
            0 => 0.0,
            free => 1.0 - sum.largest_free as f64 / free as f64,
        };
        for site in &row.sites {
            if sum.sites.len() < MAX_NAMES && !sum.sites.contains(site) {
                sum.sites.push(site.clone());
            }
        }
        sum.site_count = sum.site_count.max(row.site_count).max(sum.sites.len());
    }
    joined.into_values().collect()
}

/// Order of a table of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentOrder {
    /// Most stranded memory first.
    #[default]
    Stranded,
    /// Most free memory first.
    Free,
    /// Largest first.
    Total,
    /// Most live memory first.
    Active,
    /// Largest free block first.
    LargestFree,
    /// Most broken up first: 1 − largest free block / free.
    Fragmentation,
    /// Most that can be given back first.
    Releasable,
    /// Most bytes that were never used first.
    NeverUsed,
    /// By address.
    Address,
}

impl Segments {
    /// The rows of a table: cudaMalloc'd segments one by one, expandable memory by reservation.
    pub fn table(&self, order: SegmentOrder) -> Vec<&SegmentRow> {
        let single = self.fragmentation.segments.iter().filter(|row| !row.expandable);
        let mut rows: Vec<&SegmentRow> = single.chain(&self.reservations).collect();
        rows.sort_by_key(|row| {
            let first = match order {
                SegmentOrder::Stranded => row.stranded,
                SegmentOrder::Free => row.free,
                SegmentOrder::Total => row.total,
                SegmentOrder::Active => row.active,
                SegmentOrder::LargestFree => row.largest_free,
                SegmentOrder::Fragmentation => (row.external_fragmentation * 1e9) as u64,
                SegmentOrder::Releasable => row.releasable,
                SegmentOrder::NeverUsed => row.never_used.unwrap_or(0),
                SegmentOrder::Address => 0,
            };
            (Reverse(first), row.address)
        });
        rows
    }
}

/// The JSON of several devices; `at` is the first one's.
#[derive(Serialize)]
pub struct Document<'a> {
    /// The rules by which the figures were made.
    pub rules: &'a AllocatorRules,
    /// The moment on the first device.
    pub at: Option<Moment>,
    /// One entry a device.
    pub devices: Vec<&'a Segments>,
}
