//! What is in the file, under which settings it was made, and how far its trace can be trusted.

use maud::{Markup, html};

use super::cells::{name, shown};
use crate::analysis::info::{DeviceInfo, Info};
use crate::render::terminal::known;
use crate::units::{bytes, count, duration};

/// Settings of one kind that are listed.
const SETTINGS: usize = 60;
/// Devices and failures that are listed.
const LINES: usize = 64;

/// The sections on the whole file.
pub fn file(info: &Info, warnings: &[String]) -> Markup {
    html! {
        section.card #trace {
            h2 { "How far the trace can be trusted" }
            @for device in info.devices.iter().take(LINES) { (health(device, info.devices.len() > 1)) }
            @for warning in warnings.iter().take(LINES) { p.alert { (shown(warning)) } }
        }
        section.card #settings {
            h2 { "Settings" }
            @match (info.settings.recorded, info.settings.conf.as_str()) {
                (false, _) => p { "Not in the file: PyTorch's defaults are assumed." },
                (true, "") => p { "Default: no configuration string was set." },
                (true, conf) => p { code { (shown(conf)) } },
            }
            details {
                summary { "Rules that follow, and what the file states" }
                table.plain { tbody {
                    @if let Ok(serde_json::Value::Object(rules)) = serde_json::to_value(&info.settings.rules) {
                        @for (rule, value) in rules.iter().take(SETTINGS) {
                            tr { th scope="row" { code { (name(rule)) } } td { (setting(value)) } }
                        }
                    }
                } }
                @if !info.settings.stated.is_empty() {
                    table.plain { caption { "As stated" } tbody {
                        @for (key, value) in info.settings.stated.iter().take(SETTINGS) {
                            tr { th scope="row" { code { (name(key)) } } td { (name(&value.to_string())) } }
                        }
                    } }
                }
            }
        }
        section.card #file {
            h2 { "What is in the file" }
            table.plain { tbody {
                tr { th scope="row" { "written by" } td { (info.format.torch()) } }
                tr { th scope="row" { "devices" } td { (info.devices.len()) " with memory or history, " (info.visible_devices) " visible" } }
                @if info.annotations > 0 { tr { th scope="row" { "annotations" } td { (count(info.annotations as u64)) } } }
                @if let Some(host) = &info.host {
                    tr { th scope="row" { "pinned host memory" } td { (bytes(host.reserved)) ", " (bytes(host.allocated)) " of it in use" } }
                }
                @for device in info.devices.iter().take(LINES) {
                    tr { th scope="row" { "device " (device.device) } td { (contents(device)) } }
                }
            } }
        }
    }
}

fn health(device: &DeviceInfo, name_it: bool) -> Markup {
    html! {
        p {
            @if name_it { b { "Device " (device.device) ": " } }
            @if device.trace.complete {
                span.chip.free { "complete" } " The trace explains every block: nothing happened before it, nothing is missing in it."
            } @else {
                span.chip.slower { @if device.trace.recorded { "incomplete" } @else { "no history" } }
            }
        }
        ul {
            @for reason in device.trace.reasons.iter().take(LINES) { li { (shown(reason)) } }
            @if let Some(setting) = &device.trace.inferred_setting {
                li { code { (shown(setting)) } " is not in the file, but block sizes and segments follow from it." }
            }
            @match device.blocks_with_stack {
                None => {}
                Some(0.0) => li { "No live block has a stack: which lines hold the memory is not in the file." },
                Some(share) => li { (format!("{:.0} %", share * 100.0)) " of the blocks live at the end have a stack." },
            }
        }
    }
}

/// A rule; sizes are in bytes.
fn setting(value: &serde_json::Value) -> String {
    match value.as_u64() {
        Some(n) if n >= 512 => format!("{} ({})", n, bytes(n)),
        _ if value.is_null() => "not set".to_owned(),
        _ => name(&value.to_string()),
    }
}

fn contents(device: &DeviceInfo) -> Markup {
    let totals = &device.totals;
    html! {
        "at the end " (bytes(totals.reserved)) " reserved in " (count(device.segments as u64)) " segments"
        @if device.expandable_segments > 0 { " (" (count(device.expandable_segments as u64)) " expandable)" }
        ", " (bytes(totals.allocated)) " live, " (known(totals.free)) " free"
        @if device.events > 0 {
            " · " (count(device.events.into())) " events"
            @if let (Some(first), Some(last)) = (device.first_time_us, device.last_time_us) {
                @if last > first { " in " (duration(last - first)) }
            }
        }
        @for oom in device.ooms.iter().rev().take(8) {
            br; "OOM at event " (count(oom.event.into())) ": " (bytes(oom.rounded)) " asked for, " (bytes(oom.device_free)) " free on the device"
        }
        @if device.ooms.len() > 8 { br; (count(device.ooms.len() as u64 - 8)) " earlier OOMs" }
    }
}
