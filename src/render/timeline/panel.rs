//! One device: title, labels of marks, plot, legend.

use plotters::chart::ChartBuilder;
use plotters::prelude::{AreaSeries, Color, LineSeries};
use plotters::style::TRANSPARENT;

use super::areas;
use super::axes::{self, Axis};
use super::content::Panel;
use super::data::Data;
use super::draw::{self, ALARM, AXIS, Area, Drawn, GRID, IDLE, INK, LABEL, MUTED, TITLE, WHITE};
use super::frame::{Chart, DASH, FINE_DASH, Frame, LABEL_ROW};
use super::lanes::Lanes;
use super::legend::{self, LineRow};
use super::marks::{self, Wanted};
use super::overlay::{self, Level};
use crate::analysis::series::{Mark, MarkKind, Series, Unit, What, size_classes};
use crate::analysis::steps::StepSource;
use crate::render::palette::{self, Paint};
use crate::render::svg::{Svg, px, shorten_to};
use crate::units::{bytes, count};

/// Widest mark label, in drawing units.
const LABEL_WIDTH: i32 = px(260);

impl<'a> Panel<'a> {
    pub fn new(series: &'a Series, columns: usize, max_bands: usize, max_marks: usize) -> Self {
        let data = Data::new(series, columns, max_bands);
        let paints = paints(series, &data);
        let mut marks = series.marks.clone();
        let has_peak = marks.iter().any(|m| m.kind == MarkKind::Peak);
        if let (false, Some(edge)) = (has_peak, data.edges.get(data.peak).filter(|_| data.peak_total() > 0)) {
            let label = format!("peak {}", bytes(data.peak_total()));
            marks.push(Mark { kind: MarkKind::Peak, x: data.x0.saturating_add(*edge as u64), x_end: None, label });
        }
        Self { series, data, paints, marks, max_marks }
    }

    /// The value that the common scale must reach: the capacity too, unless it would flatten everything else.
    pub fn scale_top(&self) -> u64 {
        let top = self.data.top();
        let levels = self.levels();
        levels.iter().map(|level| level.value).filter(|&value| value / 4 <= top).max().unwrap_or(0).max(top)
    }

    /// The bounds that are drawn as lines.
    pub fn levels(&self) -> Vec<Level> {
        let capacity = self.series.capacity.map(|value| Level { name: "capacity", value, colour: MUTED });
        let limit = self.series.limit.map(|limit| Level {
            name: if limit.exact { "limit" } else { "limit, at least" },
            value: limit.bytes,
            colour: ALARM,
        });
        capacity.into_iter().chain(limit).collect()
    }

    /// Places the panel below `top`; all in pixels.
    pub fn layout(&self, width: i32, height: i32, top: i32) -> Frame {
        let legend_width = (width * 27 / 100).clamp(220, 330);
        let (left, right) = (84, width - legend_width - 40);
        let wanted = self.wanted(px(left), px(right));
        let places = marks::place(&wanted.iter().map(|w| w.2).collect::<Vec<_>>(), px(left), px(width - 16));
        let labels: Vec<_> =
            wanted.into_iter().zip(places).filter_map(|((i, text, _), place)| Some((i, text, place?))).collect();
        let rows = labels.iter().map(|l| l.2.row as i32 + 1).max().unwrap_or(0);
        let lanes = Lanes::new(self, px(left), px(right));
        let plot_top = top + 40 + rows * LABEL_ROW + 6 + lanes.height();
        let height = height.max(legend::height(self.data.groups.len(), self.lines(&lanes).len()));
        let plot = (left, plot_top, right, plot_top + height);
        Frame { top, bottom: plot.3 + 52, plot, legend: (right + 24, width - 16), labels, lanes }
    }

    /// The marks that want a label, most important first: the last OOM, the peak, the OOMs before.
    fn wanted(&self, left: i32, right: i32) -> Vec<(usize, String, Wanted)> {
        let of = |kind| self.marks.iter().enumerate().filter(move |(_, m)| m.kind == kind);
        let mut ooms = of(MarkKind::Oom).rev().take(self.max_marks);
        let last = ooms.next();
        last.into_iter()
            .chain(of(MarkKind::Peak).take(1))
            .chain(ooms)
            .map(|(i, mark)| {
                let text = shorten_to(&mark.label, LABEL_WIDTH, LABEL.size).into_owned();
                let x = left + (self.fraction(mark.x) * f64::from(right - left)).round() as i32;
                let width = LABEL.width(&text);
                (i, text, Wanted { x, width })
            })
            .collect()
    }

