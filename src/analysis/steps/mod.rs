//! Where one step of the job ends and the next begins.
//!
//! Sources in this order; the first that gives at least [`MIN_BOUNDARIES`] boundaries over at least half of the events
//! is used, and said: annotations `ProfilerStep#N`, annotations `Optimizer.step`, other repeated annotations, the
//! period in the sequence of allocating stacks, equal windows.

mod annotations;
mod boundaries;
mod period;
mod phases;

pub use boundaries::{MIN_BOUNDARIES, StepSource, Steps};
pub use phases::{Phase, PhaseKind, StepPeak};

use boundaries::checked;

use crate::history::History;

/// Number of windows, where nothing else marks steps.
pub const WINDOWS: u32 = 20;
/// A window of fewer events tells nothing.
const MIN_WINDOW: u32 = 2;

impl Steps {
    /// The steps in `history`; `None` when its trace is too short to have any.
    pub fn find(history: &History) -> Option<Self> {
        if !history.health.recorded {
            return None;
        }
        let by_annotation = || annotations::find(history);
        by_annotation().or_else(|| period::find(history)).or_else(|| windows(history))
    }
}

fn windows(history: &History) -> Option<Steps> {
    let events = u64::from(history.events());
    if events < u64::from(WINDOWS * MIN_WINDOW) {
        return None;
    }
    let boundaries = (0..=u64::from(WINDOWS)).map(|window| (events * window / u64::from(WINDOWS)) as u32).collect();
    checked(history, StepSource::Windows, boundaries, 1..)
}
