//! The moment at which each file is looked at.

use crate::analysis::steps::Steps;
use crate::history::{At, Counter, History, Moment, MomentError};
use crate::snapshot::Action;

/// Where each file is looked at, and what makes the moments comparable.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// One a file.
    pub of: Vec<Moment>,
    /// The request at which one file failed and the others did not, in bytes, where the files asked for the same up to
    /// there: then every file is looked at before that request.
    pub same_request: Option<u64>,
}

/// The moments for `at`; the error comes with the number of the file.
///
/// Without `at`: the last failure, when every file has one. When only some have, and the others made the same requests
/// up to it and then were served, the others are looked at before that request. Else the peak, else the end.
pub fn moments(histories: &[&History], at: Option<At>) -> Result<Moments, (usize, MomentError)> {
    let each = |at: At| -> Result<Moments, (usize, MomentError)> {
        let of = histories.iter().enumerate().map(|(file, history)| moment(history, at).map_err(|error| (file, error)));
        Ok(Moments { of: of.collect::<Result<_, _>>()?, same_request: None })
    };
    if let Some(at) = at {
        return each(at);
    }
    if histories.iter().all(|history| !history.ooms.is_empty()) {
        return each(At::Oom(None));
    }
    if let Some(aligned) = aligned(histories) {
        return Ok(aligned);
    }
    match common_peak(histories) {
        Some(counter) => each(At::Peak(Some(counter))),
        None => each(At::End),
    }
}

/// The counter whose peak every file has: allocated where it is exact in all of them.
fn common_peak(histories: &[&History]) -> Option<Counter> {
    let peaks = histories.iter().map(|history| history.peaks).collect::<Option<Vec<_>>>()?;
    Some(if peaks.iter().all(|peaks| peaks.allocated.exact) { Counter::Allocated } else { Counter::Requested })
}

fn moment(history: &History, at: At) -> Result<Moment, MomentError> {
    let found = history.moment(at);
    let At::Step(step) = at else { return found };
    // A step need not be a profiler's.
    found.or_else(|error| {
        let steps = Steps::find(history).filter(|steps| steps.source.is_program()).ok_or(error.clone())?;
        let states = steps.numbered(step).ok_or(error)?;
        history.moment(At::Event(states.end - 1))
    })
}

/// The moments before one request, in files that asked for the same up to it.
fn aligned(histories: &[&History]) -> Option<Moments> {
    let starts_empty = |history: &&History| history.health.recorded && history.counters(0).active == 0;
    if !histories.iter().all(starts_empty) {
        return None;
    }
    let requests: Vec<Vec<u32>> = histories.iter().map(|history| requests(history)).collect();
    let failed: Vec<usize> = (0..histories.len()).filter(|&file| !histories[file].ooms.is_empty()).collect();
    let before = |file: usize| {
        let event = histories[file].ooms.last()?.event;
        Some(requests[file].partition_point(|&alloc| alloc < event))
    };
    let (&leader, common) = (failed.first()?, before(*failed.first()?)?);
    let oom = histories[leader].ooms.last()?;
    let size = |file: usize, at: usize| {
        let (history, event) = (histories[file], *requests[file].get(at)?);
        Some(history.snapshot.events.size[history.row(event)])
    };
    let mut of = Vec::with_capacity(histories.len());
    for (file, history) in histories.iter().enumerate() {
        if (0..common).any(|at| size(file, at) != size(leader, at)) {
            return None;
        }
        of.push(match history.ooms.last() {
            Some(own) if before(file)? == common && own.rounded == oom.rounded => history.moment(At::Oom(None)).ok()?,
            Some(_) => return None,
            None => {
                let next = *requests[file].get(common)?;
                if history.rules.round_size(size(file, common)?) != histories[leader].rules.round_size(oom.rounded) {
                    return None;
                }
                history.moment(At::Event(history.malloc(next).state_before().checked_sub(1)?)).ok()?
            }
        });
    }
    Some(Moments { of, same_request: Some(oom.rounded) })
}

/// The `alloc` events of a trace.
fn requests(history: &History) -> Vec<u32> {
    let actions = &history.snapshot.events.action[history.device.events.clone()];
    actions.iter().zip(0..).filter(|(action, _)| **action == Action::Alloc).map(|(_, event)| event).collect()
}
