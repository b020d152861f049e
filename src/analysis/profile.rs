//! What each stack holds and what it has allocated: the samples of a heap profile.

use rayon::prelude::*;

use super::ranking::Tally;
use super::sites::Sites;
use crate::history::{History, LifeId};

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

/// Lives in one parallel piece of work.
const CHUNK: usize = 1 << 16;

/// The samples of `history`'s device in `state`, in the order of their slots.
pub fn profile(history: &History, sites: &Sites, state: u32) -> Vec<Sample> {
    let lives = &history.lives;
    let slots = sites.slots();
    let none = || vec![(Tally::default(), Tally::default()); slots];
    let tally = |chunk: std::ops::Range<LifeId>| {
        let mut tallies = none();
        for life in chunk {
            let one = Tally {
                bytes: lives.bytes(life),
                requested: lives.requested(life),
                blocks: 1,
                value: lives.bytes(life),
            };
            let (live, allocated) = &mut tallies[sites.slot(history, life)];
            if lives.is_alive(life, state) {
                *live += one;
            }
            if lives.alloc_event(life).is_some() {
                *allocated += one;
            }
        }
        tallies
    };
    let ids = lives.ids();
    let chunks: Vec<_> = (ids.start..ids.end).step_by(CHUNK).map(|at| at..ids.end.min(at + CHUNK as u32)).collect();
    // Sums do not depend on the order in which the pieces are done.
    let tallies = chunks.into_par_iter().map(tally).reduce(none, |mut left, right| {
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
