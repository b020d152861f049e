//! One device: heading, rows by pool and stream, legend.

use std::collections::BTreeMap;

use plotters::element::{PathElement, Polygon, Rectangle};
use plotters::style::Color;

use super::MapOptions;
use super::legend::Legend;
use super::paint::{Ink, Paints};
use crate::allocator::PoolKind;
use crate::analysis::layout::{Cell, Group, Layout, Row};
use crate::render::draw::{self, Area, Drawn, INK, LABEL, MUTED, TITLE, Text};
use crate::render::svg::{Svg, px, shorten_to};
use crate::render::terminal::moment_text;
use crate::units::{bytes, bytes_short, count};

/// Pixels: from row to row, height of a row's bar, room for a group's heading.
const PITCH: i32 = 14;
const BAR: i32 = 10;
const HEADING: i32 = 26;
/// Room above the first group, and below the last.
const TOP: i32 = 40;
const BOTTOM: i32 = 18;
/// Widths of the label columns beside the rows, and of the legend.
const LEFT: i32 = 124;
const RIGHT: i32 = 168;
const LEGEND: i32 = 270;
const MARGIN: i32 = 16;

/// Drawing units: live blocks are at least this wide, so that the smallest pin is seen.
const NARROWEST: i32 = 9;
/// Blocks wider than this get a gap behind them.
const SEPARABLE: i32 = 30;

const SMALL: Text = Text { size: 95, ..LABEL };

/// A device's layout, ready to be drawn.
pub(super) struct Panel<'a> {
    layout: &'a Layout,
    paints: Paints,
    legend: Legend,
    title: String,
}

impl<'a> Panel<'a> {
    pub fn new(layout: &'a Layout, options: &MapOptions) -> Self {
        let paints = Paints::new(layout, options.colour);
        let legend = Legend::new(layout, options.colour);
        let mut title = format!("device {}, {}", layout.device, moment_text(&layout.at));
        if !options.title.is_empty() {
            title = format!("{} · {title}", options.title);
        }
        Self { layout, paints, legend, title }
    }

    /// Pixels.
    pub fn height(&self) -> i32 {
        let groups = self.layout.groups.iter();
        let rows: i32 = groups.map(|group| HEADING + group.rows.len() as i32 * PITCH).sum();
        TOP + rows.max(self.legend.height()).max(HEADING) + BOTTOM
    }

    pub fn draw(&self, svg: &Svg, area: &Area, top: i32, width: i32) -> Drawn {
        let legend = (width - MARGIN - LEGEND, width - MARGIN);
        svg.title(Some(&self.title));
        let title = shorten_to(&self.title, px(width - 2 * MARGIN), TITLE.size * 115 / 100);
        draw::text(area, &title, (px(MARGIN), px(top + 22)), &TITLE)?;
        svg.title(None);
        let plot = (MARGIN + LEFT, legend.0 - RIGHT - MARGIN);
        let mut y = top + TOP;
        if self.layout.groups.is_empty() {
            draw::text(area, "no memory is reserved", (px(MARGIN), px(y + HEADING / 2)), &LABEL)?;
        }
        for group in &self.layout.groups {
            let scale = group.rows.iter().map(|row| row.span).max().unwrap_or(0).max(1);
            let heading = heading(group, scale);
            let room = px(legend.0 - MARGIN - MARGIN);
            svg.title(Some(&heading));
            let bold = Text { bold: true, ..SMALL };
            let text = shorten_to(&heading, room * 100 / 115, SMALL.size);
            draw::text(area, &text, (px(MARGIN), px(y + HEADING / 2 + 2)), &bold)?;
            svg.title(None);
            y += HEADING;
            for row in &group.rows {
                self.row(svg, area, group, row, scale, (plot, y))?;
                y += PITCH;
            }
        }
        self.legend.draw(svg, area, &self.paints, (px(legend.0), px(legend.1), px(top + TOP)))
    }

