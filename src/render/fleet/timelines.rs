//! Each rank's memory over time in a small panel, all on one scale.

use plotters::element::Polygon;
use plotters::prelude::IntoDrawingArea;
use plotters::style::{Color, WHITE};

use crate::analysis::fleet::{Fleet, RankRow};
use crate::render::draw::{self, ALARM, Area, Drawn, GRID, INK, LABEL, MUTED, TITLE, Text};
use crate::render::svg::{Svg, px, shorten_to};
use crate::units::bytes;

/// Most panels.
const MAX_PANELS: usize = 128;
const COLUMNS: usize = 4;

/// Pixels.
const PANEL: (i32, i32) = (285, 92);
const PLOT: i32 = 52;
const MARGIN: i32 = 16;
const TOP: i32 = 44;

const SMALL: Text = Text { size: 100, ..LABEL };

/// The panels of `fleet`'s ranks as an SVG file; of many ranks those that are worth showing.
pub fn timelines(fleet: &Fleet) -> String {
    let shown = fleet.noteworthy(MAX_PANELS);
    let rows = shown.len().div_ceil(COLUMNS).max(1) as i32;
    let svg = Svg::new((2 * MARGIN + PANEL.0 * COLUMNS as i32) as u32, (TOP + rows * PANEL.1 + MARGIN) as u32);
    svg.label("Live memory of each rank over its trace");
    let area = svg.backend().into_drawing_area();
    // The backend cannot fail.
    let _ = area.fill(&WHITE);
    let top = shown.iter().map(|&at| fleet.ranks[at].rank.peak_live()).max().unwrap_or(0).max(1);
    let left_out = match fleet.ranks.len() - shown.len() {
        0 => String::new(),
        n => format!(", {n} more are not shown"),
    };
    let title = format!("Live memory of each rank over its trace · full height {}{left_out}", bytes(top));
    let _ = draw::text(&area, &title, (px(MARGIN), px(22)), &TITLE);
    for (place, &at) in shown.iter().enumerate() {
        let corner = (MARGIN + (place % COLUMNS) as i32 * PANEL.0, TOP + (place / COLUMNS) as i32 * PANEL.1);
        let _ = panel(&svg, &area, &fleet.ranks[at], top, corner);
    }
    svg.finish()
}

fn panel(svg: &Svg, area: &Area, row: &RankRow, top: u64, (left, y): (i32, i32)) -> Drawn {
    let rank = &row.rank;
    let failed = !rank.ooms.is_empty();
    let colour = if failed { ALARM } else { INK };
    let mut text = format!("rank {} · {} · peak {}", rank.rank, row.group, bytes(rank.peak_live()));
    if failed {
        text += " · OOM";
    } else if row.outlier.is_some() {
        text += " · odd";
    }
    svg.title(Some(&format!("{text}\n{}", rank.file)));
    let width = PANEL.0 - MARGIN;
    let bold = Text { bold: failed || row.outlier.is_some(), ..SMALL };
    draw::text(area, &shorten_to(&text, px(width), SMALL.size), (px(left), px(y + 10)), &bold.colour(colour))?;
    let (base, ceiling) = (px(y + 20 + PLOT), px(y + 20));
    draw::line(area, &[(px(left), base), (px(left + width), base)], draw::stroke(GRID, 8))?;
    let height = |value: u64| base - (i128::from(base - ceiling) * i128::from(value.min(top)) / i128::from(top)) as i32;
    let values = &rank.live_over_time;
    if values.is_empty() {
        draw::text(area, "no history", (px(left), (base + ceiling) / 2), &SMALL.colour(MUTED))?;
    } else {
        let x = |at: usize| px(left) + (i64::from(px(width)) * at as i64 / values.len() as i64) as i32;
        let mut points = vec![(px(left), base)];
        for (at, &value) in values.iter().enumerate() {
            points.extend([(x(at), height(value)), (x(at + 1), height(value))]);
        }
        points.push((px(left + width), base));
        area.draw(&Polygon::new(points, draw::rgb((0x5f, 0x74, 0x9e)).filled()))?;
    }
    if let Some(capacity) = rank.capacity.filter(|&capacity| capacity <= top) {
        draw::line(
            area,
            &[(px(left), height(capacity)), (px(left + width), height(capacity))],
            draw::stroke(ALARM, 8),
        )?;
    }
    for oom in &rank.ooms {
        let x = px(left) + (i64::from(px(width)) * i64::from(oom.event) / i64::from(rank.events.max(1))) as i32;
        draw::line(area, &[(x, base), (x, ceiling)], draw::stroke(ALARM, 12))?;
    }
    svg.title(None);
    Ok(())
}
