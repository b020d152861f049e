//! A device's part of a snapshot as a program that the simulator can run again.

use crate::allocator::{
    Action, AllocatorRules, BlockStatus, InitialBlock, InitialSegment, MempoolId, Recording, TraceEvent,
};
use crate::history::{History, State, StateRange};
use crate::snapshot::{self, PoolId, StreamId};

/// The start state and the trace, in the simulator's words.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Segments when the trace begins, by address.
    pub segments: Vec<InitialSegment>,
    /// The trace, without entries that the allocator did not write.
    pub trace: Vec<TraceEvent>,
    /// Event number of each entry of the trace.
    pub events: Vec<u32>,
    /// The settings of the record; what the file does not state follows from its events.
    pub rules: AllocatorRules,
    /// Highest number of bytes ever reserved.
    pub peak_reserved: u64,
    /// Largest request in bytes.
    pub largest_request: u64,
    /// Whether requests were served from private pools.
    pub has_private_pools: bool,
}

impl Recorded {
    /// Takes a device's past apart.
    pub fn new(history: &History) -> Self {
        let start = history.state(0);
        let segments = start.ranges.iter().map(|range| initial(history, &start, range)).collect();
        let (trace, events) = trace(history);
        let mut recorded = Self {
            segments,
            trace,
            events,
            rules: history.rules.clone(),
            peak_reserved: 0,
            largest_request: 0,
            has_private_pools: false,
        };
        recorded.measure();
        if !history.snapshot.settings.recorded {
            recorded.rules.expandable |= recorded.is_expandable();
        }
        recorded
    }

    /// As the simulator wants it, with the first `entries` entries of the trace.
    pub fn recording(&self, entries: usize) -> Recording<'_> {
        let trace = self.trace.get(..entries).unwrap_or(&self.trace);
        Recording { segments: &self.segments, bases: &[], pools: &[], trace }
    }

    fn measure(&mut self) {
        let mut reserved = self.segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.size));
        self.peak_reserved = reserved;
        self.has_private_pools = self.segments.iter().any(|segment| segment.pool.is_private());
        for event in &self.trace {
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => reserved = reserved.saturating_add(event.size),
                Action::SegmentFree | Action::SegmentUnmap => reserved = reserved.saturating_sub(event.size),
                Action::Alloc | Action::Oom => self.largest_request = self.largest_request.max(event.size),
                _ => {}
            }
            self.peak_reserved = self.peak_reserved.max(reserved);
            self.has_private_pools |= event.pool.is_private();
        }
        let blocks = self.segments.iter().flat_map(|segment| &segment.blocks);
        let live = blocks.filter(|block| block.status != BlockStatus::Inactive).map(|block| block.size).max();
        self.largest_request = self.largest_request.max(live.unwrap_or(0));
    }

    /// The largest segment in bytes that the program has at the start or, under `rules`, asks for.
    pub fn largest_segment(&self, rules: &AllocatorRules) -> u64 {
        let needed = rules.segment_size(rules.round_size(self.largest_request));
        self.segments.iter().map(|segment| segment.size).max().unwrap_or(0).max(needed)
    }

    /// Whether any memory is expandable.
    pub fn has_expandable(&self) -> bool {
        let mapped = self.trace.iter().any(|event| event.action == Action::SegmentMap);
        mapped || self.segments.iter().any(|segment| segment.expandable)
    }

    /// Whether new memory is mapped, as far as the trace or else the start tells.
    fn is_expandable(&self) -> bool {
        let grown = |action| self.trace.iter().any(|event| event.action == action);
        if grown(Action::SegmentAlloc) {
            return false;
        }
        grown(Action::SegmentMap) || self.segments.iter().any(|segment| segment.expandable)
    }
}

fn initial(history: &History, state: &State, range: &StateRange) -> InitialSegment {
    let live = state.blocks_of(range).iter().map(|block| InitialBlock {
        address: block.addr,
        size: block.bytes,
        requested: block.requested,
        status: if block.is_pending { BlockStatus::ActivePendingFree } else { BlockStatus::ActiveAllocated },
    });
    let free = state.holes_of(range).map(|hole| InitialBlock {
        address: hole.addr,
        size: hole.bytes,
        requested: 0,
        status: BlockStatus::Inactive,
    });
    let mut blocks: Vec<InitialBlock> = live.chain(free).collect();
    blocks.sort_unstable_by_key(|block| block.address);
    InitialSegment {
        address: range.addr,
        size: range.bytes,
        stream: stream(history, range.range.stream),
        kind: range.range.kind,
        pool: pool(history, range.range.pool),
        expandable: range.range.expandable,
        blocks,
    }
}

fn trace(history: &History) -> (Vec<TraceEvent>, Vec<u32>) {
    let columns = &history.snapshot.events;
    let pools = history.pools();
    let (mut trace, mut events) = (Vec::with_capacity(pools.len()), Vec::with_capacity(pools.len()));
    for (event, id) in (0..history.events()).zip(pools) {
        let row = history.row(event);
        let mut push = |action| {
            trace.push(TraceEvent {
                action,
                addr: columns.addr[row],
                size: columns.size[row],
                stream: stream(history, columns.stream[row]),
                pool: pool(history, id),
            });
            events.push(event);
        };
        match columns.action[row] {
            snapshot::Action::Alloc => push(Action::Alloc),
            snapshot::Action::FreeRequested => push(Action::FreeRequested),
            snapshot::Action::FreeCompleted => push(Action::FreeCompleted),
            snapshot::Action::Free => {
                push(Action::FreeRequested);
                push(Action::FreeCompleted);
            }
            snapshot::Action::SegmentAlloc => push(Action::SegmentAlloc),
            snapshot::Action::SegmentFree => push(Action::SegmentFree),
            snapshot::Action::SegmentMap => push(Action::SegmentMap),
            snapshot::Action::SegmentUnmap => push(Action::SegmentUnmap),
            snapshot::Action::Oom => push(Action::Oom),
            snapshot::Action::Snapshot | snapshot::Action::Annotate | snapshot::Action::Other => {}
        }
    }
    (trace, events)
}

fn stream(history: &History, id: StreamId) -> u64 {
    history.snapshot.streams.get(id.index()).copied().unwrap_or(0)
}

fn pool(history: &History, id: PoolId) -> MempoolId {
    history.snapshot.pools.get(id.index()).map_or(MempoolId::DEFAULT, |pool| MempoolId(pool.0, pool.1))
}
