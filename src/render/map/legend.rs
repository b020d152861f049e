//! What the colours mean, with the bytes of each.

use super::ColourBy;
use super::paint::{Ink, Paints};
use crate::analysis::layout::{Layout, SITES};
use crate::render::draw::{self, AXIS, Area, Drawn, LABEL, Text};
use crate::render::svg::{Svg, px, shorten_to};
use crate::render::terminal::names::{shared_directory, without};
use crate::units::{bytes, count};

/// Height of a row in pixels.
const ROW: i32 = 17;

/// The rows of a legend.
pub(super) struct Legend {
    pub by: ColourBy,
    /// Paint, name, bytes, tooltip.
    entries: Vec<(Ink, String, u64, String)>,
    notes: Vec<String>,
}

impl Legend {
    pub fn new(layout: &Layout, by: ColourBy) -> Self {
        let totals = &layout.totals;
        let mut entries = Vec::new();
        let mut add = |ink, name: &str, bytes: u64, tooltip: String| {
            if bytes > 0 {
                entries.push((ink, name.to_owned(), bytes, tooltip));
            }
        };
        match by {
            ColourBy::State => add(Ink::Live(0), "live", totals.allocated, "blocks that tensors own".to_owned()),
            ColourBy::Site | ColourBy::Category => {
                let shown = layout.sites.iter().take(SITES);
                let is_path = by == ColourBy::Site;
                let shared = if is_path { shared_directory(shown.clone().map(|site| site.site.as_str())) } else { 0 };
                for (site, number) in shown.zip(0..) {
                    let pinned = site.pinned.map(|pinned| format!("\npins {}", bytes(pinned)));
                    let tooltip = format!("{}{}", site.site, pinned.unwrap_or_default());
                    add(Ink::Live(number), without(&site.site, shared), site.bytes, tooltip);
                }
                let rest = layout.sites.get(SITES..).unwrap_or_default();
                let noun = if is_path { "sites" } else { "categories" };
                let name = format!("{} other {noun}", count(rest.len() as u64));
                add(Ink::OtherSite, &name, rest.iter().map(|site| site.bytes).sum(), name.clone());
            }
        }
        let known = |bytes: Option<u64>| bytes.unwrap_or(0);
        add(Ink::Pending, "waiting for a stream", totals.pending, "freed, but another stream may use it".to_owned());
        add(
            Ink::Stranded,
            "free, pinned",
            known(totals.stranded),
            "live blocks keep it from being given back".to_owned(),
        );
        add(
            Ink::Releasable,
            "free, releasable",
            known(totals.releasable),
            "empty_cache() would give it back".to_owned(),
        );
        add(Ink::PoolIdle, "free in private pools", known(totals.pool_idle), "of no use to others".to_owned());
        let mut notes = vec!["one row a segment; the rows of a pool".to_owned(), "are on one scale".to_owned()];
        if layout.groups.iter().any(|group| group.expandable && group.rows.len() > 1) {
            notes.push("a long expandable range is several".to_owned());
            notes.push("rows, each labelled with its start".to_owned());
        }
        let folded: u64 = layout
            .groups
            .iter()
            .flat_map(|group| &group.rows)
            .filter(|row| row.segments > 1)
            .map(|row| row.segments)
            .sum();
        if folded > 0 {
            notes.push(format!("{} segments are drawn together:", count(folded)));
            notes.push("alike ones, or by size".to_owned());
        }
        Self { by, entries, notes }
    }

    /// Pixels.
    pub fn height(&self) -> i32 {
        (self.entries.len() + self.notes.len() + 2) as i32 * ROW + ROW
    }

    /// Draws it into `left .. right`, from `top` down (drawing units).
    pub fn draw(&self, svg: &Svg, area: &Area, paints: &Paints, (left, right, top): (i32, i32, i32)) -> Drawn {
        let mut y = top + px(ROW) / 2;
        let heading = match self.by {
            ColourBy::State => "memory",
            ColourBy::Site => "allocated by",
            ColourBy::Category => "category",
        };
        draw::text(area, heading, (left, y), &AXIS)?;
        let swatch = px(12);
        for (ink, name, size, tooltip) in &self.entries {
            y += px(ROW);
            let figure = bytes(*size);
            let room = right - left - px(18) - LABEL.width(&figure) - px(10);
            svg.title(Some(tooltip));
            let paint = paints.paint(*ink);
            svg.fill(paint.pattern);
            draw::rect(area, (left, y - swatch / 2), (left + swatch, y + swatch / 2), paint.colour)?;
            svg.fill(None);
            draw::text(area, &shorten_to(name, room, LABEL.size), (left + px(18), y), &LABEL)?;
            draw::text(area, &figure, (right, y), &LABEL.right())?;
            svg.title(None);
        }
        y += px(ROW);
        let sum: u64 = self.entries.iter().map(|entry| entry.2).sum();
        let bold = Text { bold: true, ..LABEL };
        draw::text(area, "reserved", (left + px(18), y), &bold)?;
        draw::text(area, &bytes(sum), (right, y), &bold.right())?;
        y += px(ROW) / 2;
        for note in &self.notes {
            y += px(ROW);
            draw::text(area, note, (left, y), &AXIS)?;
        }
        Ok(())
    }
}
