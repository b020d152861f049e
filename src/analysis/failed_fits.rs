//! Requests that needed new memory, or failed, although there was enough free memory in pieces.
//!
//! They show fragmentation building up long before an OOM. Free bytes are carried along the trace by pool, stream and
//! size class, so the cost is linear in the events; only the worst requests are looked at closely.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::pinning::shares;
use super::pool_key::PoolKey;
use super::search::free_sets;
use super::sites::{Site, Sites};
use crate::allocator::PoolKind;
use crate::history::{History, LifeId, Malloc, Moment, Walk};
use crate::snapshot::{Action, PoolId};

/// Requests that are looked at closely.
const WORST: usize = 10;
/// Pinning sites named for each.
const PINS: usize = 3;
/// Parts of the trace in which failed fits are counted.
const WINDOWS: usize = 40;

/// The failed fits of one device's whole trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedFits {
    /// How many.
    pub count: u64,
    /// Sum of the requests, rounded, in bytes.
    pub bytes: u64,
    /// What was taken from the device for them, in bytes.
    pub new_memory: u64,
    /// How many of them were out-of-memory errors.
    pub ooms: u64,
    /// Event of the first.
    pub first_event: Option<u32>,
    /// How many there are in each of 40 equal parts of the trace.
    pub over_time: Vec<u32>,
    /// Those with most free memory, the most first.
    pub worst: Vec<FailedFit>,
}

/// A request that found no block although there was enough in pieces. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedFit {
    /// Event of its `alloc` or `oom`.
    pub event: u32,
    /// Time of that in microseconds since 1970.
    pub time_us: Option<u64>,
    /// What the program asked for; the rounded size for an OOM.
    pub requested: u64,
    /// The request, rounded.
    pub rounded: u64,
    /// Stream pointer.
    pub stream: String,
    /// Private pool id as `a,b`; `None` for the default pool.
    pub pool: Option<String>,
    /// Size class.
    pub kind: PoolKind,
    /// What was free in its pool, stream and size class before it gave anything back.
    pub free: u64,
    /// The largest block of that.
    pub largest_free: u64,
    /// What it took from the device instead.
    pub new_memory: u64,
    /// Whether it failed.
    pub is_oom: bool,
    /// Who asked.
    pub site: String,
    /// Who pinned most of the free memory.
    pub pins: Vec<FailedPin>,
}

/// A site that pinned free memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedPin {
    /// Name of the site.
    pub site: String,
    /// Its share of the pinned bytes.
    pub pinned: u64,
    /// Bytes of its own blocks there.
    pub own: u64,
}

/// A failed fit that has not been looked at closely.
struct Found {
    call: Malloc,
    key: PoolKey,
    rounded: u64,
    free: u64,
    new_memory: u64,
    is_oom: bool,
}

/// The failed fits of `history`'s device; `None` when there is no trace.
pub fn failed_fits(history: &History, sites: &Sites) -> Option<FailedFits> {
    if !history.health.recorded {
        return None;
    }
    let mut found = Pass::new(history).run();
    let window = |event: u32| (event as usize * WINDOWS / history.events().max(1) as usize).min(WINDOWS - 1);
    let mut over_time = vec![0; WINDOWS];
    for fit in &found {
        over_time[window(fit.call.event)] += 1;
    }
    let mut result = FailedFits {
        count: found.len() as u64,
        bytes: found.iter().map(|fit| fit.rounded).sum(),
        new_memory: found.iter().map(|fit| fit.new_memory).sum(),
        ooms: found.iter().filter(|fit| fit.is_oom).count() as u64,
        first_event: found.first().map(|fit| fit.call.event),
        over_time,
        worst: Vec::new(),
    };
    found.sort_by(|a, b| b.free.cmp(&a.free).then(b.rounded.cmp(&a.rounded)).then(a.call.event.cmp(&b.call.event)));
    found.truncate(WORST);
    result.worst = found.iter().map(|fit| closely(history, sites, fit)).collect();
    Some(result)
}

fn closely(history: &History, sites: &Sites, found: &Found) -> FailedFit {
    let row = history.row(found.call.event);
    let events = &history.snapshot.events;
    let at = found.call.state_before();
    let state = history.state(at);
    let moment = Moment { what: "event", event: at.checked_sub(1), time_us: None, state: at };
    let mine = |range: &crate::history::StateRange| PoolKey::from(&range.range) == found.key;
    let (pinning, _) = shares(history, &state, moment, sites, mine);
    let set = free_sets(&state).remove(&found.key).unwrap_or_default();
    let site = match history.lives.of_event(found.call.event) {
        Some(life) => sites.of_life(history, life),
        None if events.stack[row].has_frames() => sites.site(events.stack[row]),
        None => Site::NoStack,
    };
    FailedFit {
        event: found.call.event,
        time_us: history.time_us(found.call.event),
        requested: events.size[row],
        rounded: found.rounded,
        stream: found.key.stream_text(history.snapshot),
        pool: found.key.pool_text(history.snapshot),
        kind: found.key.kind,
        free: found.free,
        largest_free: set.blocks().last().map_or(0, |block| block.hole.bytes),
        new_memory: found.new_memory,
        is_oom: found.is_oom,
        site: sites.name(site).into_owned(),
        pins: pinning
            .pins
            .iter()
            .take(PINS)
            .map(|pin| FailedPin { site: pin.site.clone(), pinned: pin.pinned, own: pin.own })
            .collect(),
    }
}

