//! The timeline picture: who holds memory over time, stacked by site, below what was reserved and what there was.
//!
//! One panel a device, all on the same scale. [`Series`] in, one self-contained SVG out; its size depends on the
//! picture's width and the number of bands, never on the number of events.

mod areas;
mod axes;
mod content;
mod data;
mod frame;
mod lanes;
mod legend;
mod marks;
mod overlay;
mod panel;
mod text;

pub use text::timeline_text;

use plotters::prelude::IntoDrawingArea;
use plotters::style::WHITE;

pub(in crate::render) use data::Data as Drawn;

use super::draw;
use super::svg::{Svg, px};
use crate::analysis::series::{Series, What};
use content::Panel;
use frame::Frame;

/// Most panels in one picture.
const MAX_PANELS: usize = 64;
/// Columns over all panels that are drawn: this and the next bound the file whatever comes in.
pub const MAX_COLUMNS: usize = 3_200;
/// Marks of one kind over all panels; more in one panel would be a solid area.
const MAX_MARKS: usize = 400;
/// Bands of one panel that are drawn, where each is a group.
const MAX_BANDS: usize = 24;
/// Ribbons (single blocks or segments) over all panels.
const MAX_RIBBONS: usize = 1_000;
/// Longest picture, in bytes: with more the ribbons are halved in number.
const MAX_LENGTH: usize = 1_900_000;

/// What the caller decides about a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineOptions {
    /// Whose memory it is: the file's name, for the title.
    pub title: String,
    /// Width of the picture in pixels, 600 to 8000.
    pub width: u32,
    /// Height of one panel's plot in pixels, 200 to 4000; more is used where the legend needs it. By default 420, and
    /// 240 when there are several devices.
    pub height: Option<u32>,
}

impl Default for TimelineOptions {
    fn default() -> Self {
        Self { title: String::new(), width: 1_200, height: None }
    }
}

/// Draws the series, one panel a device (at most 64), as an SVG file.
///
/// Never fails: a series without columns gives a panel that says so, and values or columns that do not fit together are
/// taken as zero.
pub fn timeline_svg(series: &[Series], options: &TimelineOptions) -> String {
    titled_svg(series, &vec![options.title.as_str(); series.len()], options)
}

/// [`timeline_svg`] of several files: each panel, in the order of `series`, has the title of its file. Panels without
/// one have that of `options`.
pub fn titled_svg(series: &[Series], titles: &[&str], options: &TimelineOptions) -> String {
    let mut ribbons = MAX_RIBBONS;
    loop {
        let svg = draw_all(series, titles, options, ribbons);
        let has_ribbons = series.iter().any(|series| series.what != What::Live);
        if svg.len() <= MAX_LENGTH || !has_ribbons || ribbons == 0 {
            return svg;
        }
        ribbons /= 2;
    }
}

/// The picture with at most this many ribbons.
fn draw_all(series: &[Series], titles: &[&str], options: &TimelineOptions, ribbons: usize) -> String {
    let shown = &series[..series.len().min(MAX_PANELS)];
    let width = options.width.clamp(600, 8_000);
    let height = options.height.unwrap_or(if shown.len() > 1 { 240 } else { 420 }).clamp(200, 4_000);
    let share = |total: usize| total / shown.len().max(1);
    let columns = share(MAX_COLUMNS).min(2 * width as usize);
    let bands = |series: &Series| if series.what == What::Live { MAX_BANDS } else { share(ribbons) };

    let panels: Vec<Panel> = shown.iter().map(|s| Panel::new(s, columns, bands(s), share(MAX_MARKS))).collect();
    // One scale for all, so that panels can be compared.
    let top = panels.iter().map(Panel::scale_top).max().unwrap_or(0);
    let mut frames: Vec<Frame> = Vec::new();
    let mut y = 0;
    for panel in &panels {
        let frame = panel.layout(width as i32, height as i32, y);
        y = frame.bottom;
        frames.push(frame);
    }
    let left_out = series.len() - shown.len();
    let notes = if left_out > 0 || panels.is_empty() { 30 } else { 0 };

    let svg = Svg::new(width, y as u32 + notes);
    svg.label(&format!("Memory over time: {}", options.title));
    let area = svg.backend().into_drawing_area();
    // The backend cannot fail, and every size above is positive: there is no error to hand on.
    let _ = area.fill(&WHITE);
    for (at, (panel, frame)) in panels.iter().zip(&frames).enumerate() {
        let _ = panel.draw(&svg, &area, frame, top, titles.get(at).unwrap_or(&options.title.as_str()));
    }
    if notes > 0 {
        let note = match left_out {
            0 => "no device".to_owned(),
            n => format!("{n} more devices are not shown"),
        };
        let _ = draw::text(&area, &note, (px(16), px(y) + px(15)), &draw::LABEL);
    }
    svg.finish()
}
