//! What each stack holds and what it has allocated: the samples of a heap profile.

use rayon::prelude::*;

use super::ranking::{Measure, Metric, Tally, chunks};
use super::sites::Sites;
use super::window::Window;
use crate::history::{History, LifeId, Moment};

/// One stack, or the reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// See [`Sites::slot`].
    pub slot: usize,
    /// Live and pending blocks at the moment.
    pub live: Tally,
    /// Blocks allocated by the events of the trace.
    pub allocated: Tally,
}

/// The samples of `history`'s device at `moment`, in the order of their slots.
pub fn profile(history: &History, sites: &Sites, moment: Moment) -> Vec<Sample> {
    let live = Measure::Live(moment);
    let whole = Window::whole(history).ok().map(|window| Measure::Over(Metric::Allocated, window));
    let slots = sites.slots();
    let none = || vec![(Tally::default(), Tally::default()); slots];
    let tally = |chunk: std::ops::Range<LifeId>| {
        let mut tallies = none();
        for life in chunk {
            let (held, allocated) = &mut tallies[sites.slot(history, life)];
            if let Some(tally) = live.of(history, life) {
                *held += tally;
            }
            if let Some(tally) = whole.and_then(|measure| measure.of(history, life)) {
                *allocated += tally;
            }
        }
        tallies
    };
    // Sums do not depend on the order in which the pieces are done.
    let tallies = chunks(history).into_par_iter().map(tally).reduce(none, |mut left, right| {
        for (left, right) in left.iter_mut().zip(right) {
            left.0 += right.0;
            left.1 += right.1;
        }
        left
    });
    let samples = tallies.into_iter().enumerate();
    samples
        .filter(|(_, (live, allocated))| live.blocks > 0 || allocated.blocks > 0)
        .map(|(slot, (live, allocated))| Sample { slot, live, allocated })
        .collect()
}
