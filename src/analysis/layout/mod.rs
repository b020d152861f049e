//! The rows of a map: what lies where, in as many rows and cells as a picture can show.

mod cells;
mod json;
mod sites;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

pub use cells::{Cell, CellState};
use cells::{averaged, cells, reduced};
pub use json::Document;
use sites::SiteNumbers;

use super::pool_key::PoolKey;
use super::ranking::LifeGroups;
use super::sites::Sites;
use super::totals::{FreeParts, Totals, free_parts, totals};
use crate::allocator::PoolKind;
use crate::history::{History, Moment, State, StateRange};

/// Sites that a picture tells apart.
pub const SITES: usize = 12;
/// Of these, how many are there because they hold most; the others pin most.
const LARGEST_SITES: usize = 8;
/// Pools and streams with rows of their own: the largest.
const MAX_GROUPS: usize = 24;
/// A gap in expandable memory this many times the mapped bytes begins a new row.
const MAX_GAP: u64 = 4;
/// Reservations of one pool, stream and size class that are told apart.
const MAX_RESERVATIONS: usize = 8;
/// Reservations are broken into lines of about this many bytes, but those of one pool not into too many.
const LINE: u64 = 256 << 20;
const MAX_LINES: u64 = 24;

/// How much a map may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutOptions {
    /// Rows, about: where there are more segments, those with least stranded memory are folded by size.
    pub rows: usize,
    /// Cells, about.
    pub cells: usize,
}

impl Default for LayoutOptions {
    fn default() -> Self {
        Self { rows: 100, cells: 30_000 }
    }
}

/// The map of one device at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Device ordinal.
    pub device: i64,
    /// The moment.
    pub at: Moment,
    /// How the reserved memory divides.
    pub totals: Totals,
    /// Sites by the numbers that cells have: first those that a picture tells apart.
    pub sites: Vec<MapSite>,
    /// Rows by pool, stream and size class.
    pub groups: Vec<Group>,
}

/// A site on the map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MapSite {
    /// Its name.
    pub site: String,
    /// Bytes of its live and pending blocks.
    pub bytes: u64,
    /// Its share of the pinned bytes; not known where the map is not by site.
    pub pinned: Option<u64>,
}

/// The rows of one pool, stream and size class.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Stream pointer; `None` for what is left when there are very many pools and streams.
    pub stream: Option<String>,
    /// Private pool id as `a,b`; `None` for the default pool.
    pub pool: Option<String>,
    /// Size class.
    pub kind: PoolKind,
    /// Whether it is expandable memory.
    pub expandable: bool,
    /// Number of segments or mapped ranges.
    pub segments: u64,
    /// Bytes reserved.
    pub total: u64,
    /// Bytes free.
    pub free: u64,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One segment, a line of a reservation, or many segments.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Start address; of the first segment when there are several.
    pub address: u64,
    /// Bytes reserved, of one segment on average.
    pub total: u64,
    /// Bytes from its first to its last address: more than `total` where expandable memory is not mapped in between.
    pub span: u64,
    /// How many segments it stands for: alike ones, or the average of different ones. A reservation is one, and may be
    /// several rows.
    pub segments: u64,
    /// Free bytes, of one segment on average.
    pub free: u64,
    /// Free bytes that live blocks keep from being given back, likewise.
    pub stranded: u64,
    /// What lies in it, by offset.
    pub cells: Vec<Cell>,
}

/// The map of `history`'s device at `moment`.
pub fn layout(history: &History, moment: Moment, sites: &Sites, options: &LayoutOptions) -> Layout {
    let state = history.state(moment.state);
    let numbers = SiteNumbers::new(history, &state, moment, sites);
    placed(history, moment, &state, numbers, options)
}

/// [`layout`] where blocks are told apart by `groups`, such as categories, instead of by site.
pub fn layout_by(history: &History, moment: Moment, groups: &LifeGroups, options: &LayoutOptions) -> Layout {
    let state = history.state(moment.state);
    let numbers = SiteNumbers::of_groups(&state, groups);
    placed(history, moment, &state, numbers, options)
}

