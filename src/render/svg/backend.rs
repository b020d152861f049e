//! The plotters side: every drawing call becomes one element.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Write;
use std::rc::Rc;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontFamily,
    FontStyle, FontTransform,
};

use super::pattern::hex;
use super::{Document, UNITS, escape, metrics, path};

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// What [`super::Svg::backend`] returns. Coordinates, line widths and font sizes are in tenths of a pixel.
#[derive(Debug)]
pub struct SvgBackend {
    doc: Rc<RefCell<Document>>,
}

impl SvgBackend {
    pub(super) fn new(doc: Rc<RefCell<Document>>) -> Self {
        Self { doc }
    }

    /// Writes an element: its name, its geometry, its style. Invisible ones are left out.
    fn element(&self, style: &impl BackendStyle, filled: bool, geometry: impl FnOnce(&mut String)) -> Drawn {
        let color = style.color();
        if color.alpha <= 0.0 {
            return Ok(());
        }
        let mut doc = self.doc.borrow_mut();
        let paint = match &doc.fill {
            Some(id) if filled => format!("url(#{id})"),
            _ => hex(color.rgb),
        };
        let (dash, outline) = (doc.dash, doc.outline);
        let out = doc.shape();
        geometry(out);
        if filled {
            let _ = write!(out, " fill=\"{paint}\"");
            if let Some(width) = outline {
                let _ = write!(out, " stroke=\"#ffffff\" stroke-width=\"{width}\"");
            }
        } else {
            let _ = write!(out, " fill=\"none\" stroke=\"{paint}\"");
            let width = style.stroke_width();
            if width != 1 {
                let _ = write!(out, " stroke-width=\"{width}\"");
            }
            if let Some((on, off)) = dash {
                let _ = write!(out, " stroke-dasharray=\"{on} {off}\"");
            }
        }
        if color.alpha < 1.0 {
            let _ = write!(out, " opacity=\"{}\"", (color.alpha * 100.0).round() / 100.0);
        }
        out.push_str("/>\n");
        Ok(())
    }

    fn path(&self, points: impl IntoIterator<Item = BackendCoord>, style: &impl BackendStyle, closed: bool) -> Drawn {
        let mut d = String::new();
        path::write(&mut d, points, closed);
        if d.is_empty() {
            return Ok(());
        }
        self.element(style, closed, |out| {
            let _ = write!(out, "<path d=\"{d}\"");
        })
    }
}

impl DrawingBackend for SvgBackend {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        let (w, h) = self.doc.borrow().size;
        (w.saturating_mul(UNITS as u32), h.saturating_mul(UNITS as u32))
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Drawn {
        self.draw_rect((x, y), (x.saturating_add(1), y.saturating_add(1)), &color, true)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.element(style, false, |out| {
            let _ = write!(out, "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"", from.0, from.1, to.0, to.1);
        })
    }

    fn draw_rect<S: BackendStyle>(&mut self, a: BackendCoord, b: BackendCoord, style: &S, fill: bool) -> Drawn {
        self.element(style, fill, |out| {
            let (x, y) = (a.0.min(b.0), a.1.min(b.1));
            let _ = write!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\"",
                a.0.abs_diff(b.0),
                a.1.abs_diff(b.1)
            );
        })
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, points: I, style: &S) -> Drawn {
        self.path(points, style, false)
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, fill: bool) -> Drawn {
        self.element(style, fill, |out| {
            let _ = write!(out, "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\"", center.0, center.1);
        })
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, points: I, style: &S) -> Drawn {
        self.path(points, style, true)
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, (x, y): BackendCoord) -> Drawn {
        let color = style.color();
        if color.alpha <= 0.0 || text.is_empty() {
            return Ok(());
        }
        let size = style.size();
        let anchor = style.anchor();
        // Not every renderer knows dominant-baseline, so the baseline is computed: capitals are 0.72 em high.
        let down = (size
            * match anchor.v_pos {
                VPos::Top => 0.76,
                VPos::Center => 0.36,
                VPos::Bottom => -0.22,
            })
        .round() as i32;
        let mut doc = self.doc.borrow_mut();
        let halo = doc.halo;
        let out = doc.shape();
        let (dx, dy, angle) = match style.transform() {
            FontTransform::None => (0, down, None),
            FontTransform::Rotate90 => (-down, 0, Some(90)),
            FontTransform::Rotate180 => (0, -down, Some(180)),
            FontTransform::Rotate270 => (down, 0, Some(270)),
        };
        let (x, y) = (x.saturating_add(dx), y.saturating_add(dy));
        let _ = write!(out, "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\"", size.round(), hex(color.rgb));
        if let Some(angle) = angle {
            let _ = write!(out, " transform=\"rotate({angle} {x} {y})\"");
        }
        match anchor.h_pos {
            HPos::Left => {}
            HPos::Center => out.push_str(" text-anchor=\"middle\""),
            HPos::Right => out.push_str(" text-anchor=\"end\""),
        }
        match style.style() {
            FontStyle::Normal => {}
            FontStyle::Bold => out.push_str(" font-weight=\"bold\""),
            FontStyle::Italic | FontStyle::Oblique => out.push_str(" font-style=\"italic\""),
        }
        if matches!(style.family(), FontFamily::Monospace) {
            out.push_str(" font-family=\"monospace\"");
        }
        if halo {
            out.push_str(" stroke=\"#ffffff\" stroke-width=\"30\" stroke-linejoin=\"round\" paint-order=\"stroke\"");
        }
        if color.alpha < 1.0 {
            let _ = write!(out, " opacity=\"{}\"", (color.alpha * 100.0).round() / 100.0);
        }
        let _ = writeln!(out, ">{}</text>", escape(text));
        Ok(())
    }

    /// Plotters would count bytes; see [`super::text_width`].
    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let size = style.size();
        let bold = matches!(style.style(), FontStyle::Bold);
        let width = metrics::text_width(text, size.round() as i32, bold) as u32;
        let height = (size * 0.98).ceil() as u32;
        Ok(match style.transform() {
            FontTransform::None | FontTransform::Rotate180 => (width, height),
            FontTransform::Rotate90 | FontTransform::Rotate270 => (height, width),
        })
    }

    /// Pictures of this program hold no bitmaps, and one element a pixel would be no picture either.
    fn blit_bitmap(&mut self, _: BackendCoord, _: (u32, u32), _: &[u8]) -> Drawn {
        Ok(())
    }
}
