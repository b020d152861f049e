//! The calling tree: what the program's own frames hold, callers first.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::sites::{Site, Sites};
use super::Question;
use super::groups::Groups;
use super::metric::{Tally, Unit, by_slot};
use crate::analysis::window::Window;
use crate::history::{History, Moment};
use crate::snapshot::{FrameId, StackId};

/// A calling tree of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tree {
    /// Device ordinal.
    pub device: i64,
    /// The moment, or the end of the window.
    pub at: Moment,
    /// Events over which was counted; `None` for what is live at one moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// What is counted.
    pub metric: &'static str,
    /// What the figures are in.
    pub unit: Unit,
    /// The metric of all blocks that count.
    pub total: u64,
    /// The metric of the blocks that `under` left out.
    pub left_out: u64,
    /// Outermost callers, biggest first; they sum to the total.
    pub branches: Vec<Branch>,
}

/// A frame and what it called.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Branch {
    /// `file:line`, or what stands for blocks without frames.
    pub site: String,
    /// Function; empty when not known.
    pub function: String,
    /// The metric of everything allocated here and below.
    pub value: u64,
    /// That of what was allocated here; `value` less that of the branches.
    pub own: u64,
    /// Number of blocks, those below included.
    pub blocks: u64,
    /// Share of the total, 0 to 1.
    pub share: f64,
    /// Frames called from here, biggest first.
    pub branches: Vec<Branch>,
}

/// A node while it is summed.
#[derive(Default)]
struct Node {
    all: Tally,
    own: u64,
    below: BTreeMap<Site, Node>,
}

/// The calling tree of what `question` asks. Frames of torch, the standard library and C++ are left out; `sites`, which
/// must be by line, says which those are.
pub fn tree(history: &History, sites: &Sites, question: &Question) -> Tree {
    let (tallies, left_out) = by_slot(history, &Groups::Sites(sites), question);
    let mut root = Node::default();
    for (slot, tally) in tallies.into_iter().enumerate().filter(|(_, tally)| tally.blocks > 0) {
        let mut node = &mut root;
        node.all += tally;
        for site in path(sites, slot) {
            node = node.below.entry(site).or_default();
            node.all += tally;
        }
        node.own = node.own.saturating_add(tally.value);
    }
    let total = root.all.value;
    let (at, window) = question.measure.span(history);
    Tree {
        device: history.device.ordinal,
        at,
        window,
        metric: question.measure.name(),
        unit: question.measure.unit(history),
        total,
        left_out,
        branches: branches(sites, root.below, total),
    }
}

/// Frames of a stack that a tree follows, from the outermost: a file may have stacks of any depth.
const DEEPEST: usize = 200;

/// The sites on what `slot` stands for, outermost first; at least one. A function that calls itself stays as often as it
/// is there.
fn path(sites: &Sites, slot: usize) -> Vec<Site> {
    if slot >= sites.snapshot().stacks.len() {
        return vec![sites.of_slot(slot)];
    }
    let frames: &[FrameId] = sites.snapshot().stacks.get(StackId(slot as u32));
    let visible = frames.iter().rev().filter(|&&frame| sites.is_visible(frame));
    let path: Vec<Site> = visible.take(DEEPEST).map(|&frame| sites.of_frame(frame)).collect();
    if path.is_empty() { vec![sites.of_slot(slot)] } else { path }
}

fn branches(sites: &Sites, nodes: BTreeMap<Site, Node>, total: u64) -> Vec<Branch> {
    let branch = |(site, node): (Site, Node)| Branch {
        site: sites.name(site).into_owned(),
        function: sites.function(site).unwrap_or_default().to_owned(),
        value: node.all.value,
        own: node.own,
        blocks: node.all.blocks,
        share: if total == 0 { 0.0 } else { node.all.value as f64 / total as f64 },
        branches: branches(sites, node.below, total),
    };
    let mut list: Vec<Branch> = nodes.into_iter().map(branch).collect();
    list.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.site.cmp(&b.site)));
    list
}

/// The JSON of the trees of several devices: the first one's at the top level, and all of them in `devices`.
#[derive(Serialize)]
pub struct TreeDocument<'a> {
    #[serde(flatten)]
    first: Option<&'a Tree>,
    devices: &'a [Tree],
}

impl<'a> TreeDocument<'a> {
    /// `trees` as one document.
    pub fn new(trees: &'a [Tree]) -> Self {
        Self { first: trees.first(), devices: trees }
    }
}
