//! Pieces that several sections are made of.

use std::borrow::Cow;

use maud::{Markup, html};

use crate::render::palette::{self, Paint};
use crate::render::svg::{PatternKind, Rgb};
use crate::render::terminal::names::without;
use crate::render::terminal::percents;
use crate::text::{printable, shorten};
use crate::units::{bytes, count};

/// Columns of a name, and of a sentence with names in it.
const NAME: usize = 160;
const SENTENCE: usize = 2_000;

/// A text from the file, made safe to read and bounded. What is markup in it is escaped where it is put into the page.
pub fn shown(text: &str) -> String {
    shorten(&printable(text), SENTENCE).into_owned()
}

/// A text of our own, in which what stands between backticks is code.
pub fn prose(text: &str) -> Markup {
    let text = shown(text);
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// [`shown`] for a name.
pub fn name(text: &str) -> String {
    shorten(&printable(text), NAME).into_owned()
}

/// `#rrggbb`
pub fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The paint of a site when it stands alone.
pub fn paint_of(site: &str) -> Paint {
    palette::paints([Some(site)]).first().copied().unwrap_or(plain(palette::OTHER))
}

/// `colour` without a pattern.
pub const fn plain(colour: Rgb) -> Paint {
    Paint { colour, pattern: None }
}

/// A square of `paint`.
pub fn swatch(paint: Paint) -> Markup {
    let lines = paint.pattern.map(|pattern| match pattern.kind {
        PatternKind::Hatch => "M0 5L5 0M0 10L10 0M5 10L10 5",
        PatternKind::BackHatch => "M0 5L5 10M0 0L10 10M5 0L10 5",
        PatternKind::Cross => "M0 5L5 0M0 10L10 0M5 10L10 5M0 5L5 10M0 0L10 10M5 0L10 5",
        PatternKind::Dots => "M2 3h2M6 3h2M2 7h2M6 7h2",
    });
    html! {
        svg.swatch width="10" height="10" aria-hidden="true" {
            rect width="10" height="10" rx="2" fill=(hex(paint.colour)) {}
            @if let (Some(lines), Some(pattern)) = (lines, paint.pattern) { path d=(lines) stroke=(hex(pattern.ink)) stroke-width="1.3" {} }
        }
    }
}

/// A site without the first `shared` bytes of its name, and its function.
pub fn site(full: &str, function: Option<&str>, shared: usize, paint: Option<Paint>) -> Markup {
    html! {
        @if let Some(paint) = paint { (swatch(paint)) " " }
        code title=(name(full)) { (name(without(full, shared))) }
        @if let Some(function) = function { " " span.function { (name(function)) } }
    }
}

/// A column of a table.
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// Whether it holds figures.
    pub number: bool,
    /// What it means, where the heading does not say all.
    pub hint: &'static str,
}

/// A column of text.
pub const fn text(title: &'static str) -> Column {
    Column { title, number: false, hint: "" }
}

/// A column of figures.
pub const fn number(title: &'static str, hint: &'static str) -> Column {
    Column { title, number: true, hint }
}

/// A cell: what is shown, and what it is sorted by where that is not the text.
pub struct Cell {
    shown: Markup,
    key: Option<f64>,
}

impl From<Markup> for Cell {
    fn from(shown: Markup) -> Self {
        Self { shown, key: None }
    }
}

impl From<Cow<'_, str>> for Cell {
    fn from(text: Cow<'_, str>) -> Self {
        Self { shown: html! { (text) }, key: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cow::Borrowed(text).into()
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cow::<str>::Owned(text).into()
    }
}

/// A size.
pub fn size(n: u64) -> Cell {
    Cell { shown: html! { (bytes(n)) }, key: Some(n as f64) }
}

/// A size that may be unknown.
pub fn known(n: Option<u64>) -> Cell {
    n.map_or_else(|| Cell { shown: html! { "unknown" }, key: Some(-1.0) }, size)
}

/// A number.
pub fn counted(n: u64) -> Cell {
    Cell { shown: html! { (count(n)) }, key: Some(n as f64) }
}

/// A number with one decimal.
pub fn decimal(n: f64) -> Cell {
    Cell { shown: html! { (format!("{n:.1}")) }, key: Some(n) }
}

/// A number that may be unknown.
pub fn maybe(n: Option<u64>) -> Cell {
    n.map_or_else(|| Cell { shown: html! { "unknown" }, key: Some(-1.0) }, counted)
}

/// Shares of 0 to 1, each with a bar; the percentages of all sum to what the shares do.
pub fn shares(shares: &[f64]) -> impl Iterator<Item = Cell> {
    percents(shares).into_iter().zip(shares).map(|(percent, &share)| Cell {
        shown: html! {
            svg.share width="48" height="8" aria-hidden="true" { rect width=(format!("{:.1}%", share * 100.0)) height="8" rx="1" {} }
            " " (percent)
        },
        key: Some(share),
    })
}

/// A table that can be sorted and, from a few rows on, filtered. `left_out` says how many rows are not in it.
pub fn table(id: &str, caption: &str, columns: &[Column], rows: Vec<Vec<Cell>>, left_out: usize, how: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.data id=(id) {
                caption { (caption) }
                thead { tr {
                    @for column in columns {
                        th scope="col" class=[column.number.then_some("number")] title=[Some(column.hint).filter(|hint| !hint.is_empty())] { (column.title) }
                    }
                } }
                tbody {
                    @for row in &rows {
                        tr {
                            @for (cell, column) in row.iter().zip(columns) {
                                td class=[column.number.then_some("number")] data-key=[cell.key] { (cell.shown) }
                            }
                        }
                    }
                }
            }
        }
        @if left_out > 0 { p.note { (count(left_out as u64)) " more: " (how) } }
    }
}
