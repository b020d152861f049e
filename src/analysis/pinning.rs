//! Who is in the way: live blocks that keep the free memory around them from being given back.
//!
//! A *unit* is what the allocator can give back as a whole: a cudaMalloc'd segment of the default pools, or a granule of
//! their expandable memory. One live block keeps all of its unit; the free bytes of such a unit are *pinned*.

use std::collections::HashMap;

use serde::Serialize;

use super::lifetimes;
use super::pin::{Pin, Unit};
use super::sites::{Site, Sites};
use crate::history::{History, LiveBlock, Moment, State, StateRange};
use crate::snapshot::PoolId;

/// Sites whose blocks' lifetimes are looked at.
const MAX_LIFETIMES: usize = 32;

/// What keeps the free memory of one device from being given back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pinning {
    /// Device ordinal.
    #[serde(skip)]
    pub device: i64,
    /// The moment.
    #[serde(skip)]
    pub at: Moment,
    /// Free bytes in units that hold a live block; the pins sum to it.
    pub pinned: u64,
    /// Free bytes that no block pins: the part of an expandable range behind its last whole granule. Stranded memory is
    /// `pinned` and this.
    pub partial_granules: u64,
    /// Sites that pin something, the most first.
    pub pins: Vec<Pin>,
    /// Sites whose blocks fill their units to the last byte.
    #[serde(skip)]
    pub others: Vec<Pin>,
    /// Units with a live block, by address.
    #[serde(skip)]
    pub units: Vec<Unit>,
    /// What could be given back at once.
    #[serde(skip)]
    pub releasable: u64,
}

impl Pinning {
    /// Site number `at` of a unit.
    pub fn site(&self, at: u32) -> &Pin {
        let at = at as usize;
        self.pins.get(at).unwrap_or_else(|| &self.others[at - self.pins.len()])
    }

    /// Number of sites with a live block in the default pools.
    pub fn sites(&self) -> usize {
        self.pins.len() + self.others.len()
    }

    /// The units that lie in `[addr, addr + bytes)`.
    pub fn units_in(&self, addr: u64, bytes: u64) -> &[Unit] {
        let from = self.units.partition_point(|unit| unit.addr < addr);
        let to = self.units.partition_point(|unit| unit.addr < addr.saturating_add(bytes));
        &self.units[from..to.max(from)]
    }
}

/// What pins the free memory of `history`'s device at `moment`.
pub fn pinning(history: &History, moment: Moment, sites: &Sites) -> Pinning {
    pinning_of(history, &history.state(moment.state), moment, sites, |_| true)
}

/// [`pinning`] of the ranges of `state` that `keep` accepts.
pub fn pinning_of(
    history: &History,
    state: &State,
    moment: Moment,
    sites: &Sites,
    keep: impl Fn(&StateRange) -> bool,
) -> Pinning {
    let (mut pinning, blocks_of) = shares(history, state, moment, sites, keep);
    lifetimes::fill(history, state, moment.state, &pinning.units, &blocks_of, &mut pinning.pins);
    pinning
}

/// [`pinning_of`] without the lifetimes, for which all blocks of the trace are looked at, and the blocks of the first
/// sites: rows of [`State::blocks`].
pub(super) fn shares(
    history: &History,
    state: &State,
    moment: Moment,
    sites: &Sites,
    keep: impl Fn(&StateRange) -> bool,
) -> (Pinning, Vec<Vec<u32>>) {
    let mut names = Names::new(sites);
    let mut units = Vec::new();
    let mut rows: Vec<Pin> = Vec::new();
    let mut blocks_of: Vec<Vec<u32>> = Vec::new();
    let mut partial_granules = 0;
    let mut releasable = 0;
    let kept = state.ranges.iter().filter(|range| range.range.pool == PoolId::DEFAULT && keep(range));
    for range in kept {
        let first = range.blocks.start;
        let blocks = state.blocks_of(range);
        let numbers: Vec<u32> = blocks.iter().map(|block| names.number(history, block)).collect();
        for (at, (block, &number)) in blocks.iter().zip(&numbers).enumerate() {
            let number = number as usize;
            if number >= rows.len() {
                rows.resize_with(number + 1, Pin::nothing);
                blocks_of.resize_with(number + 1, Vec::new);
            }
            let row = &mut rows[number];
            row.own += block.bytes;
            row.blocks += 1;
            row.pending += if block.is_pending { block.bytes } else { 0 };
            blocks_of[number].push((first + at) as u32);
        }
        let parts = super::totals::free_parts(state, range, &history.rules);
        releasable += parts.releasable;
        let before = units.len();
        cut(history, range, blocks, &numbers, &mut units, &mut rows);
        let pinned: u64 = units[before..].iter().map(|unit: &Unit| unit.pinned).sum();
        partial_granules += parts.stranded.saturating_sub(pinned);
    }
    let order = names.finish(&mut rows);
    let mut place = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        place[from] = to as u32;
    }
    for unit in &mut units {
        for site in &mut unit.sites {
            *site = place[*site as usize];
        }
        unit.sites.sort_unstable();
        for &site in unit.sites.iter().filter(|_| unit.pinned > 0) {
            let row = &mut rows[order[site as usize]];
            if unit.granules > 0 { row.granules += unit.granules } else { row.segments += 1 }
        }
    }
    let mut pins: Vec<Pin> = order.iter().map(|&row| rows[row].clone()).collect();
    let pinning_sites = pins.iter().take_while(|pin| pin.pinned > 0).count();
    let blocks_of: Vec<Vec<u32>> =
        order.iter().take(pinning_sites.min(MAX_LIFETIMES)).map(|&row| std::mem::take(&mut blocks_of[row])).collect();
    let others = pins.split_off(pinning_sites);
    let pinned = units.iter().map(|unit| unit.pinned).sum();
    let device = history.device.ordinal;
    (Pinning { device, at: moment, pinned, partial_granules, pins, others, units, releasable }, blocks_of)
}

