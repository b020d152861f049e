//! What each step of the job needed in each file.

use serde::Serialize;

use super::sides::{Sides, delta};
use crate::analysis::steps::{StepSource, Steps};
use crate::history::History;

/// The steps of each file, where every file has steps of the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepsDiff {
    /// What marks them.
    pub sources: Sides<StepSource>,
    /// Steps with the same number in every file.
    pub rows: Vec<StepRow>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepRow {
    /// Its number.
    pub step: u64,
    /// The peak of allocated memory in it, in bytes.
    pub peak: Sides<u64>,
    /// The last file's less the first's.
    pub delta: i64,
}

/// The steps that all of `histories` have; `None` when one of them has none.
pub fn steps(histories: &[&History]) -> Option<StepsDiff> {
    let found = histories.iter().map(|history| Steps::find(history).filter(|steps| steps.source.is_program()));
    let found = found.collect::<Option<Vec<Steps>>>()?;
    let peaks: Vec<_> = found.iter().zip(histories).map(|(steps, history)| steps.peaks(history)).collect();
    let (first, others) = peaks.split_first()?;
    let row = |step: u64, bytes: u64| {
        let others = others.iter().map(|peaks| peaks.iter().find(|peak| peak.step == step).map(|peak| peak.bytes));
        let all = std::iter::once(Some(bytes)).chain(others).collect::<Option<Vec<u64>>>()?;
        let delta = delta(bytes, *all.last()?);
        Some(StepRow { step, peak: Sides(all), delta })
    };
    Some(StepsDiff {
        rows: first.iter().filter_map(|peak| row(peak.step, peak.bytes)).collect(),
        sources: found.into_iter().map(|steps| steps.source).collect(),
    })
}
