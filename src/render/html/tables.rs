//! Who holds the memory, what pins it, which segments there are, what another setting would have done.

use std::collections::HashMap;

use maud::{Markup, html};

use super::cells::{Cell, counted, known, number, paint_of, shares, shown, site, size, table, text};
use crate::analysis::pin::Pin;
use crate::analysis::report::DeviceReport;
use crate::analysis::segments::{SegmentOrder, Segments};
use crate::analysis::series::OTHER;
use crate::analysis::whatif::{Scenario, WhatIf};
use crate::render::palette::{self, Paint};
use crate::render::terminal::names::shared_directory;
use crate::render::terminal::{moment_text, pool_text, until};
use crate::units::{bytes, count};

/// The paints of the sites that have a band in the timeline of a device; those of others follow from their names.
struct Paints<'a> {
    bands: HashMap<&'a str, Paint>,
}

impl<'a> Paints<'a> {
    fn new(device: &'a DeviceReport) -> Self {
        let bands = device.series.iter().flat_map(|series| &series.bands);
        let names: Vec<Option<&str>> =
            bands.map(|band| Some(band.site.as_str()).filter(|site| *site != OTHER)).collect();
        let paints = palette::paints(names.iter().copied());
        Self { bands: names.into_iter().zip(paints).filter_map(|(name, paint)| Some((name?, paint))).collect() }
    }

    fn of(&self, site: &str) -> Option<Paint> {
        Some(self.bands.get(site).copied().unwrap_or_else(|| paint_of(site)))
    }
}

/// The ranking of sites.
pub fn top(device: &DeviceReport, id: &str, limit: usize) -> Markup {
    let (top, paints) = (&device.top, Paints::new(device));
    let shown_rows = &top.rows[..top.rows.len().min(limit)];
    let shared = shared_directory(shown_rows.iter().map(|row| row.site.as_str()));
    let all: Vec<f64> = top.rows.iter().map(|row| row.share).collect();
    let rows = shown_rows.iter().zip(shares(&all)).map(|(row, share)| {
        vec![
            site(&row.site, row.function.as_deref(), shared, paints.of(&row.site)).into(),
            size(row.bytes),
            share,
            counted(row.blocks),
            size(row.requested),
        ]
    });
    let columns = [
        text("site"),
        number("live", "bytes of its live and pending blocks"),
        number("share", "of all live memory"),
        number("blocks", ""),
        number("requested", "bytes that the program asked for"),
    ];
    let caption = format!("Lines that hold the {} live {}", bytes(top.total), moment_text(&device.at));
    table(id, &caption, &columns, rows.collect(), top.rows.len() - shown_rows.len(), "oomscope top lists all.")
}

/// What pins free memory.
pub fn pins(device: &DeviceReport, id: &str, limit: usize) -> Markup {
    let (pinning, paints) = (&device.segments.pinning, Paints::new(device));
    let shown_pins = &pinning.pins[..pinning.pins.len().min(limit)];
    let shared = shared_directory(shown_pins.iter().map(|pin| pin.site.as_str()));
    let all: Vec<f64> = pinning.pins.iter().map(|pin| pin.pinned as f64 / pinning.pinned.max(1) as f64).collect();
    let rows = shown_pins.iter().zip(shares(&all)).map(|(pin, share)| {
        vec![
            site(&pin.site, pin.function.as_deref(), shared, paints.of(&pin.site)).into(),
            size(pin.pinned),
            share,
            size(pin.own),
            counted(pin.blocks),
            places(pin),
            since(pin),
        ]
    });
    let columns = [
        text("site"),
        number("keeps from being given back", "its share of the free bytes in segments that it has a block in"),
        number("share", "of all pinned memory"),
        number("its own", "bytes of its live blocks"),
        number("blocks", ""),
        number("in", "segments or granules with free memory that it has a block in"),
        number("allocated", "events of its first and last pinning block"),
    ];
    let caption = format!("Lines whose live blocks pin {} of free memory", bytes(pinning.pinned));
    table(id, &caption, &columns, rows.collect(), pinning.pins.len() - shown_pins.len(), "oomscope segments lists all.")
}

fn places(pin: &Pin) -> Cell {
    counted(pin.segments + pin.granules)
}