fn placed(history: &History, moment: Moment, state: &State, numbers: SiteNumbers, options: &LayoutOptions) -> Layout {
    let mut ranges_of: BTreeMap<(PoolKey, bool), Vec<&StateRange>> = BTreeMap::new();
    for range in &state.ranges {
        ranges_of.entry((PoolKey::from(&range.range), range.range.expandable)).or_default().push(range);
    }
    let mut groups: Vec<((PoolKey, bool), Vec<&StateRange>)> = ranges_of.into_iter().collect();
    let reserved = |ranges: &[&StateRange]| ranges.iter().map(|range| range.bytes).sum::<u64>();
    let mut left_over = [Vec::new(), Vec::new()];
    if groups.len() > MAX_GROUPS {
        groups.sort_by_key(|(key, ranges)| (std::cmp::Reverse(reserved(ranges)), *key));
        for ((key, _), ranges) in groups.split_off(MAX_GROUPS) {
            left_over[usize::from(key.kind == PoolKind::Large)].extend(ranges);
        }
        groups.sort_by_key(|(key, _)| *key);
    }
    let segments: usize =
        groups.iter().filter(|((_, expandable), _)| !expandable).map(|(_, ranges)| ranges.len()).sum();
    let own_rows = options.rows.max(1);
    let reservations = groups.iter().filter(|((_, expandable), _)| *expandable).count();
    let rows = segments.min(own_rows) + reservations * MAX_LINES as usize;
    let cells_per_row = (options.cells / rows.max(1)).clamp(60, 900);
    let maker = Maker { history, state, numbers: &numbers, cells_per_row };
    let mut made: Vec<Group> = Vec::new();
    for ((key, expandable), ranges) in &groups {
        let rows = match expandable {
            true => maker.reservations(ranges),
            false => maker.segments(ranges, (own_rows * ranges.len()).div_ceil(segments.max(1)).min(own_rows)),
        };
        made.push(Group {
            stream: Some(key.stream_text(history.snapshot)),
            pool: key.pool_text(history.snapshot),
            ..maker.group(key.kind, *expandable, ranges, rows)
        });
    }
    for (kind, ranges) in [PoolKind::Small, PoolKind::Large].into_iter().zip(&left_over) {
        if !ranges.is_empty() {
            made.push(maker.group(kind, false, ranges, maker.folded(ranges)));
        }
    }
    Layout {
        device: history.device.ordinal,
        at: moment,
        totals: totals(history, state),
        groups: made,
        sites: numbers.rows,
    }
}

struct Maker<'a, 'h> {
    history: &'a History<'h>,
    state: &'a State,
    numbers: &'a SiteNumbers,
    cells_per_row: usize,
}

impl Maker<'_, '_> {
    fn group(&self, kind: PoolKind, expandable: bool, ranges: &[&StateRange], rows: Vec<Row>) -> Group {
        Group {
            stream: None,
            pool: None,
            kind,
            expandable,
            segments: ranges.len() as u64,
            total: ranges.iter().map(|range| range.bytes).sum(),
            free: ranges.iter().map(|range| self.parts(range).free).sum(),
            rows,
        }
    }

    fn parts(&self, range: &StateRange) -> FreeParts {
        free_parts(self.state, range, &self.history.rules)
    }

    fn cells(&self, range: &StateRange) -> Vec<Cell> {
        cells(self.state, range, &self.history.rules, |block| self.numbers.of_block[block])
    }

    /// One row a segment, in order of size. Where that is more than `limit` rows, segments that look alike are one row,
    /// and those with least stranded memory are folded.
    fn segments(&self, ranges: &[&StateRange], limit: usize) -> Vec<Row> {
        if ranges.len() <= limit {
            let mut order = ranges.to_vec();
            order.sort_by_key(|range| (std::cmp::Reverse(range.bytes), range.addr));
            return order.into_iter().map(|range| self.alike(&[range])).collect();
        }
        let mut looks: HashMap<Vec<Cell>, Vec<&StateRange>> = HashMap::new();
        for &range in ranges {
            looks.entry(self.cells(range)).or_default().push(range);
        }
        let stranded = |alike: &[&StateRange]| self.parts(alike[0]).stranded * alike.len() as u64;
        let mut order: Vec<(u64, Vec<&StateRange>)> =
            looks.into_values().map(|alike| (stranded(&alike), alike)).collect();
        order.sort_by_key(|(stranded, alike)| (std::cmp::Reverse((*stranded, alike[0].bytes)), alike[0].addr));
        let folded: Vec<&StateRange> =
            order.split_off(limit.min(order.len())).into_iter().flat_map(|look| look.1).collect();
        order.sort_by_key(|(_, alike)| (std::cmp::Reverse(alike[0].bytes), alike[0].addr));
        let mut rows: Vec<Row> = order.iter().map(|(_, alike)| self.alike(alike)).collect();
        rows.extend(self.folded(&folded));
        rows
    }

