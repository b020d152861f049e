//! Segment by segment: how full, how broken up, and what of it could be given back.

use serde::Serialize;

use super::totals::{Totals, free_parts, totals};
use crate::allocator::{AllocatorRules, PoolKind};
use crate::history::{History, Moment, State, StateRange};
use crate::snapshot::PoolId;

/// The segments of one device at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fragmentation {
    /// Device ordinal.
    pub device: i64,
    /// The moment.
    pub at: Moment,
    /// How the reserved memory divides.
    pub totals: Totals,
    /// 1 − largest free block / free, over all segments; 0 when nothing is free.
    pub external_fragmentation: Option<f64>,
    /// 1 − Σ (free block)² / free²: 0 when the free memory is one block, towards 1 the more pieces of like size.
    pub sum_sq_fragmentation: Option<f64>,
    /// By address.
    pub segments: Vec<SegmentRow>,
}

/// One segment, or one mapped range of an expandable one. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SegmentRow {
    /// Start address, as hexadecimal text.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// Its size.
    pub total: u64,
    /// Contiguous ranges that the row sums: 1, more only where expandable ranges are joined.
    pub ranges: usize,
    /// Stream pointer.
    pub stream: String,
    /// Private pool id as `a,b`; `None` for the default pool.
    pub pool: Option<String>,
    /// Small or large pool.
    pub kind: PoolKind,
    /// Whether it is expandable memory.
    pub expandable: bool,
    /// In live and pending blocks.
    pub active: u64,
    /// In pending blocks.
    pub pending: u64,
    /// Live and pending blocks.
    pub blocks: usize,
    /// In free blocks.
    pub free: u64,
    /// The largest free block.
    pub largest_free: u64,
    /// Number of free blocks.
    pub free_blocks: usize,
    /// 1 − largest_free / free.
    pub external_fragmentation: f64,
    /// What `empty_cache()` would give back of it.
    pub releasable: u64,
    /// Free, but next to a live block or in less than a granule.
    pub stranded: u64,
    /// Free in a private pool.
    pub pool_idle: u64,
    /// Lost inside blocks.
    pub rounding: u64,
    /// Segment size less the rounded size of the request that caused it; `None` for expandable memory, and where its
    /// birth is not in the trace.
    pub birth_slack: Option<u64>,
    /// Bytes that were never active since its birth; `None` as for `birth_slack`.
    pub never_used: Option<u64>,
    /// Whether its size is one that the rules produce.
    pub conforms_to_rules: bool,
    /// Sites with a live block in it, most pinned memory first: all of them must go before it can be given back. At
    /// most [`MAX_NAMES`]; empty when they were not looked for.
    pub sites: Vec<String>,
    /// How many such sites there are.
    pub site_count: usize,
}

/// Most sites named for one segment.
pub const MAX_NAMES: usize = 5;

pub(super) fn hex<S: serde::Serializer>(address: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{address:#x}"))
}

pub(super) fn hex_or_null<S: serde::Serializer>(address: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => hex(address, to),
        None => to.serialize_none(),
    }
}

/// The segments of `history`'s device at `moment`.
pub fn fragmentation(history: &History, moment: Moment) -> Fragmentation {
    let state = history.state(moment.state);
    let totals = totals(history, &state);
    let marks = HighMarks::new(history, moment.state, &state);
    let segments: Vec<SegmentRow> =
        state.ranges.iter().zip(&marks.of_range).map(|(range, &mark)| row(history, &state, range, mark)).collect();
    let holes = state.ranges.iter().flat_map(|range| state.holes_of(range));
    let squares: f64 = holes.map(|hole| (hole.bytes as f64).powi(2)).sum();
    let share = |part: f64, whole: u64| if whole == 0 { 0.0 } else { 1.0 - part / whole as f64 };
    Fragmentation {
        device: history.device.ordinal,
        at: moment,
        external_fragmentation: totals.free.zip(totals.largest_free).map(|(free, largest)| share(largest as f64, free)),
        sum_sq_fragmentation: totals.free.map(|free| share(squares / free.max(1) as f64, free)),
        totals,
        segments,
    }
}

