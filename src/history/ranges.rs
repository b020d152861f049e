//! Mapped memory over time: cudaMalloc'd segments and the mapped parts of expandable ones.

use std::collections::{BTreeMap, HashMap};

use super::Health;
use crate::allocator::{AllocatorRules, PoolKind};
use crate::snapshot::{Action, Device, PoolId, Snapshot, StackId, StreamId};

/// A row of [`Ranges::kinds`].
pub type RangeId = u32;

/// What is known of a mapped range, apart from where it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Stream that it belongs to.
    pub stream: StreamId,
    /// Small or large pool.
    pub kind: PoolKind,
    /// Private pool, or the default one.
    pub pool: PoolId,
    /// Whether it is part of an expandable segment.
    pub expandable: bool,
    /// Stack of the cudaMalloc; [`StackId::NONE`] when it is not known.
    pub stack: StackId,
    /// Event that mapped it; `None` when it was there before.
    pub born: Option<u32>,
    /// Whether kind and pool are from the file, not guessed from sizes.
    pub is_certain: bool,
}

/// A change of the mapped memory.
#[derive(Clone, Copy, Debug)]
struct Change {
    event: u32,
    range: RangeId,
    /// Bytes by which the mapped memory differs from state 0 behind it.
    delta: i64,
}

/// Ranges by start address: end address and what they are.
pub(super) type Map = BTreeMap<u64, (u64, RangeId)>;

/// Mapped memory of one device over time.
pub struct Ranges<'a> {
    snapshot: &'a Snapshot,
    /// What each range is.
    pub kinds: Vec<Range>,
    /// Mapped in state 0.
    start: Map,
    /// Segment events in order.
    changes: Vec<Change>,
    first_row: usize,
    reserved_at_start: i64,
}

impl<'a> Ranges<'a> {
    /// Undoes the trace from the final segments.
    pub(super) fn new(snapshot: &'a Snapshot, device: &Device, rules: &AllocatorRules, health: &mut Health) -> Self {
        let mut ranges = Self {
            snapshot,
            kinds: Vec::new(),
            start: Map::new(),
            changes: Vec::new(),
            first_row: device.events.start,
            reserved_at_start: 0,
        };
        let mut map = Map::new();
        for segment in snapshot.segments_of(device) {
            let id = ranges.add_kind(Range {
                stream: segment.stream,
                kind: segment.kind,
                pool: segment.pool,
                expandable: segment.expandable,
                stack: segment.stack,
                born: None,
                is_certain: true,
            });
            map.insert(segment.address, (segment.end(), id));
            ranges.reserved_at_start += segment.total_size as i64;
        }
        let events = &snapshot.events;
        for event in (0..device.events.len() as u32).rev() {
            let row = device.events.start + event as usize;
            let action = events.action[row];
            let (addr, size) = (events.addr[row], events.size[row]);
            let end = addr.saturating_add(size);
            match action {
                Action::SegmentAlloc | Action::SegmentMap => {
                    ranges.reserved_at_start -= size as i64;
                    let removed = remove(&mut map, addr, end);
                    health.odd_ranges += u64::from(removed.is_none());
                    let mut kind = match removed {
                        Some(id) => ranges.kinds[id as usize],
                        None => guess(snapshot, rules, row, action == Action::SegmentMap),
                    };
                    // A piece of an expandable range was mapped by its own event; the stack is the first piece's.
                    kind.born = Some(event);
                    if events.stack[row].has_frames() {
                        kind.stack = events.stack[row];
                    }
                    let id = ranges.add_kind(kind);
                    ranges.changes.push(Change { event, range: id, delta: size as i64 });
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    ranges.reserved_at_start += size as i64;
                    let id = ranges.add_kind(guess(snapshot, rules, row, action == Action::SegmentUnmap));
                    insert(&mut map, &ranges.kinds, addr, end, id);
                    ranges.changes.push(Change { event, range: id, delta: -(size as i64) });
                }
                _ => {}
            }
        }
        ranges.changes.reverse();
        let mut delta = 0;
        for change in &mut ranges.changes {
            delta += change.delta;
            change.delta = delta;
        }
        ranges.start = map;
        ranges
    }

