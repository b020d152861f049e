//! What the kept blocks of a growing site have in common.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::judge::Trend;
use super::kind::Kind;
use super::result::Freed;
use super::samples::{Samples, is_workspace, weight};
use crate::analysis::places::Places;
use crate::analysis::sites::{Site, Sites};
use crate::history::{History, LifeId};
use crate::snapshot::{Action, StackId};

/// Visits of the program to a place, from which on it is a repetition.
const MIN_VISITS: usize = 3;

/// All about the blocks of one site.
pub(super) struct Detail {
    pub(super) live_blocks: u64,
    pub(super) called_from: Option<String>,
    pub(super) stack: Vec<String>,
    pub(super) own_stack: Vec<String>,
    pub(super) stacks: usize,
    pub(super) freed: Option<Freed>,
    /// Whether the program came back to it, and left something there each time.
    pub(super) comes_back: bool,
    has_stack: bool,
    /// Whether they are allocated below the call of a module.
    in_module: bool,
    /// Blocks kept per sample by all growing sites below the same call.
    kept_together: f64,
    sizes_differ: bool,
}

impl Detail {
    pub(super) fn kind(&self, trend: &Trend) -> Kind {
        match self.in_module {
            _ if !self.has_stack => Kind::NoStack,
            _ if !trend.accumulates => Kind::GrowingBuffer,
            // One call gives one output; what else stays is kept by the graph.
            true if self.kept_together >= 1.5 => Kind::AutogradGraph,
            true => Kind::ModelOutput,
            false if self.sizes_differ => Kind::Cache,
            false => Kind::TensorList,
        }
    }
}

/// What is gathered for one site.
#[derive(Default)]
struct Gathered {
    live_blocks: u64,
    /// Kept bytes by stack.
    kept: BTreeMap<StackId, u64>,
    kept_blocks: u64,
    sizes: HashSet<u64>,
    freed_blocks: u64,
    freed_at: BTreeMap<StackId, u64>,
    visits: HashSet<u64>,
}

/// Details of `growing`, in its order.
pub(super) fn details(
    history: &History,
    sites: &Sites,
    samples: &Samples,
    growing: impl Iterator<Item = Site>,
) -> Vec<Detail> {
    let growing: Vec<Site> = growing.collect();
    if growing.is_empty() {
        return Vec::new();
    }
    let index: HashMap<Site, usize> = growing.iter().copied().zip(0..).collect();
    let mut places = Places::new(history.snapshot);
    let gathered = gather(history, sites, samples, &index, &mut places);
    // The call below which most of each site's kept blocks are allocated.
    let mut calls: Vec<Option<(u32, bool)>> = Vec::new();
    let mut together: HashMap<u32, u64> = HashMap::new();
    for found in &gathered {
        let call = found.kept.iter().max_by_key(|&(_, &bytes)| bytes).map(|(&stack, _)| places.of(stack));
        calls.push(call.map(|place| (place.number, !place.is_whole)));
        *together.entry(call.map_or(u32::MAX, |place| place.number)).or_default() += found.kept_blocks;
    }
    let intervals = samples.count().saturating_sub(1).max(1) as f64;
    let mut details = Vec::with_capacity(growing.len());
    for ((found, call), &site) in gathered.into_iter().zip(calls).zip(&growing) {
        let stack = found.kept.iter().max_by_key(|&(_, &bytes)| bytes).map(|(&stack, _)| stack);
        let place = call.map_or(u32::MAX, |(place, _)| place);
        let has_stack = matches!(site, Site::Frame(_) | Site::Stack(_));
        let in_module = call.is_some_and(|(_, in_module)| in_module) && has_stack && places.frame(place).is_some();
        let line = places.frame(place).map(|frame| {
            let frame = history.snapshot.frame(frame);
            format!("{}:{}", history.snapshot.text(frame.filename), frame.line)
        });
        details.push(Detail {
            live_blocks: found.live_blocks,
            called_from: line.filter(|line| in_module && *line != sites.name(site)),
            stack: stack.filter(|stack| stack.has_frames()).map_or_else(Vec::new, |stack| sites.frames(stack)),
            own_stack: stack.filter(|stack| stack.has_frames()).map_or_else(Vec::new, |stack| sites.own_frames(stack)),
            stacks: found.kept.len(),
            comes_back: found.visits.len() >= MIN_VISITS,
            has_stack,
            in_module,
            kept_together: together[&place] as f64 / intervals,
            sizes_differ: found.sizes.len() as u64 * 2 > found.kept_blocks,
            freed: freed(sites, &found),
        });
    }
    details
}

fn gather(
    history: &History,
    sites: &Sites,
    samples: &Samples,
    index: &HashMap<Site, usize>,
    places: &mut Places,
) -> Vec<Gathered> {
    let lives = &history.lives;
    let mut gathered: Vec<Gathered> = index.iter().map(|_| Gathered::default()).collect();
    let (first, last) = (samples.states[0], samples.states[samples.count() - 1]);
    let at_of = |life: LifeId| {
        let at = index.get(&sites.of_life(history, life)).copied();
        at.filter(|_| !is_workspace(history, life))
    };
    for life in lives.ids() {
        let Some(at) = at_of(life) else { continue };
        let found = &mut gathered[at];
        let (born, freed) = (lives.born_at(life), lives.freed_at(life));
        found.live_blocks += u64::from(born <= samples.until && samples.until < freed);
        if born > first && born <= last && last < freed {
            *found.kept.entry(lives.stack(life)).or_default() += weight(history, life);
            found.kept_blocks += 1;
            found.sizes.insert(weight(history, life));
        }
        found.freed_blocks += u64::from(freed <= samples.until);
    }
    let actions = &history.snapshot.events.action;
    for event in 0..samples.until {
        let Some(life) = lives.of_event(event) else { continue };
        if lives.alloc_event(life) == Some(event) {
            let visit = places.enter(lives.stack(life)).number;
            if last < lives.freed_at(life)
                && let Some(at) = at_of(life)
            {
                gathered[at].visits.insert(visit);
            }
        } else if lives.freed_at(life) == event + 1
            && actions[history.row(event)] != Action::Alloc
            && let Some(at) = at_of(life)
        {
            let stack = history.snapshot.events.stack[history.row(event)];
            *gathered[at].freed_at.entry(stack).or_default() += 1;
        }
    }
    gathered
}

fn freed(sites: &Sites, found: &Gathered) -> Option<Freed> {
    if found.freed_blocks == 0 {
        return None;
    }
    let with_frames = found.freed_at.iter().filter(|(stack, _)| stack.has_frames());
    let most = with_frames.max_by_key(|&(_, &count)| count).map(|(&stack, _)| stack);
    Some(Freed {
        blocks: found.freed_blocks,
        site: most.map(|stack| sites.name(sites.site(stack)).into_owned()),
        stack: most.map_or_else(Vec::new, |stack| sites.frames(stack)),
    })
}
