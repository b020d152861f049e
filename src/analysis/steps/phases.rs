//! What each step needed, and which steps are alike.

use serde::Serialize;

use super::boundaries::Steps;
use crate::analysis::trend;
use crate::history::History;

/// The most memory that one step needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StepPeak {
    /// The step's number.
    pub step: u64,
    /// Bytes of live blocks at its highest point.
    pub bytes: u64,
    /// The number of the state in which that was.
    pub state: u32,
}

/// A part of the trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// What it is.
    pub kind: PhaseKind,
    /// The numbers of its states; the end is the start of the next phase.
    pub states: std::ops::Range<u32>,
}

/// Kinds of phases, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseKind {
    /// Before the first step.
    Load,
    /// Steps at the start whose peaks do not fit the later ones.
    WarmUp,
    /// All later steps.
    Steady,
}

impl Steps {
    /// The peak of allocated memory in each step. Both boundaries belong to a step.
    pub fn peaks(&self, history: &History) -> Vec<StepPeak> {
        let lives = &history.lives;
        let mut allocated = history.counters(self.boundaries[0]).allocated as i64;
        let mut unrecorded = lives.unrecorded_ends().iter().peekable();
        while unrecorded.next_if(|(state, _)| *state <= self.boundaries[0]).is_some() {}
        let mut peaks = Vec::with_capacity(self.count());
        for (at, &step) in self.numbers.iter().enumerate() {
            let states = self.states(at);
            let (mut highest, mut peak_state) = (allocated, states.start);
            for state in states.start + 1..=states.end {
                if let Some(life) = lives.of_event(state - 1) {
                    if lives.born_at(life) == state {
                        allocated += lives.bytes(life) as i64;
                    } else if lives.freed_at(life) == state {
                        allocated -= lives.bytes(life) as i64;
                    }
                }
                while let Some(&(at, life)) = unrecorded.next_if(|(at, _)| *at <= state) {
                    let is_counted = lives.of_event(state - 1) == Some(life) && lives.born_at(life) != state;
                    allocated -= if lives.freed_at(life) == at && !is_counted { lives.bytes(life) as i64 } else { 0 };
                }
                if allocated > highest {
                    (highest, peak_state) = (allocated, state);
                }
            }
            peaks.push(StepPeak { step, bytes: highest.max(0) as u64, state: peak_state });
        }
        peaks
    }

    /// Load, warm-up and steady steps, by a change point in the peaks; a phase that is not there is left out. Only the
    /// steps of a program have phases: windows give none.
    pub fn phases(&self, history: &History) -> Vec<Phase> {
        if !self.source.is_program() {
            return Vec::new();
        }
        let peaks: Vec<f64> = self.peaks(history).iter().map(|peak| peak.bytes as f64).collect();
        let steady = self.boundaries[trend::warm_up(&peaks)];
        let first = self.boundaries[0];
        let phases = [
            (PhaseKind::Load, 0..first),
            (PhaseKind::WarmUp, first..steady),
            (PhaseKind::Steady, steady..self.boundaries[self.count()]),
        ];
        let present = phases.into_iter().filter(|(_, states)| !states.is_empty());
        present.map(|(kind, states)| Phase { kind, states }).collect()
    }
}
