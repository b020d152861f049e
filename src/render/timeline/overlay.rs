//! What stands above the areas: capacity, OOMs, steps, the peak, and their labels.

use std::collections::BTreeSet;

use plotters::style::Color;

use super::draw::{self, ALARM, Area, Drawn, INK, LABEL, MUTED};
use super::frame::{Chart, DASH, Frame, LABEL_ROW, Panel};
use super::marks::OFFSET;
use crate::analysis::series::{Mark, MarkKind, Unit};
use crate::render::svg::{Rgb, Svg, px};
use crate::units::{bytes, count, duration};

/// Lines of marks closer than this (drawing units) look like one, and only one is drawn.
const NEAR: i32 = 15;

/// Draws it all.
pub(super) fn draw(svg: &Svg, area: &Area, chart: &Chart, panel: &Panel, frame: &Frame) -> Drawn {
    steps(svg, area, chart, panel)?;
    capacity_line(svg, area, chart, panel)?;
    let drawn = marks(svg, area, chart, panel, frame)?;
    capacity_label(svg, area, chart, panel, &drawn)
}

/// Drawing units of a point of the chart.
fn at(chart: &Chart, panel: &Panel, x: u64, value: u64) -> (i32, i32) {
    chart.backend_coord(&(x.saturating_sub(panel.data.x0) as f64, value as f64))
}

fn steps(svg: &Svg, area: &Area, chart: &Chart, panel: &Panel) -> Drawn {
    let ys = chart.plotting_area().get_pixel_range().1;
    let mut last = None;
    let style = draw::rgb(INK).mix(0.3).stroke_width(8);
    for mark in panel.marks.iter().filter(|m| m.kind == MarkKind::Step).take(panel.max_marks) {
        let x = at(chart, panel, mark.x, 0).0;
        // Boundaries that follow each other closely would darken the picture: they show as a comb above the axis.
        let dense = last.is_some_and(|l: i32| x.abs_diff(l) < px(12) as u32);
        if last.is_some_and(|l: i32| x.abs_diff(l) < NEAR as u32) {
            continue;
        }
        last = Some(x);
        svg.title(Some(&tooltip(panel, mark)));
        let from = if dense { ys.end - px(5) } else { ys.start };
        area.draw(&plotters::element::PathElement::new([(x, from), (x, ys.end)], style))?;
    }
    svg.title(None);
    Ok(())
}

/// Draws the peak, then the OOMs over it, then the peak's dot; returns the x of every vertical line.
fn marks(svg: &Svg, area: &Area, chart: &Chart, panel: &Panel, frame: &Frame) -> Result<BTreeSet<i32>, draw::Error> {
    let mut xs = BTreeSet::new();
    let of = |kind| panel.marks.iter().enumerate().filter(move |(_, m)| m.kind == kind);
    let peak = of(MarkKind::Peak).next().map(|(i, mark)| (i, mark, at(chart, panel, mark.x, panel.data.peak_total())));
    if let Some((i, mark, (x, y))) = peak {
        svg.title(Some(&tooltip(panel, mark)));
        if let Some(from) = label(area, frame, i, x, INK)? {
            xs.insert(x);
            draw::line(area, &[(x, from), (x, y)], draw::stroke(INK, 9))?;
        }
    }
    let mut drawn = BTreeSet::new();
    for (i, mark) in of(MarkKind::Oom).rev().take(panel.max_marks) {
        let (x, bottom) = at(chart, panel, mark.x, 0);
        svg.title(Some(&tooltip(panel, mark)));
        let from = label(area, frame, i, x, ALARM)?;
        if from.is_some() || drawn.range(x - NEAR..=x + NEAR).next().is_none() {
            drawn.insert(x);
            draw::line(area, &[(x, from.unwrap_or(px(frame.plot.1))), (x, bottom)], draw::stroke(ALARM, 13))?;
        }
    }
    if let Some((_, mark, point)) = peak {
        svg.title(Some(&tooltip(panel, mark)));
        draw::dot(area, point, INK)?;
    }
    svg.title(None);
    xs.append(&mut drawn);
    Ok(xs)
}

/// Draws the label of mark `i` beside its leader at `x`; returns where the leader starts. `None` when it has no place.
fn label(area: &Area, frame: &Frame, i: usize, x: i32, colour: Rgb) -> Result<Option<i32>, draw::Error> {
    let Some((_, text, place)) = frame.labels.iter().find(|l| l.0 == i) else { return Ok(None) };
    let y = px(frame.plot.1 - 6 - LABEL_ROW / 2 - place.row as i32 * LABEL_ROW);
    // Flags are set towards their leader, so that the estimate of their width does not show.
    let style = LABEL.colour(colour);
    match place.left > x {
        true => draw::text(area, text, (x + OFFSET, y), &style)?,
        false => draw::text(area, text, (x - OFFSET, y), &style.right())?,
    }
    Ok(Some(y - px(6)))
}

fn capacity_line(svg: &Svg, area: &Area, chart: &Chart, panel: &Panel) -> Drawn {
    let Some(capacity) = panel.series.capacity.filter(|&c| visible(chart, c)) else { return Ok(()) };
    let xs = chart.plotting_area().get_pixel_range().0;
    let y = at(chart, panel, 0, capacity).1;
    svg.title(Some(&format!("capacity {}", bytes(capacity))));
    svg.dash(Some(DASH));
    draw::line(area, &[(xs.start, y), (xs.end, y)], draw::stroke(MUTED, 12))?;
    svg.dash(None);
    svg.title(None);
    Ok(())
}

/// The label of the capacity, above its line where no vertical line crosses it.
fn capacity_label(svg: &Svg, area: &Area, chart: &Chart, panel: &Panel, lines: &BTreeSet<i32>) -> Drawn {
    let Some(capacity) = panel.series.capacity else { return Ok(()) };
    let (xs, ys) = chart.plotting_area().get_pixel_range();
    let (text, y) = match visible(chart, capacity) {
        true => (format!("capacity {}", bytes(capacity)), at(chart, panel, 0, capacity).1 - px(8)),
        false => (format!("↑ capacity {}", bytes(capacity)), ys.start + px(8)),
    };
    let width = LABEL.width(&text);
    let (first, last) = (xs.start + px(6), xs.end - width - px(6));
    let free = |left: &i32| lines.range(left - px(3)..=left + width + px(3)).next().is_none();
    let left = (0..=12).map(|i| first + (last - first) * i / 12).find(free).unwrap_or(first);
    svg.halo(true);
    draw::text(area, &text, (left, y), &LABEL.colour(MUTED))?;
    svg.halo(false);
    Ok(())
}

fn visible(chart: &Chart, value: u64) -> bool {
    value as f64 <= chart.y_range().end
}

fn tooltip(panel: &Panel, mark: &Mark) -> String {
    match panel.series.unit {
        Unit::Event => format!("{}\nevent {}", mark.label, count(mark.x)),
        Unit::Microseconds => format!("{}\n{} after the first event", mark.label, duration(mark.x)),
    }
}
