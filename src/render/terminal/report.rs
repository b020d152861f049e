//! The post-mortem on one screen or two.

use super::leaks::leaks_in_short;
use super::memory::memory;
use super::pinning::{classic_cause, pins};
use super::top::top;
use super::verdict;
use super::whatif::winners;
use super::{headline, moment_text, number_of, paragraph, titled};
use crate::analysis::info::DeviceInfo;
use crate::analysis::report::{DeviceReport, Report};
use crate::analysis::settle::is_settled;
use crate::analysis::whatif::WhatIf;
use crate::oom::{Diagnosis, Verdict};
use crate::render::table::WIDEST;
use crate::text::printable;
use crate::units::count;

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
    let mut out = top_line(name, report, width.unwrap_or(WIDEST));
    if report.devices.is_empty() {
        out += "\nNo memory is reserved and nothing was recorded. Was the snapshot taken in the process that used the GPU?\n";
    }
    for (at, device) in report.devices.iter().enumerate() {
        let info = report.info.devices.iter().find(|info| info.device == device.segments.fragmentation.device);
        let replayed = report.whatif.as_ref().filter(|_| at == 0);
        out += &device_text(device, info, replayed, report.info.format.recording(), report.devices.len() > 1, width);
    }
    out
}

/// What file it is, and whether a failure is in it.
fn top_line(name: &str, report: &Report, width: usize) -> String {
    let facts = facts(report);
    let name = printable(name);
    match crate::text::width(&name) {
        // A long name leaves no room beside it.
        long if long > width / 2 => format!("{name}\n{}", paragraph("  ", &facts, width)),
        _ => paragraph(&format!("{name}   "), &facts, width),
    }
}

/// The file in one line, and which of its failures is described.
pub(in crate::render) fn facts(report: &Report) -> String {
    let facts = headline(&report.info);
    let Some(device) = report.devices.first() else { return facts };
    let ordinal = device.segments.fragmentation.device;
    let ooms = report.info.devices.iter().find(|info| info.device == ordinal).map_or(&[][..], |info| &info.ooms);
    let many = ooms.len();
    if let Some(shown) = &device.failure {
        let then = match shown.events_after {
            0 => ", the last one".to_owned(),
            n => format!(", then went on for {}", number_of(n.into(), "event")),
        };
        let number = ooms.iter().position(|oom| oom.event == shown.event).map_or(0, |at| at + 1);
        let which = match many {
            0 | 1 => String::new(),
            2 => format!(" · OOM {number} of 2; --oom {} shows the other", 3 - number),
            _ => format!(" · OOM {number} of {}; --oom K shows the others", count(many as u64)),
        };
        return format!("{facts} · failed at event {}{then}{which}", count(shown.event.into()));
    }
    if let Some(last) = ooms.last() {
        let event = count(last.event.into());
        let there = match many {
            1 => format!("the file has 1 OOM, at event {event}: --oom 1 shows it"),
            _ => format!("the file has {} OOMs, the last at event {event}: --oom K shows them", count(many as u64)),
        };
        return format!("{facts} · shown {} · {there}", moment_text(&device.at));
    }
    let devices = &report.info.devices;
    if devices.iter().any(|device| device.trace.cut) {
        facts + " · no OOM in what is left of the trace"
    } else if devices.iter().any(|device| device.events > 0) {
        facts + " · no OOM in the trace"
    } else {
        facts
    }
}

fn device_text(
    device: &DeviceReport,
    info: Option<&DeviceInfo>,
    replayed: Option<&WhatIf>,
    recording: &str,
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
        const MISSING: &str = "No block has a stack: which lines hold the memory is not in the file. Record it with";
        out += &format!("\nWHO HOLDS IT\n{}", paragraph("  ", MISSING, width.unwrap_or(WIDEST)));
        out += &format!("    {recording}\n  before the model is built, and dump again.\n");
    } else if sites > 0 {
        const TITLE: &str = "WHO HOLDS IT";
        out += &format!("\n{}", titled(&top(&device.top, TITLE, SITES, width), TITLE));
    }
    if !device.leaks.causes.is_empty() {
        const TITLE: &str = "WHAT GROWS";
        out += &format!("\n{}", titled(&leaks_in_short(&device.leaks, TITLE, LEAKS, &device.at, width), TITLE));
    }
    let pinning = &device.segments.pinning;
    let pins_matter = device.diagnosis.as_ref().is_none_or(is_in_pieces);
    if pins_matter && !no_stacks && pinning.pinned >= device.segments.fragmentation.totals.reserved / PINNED_SHARE {
        const TITLE: &str = "WHAT PINS IT";
        // Sites that together pin next to nothing would only take lines.
        let enough = pinning.pinned - pinning.pinned / PINNED_SHARE;
        let sums = pinning.pins.iter().scan(0, |sum, pin| {
            *sum += pin.pinned;
            Some(*sum)
        });
        let lines = sums.take_while(|&sum| sum < enough).count() + 1;
        let mut text = pins(pinning, TITLE, lines.min(PINS), width);
        if device.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.verdict == Verdict::Fragmentation) {
            text += &classic_cause(pinning, PINS, width);
        }
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
            const REPLAYED: &str =
                "Replayed exactly up to the failed request; what would have followed is not in the file.";
            out += &paragraph("  ", REPLAYED, width.unwrap_or(WIDEST));
        }
    } else if !device.next.is_empty() {
        out += "\nWHAT TO DO\n";
        for step in &device.next {
            out += &paragraph("  ", step, width.unwrap_or(WIDEST));
        }
    }
    if let Some(info) = info
        && !info.trace.complete
    {
        out += "\nTRACE\n";
        for reason in &info.trace.reasons {
            out += &paragraph("  ", reason, width.unwrap_or(WIDEST));
        }
    }
    out
}

/// Whether free memory in pieces has a part in the failure.
fn is_in_pieces(diagnosis: &Diagnosis) -> bool {
    diagnosis.findings.iter().any(|finding| finding.verdict == Verdict::Fragmentation)
}
