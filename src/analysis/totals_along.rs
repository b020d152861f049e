//! The parts of reserved memory in many states, for little more than one.
//!
//! Laying a state out costs time in proportion to all that the trace holds; with a failure every few events that would be
//! the square of it. So from one state to the next only what an event changes is worked out: the free block that an
//! allocation takes from, or those that a free joins, and the edges of a range that grows or shrinks.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::totals::{FreeParts, Sums, Totals, totals};
use crate::history::{History, Hole, LifeId, LiveBlock, Remap, Span, Walk};
use crate::snapshot::PoolId;

/// So many states are cheaper to lay out one by one, side by side.
const FEW: usize = 64;

/// Blocks that may be laid out anew for each event and block of the trace. Only a trace that contradicts itself time and
/// again needs more.
const ANEW: usize = 64;

/// The parts in each of `states`, which ascend: what [`totals`] says of each. A trace that maps memory twice, or unmaps it
/// below live blocks, again and again, has parts that are not known from some state on.
pub fn totals_along(history: &History, states: &[u32]) -> Vec<Totals> {
    if states.len() <= FEW {
        return states.par_iter().map(|&state| totals(history, &history.state(state))).collect();
    }
    let mut layout = Layout::new(history, states[0]);
    states.iter().map(|&state| layout.totals(state)).collect()
}

/// A block by its place; two of a damaged file may have the same address.
type Key = (u64, LifeId);

/// The memory of one device, carried from state to state.
struct Layout<'h> {
    history: &'h History<'h>,
    state: u32,
    walk: Walk<'h>,
    /// Live and pending blocks.
    blocks: BTreeSet<Key>,
    /// Of all blocks and ranges; of the free blocks where [`is_known`](Self::is_known).
    sums: Sums,
    /// How many blocks occupy less than was asked for, which cannot be.
    too_small: usize,
    /// How many lie in a mapped range.
    placed: usize,
    /// Free blocks by size.
    holes: BTreeMap<u64, usize>,
    /// Whether `placed`, `holes` and the sums of free blocks are those of this state. Changes that contradict others make
    /// them unknown, until they are asked for.
    is_known: bool,
    /// Whether the file lets them be known at all.
    is_sound: bool,
    /// How many blocks and ranges may still be laid out anew.
    allowed: usize,
}

/// What decides how the free blocks of a range count, apart from whether it has blocks at all.
#[derive(PartialEq)]
enum Rule {
    Private,
    Segment,
    Expandable { granule: u64, offset: u64 },
}

impl<'h> Layout<'h> {
    fn new(history: &'h History<'h>, state: u32) -> Self {
        let mut walk = history.ranges.walk();
        walk.advance(state);
        let reserved = walk.spans().map(|span| span.end - span.addr).sum();
        let mut layout = Self {
            history,
            state,
            walk,
            blocks: BTreeSet::new(),
            sums: Sums { reserved, ..Sums::default() },
            too_small: 0,
            placed: 0,
            holes: BTreeMap::new(),
            is_known: false,
            is_sound: history.device.consistent && history.health.odd_ranges == 0,
            allowed: ANEW * (history.events() as usize + history.lives.len()),
        };
        for life in history.lives.ids().filter(|&life| history.lives.is_alive(life, state)) {
            layout.enter(life);
        }
        layout
    }

    /// The parts in `state`, which is not before the last that was asked for.
    fn totals(&mut self, state: u32) -> Totals {
        if state >= self.history.events() {
            // The dump lists its ranges itself.
            return totals(self.history, &self.history.state(state));
        }
        while self.state < state {
            self.step();
        }
        if self.is_sound && !self.is_known {
            self.lay_out();
        }
        self.sums.free.largest = self.holes.last_key_value().map_or(0, |(bytes, _)| *bytes);
        self.sums.totals(self.is_sound && self.too_small == 0 && self.placed == self.blocks.len())
    }

    /// Goes on to the next state.
    fn step(&mut self) {
        let event = self.state;
        self.state += 1;
        while let Some(change) = self.walk.next_change(self.state) {
            self.remap(change);
        }
        let (state, lives) = (self.state, &self.history.lives);
        if let Some(life) = lives.of_event(event) {
            if lives.alloc_event(life) == Some(event) {
                self.enter(life);
            } else if lives.done_at(life) == state {
                self.leave(life);
            } else if lives.freed_at(life) == state {
                self.sums.pend(lives.bytes(life));
            }
        }
        let ends = lives.unrecorded_ends();
        let first = ends.partition_point(|(at, _)| *at < state);
        for &(_, life) in ends[first..].iter().take_while(|(at, _)| *at == state) {
            self.leave(life);
        }
    }

    fn block(&self, life: LifeId, state: u32) -> LiveBlock {
        let lives = &self.history.lives;
        LiveBlock {
            addr: lives.addr(life),
            bytes: lives.bytes(life),
            requested: lives.requested(life),
            is_pending: state >= lives.freed_at(life),
            stack: lives.stack(life),
            life,
        }
    }