fn row(history: &History, state: &State, range: &StateRange, high_mark: Option<u64>) -> SegmentRow {
    let rules = &history.rules;
    let parts = free_parts(state, range, rules);
    let blocks = state.blocks_of(range);
    let active = blocks.iter().map(|block| block.bytes).sum();
    let pool = history.snapshot.pools[range.range.pool.index()];
    SegmentRow {
        address: range.addr,
        total: range.bytes,
        ranges: 1,
        stream: format!("{:#x}", history.snapshot.streams[range.range.stream.index()]),
        pool: (range.range.pool != PoolId::DEFAULT).then(|| format!("{},{}", pool.0, pool.1)),
        kind: range.range.kind,
        expandable: range.range.expandable,
        active,
        pending: blocks.iter().filter(|block| block.is_pending).map(|block| block.bytes).sum(),
        blocks: blocks.len(),
        free: parts.free,
        largest_free: parts.largest,
        free_blocks: parts.blocks,
        external_fragmentation: if parts.free == 0 { 0.0 } else { 1.0 - parts.largest as f64 / parts.free as f64 },
        releasable: parts.releasable,
        stranded: parts.stranded,
        pool_idle: parts.pool_idle,
        rounding: blocks.iter().map(|block| block.bytes.saturating_sub(block.requested)).sum(),
        birth_slack: birth_slack(history, range),
        never_used: high_mark.map(|mark| range.bytes.saturating_sub(mark)),
        conforms_to_rules: conforms(range, rules),
        sites: Vec::new(),
        site_count: 0,
    }
}

/// Segment size less the rounded request: the allocation that follows a cudaMalloc takes the segment's start.
fn birth_slack(history: &History, range: &StateRange) -> Option<u64> {
    let born = range.range.born.filter(|_| !range.range.expandable)?;
    let first = history.lives.of_event(born + 1)?;
    (history.lives.alloc_event(first) == Some(born + 1) && history.lives.addr(first) == range.addr)
        .then(|| range.bytes.saturating_sub(history.rules.round_size(history.lives.requested(first))))
}

/// Whether the size of `range` is one that `rules` produce.
fn conforms(range: &StateRange, rules: &AllocatorRules) -> bool {
    let (size, kind) = (range.bytes, range.range.kind);
    if range.range.expandable {
        return size.is_multiple_of(rules.granule(kind));
    }
    match kind {
        PoolKind::Small => size == rules.small_segment,
        PoolKind::Large => {
            size == rules.large_segment || size >= rules.large_limit && size.is_multiple_of(rules.round_large.max(1))
        }
    }
}

/// The most that was ever active in each cudaMalloc'd segment whose birth is in the trace.
struct HighMarks {
    of_range: Vec<Option<u64>>,
}

impl HighMarks {
    fn new(history: &History, until: u32, state: &State) -> Self {
        let mut now = vec![0i64; state.ranges.len()];
        let mut highest = now.clone();
        let lives = &history.lives;
        let births: Vec<u32> = state.ranges.iter().map(|range| range.range.born.unwrap_or(u32::MAX)).collect();
        for event in 0..until {
            let Some(life) = lives.of_event(event) else { continue };
            let addr = lives.addr(life);
            let Some(at) = state.ranges.partition_point(|range| range.addr <= addr).checked_sub(1) else { continue };
            let range = &state.ranges[at];
            // Blocks of an earlier segment at the same address are not this one's.
            if addr >= range.addr.saturating_add(range.bytes) || event < births[at] {
                continue;
            }
            if lives.alloc_event(life) == Some(event) {
                now[at] += lives.bytes(life) as i64;
                highest[at] = highest[at].max(now[at]);
            } else if lives.done_at(life) == event + 1 {
                now[at] -= lives.bytes(life) as i64;
            }
        }
        let of_range = state
            .ranges
            .iter()
            .zip(&highest)
            .map(|(range, &mark)| (range.range.born.is_some() && !range.range.expandable).then_some(mark.max(0) as u64))
            .collect();
        Self { of_range }
    }
}
