//! The post-mortem in about 25 lines.

use super::leaks::leaks_in_short;
use super::pinning::pins;
use super::top::top;
use super::verdict;
use super::whatif::winners;
use super::{headline, moment_text, number_of, titled};
use crate::analysis::info::DeviceInfo;
use crate::analysis::report::{DeviceReport, Report};
use crate::analysis::series::Series;
use crate::analysis::settle::is_settled;
use crate::analysis::whatif::WhatIf;
use crate::render::sparkline::{bar, bar_span, sparkline};
use crate::render::table::{Align, Table};
use crate::text::printable;
use crate::units::{bytes, count, duration};

/// Width of the bars and of the sparkline, in characters.
const BAR: usize = 40;

/// Remedies shown.
const REMEDIES: usize = 3;

/// Lines in the table of sites.
const SITES: usize = 5;

/// Lines in the table of what grows.
const LEAKS: usize = 3;

/// Lines in the table of what pins free memory.
const PINS: usize = 3;
/// That table is left out when less than this part of the reserved memory is pinned.
const PINNED_SHARE: u64 = 20;

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
        let info = report.info.devices.iter().find(|info| info.device == device.segments.fragmentation.device);
        let replayed = report.whatif.as_ref().filter(|_| at == 0);
        out += &device_text(device, info, replayed, report.devices.len() > 1, width);
    }
    out
}

fn device_text(
    device: &DeviceReport,
    info: Option<&DeviceInfo>,
    replayed: Option<&WhatIf>,
    name_it: bool,
    width: Option<usize>,
) -> String {
    let mut out = String::from("\n");
    if let Some(diagnosis) = &device.diagnosis {
        if name_it {
            out += &format!("DEVICE {}\n", device.segments.fragmentation.device);
        }
        out += &verdict::verdict(diagnosis, width);
        out.push('\n');
    }
    if name_it {
        out += &format!("DEVICE {}, {}\n", device.segments.fragmentation.device, moment_text(&device.at));
    } else {
        out += &format!("MEMORY {}\n", moment_text(&device.at));
    }
    out += &memory(device, info, width);
    if let Some(account) = device.diagnosis.as_ref().and_then(|diagnosis| diagnosis.account.as_ref()) {
        out += &format!("\n{}", verdict::account(account, width));
    }
    let sites = device.top.rows.len();
    let no_stacks = info.is_some_and(|info| info.blocks_with_stack == Some(0.0)) && sites == 1;
    if no_stacks {
        out +=
            "\nWHO HOLDS IT\n  No block has a stack: which lines hold the memory is not in the file. Record it with\n";
        out += "    torch.cuda.memory._record_memory_history(max_entries=100000, stacks=\"python\")\n";
        out += "  before the model is built, and dump again.\n";
    } else if sites > 0 {
        const TITLE: &str = "WHO HOLDS IT";
        out += &format!("\n{}", titled(&top(&device.top, TITLE, SITES, width), TITLE));
    }
    if !device.leaks.causes.is_empty() {
        const TITLE: &str = "WHAT GROWS";
        out += &format!("\n{}", titled(&leaks_in_short(&device.leaks, TITLE, LEAKS, width), TITLE));
    }
    let pinning = &device.segments.pinning;
    if pinning.pinned >= device.segments.fragmentation.totals.reserved / PINNED_SHARE {
        const TITLE: &str = "WHAT PINS IT";
        // Sites that together pin next to nothing would only take lines.
        let enough = pinning.pinned - pinning.pinned / PINNED_SHARE;
        let sums = pinning.pins.iter().scan(0, |sum, pin| {
            *sum += pin.pinned;
            Some(*sum)
        });
        let lines = sums.take_while(|&sum| sum < enough).count() + 1;
        let text = pins(pinning, TITLE, lines.min(PINS), width);
        if !text.is_empty() {
            out += &format!("\n{}", titled(&text, TITLE));
        }
    }
    // Where the remedies do not tell what a replay found, it has a section of its own.
    let settled = device.diagnosis.as_ref().is_some_and(is_settled);
    if let Some(replayed) = replayed.filter(|_| !settled) {
        let text = winners(replayed, width);
        if !text.is_empty() {
            out += &format!("\nWHAT ANOTHER SETTING WOULD HAVE DONE\n{text}");
        }
    }
    if let Some(diagnosis) = &device.diagnosis {
        let remedies = verdict::remedies(diagnosis, REMEDIES, false, width);
        if !remedies.is_empty() {
            out += &format!("\n{remedies}");
        }
        if settled {
            out += "  Replayed exactly up to the failed request; what would have followed is not in the file.\n";
        }
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
fn memory(device: &DeviceReport, info: Option<&DeviceInfo>, width: Option<usize>) -> String {
    let totals = &device.segments.fragmentation.totals;
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
    // The largest free block is told beside the first kind of free memory.
    let mut hole = totals.largest_free.map(|largest| format!(" · largest hole {}", bytes(largest)));
    for (name, value, note) in parts {
        let size = value.unwrap_or(0);
        if size > 0 || value.is_none() {
            let hole = if name == "pending" { None } else { hole.take() };
            let note = format!("{note}{}", hole.unwrap_or_default());
            row(name, value, bar_span(start, start + size, reserved, BAR), note);
        }
        start += size;
    }
    if let Some(series) = &device.series {
        let (line, note) = over_time(series, info);
        table.row(["over time".to_owned(), String::new(), format!("{line:<BAR$} {note}")]);
    }
    table.render(width)
}

fn capacity_note(device: &DeviceReport) -> String {
    let had = device.capacity.map(|capacity| format!("of {} it could have", bytes(capacity)));
    let left = device.failure.as_ref().map(|failure| format!("{} left on the device", bytes(failure.device_free)));
    [had, left].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// A sparkline of live memory, and its peaks in words.
fn over_time(series: &Series, info: Option<&DeviceInfo>) -> (String, String) {
    let live: Vec<u64> = (0..series.x.len()).map(|at| series.bands.iter().map(|band| band.values[at]).sum()).collect();
    let span = info.and_then(|info| Some(info.last_time_us? - info.first_time_us?)).filter(|&span| span > 0);
    let span = span.map_or_else(String::new, |span| format!(" in {}", duration(span)));
    let peak = |peak: crate::history::Peak| {
        let about = if peak.exact { "" } else { "at least " };
        format!("{about}{}", bytes(peak.bytes))
    };
    let peaks = info.and_then(|info| info.peak).map_or_else(String::new, |peaks| {
        format!("live{span}, peak {} · reserved peak {}", peak(peaks.allocated), peak(peaks.reserved))
    });
    (sparkline(&live, BAR), peaks)
}
