//! The post-mortem in about 25 lines.

use super::top::top;
use super::whatif::winners;
use super::{headline, moment_text, number_of};
use crate::analysis::info::DeviceInfo;
use crate::analysis::report::{DeviceReport, Report};
use crate::analysis::series::Series;
use crate::render::sparkline::{bar, bar_span, sparkline_to};
use crate::render::table::{Align, Table};
use crate::text::printable;
use crate::units::{bytes, bytes_short, count, duration};

/// Width of the bars and of the sparkline, in characters.
const BAR: usize = 40;

/// Lines in the table of sites.
const SITES: usize = 6;

/// All of `report`; `name` is the file's.
pub fn report(name: &str, report: &Report, width: Option<usize>) -> String {
    let mut out = format!("{}   {}", printable(name), headline(&report.info));
    if let Some(last) = report.devices.first().and_then(|device| device.failure.as_ref()) {
        out += &format!(" · failed at event {}", count(last.event.into()));
        out += &match last.events_after {
            0 => ", the last one".to_owned(),
            n => format!(", then went on for {}", number_of(n.into(), "event")),
        };
    }
    out.push('\n');
    if report.devices.is_empty() {
        out += "\nNo memory is reserved and nothing was recorded. Was the snapshot taken in the process that used the GPU?\n";
    }
    for (at, device) in report.devices.iter().enumerate() {
        let info = report.info.devices.iter().find(|info| info.device == device.fragmentation.device);
        out += &device_text(device, info, report.devices.len() > 1, width);
        if let Some(result) = report.whatif.as_ref().filter(|_| at == 0) {
            out += "\nWHAT ANOTHER SETTING WOULD HAVE DONE\n";
            out += &winners(result, width);
        }
    }
    out
}

fn device_text(device: &DeviceReport, info: Option<&DeviceInfo>, name_it: bool, width: Option<usize>) -> String {
    let mut out = String::from("\n");
    if name_it {
        out += &format!("DEVICE {}, {}\n", device.fragmentation.device, moment_text(&device.at));
    } else {
        out += &format!("MEMORY {}\n", moment_text(&device.at));
    }
    out += &memory(device, width);
    if let Some(failure) = failure(device) {
        out += &format!("\nWHAT FAILED\n{failure}");
    }
    let sites = device.top.rows.len();
    let no_stacks = info.is_some_and(|info| info.blocks_with_stack == Some(0.0)) && sites == 1;
    if no_stacks {
        out +=
            "\nWHO HOLDS IT\n  No block has a stack: which lines hold the memory is not in the file. Record it with\n";
        out += "    torch.cuda.memory._record_memory_history(max_entries=100000, stacks=\"python\")\n";
        out += "  before the model is built, and dump again.\n";
    } else if sites > 0 {
        out += "\nWHO HOLDS IT\n";
        out += &top(&device.top, SITES, width);
    }
    if let Some(series) = &device.series {
        out += "\nOVER TIME\n";
        out += &over_time(series, info);
    }
    if let Some(info) = info
        && !info.trace.complete
    {
        out += "\nTRACE\n";
        for reason in &info.trace.reasons {
            out += &format!("  {reason}\n");
        }
    }
    out
}

/// The parts of the reserved memory with bars on one scale.
fn memory(device: &DeviceReport, width: Option<usize>) -> String {
    let totals = &device.fragmentation.totals;
    let reserved = totals.reserved;
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]).indent(2);
    let mut row = |name: &str, value: Option<u64>, bar: String, note: String| {
        let value = value.map_or_else(|| "unknown".to_owned(), bytes);
        table.row([name.to_owned(), value, format!("{bar:<BAR$} {note}")]);
    };
    row("reserved", Some(reserved), bar(reserved, reserved, BAR), capacity_note(device));
    let rounding = totals.rounding.map_or_else(String::new, |rounding| format!(" · rounding {}", bytes(rounding)));
    row(
        "live",
        Some(totals.allocated),
        bar(totals.allocated, reserved, BAR),
        format!("requested {}{rounding}", bytes(totals.requested)),
    );
    let mut start = totals.allocated;
    let parts = [
        ("pending", Some(totals.pending), "freed, but waiting for another stream"),
        ("stranded", totals.stranded, "free, next to live blocks"),
        ("pool-idle", totals.pool_idle, "free in private pools, of no use to others"),
        ("releasable", totals.releasable, "free, empty_cache() would return it"),
    ];
    for (name, value, note) in parts {
        let bytes = value.unwrap_or(0);
        if bytes > 0 || value.is_none() {
            row(name, value, bar_span(start, start + bytes, reserved, BAR), note.to_owned());
        }
        start += bytes;
    }
    if let Some(largest) = totals.largest_free.filter(|&largest| largest > 0) {
        row("largest hole", Some(largest), String::new(), String::new());
    }
    table.render(width)
}

fn capacity_note(device: &DeviceReport) -> String {
    match device.capacity {
        Some(capacity) => format!("of {} that the process could have", bytes(capacity)),
        None => String::new(),
    }
}

/// What the failed request asked for, and what was there.
fn failure(device: &DeviceReport) -> Option<String> {
    let failure = device.failure.as_ref()?;
    let totals = &failure.totals;
    let mut out = format!(
        "  {} were asked for, which needs a segment of {}; the device had {} left.\n",
        bytes(failure.rounded),
        bytes_short(failure.segment_size),
        bytes(failure.device_free)
    );
    if failure.is_limit {
        out +=
            "  The device had enough: a limit was hit (a memory fraction, or another allocator's cap), not the card.\n";
    }
    if totals.free == Some(0) {
        out += "  All of the reserved memory was in use.\n";
    } else if let (Some(free), Some(largest)) = (totals.free, totals.largest_free) {
        let verb = if largest >= failure.rounded {
            "would hold it, but lies in another pool or stream"
        } else {
            "is too small"
        };
        out += &format!(
            "  {} of the reserved memory were free; the largest hole, {}, {verb}.\n",
            bytes(free),
            bytes(largest)
        );
    }
    Some(out)
}

/// A sparkline of live and reserved memory.
fn over_time(series: &Series, info: Option<&DeviceInfo>) -> String {
    let live: Vec<u64> = (0..series.x.len()).map(|at| series.bands.iter().map(|band| band.values[at]).sum()).collect();
    let top = series.reserved.iter().chain(&live).copied().max().unwrap_or(0);
    let mut out = String::new();
    let span = info.and_then(|info| Some(info.last_time_us? - info.first_time_us?)).filter(|&span| span > 0);
    let span = span.map_or_else(String::new, |span| format!(" over {}", duration(span)));
    let peaks = info.and_then(|info| info.peak);
    let peak = |peak: crate::history::Peak| {
        let about = if peak.exact { "" } else { "at least " };
        format!("peak {about}{}", bytes(peak.bytes))
    };
    let live_note = peaks.map_or_else(String::new, |peaks| peak(peaks.allocated));
    let reserved_note = peaks.map_or_else(String::new, |peaks| peak(peaks.reserved));
    out += &format!("  live      {}  {live_note}{span}\n", sparkline_to(&live, BAR, top));
    out += &format!("  reserved  {}  {reserved_note}\n", sparkline_to(&series.reserved, BAR, top));
    out
}
