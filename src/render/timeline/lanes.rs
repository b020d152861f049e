//! Steps and named regions as bars in lanes above the plot.

use super::content::Panel;
use super::draw::{self, Area, Drawn, Text};
use crate::analysis::series::MarkKind;
use crate::render::svg::{Rgb, Svg, px, shorten_to};

/// Height of a lane, in pixels.
const LANE: i32 = 15;
/// Most lanes.
const LANES: usize = 4;
/// Bars narrower than this (drawing units) are drawn as wide as this.
const NARROWEST: i32 = 12;
/// Space between a bar and its name.
const PAD: i32 = 30;

const NAME: Text = Text { size: 100, ..draw::LABEL };
/// Steps and regions; neighbours differ.
const STEPS: [Rgb; 2] = [(0xd5, 0xdd, 0xea), (0xe6, 0xeb, 0xf3)];
const REGIONS: [Rgb; 2] = [(0xf0, 0xe2, 0xc8), (0xf6, 0xed, 0xdc)];

/// A bar: the mark, and where it lies. Drawing units.
struct Bar {
    mark: usize,
    lane: usize,
    from: i32,
    to: i32,
}

/// Bars in lanes, steps in the lowest.
pub(super) struct Lanes {
    bars: Vec<Bar>,
    /// How many lanes are used.
    count: usize,
    /// Regions for which there was no lane.
    pub left_out: usize,
}

impl Lanes {
    /// Places the regions of `panel` between `left` and `right` (drawing units).
    pub fn new(panel: &Panel, left: i32, right: i32) -> Self {
        let mut lanes = Self { bars: Vec::new(), count: 0, left_out: 0 };
        let mut ends: Vec<i32> = Vec::new();
        let x = |at: u64| left + (panel.fraction(at) * f64::from(right - left)).round() as i32;
        for kind in [MarkKind::Step, MarkKind::Annotation] {
            let marks = panel.marks.iter().enumerate().filter(|(_, mark)| mark.kind == kind);
            let below = ends.len();
            // A row of slivers tells nothing, and a row of the first ones only would mislead.
            let number = marks.clone().count();
            if number > panel.max_marks || number as i32 > (right - left) / (3 * NARROWEST) {
                lanes.left_out += if kind == MarkKind::Annotation { number } else { 0 };
                continue;
            }
            for (mark, end, from) in marks.filter_map(|(i, mark)| Some((i, x(mark.x_end?), x(mark.x)))) {
                let (from, to) = (from.min(right - NARROWEST), end.max(from + NARROWEST).min(right));
                let free = ends.iter().skip(below).position(|&end| end <= from).map(|lane| below + lane);
                match free {
                    _ if lanes.bars.len() >= panel.max_marks => lanes.left_out += 1,
                    Some(lane) => {
                        ends[lane] = to;
                        lanes.bars.push(Bar { mark, lane, from, to });
                    }
                    None if ends.len() < LANES => {
                        lanes.bars.push(Bar { mark, lane: ends.len(), from, to });
                        ends.push(to);
                    }
                    None => lanes.left_out += 1,
                }
            }
        }
        lanes.count = ends.len();
        lanes
    }

    /// Height in pixels.
    pub fn height(&self) -> i32 {
        self.count as i32 * LANE + if self.count > 0 { 3 } else { 0 }
    }

    /// Draws the bars above `bottom` (pixels).
    pub fn draw(&self, svg: &Svg, area: &Area, panel: &Panel, bottom: i32) -> Drawn {
        let mut drawn = [0usize; LANES];
        for bar in &self.bars {
            let mark = &panel.marks[bar.mark];
            let y = px(bottom - 3 - bar.lane as i32 * LANE);
            let colours = if mark.kind == MarkKind::Step { STEPS } else { REGIONS };
            svg.title(Some(&panel.about(mark)));
            draw::rect(area, (bar.from, y - px(LANE - 1)), (bar.to, y), colours[drawn[bar.lane] % 2])?;
            drawn[bar.lane] += 1;
            let room = bar.to - bar.from - 2 * PAD;
            let short = mark.label.strip_prefix("step ").filter(|_| mark.kind == MarkKind::Step);
            let fits = |text: &str| NAME.width(text) <= room;
            let name = match short {
                _ if fits(&mark.label) => mark.label.as_str().into(),
                Some(number) if fits(number) => number.into(),
                None if room > px(50) => shorten_to(&mark.label, room, NAME.size),
                _ => "".into(),
            };
            if !name.is_empty() {
                draw::text(area, &name, (bar.from + PAD, y - px(LANE - 1) / 2), &NAME)?;
            }
        }
        svg.title(None);
        Ok(())
    }
}
