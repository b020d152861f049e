//! The part of a snapshot that is exported.

use std::borrow::Cow;
use std::ops::Range;

use super::{ExportError, Names, Result};
use crate::analysis::window::WindowSpec;
use crate::history::{History, LiveBlock, State, StateRange};
use crate::snapshot::{Block, BlockHistory, BlockState, Device, HistoryRows, Schema, Segment, Snapshot, StackId};

/// One device's part: a piece of its trace, and the memory after it.
pub struct DeviceExcerpt<'a> {
    /// Ordinal as torch sees it.
    pub ordinal: i64,
    /// Rows of [`Snapshot::events`].
    pub events: Range<usize>,
    /// Segments after the last of them, by address.
    pub segments: Cow<'a, [Segment]>,
    /// The table that [`Segment::blocks`] are rows of.
    pub blocks: Cow<'a, [Block]>,
    /// The table that [`Block::history`] are rows of.
    pub histories: Cow<'a, [BlockHistory]>,
}

/// The part of a snapshot that is exported.
pub struct Excerpt<'a> {
    /// The file that it is taken from.
    pub snapshot: &'a Snapshot,
    /// The devices, by ordinal.
    pub devices: Vec<DeviceExcerpt<'a>>,
    /// Pinned host memory.
    pub host: Option<DeviceExcerpt<'a>>,
    /// First and last time, in microseconds since 1970, when the trace is cut.
    pub times: Option<(u64, u64)>,
    /// How texts are written.
    pub names: Names<'a>,
}

impl<'a> Excerpt<'a> {
    /// Everything about the devices of `histories`; pinned host memory when these are all devices of the file.
    pub fn new(snapshot: &'a Snapshot, histories: &[History<'a>], names: Names<'a>) -> Self {
        let mut devices: Vec<_> = histories.iter().map(|history| whole(snapshot, history.device)).collect();
        devices.sort_by_key(|device| device.ordinal);
        let is_all = devices.len() == snapshot.devices.len();
        let host = snapshot.host.as_ref().filter(|_| is_all).map(|host| whole(snapshot, host));
        Self { snapshot, devices, host, times: None, names }
    }

    /// The events in `window`, and the memory after the last of them. Host memory is known at the dump only, so it is
    /// left out.
    ///
    /// # Errors
    /// When the window means something else on each device, is empty, or ends where the segments are not known.
    pub fn windowed(
        snapshot: &'a Snapshot,
        histories: &[History<'a>],
        window: WindowSpec,
        names: Names<'a>,
    ) -> Result<Self> {
        if histories.len() > 1 && !window.is_common() {
            return Err(ExportError::ManyDevices);
        }
        let mut devices = Vec::with_capacity(histories.len());
        let mut times: Option<(u64, u64)> = None;
        for history in histories {
            let events = events(window, history)?;
            if !events.is_empty()
                && let (Some(first), Some(last)) = (history.time_us(events.start), history.time_us(events.end - 1))
            {
                times = Some(times.map_or((first, last), |times| (times.0.min(first), times.1.max(last))));
            }
            devices.push(after(history, events)?);
        }
        if devices.iter().all(|device| device.events.is_empty()) {
            return Err(ExportError::EmptyWindow);
        }
        devices.sort_by_key(|device| device.ordinal);
        let open = |end: Option<_>, limit, time| if end.is_none() { limit } else { time };
        let times = times.map(|(first, last)| (open(window.first, 0, first), open(window.last, u64::MAX, last)));
        Ok(Self { snapshot, devices, host: None, times, names })
    }

    /// Whether something that happened at `time_us` is in it.
    pub fn has_time(&self, time_us: u64) -> bool {
        self.times.is_none_or(|(first, last)| (first..=last).contains(&time_us))
    }
}

/// The events of `history` in `window`; none of a device that is known at the dump only.
fn events(window: WindowSpec, history: &History) -> Result<Range<u32>> {
    if history.events() == 0 {
        return Ok(0..0);
    }
    Ok(window.range(history)?)
}

