//! What the reserved memory is made of, as bars on one scale.

use super::known;
use crate::analysis::info::DeviceInfo;
use crate::analysis::report::DeviceReport;
use crate::history::Peak;
use crate::render::sparkline::{bar, bar_span, sparkline};
use crate::render::table::{Align, Table, WIDEST};
use crate::units::{bytes, duration};

/// Width of the bars and of the sparkline, in characters, where the notes beside them leave it.
const BAR: usize = 40;
/// The least of it.
const SHORTEST_BAR: usize = 10;
/// Indentation, and spaces between the columns.
const GAPS: usize = 8;

struct Row {
    name: &'static str,
    figure: String,
    chart: Chart,
    note: String,
}

/// What a row draws.
enum Chart {
    /// Bytes from the left edge.
    Bar(u64),
    /// From so many bytes to so many.
    Span(u64, u64),
    /// Values over time, on a scale of their own.
    Line(Vec<u64>),
}

impl Chart {
    /// In `width` characters, which `reserved` bytes fill.
    fn draw(&self, reserved: u64, width: usize) -> String {
        match self {
            Self::Bar(bytes) => bar(*bytes, reserved, width),
            Self::Span(start, end) => bar_span(*start, *end, reserved, width),
            Self::Line(values) => sparkline(values, width),
        }
    }
}

/// The parts of the reserved memory, and the live memory over time.
pub fn memory(device: &DeviceReport, info: Option<&DeviceInfo>, width: Option<usize>) -> String {
    let mut rows = parts(device);
    if let Some(series) = &device.series {
        let live = |at: usize| series.bands.iter().map(|band| band.values[at]).sum();
        let chart = Chart::Line((0..series.x.len()).map(live).collect());
        rows.push(Row { name: "over time", figure: String::new(), chart, note: peaks(info) });
    }
    let longest = |text: fn(&Row) -> &str| rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0);
    let taken = longest(|row| row.name) + longest(|row| &row.figure) + longest(|row| &row.note) + GAPS;
    let room = width.unwrap_or(WIDEST).saturating_sub(taken).clamp(SHORTEST_BAR, BAR);
    let columns = [("", Align::Left), ("", Align::Right), ("", Align::Left), ("", Align::Prose)];
    let mut table = Table::new(columns).indent(2);
    for Row { name, figure, chart, note } in rows {
        let chart = chart.draw(device.segments.fragmentation.totals.reserved, room);
        table.row([name.to_owned(), figure, format!("{chart:<room$}"), note]);
    }
    table.render(width)
}

fn parts(device: &DeviceReport) -> Vec<Row> {
    let totals = &device.segments.fragmentation.totals;
    let rounding = totals.rounding.map_or_else(String::new, |rounding| format!(" · rounding {}", bytes(rounding)));
    let row = |name, value: Option<u64>, chart, note| Row { name, figure: known(value), chart, note };
    let requested = format!("requested {}{rounding}", bytes(totals.requested));
    let mut rows = vec![
        row("reserved", Some(totals.reserved), Chart::Bar(totals.reserved), capacity_note(device)),
        row("live", Some(totals.allocated), Chart::Bar(totals.allocated), requested),
    ];
    let mut start = totals.allocated;
    let mut span = |name, value: Option<u64>, note: &str| {
        let end = start + value.unwrap_or(0);
        let chart = Chart::Span(std::mem::replace(&mut start, end), end);
        (value != Some(0)).then(|| row(name, value, chart, note.to_owned()))
    };
    rows.extend(span("pending", Some(totals.pending), "freed, but waiting for another stream"));
    let mut free: Vec<Row> = [
        span("stranded", totals.stranded, "free, next to live blocks"),
        span("pool-idle", totals.pool_idle, "free in private pools, of no use to others"),
        span("releasable", totals.releasable, "free, empty_cache() would return it"),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Which kind the largest hole belongs to is only clear when there is one kind.
    let of_all = if free.len() > 1 { " of all" } else { "" };
    if let (Some(largest), Some(last)) = (totals.largest_free, free.last_mut()) {
        last.note += &format!(" · largest hole{of_all} {}", bytes(largest));
    }
    rows.extend(free);
    rows
}

fn capacity_note(device: &DeviceReport) -> String {
    let had = device.capacity.map(|capacity| format!("of {} it could have", bytes(capacity)));
    let left = device.failure.as_ref().map(|failure| format!("{} left on the device", bytes(failure.device_free)));
    [had, left].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// How long the trace is, and its peaks.
fn peaks(info: Option<&DeviceInfo>) -> String {
    let span = info.and_then(|info| info.last_time_us?.checked_sub(info.first_time_us?)).filter(|&span| span > 0);
    let span = span.map_or_else(String::new, |span| format!(" over {}", duration(span)));
    info.and_then(|info| info.peak).map_or_else(String::new, |peaks| {
        format!("live memory{span}, peak {} · reserved peak {}", peak_text(peaks.allocated), peak_text(peaks.reserved))
    })
}

/// A peak, which is the least where the trace may lack a higher one.
pub fn peak_text(peak: Peak) -> String {
    format!("{}{}", if peak.exact { "" } else { "at least " }, bytes(peak.bytes))
}
