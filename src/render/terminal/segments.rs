//! The table of segments.

use super::{known, moment_text};
use crate::allocator::PoolKind;
use crate::analysis::fragmentation::{Fragmentation, SegmentRow};
use crate::render::table::{Align, Table};
use crate::units::{bytes, count};

/// Totals of `result`, then its first `limit` segments in the order given.
pub fn segments(result: &Fragmentation, rows: &[&SegmentRow], limit: usize, width: Option<usize>) -> String {
    let totals = &result.totals;
    let mut out = format!("device {}, {}\n", result.device, moment_text(&result.at));
    let mut parts = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]).indent(2);
    parts.row(["reserved", &bytes(totals.reserved), &format!("in {} segments", count(result.segments.len() as u64))]);
    parts.row(["  requested", &bytes(totals.requested), "asked for by the program, in live and pending blocks"]);
    parts.row(["  rounding", &known(totals.rounding), "lost inside blocks"]);
    parts.row(["  releasable", &known(totals.releasable), "whole free segments: empty_cache() would return it"]);
    parts.row(["  stranded", &known(totals.stranded), "free, but next to live blocks"]);
    parts.row(["  pool-idle", &known(totals.pool_idle), "free in private pools, of no use to others"]);
    parts.row(["pending", &bytes(totals.pending), "freed, but another stream may still use it"]);
    parts.row(["largest free", &known(totals.largest_free), ""]);
    out += &parts.render(width);
    if rows.is_empty() {
        return out;
    }
    out.push('\n');
    let mut table = Table::new([
        ("address", Align::Left),
        ("total", Align::Right),
        ("pool", Align::Left),
        ("stream", Align::Left),
        ("active", Align::Right),
        ("blocks", Align::Right),
        ("free", Align::Right),
        ("largest", Align::Right),
        ("holes", Align::Right),
        ("frag", Align::Right),
        ("stranded", Align::Right),
        ("releasable", Align::Right),
        ("", Align::Left),
    ])
    .indent(2);
    for row in rows.iter().take(limit) {
        let notes = [
            row.expandable.then_some("expandable"),
            (!row.conforms_to_rules).then_some("odd size"),
            (row.pending > 0).then_some("pending"),
        ];
        let kind = match row.kind {
            PoolKind::Small => "small",
            PoolKind::Large => "large",
        };
        table.row([
            format!("{:#x}", row.address),
            bytes(row.total),
            row.pool.as_ref().map_or_else(|| kind.to_owned(), |pool| format!("{kind} ({pool})")),
            row.stream.clone(),
            bytes(row.active),
            count(row.blocks as u64),
            bytes(row.free),
            bytes(row.largest_free),
            count(row.free_blocks as u64),
            format!("{:.0} %", row.external_fragmentation * 100.0),
            bytes(row.stranded),
            bytes(row.releasable),
            notes.into_iter().flatten().collect::<Vec<_>>().join(", "),
        ]);
    }
    out += &table.render(width);
    if rows.len() > limit {
        out += &format!("  {} more: --limit {}\n", count((rows.len() - limit) as u64), rows.len());
    }
    out
}