/// Free bytes by pool, carried along the trace.
struct Pass<'h> {
    history: &'h History<'h>,
    walk: Walk<'h>,
    keys: HashMap<PoolKey, u32>,
    /// Signed, because a damaged trace may pull it below zero.
    free: Vec<i64>,
    /// Pool of each life that is active.
    pool_of: HashMap<LifeId, u32>,
    /// Changes by the entries that may belong to the next call: event, pool, bytes.
    run: Vec<(u32, u32, i64)>,
}

impl<'h> Pass<'h> {
    fn new(history: &'h History<'h>) -> Self {
        let walk = history.ranges.walk();
        let mut pass =
            Self { history, walk, keys: HashMap::new(), free: Vec::new(), pool_of: HashMap::new(), run: Vec::new() };
        let mut mapped: BTreeMap<PoolKey, u64> = BTreeMap::new();
        for (bytes, range) in pass.walk.mapped() {
            *mapped.entry(PoolKey::from(range)).or_default() += bytes;
        }
        for (key, bytes) in mapped {
            let pool = pass.number(key);
            pass.free[pool as usize] += bytes as i64;
        }
        for life in history.lives.ids().filter(|&life| history.lives.is_alive(life, 0)) {
            pass.enter(life);
        }
        pass
    }

    fn number(&mut self, key: PoolKey) -> u32 {
        let next = self.free.len() as u32;
        let number = *self.keys.entry(key).or_insert(next);
        if number == next {
            self.free.push(0);
        }
        number
    }

    fn pool_at(&mut self, addr: u64) -> Option<u32> {
        let key = PoolKey::from(self.walk.at(addr)?);
        Some(self.number(key))
    }

    fn enter(&mut self, life: LifeId) {
        if let Some(pool) = self.pool_at(self.history.lives.addr(life)) {
            self.free[pool as usize] -= self.history.lives.bytes(life) as i64;
            self.pool_of.insert(life, pool);
        }
    }

    fn leave(&mut self, life: LifeId) -> Option<(u32, i64)> {
        let pool = self.pool_of.remove(&life)?;
        let bytes = self.history.lives.bytes(life) as i64;
        self.free[pool as usize] += bytes;
        Some((pool, bytes))
    }

    fn run(mut self) -> Vec<Found> {
        let history = self.history;
        let events = &history.snapshot.events;
        let mut found = Vec::new();
        let mut unrecorded = history.lives.unrecorded_ends().iter().peekable();
        for event in 0..history.events() {
            while let Some((_, life)) = unrecorded.next_if(|(state, _)| *state <= event) {
                self.leave(*life);
            }
            let row = history.row(event);
            let (addr, size) = (events.addr[row], events.size[row] as i64);
            match events.action[row] {
                Action::SegmentAlloc | Action::SegmentMap => {
                    self.walk.advance(event + 1);
                    if let Some(pool) = self.pool_at(addr) {
                        self.free[pool as usize] += size;
                        self.run.push((event, pool, size));
                    }
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    let pool = self.pool_at(addr);
                    self.walk.advance(event + 1);
                    if let Some(pool) = pool {
                        self.free[pool as usize] -= size;
                        self.run.push((event, pool, -size));
                    }
                }
                Action::FreeCompleted | Action::Free | Action::FreeRequested => {
                    let life = history.lives.of_event(event);
                    let done = life.filter(|&life| history.lives.done_at(life) == event + 1);
                    let change = done.and_then(|life| self.leave(life));
                    if events.action[row] == Action::FreeCompleted {
                        self.run.extend(change.map(|(pool, bytes)| (event, pool, bytes)));
                    } else {
                        self.run.clear();
                    }
                }
                Action::Alloc => {
                    found.extend(self.alloc(event, addr));
                    if let Some(life) = history.lives.of_event(event) {
                        self.enter(life);
                    }
                    self.run.clear();
                }
                Action::Oom => {
                    let rounded = events.size[row];
                    let stream = events.stream[row];
                    let kind = history.rules.pool_kind(rounded);
                    // Private pools are named from torch 2.12 on; before, the default pool is what nearly all ask.
                    let pool: PoolId = events.pool.get(row);
                    let key = PoolKey { pool, stream, kind };
                    found.extend(self.judge(event, key, rounded, true));
                    self.run.clear();
                }
                _ => self.run.clear(),
            }
        }
        found
    }

    fn alloc(&mut self, event: u32, addr: u64) -> Option<Found> {
        self.run.iter().any(|&(_, _, bytes)| bytes > 0).then_some(())?;
        let key = PoolKey::from(self.walk.at(addr)?);
        let rounded = self.history.rules.round_size(self.history.snapshot.events.size[self.history.row(event)]);
        self.judge(event, key, rounded, false)
    }

    fn judge(&mut self, event: u32, key: PoolKey, rounded: u64, is_oom: bool) -> Option<Found> {
        let call = self.history.malloc(event);
        if !is_oom && call.first_growth.is_none() {
            return None;
        }
        let before = call.state_before();
        let pool = self.number(key);
        let since = self.run.iter().filter(|(event, ..)| *event >= before);
        let mine: i64 = since.clone().filter(|change| change.1 == pool).map(|change| change.2).sum();
        let free = u64::try_from(self.free[pool as usize] - mine).unwrap_or(0);
        let events = &self.history.snapshot.events;
        let grew =
            |event: u32| matches!(events.action[self.history.row(event)], Action::SegmentAlloc | Action::SegmentMap);
        let new_memory = since.filter(|change| grew(change.0)).map(|change| change.2 as u64).sum();
        (rounded <= free).then_some(Found { call, key, rounded, free, new_memory, is_oom })
    }
}