    fn row(
        &self,
        svg: &Svg,
        area: &Area,
        group: &Group,
        row: &Row,
        scale: u64,
        ((left, right), y): ((i32, i32), i32),
    ) -> Drawn {
        let middle = px(y) + px(BAR) / 2;
        let (label, figures) = labels(row);
        svg.title(Some(&row_tooltip(group, row)));
        draw::text(area, &label, (px(left) - px(8), middle), &SMALL.right().colour(MUTED))?;
        draw::text(area, &figures, (px(right) + px(8), middle), &SMALL.colour(INK))?;
        let (from, to) = (px(y), px(y + BAR));
        let x = |offset: u64| {
            let share = offset.min(scale) as f64 / scale as f64;
            px(left) + (share * f64::from(px(right - left))).round() as i32
        };
        let end = x(row.span).max(px(left) + NARROWEST);
        if row.total < row.span {
            // What is not mapped between the ranges of a reservation.
            area.draw(&PathElement::new([(px(left), middle), (end, middle)], draw::stroke(MUTED, 5)))?;
        }
        svg.title(None);
        let mut by_ink: BTreeMap<Ink, Vec<&Cell>> = BTreeMap::new();
        for cell in &row.cells {
            by_ink.entry(self.paints.ink(cell)).or_default().push(cell);
        }
        for (ink, cells) in by_ink {
            let paint = self.paints.paint(ink);
            svg.title(Some(&self.tooltip(ink, &cells, row)));
            svg.fill(paint.pattern);
            let is_block = matches!(ink, Ink::Live(_) | Ink::OtherSite | Ink::Pending);
            let comb = comb(&cells, x, (px(left), end), (from, to), is_block);
            if comb.len() > 2 {
                area.draw(&Polygon::new(comb, draw::rgb(paint.colour).filled()))?;
            }
            svg.fill(None);
            svg.title(None);
        }
        if row.total >= row.span {
            area.draw(&Rectangle::new([(px(left), from), (end, to)], draw::stroke(MUTED, 4)))?;
        }
        Ok(())
    }

    fn tooltip(&self, ink: Ink, cells: &[&Cell], row: &Row) -> String {
        let size: u64 = cells.iter().map(|cell| cell.size).sum();
        let number: u64 = cells.iter().map(|cell| cell.blocks).sum();
        let what = match ink {
            Ink::Releasable => "could be given back",
            Ink::PoolIdle => "idle in a private pool",
            Ink::Stranded => "free, but pinned",
            Ink::Pending => "freed, waiting for another stream",
            Ink::Live(site) if self.paints_sites() => {
                self.layout.sites.get(site as usize).map_or("live", |site| site.site.as_str())
            }
            Ink::Live(_) => "live",
            Ink::OtherSite => "live, other sites",
        };
        match row.segments {
            1 => format!(
                "{what}: {} in {} pieces\nof {} at {:#x}",
                bytes(size),
                count(number),
                bytes(row.total),
                row.address
            ),
            n => format!("{what}: {} on average\nin {} segments of {}", bytes(size), count(n), bytes(row.total)),
        }
    }

    fn paints_sites(&self) -> bool {
        self.legend.by.has_groups()
    }
}

/// What stands left and right of a row.
fn labels(row: &Row) -> (String, String) {
    let label = match row.segments {
        1 => format!("{:#x}", row.address),
        n => format!("{} segments", count(n)),
    };
    let of = if row.segments == 1 { "" } else { "each " };
    (label, format!("{of}{}, {} free", bytes(row.total), bytes(row.free)))
}

fn row_tooltip(group: &Group, row: &Row) -> String {
    let what = match (row.segments, group.expandable) {
        (1, true) => "expandable memory",
        (1, false) => "segment",
        _ => "segments, the first of them",
    };
    format!(
        "{what} at {:#x}\n{} reserved, {} free, {} of it pinned",
        row.address,
        bytes(row.total),
        bytes(row.free),
        bytes(row.stranded)
    )
}

fn heading(group: &Group, scale: u64) -> String {
    let kind = match group.kind {
        PoolKind::Small => "small blocks",
        PoolKind::Large => "large blocks",
    };
    let place = match (&group.stream, &group.pool) {
        (None, _) => "all other pools and streams".to_owned(),
        (Some(stream), None) => format!("default pool · stream {stream}"),
        (Some(stream), Some(pool)) => format!("private pool {pool} · stream {stream}"),
    };
    let noun = match (group.expandable, group.segments) {
        (true, 1) => "range of expandable memory",
        (true, _) => "ranges of expandable memory",
        (false, 1) => "segment",
        (false, _) => "segments",
    };
    format!(
        "{place} · {kind} · {} {noun}, {} reserved, {} free · full width {}",
        count(group.segments),
        bytes(group.total),
        bytes(group.free),
        bytes_short(scale)
    )
}

/// One outline around all `cells`: teeth on the lower edge of the row, joined without area.
fn comb(
    cells: &[&Cell],
    x: impl Fn(u64) -> i32,
    (left, right): (i32, i32),
    (top, bottom): (i32, i32),
    is_block: bool,
) -> Vec<(i32, i32)> {
    let mut points = Vec::with_capacity(4 * cells.len());
    let mut at = left;
    for cell in cells {
        let (mut from, mut to) = (x(cell.offset).max(at), x(cell.offset.saturating_add(cell.size)));
        if is_block {
            if to - from > SEPARABLE {
                to -= 5;
            }
            to = to.max(from + NARROWEST);
            if to > right {
                (from, to) = ((right - (to - from)).max(at), right);
            }
        }
        if to > from {
            points.extend([(from, bottom), (from, top), (to, top), (to, bottom)]);
            at = to;
        }
    }
    points
}
