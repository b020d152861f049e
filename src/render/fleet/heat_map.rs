//! Lines against ranks: how many bytes each line holds at each rank's peak.

use std::collections::HashMap;

use plotters::prelude::IntoDrawingArea;
use plotters::style::WHITE;

use crate::analysis::fleet::{Fleet, RankRow, SiteBytes};
use crate::render::draw::{self, ALARM, AXIS, Area, Drawn, INK, LABEL, MUTED, TITLE, Text};
use crate::render::svg::{Rgb, Svg, px, shorten_to};
use crate::render::terminal::names::{shared_directory, without};
use crate::units::bytes;

/// Most lines, and most columns; with more ranks a column stands for several.
const MAX_SITES: usize = 28;
const MAX_COLUMNS: usize = 160;

/// Pixels.
const ROW: i32 = 18;
const LABELS: i32 = 330;
const PLOT: i32 = 830;
const MARGIN: i32 = 16;
const TOP: i32 = 84;
const BOTTOM: i32 = 56;

/// The colour of nothing and of the most.
const LOW: Rgb = (0xee, 0xf3, 0xf8);
const HIGH: Rgb = (0x0a, 0x3a, 0x6b);

const SMALL: Text = Text { size: 105, ..LABEL };

/// One line of the map.
struct Row<'a> {
    site: &'a str,
    function: Option<&'a str>,
    most: u64,
}

/// The map of `fleet` as an SVG file.
pub fn heat_map(fleet: &Fleet) -> String {
    let rows = rows(fleet);
    let height = TOP + rows.len() as i32 * ROW + BOTTOM;
    let width = 2 * MARGIN + LABELS + PLOT;
    let svg = Svg::new(width as u32, height as u32);
    svg.label("Memory at the peak, by line and rank");
    let area = svg.backend().into_drawing_area();
    // The backend cannot fail.
    let _ = area.fill(&WHITE);
    let _ = draw(&svg, &area, fleet, &rows);
    svg.finish()
}

/// The lines with the largest single cell, largest first.
fn rows(fleet: &Fleet) -> Vec<Row<'_>> {
    let mut found: HashMap<&str, Row> = HashMap::new();
    for site in fleet.ranks.iter().flat_map(|row| &row.rank.at_peak) {
        let function = site.function.as_deref();
        let row = found.entry(&site.site).or_insert(Row { site: &site.site, function, most: 0 });
        row.most = row.most.max(site.bytes);
    }
    let mut rows: Vec<Row> = found.into_values().collect();
    rows.sort_by(|a, b| b.most.cmp(&a.most).then_with(|| a.site.cmp(b.site)));
    rows.truncate(MAX_SITES);
    rows
}

fn draw(svg: &Svg, area: &Area, fleet: &Fleet, rows: &[Row]) -> Drawn {
    let title = "Memory at each rank's peak, by the line that allocated it";
    draw::text(area, title, (px(MARGIN), px(22)), &TITLE)?;
    let left = MARGIN + LABELS;
    let columns = fleet.ranks.len().clamp(1, MAX_COLUMNS);
    let first_of = |column: usize| column * fleet.ranks.len() / columns;
    let x = |column: usize| px(left) + (i64::from(px(PLOT)) * column as i64 / columns as i64) as i32;
    let spans: Vec<&[RankRow]> = (0..columns).map(|c| &fleet.ranks[first_of(c)..first_of(c + 1)]).collect();
    header(svg, area, fleet, &spans, x)?;
    let most = rows.iter().map(|row| row.most).max().unwrap_or(0).max(1);
    let shared = shared_directory(rows.iter().map(|row| row.site));
    let held: Vec<HashMap<&str, &SiteBytes>> = fleet
        .ranks
        .iter()
        .map(|row| row.rank.at_peak.iter().map(|site| (site.site.as_str(), site)).collect())
        .collect();
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + at as i32 * ROW;
        let name = match row.function {
            Some(function) => format!("{}  {function}", without(row.site, shared)),
            None => without(row.site, shared).to_owned(),
        };
        svg.title(Some(row.site));
        let text = shorten_to(&name, px(LABELS - 10), SMALL.size);
        draw::text(area, &text, (px(left - 8), px(y + ROW / 2)), &SMALL.right().colour(INK))?;
        for (column, span) in spans.iter().enumerate() {
            let members = first_of(column)..first_of(column + 1);
            let Some((who, bytes_here)) = members
                .map(|rank| (rank, held[rank].get(row.site).map_or(0, |site| site.bytes)))
                .max_by_key(|&(rank, bytes)| (bytes, std::cmp::Reverse(rank)))
            else {
                continue;
            };
            let rank = &fleet.ranks[who].rank;
            let among = if span.len() > 1 { format!(", the most of {} ranks", span.len()) } else { String::new() };
            svg.title(Some(&format!("{}\nrank {}{among}: {}", row.site, rank.rank, bytes(bytes_here))));
            let gap = if columns <= 80 { 8 } else { 0 };
            draw::rect(area, (x(column), px(y) + 4), (x(column + 1) - gap, px(y + ROW) - 4), shade(bytes_here, most))?;
        }
        svg.title(None);
    }
    scale(area, most, TOP + rows.len() as i32 * ROW + 22, left)
}

