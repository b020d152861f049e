//! What steps are, and when boundaries make some.

use serde::Serialize;

use crate::history::History;
use crate::text::printable;
use crate::units::count;

/// Fewer boundaries make no steps.
pub const MIN_BOUNDARIES: usize = 5;

/// The steps of one device's trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Steps {
    /// What marks them.
    #[serde(flatten)]
    pub source: StepSource,
    /// Numbers of states, strictly ascending: step `i` lies between `boundaries[i]` and `boundaries[i + 1]`. What is
    /// before the first and behind the last belongs to no whole step.
    #[serde(skip)]
    pub boundaries: Vec<u32>,
    /// The number of each step: the one in its annotation, else counted from 1. One less than there are boundaries.
    #[serde(skip)]
    pub numbers: Vec<u64>,
}

/// What steps were found by.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum StepSource {
    /// Annotations of a profiler: from the start of one to the start of the next.
    ProfilerStep,
    /// Annotations of an optimiser's step: from the end of one to the end of the next.
    OptimizerStep {
        /// The annotation.
        name: String,
    },
    /// Other annotations that come again and again: from the start of one to the start of the next.
    Annotation {
        /// The annotation, without its number.
        name: String,
    },
    /// The program comes back to one line again and again.
    Period {
        /// The line, from whose first allocation on a step counts.
        line: String,
        /// Passes of that line that make one step: more than 1 when the bytes allocated in a pass repeat only after so
        /// many.
        passes: u32,
        /// How sure that is: the share of the steps whose length is within a factor of 2 of the median, 0 to 1.
        regularity: f64,
    },
    /// Equal numbers of events, which are no steps of the program.
    Windows,
}

impl StepSource {
    /// Whether a step is one of the program's, and not only a part of the trace.
    pub fn is_program(&self) -> bool {
        *self != Self::Windows
    }
}

/// In words that go behind "20 steps: ".
impl std::fmt::Display for StepSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ProfilerStep => write!(f, "marked by ProfilerStep annotations"),
            Self::OptimizerStep { name } | Self::Annotation { name } => {
                write!(f, "marked by {} annotations", printable(name))
            }
            Self::Period { line, passes, regularity } => {
                let (line, sure) = (printable(line), regularity * 100.0);
                match passes {
                    1 => write!(f, "from one pass of {line} to the next, {sure:.0} % alike in length"),
                    _ => write!(
                        f,
                        "of {} passes of {line}, after which sizes repeat; {sure:.0} % of the passes alike in length",
                        count((*passes).into())
                    ),
                }
            }
            Self::Windows => write!(f, "equal windows of the trace, as nothing marks steps"),
        }
    }
}

impl Steps {
    /// Number of steps.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// The states of step `at`, counted from 0.
    pub fn states(&self, at: usize) -> std::ops::Range<u32> {
        self.boundaries[at]..self.boundaries[at + 1]
    }

    /// The states of the step with this number.
    pub fn numbered(&self, number: u64) -> Option<std::ops::Range<u32>> {
        self.numbers.iter().position(|&other| other == number).map(|at| self.states(at))
    }
}

/// Steps between `boundaries` (ascending), the one that each begins having a number; `None` when they are too few or
/// span less than half of the events. Steps without any event are left out.
pub(super) fn checked(
    history: &History,
    source: StepSource,
    boundaries: Vec<u32>,
    numbers: impl IntoIterator<Item = u64>,
) -> Option<Steps> {
    let mut steps = Steps { source, boundaries: Vec::with_capacity(boundaries.len()), numbers: Vec::new() };
    for (pair, number) in boundaries.windows(2).zip(numbers) {
        if pair[0] < pair[1] {
            steps.boundaries.push(pair[0]);
            steps.numbers.push(number);
        }
    }
    steps.boundaries.extend(boundaries.last());
    let span = boundaries.last()?.saturating_sub(*boundaries.first()?);
    (steps.boundaries.len() >= MIN_BOUNDARIES && span >= history.events().div_ceil(2)).then_some(steps)
}

/// How alike the distances between `positions` are: the share of them that are within a factor of 2 of the median, and
/// the share of the whole distance that those cover.
fn regularity(positions: &[u32]) -> (f64, f64) {
    let distances: Vec<u32> = positions.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut sorted = distances.clone();
    sorted.sort_unstable();
    let Some(&median) = sorted.get(sorted.len() / 2) else { return (0.0, 0.0) };
    let alike = |&&distance: &&u32| distance <= median.saturating_mul(2) && distance.saturating_mul(2) >= median;
    let covered: u64 = distances.iter().filter(alike).map(|&distance| u64::from(distance)).sum();
    let whole: u64 = distances.iter().map(|&distance| u64::from(distance)).sum();
    let share = distances.iter().filter(alike).count() as f64 / distances.len() as f64;
    (share, covered as f64 / whole.max(1) as f64)
}

/// At least this share of the distances must be alike.
const REGULAR: f64 = 0.75;
/// And cover this share of the whole.
const COVERED: f64 = 0.5;

/// The share of alike distances, when there are enough.
pub(super) fn is_regular(positions: &[u32]) -> Option<f64> {
    let (share, covered) = regularity(positions);
    (share >= REGULAR && covered >= COVERED).then_some(share)
}
