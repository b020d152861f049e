//! Where the free memory is: totals, pools, segments.

use super::fitting::{failed_fits, fits, holes, oom_fits};
use super::pinning::{classic_cause, freeing, holders, pins};
use super::segment_table::segment_table;
use super::{known, moment_text, number_of, pool_text};
use crate::analysis::segments::{SegmentOrder, Segments};
use crate::render::table::{Align, Table};
use crate::units::bytes;

/// All of `result`; the tables have at most `limit` rows, that of the segments in `order`.
pub fn segments(result: &Segments, order: SegmentOrder, limit: usize, width: Option<usize>) -> String {
    let fragmentation = &result.fragmentation;
    let mut out = format!("device {}, {}\n", fragmentation.device, moment_text(&fragmentation.at));
    out += &totals(result, width);
    let mut section = |title: &str, text: String| {
        if !text.is_empty() {
            out += &format!("\n{title}\n{text}");
        }
    };
    let pinned = pins(&result.pinning, "site", limit, width) + &classic_cause(&result.pinning, limit, width);
    section("WHAT PINS IT", pinned);
    section(
        "WHAT WOULD HAVE TO GO",
        result.freeing.as_ref().map_or_else(String::new, |freeing_| freeing(freeing_, width)),
    );
    section("WHAT FITS", fits(result, limit, width));
    section("RECORDED OOMS", oom_fits(result, width));
    section("FREE BLOCKS BY SIZE", holes(&result.holes, width));
    section(
        "REQUESTS THAT FOUND MEMORY ONLY IN PIECES",
        result.failed_fits.as_ref().map_or_else(String::new, |found| failed_fits(found, width)),
    );
    section("POOLS", pools(result, width));
    section("SEGMENTS", segment_table(result, order, limit, width));
    for held in &result.holders {
        section(&format!("SEGMENT {:#x}", held.address), holders(held, limit, width));
    }
    out
}

fn totals(result: &Segments, width: Option<usize>) -> String {
    let totals = &result.fragmentation.totals;
    let rows = &result.fragmentation.segments;
    let expandable = rows.iter().filter(|row| row.expandable).count();
    let mut parts = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Prose)]).indent(2);
    let segments = number_of((rows.len() - expandable) as u64, "segment");
    let ranges = format!("{} of expandable memory", number_of(expandable as u64, "range"));
    let place = match expandable {
        0 => format!("in {segments}"),
        n if n == rows.len() => format!("in {ranges}"),
        _ => format!("in {segments} and {ranges}"),
    };
    parts.row(["reserved", &bytes(totals.reserved), &place]);
    parts.row(["  requested", &bytes(totals.requested), "asked for by the program, in live and pending blocks"]);
    parts.row(["  rounding", &known(totals.rounding), "lost inside blocks"]);
    parts.row(["  releasable", &known(totals.releasable), "idle cache: empty_cache() would give it back"]);
    parts.row(["  stranded", &known(totals.stranded), "free, but live blocks keep it from being given back"]);
    parts.row(["  pool-idle", &known(totals.pool_idle), "free in private pools, of no use to others"]);
    parts.row(["pending", &bytes(totals.pending), "freed, but another stream may still use it"]);
    parts.row(["largest hole", &known(totals.largest_free), ""]);
    let mut out = parts.render(width);
    let (stranded, releasable) = (totals.stranded.unwrap_or(0), totals.releasable.unwrap_or(0));
    if stranded == 0 && releasable > 0 {
        out += "  This is idle cache, not fragmentation: empty_cache(), or the next request that needs it, gives it back.\n";
    }
    out
}

fn pools(result: &Segments, width: Option<usize>) -> String {
    if result.pools.len() < 2 {
        return String::new();
    }
    let mut table = Table::new([
        ("pool", Align::Left),
        ("stream", Align::Left),
        ("reserved", Align::Right),
        ("live", Align::Right),
        ("pending", Align::Right),
        ("releasable", Align::Right),
        ("stranded", Align::Right),
        ("pool-idle", Align::Right),
        ("largest hole", Align::Right),
        ("serves at most", Align::Right),
    ])
    .indent(2);
    for row in &result.pools {
        let totals = &row.totals;
        table.row([
            pool_text(row.kind, row.pool.as_deref()),
            row.stream.clone(),
            bytes(totals.reserved),
            bytes(totals.allocated),
            bytes(totals.pending),
            known(totals.releasable),
            known(totals.stranded),
            known(totals.pool_idle),
            known(totals.largest_free),
            row.largest_request.map_or_else(|| "nothing".to_owned(), bytes),
        ]);
    }
    table.render(width)
}
