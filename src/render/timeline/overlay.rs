//! What stands above the areas: capacity, OOMs, steps, the peak, and their labels.

use std::collections::BTreeSet;

use plotters::style::Color;

use super::content::Panel;
use super::draw::{self, ALARM, Area, Drawn, INK, LABEL};
use super::frame::{Chart, DASH, Frame, LABEL_ROW};
use super::marks::OFFSET;
use crate::analysis::series::MarkKind;
use crate::render::svg::{Rgb, Svg, px};
use crate::units::bytes;

/// A bound that is the same all the time.
pub(super) struct Level {
    pub name: &'static str,
    pub value: u64,
    pub colour: Rgb,
}

impl Level {
    fn text(&self) -> String {
        format!("{} {}", self.name, bytes(self.value))
    }
}

/// Lines of marks closer than this (drawing units) look like one, and only one is drawn.
const NEAR: i32 = 15;

/// Draws it all.
pub(super) fn draw(svg: &Svg, area: &Area, chart: &Chart, panel: &Panel, frame: &Frame) -> Drawn {
    steps(svg, area, chart, panel)?;
    let levels = panel.levels();
    for level in &levels {
        level_line(svg, area, chart, panel, level)?;
    }
    let drawn = marks(svg, area, chart, panel, frame)?;
    level_labels(svg, area, chart, panel, &levels, &drawn)
}

/// Drawing units of a point of the chart.
fn at(chart: &Chart, panel: &Panel, x: u64, value: u64) -> (i32, i32) {
    chart.backend_coord(&(x.saturating_sub(panel.data.x0) as f64, value as f64))
}

fn steps(svg: &Svg, area: &Area, chart: &Chart, panel: &Panel) -> Drawn {
    let ys = chart.plotting_area().get_pixel_range().1;
    let mut last = None;
    let style = draw::rgb(INK).mix(0.3).stroke_width(8);
    let marks = || panel.marks.iter().filter(|m| m.kind == MarkKind::Step);
    // Of too many every so-manyth, for only the first would look as if the steps ended there.
    let stride = marks().count().div_ceil(panel.max_marks.max(1)).max(1);
    for mark in marks().step_by(stride) {
        let x = at(chart, panel, mark.x, 0).0;
        // Boundaries that follow each other closely would darken the picture: they show as a comb above the axis.
        let dense = last.is_some_and(|l: i32| x.abs_diff(l) < px(12) as u32);
        if last.is_some_and(|l: i32| x.abs_diff(l) < NEAR as u32) {
            continue;
        }
        last = Some(x);
        svg.title(Some(&panel.about(mark)));
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
        svg.title(Some(&panel.about(mark)));
        if let Some(from) = label(area, frame, i, x, INK)? {
            xs.insert(x);
            draw::line(area, &[(x, from), (x, y)], draw::stroke(INK, 9))?;
        }
    }
    let mut drawn = BTreeSet::new();
    for (i, mark) in of(MarkKind::Oom).rev().take(panel.max_marks) {
        let (x, bottom) = at(chart, panel, mark.x, 0);
        svg.title(Some(&panel.about(mark)));
        let from = label(area, frame, i, x, ALARM)?;
        if from.is_some() || drawn.range(x - NEAR..=x + NEAR).next().is_none() {
            drawn.insert(x);
            draw::line(area, &[(x, from.unwrap_or(px(frame.plot.1))), (x, bottom)], draw::stroke(ALARM, 13))?;
        }
    }
    if let Some((_, mark, point)) = peak {
        svg.title(Some(&panel.about(mark)));
        draw::dot(area, point, INK)?;
    }
    svg.title(None);
    xs.append(&mut drawn);
    Ok(xs)
}

/// Draws the label of mark `i` beside its leader at `x`; returns where the leader starts. `None` when it has no place.
fn label(area: &Area, frame: &Frame, i: usize, x: i32, colour: Rgb) -> Result<Option<i32>, draw::Error> {
    let Some((_, text, place)) = frame.labels.iter().find(|l| l.0 == i) else { return Ok(None) };
    let y = px(frame.plot.1 - frame.lanes.height() - 6 - LABEL_ROW / 2 - place.row as i32 * LABEL_ROW);
    // Flags are set towards their leader, so that the estimate of their width does not show.
    let style = LABEL.colour(colour);
    match place.left > x {
        true => draw::text(area, text, (x + OFFSET, y), &style)?,
        false => draw::text(area, text, (x - OFFSET, y), &style.right())?,
    }
    Ok(Some(y - px(6)))
}

fn level_line(svg: &Svg, area: &Area, chart: &Chart, panel: &Panel, level: &Level) -> Drawn {
    if !visible(chart, level.value) {
        return Ok(());
    }
    let xs = chart.plotting_area().get_pixel_range().0;
    let y = at(chart, panel, 0, level.value).1;
    svg.title(Some(&level.text()));
    svg.dash(Some(DASH));
    draw::line(area, &[(xs.start, y), (xs.end, y)], draw::stroke(level.colour, 12))?;
    svg.dash(None);
    svg.title(None);
    Ok(())
}

/// The labels of the levels, above their lines where no vertical line crosses them; those above the picture at its top.
fn level_labels(
    svg: &Svg,
    area: &Area,
    chart: &Chart,
    panel: &Panel,
    levels: &[Level],
    lines: &BTreeSet<i32>,
) -> Drawn {
    let (xs, ys) = chart.plotting_area().get_pixel_range();
    let mut taken: Vec<(i32, i32, i32)> = Vec::new();
    for level in levels {
        let (text, y) = match visible(chart, level.value) {
            true => (level.text(), at(chart, panel, 0, level.value).1 - px(8)),
            false => (format!("↑ {}", level.text()), ys.start + px(8)),
        };
        let width = LABEL.width(&text);
        let (first, last) = (xs.start + px(6), xs.end - width - px(6));
        let is_apart = |left: i32| {
            taken.iter().all(|&(from, to, other)| {
                left > to + px(6) || left + width + px(6) < from || y.abs_diff(other) >= px(16) as u32
            })
        };
        let free = |left: &i32| lines.range(left - px(3)..=left + width + px(3)).next().is_none() && is_apart(*left);
        let places = || (0..=12).map(|i| first + (last - first) * i / 12);
        let Some(left) = places().find(free).or_else(|| places().find(|&left| is_apart(left))) else { continue };
        taken.push((left, left + width, y));
        svg.halo(true);
        draw::text(area, &text, (left, y), &LABEL.colour(level.colour))?;
        svg.halo(false);
    }
    Ok(())
}

fn visible(chart: &Chart, value: u64) -> bool {
    value as f64 <= chart.y_range().end
}