fn since(pin: &Pin) -> Cell {
    let text = pin.lifetimes.as_ref().map_or_else(String::new, |lifetimes| {
        match (lifetimes.first_event, lifetimes.last_event) {
            (Some(first), Some(last)) if last > first => format!("{}–{}", count(first.into()), count(last.into())),
            (Some(first), _) => count(first.into()),
            _ => "before the recording".to_owned(),
        }
    });
    text.into()
}

/// The segments.
pub fn segments(found: &Segments, id: &str, limit: usize) -> Markup {
    let all = found.table(SegmentOrder::Stranded);
    let rows = all.iter().take(limit).map(|row| {
        let names: Vec<&str> = row.sites.iter().map(String::as_str).collect();
        let more = row.site_count.saturating_sub(names.len());
        let shared = shared_directory(names.iter().copied());
        vec![
            html! { code { (format!("{:#x}", row.address)) } }.into(),
            html! { (pool_text(row.kind, row.pool.as_deref())) @if row.expandable { " expandable" } }.into(),
            html! { code { (row.stream) } }.into(),
            size(row.total),
            size(row.active),
            counted(row.blocks as u64),
            size(row.free),
            size(row.largest_free),
            size(row.stranded),
            size(row.releasable),
            html! {
                @for (at, name) in names.iter().take(3).enumerate() {
                    @if at > 0 { ", " }
                    (site(name, None, shared, None))
                }
                @let more = more + names.len().saturating_sub(3);
                @if more > 0 { " and " (count(more as u64)) " more" }
            }
            .into(),
        ]
    });
    let columns = [
        text("address"),
        text("pool"),
        text("stream"),
        number("size", "bytes taken from the device"),
        number("live", "bytes in live and pending blocks"),
        number("blocks", ""),
        number("free", ""),
        number("largest hole", ""),
        number("stranded", "free, but pinned by live blocks"),
        number("releasable", "free, empty_cache() would return it"),
        text("held by"),
    ];
    let caption = format!("Segments, {}", count(all.len() as u64));
    let left_out = all.len().saturating_sub(limit);
    table(id, &caption, &columns, rows.collect(), left_out, "oomscope segments lists all.")
}

/// The failed run under other settings.
pub fn whatif(found: &WhatIf, id: &str) -> Markup {
    let scenarios = std::iter::once(&found.baseline).chain(&found.scenarios).enumerate();
    let rows = scenarios.map(|(at, scenario)| {
        vec![
            html! {
                @if at == 0 { "as recorded " }
                @if !scenario.settings.is_empty() { code { (shown(&scenario.settings)) } }
            }
            .into(),
            outcome(scenario).into(),
            size(scenario.figures.peak_reserved),
            size(scenario.figures.end.reserved),
            known(scenario.figures.end.free),
            counted(scenario.figures.segment_allocs + scenario.figures.segment_maps),
            counted(scenario.figures.flushes),
        ]
    });
    let columns = [
        text("setting"),
        text("outcome"),
        number("peak reserved", ""),
        number("reserved", "where the replay ends"),
        number("free", "free inside what is reserved, where the replay ends"),
        number("cudaMalloc or map", "requests to the driver"),
        number("flushes", "times that the cache was given back to make room"),
    ];
    html! {
        (table(id, &format!("The recorded requests replayed under other settings, {}", until(found)), &columns, rows.collect(), 0, ""))
        @if !found.trusted {
            p.note {
                "The recorded settings do not reproduce the record"
                @if let Some(first) = &found.baseline.first_divergence {
                    " from event " (count(first.event.into())) " on; likely because " (shown(&first.likely_cause))
                }
                "."
            }
        }
        @for note in &found.notes { p.note { (shown(note)) } }
    }
}

fn outcome(scenario: &Scenario) -> Markup {
    html! {
        @if scenario.advised { span.chip.free { "helps" } " " }
        (shown(&scenario.advice))
        @if let Some(refusal) = &scenario.refusal { @if !scenario.advice.contains(&refusal.reason) { " " (shown(&refusal.reason)) } }
        @if let Some(other) = &scenario.other_addresses {
            " Depends on addresses: reserved between " (bytes(scenario.figures.end.reserved.min(other.end.reserved)))
            " and " (bytes(scenario.figures.end.reserved.max(other.end.reserved))) "."
        }
    }
}
