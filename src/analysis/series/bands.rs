//! The bands of a picture, and how much is in each.

use super::{Band, OTHER};
use crate::analysis::changes::changes;
use crate::history::History;

/// Which band each block belongs to.
pub(super) struct Bands {
    /// Name and tooltip of each band, lowest first.
    pub labels: Vec<(String, Option<String>)>,
    /// Row of `labels` for each life; their number for what has no band of its own.
    pub of_life: Vec<u32>,
}

impl Bands {
    /// The bands with the bytes of their blocks in each of `states`, which ascend.
    pub fn of_blocks(self, history: &History, states: &[u32]) -> Vec<Band> {
        let lives = &history.lives;
        let mut counts = Counts::new(self.labels.len() + 1, states);
        for life in lives.ids().filter(|&life| lives.is_alive(life, 0)) {
            counts.add(0, self.of_life[life as usize] as usize, lives.bytes(life) as i64);
        }
        changes(history, |state, life, begins| {
            let bytes = lives.bytes(life) as i64;
            counts.add(state, self.of_life[life as usize] as usize, if begins { bytes } else { -bytes });
        });
        counts.finish(self.labels)
    }
}

/// Bytes of several bands carried along the states.
pub(super) struct Counts<'s> {
    states: &'s [u32],
    now: Vec<i64>,
    values: Vec<Vec<u64>>,
    done: usize,
}

impl<'s> Counts<'s> {
    /// `count` bands, the last of them for everything else, to be told in each of `states`.
    pub fn new(count: usize, states: &'s [u32]) -> Self {
        let values = vec![Vec::with_capacity(states.len()); count];
        Self { states, now: vec![0; count], values, done: 0 }
    }

    /// A band grows or shrinks in `state`; states come in order.
    pub fn add(&mut self, state: u32, band: usize, delta: i64) {
        self.tell(|wanted| wanted < state);
        self.now[band] += delta;
    }

    fn tell(&mut self, is_due: impl Fn(u32) -> bool) {
        while self.states.get(self.done).is_some_and(|&state| is_due(state)) {
            for (values, now) in self.values.iter_mut().zip(&self.now) {
                values.push((*now).max(0) as u64);
            }
            self.done += 1;
        }
    }

    /// The bands under their `labels`, and [`OTHER`] when there is anything else.
    pub fn finish(mut self, labels: Vec<(String, Option<String>)>) -> Vec<Band> {
        self.tell(|_| true);
        let rest = labels.len();
        let named = labels.into_iter().chain([(OTHER.to_owned(), None)]);
        let bands = named.zip(self.values).enumerate();
        bands
            .filter(|(at, (_, values))| *at < rest || values.iter().any(|&value| value > 0))
            .map(|(_, ((site, detail), values))| Band { site, detail, values })
            .collect()
    }
}
