//! Several snapshots beside each other.

use super::names::{shared_directory, without};
use super::{known, moment_text, number_of, paragraph, pool_text};
use crate::analysis::diff::{Calls, Change, Diff, PoolMemory, SiteRow, StepRow, delta, letter};
use crate::history::{Counter, History, Peak};
use crate::render::table::{Align, Table};
use crate::text::{printable, shorten};
use crate::units::{bytes, bytes_change, bytes_short, count};

/// Columns of the longest line.
const WIDTH: usize = 108;

/// Columns of the longest file name.
const LONGEST_NAME: usize = 40;

/// One of the files.
pub struct DiffFile<'a> {
    /// Its name.
    pub name: &'a str,
    /// The device's history in it.
    pub history: &'a History<'a>,
}

/// All of `result`, which is of `files`; tables have at most `limit` rows.
pub fn diff(files: &[DiffFile], result: &Diff, limit: usize, width: Option<usize>) -> String {
    let room = width.unwrap_or(WIDTH).min(WIDTH);
    let mut out = headings(files, result, room);
    out.push('\n');
    for conclusion in &result.conclusions {
        let text = match result.conclusions.len() {
            1 => conclusion.text.clone(),
            _ => format!("{} → {}: {}", conclusion.from, conclusion.to, conclusion.text),
        };
        out += &paragraph("CONCLUSION  ", &text, room);
    }
    for caveat in &result.caveats {
        out += &paragraph("CAUTION     ", caveat, room);
    }
    let mut section = |title: &str, text: String| {
        if !text.is_empty() {
            out += &format!("\n{title}\n{text}");
        }
    };
    section("MEMORY", memory(result, width));
    // What does not differ need not be read twice.
    if result.conclusions.iter().all(|conclusion| conclusion.kind == Change::None) {
        return out;
    }
    section("LINES", sites(result, limit, width));
    section("SEGMENTS", segments(result, width));
    section("CALLS OF THE DEVICE", calls(result, width));
    section("FREE BLOCKS BY SIZE", holes(result, limit, width));
    section("STEPS", steps(result, limit, width));
    out
}

fn headings(files: &[DiffFile], result: &Diff, room: usize) -> String {
    let names: Vec<_> = files.iter().map(|file| shorten(&printable(file.name), LONGEST_NAME).into_owned()).collect();
    let widest = names.iter().map(|name| crate::text::width(name)).max().unwrap_or(0);
    let mut out = String::new();
    for (at, (file, name)) in files.iter().zip(&names).enumerate() {
        let history = file.history;
        let settings = &history.snapshot.settings;
        let conf = match (settings.recorded, settings.conf.as_str()) {
            (false, _) => "settings unknown",
            (true, "") => "default settings",
            (true, conf) => conf,
        };
        let trace = match (history.health.recorded, history.health.complete) {
            (false, _) => "no history".to_owned(),
            (true, true) => format!("{} events", count(history.events().into())),
            (true, false) => format!("{} events, not complete", count(history.events().into())),
        };
        let failed = match history.ooms.len() {
            0 => String::new(),
            n => format!(", {}", number_of(n as u64, "OOM")),
        };
        let moment = match (result.same_request, history.ooms.is_empty()) {
            (Some(request), true) => format!("before the request of {}", bytes(request)),
            _ => moment_text(&result.at.0[at]),
        };
        let padding = " ".repeat(widest - crate::text::width(name));
        let torch = history.snapshot.format.torch();
        out += &paragraph(
            &format!("{}  {name}{padding}  ", letter(at)),
            &format!("{torch} · {conf} · {trace}{failed} · {moment}"),
            room,
        );
    }
    out
}

/// A table with a column for each file, and one for the change from the first to the last.
fn table_of<'a>(result: &Diff, first: impl IntoIterator<Item = &'a str>, with_change: bool) -> Table {
    let names: Vec<String> = (0..result.at.0.len()).map(|at| letter(at).to_string()).collect();
    let change = if with_change { vec![("change", Align::Right)] } else { Vec::new() };
    let columns: Vec<(&str, Align)> = first
        .into_iter()
        .map(|name| (name, Align::Left))
        .chain(names.iter().map(|name| (name.as_str(), Align::Right)))
        .chain(change)
        .collect();
    Table::new(columns).indent(2)
}