/// Adds the units of `range` that hold a live block, and each site's share of what is free in them.
fn cut(
    history: &History,
    range: &StateRange,
    blocks: &[LiveBlock],
    numbers: &[u32],
    units: &mut Vec<Unit>,
    rows: &mut [Pin],
) {
    let expandable = range.range.expandable;
    let size = if expandable { history.rules.granule(range.range.kind).max(1) } else { range.bytes.max(1) };
    let end = range.addr.saturating_add(range.bytes);
    let mut first = 0;
    while first < blocks.len() {
        // The next unit is the one in which the first block ends that no earlier unit has seen the end of.
        let seen = units.last().map_or(range.addr, |unit| unit.addr.saturating_add(unit.bytes)).max(range.addr);
        let from = blocks[first].addr.max(seen);
        let addr = range.addr + (from - range.addr) / size * size;
        let mut stop = addr.saturating_add(size).min(end);
        if blocks[first].addr <= addr && blocks[first].end() > stop {
            // Granules that one block fills are one unit: there may be any number of them.
            stop = (addr + blocks[first].end().saturating_sub(addr) / size * size).clamp(stop, end);
        }
        if from >= end || stop <= addr {
            return;
        }
        let here = first + blocks[first..].partition_point(|block| block.addr < stop);
        // Saturating, because the blocks of a damaged file may overlap.
        let part = |block: &LiveBlock| block.end().min(stop).saturating_sub(block.addr.max(addr));
        let used: u64 = blocks[first..here].iter().map(part).sum();
        let pinned = (stop - addr).saturating_sub(used);
        let count = (here - first) as u64;
        for (at, &number) in (0u64..).zip(&numbers[first..here]) {
            rows[number as usize].pinned += pinned / count + u64::from(at < pinned % count);
        }
        let mut sites = numbers[first..here].to_vec();
        sites.sort_unstable();
        sites.dedup();
        let granules = if expandable { (stop - addr).div_ceil(size) } else { 0 };
        units.push(Unit { addr, bytes: stop - addr, pinned, granules, born: range.range.born, sites });
        first += blocks[first..here].partition_point(|block| block.end() <= stop);
    }
}

impl Pin {
    fn nothing() -> Self {
        Self {
            site: String::new(),
            function: None,
            pinned: 0,
            own: 0,
            pending: 0,
            blocks: 0,
            segments: 0,
            granules: 0,
            lifetimes: None,
            key: Site::NoStack,
        }
    }
}

/// Numbers for sites, in the order in which they are met.
struct Names<'s, 'a> {
    sites: &'s Sites<'a>,
    of_slot: Vec<Option<u32>>,
    of_site: HashMap<Site, u32>,
}

impl<'s, 'a> Names<'s, 'a> {
    fn new(sites: &'s Sites<'a>) -> Self {
        Self { sites, of_slot: vec![None; sites.slots()], of_site: HashMap::new() }
    }

    fn number(&mut self, history: &History, block: &LiveBlock) -> u32 {
        let slot = self.sites.slot(history, block.life);
        *self.of_slot[slot].get_or_insert_with(|| {
            let next = self.of_site.len() as u32;
            *self.of_site.entry(self.sites.of_slot(slot)).or_insert(next)
        })
    }

    /// Names the rows; gives their order: most pinned first, then most bytes, then by name.
    fn finish(self, rows: &mut [Pin]) -> Vec<usize> {
        for (&site, &number) in &self.of_site {
            let row = &mut rows[number as usize];
            row.key = site;
            row.site = self.sites.name(site).into_owned();
            row.function = self.sites.function(site).map(str::to_owned);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&rows[a], &rows[b]);
            b.pinned.cmp(&a.pinned).then(b.own.cmp(&a.own)).then_with(|| a.site.cmp(&b.site)).then(a.key.cmp(&b.key))
        });
        order
    }
}
