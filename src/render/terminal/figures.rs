//! Figures of a ranking in words.

use super::moment_text;
use crate::analysis::ranking::Unit;
use crate::analysis::window::Window;
use crate::history::Moment;
use crate::units::{bytes, count, duration};

/// What is counted, and when: `live at the peak, event 764`.
pub(super) fn what(metric: &str, unit: Unit, at: &Moment, window: Option<Window>) -> String {
    let Some(window) = window else {
        return format!("{metric} {}", moment_text(at));
    };
    let what = match (metric, unit) {
        ("lifetime", Unit::Events) => "of lifetime (in events: the file has no times)",
        ("lifetime", _) => "of lifetime",
        ("bytes-time", Unit::ByteEvents) => "held (bytes × events: the file has no times)",
        ("bytes-time", _) => "held (bytes × time)",
        ("churn", _) => "allocated and freed again",
        ("count", _) => "",
        (other, _) => other,
    };
    let window = format!("in events {} to {}", count(window.first.into()), count(window.last.into()));
    if what.is_empty() { window } else { format!("{what} {window}") }
}

/// What `--under` leaves out, in words.
pub(super) fn left_out(value: u64, unit: Unit) -> String {
    if value == 0 { String::new() } else { format!("; {} left out", figure(value, unit)) }
}

/// A figure with its unit: `12.4 ms`, `3.21 GiB`, `5.20 GiB·s`.
pub(super) fn figure(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => bytes(value),
        Unit::Allocations => format!("{} allocations", count(value)),
        Unit::Microseconds => duration(value),
        Unit::Events => format!("{} events", count(value)),
        // A thousand byte-milliseconds are a byte-second.
        Unit::ByteMilliseconds => format!("{}·s", bytes(value / 1_000)),
        Unit::ByteEvents => format!("{}·events", bytes(value)),
    }
}

/// A share as a percentage with one decimal.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
