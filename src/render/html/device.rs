//! One device, from the verdict to its last segment.

use maud::{Markup, PreEscaped, html};

use super::cells::prose;
use super::{flame, leaks, memory, tables, verdict};
use crate::analysis::closeup::CloseUp;
use crate::analysis::layout::Layout;
use crate::analysis::report::{DeviceReport, Report};
use crate::render::map::{ColourBy, MapOptions, map_svg};
use crate::render::terminal::moment_text;
use crate::render::timeline::{TimelineOptions, timeline_svg};
use crate::text::shorten;
use crate::units::{bytes, count};

/// Columns of names in pictures.
const PICTURE_NAME: usize = 80;

/// What is shown of a device.
pub struct Input<'a> {
    /// Its place among the devices.
    pub at: usize,
    /// The whole post-mortem.
    pub report: &'a Report,
    /// This device's part.
    pub device: &'a DeviceReport,
    /// From close up, where there is room.
    pub close_up: Option<&'a CloseUp>,
    /// Whether there is no other.
    pub is_alone: bool,
    /// Whether it is open from the start.
    pub is_open: bool,
    /// Rows of a table.
    pub rows: usize,
}

/// The sections of a device.
pub fn device(input: &Input) -> Markup {
    if input.is_alone {
        return html! { div.device data-device=(input.at) { (sections(input)) } };
    }
    let totals = &input.device.segments.fragmentation.totals;
    html! {
        details.device data-device=(input.at) open[input.is_open] {
            summary {
                b { "Device " (input.device.segments.fragmentation.device) } " "
                @if let Some(diagnosis) = &input.device.diagnosis { span.chip.no { (diagnosis.verdict.title()) } " " }
                span.note {
                    (moment_text(&input.device.at)) ": " (bytes(totals.reserved)) " reserved, " (bytes(totals.allocated)) " live"
                }
            }
            (sections(input))
        }
    }
}

