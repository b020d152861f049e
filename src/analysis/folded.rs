//! Stacks with their bytes, root first: what flame graphs and other profile formats are made of.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;
use serde::Serialize;

use super::sites::Sites;
use crate::history::{History, LifeId};
use crate::snapshot::{Frame, FrameId, Snapshot, StackId};
use crate::text::printable;

/// What is counted for each stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes of the blocks, live and pending, that exist in this state.
    Live(u32),
    /// Bytes of the blocks allocated by these events.
    Allocated(Range<u32>),
    /// Bytes × time held between the first and the last of these events: byte-milliseconds, or byte-events where the
    /// file has no times.
    BytesTime(Range<u32>),
}

/// Which frames of a stack are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// Python frames; all of a stack that has none.
    #[default]
    Python,
    /// C++ frames too.
    All,
}

/// What the values of folded stacks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum FoldedUnit {
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Bytes × milliseconds.
    #[serde(rename = "byte-milliseconds")]
    ByteMilliseconds,
    /// Bytes × events.
    #[serde(rename = "byte-events")]
    ByteEvents,
}

/// One distinct stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoldedStack {
    /// The frames, root first, printable and without `;`: `function (file:line)`.
    pub frames: Vec<String>,
    /// What was counted for it, in the unit of [`Folded::unit`].
    pub value: u64,
}

/// Distinct stacks and what was counted for each, in the order of their frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Folded {
    /// What the values are.
    pub unit: FoldedUnit,
    /// Sum of the values.
    pub total: u64,
    /// The stacks; each occurs once, and none with the value 0.
    pub stacks: Vec<FoldedStack>,
}

impl Folded {
    /// One line a stack, as `flamegraph.pl` and its kin read them: frames joined by `;`, a space, the value.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.stacks.iter().map(|stack| format!("{} {}", without_number(stack.frames.join(";")), stack.value))
    }

    /// All of `parts`, which have the same unit, each below a frame of its name.
    pub fn below(parts: impl IntoIterator<Item = (String, Self)>) -> Option<Self> {
        let mut all: Option<Self> = None;
        for (name, part) in parts {
            let all = all.get_or_insert_with(|| Self { unit: part.unit, total: 0, stacks: Vec::new() });
            all.total += part.total;
            all.stacks.extend(part.stacks.into_iter().map(|stack| FoldedStack {
                frames: std::iter::once(frame_name(&name)).chain(stack.frames).collect(),
                value: stack.value,
            }));
        }
        if let Some(all) = &mut all {
            all.stacks.sort_by(|a, b| a.frames.cmp(&b.frames));
        }
        all
    }
}

/// Lives in one parallel piece of work.
const CHUNK: usize = 1 << 16;

/// Folds the stacks of `history`'s device.
///
/// Blocks without a stack stand under the name of their site, as in a ranking; the total is that of a ranking at the
/// same moment.
///
/// ```no_run
/// use oomscope::analysis::folded::{Frames, Measure, fold};
/// use oomscope::analysis::sites::{By, Sites};
/// use oomscope::history::{At, History};
/// use oomscope::snapshot::{LoadOptions, Source, load};
///
/// let snapshot = load(&Source::Path("oom.pickle".into()), &LoadOptions::default())?;
/// let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
/// let state = history.moment(At::Default)?.state;
/// let folded = fold(&history, &Sites::new(&snapshot, By::Stack), &Measure::Live(state), Frames::Python);
/// for line in folded.lines() {
///     println!("{line}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fold(history: &History, sites: &Sites, measure: &Measure, frames: Frames) -> Folded {
    let clock = Clock::new(history, measure);
    let ids = history.lives.ids();
    let chunks: Vec<_> = (ids.start..ids.end).step_by(CHUNK).map(|at| at..ids.end.min(at + CHUNK as u32)).collect();
    // Sums do not depend on the order in which the pieces are done.
    let sums = chunks.into_par_iter().map(|chunk| {
        let mut sums = vec![0u128; sites.slots()];
        chunk.for_each(|life| sums[sites.slot(history, life)] += clock.value(history, measure, life));
        sums
    });
    let sums = sums.reduce(
        || vec![0; sites.slots()],
        |mut left, right| {
            left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
            left
        },
    );
    let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for (slot, sum) in sums.into_iter().enumerate() {
        let value = u64::try_from(sum / clock.divisor).unwrap_or(u64::MAX);
        if value > 0 {
            let sum = stacks.entry(names(history.snapshot, sites, slot, frames)).or_default();
            *sum = sum.saturating_add(value);
        }
    }
    let stacks: Vec<_> = stacks.into_iter().map(|(frames, value)| FoldedStack { frames, value }).collect();
    let total = stacks.iter().fold(0u64, |total, stack| total.saturating_add(stack.value));
    Folded { unit: clock.unit, total, stacks }
}

