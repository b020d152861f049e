//! Reserved memory by cudaMalloc'd segment and by expandable segment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::Band;
use super::bands::{Counts, Label};
use crate::allocator::PoolKind;
use crate::analysis::sites::Sites;
use crate::history::{History, Range};
use crate::snapshot::{Action, PoolId, StackId, StreamId};
use crate::units::{bytes, count};

/// What belongs together: one cudaMalloc'd segment, or all mapped memory of one expandable segment.
struct Region {
    range: Range,
    addr: u64,
    /// First state in which it exists.
    born_at: u32,
    /// Bytes now, while the trace is followed.
    now: u64,
    highest: u64,
}

/// A region grows or shrinks.
struct Step {
    state: u32,
    region: u32,
    delta: i64,
}

/// Every region of one device, and how they change.
pub(super) struct Regions<'h, 'a> {
    history: &'h History<'a>,
    sites: &'h Sites<'a>,
    regions: Vec<Region>,
    steps: Vec<Step>,
    /// Mapped pieces by address: end and region.
    pieces: BTreeMap<u64, (u64, u32)>,
    expandable: HashMap<(StreamId, PoolId, PoolKind), u32>,
}

impl<'h, 'a> Regions<'h, 'a> {
    /// Follows the segment events of `history`.
    pub fn new(history: &'h History<'a>, sites: &'h Sites<'a>) -> Self {
        let mut all = Self {
            history,
            sites,
            regions: Vec::new(),
            steps: Vec::new(),
            pieces: BTreeMap::new(),
            expandable: HashMap::new(),
        };
        let mut walk = history.ranges.walk();
        for span in walk.spans() {
            all.map(0, span.addr, span.end - span.addr, span.range);
        }
        let events = &history.snapshot.events;
        for event in 0..history.events() {
            let row = history.row(event);
            let (addr, size) = (events.addr[row], events.size[row]);
            match events.action[row] {
                Action::SegmentAlloc | Action::SegmentMap => {
                    walk.advance(event + 1);
                    if let Some(&range) = walk.at(addr) {
                        all.map(event + 1, addr, size, range);
                    }
                }
                Action::SegmentFree | Action::SegmentUnmap => all.unmap(event + 1, addr, addr.saturating_add(size)),
                _ => {}
            }
        }
        all
    }

    fn map(&mut self, state: u32, addr: u64, size: u64, range: Range) {
        let next = self.regions.len() as u32;
        let region = match range.expandable {
            true => *self.expandable.entry((range.stream, range.pool, range.kind)).or_insert(next),
            false => next,
        };
        if region == next {
            self.regions.push(Region { range, addr, born_at: state, now: 0, highest: 0 });
        }
        self.pieces.insert(addr, (addr.saturating_add(size), region));
        self.step(state, region, size as i64);
    }

    /// Takes [from, to) out of the pieces that hold it.
    fn unmap(&mut self, state: u32, from: u64, to: u64) {
        while let Some((&start, &(end, region))) = self.pieces.range(..to).next_back()
            && end > from
        {
            self.pieces.remove(&start);
            if start < from {
                self.pieces.insert(start, (from, region));
            }
            if end > to {
                self.pieces.insert(to, (end, region));
            }
            let gone = end.min(to) - start.max(from);
            self.step(state, region, -(gone as i64));
        }
    }

    fn step(&mut self, state: u32, region: u32, delta: i64) {
        let known = &mut self.regions[region as usize];
        known.now = known.now.saturating_add_signed(delta);
        known.highest = known.highest.max(known.now);
        self.steps.push(Step { state, region, delta });
    }

    /// The `limit` largest regions, oldest first within a pool, with their bytes in each of `states`, which ascend.
    pub fn bands(self, limit: usize, states: &[u32]) -> Vec<Band> {
        let mut last = vec![u32::MAX; self.regions.len()];
        let mut sizes = vec![0i64; self.regions.len()];
        for step in &self.steps {
            let region = step.region as usize;
            sizes[region] += step.delta;
            last[region] = if sizes[region] == 0 { step.state } else { u32::MAX };
        }
        let before = |state: u32| states.partition_point(|&other| other < state);
        let columns = |region: usize| before(last[region]).saturating_sub(before(self.regions[region].born_at)) as u128;
        let mut order: Vec<usize> = (0..self.regions.len()).filter(|&region| columns(region) > 0).collect();
        order.sort_by_key(|&region| (Reverse(u128::from(self.regions[region].highest) * columns(region)), region));
        order.truncate(limit);
        // Pools stand together, so that each can be seen as a whole.
        order.sort_by_key(|&region| (self.pool(region), self.regions[region].born_at, self.regions[region].addr));
        let mut band_of = vec![order.len(); self.regions.len()];
        for (band, &region) in order.iter().enumerate() {
            band_of[region] = band;
        }
        let mut counts = Counts::new(order.len() + 1, states);
        for step in &self.steps {
            counts.add(step.state, band_of[step.region as usize], step.delta);
        }
        counts.finish(order.iter().map(|&region| Label::new(self.name(region), Some(self.detail(region)))).collect())
    }

    fn pool(&self, region: usize) -> (PoolId, StreamId, Reverse<PoolKind>) {
        let range = &self.regions[region].range;
        (range.pool, range.stream, Reverse(range.kind))
    }

    /// `large pool`, `expandable, small pool`, `private pool (0, 1), small`; with the address of its stream where that
    /// is not the default one: `expandable, large, 0x55…`.
    fn name(&self, region: usize) -> String {
        let range = &self.regions[region].range;
        let snapshot = self.history.snapshot;
        let kind = match range.kind {
            PoolKind::Small => "small",
            PoolKind::Large => "large",
        };
        let stream = snapshot.streams[range.stream.index()];
        match (range.pool, range.expandable, stream) {
            (PoolId::DEFAULT, true, 0) => format!("expandable, {kind} pool"),
            (PoolId::DEFAULT, true, _) => format!("expandable, {kind}, {stream:#x}"),
            (PoolId::DEFAULT, false, 0) => format!("{kind} pool"),
            (PoolId::DEFAULT, false, _) => format!("{kind} pool, {stream:#x}"),
            (pool, _, stream) => {
                let (a, b) = snapshot.pools[pool.index()];
                match stream {
                    0 => format!("private pool ({a}, {b}), {kind}"),
                    _ => format!("pool ({a}, {b}), {kind}, {stream:#x}"),
                }
            }
        }
    }

    fn detail(&self, region: usize) -> String {
        let Region { range, addr, born_at, highest, .. } = &self.regions[region];
        let what = if range.expandable { "expandable segment" } else { "segment" };
        let mut text = format!("{what} of {} at {addr:#x}", bytes(*highest));
        text += &match born_at {
            0 => "\nthere before the recording".to_owned(),
            state => format!("\nmade by event {}", count(u64::from(*state) - 1)),
        };
        match self.history.snapshot.streams[range.stream.index()] {
            0 => {}
            stream => text += &format!("\non stream {stream:#x}"),
        }
        if range.stack != StackId::NONE && range.stack.has_frames() {
            text += &format!("\nfor {}", self.sites.name(self.sites.site(range.stack)));
        }
        text
    }
}
