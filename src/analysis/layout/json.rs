//! Maps as JSON.

use serde::Serialize;

use super::{Cell, CellState, Group, Layout, MapSite, Row};
use crate::allocator::PoolKind;
use crate::analysis::totals::Totals;
use crate::history::Moment;

/// The JSON of maps: rows of all devices with what lies in them.
#[derive(Serialize)]
pub struct Document<'a> {
    /// The moment on the first device.
    at: Option<Moment>,
    rows: Vec<RowJson<'a>>,
    devices: Vec<DeviceJson<'a>>,
}

#[derive(Serialize)]
struct DeviceJson<'a> {
    device: i64,
    at: Moment,
    totals: Totals,
    sites: &'a [MapSite],
}

#[derive(Serialize)]
struct RowJson<'a> {
    device: i64,
    #[serde(serialize_with = "crate::analysis::fragmentation::hex")]
    address: u64,
    total: u64,
    span: u64,
    segments: u64,
    stream: Option<&'a str>,
    pool: Option<&'a str>,
    kind: PoolKind,
    expandable: bool,
    free: u64,
    stranded: u64,
    blocks: Vec<CellJson<'a>>,
}

#[derive(Serialize)]
struct CellJson<'a> {
    offset: u64,
    size: u64,
    state: CellState,
    site: Option<&'a str>,
    blocks: u64,
}

impl<'a> Document<'a> {
    /// The JSON of `layouts`.
    pub fn new(layouts: &'a [Layout]) -> Self {
        let rows = layouts.iter().flat_map(|layout| {
            let groups = layout.groups.iter();
            groups.flat_map(move |group| group.rows.iter().map(move |row| row_json(layout, group, row)))
        });
        let devices = layouts.iter().map(|layout| DeviceJson {
            device: layout.device,
            at: layout.at,
            totals: layout.totals,
            sites: &layout.sites,
        });
        Self { at: layouts.first().map(|layout| layout.at), rows: rows.collect(), devices: devices.collect() }
    }
}

fn row_json<'a>(layout: &'a Layout, group: &'a Group, row: &'a Row) -> RowJson<'a> {
    let site = |cell: &Cell| layout.sites.get(cell.site? as usize).map(|site| site.site.as_str());
    let cells = row.cells.iter().map(|cell| CellJson {
        offset: cell.offset,
        size: cell.size,
        state: cell.state,
        site: site(cell),
        blocks: cell.blocks,
    });
    RowJson {
        device: layout.device,
        address: row.address,
        total: row.total,
        span: row.span,
        segments: row.segments,
        stream: group.stream.as_deref(),
        pool: group.pool.as_deref(),
        kind: group.kind,
        expandable: group.expandable,
        free: row.free,
        stranded: row.stranded,
        blocks: cells.collect(),
    }
}
