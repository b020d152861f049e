//! Axes: where ticks stand and what they say.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::analysis::series::Unit;
use crate::units::count;

/// A tick: where, and its label.
pub(super) type Tick = (f64, String);

/// A linear axis from 0 to `end` with ticks of our choice.
#[derive(Clone)]
pub(super) struct Axis {
    pub end: f64,
    pub ticks: Vec<Tick>,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let fraction = (value / self.end).clamp(0.0, 1.0);
        limit.0 + (fraction * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|t| t.0).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..self.end
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|t| t.0 == *value).map_or_else(String::new, |t| t.1.clone())
    }
}

/// Ticks of an axis of bytes that ends at `end`: multiples of a power of two, so that they are round in binary units.
pub(super) fn byte_ticks(end: f64) -> Vec<Tick> {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    // At most seven intervals: fewer leave a tall picture unreadable, more clutter a small one.
    let mut step = 1.0;
    while end / step > 7.0 {
        step *= 2.0;
    }
    let steps = (end / step).floor() as u32;
    let unit = (0..7).rev().find(|&u| 1024f64.powi(u) <= step * f64::from(steps)).unwrap_or(0);
    let scale = 1024f64.powi(unit);
    let decimals = decimals(step / scale);
    (0..=steps)
        .map(|i| step * f64::from(i))
        .map(|v| {
            (v, if v == 0.0 { "0".to_owned() } else { format!("{:.decimals$} {}", v / scale, UNITS[unit as usize]) })
        })
        .collect()
}

/// Decimals needed to write multiples of `step`.
fn decimals(step: f64) -> usize {
    (0..9).find(|&d| (step * 10f64.powi(d)).fract() == 0.0).unwrap_or(9) as usize
}

/// Ticks of an axis that covers `x0 .. x0 + span`, positions relative to `x0`.
///
/// As many as there is room for, at most about ten: `fits` says whether labels stand apart, given the labels and the
/// distance between two of them as a fraction of the axis.
pub(super) fn x_ticks(x0: u64, span: f64, unit: Unit, fits: impl Fn(&[Tick], f64) -> bool) -> Vec<Tick> {
    let mut ticks = Vec::new();
    for step in steps(unit).skip_while(|&s| span / s as f64 > 10.0) {
        let first = u128::from(x0).div_ceil(step) * step;
        let values: Vec<u128> =
            (0..11).map(|i| first + i * step).take_while(|&v| (v - u128::from(x0)) as f64 <= span).collect();
        let largest = values.last().copied().unwrap_or(0);
        ticks = values.iter().map(|&v| ((v - u128::from(x0)) as f64, label(v, step, largest, unit))).collect();
        if ticks.len() < 2 || fits(&ticks, step as f64 / span) {
            break;
        }
    }
    ticks
}

/// Round step sizes, growing: 1, 2, 5 times powers of ten; from a second on, what clocks count in.
fn steps(unit: Unit) -> impl Iterator<Item = u128> {
    const S: u128 = 1_000_000;
    const CLOCK: [u128; 17] =
        [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
    let decimal = |from: u128| (0..21).flat_map(move |k| [1, 2, 5].map(|m| m * from * 10u128.pow(k)));
    let (below, clock, beyond) = match unit {
        Unit::Event => (u128::MAX, &CLOCK[..0], 0),
        Unit::Microseconds => (S, &CLOCK[..], 86_400 * S),
    };
    decimal(1).take_while(move |&s| s < below).chain(clock.iter().map(|s| s * S)).chain(decimal(beyond))
}

fn label(value: u128, step: u128, largest: u128, unit: Unit) -> String {
    const SCALES: [(u128, &str); 6] =
        [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"), (1, "µs")];
    if unit == Unit::Event {
        return count(value.min(u64::MAX.into()) as u64);
    }
    // Above a second only units that divide the step; below, the largest that the axis reaches, with decimals.
    let &(scale, name) = SCALES
        .iter()
        .find(|&&(scale, _)| if scale > 1_000_000 { step.is_multiple_of(scale) } else { largest >= scale })
        .unwrap_or(&SCALES[5]);
    if value == 0 {
        return "0".to_owned();
    }
    let decimals = decimals(step as f64 / scale as f64);
    match decimals {
        0 => format!("{} {name}", count((value / scale) as u64)),
        _ => format!("{:.decimals$} {name}", value as f64 / scale as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: Vec<Tick>) -> Vec<String> {
        ticks.into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn bytes_are_round_in_binary_units() {
        let gib = 1024f64.powi(3);
        assert_eq!(labels(byte_ticks(4.0 * gib)), ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]);
        assert_eq!(labels(byte_ticks(1.06 * gib)), ["0", "0.25 GiB", "0.50 GiB", "0.75 GiB", "1.00 GiB"]);
        assert_eq!(labels(byte_ticks(0.7 * gib)).last().map(String::as_str), Some("640 MiB"));
        assert_eq!(labels(byte_ticks(1.0)), ["0", "1 B"]);
        assert!(byte_ticks(1.1 * u64::MAX as f64).len() > 3);
    }

    #[test]
    fn events_and_times_are_round() {
        let ample = |_: &[Tick], _: f64| true;
        assert_eq!(labels(x_ticks(0, 1_804.0, Unit::Event, ample))[..3], ["0", "200", "400"]);
        assert_eq!(labels(x_ticks(0, 824_086.0, Unit::Microseconds, ample))[..3], ["0", "100 ms", "200 ms"]);
        assert_eq!(labels(x_ticks(0, 5.2e6, Unit::Microseconds, ample))[..3], ["0", "1 s", "2 s"]);
        assert_eq!(labels(x_ticks(0, 1.2e6, Unit::Microseconds, ample))[..3], ["0", "0.2 s", "0.4 s"]);
        assert_eq!(labels(x_ticks(0, 3_000e6, Unit::Microseconds, ample))[..3], ["0", "5 min", "10 min"]);
        assert_eq!(labels(x_ticks(0, 6.3e11, Unit::Microseconds, ample))[..2], ["0", "1 d"]);
        assert_eq!(labels(x_ticks(0, 1.0, Unit::Event, ample)), ["0", "1"]);
    }

    #[test]
    fn crowded_labels_get_a_larger_step() {
        let three = |ticks: &[Tick], _: f64| ticks.len() <= 3;
        assert_eq!(labels(x_ticks(0, 1_804.0, Unit::Event, three)), ["0", "1 000"]);
        let none = |_: &[Tick], _: f64| false;
        assert!(x_ticks(u64::MAX, 1.0, Unit::Event, none).len() <= 2);
        assert!(x_ticks(0, u64::MAX as f64, Unit::Microseconds, none).len() <= 2);
        assert!(x_ticks(u64::MAX - 5, 5.0, Unit::Microseconds, three).len() <= 3);
    }
}
