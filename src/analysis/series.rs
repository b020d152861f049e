//! A bounded time series of one device's memory, ready to be drawn.

use serde::Serialize;

/// Name of the band that holds what belongs to none of the largest sites. Always the last one.
pub const OTHER: &str = "other";

/// Memory of one device over the trace, reduced to a bounded number of columns.
///
/// Column `i` covers the events from `x[i]` (inclusive) to `x[i + 1]` (exclusive); the last one ends at `x_end`.
/// In each column every value is taken at one and the same event, the one where the sum of the bands is largest
/// (`reserved` is the column's own maximum), so that no peak is lost and the bands still sum to the total.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Device ordinal.
    pub device: i64,
    /// First event number, or first time in microseconds since the first event, of each column.
    pub x: Vec<u64>,
    /// Where the last column ends, in the unit of `x`.
    pub x_end: u64,
    /// What `x` counts: `"event"` or `"us"`.
    pub unit: Unit,
    /// The largest sites, biggest first, then [`OTHER`]; each as many values as `x`. Bytes.
    pub bands: Vec<Band>,
    /// Reserved bytes in each column.
    pub reserved: Vec<u64>,
    /// Bytes that the process could have had (reserved + free on the device at an OOM, or as the caller says).
    pub capacity: Option<u64>,
    /// What happened at one instant.
    pub marks: Vec<Mark>,
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

/// Bytes held by one site over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// The site's printable name, e.g. `train.py:41`.
    pub site: String,
    /// A few lines for a tooltip: function, stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Live bytes in each column.
    pub values: Vec<u64>,
}

/// An instant worth a line in the picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// What it is.
    pub kind: MarkKind,
    /// Where, in the unit of [`Series::x`].
    pub x: u64,
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
    /// A step boundary.
    Step,
}