fn sections(input: &Input) -> Markup {
    let device = input.device;
    let id = |name: &str| format!("{name}-{}", input.at);
    let info = input.report.info.devices.iter().find(|info| info.device == device.segments.fragmentation.device);
    let no_stacks = device.top.rows.len() == 1 && info.is_some_and(|info| info.blocks_with_stack == Some(0.0));
    let whatif = input.report.whatif.as_ref().filter(|_| input.at == 0);
    let past = input.close_up.and_then(|close_up| close_up.past.as_ref());
    let has_pins = !device.segments.pinning.pins.is_empty();
    let mut links = vec![("verdict", if device.diagnosis.is_some() { "Verdict" } else { "Memory" })];
    links.extend(past.map(|_| ("timeline", "Timeline")));
    links.push(("sites", "Lines"));
    links.extend(leaks::has_any(&device.leaks).then_some(("leaks", "Growth")));
    links.extend(has_pins.then_some(("pins", "Pins")));
    links.extend(input.close_up.map(|_| ("map", "Map")));
    let folded = input.close_up.map(|close_up| &close_up.folded).filter(|folded| !no_stacks && folded.total > 0);
    links.extend(folded.map(|_| ("flame", "Flame")));
    links.push(("segments", "Segments"));
    links.extend(whatif.map(|_| ("whatif", "Other settings")));
    html! {
        nav aria-label="Sections" {
            @for (section, title) in links { a href={ "#" (id(section)) } { (title) } }
            a href="#trace" { "Trace" } a href="#settings" { "Settings" }
        }
        section.card.lead id=(id("verdict")) {
            @if let Some(diagnosis) = &device.diagnosis {
                div.columns { (verdict::verdict(diagnosis)) (verdict::remedies(diagnosis)) }
            } @else {
                p.kicker.quiet { "No failure" }
                h2 {
                    @if info.is_some_and(|info| !info.ooms.is_empty()) {
                        "This moment is no failure; the file has one at another"
                    } @else {
                        "No out-of-memory failure is recorded " @if input.is_alone { "in this file" } @else { "on this device" }
                    }
                }
                p { "What follows is the memory " (moment_text(&device.at)) "." }
                @if !device.next.is_empty() {
                    h3 { "What to do" }
                    ul { @for step in &device.next { li { (prose(step)) } } }
                }
            }
            h3 { "Memory " (moment_text(&device.at)) }
            (memory::memory(device))
        }
        @if let Some(past) = past {
            section.card.timeline id=(id("timeline")) {
                h2 { "Memory over time" }
                noscript { p.note { "Without script this picture cannot be zoomed." } (PreEscaped(picture(device))) }
                div.plot data-plot=(input.at) hidden {}
                p.note {
                    "The page has the live set at " (count(past.instants.instants.len() as u64)) " instants (the highest of each part of the trace, OOMs, peaks, the end) and the "
                    (count(past.ribbons.ribbons.len() as u64)) " blocks that weigh most of "
                    (count(past.ribbons.ribbons.len() as u64 + past.ribbons.others)) "; figures between instants are those of the last one before."
                }
            }
        } @else if info.is_some_and(|info| !info.trace.recorded) {
            section.card {
                h2 { "Memory over time" }
                p { "The file has no history, so only the end is known. To have it next time, before the model is built:" }
                pre { code { (input.report.info.format.recording()) } }
            }
        }
        section.card id=(id("sites")) {
            h2 { "Who holds it" }
            @if no_stacks {
                p { "No block has a stack: which lines hold the memory is not in the file. Record it before the model is built, and dump again:" }
                pre { code { (input.report.info.format.recording()) } }
            }
            @if device.top.rows.is_empty() { p { "No block is live." } } @else { (tables::top(device, &id("t-sites"), input.rows)) }
        }
        @if leaks::has_any(&device.leaks) {
            section.card id=(id("leaks")) {
                h2 { "What grows" }
                (leaks::leaks(&device.leaks, &device.at, &id("t-leaks"), input.rows))
            }
        }
        @if has_pins {
            section.card id=(id("pins")) {
                h2 { "What pins free memory" }
                p.note { "The allocator can give back only whole segments. One live block in a segment keeps all that is free in it." }
                (tables::pins(device, &id("t-pins"), input.rows))
            }
        }
        @if let Some(close_up) = input.close_up {
            section.card.map id=(id("map")) {
                h2 { "Where it lies" }
                fieldset.switch {
                    legend { "colour by" }
                    label { input.by-state type="radio" name=(id("colour")) checked; " state" }
                    label { input.by-site type="radio" name=(id("colour")); " line" }
                }
                div.picture.state tabindex="0" role="region" aria-label="Map of segments by state" { (PreEscaped(map(&close_up.layout, ColourBy::State))) }
                div.picture.site tabindex="0" role="region" aria-label="Map of segments by line" { (PreEscaped(map(&close_up.layout, ColourBy::Site))) }
            }
        }
        @if let Some(folded) = folded {
            section.card id=(id("flame")) {
                h2 { "Live memory by call stack" }
                p.note { "Each frame is as wide as the memory that was allocated below it and is live " (moment_text(&device.at)) ". Click a frame to zoom, the top one to see all." }
                (flame::flame(folded, input.rows * 8))
            }
        }
        section.card id=(id("segments")) {
            h2 { "Segments" }
            (tables::segments(&device.segments, &id("t-segments"), input.rows))
        }
        @if let Some(whatif) = whatif {
            section.card id=(id("whatif")) {
                h2 { "What another setting would have done" }
                (tables::whatif(whatif, &id("t-whatif")))
            }
        }
        @if let Some(account) = device.diagnosis.as_ref().and_then(|diagnosis| diagnosis.account.as_ref()) {
            (verdict::account(account))
        }
    }
}

fn picture(device: &DeviceReport) -> String {
    let mut series = device.series.clone();
    for band in series.iter_mut().flat_map(|series| &mut series.bands) {
        band.site = shorten(&band.site, PICTURE_NAME).into_owned();
        band.detail = band.detail.as_ref().map(|detail| shorten(detail, PICTURE_NAME).into_owned());
    }
    timeline_svg(series.as_slice(), &TimelineOptions::default())
}

fn map(layout: &Layout, colour: ColourBy) -> String {
    let mut layout = layout.clone();
    for site in &mut layout.sites {
        site.site = shorten(&site.site, PICTURE_NAME).into_owned();
    }
    map_svg(&[layout], &MapOptions { title: String::new(), width: 1_120, colour })
}
