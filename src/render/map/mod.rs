//! The map: every segment as a row, and what lies in it.
//!
//! One panel a device; rows by pool and stream, those of one pool on one scale. [`Layout`]s in, one self-contained SVG
//! out, whose size is bounded by the layouts' rows and cells.

mod legend;
mod paint;
mod panel;

use plotters::prelude::IntoDrawingArea;
use plotters::style::WHITE;

use super::draw;
use super::svg::{Svg, px};
use crate::analysis::layout::Layout;
use panel::Panel;

/// Most panels in one picture.
const MAX_PANELS: usize = 16;

/// What blocks are coloured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourBy {
    /// Live, waiting, free in one way or another.
    #[default]
    State,
    /// The line that allocated them.
    Site,
    /// What they are for; for layouts by category.
    Category,
}

impl ColourBy {
    /// Whether live blocks have colours of their own.
    fn has_groups(self) -> bool {
        self != Self::State
    }
}

/// What the caller decides about a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapOptions {
    /// Whose memory it is: the file's name, for the title.
    pub title: String,
    /// Width of the picture in pixels, 800 to 8000.
    pub width: u32,
    /// What blocks are coloured by.
    pub colour: ColourBy,
}

impl Default for MapOptions {
    fn default() -> Self {
        Self { title: String::new(), width: 1_200, colour: ColourBy::State }
    }
}

/// Draws the layouts, one panel a device (at most 16), as an SVG file. Never fails: without memory a panel says so.
pub fn map_svg(layouts: &[Layout], options: &MapOptions) -> String {
    let shown = &layouts[..layouts.len().min(MAX_PANELS)];
    let width = options.width.clamp(800, 8_000) as i32;
    let panels: Vec<Panel> = shown.iter().map(|layout| Panel::new(layout, options)).collect();
    let height: i32 = panels.iter().map(Panel::height).sum();
    let left_out = layouts.len() - shown.len();
    let notes = if left_out > 0 || panels.is_empty() { 30 } else { 0 };
    let svg = Svg::new(width as u32, (height + notes).max(1) as u32);
    svg.label(&format!("Map of memory: {}", options.title));
    let area = svg.backend().into_drawing_area();
    // The backend cannot fail, and every size above is positive: there is no error to hand on.
    let _ = area.fill(&WHITE);
    let mut top = 0;
    for panel in &panels {
        let _ = panel.draw(&svg, &area, top, width);
        top += panel.height();
    }
    if notes > 0 {
        let note = match left_out {
            0 => "no device".to_owned(),
            n => format!("{n} more devices are not shown"),
        };
        let _ = draw::text(&area, &note, (px(16), px(top) + px(15)), &draw::LABEL);
    }
    svg.finish()
}
