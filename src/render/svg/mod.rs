//! SVG pictures: what plotters draws, with tooltips, patterns and dashes, as one bounded string.
//!
//! [`Svg`] is the picture and stays with the caller; [`Svg::backend`] gives plotters something to draw on. What plotters
//! has no notion of is set on the picture between two shapes: the tooltip, the pattern that fills, the dashes of a line.
//!
//! A unit of the drawing is a tenth of a pixel, so that integers (all that a backend gets) are fine enough for print;
//! [`px`] converts. Pictures contain no script, no style sheet and no reference to anything outside.
//!
//! ```
//! use oomscope::render::svg::{Svg, px};
//! use plotters::prelude::*;
//!
//! let svg = Svg::new(200, 100);
//! let area = svg.backend().into_drawing_area();
//! svg.title(Some("train.py:41\n12.0 MiB"));
//! area.draw(&Rectangle::new([(px(10), px(10)), (px(60), px(30))], BLUE.filled())).unwrap();
//! assert!(svg.finish().contains("<title>train.py:41\n12.0 MiB</title>"));
//! ```

mod backend;
mod escape;
mod metrics;
mod path;
mod pattern;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

pub use backend::SvgBackend;
pub use escape::escape;
pub use metrics::{shorten_to, text_width};
pub use pattern::{Pattern, PatternKind, Rgb};

/// Drawing units in a pixel.
pub const UNITS: i32 = 10;

/// Fonts, most wanted first; [`text_width`] is an upper bound for each of them.
const FONTS: &str = "Helvetica Neue,Helvetica,Arial,Liberation Sans,DejaVu Sans,sans-serif";

/// Longest tooltip, in characters: stacks come from the file and may be of any length.
const TITLE_LIMIT: usize = 2_000;

/// Pixels as drawing units.
pub const fn px(pixels: i32) -> i32 {
    pixels.saturating_mul(UNITS)
}

/// A picture being drawn. Clones are handles of the same picture.
#[derive(Clone, Debug)]
pub struct Svg(Rc<RefCell<Document>>);

#[derive(Debug)]
struct Document {
    /// In pixels.
    size: (u32, u32),
    label: String,
    body: String,
    patterns: BTreeMap<String, Pattern>,
    /// The tooltip of the shapes to come, not yet written.
    title: Option<String>,
    group_open: bool,
    fill: Option<String>,
    dash: Option<(u32, u32)>,
    halo: bool,
    outline: Option<u32>,
}

impl Svg {
    /// An empty picture of this many pixels.
    pub fn new(width: u32, height: u32) -> Self {
        Self(Rc::new(RefCell::new(Document {
            size: (width, height),
            label: String::new(),
            body: String::new(),
            patterns: BTreeMap::new(),
            title: None,
            group_open: false,
            fill: None,
            dash: None,
            halo: false,
            outline: None,
        })))
    }

    /// What plotters draws on: a backend of `width × height` times [`UNITS`].
    pub fn backend(&self) -> SvgBackend {
        SvgBackend::new(self.0.clone())
    }

    /// What the picture shows, in one line, for programs that read it aloud.
    pub fn label(&self, text: &str) {
        self.0.borrow_mut().label = text.to_owned();
    }

    /// Sets the tooltip of the shapes that follow, until the next call; `None` ends it. Lines are kept.
    pub fn title(&self, text: Option<&str>) {
        let mut doc = self.0.borrow_mut();
        doc.close_group();
        doc.title = text.map(|t| match t.char_indices().nth(TITLE_LIMIT) {
            Some((end, _)) => format!("{}…", &t[..end]),
            None => t.to_owned(),
        });
    }

    /// Fills the shapes that follow with this pattern instead of their colour; `None` ends it.
    pub fn fill(&self, pattern: Option<Pattern>) {
        let mut doc = self.0.borrow_mut();
        doc.fill = pattern.map(|p| {
            let id = p.id();
            doc.patterns.insert(id.clone(), p);
            id
        });
    }

    /// Draws the lines that follow in dashes of this length and gap (drawing units); `None` ends it.
    pub fn dash(&self, dash: Option<(u32, u32)>) {
        self.0.borrow_mut().dash = dash;
    }

    /// Puts a white rim of this width (drawing units) around the filled shapes that follow, so that they stand apart;
    /// `None` ends it.
    pub fn outline(&self, width: Option<u32>) {
        self.0.borrow_mut().outline = width;
    }

    /// Puts a white rim around the texts that follow, so that they can be read on top of shapes.
    pub fn halo(&self, on: bool) {
        self.0.borrow_mut().halo = on;
    }

    /// The picture as a file. Handles left behind keep drawing on an empty one.
    pub fn finish(&self) -> String {
        let mut doc = self.0.borrow_mut();
        doc.close_group();
        let body = std::mem::take(&mut doc.body);
        let mut out = String::with_capacity(body.len() + 1_024);
        let (w, h) = doc.size;
        let unit = UNITS as u64;
        let (vw, vh) = (w as u64 * unit, h as u64 * unit);
        // A String never fails to be written to.
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {vw} {vh}\" \
             font-family=\"{FONTS}\" role=\"img\" aria-label=\"{}\">",
            escape(&doc.label)
        );
        if !doc.patterns.is_empty() {
            out.push_str("<defs>\n");
            for pattern in std::mem::take(&mut doc.patterns).values() {
                pattern.write(&mut out);
            }
            out.push_str("</defs>\n");
        }
        out.push_str(&body);
        out.push_str("</svg>\n");
        out
    }
}

impl Document {
    /// Where to write a shape: opens the group of the tooltip when one was set.
    fn shape(&mut self) -> &mut String {
        if let Some(title) = self.title.take() {
            let _ = writeln!(self.body, "<g><title>{}</title>", escape(&title));
            self.group_open = true;
        }
        &mut self.body
    }

    fn close_group(&mut self) {
        self.title = None;
        if std::mem::take(&mut self.group_open) {
            self.body.push_str("</g>\n");
        }
    }
}
