//! The legend: one row a colour, in the order of the stack, with its bytes at the peak; then the lines.

use super::data::Data;
use super::draw::{self, AXIS, Area, Drawn, LABEL, MUTED};
use crate::analysis::series::{OTHER, Series, What};
use crate::render::palette::Paint;
use crate::render::svg::{Rgb, Svg, px, shorten_to};
use crate::render::terminal::names::{shared_directory, without};
use crate::units::bytes;

/// Height of a row in pixels.
const ROW: i32 = 17;

/// A row below the bands: a sample of the line, what it is, its figure.
pub(super) struct LineRow {
    pub colour: Rgb,
    pub dash: Option<(u32, u32)>,
    pub name: &'static str,
    pub figure: String,
}

/// Height in pixels for this many groups and lines.
pub(super) fn height(groups: usize, lines: usize) -> i32 {
    // Heading, total, and a gap before the lines.
    (groups + lines + 2) as i32 * ROW + ROW / 2 + 4
}

/// What the rows stand for.
pub(super) fn heading(series: &Series) -> &'static str {
    match (series.what, series.by) {
        (What::Segments, _) => "reserved in pool, stream",
        (What::Blocks, _) => "blocks allocated by",
        (What::Live, "site") => "allocated by",
        (What::Live, "size") => "in blocks of",
        (What::Live, by) => by,
    }
}

/// What is grey.
pub(super) fn others(series: &Series) -> &'static str {
    match series.what {
        What::Live => OTHER,
        What::Blocks => "all other blocks",
        What::Segments => "all other segments",
    }
}

/// The tooltip of a band.
pub(super) fn tooltip(series: &Series, data: &Data, band: usize) -> String {
    let Some(row) = data.bands.get(band) else { return String::new() };
    let mut text = row.site.clone().unwrap_or_else(|| others(series).to_owned());
    for part in row.detail.iter() {
        text.push('\n');
        text.push_str(part);
    }
    // A block has its size, and either exists at the peak or does not.
    if series.what == What::Live || row.together {
        let at_peak = row.values.get(data.peak).copied().unwrap_or(0);
        let most = row.values.iter().copied().max().unwrap_or(0);
        text.push_str(&format!("\n{} at the peak, at most {}", bytes(at_peak), bytes(most)));
    }
    text
}

/// The tooltip of a row.
fn group_tooltip(series: &Series, data: &Data, at: usize) -> String {
    let group = &data.groups[at];
    let name = group.site.as_deref().unwrap_or_else(|| others(series));
    let mut text = format!("{name}\n{} at the peak, at most {}", bytes(group.at_peak), bytes(group.most));
    if series.what == What::Live {
        if let Some(band) = data.bands.iter().position(|row| row.group == at) {
            text = tooltip(series, data, band);
        }
    } else if group.site.is_some() && group.bands > 0 {
        text += &format!("\n{} drawn one by one", group.bands);
    }
    text
}

/// Draws the legend into `left .. right`, from `top` down (drawing units).
pub(super) fn draw(
    svg: &Svg,
    area: &Area,
    series: &Series,
    data: &Data,
    paints: &[Paint],
    lines: &[LineRow],
    (left, right, top): (i32, i32, i32),
) -> Drawn {
    let mut y = top + px(ROW) / 2;
    draw::text(area, heading(series), (left, y), &AXIS)?;
    draw::text(area, "at the peak", (right, y), &AXIS.right())?;
    let swatch = px(12);
    let shared = shared_directory(data.groups.iter().filter_map(|group| group.site.as_deref()));
    // From the top of the stack down, so that the eye finds a band where the legend has it.
    for (i, group) in data.groups.iter().enumerate().rev() {
        y += px(ROW);
        let figure = bytes(group.at_peak);
        let times =
            if series.what != What::Live && group.bands > 1 { format!(" ×{}", group.bands) } else { String::new() };
        let room = right - left - px(18) - LABEL.width(&figure) - LABEL.width(&times) - px(10);
        svg.title(Some(&group_tooltip(series, data, i)));
        if let Some(paint) = paints.get(i) {
            svg.fill(paint.pattern);
            draw::rect(area, (left, y - swatch / 2), (left + swatch, y + swatch / 2), paint.colour)?;
            svg.fill(None);
        }
        let (name, style) = match &group.site {
            Some(site) => (format!("{}{times}", shorten_to(without(site, shared), room, LABEL.size)), LABEL),
            None => (others(series).to_owned(), LABEL.colour(MUTED)),
        };
        draw::text(area, &name, (left + px(18), y), &style)?;
        draw::text(area, &figure, (right, y), &style.right())?;
        svg.title(None);
    }
    y += px(ROW + 4);
    draw::line(area, &[(left, y - px(ROW + 2) / 2), (right, y - px(ROW + 2) / 2)], draw::stroke(draw::GRID, 10))?;
    let bold = draw::Text { bold: true, ..LABEL };
    draw::text(area, "sum", (left + px(18), y), &bold)?;
    draw::text(area, &bytes(data.peak_total()), (right, y), &bold.right())?;
    y += px(ROW) / 2;
    for row in lines {
        y += px(ROW);
        svg.dash(row.dash);
        draw::line(area, &[(left, y), (left + swatch, y)], draw::stroke(row.colour, 15))?;
        svg.dash(None);
        draw::text(area, row.name, (left + px(18), y), &LABEL)?;
        draw::text(area, &row.figure, (right, y), &LABEL.right())?;
    }
    Ok(())
}
