//! A bounded time series of one device's memory, ready to be drawn.

use serde::Serialize;

use super::failures;
use super::sites::{Site, Sites};
use crate::history::{History, Lives};
use crate::snapshot::Action;
use crate::units;

/// Name of the band that sums all sites without one of their own.
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

/// What a series shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesOptions {
    /// At most this many columns.
    pub columns: usize,
    /// At most this many sites of their own.
    pub bands: usize,
    /// What `x` counts.
    pub unit: Unit,
    /// Bytes that the process could have had, when the caller knows.
    pub capacity: Option<u64>,
}

impl Default for SeriesOptions {
    fn default() -> Self {
        Self { columns: 1200, bands: 12, unit: Unit::Event, capacity: None }
    }
}

/// Live memory of `history`'s device by site over the whole trace; `None` when there is no trace.
pub fn series(history: &History, sites: &Sites, options: &SeriesOptions) -> Option<Series> {
    let events = history.events();
    if !history.health.recorded {
        return None;
    }
    let unit = if history.time_span().is_some() { options.unit } else { Unit::Event };
    let columns = Columns::new(history, unit, options.columns.max(1));
    let samples = columns.samples(history);
    let order = SiteOrder::new(sites);
    let biggest = order.biggest(history, options.bands);
    let values = order.values(history, &biggest, &samples.states);
    let mut bands: Vec<Band> = biggest
        .iter()
        .zip(&values)
        .map(|(&site, values)| Band {
            site: sites.name(order.sites[site]).into_owned(),
            detail: sites.function(order.sites[site]).map(str::to_owned),
            values: values.clone(),
        })
        .collect();
    if let Some(other) = values.last()
        && other.iter().any(|&value| value > 0)
    {
        bands.push(Band { site: OTHER.to_owned(), detail: None, values: other.clone() });
    }
    Some(Series {
        device: history.device.ordinal,
        x_end: columns.position(history, events.saturating_sub(1)) + 1,
        x: samples.x,
        unit,
        bands,
        reserved: samples.reserved,
        capacity: options.capacity.or_else(|| failures::capacity(history)),
        marks: marks(history, &columns),
    })
}

/// How events fall into columns.
struct Columns {
    unit: Unit,
    count: usize,
    first_time: u64,
    span: u64,
}

/// What is drawn of each column that has an event.
struct Samples {
    x: Vec<u64>,
    /// The state of the column in which most is active.
    states: Vec<u32>,
    reserved: Vec<u64>,
}

impl Columns {
    fn new(history: &History, unit: Unit, count: usize) -> Self {
        let (first, last) = history.time_span().unwrap_or((0, 0));
        let span = match unit {
            Unit::Event => u64::from(history.events()),
            Unit::Microseconds => last.saturating_sub(first) + 1,
        };
        Self { unit, count, first_time: first, span: span.max(1) }
    }

    /// Where `event` lies on the axis.
    fn position(&self, history: &History, event: u32) -> u64 {
        match self.unit {
            Unit::Event => u64::from(event),
            Unit::Microseconds => history.time_us(event).unwrap_or(0).saturating_sub(self.first_time),
        }
    }

    fn column(&self, position: u64) -> usize {
        (u128::from(position.min(self.span - 1)) * self.count as u128 / u128::from(self.span)) as usize
    }

    fn samples(&self, history: &History) -> Samples {
        let mut samples = Samples { x: Vec::new(), states: Vec::new(), reserved: Vec::new() };
        let start = history.counters(0);
        let (mut active, mut reserved) = (start.active as i64, start.reserved as i64);
        let mut highest = active;
        let mut column = None;
        for event in 0..history.events() {
            let before = (active, reserved);
            apply(history, event, &mut active, &mut reserved);
            // An event out of order in time stays in the column that is open.
            let found = self.column(self.position(history, event)).max(column.unwrap_or(0));
            if column != Some(found) {
                samples.x.push(self.position(history, event));
                let (state, value) = if event == 0 && before.0 > active { (0, before.0) } else { (event + 1, active) };
                samples.states.push(state);
                samples.reserved.push(before.1.max(reserved).max(0) as u64);
                (column, highest) = (Some(found), value);
                continue;
            }
            let last = samples.states.len() - 1;
            if active > highest {
                (samples.states[last], highest) = (event + 1, active);
            }
            samples.reserved[last] = samples.reserved[last].max(reserved.max(0) as u64);
        }
        samples
    }
}

