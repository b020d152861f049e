//! Where the parts of a panel stand.

use plotters::coord::cartesian::Cartesian2d;
use plotters::prelude::ChartContext;

use super::axes::Axis;
use super::lanes::Lanes;
use super::marks::Place;
use crate::render::svg::SvgBackend;

/// Dashes of the capacity line.
pub(super) const DASH: (u32, u32) = (48, 24);
/// Dashes of the line of requested bytes.
pub(super) const FINE_DASH: (u32, u32) = (16, 16);
/// Height of a row of mark labels, in pixels.
pub(super) const LABEL_ROW: i32 = 17;
pub(super) type Chart<'a> = ChartContext<'a, SvgBackend, Cartesian2d<Axis, Axis>>;

/// Where the parts of a panel are: pixels from the top left of the picture.
pub(super) struct Frame {
    pub top: i32,
    pub bottom: i32,
    /// The plot without its axis labels.
    pub plot: (i32, i32, i32, i32),
    pub legend: (i32, i32),
    /// Marks with a label, and where it stands.
    pub labels: Vec<(usize, String, Place)>,
    /// Named regions above the plot.
    pub lanes: Lanes,
}