/// Numbers of ranks, and the spans of groups above them.
fn header(svg: &Svg, area: &Area, fleet: &Fleet, spans: &[&[RankRow]], x: impl Fn(usize) -> i32) -> Drawn {
    let mut column = 0;
    while column < spans.len() {
        let group = &spans[column][0].group;
        let end = spans[column..].iter().position(|span| span[0].group != *group).map_or(spans.len(), |n| column + n);
        let (from, to) = (x(column) + 4, x(end) - 12);
        draw::line(area, &[(from, px(46)), (to, px(46))], draw::stroke(MUTED, 10))?;
        if fleet.groups.len() > 1 && to - from > px(8) {
            let name = if to - from > px(60) { format!("group {group}") } else { group.clone() };
            draw::text(area, &name, (from, px(38)), &SMALL.colour(MUTED))?;
        }
        column = end;
    }
    let every = spans.len().div_ceil(26).max(1);
    for (column, span) in spans.iter().enumerate() {
        let failed = span.iter().find(|row| !row.rank.ooms.is_empty());
        let rank = failed.unwrap_or(&span[0]).rank.rank;
        if column % every == 0 || failed.is_some() {
            let colour = if failed.is_some() { ALARM } else { MUTED };
            svg.title(failed.map(|_| format!("rank {rank} failed")).as_deref());
            draw::text(area, &rank.to_string(), (x(column) + 4, px(64)), &AXIS.colour(colour))?;
            svg.title(None);
        }
    }
    draw::text(area, "rank", (x(0) - px(8), px(64)), &AXIS.right())
}

/// What the colours mean.
fn scale(area: &Area, most: u64, y: i32, left: i32) -> Drawn {
    const STEPS: i32 = 40;
    for step in 0..STEPS {
        let value = (most as u128 * step as u128 / (STEPS - 1) as u128) as u64;
        let from = px(left) + px(220) * step / STEPS;
        draw::rect(area, (from, px(y)), (from + px(220) / STEPS, px(y + 10)), shade(value, most))?;
    }
    draw::text(area, "0 B", (px(left), px(y + 20)), &SMALL.colour(MUTED))?;
    draw::text(area, &bytes(most), (px(left + 220), px(y + 20)), &SMALL.right().colour(MUTED))
}

/// The square root of the share sets the colour: small amounts are to be seen beside large ones.
fn shade(value: u64, most: u64) -> Rgb {
    let share = (value as f64 / most as f64).sqrt();
    let mix = |low: u8, high: u8| (f64::from(low) + (f64::from(high) - f64::from(low)) * share).round() as u8;
    (mix(LOW.0, HIGH.0), mix(LOW.1, HIGH.1), mix(LOW.2, HIGH.2))
}