/// What `event` does to the active and the reserved bytes.
fn apply(history: &History, event: u32, active: &mut i64, reserved: &mut i64) {
    let row = history.row(event);
    let events = &history.snapshot.events;
    let size = events.size[row] as i64;
    match events.action[row] {
        Action::SegmentAlloc | Action::SegmentMap => *reserved += size,
        Action::SegmentFree | Action::SegmentUnmap => *reserved -= size,
        _ => {
            if let Some((life, sign)) = active_change(&history.lives, event) {
                *active += sign * history.lives.bytes(life) as i64;
            }
        }
    }
}

/// The life that `event` makes active (1) or no longer active (−1).
fn active_change(lives: &Lives, event: u32) -> Option<(u32, i64)> {
    let life = lives.of_event(event)?;
    if lives.alloc_event(life) == Some(event) {
        Some((life, 1))
    } else if lives.done_at(life) == event + 1 {
        Some((life, -1))
    } else {
        None
    }
}

/// A dense number for each site.
struct SiteOrder<'s, 'a> {
    by_slot: &'s Sites<'a>,
    sites: Vec<Site>,
    /// By slot.
    numbers: Vec<u32>,
}

impl<'s, 'a> SiteOrder<'s, 'a> {
    fn new(sites: &'s Sites<'a>) -> Self {
        let mut known = std::collections::HashMap::new();
        let mut found = Vec::new();
        let numbers = (0..sites.slots())
            .map(|slot| {
                let site = sites.of_slot(slot);
                *known.entry(site).or_insert_with(|| {
                    found.push(site);
                    found.len() as u32 - 1
                })
            })
            .collect();
        Self { by_slot: sites, sites: found, numbers }
    }

    fn of_life(&self, history: &History, life: u32) -> usize {
        self.numbers[self.by_slot.slot(history, life)] as usize
    }

    /// Bytes of each site in state 0.
    fn at_start(&self, history: &History) -> Vec<i64> {
        let lives = &history.lives;
        let mut bytes = vec![0; self.sites.len()];
        for life in lives.ids().filter(|&life| lives.is_alive(life, 0)) {
            bytes[self.of_life(history, life)] += lives.bytes(life) as i64;
        }
        bytes
    }

    /// The `count` sites that hold most at their own highest point, biggest first.
    fn biggest(&self, history: &History, count: usize) -> Vec<usize> {
        let lives = &history.lives;
        let mut now = self.at_start(history);
        let mut highest = now.clone();
        for event in 0..history.events() {
            if let Some((life, sign)) = active_change(lives, event) {
                let site = self.of_life(history, life);
                now[site] += sign * lives.bytes(life) as i64;
                highest[site] = highest[site].max(now[site]);
            }
        }
        let mut order: Vec<usize> = (0..self.sites.len()).filter(|&site| highest[site] > 0).collect();
        order.sort_by_key(|&site| (std::cmp::Reverse(highest[site]), self.sites[site]));
        order.truncate(count);
        order
    }

    /// Bytes of each of `chosen`, then of all others, in each of `states`, which ascend.
    fn values(&self, history: &History, chosen: &[usize], states: &[u32]) -> Vec<Vec<u64>> {
        let lives = &history.lives;
        let mut band_of = vec![chosen.len(); self.sites.len()];
        for (band, &site) in chosen.iter().enumerate() {
            band_of[site] = band;
        }
        let mut now = vec![0i64; chosen.len() + 1];
        for (site, bytes) in self.at_start(history).into_iter().enumerate() {
            now[band_of[site]] += bytes;
        }
        let mut values = vec![Vec::with_capacity(states.len()); now.len()];
        let mut event = 0;
        for &state in states {
            while event < state {
                if let Some((life, sign)) = active_change(lives, event) {
                    now[band_of[self.of_life(history, life)]] += sign * lives.bytes(life) as i64;
                }
                event += 1;
            }
            for (band, &bytes) in values.iter_mut().zip(&now) {
                band.push(bytes.max(0) as u64);
            }
        }
        values
    }
}

fn marks(history: &History, columns: &Columns) -> Vec<Mark> {
    let mut marks: Vec<Mark> = history
        .ooms
        .iter()
        .map(|oom| Mark {
            kind: MarkKind::Oom,
            x: columns.position(history, oom.event),
            label: format!("OOM: {} asked", units::bytes(oom.rounded)),
        })
        .collect();
    if let Some(peak) = history.peaks.map(|peaks| peaks.active) {
        marks.push(Mark {
            kind: MarkKind::Peak,
            x: peak.event.map_or(0, |event| columns.position(history, event)),
            label: format!("peak {}", units::bytes(peak.bytes)),
        });
    }
    marks
}
