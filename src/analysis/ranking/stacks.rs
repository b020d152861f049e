//! The whole stacks behind a row.

use std::collections::HashMap;

use serde::Serialize;

use super::groups::Groups;
use super::metric::Tally;
use super::{Attribution, Key};
use crate::snapshot::{FrameId, StackId};

/// Stacks of one row.
const STACKS: usize = 3;

/// One stack of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackRow {
    /// The metric.
    pub value: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Frames, innermost first.
    pub frames: Vec<StackFrame>,
    /// How many more stacks the row has behind this one; 0 unless it is the last that is listed.
    pub more: u64,
}

/// One frame in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackFrame {
    /// Source file.
    pub file: String,
    /// Line number; 0 when not known.
    pub line: u32,
    /// Function.
    pub function: String,
    /// Whether it is torch's, the standard library's or C++.
    pub library: bool,
}

/// The stacks with most of each of `keys`, which are sites; `tallies` has the metric of each stack.
pub(super) fn heaviest(
    groups: &Groups,
    attribution: Attribution,
    tallies: &[Tally],
    keys: &[Key],
) -> Vec<Vec<StackRow>> {
    let mut found: Vec<Vec<(StackId, Tally)>> = vec![Vec::new(); keys.len()];
    let Groups::Sites(sites) = groups else { return vec![Vec::new(); keys.len()] };
    let snapshot = sites.snapshot();
    let wanted: HashMap<Key, usize> = keys.iter().copied().zip(0..).collect();
    // Slots behind those of the stacks are of blocks without frames.
    for (slot, tally) in tallies.iter().enumerate().take(snapshot.stacks.len()).filter(|(_, tally)| tally.blocks > 0) {
        for at in groups.keys(slot, attribution).iter().filter_map(|key| wanted.get(key)) {
            found[*at].push((StackId(slot as u32), *tally));
        }
    }
    let frame = |id: &FrameId| {
        let frame = snapshot.frame(*id);
        StackFrame {
            file: snapshot.text(frame.filename).to_owned(),
            line: frame.line,
            function: snapshot.text(frame.name).to_owned(),
            library: !sites.is_visible(*id),
        }
    };
    let rows = |mut order: Vec<(StackId, Tally)>| {
        order.sort_by_key(|(stack, tally)| (std::cmp::Reverse(tally.value), *stack));
        let more = order.len().saturating_sub(STACKS) as u64;
        let shown = order.len().min(STACKS);
        let row = |(at, (stack, tally)): (usize, (StackId, Tally))| StackRow {
            value: tally.value,
            blocks: tally.blocks,
            frames: snapshot.stacks.get(stack).iter().map(frame).collect(),
            more: if at + 1 == shown { more } else { 0 },
        };
        order.into_iter().take(STACKS).enumerate().map(row).collect()
    };
    found.into_iter().map(rows).collect()
}