/// The change from the first of `figures` to the last.
fn change(figures: &[Option<u64>]) -> String {
    match (figures.first().copied().flatten(), figures.last().copied().flatten()) {
        (Some(before), Some(after)) => bytes_change(delta(before, after)),
        _ => "unknown".to_owned(),
    }
}

fn memory(result: &Diff, width: Option<usize>) -> String {
    let mut table = table_of(result, [""], true);
    let mut row = |name: &str, figures: Vec<Option<u64>>| {
        if figures.iter().any(|figure| *figure != Some(0)) {
            let cells = figures.iter().map(|figure| known(*figure));
            table.row(std::iter::once(name.to_owned()).chain(cells).chain([change(&figures)]));
        }
    };
    let totals = &result.totals.0;
    row("reserved", totals.iter().map(|totals| Some(totals.reserved)).collect());
    row("live", totals.iter().map(|totals| Some(totals.allocated)).collect());
    row("pending", totals.iter().map(|totals| Some(totals.pending)).collect());
    row("  requested", totals.iter().map(|totals| Some(totals.requested)).collect());
    row("  rounding", totals.iter().map(|totals| totals.rounding).collect());
    row("stranded", totals.iter().map(|totals| totals.stranded).collect());
    row("releasable", totals.iter().map(|totals| totals.releasable).collect());
    row("pool-idle", totals.iter().map(|totals| totals.pool_idle).collect());
    row("largest hole", totals.iter().map(|totals| totals.largest_free).collect());
    let peak = |counter: Counter| -> Vec<Option<Peak>> {
        let peaks = result.peak.0.iter().map(|peaks| peaks.as_ref());
        peaks
            .map(|peaks| {
                peaks.map(|peaks| match counter {
                    Counter::Requested => peaks.requested,
                    Counter::Allocated => peaks.allocated,
                    Counter::Active => peaks.active,
                    Counter::Reserved => peaks.reserved,
                })
            })
            .collect()
    };
    let mut inexact = false;
    for (name, counter) in [("peak live", Counter::Allocated), ("peak reserved", Counter::Reserved)] {
        let peaks = peak(counter);
        inexact |= peaks.iter().flatten().any(|peak| !peak.exact);
        row(name, peaks.iter().map(|peak| peak.map(|peak| peak.bytes)).collect());
    }
    let mut out = table.render(width);
    if inexact {
        out += "  A peak is not exact where the trace is not complete: see `oomscope info`.\n";
    }
    out
}

fn segments(result: &Diff, width: Option<usize>) -> String {
    let mut table = table_of(result, ["pool", ""], true);
    for pool in &result.segments.pools {
        let sides = &pool.sides.0;
        let name = pool_text(pool.kind, pool.private.then_some("private"));
        let made_of = |memory: &PoolMemory| match (memory.segments, memory.ranges) {
            (0, 0) => "–".to_owned(),
            (segments, 0) => number_of(segments, "segment"),
            (0, ranges) => number_of(ranges, "range"),
            (segments, ranges) => format!("{}, {}", number_of(segments, "segment"), number_of(ranges, "range")),
        };
        table.row([name, "made of".to_owned()].into_iter().chain(sides.iter().map(made_of)));
        let mut row = |name: &str, of: &dyn Fn(&PoolMemory) -> Option<u64>| {
            let figures: Vec<Option<u64>> = sides.iter().map(of).collect();
            if figures.iter().any(|figure| *figure != Some(0)) {
                let cells = figures.iter().map(|figure| known(*figure));
                table.row(["".to_owned(), name.to_owned()].into_iter().chain(cells).chain([change(&figures)]));
            }
        };
        row("reserved", &|memory| Some(memory.reserved));
        row("stranded", &|memory| memory.stranded);
        row("largest hole", &|memory| memory.largest_free);
    }
    table.render(width)
}

