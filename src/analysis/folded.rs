//! Stacks with their bytes, root first: what flame graphs and other profile formats are made of.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde::Serialize;

use super::ranking::{Measure, Unit, chunks};
use super::sites::Sites;
use crate::history::History;
use crate::snapshot::{Frame, FrameId, Snapshot, StackId};
use crate::text::printable;

/// Which frames of a stack are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// Python frames; all of a stack that has none.
    #[default]
    Python,
    /// C++ frames too.
    All,
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
    pub unit: Unit,
    /// Sum of the values.
    pub total: u64,
    /// The stacks; each occurs once, and none with the value 0.
    pub stacks: Vec<FoldedStack>,
    /// The frames that are the program's own or an installed package's, not torch's or the standard library's.
    #[serde(skip)]
    pub own: BTreeSet<String>,
}

impl Folded {
    /// One line a stack, as `flamegraph.pl` and its kin read them: frames joined by `;`, a space, the value.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.stacks.iter().map(|stack| format!("{} {}", joined(&stack.frames), stack.value))
    }

    /// All of `parts`, which have the same unit, each below a frame of its name.
    pub fn below(parts: impl IntoIterator<Item = (String, Self)>) -> Option<Self> {
        let mut all: Option<Self> = None;
        for (name, part) in parts {
            let all =
                all.get_or_insert_with(|| Self { unit: part.unit, total: 0, stacks: Vec::new(), own: BTreeSet::new() });
            all.total = all.total.saturating_add(part.total);
            all.own.extend(part.own);
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

/// Folds the stacks of `history`'s device.
///
/// Blocks without a stack stand under the name of their site, as in a ranking; the total is that of a ranking at the
/// same moment.
///
/// ```no_run
/// use oomscope::analysis::folded::{Frames, fold};
/// use oomscope::analysis::ranking::Measure;
/// use oomscope::analysis::sites::{By, Sites};
/// use oomscope::history::{At, History};
/// use oomscope::snapshot::{LoadOptions, Source, load};
///
/// let snapshot = load(&Source::Path("oom.pickle".into()), &LoadOptions::default())?;
/// let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
/// let live = Measure::Live(history.moment(At::Default)?);
/// let folded = fold(&history, &Sites::new(&snapshot, By::Stack), live, Frames::Python);
/// for line in folded.lines() {
///     println!("{line}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fold(history: &History, sites: &Sites, measure: Measure, frames: Frames) -> Folded {
    // Sums do not depend on the order in which the pieces are done.
    let sums = chunks(history).into_par_iter().map(|chunk| {
        let mut sums = vec![0u64; sites.slots()];
        for life in chunk {
            if let Some(tally) = measure.of(history, life) {
                let sum = &mut sums[sites.slot(history, life)];
                *sum = sum.saturating_add(tally.value);
            }
        }
        sums
    });
    let sums = sums.reduce(
        || vec![0; sites.slots()],
        |mut left, right| {
            left.iter_mut().zip(right).for_each(|(left, right)| *left = left.saturating_add(right));
            left
        },
    );
    let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    let mut own = BTreeSet::new();
    for (slot, value) in sums.into_iter().enumerate().filter(|(_, value)| *value > 0) {
        let sum = stacks.entry(names(sites, slot, frames, &mut own)).or_default();
        *sum = sum.saturating_add(value);
    }
    let stacks: Vec<_> = stacks.into_iter().map(|(frames, value)| FoldedStack { frames, value }).collect();
    let total = stacks.iter().fold(0u64, |total, stack| total.saturating_add(stack.value));
    Folded { unit: measure.unit(history), total, stacks, own }
}

/// The frames of what `slot` stands for, root first; `own` gets the names of the program's.
fn names(sites: &Sites, slot: usize, keep: Frames, own: &mut BTreeSet<String>) -> Vec<String> {
    let snapshot = sites.snapshot();
    if slot >= snapshot.stacks.len() {
        return vec![frame_name(&sites.name(sites.of_slot(slot)))];
    }
    let name = |frame: FrameId| {
        let name = frame_name(&label(snapshot, frame));
        if sites.is_visible(frame) && !own.contains(&name) {
            own.insert(name.clone());
        }
        name
    };
    kept(snapshot, sites, StackId(slot as u32), keep).map(name).collect()
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

/// The frames of one stack as one word of a line: joined by `;`, and read by nobody as a comment or as having a value.
pub fn joined(frames: &[String]) -> String {
    let line = without_number(frames.join(";"));
    if line.trim_start().starts_with('#') { format!("_{line}") } else { line }
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
            unit: Unit::Bytes,
            total: value,
            stacks: vec![FoldedStack { frames: vec![frame.to_owned()], value }],
            own: BTreeSet::new(),
        };
        let all = Folded::below([("device 1".to_owned(), part("f", 3)), ("device 0".to_owned(), part("g", 4))]);
        let lines: Vec<String> = all.iter().flat_map(Folded::lines).collect();
        assert_eq!(lines, ["device 0;g 4", "device 1;f 3"]);
        assert_eq!(Folded::below([]), None);
    }
}
