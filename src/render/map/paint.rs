//! Colours of the map. States differ in pattern and lightness too: for print, and for eyes that do not tell all colours
//! apart.

use crate::analysis::layout::{Cell, CellState, Layout, SITES};
use crate::render::palette::{self, Paint};
use crate::render::svg::{Pattern, PatternKind, Rgb};

use super::ColourBy;

const LIVE: Rgb = (0x3b, 0x6e, 0xa5);

/// What a cell is painted with: its number decides the order of drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ink {
    /// Free memory that could be given back.
    Releasable,
    /// Free memory of a private pool.
    PoolIdle,
    /// Pinned memory.
    Stranded,
    /// Blocks waiting for a stream.
    Pending,
    /// Live blocks of a site with a colour of its own, or all live blocks.
    Live(u32),
    /// Live blocks of other sites.
    OtherSite,
}

/// The paints of one panel.
pub(super) struct Paints {
    by: ColourBy,
    sites: Vec<Paint>,
}

impl Paints {
    pub fn new(layout: &Layout, by: ColourBy) -> Self {
        let names = layout.sites.iter().take(SITES).map(|site| Some(site.site.as_str()));
        Self { by, sites: palette::paints(names) }
    }

    pub fn ink(&self, cell: &Cell) -> Ink {
        match cell.state {
            CellState::Releasable => Ink::Releasable,
            CellState::PoolIdle => Ink::PoolIdle,
            CellState::Stranded => Ink::Stranded,
            CellState::Pending => Ink::Pending,
            CellState::Live if self.by == ColourBy::State => Ink::Live(0),
            CellState::Live => match cell.site {
                Some(site) if (site as usize) < self.sites.len() => Ink::Live(site),
                _ => Ink::OtherSite,
            },
        }
    }

    pub fn paint(&self, ink: Ink) -> Paint {
        match ink {
            Ink::Releasable => plain((0xdf, 0xec, 0xda)),
            Ink::PoolIdle => patterned(PatternKind::Dots, (0xf0, 0xec, 0xf8), (0x8a, 0x78, 0xb8)),
            Ink::Stranded => patterned(PatternKind::Hatch, (0xff, 0xf1, 0xeb), (0xc9, 0x5a, 0x45)),
            Ink::Pending => patterned(PatternKind::BackHatch, (0xf0, 0xc5, 0x43), (0x6e, 0x55, 0x00)),
            Ink::Live(_) if self.by == ColourBy::State => plain(LIVE),
            Ink::Live(site) => self.sites.get(site as usize).copied().unwrap_or(plain(palette::OTHER)),
            Ink::OtherSite => plain((0x9a, 0x9a, 0x9a)),
        }
    }
}

fn plain(colour: Rgb) -> Paint {
    Paint { colour, pattern: None }
}

fn patterned(kind: PatternKind, ground: Rgb, ink: Rgb) -> Paint {
    Paint { colour: ground, pattern: Some(Pattern { kind, ground, ink }) }
}