    fn enter(&mut self, life: LifeId) {
        let block = self.block(life, self.state);
        let key = (block.addr, life);
        let span = self.walk.span(block.addr).filter(|_| self.is_known);
        self.count_gap(span, key, key, false);
        self.blocks.insert(key);
        self.count_gap(span, key, key, true);
        self.count_gap(span, behind(key), behind(key), true);
        self.placed += usize::from(span.is_some());
        self.sums.add(&block);
        self.too_small += usize::from(block.bytes < block.requested);
    }

    fn leave(&mut self, life: LifeId) {
        // As it was in the state before.
        let block = self.block(life, self.state - 1);
        let key = (block.addr, life);
        if !self.blocks.contains(&key) {
            return;
        }
        let span = self.walk.span(block.addr).filter(|_| self.is_known);
        self.count_gap(span, key, key, false);
        self.count_gap(span, behind(key), behind(key), false);
        self.blocks.remove(&key);
        self.count_gap(span, key, key, true);
        self.placed -= usize::from(span.is_some());
        self.sums.remove(&block);
        self.too_small -= usize::from(block.bytes < block.requested);
    }

    /// Applies a segment event.
    fn remap(&mut self, change: Remap) {
        let Remap { addr, end, maps } = change;
        let before = self.walk.touched(addr, end);
        let is_odd = maps && !self.walk.is_unmapped(addr, end) || self.between((addr, 0), (end, 0)).next().is_some();
        self.walk.step();
        let after = self.walk.touched(addr, end);
        if before == after {
            return;
        }
        let bytes = |spans: &[Option<Span>]| spans.iter().flatten().map(|span| span.end - span.addr).sum::<u64>();
        self.sums.reserved = self.sums.reserved - bytes(&before) + bytes(&after);
        if is_odd || !self.count_alike(&before, &after) {
            self.is_known = false;
        }
        if self.is_known {
            // No block lies in [addr, end), so that one free block of each range reaches up to it.
            for (spans, adds) in [(before, false), (after, true)] {
                for span in spans {
                    self.count_gap(span, (addr, 0), (end, 0), adds);
                }
            }
        }
    }

    /// Whether the free blocks that a change of ranges does not touch count as before.
    fn count_alike(&self, before: &[Option<Span>], after: &[Option<Span>]) -> bool {
        let changed = before.iter().chain(after).flatten();
        let changed = changed.filter(|span| !(before.contains(&Some(**span)) && after.contains(&Some(**span))));
        let mut rules = changed
            .filter(|span| self.between((span.addr, 0), (span.end, 0)).next().is_some())
            .map(|span| self.rule(span));
        let first = rules.next();
        rules.all(|rule| Some(rule) == first)
    }

    fn rule(&self, span: &Span) -> Rule {
        match span.range {
            range if range.pool != PoolId::DEFAULT => Rule::Private,
            range if range.expandable => {
                let granule = self.history.rules.granule(range.kind).max(1);
                Rule::Expandable { granule, offset: span.addr % granule }
            }
            _ => Rule::Segment,
        }
    }

    fn between(&self, from: Key, to: Key) -> impl DoubleEndedIterator<Item = &Key> {
        self.blocks.range(from..to.max(from))
    }

    /// Adds or takes away what is free in `span` between the last block in front of `from` and the first at `to` or
    /// behind it.
    fn count_gap(&mut self, span: Option<Span>, from: Key, to: Key, adds: bool) {
        let Some(span) = span else { return };
        let before = self.between((span.addr, 0), from).next_back().copied();
        let behind = self.between(to.max((span.addr, 0)), (span.end, 0)).next().copied();
        let addr = before.map_or(span.addr, |(addr, life)| addr.saturating_add(self.history.lives.bytes(life)));
        let end = behind.map_or(span.end, |(addr, _)| addr);
        if addr < end {
            let has_blocks = before.is_some() || behind.is_some();
            self.count(span, Hole { addr, bytes: end - addr }, has_blocks, adds);
        }
    }

    fn count(&mut self, span: Span, hole: Hole, has_blocks: bool, adds: bool) {
        let parts = FreeParts::of_hole(hole, span.addr, &span.range, has_blocks, &self.history.rules);
        let number = self.holes.entry(hole.bytes).or_default();
        if adds {
            *number += 1;
            self.sums.free = self.sums.free.plus(parts);
        } else {
            *number -= 1;
            if *number == 0 {
                self.holes.remove(&hole.bytes);
            }
            self.sums.free = self.sums.free.minus(parts);
        }
    }

    /// Counts all free blocks anew.
    fn lay_out(&mut self) {
        (self.sums.free, self.placed) = (FreeParts::default(), 0);
        self.holes.clear();
        let spans: Vec<Span> = self.walk.spans().collect();
        let needed = spans.len() + self.blocks.len();
        self.is_sound = needed <= self.allowed;
        self.allowed = self.allowed.saturating_sub(needed);
        for &span in &spans {
            let blocks: Vec<Key> = self.between((span.addr, 0), (span.end, 0)).copied().collect();
            self.placed += blocks.len();
            self.count_gap(Some(span), (span.addr, 0), (span.addr, 0), true);
            for key in blocks {
                self.count_gap(Some(span), behind(key), behind(key), true);
            }
        }
        self.is_known = spans.windows(2).all(|pair| pair[0].end <= pair[1].addr);
    }
}

/// The first key behind `key`.
fn behind((addr, life): Key) -> Key {
    (addr, life + 1)
}