fn whole<'a>(snapshot: &'a Snapshot, device: &Device) -> DeviceExcerpt<'a> {
    DeviceExcerpt {
        ordinal: device.ordinal,
        events: device.events.clone(),
        segments: Cow::Borrowed(snapshot.segments_of(device)),
        blocks: Cow::Borrowed(&snapshot.blocks),
        histories: Cow::Borrowed(&snapshot.extras.histories),
    }
}

/// `events` of `history` and the memory after them.
fn after<'a>(history: &History<'a>, events: Range<u32>) -> Result<DeviceExcerpt<'a>> {
    let rows = history.row(events.start)..history.row(events.end);
    if events.end == history.events() {
        return Ok(DeviceExcerpt { events: rows, ..whole(history.snapshot, history.device) });
    }
    let state = history.state(events.end);
    let layout = || ExportError::Layout { device: history.device.ordinal, event: events.end.saturating_sub(1) };
    if !state.is_sound {
        return Err(layout());
    }
    let mut memory = Memory::new(history);
    for range in &state.ranges {
        memory.add(&state, range).ok_or_else(layout)?;
    }
    Ok(DeviceExcerpt {
        ordinal: history.device.ordinal,
        events: rows,
        segments: Cow::Owned(memory.segments),
        blocks: Cow::Owned(memory.blocks),
        histories: Cow::Owned(memory.histories),
    })
}

/// Segments and blocks made from a reconstructed state.
struct Memory<'h, 'a> {
    history: &'h History<'a>,
    schema: &'a Schema,
    segments: Vec<Segment>,
    blocks: Vec<Block>,
    histories: Vec<BlockHistory>,
}

impl<'h, 'a> Memory<'h, 'a> {
    fn new(history: &'h History<'a>) -> Self {
        let (segments, blocks, histories) = Default::default();
        Self { history, schema: &history.snapshot.schema, segments, blocks, histories }
    }

    /// Adds a mapped range; `None` when its blocks do not lie one behind the other in it.
    fn add(&mut self, state: &State, range: &StateRange) -> Option<()> {
        let start = self.blocks.len();
        let mut next = range.addr;
        for live in state.blocks_of(range) {
            self.free(next, live.addr.checked_sub(next)?);
            self.live(live);
            next = live.end();
        }
        let end = range.addr.checked_add(range.bytes)?;
        self.free(next, end.checked_sub(next)?);
        let blocks = &self.blocks[start..];
        let sum = |key, of: fn(&Block) -> u64| self.schema.segment.has(key).then(|| blocks.iter().map(of).sum());
        let segment = Segment {
            device: self.history.device.ordinal,
            address: range.addr,
            total_size: range.bytes,
            allocated_size: sum("allocated_size", |block| match block.state {
                BlockState::Allocated => block.size,
                _ => 0,
            }),
            active_size: sum("active_size", |block| if block.is_active() { block.size } else { 0 }),
            requested_size: sum("requested_size", |block| block.requested),
            stream: range.range.stream,
            kind: range.range.kind,
            pool: range.range.pool,
            expandable: range.range.expandable,
            stack: range.range.stack,
            forward: StackId::NONE,
            blocks: start..self.blocks.len(),
        };
        self.segments.push(segment);
        Some(())
    }

    fn free(&mut self, address: u64, size: u64) {
        if size > 0 {
            self.blocks.push(Block {
                address,
                size,
                requested: 0,
                stated: 0,
                state: BlockState::Inactive,
                stack: StackId::EMPTY,
                forward: StackId::NONE,
                history: HistoryRows::default(),
            });
        }
    }

    fn live(&mut self, live: &LiveBlock) {
        let mut rows = HistoryRows::default();
        if self.schema.block.has("history") {
            rows = HistoryRows { first: self.histories.len() as u32, len: 1 };
            self.histories.push(BlockHistory { addr: live.addr, real_size: live.requested, stack: live.stack });
        }
        let allocated = self.history.lives.alloc_event(live.life).map(|event| self.history.row(event));
        self.blocks.push(Block {
            address: live.addr,
            size: live.bytes,
            requested: live.requested,
            stated: live.requested,
            state: if live.is_pending { BlockState::Pending } else { BlockState::Allocated },
            stack: live.stack,
            forward: allocated.map_or(StackId::NONE, |row| self.history.snapshot.events.forward.get(row)),
            history: rows,
        });
    }
}
