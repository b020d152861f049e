//! The few strokes that a panel is drawn with, and their looks.

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::prelude::{DrawingArea, DrawingAreaErrorKind, IntoFont};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, RGBColor, ShapeStyle, TextStyle};

use crate::render::svg::{Rgb, SvgBackend, text_width};

pub(super) type Area = DrawingArea<SvgBackend, Shift>;
pub(super) type Error = DrawingAreaErrorKind<std::convert::Infallible>;
pub(super) type Drawn = Result<(), Error>;

pub(super) const INK: Rgb = (0x22, 0x22, 0x22);
pub(super) const MUTED: Rgb = (0x66, 0x66, 0x66);
pub(super) const GRID: Rgb = (0xe2, 0xe2, 0xe2);
/// Reserved memory that no band covers.
pub(super) const IDLE: Rgb = (0xf1, 0xf1, 0xf1);
pub(super) const WHITE: Rgb = (0xff, 0xff, 0xff);
pub(super) const ALARM: Rgb = (0xc6, 0x00, 0x1c);

/// How a text is set. Sizes in drawing units.
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub size: i32,
    pub colour: Rgb,
    pub bold: bool,
    pub align: HPos,
}

pub(super) const TITLE: Text = Text { size: 150, colour: INK, bold: true, align: HPos::Left };
pub(super) const LABEL: Text = Text { size: 115, colour: INK, bold: false, align: HPos::Left };
pub(super) const AXIS: Text = Text { size: 115, colour: MUTED, bold: false, align: HPos::Left };

impl Text {
    pub fn right(self) -> Self {
        Self { align: HPos::Right, ..self }
    }

    pub fn colour(self, colour: Rgb) -> Self {
        Self { colour, ..self }
    }

    pub fn width(self, text: &str) -> i32 {
        text_width(text, self.size, self.bold)
    }

    /// The style for plotters; texts stand centred on their y.
    pub fn style(self) -> TextStyle<'static> {
        let font = ("sans-serif", self.size).into_font();
        let font = if self.bold { font.style(FontStyle::Bold) } else { font };
        TextStyle { font, color: rgb(self.colour).to_backend_color(), pos: Pos::new(self.align, VPos::Center) }
    }
}

pub(super) fn rgb((r, g, b): Rgb) -> RGBColor {
    RGBColor(r, g, b)
}

pub(super) fn stroke(colour: Rgb, width: u32) -> ShapeStyle {
    rgb(colour).stroke_width(width)
}

pub(super) fn text(area: &Area, text: &str, at: (i32, i32), style: &Text) -> Drawn {
    area.draw_text(text, &style.style(), at)
}

pub(super) fn line(area: &Area, points: &[(i32, i32)], style: ShapeStyle) -> Drawn {
    area.draw(&PathElement::new(points, style))
}

pub(super) fn rect(area: &Area, from: (i32, i32), to: (i32, i32), colour: Rgb) -> Drawn {
    area.draw(&Rectangle::new([from, to], rgb(colour).filled()))
}

/// A dot with a white rim, to be seen on any band.
pub(super) fn dot(area: &Area, at: (i32, i32), colour: Rgb) -> Drawn {
    area.draw(&Circle::new(at, 45, rgb((255, 255, 255)).filled()))?;
    area.draw(&Circle::new(at, 32, rgb(colour).filled()))
}