    /// Position on the axis, 0 to 1.
    pub fn fraction(&self, x: u64) -> f64 {
        (x.saturating_sub(self.data.x0) as f64 / self.end()).clamp(0.0, 1.0)
    }

    fn end(&self) -> f64 {
        self.data.edges.last().copied().unwrap_or(1.0).max(1.0)
    }

    /// Bytes lost to rounding at the peak.
    fn rounding(&self) -> Option<u64> {
        let requested = *self.data.requested.get(self.data.peak)?;
        let active = *self.data.active.get(self.data.peak)?;
        (self.series.what != What::Segments).then(|| active.saturating_sub(requested))
    }

    /// Whether the line of requested bytes can be told from the sum.
    fn shows_requested(&self) -> bool {
        self.rounding().is_some_and(|rounding| rounding > self.data.peak_total() / 25)
    }

    fn lines(&self, lanes: &Lanes) -> Vec<LineRow> {
        let mut lines = Vec::new();
        let mut add = |colour, dash, name, figure| lines.push(LineRow { colour, dash, name, figure });
        let most = |values: &[u64]| values.iter().copied().max();
        if self.series.what == What::Segments {
            if let Some(most) = most(&self.data.active) {
                add(MUTED, None, "live (darker), at most", bytes(most));
            }
        } else {
            if let Some(rounding) = self.rounding() {
                let line = if self.shows_requested() { INK } else { WHITE };
                add(line, Some(FINE_DASH), "lost to rounding", bytes(rounding));
            }
            if let Some(most) = most(&self.data.reserved) {
                add(INK, None, "reserved, at most", bytes(most));
            }
        }
        for level in self.levels() {
            add(level.colour, Some(DASH), level.name, bytes(level.value));
        }
        let number = |kind| self.marks.iter().filter(|m| m.kind == kind).count() as u64;
        if number(MarkKind::Oom) > 0 {
            add(ALARM, None, "out of memory", format!("{}×", count(number(MarkKind::Oom))));
        }
        if number(MarkKind::Step) > 0 {
            let is_guess = matches!(self.series.steps, Some(StepSource::Period { .. }));
            let name = if is_guess { "steps, found by repetition" } else { "steps" };
            add(MUTED, None, name, count(number(MarkKind::Step)));
        }
        if lanes.left_out > 0 {
            add(WHITE, None, "regions not shown", count(lanes.left_out as u64));
        }
        lines
    }

    /// Draws the panel; `top` is the largest value on the scale of the picture.
    pub fn draw(&self, svg: &Svg, area: &Area, frame: &Frame, top: u64, title: &str) -> Drawn {
        let (left, plot_top, right, bottom) = frame.plot;
        let device = format!("device {}", self.series.device);
        let room = px(frame.legend.1 - left) - TITLE.width(&device) - px(30);
        svg.title(Some(title));
        let name = shorten_to(title, room, TITLE.size * 115 / 100);
        let heading = if name.is_empty() { device } else { format!("{name} · {device}") };
        draw::text(area, &heading, (px(left), px(frame.top + 22)), &TITLE)?;
        svg.title(None);

        let (x_axis, y_axis) = self.axes(left, px(right - left), top);
        let chart_area = area.clone().shrink((0, px(plot_top)), (px(right), px(bottom - plot_top + 42)));
        let mut chart = ChartBuilder::on(&chart_area)
            .y_label_area_size(px(left))
            .x_label_area_size(px(42))
            .build_cartesian_2d(x_axis, y_axis)?;
        self.areas(svg, area, &mut chart)?;
        frame.lanes.draw(svg, area, self, plot_top)?;
        overlay::draw(svg, area, &chart, self, frame)?;
        let at = (px(frame.legend.0), px(frame.legend.1), px(plot_top));
        legend::draw(svg, area, self.series, &self.data, &self.paints, &self.lines(&frame.lanes), at)
    }

