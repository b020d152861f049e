//! How events fall into columns, and the extremes of a counter in each.

use std::ops::Range;

use super::Unit;
use crate::analysis::changes::changes;
use crate::history::History;
use crate::snapshot::Action;

/// The columns that have at least one event, and one for each stretch of time between them that has none.
pub(super) struct Columns {
    /// The events shown.
    pub window: Range<u32>,
    pub unit: Unit,
    /// Where each begins on the axis.
    pub x: Vec<u64>,
    /// Where the last one ends.
    pub x_end: u64,
    /// First event of each that has one.
    starts: Vec<u32>,
    /// For each of those whether one without events follows.
    rests: Vec<bool>,
    first_time: u64,
}

impl Columns {
    pub fn new(history: &History, window: Range<u32>, unit: Unit, count: usize) -> Self {
        let first_time = history.time_span().map_or(0, |(first, _)| first);
        let mut columns = Self {
            window: window.clone(),
            unit,
            x: Vec::new(),
            x_end: 0,
            starts: Vec::new(),
            rests: Vec::new(),
            first_time,
        };
        let from = columns.position(history, window.start);
        let to = columns.position(history, window.end.saturating_sub(1)).max(from);
        let span = u128::from(to - from) + 1;
        let mut last = None;
        for event in window {
            // An event out of order in time stays in the column that is open.
            let position = columns.position(history, event).clamp(from, to);
            let column = (u128::from(position - from) * count as u128 / span).max(last.unwrap_or(0));
            if last != Some(column) {
                if let Some(last) = last {
                    let end = from + ((last + 1) * span).div_ceil(count as u128) as u64;
                    let rests = column > last + 1 && end < position;
                    columns.x.extend(rests.then_some(end));
                    columns.rests.push(rests);
                }
                columns.x.push(position);
                columns.starts.push(event);
                last = Some(column);
            }
        }
        columns.x_end = to.saturating_add(1);
        columns
    }

    /// Where `event` lies on the axis.
    pub fn position(&self, history: &History, event: u32) -> u64 {
        match self.unit {
            Unit::Event => u64::from(event),
            Unit::Microseconds => history.time_us(event).unwrap_or(0).saturating_sub(self.first_time),
        }
    }

    /// Where a time in microseconds since 1970 lies on the axis: in events, at the first one that is not before it.
    pub fn position_of_time(&self, history: &History, time_us: u64) -> u64 {
        match self.unit {
            Unit::Microseconds => time_us.saturating_sub(self.first_time),
            Unit::Event => {
                let (mut low, mut high) = (0, history.events());
                while low < high {
                    let middle = low + (high - low) / 2;
                    match history.time_us(middle).unwrap_or(0) < time_us {
                        true => low = middle + 1,
                        false => high = middle,
                    }
                }
                u64::from(low)
            }
        }
    }

    /// The first state of a column with events; the first column begins with the state before its first event.
    fn first_state(&self, column: usize) -> u32 {
        if column == 0 { self.window.start } else { self.starts[column] + 1 }
    }
}

/// The highest and the lowest value of one counter in each column.
pub(super) struct Extremes {
    /// The first state with the highest value; they never descend.
    pub states: Vec<u32>,
    pub highest: Vec<u64>,
    pub lowest: Vec<u64>,
}

/// Follows a counter along the columns.
struct Follower<'c> {
    columns: &'c Columns,
    column: usize,
    /// The value since this state.
    since: u32,
    value: i64,
    /// Of the columns with events.
    found: Extremes,
    /// The last value of each of them.
    left: Vec<u64>,
}

impl<'c> Follower<'c> {
    fn new(columns: &'c Columns, start: i64) -> Self {
        let count = columns.starts.len();
        Self {
            columns,
            column: 0,
            since: 0,
            value: start,
            found: Extremes {
                states: (0..count).map(|column| columns.first_state(column)).collect(),
                highest: vec![0; count],
                lowest: vec![u64::MAX; count],
            },
            left: vec![0; count],
        }
    }

    /// The counter changes in `state`.
    fn add(&mut self, state: u32, delta: i64) {
        if state > self.since {
            self.hold(state);
        }
        self.value += delta;
    }

    /// The value holds up to the state before `state`.
    fn hold(&mut self, state: u32) {
        let value = self.value.max(0) as u64;
        let (first, last) = (self.columns.window.start, self.columns.window.end);
        let (mut at, end) = (self.since.max(first), state.min(last + 1));
        while at < end {
            while self.column + 1 < self.columns.starts.len() && self.columns.first_state(self.column + 1) <= at {
                self.column += 1;
            }
            let column = self.column;
            if value > self.found.highest[column] {
                (self.found.highest[column], self.found.states[column]) = (value, at);
            }
            self.found.lowest[column] = self.found.lowest[column].min(value);
            self.left[column] = value;
            at = match column + 1 < self.columns.starts.len() {
                true => self.columns.first_state(column + 1),
                false => end,
            };
        }
        self.since = state;
    }

    fn finish(mut self) -> Extremes {
        self.hold(u32::MAX);
        let count = self.columns.x.len();
        let with_room = || Vec::with_capacity(count);
        let mut all = Extremes { states: Vec::with_capacity(count), highest: with_room(), lowest: with_room() };
        for (column, &left) in self.left.iter().enumerate() {
            all.states.push(self.found.states[column]);
            all.highest.push(self.found.highest[column]);
            all.lowest.push(self.found.lowest[column]);
            if self.columns.rests.get(column) == Some(&true) {
                all.states.push(self.columns.first_state(column + 1) - 1);
                all.highest.push(left);
                all.lowest.push(left);
            }
        }
        all
    }
}

/// Live and pending bytes.
pub(super) fn active(history: &History, columns: &Columns) -> Extremes {
    let lives = &history.lives;
    let mut follower = Follower::new(columns, history.counters(0).active as i64);
    changes(history, |state, life, begins| {
        let bytes = lives.bytes(life) as i64;
        follower.add(state, if begins { bytes } else { -bytes });
    });
    follower.finish()
}

/// Reserved bytes.
pub(super) fn reserved(history: &History, columns: &Columns) -> Extremes {
    let events = &history.snapshot.events;
    let mut follower = Follower::new(columns, history.ranges.reserved_at_start() as i64);
    for event in 0..history.events() {
        let row = history.row(event);
        let size = events.size[row] as i64;
        match events.action[row] {
            Action::SegmentAlloc | Action::SegmentMap => follower.add(event + 1, size),
            Action::SegmentFree | Action::SegmentUnmap => follower.add(event + 1, -size),
            _ => {}
        }
    }
    follower.finish()
}

/// Bytes asked for in each of `states`, which ascend.
pub(super) fn requested(history: &History, states: &[u32]) -> Vec<u64> {
    let lives = &history.lives;
    let mut now = history.counters(0).requested as i64;
    let mut values = Vec::with_capacity(states.len());
    changes(history, |state, life, begins| {
        while states.get(values.len()).is_some_and(|&wanted| wanted < state) {
            values.push(now.max(0) as u64);
        }
        let bytes = lives.requested(life) as i64;
        now += if begins { bytes } else { -bytes };
    });
    values.resize(states.len(), now.max(0) as u64);
    values
}
