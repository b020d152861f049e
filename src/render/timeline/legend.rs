//! The legend: one row a band, in the order of the stack, with its bytes at the peak; then the lines.

use super::data::Data;
use super::draw::{self, AXIS, Area, Drawn, LABEL, MUTED};
use crate::analysis::series::OTHER;
use crate::render::palette::Paint;
use crate::render::svg::{Rgb, Svg, px, shorten_to};
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

/// Height in pixels for this many bands and lines.
pub(super) fn height(bands: usize, lines: usize) -> i32 {
    // Heading, total, and a gap before the lines.
    (bands + lines + 2) as i32 * ROW + ROW / 2 + 4
}

/// The tooltip of a band.
pub(super) fn tooltip(data: &Data, band: usize) -> String {
    let Some(row) = data.bands.get(band) else { return String::new() };
    let mut text = row.site.clone().unwrap_or_else(|| "all other sites".to_owned());
    for part in row.detail.iter() {
        text.push('\n');
        text.push_str(part);
    }
    let at_peak = row.values.get(data.peak).copied().unwrap_or(0);
    let most = row.values.iter().copied().max().unwrap_or(0);
    text.push_str(&format!("\n{} at the peak, at most {}", bytes(at_peak), bytes(most)));
    text
}

/// Draws the legend into `left .. right`, from `top` down (drawing units).
pub(super) fn draw(
    svg: &Svg,
    area: &Area,
    data: &Data,
    paints: &[Paint],
    lines: &[LineRow],
    (left, right, top): (i32, i32, i32),
) -> Drawn {
    let mut y = top + px(ROW) / 2;
    draw::text(area, "allocated by", (left, y), &AXIS)?;
    draw::text(area, "at the peak", (right, y), &AXIS.right())?;
    let swatch = px(12);
    // From the top of the stack down, so that the eye finds a band where the legend has it.
    for (i, row) in data.bands.iter().enumerate().rev() {
        y += px(ROW);
        let figure = bytes(row.values.get(data.peak).copied().unwrap_or(0));
        let room = right - left - px(18) - LABEL.width(&figure) - px(10);
        svg.title(Some(&tooltip(data, i)));
        if let Some(paint) = paints.get(i) {
            svg.fill(paint.pattern);
            draw::rect(area, (left, y - swatch / 2), (left + swatch, y + swatch / 2), paint.colour)?;
            svg.fill(None);
        }
        let name = shorten_to(row.site.as_deref().unwrap_or(OTHER), room, LABEL.size);
        let style = if row.site.is_some() { LABEL } else { LABEL.colour(MUTED) };
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
