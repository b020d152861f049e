//! A bounded time series of one device's memory, ready to be drawn.

mod bands;
mod blocks;
mod columns;
mod marks;
mod regions;
mod sizes;

use std::ops::Range;

use serde::Serialize;

use super::failures;
use super::ranking::LifeGroups;
use super::sites::Sites;
use super::steps::{StepSource, Steps};
use crate::history::History;
use bands::Bands;
use columns::Columns;
use regions::Regions;
pub use sizes::{by_size, size_classes};

/// Name of the band that sums everything without a band of its own.
pub const OTHER: &str = "other";

/// Memory of one device over the trace or a part of it, reduced to a bounded number of columns.
///
/// Column `i` covers the events from `x[i]` (inclusive) to `x[i + 1]` (exclusive); the last one ends at `x_end`. A
/// column of time without events has the value that the events before it left. The
/// bands' values, and `requested`, are taken at one and the same event of each column, the one where the sum of the
/// bands is largest, so that no peak is lost and the bands still sum to the total; `reserved`, `active` and `lowest`
/// are the column's own extremes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Device ordinal.
    pub device: i64,
    /// What the bands hold.
    pub what: What,
    /// What a band stands for: `site`, `size`, `category` and so on; `pool` for segments.
    pub by: &'static str,
    /// First event number, or first time in microseconds since the first event of the trace, of each column.
    pub x: Vec<u64>,
    /// Where the last column ends, in the unit of `x`.
    pub x_end: u64,
    /// What `x` counts: `"event"` or `"us"`.
    pub unit: Unit,
    /// Lowest first, [`OTHER`] last; each as many values as `x`. Bytes.
    pub bands: Vec<Band>,
    /// Highest reserved bytes in each column.
    pub reserved: Vec<u64>,
    /// Highest live and pending bytes in each column.
    pub active: Vec<u64>,
    /// Lowest sum of the bands in each column.
    pub lowest: Vec<u64>,
    /// Bytes asked for by the blocks of each column; active less requested is lost to rounding.
    pub requested: Vec<u64>,
    /// Bytes that the process could have had (reserved + free on the device at an OOM, or as the caller says).
    pub capacity: Option<u64>,
    /// What the process was allowed to have, where it was given a part of the card.
    pub limit: Option<Limit>,
    /// What happened at one instant, or lasted.
    pub marks: Vec<Mark>,
    /// What the steps among the marks were found by.
    pub steps: Option<StepSource>,
}

/// What the bands of a series hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Live and pending blocks, grouped.
    #[default]
    Live,
    /// Live and pending blocks: each of the largest is a band, oldest first; then the others by site.
    Blocks,
    /// Reserved memory: each of the largest segments and expandable ranges is a band, oldest first.
    Segments,
}

/// Unit of the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Event numbers.
    #[serde(rename = "event")]
    Event,
    /// Microseconds since the first event.
    #[serde(rename = "us")]
    Microseconds,
}

/// Bytes of one group, block or segment over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Band {
    /// The printable name that it is coloured by, e.g. `train.py:41`; blocks of one site share it.
    pub site: String,
    /// A few lines for a tooltip: function, size, stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether it sums the blocks of a line that have no band of their own, where every other band is one block.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// Bytes in each column.
    pub values: Vec<u64>,
}

/// The most that the process may reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Bytes.
    pub bytes: u64,
    /// Whether it is the limit itself, not only a lower bound: what was reserved when a request was refused.
    pub exact: bool,
}

/// An instant or a span worth a mark in the picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// What it is.
    pub kind: MarkKind,
    /// Where, in the unit of [`Series::x`].
    pub x: u64,
    /// Where it ends, when it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_end: Option<u64>,
    /// A short text, e.g. `OOM: 128.00 MiB asked`.
    pub label: String,
}

/// Kinds of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkKind {
    /// A recorded out-of-memory failure.
    Oom,
    /// The highest point of the stacked bands.
    Peak,
    /// A step.
    Step,
    /// A region that the program named, other than a step.
    Annotation,
}