    fn axes(&self, left: i32, width: i32, top: u64) -> (Axis, Axis) {
        // Room above the highest line for its label.
        let y_end = if top == 0 { 1_048_576.0 } else { top as f64 * 1.08 };
        let fits = |ticks: &[axes::Tick], distance: f64| {
            let widest = ticks.iter().map(|t| AXIS.width(&t.1)).max().unwrap_or(0);
            f64::from(widest + px(18)) <= distance * f64::from(width)
        };
        let mut x_ticks = match self.data.totals.is_empty() {
            true => Vec::new(),
            false => axes::x_ticks(self.data.x0, self.end(), self.series.unit, fits),
        };
        // A label of twenty digits at the left end would leave the picture.
        x_ticks
            .retain(|t| t.0 / self.end() * f64::from(width) + f64::from(px(left)) >= f64::from(AXIS.width(&t.1) / 2));
        (Axis { end: self.end(), ticks: x_ticks }, Axis { end: y_end, ticks: axes::byte_ticks(y_end) })
    }

    fn areas(&self, svg: &Svg, area: &Area, chart: &mut Chart) -> Drawn {
        let data = &self.data;
        if self.series.what != What::Segments {
            svg.title(Some("reserved by the allocator, held by no allocation"));
            chart.draw_series(AreaSeries::new(data.steps(&data.reserved), 0.0, draw::rgb(IDLE).filled()))?;
            svg.title(None);
        }
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(draw::stroke(GRID, 8))
            .axis_style(draw::stroke(MUTED, 10))
            .x_label_style(AXIS.style())
            .y_label_style(AXIS.style())
            .axis_desc_style(AXIS.style())
            .x_desc(match self.series.unit {
                Unit::Event => "event",
                Unit::Microseconds => "time since the first event",
            })
            .set_all_tick_mark_size(40)
            .draw()?;
        match self.series.what {
            What::Live => {
                areas::stacked(svg, chart, self)?;
                areas::swings(svg, area, chart, data)?;
            }
            What::Blocks => {
                areas::ribbons(svg, area, chart, self)?;
                areas::swings(svg, area, chart, data)?;
            }
            What::Segments => areas::ribbons(svg, area, chart, self)?,
        }
        if self.shows_requested() {
            svg.title(Some("asked for by the program; the rest of the blocks is lost to rounding"));
            svg.dash(Some(FINE_DASH));
            chart.draw_series(LineSeries::new(data.steps(&data.requested), draw::stroke(INK, 8)))?;
            svg.dash(None);
            svg.title(None);
        }
        if self.series.what == What::Segments {
            svg.title(Some("live: held by allocations"));
            chart.draw_series(AreaSeries::new(data.steps(&data.active), 0.0, draw::rgb(INK).mix(0.45)))?;
        } else {
            let most = data.reserved.iter().copied().max().unwrap_or(0);
            svg.title(Some(&format!("reserved, at most {}", bytes(most))));
            chart.draw_series(LineSeries::new(data.steps(&data.reserved), draw::stroke(INK, 14)))?;
        }
        svg.title(None);
        Ok(())
    }
}

/// A paint for each group. The largest come first, so that patterns fall to small ones.
fn paints(series: &Series, data: &Data) -> Vec<Paint> {
    let names = || data.groups.iter().map(|group| group.site.as_deref());
    match (series.what, series.by) {
        (What::Live, "size") => {
            let classes: Vec<String> = size_classes().collect();
            let place = |name: &str| classes.iter().position(|class| class == name).unwrap_or(0);
            names().map(|name| palette::shade(name.map(place), classes.len())).collect()
        }
        (What::Live, _) => palette::paints(names()),
        _ => {
            let mut order: Vec<usize> = (0..data.groups.len()).collect();
            order.sort_by_key(|&at| (std::cmp::Reverse(data.groups[at].most), at));
            let by_size = palette::paints(order.iter().map(|&at| data.groups[at].site.as_deref()));
            let mut paints = by_size.clone();
            order.iter().zip(by_size).for_each(|(&at, paint)| paints[at] = paint);
            paints
        }
    }
}
