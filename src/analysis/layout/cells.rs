//! What lies in a segment, piece by piece, and reduced to as many pieces as a picture can show.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::allocator::AllocatorRules;
use crate::history::{State, StateRange};
use crate::snapshot::PoolId;

/// What a piece of a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Live block.
    Live,
    /// Freed, but waiting for another stream.
    Pending,
    /// Free, but a live block keeps it from being given back.
    Stranded,
    /// Free, and `empty_cache()` would give it back.
    Releasable,
    /// Free in a private pool.
    PoolIdle,
}

/// A block, a hole, or several of them of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Bytes from the start of the row.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub state: CellState,
    /// Number of the site of a live or pending block; that with most bytes when it stands for several.
    pub site: Option<u32>,
    /// How many blocks or holes it stands for; 0 for what continues the cell before it.
    pub blocks: u64,
}

/// The pieces of `range`, by address; `site_of` numbers the site of each row of [`State::blocks`].
pub(super) fn cells(
    state: &State,
    range: &StateRange,
    rules: &AllocatorRules,
    mut site_of: impl FnMut(usize) -> u32,
) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(2 * range.blocks.len() + 1);
    let mut add = |from: u64, to: u64, state, site| {
        if from < to {
            cells.push(Cell { offset: from - range.addr, size: to - from, state, site, blocks: 1 });
        }
    };
    let free = match (range.range.pool, range.range.expandable, range.blocks.is_empty()) {
        (PoolId::DEFAULT, false, true) => CellState::Releasable,
        (PoolId::DEFAULT, ..) => CellState::Stranded,
        _ => CellState::PoolIdle,
    };
    let granule = rules.granule(range.range.kind).max(1);
    let hole = |add: &mut dyn FnMut(u64, u64, CellState, Option<u32>), from: u64, to: u64| {
        let start = range.addr.saturating_add((from - range.addr).div_ceil(granule).saturating_mul(granule));
        let stop = range.addr + (to.max(from) - range.addr) / granule * granule;
        if range.range.pool == PoolId::DEFAULT && range.range.expandable && start < stop {
            add(from, start, free, None);
            add(start, stop, CellState::Releasable, None);
            add(stop, to, free, None);
        } else {
            add(from, to, free, None);
        }
    };
    let end = range.addr.saturating_add(range.bytes);
    let mut at = range.addr;
    for (row, block) in range.blocks.clone().zip(state.blocks_of(range)) {
        hole(&mut add, at, block.addr.min(end));
        let what = if block.is_pending { CellState::Pending } else { CellState::Live };
        // Blocks of a damaged file may overlap, or reach out of their segment.
        let from = block.addr.max(at);
        let to = block.end().min(end);
        add(from, to, what, Some(site_of(row)));
        at = at.max(to);
    }
    hole(&mut add, at, end);
    cells
}

/// At most about `limit` cells for `cells`, which lie within `span` bytes.
///
/// The span is divided into equal columns. In each, what is of one state becomes one cell of the summed size: sizes
/// stay true, places shift by less than a column.
pub(super) fn reduced(cells: Vec<Cell>, span: u64, limit: usize) -> Vec<Cell> {
    if cells.len() <= limit {
        return cells;
    }
    // A column seldom has more than live and free memory.
    let columns = (limit / 2).max(1) as u64;
    let width = span.div_ceil(columns).max(1);
    let mut reduced: Vec<Cell> = Vec::with_capacity(limit);
    let mut column = 0;
    let mut here = Column::default();
    for cell in cells {
        let (mut from, end) = (cell.offset, cell.offset.saturating_add(cell.size));
        let mut blocks = cell.blocks;
        while from < end {
            let number = from / width;
            if number != column {
                here.finish(column * width, &mut reduced);
                column = number;
            }
            let to = end.min((number + 1).saturating_mul(width));
            // What covers whole columns is not cut.
            let to = if to < end { from.max(end / width * width).max(to) } else { to };
            if to - from > width {
                here.finish(column * width, &mut reduced);
                push(&mut reduced, Cell { offset: from, size: to - from, blocks, ..cell });
            } else {
                here.add(&cell, to - from, blocks);
            }
            (from, blocks) = (to, 0);
        }
    }
    here.finish(column * width, &mut reduced);
    reduced
}