    /// The row of segments that look alike, of which there is at least one.
    fn alike(&self, ranges: &[&StateRange]) -> Row {
        let range = ranges[0];
        let parts = self.parts(range);
        Row {
            address: range.addr,
            total: range.bytes,
            span: range.bytes,
            segments: ranges.len() as u64,
            free: parts.free,
            stranded: parts.stranded,
            cells: reduced(self.cells(range), range.bytes, self.cells_per_row),
        }
    }

    /// One row for the segments of each size, sizes doubling; largest first.
    fn folded(&self, ranges: &[&StateRange]) -> Vec<Row> {
        let mut by_size: BTreeMap<u32, Vec<&StateRange>> = BTreeMap::new();
        for &range in ranges {
            by_size.entry(range.bytes.max(1).ilog2()).or_default().push(range);
        }
        let rows = by_size.into_values().rev().map(|same| {
            let count = same.len() as u64;
            let sum = |part: &dyn Fn(&StateRange) -> u64| same.iter().map(|range| part(range)).sum::<u64>() / count;
            Row {
                address: same[0].addr,
                total: sum(&|range| range.bytes),
                span: sum(&|range| range.bytes),
                segments: count,
                free: sum(&|range| self.parts(range).free),
                stranded: sum(&|range| self.parts(range).stranded),
                cells: averaged(same.iter().flat_map(|range| self.cells(range)), count, SITES as u32),
            }
        });
        rows.collect()
    }

    /// Ranges at their addresses: one row for those that lie near each other.
    fn reservations(&self, ranges: &[&StateRange]) -> Vec<Row> {
        let mapped: u64 = ranges.iter().map(|range| range.bytes).sum();
        let mut rows: Vec<Row> = Vec::new();
        for range in ranges {
            let gap = rows.last().map(|row| range.addr.saturating_sub(row.address.saturating_add(row.span)));
            if gap.is_none_or(|gap| gap > mapped.saturating_mul(MAX_GAP) && rows.len() < MAX_RESERVATIONS) {
                rows.push(Row {
                    address: range.addr,
                    total: 0,
                    span: 0,
                    segments: 1,
                    free: 0,
                    stranded: 0,
                    cells: vec![],
                });
            }
            if let Some(row) = rows.last_mut() {
                let base = range.addr - row.address;
                row.span = base + range.bytes;
                row.cells.extend(self.cells(range).into_iter().map(|cell| Cell { offset: base + cell.offset, ..cell }));
            }
        }
        let granule = ranges.first().map_or(1, |range| self.history.rules.granule(range.range.kind));
        let most = (MAX_LINES / rows.len().max(1) as u64).max(1);
        let lines = rows.into_iter().flat_map(|row| wrapped(row, granule, most));
        lines.map(|row| Row { cells: reduced(row.cells, row.span, self.cells_per_row), ..row }).collect()
    }
}

/// A long row as several, at most `most`: a reservation is one range of addresses, however much it holds.
fn wrapped(row: Row, granule: u64, most: u64) -> Vec<Row> {
    let count = (row.span / LINE).clamp(1, most);
    let line = row.span.div_ceil(count).div_ceil(granule.max(1)).saturating_mul(granule.max(1)).max(1);
    let mut lines: Vec<Row> = (0..row.span.div_ceil(line))
        .map(|number| Row {
            address: row.address.saturating_add(number * line),
            total: 0,
            span: line.min(row.span - number * line),
            segments: 1,
            free: 0,
            stranded: 0,
            cells: Vec::new(),
        })
        .collect();
    for cell in row.cells {
        let (mut from, end) = (cell.offset, cell.offset + cell.size);
        let mut blocks = cell.blocks;
        while from < end {
            let number = from / line;
            let to = end.min((number + 1) * line);
            let part = &mut lines[number as usize];
            part.total += to - from;
            part.free += if cell.state >= CellState::Stranded { to - from } else { 0 };
            part.stranded += if cell.state == CellState::Stranded { to - from } else { 0 };
            part.cells.push(Cell { offset: from - number * line, size: to - from, blocks, ..cell });
            (from, blocks) = (to, 0);
        }
    }
    lines
}
