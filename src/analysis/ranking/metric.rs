//! What is counted of each block.

use std::ops::Range;

use rayon::prelude::*;
use serde::Serialize;

use super::Question;
use super::groups::Groups;
use crate::analysis::window::Window;
use crate::history::{At, History, LifeId, Moment, NEVER};

/// What is counted over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Bytes handed out in the window.
    Allocated,
    /// Bytes that the program freed in the window, by the code that had allocated them.
    Freed,
    /// Bytes both handed out and freed in the window.
    Churn,
    /// Number of allocations in the window.
    Count,
    /// Time for which blocks were held in the window, summed over the blocks.
    Lifetime,
    /// Bytes of each block times the time for which it was held in the window.
    BytesTime,
}

impl Metric {
    /// The value of `--metric`, and of `metric` in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocated => "allocated",
            Self::Freed => "freed",
            Self::Churn => "churn",
            Self::Count => "count",
            Self::Lifetime => "lifetime",
            Self::BytesTime => "bytes-time",
        }
    }
}

/// What is counted, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes of the blocks that are live or pending at a moment.
    Live(Moment),
    /// A metric over a window.
    Over(Metric, Window),
}

/// What a metric is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Allocations.
    #[serde(rename = "allocations")]
    Allocations,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Events, where the file has no times.
    #[serde(rename = "events")]
    Events,
    /// Bytes times milliseconds.
    #[serde(rename = "byte-ms")]
    ByteMilliseconds,
    /// Bytes times events, where the file has no times.
    #[serde(rename = "byte-events")]
    ByteEvents,
}

impl Measure {
    /// The value of `--metric`, and of `metric` in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live(_) => "live",
            Self::Over(metric, _) => metric.name(),
        }
    }

    /// What it is in, for a file that has times or has none.
    pub fn unit(self, history: &History) -> Unit {
        let has_times = history.time_span().is_some();
        match self {
            Self::Over(Metric::Count, _) => Unit::Allocations,
            Self::Over(Metric::Lifetime, _) if has_times => Unit::Microseconds,
            Self::Over(Metric::Lifetime, _) => Unit::Events,
            Self::Over(Metric::BytesTime, _) if has_times => Unit::ByteMilliseconds,
            Self::Over(Metric::BytesTime, _) => Unit::ByteEvents,
            _ => Unit::Bytes,
        }
    }

    /// The moment, or the window with the moment at which it ends.
    pub(super) fn span(self, history: &History) -> (Moment, Option<Window>) {
        match self {
            Self::Live(moment) => (moment, None),
            Self::Over(_, window) => {
                let end = history.moment(At::Event(window.last));
                // A window that was made by hand may reach behind the trace.
                let none = Moment { what: "end", event: None, time_us: None, state: history.events() };
                (end.unwrap_or(none), Some(window))
            }
        }
    }

    /// What `life` adds; `None` when it does not count. In the unit of [`Measure::unit`].
    pub(in crate::analysis) fn of(self, history: &History, life: LifeId) -> Option<Tally> {
        let lives = &history.lives;
        let bytes = lives.bytes(life);
        let value = match self {
            Self::Live(moment) => lives.is_alive(life, moment.state).then_some(bytes),
            Self::Over(metric, window) => {
                let is_born = lives.alloc_event(life).is_some_and(|event| window.contains(event));
                let freed_at = lives.freed_at(life);
                let is_freed = freed_at != NEVER && freed_at.checked_sub(1).is_some_and(|event| window.contains(event));
                match metric {
                    Metric::Allocated => is_born.then_some(bytes),
                    Metric::Freed => is_freed.then_some(bytes),
                    Metric::Churn => (is_born && is_freed).then_some(bytes),
                    Metric::Count => is_born.then_some(1),
                    Metric::Lifetime => held(history, life, window),
                    Metric::BytesTime => held(history, life, window).map(|time| {
                        // Milliseconds keep the sum over a day of a large card within 64 bits.
                        let unit = if history.time_span().is_some() { 1_000 } else { 1 };
                        u64::try_from(u128::from(bytes) * u128::from(time) / unit).unwrap_or(u64::MAX)
                    }),
                }
            }
        };
        value.map(|value| Tally { value, bytes, requested: lives.requested(life), blocks: 1 })
    }
}

/// How long `life` was there during `window`, in microseconds or, without times, in events; `None` when it was not.
fn held(history: &History, life: LifeId, window: Window) -> Option<u64> {
    let lives = &history.lives;
    // States from the one before the first event to the one after the last.
    let (first, last) = (window.first, window.last.saturating_add(1));
    let (from, to) = (lives.born_at(life).max(first), lives.done_at(life).min(last));
    let time = |state: u32| match state.checked_sub(1) {
        // What was there before the trace is held from its first event on.
        None => history.time_us(0).unwrap_or(0),
        Some(event) => history.time_us(event).unwrap_or_else(|| u64::from(event) + 1),
    };
    (from < to).then(|| time(to).saturating_sub(time(from)))
}

/// What was counted for one stack or site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The metric.
    pub value: u64,
    /// Bytes occupied.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.value = self.value.saturating_add(other.value);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.requested = self.requested.saturating_add(other.requested);
        self.blocks += other.blocks;
    }
}

/// Lives in one parallel piece of work.
const CHUNK: usize = 1 << 16;

/// All life ids of `history` in pieces for parallel work.
pub(in crate::analysis) fn chunks(history: &History) -> Vec<Range<LifeId>> {
    let ids = history.lives.ids();
    (ids.start..ids.end).step_by(CHUNK).map(|at| at..ids.end.min(at + CHUNK as u32)).collect()
}

/// Whether the stack of `life` is one that counts.
pub(super) fn is_under(history: &History, life: LifeId, under: Option<&[bool]>) -> bool {
    under.is_none_or(|under| under.get(history.lives.stack(life).index()).copied().unwrap_or(false))
}

/// The metric by the slots of `groups`, and that of the stacks which do not count.
pub(super) fn by_slot(history: &History, groups: &Groups, question: &Question) -> (Vec<Tally>, u64) {
    let slots = groups.slots();
    let tally = |chunk: Range<LifeId>| {
        let mut tallies = vec![Tally::default(); slots];
        let mut left_out = 0u64;
        for life in chunk {
            let Some(tally) = question.measure.of(history, life) else { continue };
            match is_under(history, life, question.under) {
                true => tallies[groups.slot(history, life)] += tally,
                false => left_out = left_out.saturating_add(tally.value),
            }
        }
        (tallies, left_out)
    };
    // Sums do not depend on the order in which the pieces are done.
    chunks(history).into_par_iter().map(tally).reduce(
        || (vec![Tally::default(); slots], 0),
        |mut left, right| {
            for (left, right) in left.0.iter_mut().zip(right.0) {
                *left += right;
            }
            (left.0, left.1.saturating_add(right.1))
        },
    )
}
