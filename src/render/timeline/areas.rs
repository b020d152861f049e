//! The bands as areas: whole ones where each is a group, ribbons where each is one block or segment.

use plotters::element::Polygon;
use plotters::prelude::{AreaSeries, Color};

use super::content::Panel;
use super::data::Data;
use super::draw::{self, Area, Drawn, WHITE};
use super::frame::Chart;
use super::legend;
use crate::render::palette::{self, Paint};
use crate::render::svg::Svg;

/// Width of the rim of a ribbon, in drawing units.
const RIM: u32 = 4;
/// A ribbon lower than this (drawing units) has no rim, which would hide it.
const THICK: i32 = 20;
/// How much paler what is only reached at times is.
const PALE: f64 = 0.3;

/// One area a band.
pub(super) fn stacked(svg: &Svg, chart: &mut Chart, panel: &Panel) -> Drawn {
    let data = &panel.data;
    // Each area goes down to zero and is covered by the next smaller sum: half the points of true bands.
    let mut sums = data.totals.clone();
    for (i, row) in data.bands.iter().enumerate().rev() {
        let paint = paint(panel, row.group);
        svg.title(Some(&legend::tooltip(panel.series, data, i)));
        svg.fill(paint.pattern);
        chart.draw_series(AreaSeries::new(data.steps(&sums), 0.0, draw::rgb(paint.colour).filled()))?;
        svg.fill(None);
        sums.iter_mut().zip(&row.values).for_each(|(sum, v)| *sum = sum.saturating_sub(*v));
    }
    svg.title(None);
    Ok(())
}

/// One shape for each time without a gap that a band is there.
pub(super) fn ribbons(svg: &Svg, area: &Area, chart: &Chart, panel: &Panel) -> Drawn {
    let data = &panel.data;
    let mut base = vec![0u64; data.totals.len()];
    for (i, row) in data.bands.iter().enumerate() {
        let paint = paint(panel, row.group);
        svg.title(Some(&legend::tooltip(panel.series, data, i)));
        svg.fill(paint.pattern);
        // A band of several blocks must not have the rim that makes it look like one.
        let height = |value: u64| chart.backend_coord(&(0.0, 0.0)).1 - chart.backend_coord(&(0.0, value as f64)).1;
        let is_thick = row.values.iter().any(|&value| height(value) >= THICK);
        svg.outline((!row.together && is_thick).then_some(RIM));
        for run in runs(&row.values) {
            let points = outline(data, &base, &row.values, run).map(|(x, y)| chart.backend_coord(&(x, y)));
            area.draw(&Polygon::new(points.collect::<Vec<_>>(), draw::rgb(paint.colour).filled()))?;
        }
        svg.outline(None);
        svg.fill(None);
        base.iter_mut().zip(&row.values).for_each(|(sum, v)| *sum = sum.saturating_add(*v));
    }
    svg.title(None);
    Ok(())
}

/// Makes what the sum of the bands falls below within a column paler.
pub(super) fn swings(svg: &Svg, area: &Area, chart: &Chart, data: &Data) -> Drawn {
    let height: Vec<u64> = data.totals.iter().zip(&data.lowest).map(|(&top, &low)| top.saturating_sub(low)).collect();
    svg.title(Some("reached at times only: the sum goes up and down in here within a column of the picture"));
    for run in runs(&height) {
        let points = outline(data, &data.lowest, &height, run).map(|(x, y)| chart.backend_coord(&(x, y)));
        area.draw(&Polygon::new(points.collect::<Vec<_>>(), draw::rgb(WHITE).mix(PALE)))?;
    }
    svg.title(None);
    Ok(())
}

fn paint(panel: &Panel, group: usize) -> Paint {
    panel.paints.get(group).copied().unwrap_or(Paint { colour: palette::OTHER, pattern: None })
}

/// The runs of columns without a zero.
fn runs(values: &[u64]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + values.get(at..)?.iter().position(|&value| value > 0)?;
        at = values[start..].iter().position(|&value| value == 0).map_or(values.len(), |length| start + length);
        Some(start..at)
    })
}

/// The points around `values` on top of `base` in the columns of `run`: along the top, and back along the bottom.
fn outline<'d>(
    data: &'d Data,
    base: &'d [u64],
    values: &'d [u64],
    run: std::ops::Range<usize>,
) -> impl Iterator<Item = (f64, f64)> + 'd {
    let top = run.clone().flat_map(|column| {
        let y = base[column].saturating_add(values[column]) as f64;
        [(data.edges[column], y), (data.edges[column + 1], y)]
    });
    let bottom = run.rev().flat_map(|column| {
        let y = base[column] as f64;
        [(data.edges[column + 1], y), (data.edges[column], y)]
    });
    top.chain(bottom)
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_have_no_gaps() {
        let found = |values: &[u64]| super::runs(values).collect::<Vec<_>>();
        assert_eq!(found(&[0, 1, 2, 0, 0, 3]), [1..3, 5..6]);
        assert!(found(&[0, 0]).is_empty());
        assert!(found(&[]).is_empty());
    }
}