fn calls(result: &Diff, width: Option<usize>) -> String {
    let sides = &result.segments.calls.0;
    if sides.iter().all(Option::is_none) {
        return String::new();
    }
    let mut table = table_of(result, [""], false);
    let mut row = |name: &str, of: &dyn Fn(&Calls) -> u64| {
        let figures: Vec<Option<u64>> = sides.iter().map(|calls| calls.as_ref().map(of)).collect();
        if figures.iter().flatten().any(|&figure| figure > 0) {
            let cells = figures.iter().map(|figure| figure.map_or_else(|| "unknown".to_owned(), count));
            table.row(std::iter::once(name.to_owned()).chain(cells));
        }
    };
    row("cudaMalloc", &|calls| calls.segment_allocs);
    row("cudaFree", &|calls| calls.segment_frees);
    row("map", &|calls| calls.segment_maps);
    row("unmap", &|calls| calls.segment_unmaps);
    row("flushes before a request", &|calls| calls.flushes);
    row("failed requests", &|calls| calls.ooms);
    table.render(width)
}

fn holes(result: &Diff, limit: usize, width: Option<usize>) -> String {
    let rows = &result.segments.holes;
    let mut table = table_of(result, ["size", "pool"], true);
    // The largest holes are those that a large request needs.
    for row in rows.iter().rev().take(limit) {
        let from = if row.from == 0 { "0 B".to_owned() } else { bytes_short(row.from) };
        let cell = |at: usize| match row.sides.0[at].holes {
            0 => "–".to_owned(),
            n => format!("{} in {}", bytes(row.sides.0[at].bytes), count(n)),
        };
        let figures: Vec<Option<u64>> = row.sides.0.iter().map(|side| Some(side.bytes)).collect();
        table.row(
            [format!("{from} – {}", bytes_short(row.below)), pool_text(row.kind, None)]
                .into_iter()
                .chain((0..row.sides.0.len()).map(cell))
                .chain([change(&figures)]),
        );
    }
    if table.is_empty() {
        return String::new();
    }
    table.render(width) + &more(rows.len(), limit)
}

fn sites(result: &Diff, limit: usize, width: Option<usize>) -> String {
    let mut out = String::new();
    let shown: Vec<&SiteRow> = result.sites.iter().take(limit).collect();
    if !shown.is_empty() {
        let mut table = table_of(result, [""], true);
        let shared = shared_directory(shown.iter().map(|row| row.site.as_str()));
        for row in &shown {
            let cell = |at: usize| if row.blocks[at] == 0 { "–".to_owned() } else { bytes(row.bytes[at]) };
            table.row(
                std::iter::once(without(&row.site, shared).to_owned())
                    .chain((0..row.bytes.len()).map(cell))
                    .chain([bytes_change(row.delta())]),
            );
        }
        out += &table.render(width);
        out += &more(result.sites.len(), limit);
    }
    if result.equal_sites > 0 {
        out += &format!(
            "  {} with as much in each: {}\n",
            number_of(result.equal_sites as u64, "line"),
            bytes(result.equal_bytes)
        );
    }
    out
}

fn steps(result: &Diff, limit: usize, width: Option<usize>) -> String {
    let Some(steps) = result.steps.as_ref().filter(|steps| !steps.rows.is_empty()) else { return String::new() };
    let mut out = String::new();
    for (at, source) in steps.sources.0.iter().enumerate() {
        if at == 0 || Some(source) != steps.sources.first() {
            out += &paragraph(&format!("  {}: ", letter(at)), &printable(&source.to_string()), WIDTH);
        }
    }
    let is_changed = |row: &&StepRow| row.peak.0.iter().any(|peak| Some(peak) != row.peak.first());
    let mut changed: Vec<&StepRow> = steps.rows.iter().filter(is_changed).collect();
    if changed.is_empty() {
        return out + &format!("  the same peak in each of {}\n", number_of(steps.rows.len() as u64, "step"));
    }
    let all = changed.len();
    changed.sort_by_key(|row| (std::cmp::Reverse(row.delta.unsigned_abs()), row.step));
    changed.truncate(limit);
    changed.sort_by_key(|row| row.step);
    let mut table = table_of(result, ["peak of step"], true);
    for row in changed {
        let cells = row.peak.0.iter().map(|&peak| bytes(peak));
        table.row(std::iter::once(count(row.step)).chain(cells).chain([bytes_change(row.delta)]));
    }
    let title = match all > limit {
        true => format!("  the {limit} of {} that changed most\n", number_of(all as u64, "step")),
        false => String::new(),
    };
    out + &title + &table.render(width)
}

fn more(rows: usize, limit: usize) -> String {
    match rows.checked_sub(limit) {
        None | Some(0) => String::new(),
        Some(left) => format!("  {} more: --limit {rows}\n", count(left as u64)),
    }
}
