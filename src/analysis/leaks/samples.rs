//! What each site holds between the steps.

use std::collections::HashMap;

use crate::analysis::sites::{Site, Sites};
use crate::analysis::steps::Steps;
use crate::history::{History, LifeId, Moment};

/// More samples than this tell nothing more; of more boundaries every second, third … one is taken.
const MAX_SAMPLES: usize = 128;

/// Live memory by site in a number of states.
///
/// Between steps of the program what is live at a boundary counts. A window has no such moment: there the least that a
/// site holds within it counts.
pub(super) struct Samples {
    /// The states; of a window its first one.
    pub(super) states: Vec<u32>,
    /// Steps between two samples.
    pub(super) stride: usize,
    /// The state that "now" is: that of the failure, when the job died of one, else the end.
    pub(super) until: u32,
    /// Whether it is a failure.
    pub(super) failed: bool,
    /// Number of the step that begins with each sample.
    numbers: Vec<u64>,
    rows: HashMap<Site, usize>,
    order: Vec<Site>,
    /// Bytes, by row and sample.
    bytes: Vec<i64>,
    /// Blocks, likewise.
    blocks: Vec<i64>,
    /// Blocks live at the last sample, by row and the sample before which they were allocated.
    left: Vec<u32>,
    /// Bytes now, by row: as requests need them, and as blocks occupy them.
    now: Vec<(u64, u64)>,
}

impl Samples {
    pub(super) fn take(history: &History, sites: &Sites, steps: &Steps) -> Self {
        let (until, failed) = until(history, steps);
        let windows = !steps.source.is_program();
        let mut boundaries = steps.boundaries.iter().copied().filter(|&state| state <= until).collect::<Vec<_>>();
        if windows {
            // The last one only ends the last window.
            boundaries.pop();
        }
        let stride = boundaries.len().div_ceil(MAX_SAMPLES).max(1);
        // The last boundary is always among them.
        let skip = boundaries.len().saturating_sub(1) % stride;
        let chosen = || (skip..boundaries.len()).step_by(stride);
        let states: Vec<u32> = chosen().map(|at| boundaries[at]).collect();
        let last_number = steps.numbers.last().map_or(0, |number| number + 1);
        let numbers = chosen().map(|at| steps.numbers.get(at).copied().unwrap_or(last_number)).collect();
        let mut samples = Self {
            states,
            stride,
            until,
            failed,
            numbers,
            rows: HashMap::new(),
            order: Vec::new(),
            bytes: Vec::new(),
            blocks: Vec::new(),
            left: Vec::new(),
            now: Vec::new(),
        };
        samples.fill(history, sites);
        if windows {
            samples.lower_to_floors(history, sites);
        }
        samples
    }

    pub(super) fn count(&self) -> usize {
        self.states.len()
    }

    /// The moment that "now" is.
    pub(super) fn moment(&self, history: &History) -> Moment {
        let event = self.until.checked_sub(1);
        let what = if self.failed { "oom" } else { "end" };
        Moment { what, event, time_us: event.and_then(|event| history.time_us(event)), state: self.until }
    }

