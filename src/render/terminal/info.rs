//! What is in the file.

use super::{known, number_of};
use crate::analysis::info::{DeviceInfo, Info};
use crate::history::Peak;
use crate::render::table::{Align, Table};
use crate::text::printable;
use crate::units::{bytes, bytes_short, count, duration};

/// Failures of a device that are shown, the last ones.
const MAX_OOMS: usize = 8;

/// The file in one line: releases, devices, events.
pub fn headline(info: &Info) -> String {
    let mut parts = vec![info.format.torch(), number_of(info.devices.len() as u64, "device")];
    let events: u64 = info.devices.iter().map(|device| u64::from(device.events)).sum();
    let complete = info.devices.iter().filter(|device| device.events > 0).all(|device| device.trace.complete);
    parts.push(match events {
        0 => "no history".to_owned(),
        _ if complete => format!("{}, complete", number_of(events, "event")),
        _ => format!("{}, incomplete", number_of(events, "event")),
    });
    parts.join(" · ")
}

/// All of `info`; `name` is the file's.
pub fn info(name: &str, info: &Info, width: Option<usize>) -> String {
    let mut out = format!("{}   {}\n\n", printable(name), headline(info));
    let mut table = Table::new([("", Align::Left), ("", Align::Prose)]).indent(2);
    let protocol = info.format.protocol.map_or_else(|| "JSON".to_owned(), |n| format!("pickle protocol {n}"));
    let writer = serde_json::to_value(info.format.writer).ok().and_then(|name| name.as_str().map(str::to_owned));
    table.row(["written by".to_owned(), format!("{} ({protocol})", writer.unwrap_or_default())]);
    table.row(["settings".to_owned(), settings(info)]);
    if info.visible_devices > info.devices.len() {
        let unused = info.visible_devices - info.devices.len();
        table.row(["devices".to_owned(), format!("{} visible, {unused} without memory", info.visible_devices)]);
    }
    if info.annotations > 0 {
        table.row(["annotations".to_owned(), format!("{} starts and ends of regions", count(info.annotations as u64))]);
    }
    if let Some(host) = &info.host {
        let text = format!(
            "{} pinned in {}, {} of it in use",
            bytes(host.reserved),
            number_of(host.blocks as u64, "block"),
            bytes(host.allocated)
        );
        table.row(["host memory".to_owned(), text]);
    }
    out += &table.render(width);
    for device in &info.devices {
        out += &format!("\ndevice {}\n", device.device);
        out += &device_text(device, width);
    }
    out
}

fn settings(info: &Info) -> String {
    let settings = &info.settings;
    if !settings.recorded {
        return "not in the file: defaults are assumed".to_owned();
    }
    if settings.conf.is_empty() {
        return "default (no configuration string)".to_owned();
    }
    settings.conf.clone()
}

fn device_text(device: &DeviceInfo, width: Option<usize>) -> String {
    let mut table = Table::new([("", Align::Left), ("", Align::Prose)]).indent(2);
    let mut row = |name: &str, text: String| {
        table.row([name.to_owned(), text]);
    };
    let totals = &device.totals;
    let expandable = match device.expandable_segments {
        0 => String::new(),
        n => format!(" ({} expandable)", count(n as u64)),
    };
    row(
        "at the end",
        format!(
            "reserved {} in {}{expandable}, live {}, free {}",
            bytes(totals.reserved),
            number_of(device.segments as u64, "segment"),
            bytes(totals.allocated),
            known(totals.free)
        ),
    );
    row("", format!("releasable {}, stranded {}", known(totals.releasable), known(totals.stranded)));
    row("events", events(device));
    for (at, line) in trace(device).into_iter().enumerate() {
        row(if at == 0 { "trace" } else { "" }, line);
    }
    if let Some(setting) = &device.trace.inferred_setting {
        row("inferred", format!("{setting}: not in the file, but block sizes and segments follow from it"));
    }
    row("stacks", stacks(device));
    if let Some(peaks) = &device.peak {
        row("peaks", peak_text("allocated", &peaks.allocated));
        row("", peak_text("requested", &peaks.requested));
        row("", peak_text("active", &peaks.active));
        row("", peak_text("reserved", &peaks.reserved));
    }
    let earlier = device.ooms.len().saturating_sub(MAX_OOMS);
    if earlier > 0 {
        row("OOMs", format!("{} earlier ones, which --json lists", count(earlier as u64)));
    }
    for oom in &device.ooms[earlier..] {
        row(
            "OOM",
            format!(
                "event {}: {} asked for (a segment of {}), {} free on the device, {} reserved, {} live",
                count(oom.event.into()),
                bytes(oom.rounded),
                bytes_short(oom.segment_size),
                bytes(oom.device_free),
                bytes(oom.totals.reserved),
                bytes(oom.totals.allocated)
            ),
        );
    }
    table.render(width)
}

fn events(device: &DeviceInfo) -> String {
    if device.events == 0 {
        return "none".to_owned();
    }
    let counts: Vec<String> = device.actions.iter().map(|(name, n)| format!("{name} {}", count(*n))).collect();
    let span = match (device.first_time_us, device.last_time_us) {
        (Some(first), Some(last)) if last > first => format!(" over {}", duration(last - first)),
        _ => String::new(),
    };
    format!("{}{span}: {}", count(device.events.into()), counts.join(", "))
}

/// Why the trace is not complete, a line a reason.
fn trace(device: &DeviceInfo) -> Vec<String> {
    match device.trace.complete {
        true => vec!["complete: it explains every block".to_owned()],
        false => device.trace.reasons.clone(),
    }
}

fn stacks(device: &DeviceInfo) -> String {
    match device.blocks_with_stack {
        None => "no block is live".to_owned(),
        Some(0.0) => "none: per-line ranking of live blocks is impossible".to_owned(),
        Some(share) => format!("{:.0} % of the live blocks", share * 100.0),
    }
}

fn peak_text(name: &str, peak: &Peak) -> String {
    let place = match peak.event {
        Some(event) => format!("event {}", count(event.into())),
        None => "the start of the trace".to_owned(),
    };
    let exact = if peak.exact { "" } else { " (not exact: see trace)" };
    format!("{name} {} at {place}{exact}", bytes(peak.bytes))
}
