//! Steps that annotations mark.

use std::collections::{BTreeMap, HashSet};

use super::boundaries::{MIN_BOUNDARIES, StepSource, Steps, checked, is_regular};
use crate::history::History;
use crate::snapshot::Annotation;

const PROFILER: &str = "ProfilerStep#";
const OPTIMIZER_STEP: &str = "Optimizer.step";
/// Regions that PyTorch itself opens, and that are parts of a step at most.
const INTERNAL: [&str; 4] = ["Optimizer.", "(dynamo_timed)", "CompiledFxGraph", "Torch-Compiled Region"];

/// The occurrences of one annotation, in the order of the file.
struct Group<'a> {
    name: &'a str,
    marks: Vec<(&'a Annotation, Option<u64>)>,
}

pub(super) fn find(history: &History) -> Option<Steps> {
    history.time_span()?;
    let groups = groups(history);
    let profiler = groups.iter().find(|group| group.name == PROFILER);
    let optimizers = groups.iter().filter(|group| group.name.starts_with(OPTIMIZER_STEP));
    let others = groups.iter().filter(|group| !INTERNAL.iter().any(|part| group.name.contains(part)));
    profiler
        .and_then(|group| group.between_starts(history, StepSource::ProfilerStep))
        .or_else(|| {
            let found = optimizers.filter_map(|group| group.between_ends(history));
            found.min_by_key(Steps::count)
        })
        .or_else(|| {
            // What is numbered is a step sooner than what is not, and an outer region sooner than an inner one.
            let found = others.filter_map(|group| Some((!group.is_numbered(), group.regular(history)?)));
            found.min_by_key(|(plain, steps)| (*plain, steps.count())).map(|(_, steps)| steps)
        })
}

/// All annotations by name, where numbers at the end of names do not count: those on this device, or those on any
/// where it has none.
fn groups<'a>(history: &History<'a>) -> Vec<Group<'a>> {
    let snapshot = history.snapshot;
    let all = &snapshot.annotations;
    let has_own = all.iter().any(|mark| mark.device == history.device.ordinal);
    let mut order: Vec<Group> = Vec::new();
    let mut known = BTreeMap::new();
    for mark in all.iter().filter(|mark| !has_own || mark.device == history.device.ordinal) {
        let name = snapshot.text(mark.name);
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[stem.len()..].parse().ok();
        let at = *known.entry(stem).or_insert_with(|| {
            order.push(Group { name: stem, marks: Vec::new() });
            order.len() - 1
        });
        order[at].marks.push((mark, number));
    }
    order
}

impl Group<'_> {
    fn is_numbered(&self) -> bool {
        self.marks.iter().all(|(_, number)| number.is_some())
    }

    /// Steps from each start to the next; the last one up to its end.
    fn between_starts(&self, history: &History, source: StepSource) -> Option<Steps> {
        let mut seen = HashSet::new();
        // A numbered region that several threads open counts once.
        let is_first = |number: Option<u64>, seen: &mut HashSet<u64>| number.is_none_or(|number| seen.insert(number));
        let starts = self.marks.iter().filter(|(mark, number)| mark.starts && is_first(*number, &mut seen));
        let mut starts: Vec<(u64, Option<u64>)> = starts.map(|(mark, number)| (mark.time_us, *number)).collect();
        starts.sort_by_key(|&(time, _)| time);
        let (last, _) = *starts.last()?;
        let ends = self.marks.iter().filter(|(mark, _)| !mark.starts).map(|(mark, _)| mark.time_us);
        let mut boundaries: Vec<u32> = starts.iter().map(|&(time, _)| before(history, time)).collect();
        boundaries.extend(ends.filter(|&time| time > last).max().map(|time| up_to(history, time)));
        ascend(&mut boundaries);
        let numbers = starts.iter().zip(1..).map(|(&(_, number), counted)| number.unwrap_or(counted));
        checked(history, source, boundaries, numbers)
    }

    /// Steps from each end to the next.
    fn between_ends(&self, history: &History) -> Option<Steps> {
        let ends = self.marks.iter().filter(|(mark, _)| !mark.starts).map(|(mark, _)| mark.time_us);
        let mut boundaries: Vec<u32> = ends.map(|time| up_to(history, time)).collect();
        boundaries.sort_unstable();
        checked(history, StepSource::OptimizerStep { name: self.name.to_owned() }, boundaries, 1..)
    }

    /// Steps from each start to the next, when they are alike.
    fn regular(&self, history: &History) -> Option<Steps> {
        if self.marks.len() < MIN_BOUNDARIES {
            return None;
        }
        let name = self.name.trim_end_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation()).to_owned();
        let steps = self.between_starts(history, StepSource::Annotation { name })?;
        is_regular(&steps.boundaries).map(|_| steps)
    }
}

/// Makes `boundaries` ascend, where clocks went backwards.
fn ascend(boundaries: &mut [u32]) {
    let mut highest = 0;
    for boundary in boundaries {
        highest = highest.max(*boundary);
        *boundary = highest;
    }
}

/// The state before the first event at `time` or later.
fn before(history: &History, time: u64) -> u32 {
    state(history, |at| at < time)
}

/// The state after the last event up to `time`.
fn up_to(history: &History, time: u64) -> u32 {
    state(history, |at| at <= time)
}

/// Number of events whose time is `earlier`; times ascend.
fn state(history: &History, earlier: impl Fn(u64) -> bool) -> u32 {
    let (mut low, mut high) = (0, history.events());
    while low < high {
        let middle = low + (high - low) / 2;
        if history.time_us(middle).is_some_and(&earlier) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