    fn add_kind(&mut self, kind: Range) -> RangeId {
        self.kinds.push(kind);
        self.kinds.len() as RangeId - 1
    }

    /// Bytes mapped in state 0: those at the end, less what the trace added. Negative when the trace contradicts the
    /// segments, which is then 0.
    pub fn reserved_at_start(&self) -> u64 {
        u64::try_from(self.reserved_at_start).unwrap_or(0)
    }

    pub(super) fn signed_reserved_at_start(&self) -> i64 {
        self.reserved_at_start
    }

    /// Bytes mapped in `state`.
    pub fn reserved_at(&self, state: u32) -> u64 {
        let earlier = self.changes.partition_point(|change| change.event < state);
        let delta = earlier.checked_sub(1).map_or(0, |last| self.changes[last].delta);
        u64::try_from(self.reserved_at_start + delta).unwrap_or(0)
    }

    /// The events that mapped the memory that is there at the end, by its start address, as far as the trace tells.
    pub(super) fn births(&self) -> HashMap<u64, u32> {
        let events = &self.snapshot.events;
        let mut births = HashMap::new();
        for change in &self.changes {
            let row = self.first_row + change.event as usize;
            match events.action[row] {
                Action::SegmentAlloc | Action::SegmentMap => births.insert(events.addr[row], change.event),
                _ => births.remove(&events.addr[row]),
            };
        }
        births
    }

    /// The map in state 0, and a cursor to carry it forward.
    pub fn walk(&self) -> Walk<'_> {
        Walk { ranges: self, map: self.start.clone(), next: 0 }
    }
}

/// A range mapped in one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Start address.
    pub addr: u64,
    /// First address behind it.
    pub end: u64,
    /// What it is.
    pub range: Range,
}

/// What a segment event does: it maps or unmaps `[addr, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remap {
    /// Start address.
    pub addr: u64,
    /// First address behind it.
    pub end: u64,
    /// Whether it maps.
    pub maps: bool,
}

/// The mapped memory carried forward state by state.
pub struct Walk<'r> {
    ranges: &'r Ranges<'r>,
    pub(super) map: Map,
    next: usize,
}