/// How long is what.
struct Clock {
    unit: FoldedUnit,
    /// Of the sums, to get values of the unit.
    divisor: u128,
}

impl Clock {
    fn new(history: &History, measure: &Measure) -> Self {
        match measure {
            Measure::BytesTime(_) if history.time_span().is_some() => {
                Self { unit: FoldedUnit::ByteMilliseconds, divisor: 1_000 }
            }
            Measure::BytesTime(_) => Self { unit: FoldedUnit::ByteEvents, divisor: 1 },
            _ => Self { unit: FoldedUnit::Bytes, divisor: 1 },
        }
    }

    /// What `life` counts for.
    fn value(&self, history: &History, measure: &Measure, life: LifeId) -> u128 {
        let lives = &history.lives;
        let bytes = u128::from(lives.bytes(life));
        match measure {
            Measure::Live(state) if lives.is_alive(life, *state) => bytes,
            Measure::Allocated(events) if lives.alloc_event(life).is_some_and(|event| events.contains(&event)) => bytes,
            Measure::BytesTime(events) => {
                let from = lives.born_at(life).max(events.start + 1);
                let to = lives.done_at(life).min(events.end);
                if from < to { bytes * self.between(history, from, to) } else { 0 }
            }
            _ => 0,
        }
    }

    /// From one state to another: each begins with its event.
    fn between(&self, history: &History, from: u32, to: u32) -> u128 {
        let time = |state: u32| history.time_us(state - 1).unwrap_or(0);
        match self.unit {
            FoldedUnit::ByteMilliseconds => u128::from(time(to).saturating_sub(time(from))),
            _ => u128::from(to - from),
        }
    }
}

/// The frames of what `slot` stands for, root first.
fn names(snapshot: &Snapshot, sites: &Sites, slot: usize, keep: Frames) -> Vec<String> {
    if slot >= snapshot.stacks.len() {
        return vec![frame_name(&sites.name(sites.of_slot(slot)))];
    }
    kept(snapshot, sites, StackId(slot as u32), keep).map(|frame| frame_name(&label(snapshot, frame))).collect()
}

/// The frames of `stack` that are kept, root first.
pub fn kept<'s>(
    snapshot: &'s Snapshot,
    sites: &'s Sites,
    stack: StackId,
    keep: Frames,
) -> impl Iterator<Item = FrameId> + 's {
    let frames = snapshot.stacks.get(stack);
    let has_python = frames.iter().any(|&frame| sites.is_python(frame));
    let is_kept = move |frame: &FrameId| keep == Frames::All || !has_python || sites.is_python(*frame);
    frames.iter().rev().copied().filter(is_kept)
}

/// `function (file:line)`, as far as it is known.
fn label(snapshot: &Snapshot, frame: FrameId) -> String {
    let Frame { name, filename, line } = snapshot.frame(frame);
    let name = match snapshot.text(name) {
        "" => "?",
        name => name,
    };
    match snapshot.text(filename) {
        "" | "??" => name.to_owned(),
        filename if line == 0 => format!("{name} ({filename})"),
        filename => format!("{name} ({filename}:{line})"),
    }
}

/// `name` as one frame of a line: without control characters and without the separator.
fn frame_name(name: &str) -> String {
    printable(name).replace(';', ":")
}

/// `line` without a last word that a reader would take for a second value of the line.
fn without_number(mut line: String) -> String {
    if let Some((rest, word)) = line.rsplit_once(' ')
        && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    {
        let at = rest.len();
        line.replace_range(at..at + 1, "_");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_frame_of_one_line() {
        assert_eq!(frame_name("operator new"), "operator new");
        assert_eq!(frame_name("a;b\n\x1b[2J c"), "a:b␊␛[2J c");
        for (line, safe) in [("a;lambda 12", "a;lambda_12"), ("x ", "x_"), ("x 1.5", "x_1.5"), ("new x", "new x")] {
            assert_eq!(without_number(line.to_owned()), safe);
        }
    }

    #[test]
    fn devices_stand_side_by_side() {
        let part = |frame: &str, value| Folded {
            unit: FoldedUnit::Bytes,
            total: value,
            stacks: vec![FoldedStack { frames: vec![frame.to_owned()], value }],
        };
        let all = Folded::below([("device 1".to_owned(), part("f", 3)), ("device 0".to_owned(), part("g", 4))]);
        let lines: Vec<String> = all.iter().flat_map(Folded::lines).collect();
        assert_eq!(lines, ["device 0;g 4", "device 1;f 3"]);
        assert_eq!(Folded::below([]), None);
    }
}
