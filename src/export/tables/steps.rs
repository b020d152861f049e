//! One row an annotated region: a step of the profiler or the optimizer, or what the program named.

use std::collections::HashMap;

use super::record::{TimeUs, record};
use super::source::{Source, time};
use crate::analysis::regions::{Region, regions};
use crate::history::{Counters, History};

record! {
    /// Annotated regions such as `ProfilerStep#3` and `Optimizer.step#AdamW.step`, in the order of their starts. The
    /// memory at a time is that after the last event up to it; null where the trace does not reach it.
    struct StepRow in "steps" {
        /// Device ordinal.
        device: i64,
        /// Name of the region.
        name: String,
        /// The number in `ProfilerStep#3`.
        step: Option<u64>,
        /// Start; null when the recording began later.
        start_time_us: Option<TimeUs>,
        /// End; null when the recording ended before.
        end_time_us: Option<TimeUs>,
        /// First event in it; null when there is none, or start or end are not known.
        first_event: Option<u64>,
        /// Last event in it.
        last_event: Option<u64>,
        /// Allocated bytes at the start.
        start_allocated: Option<u64>,
        /// Active bytes at the start.
        start_active: Option<u64>,
        /// Reserved bytes at the start.
        start_reserved: Option<u64>,
        /// Allocated bytes at the end.
        end_allocated: Option<u64>,
        /// Active bytes at the end.
        end_active: Option<u64>,
        /// Reserved bytes at the end.
        end_reserved: Option<u64>,
        /// Highest active bytes from start to end.
        peak_active: Option<u64>,
    }
}

/// The rows.
pub(super) fn rows(source: &Source) -> Vec<StepRow> {
    let regions = regions(source.snapshot);
    let mut measured: HashMap<i64, Measured> = HashMap::new();
    for history in &source.histories {
        let device = history.device.ordinal;
        measured.insert(device, Measured::new(history, regions.iter().filter(|region| region.device == device)));
    }
    let is_chosen = |region: &&Region| {
        measured.contains_key(&region.device) || !source.snapshot.devices.iter().any(|d| d.ordinal == region.device)
    };
    regions.iter().filter(is_chosen).map(|region| row(source, region, measured.get(&region.device))).collect()
}

fn row(source: &Source, region: &Region, measured: Option<&Measured>) -> StepRow {
    let name = source.snapshot.text(region.name);
    let state = |time: Option<u64>| measured.zip(time).and_then(|(measured, time)| measured.state(time));
    let (start, end) = (state(region.start_us), state(region.end_us));
    let counters = |state: Option<u32>| measured.zip(state).and_then(|(measured, state)| measured.counters.get(&state));
    let (at_start, at_end) = (counters(start), counters(end));
    let span = start.zip(end).filter(|(start, end)| start < end);
    StepRow {
        device: region.device,
        name: name.to_owned(),
        step: name.strip_prefix("ProfilerStep#").and_then(|number| number.parse().ok()),
        start_time_us: time(region.start_us),
        end_time_us: time(region.end_us),
        first_event: span.map(|(start, _)| u64::from(start)),
        last_event: span.map(|(_, end)| u64::from(end - 1)),
        start_allocated: at_start.map(|counters| counters.allocated),
        start_active: at_start.map(|counters| counters.active),
        start_reserved: at_start.map(|counters| counters.reserved),
        end_allocated: at_end.map(|counters| counters.allocated),
        end_active: at_end.map(|counters| counters.active),
        end_reserved: at_end.map(|counters| counters.reserved),
        peak_active: measured.zip(start.zip(end)).map(|(measured, (start, end))| measured.peak(start, end)),
    }
}

/// States in one piece of [`Measured::maxima`].
const PIECE: usize = 1 << 10;

/// What is known of one device at the starts and ends of its regions.
struct Measured {
    /// The earliest time of each event and those behind it: ascending, whatever the order of the events.
    times: Vec<u64>,
    counters: HashMap<u32, Counters>,
    active: Vec<u64>,
    /// Highest of each piece of `active`.
    maxima: Vec<u64>,
}

impl Measured {
    fn new<'r>(history: &History, regions: impl Iterator<Item = &'r Region>) -> Self {
        let mut measured = Self { times: Vec::new(), counters: HashMap::new(), active: Vec::new(), maxima: Vec::new() };
        let wanted: Vec<u64> = regions.flat_map(|region| region.start_us.into_iter().chain(region.end_us)).collect();
        if wanted.is_empty() || history.time_span().is_none() {
            return measured;
        }
        measured.times = (0..history.events()).map(|event| history.time_us(event).unwrap_or(0)).collect();
        let mut earliest = u64::MAX;
        for time in measured.times.iter_mut().rev() {
            earliest = earliest.min(*time);
            *time = earliest;
        }
        for time in wanted {
            if let Some(state) = measured.state(time) {
                measured.counters.insert(state, Counters::default());
            }
        }
        let start = history.counters(0);
        let (mut requested, mut allocated) = (start.requested as i64, start.allocated as i64);
        let (mut active, mut reserved) = (start.active as i64, start.reserved as i64);
        let known = |value: i64| value.max(0) as u64;
        for state in 0..=history.events() {
            if let Some(event) = state.checked_sub(1) {
                let change = history.change(event);
                requested += change.requested;
                allocated += change.allocated;
                active += change.active;
                reserved += change.reserved;
            }
            measured.active.push(known(active));
            if let Some(counters) = measured.counters.get_mut(&state) {
                *counters = Counters {
                    requested: known(requested),
                    allocated: known(allocated),
                    active: known(active),
                    reserved: known(reserved),
                };
            }
        }
        measured.maxima = measured.active.chunks(PIECE).map(|piece| piece.iter().copied().max().unwrap_or(0)).collect();
        measured
    }

    /// The state at `time`; `None` before the first event, of which the trace tells nothing.
    fn state(&self, time: u64) -> Option<u32> {
        let state = self.times.partition_point(|&at| at <= time);
        (state > 0).then_some(state as u32)
    }

    /// Highest active bytes in the states `start..=end`.
    fn peak(&self, start: u32, end: u32) -> u64 {
        let (start, end) = (start as usize, (end as usize).max(start as usize) + 1);
        let (first, last) = (start.div_ceil(PIECE), end / PIECE);
        let highest = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
        if first >= last {
            return highest(&self.active[start..end]);
        }
        let edges = highest(&self.active[start..first * PIECE]).max(highest(&self.active[last * PIECE..end]));
        edges.max(highest(&self.maxima[first..last]))
    }
}
