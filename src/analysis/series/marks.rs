//! What happened, on the axis of a series.

use super::columns::{Columns, Extremes};
use super::{Mark, MarkKind};
use crate::analysis::steps::{StepSource, Steps};
use crate::history::History;
use crate::snapshot::Annotation;
use crate::units;

/// The marks in the window of `columns`; the peak is that of `shown`.
pub(super) fn marks(history: &History, columns: &Columns, shown: &Extremes, steps: Option<&Steps>) -> Vec<Mark> {
    let ooms = history.ooms.iter().filter(|oom| columns.window.contains(&oom.event));
    let mut marks: Vec<Mark> = ooms
        .map(|oom| Mark {
            kind: MarkKind::Oom,
            x: columns.position(history, oom.event),
            x_end: None,
            label: format!("OOM: {} asked", units::bytes(oom.rounded)),
        })
        .collect();
    marks.extend(peak(history, columns, shown));
    marks.extend(steps.into_iter().flat_map(|steps| step_marks(history, columns, steps)));
    marks.extend(regions(history, columns, steps));
    marks
}

/// The steps that reach into the window.
fn step_marks(history: &History, columns: &Columns, steps: &Steps) -> Vec<Mark> {
    let window = &columns.window;
    let found = (0..steps.count()).map(|at| (steps.numbers[at], steps.states(at)));
    found
        .filter(|(_, states)| states.start < window.end && window.start < states.end)
        .map(|(number, states)| {
            let x_end = match states.end < window.end {
                true => columns.position(history, states.end),
                false => columns.x_end,
            };
            Mark {
                kind: MarkKind::Step,
                x: columns.position(history, states.start.max(window.start)),
                x_end: Some(x_end),
                label: format!("step {number}"),
            }
        })
        .collect()
}

/// The first of the highest points.
fn peak(history: &History, columns: &Columns, shown: &Extremes) -> Option<Mark> {
    let highest = shown.highest.iter().copied().max()?;
    let column = shown.highest.iter().position(|&value| value == highest)?;
    // A state lies at the event that led to it; the first may have none.
    let event = shown.states[column].saturating_sub(1).max(columns.window.start);
    let x = columns.position(history, event);
    Some(Mark { kind: MarkKind::Peak, x, x_end: None, label: format!("peak {}", units::bytes(highest)) })
}

/// Regions that the program named, in the order of their starts, without those that mark steps; one that was never left
/// lasts to the end.
fn regions(history: &History, columns: &Columns, steps: Option<&Steps>) -> Vec<Mark> {
    let snapshot = history.snapshot;
    if history.time_span().is_none() {
        return Vec::new();
    }
    let by_profiler = steps.is_some_and(|steps| steps.source == StepSource::ProfilerStep);
    let is_shown = |mark: &&Annotation| {
        let is_ours = mark.device == history.device.ordinal || mark.device < 0;
        is_ours && !(by_profiler && snapshot.text(mark.name).starts_with("ProfilerStep#"))
    };
    let (from, to) = (columns.x.first().copied().unwrap_or(0), columns.x_end);
    let mut open: Vec<(usize, &Annotation)> = Vec::new();
    let mut found: Vec<(u64, Option<u64>, &Annotation)> = Vec::new();
    for mark in snapshot.annotations.iter().filter(is_shown) {
        let x = columns.position_of_time(history, mark.time_us);
        if mark.starts {
            open.push((found.len(), mark));
            found.push((x, None, mark));
        } else if let Some(at) = open.iter().rposition(|(_, start)| start.name == mark.name) {
            found[open.remove(at).0].1 = Some(x);
        }
    }
    let inside = found.into_iter().filter(|(start, end, _)| *start < to && end.unwrap_or(to) > from);
    inside
        .map(|(start, end, mark)| Mark {
            kind: MarkKind::Annotation,
            x: start.max(from),
            x_end: Some(end.unwrap_or(to).min(to)),
            label: snapshot.text(mark.name).to_owned(),
        })
        .collect()
}