/// What a series shows.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesOptions {
    /// At most this many columns.
    pub columns: usize,
    /// At most this many bands besides [`OTHER`].
    pub bands: usize,
    /// What `x` counts.
    pub unit: Unit,
    /// Bytes that the process could have had, when the caller knows.
    pub capacity: Option<u64>,
    /// What the bands hold.
    pub what: What,
    /// The events to show; all of them by default.
    pub window: Option<Range<u32>>,
}

impl Default for SeriesOptions {
    fn default() -> Self {
        Self { columns: 1200, bands: 12, unit: Unit::Event, capacity: None, what: What::default(), window: None }
    }
}

/// Memory of `history`'s device over time; `None` when there is no trace.
///
/// ```no_run
/// use oomscope::analysis::series::{SeriesOptions, series};
/// use oomscope::analysis::sites::{By, Sites};
/// use oomscope::history::History;
/// use oomscope::snapshot::{LoadOptions, Source, load};
///
/// let snapshot = load(&Source::Path("oom.pickle".into()), &LoadOptions::default())?;
/// let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
/// let series = series(&history, &Sites::new(&snapshot, By::Line), &SeriesOptions::default());
/// for band in series.iter().flat_map(|series| &series.bands) {
///     println!("{}: at most {:?} B", band.site, band.values.iter().max());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn series(history: &History, sites: &Sites, options: &SeriesOptions) -> Option<Series> {
    grouped(history, sites, None, options)
}

/// [`series`] with live memory stacked by `groups` (from below in their order) instead of by site.
pub fn grouped(
    history: &History,
    sites: &Sites,
    groups: Option<&LifeGroups>,
    options: &SeriesOptions,
) -> Option<Series> {
    let window = options.window.clone().unwrap_or(0..history.events());
    if !history.health.recorded || window.is_empty() {
        return None;
    }
    let unit = if history.time_span().is_some() { options.unit } else { Unit::Event };
    let columns = Columns::new(history, window, unit, options.columns.max(1));
    let active = columns::active(history, &columns);
    let reserved = columns::reserved(history, &columns);
    let shown = if options.what == What::Segments { &reserved } else { &active };
    let of_blocks = |bands: Bands| bands.of_blocks(history, &shown.states);
    let (bands, by) = match (options.what, groups) {
        (What::Segments, _) => (Regions::new(history, sites).bands(options.bands, &shown.states), "pool"),
        (What::Blocks, _) => (of_blocks(blocks::bands(history, sites, options.bands, shown)), "site"),
        (What::Live, None) => (of_blocks(bands::by_site(history, sites, options.bands, &columns)), "site"),
        (What::Live, Some(groups)) => (of_blocks(bands::by_group(history, groups, options.bands, &columns)), groups.by),
    };
    let steps = Steps::find(history).filter(|steps| steps.source.is_program());
    Some(Series {
        device: history.device.ordinal,
        what: options.what,
        by,
        x: columns.x.clone(),
        x_end: columns.x_end,
        unit,
        bands,
        requested: columns::requested(history, &shown.states),
        lowest: shown.lowest.clone(),
        marks: marks::marks(history, &columns, shown, steps.as_ref()),
        steps: steps.map(|steps| steps.source),
        reserved: reserved.highest,
        active: active.highest,
        capacity: options.capacity.or_else(|| failures::capacity(history)),
        limit: limit(history, options.capacity),
    })
}

/// The fraction of the card that the settings allow, when the card is known; else what was reserved when a request was
/// refused although the device had enough.
fn limit(history: &History, card: Option<u64>) -> Option<Limit> {
    if let (Some(fraction), Some(card)) = (history.rules.memory_fraction, card)
        && fraction < 1.0
    {
        return Some(Limit { bytes: (fraction * card as f64) as u64, exact: true });
    }
    let refused = history.ooms.iter().filter(|oom| oom.device_free >= history.rules.segment_size(oom.rounded));
    let reserved = refused.map(|oom| history.ranges.reserved_at(oom.event + 1)).max()?;
    Some(Limit { bytes: reserved, exact: false })
}
