//! The live set at many instants of the trace: who held the memory then.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::changes::changes;
use super::sites::{Site, Sites};
use crate::history::{History, Moment};
use crate::snapshot::StackId;

/// The live sets of one device at a bounded number of instants.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instants {
    /// Device ordinal.
    pub device: i64,
    /// The instants, oldest first: those asked for, and the one with most live memory of each equal part of the trace.
    pub instants: Vec<Instant>,
    /// The sites that are named at any of them.
    pub sites: Vec<NamedSite>,
    /// Names of sites at one instant, at most.
    pub named: usize,
}

/// Who holds the memory in one state. Sizes in bytes; the named sites and the others sum to the total.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instant {
    /// The number of the state: so many events have happened.
    pub state: u32,
    /// Microseconds since 1970 of the last of them.
    pub time_us: Option<u64>,
    /// Taken from the device.
    pub reserved: u64,
    /// All live and pending blocks.
    pub total: Held,
    /// Those that hold most, the most first: row of [`Instants::sites`], and what it holds.
    pub sites: Vec<(u32, Held)>,
    /// All others together.
    pub other: Held,
    /// How many others there are.
    pub other_sites: u64,
}

/// What one site, or several together, hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Bytes occupied.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Held {
    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            requested: self.requested.saturating_add(other.requested),
            blocks: self.blocks + other.blocks,
        }
    }

    fn minus(self, part: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(part.bytes),
            requested: self.requested.saturating_sub(part.requested),
            blocks: self.blocks.saturating_sub(part.blocks),
        }
    }
}

/// A site, and how memory is allocated there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedSite {
    /// Its name.
    pub site: String,
    /// Function, where the site is a line.
    pub function: Option<String>,
    /// The stack that allocated most bytes for it over the whole trace, those at its start included.
    #[serde(skip)]
    pub stack: Option<StackId>,
    /// Number of different stacks it allocates with.
    pub stacks: u64,
    /// What it stands for.
    #[serde(skip)]
    pub key: Site,
}

/// The live sets of `history`'s device at about `count` instants, with at most `named` sites each. The state of
/// `moment`, the peaks, the last failures and the end are among the instants.
pub fn instants(history: &History, sites: &Sites, moment: Moment, count: usize, named: usize) -> Instants {
    let states = chosen(history, moment, count.max(1));
    let mut now = Running::new(history, sites);
    let mut found = Vec::with_capacity(states.len());
    let mut next = states.iter().copied().peekable();
    while let Some(state) = next.next_if(|&state| state == 0) {
        found.push(now.instant(history, state, named));
    }
    changes(history, |state, life, begins| {
        while let Some(before) = next.next_if(|&wanted| wanted < state) {
            found.push(now.instant(history, before, named));
        }
        now.change(history, life, begins);
    });
    for state in next {
        found.push(now.instant(history, state, named));
    }
    let mut rows: Vec<u32> = found.iter().flat_map(|instant| instant.sites.iter().map(|row| row.0)).collect();
    rows.sort_unstable();
    rows.dedup();
    for (site, _) in found.iter_mut().flat_map(|instant| &mut instant.sites) {
        *site = rows.partition_point(|row| row < site) as u32;
    }
    let stacks = now.stacks(sites);
    let sites = rows.iter().map(|&row| named_site(sites, now.sites[row as usize], &stacks)).collect();
    Instants { device: history.device.ordinal, instants: found, sites, named }
}

fn named_site(sites: &Sites, key: Site, stacks: &BTreeMap<Site, (u64, Option<StackId>)>) -> NamedSite {
    let (stacks, stack) = stacks.get(&key).copied().unwrap_or_default();
    NamedSite {
        site: sites.name(key).into_owned(),
        function: sites.function(key).map(str::to_owned),
        stack,
        stacks,
        key,
    }
}

