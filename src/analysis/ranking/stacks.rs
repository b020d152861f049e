//! The whole stacks behind a row.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::groups::Groups;
use super::metric::{Tally, by_key_and_slot};
use super::{Key, Question};
use crate::history::History;
use crate::snapshot::StackId;

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

/// The stacks with most of each of `keys`.
pub(super) fn heaviest(history: &History, groups: &Groups, question: &Question, keys: &[Key]) -> Vec<Vec<StackRow>> {
    let Groups::Sites(sites) = groups else {
        return vec![Vec::new(); keys.len()];
    };
    let wanted: HashMap<Key, usize> = keys.iter().copied().zip(0..).collect();
    let mut sums: Vec<BTreeMap<StackId, Tally>> = vec![BTreeMap::new(); keys.len()];
    by_key_and_slot(history, groups, question, |key, life, tally| {
        if let Some(&at) = wanted.get(&key) {
            *sums[at].entry(history.lives.stack(life)).or_default() += tally;
        }
    });
    let snapshot = history.snapshot;
    let frame = |id: &crate::snapshot::FrameId| {
        let frame = snapshot.frame(*id);
        StackFrame {
            file: snapshot.text(frame.filename).to_owned(),
            line: frame.line,
            function: snapshot.text(frame.name).to_owned(),
            library: !sites.is_visible(*id),
        }
    };
    let rows = |of_key: BTreeMap<StackId, Tally>| {
        let mut order: Vec<(StackId, Tally)> = of_key.into_iter().filter(|(stack, _)| stack.has_frames()).collect();
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
    sums.into_iter().map(rows).collect()
}