    /// Sites with their rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Site, usize)> + '_ {
        self.order.iter().copied().zip(0..)
    }

    pub(super) fn row(&self, site: Site) -> Option<usize> {
        self.rows.get(&site).copied()
    }

    pub(super) fn bytes(&self, row: usize) -> Vec<f64> {
        self.bytes[row * self.count()..][..self.count()].iter().map(|&bytes| bytes.max(0) as f64).collect()
    }

    pub(super) fn blocks(&self, row: usize) -> Vec<f64> {
        self.blocks[row * self.count()..][..self.count()].iter().map(|&blocks| blocks.max(0) as f64).collect()
    }

    /// Bytes now, counted as in the samples.
    pub(super) fn now(&self, row: usize) -> f64 {
        self.now[row].0 as f64
    }

    /// Bytes that the blocks occupy now.
    pub(super) fn occupied(&self, row: usize) -> u64 {
        self.now[row].1
    }

    /// Number of different steps from which blocks are left at the last sample; what was there before the first sample
    /// is of none.
    pub(super) fn survivors(&self, row: usize) -> usize {
        self.left[row * self.count()..][1..self.count()].iter().filter(|&&blocks| blocks > 0).count()
    }

    /// The step that begins with `sample`.
    pub(super) fn step_from(&self, sample: usize) -> u64 {
        self.numbers[sample]
    }

    /// The step that ends with `sample`.
    pub(super) fn step_before(&self, sample: usize) -> u64 {
        match sample.checked_sub(1) {
            Some(before) if self.stride == 1 => self.numbers[before],
            _ => self.numbers[sample].saturating_sub(1),
        }
    }

    /// The first sample taken in `state` or later.
    pub(super) fn sample_from(&self, state: u32) -> usize {
        self.states.partition_point(|&sample| sample < state)
    }

    fn fill(&mut self, history: &History, sites: &Sites) {
        let lives = &history.lives;
        let count = self.count();
        if count == 0 {
            return;
        }
        let last = count - 1;
        let mut row_of_slot = vec![None; sites.slots()];
        for life in lives.ids().filter(|&life| !is_workspace(history, life)) {
            let born = self.sample_from(lives.born_at(life));
            let freed = self.sample_from(lives.freed_at(life));
            let is_now = lives.born_at(life) <= self.until && self.until < lives.freed_at(life);
            if born >= freed && !is_now {
                continue;
            }
            let slot = sites.slot(history, life);
            let row = *row_of_slot[slot].get_or_insert_with(|| self.row_for(sites.of_slot(slot)));
            let (bytes, at) = (weight(history, life) as i64, row * count);
            if born < freed {
                self.bytes[at + born] += bytes;
                self.blocks[at + born] += 1;
                if freed < count {
                    self.bytes[at + freed] -= bytes;
                    self.blocks[at + freed] -= 1;
                }
                self.left[at + born] += u32::from(freed > last);
            }
            if is_now {
                self.now[row].0 += bytes as u64;
                self.now[row].1 += lives.bytes(life);
            }
        }
        for sums in [&mut self.bytes, &mut self.blocks] {
            for row in sums.chunks_mut(count) {
                for at in 1..count {
                    row[at] += row[at - 1];
                }
            }
        }
    }

    fn row_for(&mut self, site: Site) -> usize {
        let count = self.states.len();
        *self.rows.entry(site).or_insert_with(|| {
            self.order.push(site);
            self.bytes.resize(self.order.len() * count, 0);
            self.blocks.resize(self.order.len() * count, 0);
            self.left.resize(self.order.len() * count, 0);
            self.now.push((0, 0));
            self.order.len() - 1
        })
    }

    /// Lowers every sample to the least up to the next one.
    fn lower_to_floors(&mut self, history: &History, sites: &Sites) {
        let lives = &history.lives;
        let count = self.count();
        let mut running: Vec<(i64, i64)> =
            (0..self.order.len()).map(|row| (self.bytes[row * count], self.blocks[row * count])).collect();
        let start = self.states[0];
        for event in start..self.until {
            let Some(life) = lives.of_event(event) else { continue };
            let Some(row) = self.row(sites.of_life(history, life)).filter(|_| !is_workspace(history, life)) else {
                continue;
            };
            let state = event + 1;
            let sign = match (lives.born_at(life) == state, lives.freed_at(life) == state) {
                (true, _) => 1,
                (_, true) => -1,
                _ => continue,
            };
            running[row].0 += sign * weight(history, life) as i64;
            running[row].1 += sign;
            if sign < 0 {
                let at = row * count + self.states.partition_point(|&sample| sample <= state) - 1;
                self.bytes[at] = self.bytes[at].min(running[row].0);
                self.blocks[at] = self.blocks[at].min(running[row].1);
            }
        }
    }
}

/// The state up to which to look: that of the last failure when no whole step follows it, else the end.
fn until(history: &History, steps: &Steps) -> (u32, bool) {
    let end = history.events();
    let Some(failure) = history.ooms.last().map(|oom| oom.event + 1) else { return (end, false) };
    let went_on = steps.source.is_program() && steps.boundaries.last().is_some_and(|&last| last > failure);
    if went_on { (end, false) } else { (failure, true) }
}

/// Bytes that a block counts for: what its request needs, rounded. How much of a remainder stays in a block depends on
/// the holes of the moment, so that equal tensors would seem to differ.
pub(super) fn weight(history: &History, life: LifeId) -> u64 {
    history.rules.round_size(history.lives.requested(life))
}

/// Size in bytes of cuBLAS's default workspace (`CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8`), which PyTorch allocates once
/// for each handle and stream.
pub(super) const CUBLAS_WORKSPACE: u64 = 8_519_680;

/// Whether a block is a workspace of cuBLAS, which stays for good and is no leak.
pub(super) fn is_workspace(history: &History, life: LifeId) -> bool {
    history.lives.requested(life) == CUBLAS_WORKSPACE
}
