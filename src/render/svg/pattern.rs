//! Fills that differ without colour: for print, and for eyes that do not tell all colours apart.

use std::fmt::Write;

/// Red, green, blue.
pub type Rgb = (u8, u8, u8);

/// What is drawn on the ground colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PatternKind {
    /// Lines rising to the right.
    Hatch,
    /// Lines falling to the right.
    BackHatch,
    /// Both.
    Cross,
    /// Dots.
    Dots,
}

/// A fill of a ground colour with something drawn on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// What is drawn.
    pub kind: PatternKind,
    /// The colour below.
    pub ground: Rgb,
    /// The colour of the lines or dots.
    pub ink: Rgb,
}

/// A colour as SVG writes it.
pub(super) fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

impl Pattern {
    /// A name that only depends on the looks, so that several pictures put into one page do not disturb each other.
    pub(super) fn id(&self) -> String {
        let kind = match self.kind {
            PatternKind::Hatch => "hatch",
            PatternKind::BackHatch => "backhatch",
            PatternKind::Cross => "cross",
            PatternKind::Dots => "dots",
        };
        format!("{kind}-{}-{}", &hex(self.ground)[1..], &hex(self.ink)[1..])
    }

    pub(super) fn write(&self, out: &mut String) {
        let (ground, ink) = (hex(self.ground), hex(self.ink));
        let (angle, shape) = match self.kind {
            PatternKind::Hatch => (45, format!("<path d=\"M10 0v60\" stroke=\"{ink}\" stroke-width=\"16\"/>")),
            PatternKind::BackHatch => (-45, format!("<path d=\"M10 0v60\" stroke=\"{ink}\" stroke-width=\"16\"/>")),
            PatternKind::Cross => (45, format!("<path d=\"M10 0v60M0 10h60\" stroke=\"{ink}\" stroke-width=\"12\"/>")),
            PatternKind::Dots => (45, format!("<circle cx=\"30\" cy=\"30\" r=\"14\" fill=\"{ink}\"/>")),
        };
        let _ = writeln!(
            out,
            "<pattern id=\"{}\" width=\"60\" height=\"60\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate({angle})\"><rect width=\"60\" height=\"60\" fill=\"{ground}\"/>{shape}</pattern>",
            self.id()
        );
    }
}
