//! The segments, one a line, those that are alike on one.

use std::collections::HashMap;

use super::names::{shared_directory, without};
use super::pool_text;
use crate::analysis::fragmentation::SegmentRow;
use crate::analysis::segments::{SegmentOrder, Segments};
use crate::render::table::{Align, Table, WIDEST};
use crate::units::{bytes, count};

/// A column: its heading, and what it has of a row.
struct Column {
    heading: &'static str,
    align: Align,
    cell: fn(&SegmentRow) -> String,
}

const fn figure(heading: &'static str, cell: fn(&SegmentRow) -> String) -> Column {
    Column { heading, align: Align::Right, cell }
}

/// Figures and names of a segment besides its address, its holders and notes.
const COLUMNS: [Column; 12] = [
    figure("total", |row| bytes(row.total)),
    Column { heading: "pool", align: Align::Left, cell: |row| pool_text(row.kind, row.pool.as_deref()) },
    Column { heading: "stream", align: Align::Left, cell: |row| row.stream.clone() },
    figure("active", |row| bytes(row.active)),
    figure("blocks", |row| count(row.blocks as u64)),
    figure("free", |row| bytes(row.free)),
    figure("largest", |row| bytes(row.largest_free)),
    figure("holes", |row| count(row.free_blocks as u64)),
    figure("in pieces", |row| format!("{:.0} %", row.external_fragmentation * 100.0)),
    figure("stranded", |row| bytes(row.stranded)),
    figure("releasable", |row| bytes(row.releasable)),
    figure("never used", |row| row.never_used.map_or_else(|| "–".to_owned(), bytes)),
];

/// Columns that a terminal has no room for: left out in this order, until the line leaves [`HELD_BY`] for the sites.
const FIRST_TO_GO: [&str; 4] = ["blocks", "holes", "active", "largest"];

/// Columns for the sites that hold a segment, and the notes behind them.
const HELD_BY: usize = 34;

/// Segments that are alike in all that is shown.
struct Alike<'a> {
    row: &'a SegmentRow,
    number: usize,
}

/// The segments of `result` in `order`, at most `limit` lines.
pub fn segment_table(result: &Segments, order: SegmentOrder, limit: usize, width: Option<usize>) -> String {
    let rows = result.table(order);
    // Whoever sorts by address looks for one.
    let groups = match order {
        SegmentOrder::Address => rows.into_iter().map(|row| Alike { row, number: 1 }).collect(),
        _ => alike(rows),
    };
    let (shown, rest) = groups.split_at(limit.min(groups.len()));
    if shown.is_empty() {
        return String::new();
    }
    let columns = columns(shown, order, width.unwrap_or(WIDEST));
    let headings = columns.iter().map(|column| (column.heading, column.align));
    let both = [("held by", Align::Left), ("", Align::Left)];
    let mut table = Table::new([("address", Align::Right)].into_iter().chain(headings).chain(both)).indent(2);
    let shared = shared_directory(shown.iter().filter_map(|group| group.row.sites.first()).map(String::as_str));
    for Alike { row, number } in shown {
        let cells = columns.iter().map(|column| (column.cell)(row));
        let like = (*number > 1).then(|| format!("and {} like it", count(*number as u64 - 1)));
        let notes: Vec<String> = notes(row).into_iter().chain(like).collect();
        table
            .row([format!("{:#x}", row.address)].into_iter().chain(cells).chain([held(row, shared), notes.join(", ")]));
    }
    let mut out = table.render(width);
    if !rest.is_empty() {
        let more: usize = rest.iter().map(|group| group.number).sum();
        out += &format!("  {} more: --limit {}\n", count(more as u64), groups.len());
    }
    out
}

/// Puts rows together that differ by their address alone, at the place of the first.
fn alike(rows: Vec<&SegmentRow>) -> Vec<Alike<'_>> {
    let mut groups: Vec<Alike> = Vec::new();
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    for row in rows {
        let cells = COLUMNS.iter().map(|column| (column.cell)(row)).chain([held(row, 0)]).chain(notes(row));
        match places.entry(cells.collect()) {
            std::collections::hash_map::Entry::Occupied(place) => groups[*place.get()].number += 1,
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(groups.len());
                groups.push(Alike { row, number: 1 });
            }
        }
    }
    groups
}

/// The columns that say something of `shown`, as many as fit into `width`.
fn columns(shown: &[Alike], order: SegmentOrder, width: usize) -> Vec<&'static Column> {
    let sorted_by = match order {
        SegmentOrder::Active => "active",
        SegmentOrder::LargestFree => "largest",
        SegmentOrder::Fragmentation => "in pieces",
        SegmentOrder::NeverUsed => "never used",
        _ => "",
    };
    let is_said = |column: &&Column| {
        let differs = |nothing: &str| shown.iter().any(|group| (column.cell)(group.row) != nothing);
        match column.heading {
            "in pieces" | "never used" => column.heading == sorted_by,
            "stream" => differs("0x0"),
            "stranded" | "releasable" => differs("0 B"),
            _ => true,
        }
    };
    let mut columns: Vec<&Column> = COLUMNS.iter().filter(is_said).collect();
    let cells = |column: &Column| shown.iter().map(|group| crate::text::width(&(column.cell)(group.row))).max();
    let of_column = |column: &&Column| cells(column).unwrap_or(0).max(column.heading.len()) + 2;
    let address = shown.iter().map(|group| format!("{:#x}", group.row.address).len()).max().unwrap_or(0) + 4;
    for heading in FIRST_TO_GO {
        if address + columns.iter().map(of_column).sum::<usize>() + HELD_BY <= width {
            break;
        }
        columns.retain(|column| column.heading != heading || heading == sorted_by);
    }
    columns
}

/// The site that pins most, and how many more there are.
fn held(row: &SegmentRow, shared: usize) -> String {
    match (row.sites.first(), row.site_count) {
        (None, _) => String::new(),
        (Some(site), 1) => without(site, shared).to_owned(),
        (Some(site), n) => format!("{} and {} more", without(site, shared), n - 1),
    }
}

fn notes(row: &SegmentRow) -> Vec<String> {
    let ranges = match row.ranges {
        1 => "expandable".to_owned(),
        n => format!("expandable, {n} ranges"),
    };
    let notes = [
        row.expandable.then_some(ranges.as_str()),
        (!row.conforms_to_rules).then_some("size not by the settings"),
        (row.pending > 0).then_some("pending"),
    ];
    notes.into_iter().flatten().map(str::to_owned).collect()
}
