//! What still fits: the free block that would serve a request, or the memory it would need from the device.

use serde::Serialize;

use super::failures::capacity;
use super::fragmentation::hex_or_null;
use super::pools::PoolKey;
use super::search::{FreeSet, free_sets, taken};
use super::totals::totals;
use crate::allocator::{PoolKind, TorchVersion};
use crate::history::{History, Moment, Oom, State};
use crate::snapshot::PoolId;

/// How a request would fare in one pool and stream. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// What the program asks for.
    pub request: u64,
    /// The request, rounded.
    pub rounded: u64,
    /// Stream pointer.
    pub stream: String,
    /// Private pool id as `a,b`; `None` for the default pool.
    pub pool: Option<String>,
    /// Size class of the request.
    pub kind: PoolKind,
    /// The free block that serves it.
    pub hole: Option<u64>,
    /// Where that is.
    #[serde(serialize_with = "hex_or_null")]
    pub hole_address: Option<u64>,
    /// What it takes of the free block: all of it when the rest is not split off.
    pub taken: Option<u64>,
    /// What it needs from the device when no free block serves it: a segment, or granules of expandable memory.
    pub new_segment: Option<u64>,
    /// Whether it succeeds; `None` where the device's free memory is not known.
    pub fits: Option<bool>,
    /// How it succeeds, or why not.
    pub how: How,
    /// What it was asked of.
    #[serde(skip)]
    pub key: PoolKey,
}

/// How a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// From a free block.
    Hole,
    /// With new memory from the device.
    NewSegment,
    /// With new memory, after the allocator has given back what it can.
    AfterFlush,
    /// Not at all: an out-of-memory error.
    Fails,
    /// It needs new memory, and whether there is any is not known.
    Unknown,
}

/// Memory that the device still has for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Where the figure is from.
    pub basis: Basis,
}

/// Where a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// PyTorch asked the device, at an OOM.
    Measured,
    /// The capacity less what is reserved.
    Computed,
    /// At most so much: a limit was hit, whose value is not in the file.
    AtMost,
}

/// What the device still has at `moment`. `capacity` is what the process may have in all, where the caller knows it.
pub fn room(history: &History, moment: Moment, known: Option<u64>) -> Option<Room> {
    if let Some(oom) = history.ooms.iter().find(|oom| Some(oom.event) == moment.event && known.is_none()) {
        return Some(room_at(history, oom));
    }
    let capacity = known.or_else(|| capacity(history))?;
    Some(Room { bytes: capacity.saturating_sub(history.ranges.reserved_at(moment.state)), basis: Basis::Computed })
}

/// What the device still had when `oom` was raised.
fn room_at(history: &History, oom: &Oom) -> Room {
    let segment = history.rules.segment_size(oom.rounded);
    match oom.device_free < segment {
        true => Room { bytes: oom.device_free, basis: Basis::Measured },
        false => Room { bytes: segment - 1, basis: Basis::AtMost },
    }
}

/// How each of `requests` would fare in each pool and stream of `state`.
pub fn fits(history: &History, state: &State, requests: &[u64], room: Option<Room>) -> Vec<Fit> {
    let sets = free_sets(state);
    let releasable = totals(history, state).releasable.unwrap_or(0);
    let nothing = FreeSet::default();
    let mut places: Vec<(PoolId, crate::snapshot::StreamId)> = sets.keys().map(|key| (key.pool, key.stream)).collect();
    places.dedup();
    let mut fits = Vec::new();
    for &request in requests {
        let rounded = history.rules.round_size(request);
        let kind = history.rules.pool_kind(rounded);
        for &(pool, stream) in &places {
            let key = PoolKey { pool, stream, kind };
            fits.push(fit(history, sets.get(&key).unwrap_or(&nothing), key, request, room, releasable));
        }
    }
    fits
}

fn fit(history: &History, set: &FreeSet, key: PoolKey, request: u64, room: Option<Room>, releasable: u64) -> Fit {
    let rules = &history.rules;
    let rounded = rules.round_size(request);
    let mut fit = Fit {
        request,
        rounded,
        stream: key.stream_text(history.snapshot),
        pool: key.pool_text(history.snapshot),
        kind: key.kind,
        hole: None,
        hole_address: None,
        taken: None,
        new_segment: None,
        fits: Some(true),
        how: How::Hole,
        key,
    };
    // Private pools took no expandable memory before torch 2.5.
    let is_old = history.snapshot.format.torch_below.is_some_and(|below| below <= TorchVersion::new(2, 5));
    let is_expandable = rules.expandable && (key.pool == PoolId::DEFAULT || set.has_expandable() || !is_old);
    let tail = || set.find_tail(rounded, rules.granule(key.kind), rules).filter(|_| is_expandable);
    if let Some(block) = set.find(rounded, rules).or_else(tail) {
        fit.hole = Some(block.hole.bytes);
        fit.hole_address = Some(block.hole.addr);
        fit.taken = Some(taken(rounded, block, key.kind, rules));
        return fit;
    }
    let needed = |is_flushed| match is_expandable {
        true => set.growth(rounded, rules.granule(key.kind), is_flushed && key.pool == PoolId::DEFAULT),
        false => rules.segment_size(rounded),
    };
    let (before, after) = (needed(false), needed(true));
    fit.new_segment = Some(before);
    fit.how = match room {
        Some(Room { bytes, basis }) if before > bytes && after > bytes.saturating_add(releasable) => {
            debug_assert!(basis != Basis::AtMost || bytes < before);
            How::Fails
        }
        Some(Room { basis: Basis::AtMost, .. }) | None => How::Unknown,
        Some(Room { bytes, .. }) if before <= bytes => How::NewSegment,
        Some(_) => How::AfterFlush,
    };
    fit.fits = match fit.how {
        How::Unknown => None,
        how => Some(how != How::Fails),
    };
    fit
}

/// A recorded failure, and where its request would have found a block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OomFit {
    /// Event number.
    pub event: u32,
    /// Stream of the request, as a pointer.
    pub stream: String,
    /// What the device still had.
    pub room: Room,
    /// The pools and streams; those of other streams and pools were closed to the request.
    pub fit: Vec<Fit>,
}

/// The last `count` failures of `history`'s device, oldest first.
pub fn oom_fits(history: &History, count: usize) -> Vec<OomFit> {
    let ooms = &history.ooms[history.ooms.len().saturating_sub(count)..];
    let each = |oom: &Oom| {
        let room = room_at(history, oom);
        let stream = history.snapshot.events.stream[history.row(oom.event)];
        OomFit {
            event: oom.event,
            stream: format!("{:#x}", history.snapshot.streams[stream.index()]),
            room,
            fit: fits(history, &history.state(oom.event + 1), &[oom.rounded], Some(room)),
        }
    };
    ooms.iter().map(each).collect()
}