/// The states to look at, ascending.
fn chosen(history: &History, moment: Moment, count: usize) -> Vec<u32> {
    let states = u64::from(history.events()) + 1;
    let part = |state: u32| (u64::from(state) * count as u64 / states) as usize;
    let mut highest: Vec<Option<(u64, u32)>> = vec![None; count];
    let mut active = history.counters(0).active;
    let mut keep = |state: u32, active: u64| {
        let best = &mut highest[part(state).min(count - 1)];
        if best.is_none_or(|(most, _)| active > most) {
            *best = Some((active, state));
        }
    };
    keep(0, active);
    let mut seen = 0;
    changes(history, |state, life, begins| {
        // What comes before the first change of a part counts in it, too.
        if part(state) != part(seen) {
            keep(state - 1, active);
        }
        seen = state;
        let bytes = history.lives.bytes(life);
        active = if begins { active.saturating_add(bytes) } else { active.saturating_sub(bytes) };
        keep(state, active);
    });
    let peaks = history.peaks.iter().flat_map(|peaks| [peaks.allocated, peaks.active, peaks.reserved, peaks.requested]);
    let ooms = history.ooms.iter().rev().take(count).map(|oom| oom.event + 1);
    let mut states: Vec<u32> = highest.into_iter().flatten().map(|(_, state)| state).collect();
    states.extend(peaks.map(|peak| peak.event.map_or(0, |event| event + 1)));
    states.extend(ooms);
    states.extend([moment.state, history.events()]);
    states.sort_unstable();
    states.dedup();
    states
}

/// What each site holds, as the trace goes on.
struct Running<'s, 'a> {
    by_slot: &'s Sites<'a>,
    sites: Vec<Site>,
    /// By slot.
    numbers: Vec<u32>,
    held: Vec<Held>,
    /// Bytes ever allocated, by slot.
    allocated: Vec<u64>,
    total: Held,
}

impl<'s, 'a> Running<'s, 'a> {
    fn new(history: &History, sites: &'s Sites<'a>) -> Self {
        let of_slot: Vec<Site> = (0..sites.slots()).map(|slot| sites.of_slot(slot)).collect();
        let mut found = of_slot.clone();
        found.sort_unstable();
        found.dedup();
        // In the order in which a ranking has sites that hold the same.
        found.sort_by_cached_key(|&site| (sites.name(site), site));
        let known: HashMap<Site, u32> = found.iter().copied().zip(0..).collect();
        let numbers = of_slot.iter().map(|site| known[site]).collect();
        let mut running = Self {
            by_slot: sites,
            held: vec![Held::default(); found.len()],
            sites: found,
            numbers,
            allocated: vec![0; sites.slots()],
            total: Held::default(),
        };
        for life in history.lives.ids().filter(|&life| history.lives.is_alive(life, 0)) {
            running.change(history, life, true);
        }
        running
    }

    fn change(&mut self, history: &History, life: u32, begins: bool) {
        let lives = &history.lives;
        let slot = self.by_slot.slot(history, life);
        let block = Held { bytes: lives.bytes(life), requested: lives.requested(life), blocks: 1 };
        for held in [&mut self.held[self.numbers[slot] as usize], &mut self.total] {
            *held = if begins { held.plus(block) } else { held.minus(block) };
        }
        if begins {
            self.allocated[slot] = self.allocated[slot].saturating_add(block.bytes);
        }
    }

    fn instant(&self, history: &History, state: u32, named: usize) -> Instant {
        let mut rows: Vec<u32> =
            (0..self.held.len() as u32).filter(|&row| self.held[row as usize].blocks > 0).collect();
        let key = |&row: &u32| (Reverse(self.held[row as usize].bytes), row);
        let others = rows.len().saturating_sub(named);
        if others > 0 {
            rows.select_nth_unstable_by_key(named, key);
            rows.truncate(named);
        }
        rows.sort_by_key(key);
        let sites: Vec<(u32, Held)> = rows.iter().map(|&row| (row, self.held[row as usize])).collect();
        Instant {
            state,
            time_us: state.checked_sub(1).and_then(|event| history.time_us(event)),
            reserved: history.ranges.reserved_at(state),
            total: self.total,
            other: sites.iter().fold(self.total, |rest, (_, held)| rest.minus(*held)),
            sites,
            other_sites: others as u64,
        }
    }

    /// Number of stacks of each site, and the one that allocated most.
    fn stacks(&self, sites: &Sites) -> BTreeMap<Site, (u64, Option<StackId>)> {
        let mut found: BTreeMap<Site, (u64, u64, Option<StackId>)> = BTreeMap::new();
        for (slot, &bytes) in self.allocated.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let (count, most, stack) = found.entry(sites.of_slot(slot)).or_default();
            *count += 1;
            if bytes > *most {
                (*most, *stack) = (bytes, sites.stack_of_slot(slot));
            }
        }
        found.into_iter().map(|(site, (count, _, stack))| (site, (count, stack))).collect()
    }
}