impl Walk<'_> {
    /// Applies the changes up to and including those that lead to `state`.
    pub fn advance(&mut self, state: u32) {
        while self.next_change(state).is_some() {
            self.step();
        }
    }

    /// The next change, if it leads to `state` or an earlier one.
    pub fn next_change(&self, state: u32) -> Option<Remap> {
        let change = self.ranges.changes.get(self.next).filter(|change| change.event < state)?;
        Some(self.remap(change))
    }

    fn remap(&self, change: &Change) -> Remap {
        let row = self.ranges.first_row + change.event as usize;
        let events = &self.ranges.snapshot.events;
        let addr = events.addr[row];
        let maps = matches!(events.action[row], Action::SegmentAlloc | Action::SegmentMap);
        Remap { addr, end: addr.saturating_add(events.size[row]), maps }
    }

    /// Applies the next change.
    pub fn step(&mut self) {
        let Some(change) = self.ranges.changes.get(self.next) else { return };
        self.next += 1;
        let Remap { addr, end, maps } = self.remap(change);
        if maps {
            insert(&mut self.map, &self.ranges.kinds, addr, end, change.range);
        } else {
            remove(&mut self.map, addr, end);
        }
    }

    /// The ranges that a change of `[addr, end)` may touch: the last that begins before it, and those that begin at its
    /// two ends.
    pub fn touched(&self, addr: u64, end: u64) -> [Option<Span>; 3] {
        let at = |addr: u64| self.map.get_key_value(&addr).map(|entry| self.span_of(entry));
        let before = self.map.range(..addr).next_back().map(|entry| self.span_of(entry));
        [before, at(addr), at(end).filter(|_| end != addr)]
    }

    /// The range that holds `addr`.
    pub fn span(&self, addr: u64) -> Option<Span> {
        self.map.range(..=addr).next_back().map(|entry| self.span_of(entry)).filter(|span| span.end > addr)
    }

    fn span_of(&self, (start, (end, range)): (&u64, &(u64, RangeId))) -> Span {
        Span { addr: *start, end: *end, range: self.kind(*range) }
    }

    /// Whether nothing of `[addr, end)` is mapped.
    pub fn is_unmapped(&self, addr: u64, end: u64) -> bool {
        self.containing(addr).is_none() && self.map.range(addr..end.max(addr)).next().is_none()
    }

    /// What the range that holds `addr` is.
    pub fn at(&self, addr: u64) -> Option<&Range> {
        self.containing(addr).and_then(|(_, range)| self.ranges.kinds.get(range as usize))
    }

    /// The ranges mapped now: bytes and what they are, by address.
    pub fn mapped(&self) -> impl Iterator<Item = (u64, &Range)> {
        self.map.iter().map(|(start, (end, range))| (end - start, &self.ranges.kinds[*range as usize]))
    }

    /// The ranges mapped now, by address.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        self.map.iter().map(|entry| self.span_of(entry))
    }

    /// What `range` is.
    pub(super) fn kind(&self, range: RangeId) -> Range {
        self.ranges.kinds[range as usize]
    }

    /// The range that holds `addr`: its end and what it is.
    pub(super) fn containing(&self, addr: u64) -> Option<(u64, RangeId)> {
        self.map.range(..=addr).next_back().map(|(_, range)| *range).filter(|(end, _)| *end > addr)
    }
}

/// What a range that is gone at the end was, as far as its event tells.
fn guess(snapshot: &Snapshot, rules: &AllocatorRules, row: usize, expandable: bool) -> Range {
    let events = &snapshot.events;
    let size = events.size[row];
    let kind = match expandable {
        true if !size.is_multiple_of(rules.large_segment) => PoolKind::Small,
        false if size == rules.small_segment => PoolKind::Small,
        _ => PoolKind::Large,
    };
    Range {
        stream: events.stream[row],
        kind,
        pool: events.pool.get(row),
        expandable,
        stack: StackId::NONE,
        born: None,
        is_certain: false,
    }
}

/// Adds [addr, end). An expandable range grows its neighbours of the same stream and pool.
fn insert(map: &mut Map, kinds: &[Range], addr: u64, end: u64, id: RangeId) {
    if end <= addr {
        return;
    }
    let (mut start, mut stop, mut keep) = (addr, end, id);
    let joins = |other: RangeId| {
        let (a, b) = (&kinds[id as usize], &kinds[other as usize]);
        a.expandable && b.expandable && a.stream == b.stream && (a.pool == b.pool || !a.is_certain || !b.is_certain)
    };
    if let Some((&before, &(before_end, other))) = map.range(..addr).next_back()
        && before_end == addr
        && joins(other)
    {
        (start, keep) = (before, other);
    }
    if let Some(&(after_end, other)) = map.get(&end)
        && joins(other)
    {
        map.remove(&end);
        stop = after_end;
        if keep == id {
            keep = other;
        }
    }
    map.insert(start, (stop, keep));
}

/// Removes [addr, end) from the one range that holds it. `None`, and nothing changed, when no range does.
fn remove(map: &mut Map, addr: u64, end: u64) -> Option<RangeId> {
    let (&start, &(stop, id)) = map.range(..=addr).next_back()?;
    if end > stop || end <= addr {
        return None;
    }
    map.remove(&start);
    if start < addr {
        map.insert(start, (addr, id));
    }
    if end < stop {
        map.insert(end, (stop, id));
    }
    Some(id)
}