/// Adds a cell, to the one before it when that is of the same kind and ends where it starts.
fn push(cells: &mut Vec<Cell>, cell: Cell) {
    if let Some(last) = cells.last_mut()
        && (last.state, last.site) == (cell.state, cell.site)
        && last.offset + last.size == cell.offset
    {
        last.size += cell.size;
        last.blocks += cell.blocks;
        return;
    }
    cells.push(cell);
}

/// What one column holds, by state.
#[derive(Default)]
struct Column(BTreeMap<CellState, Sum>);

#[derive(Default)]
struct Sum {
    size: u64,
    blocks: u64,
    of_site: BTreeMap<Option<u32>, u64>,
}

impl Column {
    fn add(&mut self, cell: &Cell, bytes: u64, blocks: u64) {
        let sum = self.0.entry(cell.state).or_default();
        sum.size += bytes;
        sum.blocks += blocks;
        *sum.of_site.entry(cell.site).or_default() += bytes;
    }

    fn finish(&mut self, start: u64, out: &mut Vec<Cell>) {
        let mut offset = start.max(out.last().map_or(0, |last| last.offset + last.size));
        for (state, Sum { size, blocks, of_site }) in std::mem::take(&mut self.0) {
            let most = of_site.into_iter().max_by_key(|&(site, bytes)| (bytes, std::cmp::Reverse(site)));
            push(out, Cell { offset, size, state, site: most.and_then(|(site, _)| site), blocks });
            offset += size;
        }
    }
}

/// The average of several rows: for each state and site the sum of the sizes divided by `rows`, in that order.
pub(super) fn averaged(cells: impl Iterator<Item = Cell>, rows: u64, sites: u32) -> Vec<Cell> {
    let mut sums: BTreeMap<(CellState, Option<u32>), (u64, u64)> = BTreeMap::new();
    for cell in cells {
        // Sites behind those that a picture tells apart are one.
        let site = cell.site.map(|site| site.min(sites));
        let (size, blocks) = sums.entry((cell.state, site)).or_default();
        (*size, *blocks) = (*size + cell.size, *blocks + cell.blocks);
    }
    let mut offset = 0;
    sums.into_iter()
        .map(|((state, site), (size, blocks))| {
            let size = size / rows.max(1);
            let cell = Cell { offset, size, state, site: site.filter(|&site| site < sites), blocks };
            offset += size;
            cell
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduction_keeps_the_bytes() {
        let mut offset = 0;
        let cells: Vec<Cell> = (0..10_000u64)
            .map(|i| {
                let size = 512 * (1 + i * 7919 % 97) * if i % 500 == 0 { 1000 } else { 1 };
                let state = if i % 2 == 0 { CellState::Live } else { CellState::Stranded };
                offset += size;
                Cell { offset: offset - size, size, state, site: (i % 2 == 0).then_some((i % 5) as u32), blocks: 1 }
            })
            .collect();
        let sum = |cells: &[Cell], state| {
            let of_state = cells.iter().filter(|cell| cell.state == state);
            of_state.fold((0, 0), |(size, blocks), cell| (size + cell.size, blocks + cell.blocks))
        };
        let few = reduced(cells.clone(), offset, 300);
        assert!(few.len() <= 450, "{}", few.len());
        for state in [CellState::Live, CellState::Stranded] {
            assert_eq!(sum(&cells, state), sum(&few, state));
        }
        for pair in few.windows(2) {
            assert!(pair[0].offset + pair[0].size <= pair[1].offset, "{pair:?}");
        }
        assert!(few.last().is_some_and(|last| last.offset + last.size == offset));
    }
}
