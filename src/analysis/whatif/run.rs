//! One replay under one setting, and what is counted of it.

use serde::Serialize;

use super::recording::Recorded;
use crate::allocator::{
    Action, AllocatorRules, BlockStatus, MallocError, Replay, RestoreError, SegmentState, Simulator, SimulatorConfig,
    Step, StepKind,
};
use crate::analysis::totals::Totals;

/// A recorded address that no block has: for the request that failed in the record.
const NOWHERE: u64 = u64::MAX;

/// What a replay came to. Sizes in bytes, all of it from the start of the trace to [`Figures::replayed_to`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Highest sum of blocks owned by tensors.
    pub peak_allocated: u64,
    /// Highest sum of segments and mapped memory.
    pub peak_reserved: u64,
    /// The memory where the replay stops: at the recorded failure with the block that was asked for, if it is served.
    pub end: Totals,
    /// Calls of `cudaMalloc` that succeed.
    pub segment_allocs: u64,
    /// Calls of `cudaFree`.
    pub segment_frees: u64,
    /// Times that memory is mapped into an expandable segment.
    pub segment_maps: u64,
    /// Times that it is unmapped.
    pub segment_unmaps: u64,
    /// Requests that were tried again after a flush.
    pub retries: u64,
    /// Waits for the whole device, one for each full flush.
    pub flushes: u64,
    /// Requests that fail.
    pub ooms: Vec<OomFigure>,
    /// Whether the request that failed in the record is served; `None` without a recorded failure, or if the replay does
    /// not come to it.
    pub avoids_recorded_oom: Option<bool>,
    /// Number of the last event that was replayed.
    pub replayed_to: u32,
}

/// A request that fails in a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OomFigure {
    /// Its event number.
    pub event: u32,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes that the device has free then; `None` if it was not the device that failed.
    pub device_free: Option<u64>,
    /// Whether the same request failed in the record.
    pub recorded: bool,
    /// Why, where the device is not the reason.
    pub why: Option<String>,
}

impl Figures {
    /// Whether every request up to the horizon is served that was served in the record, and the recorded failure too.
    pub fn runs_through(&self) -> bool {
        self.avoids_recorded_oom != Some(false) && self.ooms.iter().all(|oom| oom.recorded)
    }

    /// Counts what happened so far.
    pub fn of(simulator: &Simulator, initial_segments: u64) -> Self {
        let stats = simulator.stats();
        let segment_allocs = stats.segment.all.allocated.saturating_sub(initial_segments);
        let segment_frees = stats.segment.all.freed;
        Self {
            peak_allocated: stats.allocated_bytes.all.peak,
            peak_reserved: stats.reserved_bytes.all.peak,
            end: totals(&simulator.segments(), simulator.rules()),
            segment_allocs,
            segment_frees,
            segment_maps: stats.num_device_alloc.saturating_sub(segment_allocs),
            segment_unmaps: stats.num_device_free.saturating_sub(segment_frees),
            retries: stats.num_alloc_retries,
            flushes: stats.num_sync_all_streams,
            ooms: Vec::new(),
            avoids_recorded_oom: None,
            replayed_to: 0,
        }
    }
}

/// The end of what is replayed: the entry of the recorded failure, or the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// Index in the trace.
    pub record: usize,
    /// Whether a recorded failure is there.
    pub is_oom: bool,
}

impl Recorded {
    /// Number of `cudaMalloc`ed segments at the start.
    pub fn initial_segments(&self) -> u64 {
        self.segments.iter().filter(|segment| !segment.expandable).count() as u64
    }

    /// Event number of an entry of the trace.
    pub fn event(&self, record: usize) -> u32 {
        self.events.get(record).or(self.events.last()).copied().unwrap_or(0)
    }

    /// Does `steps` up to `horizon` under `config`. A request that fails although it was served in the record ends the
    /// replay, because the recorded program did not go on from there.
    pub fn replay(&self, steps: &[Step], horizon: Horizon, config: SimulatorConfig) -> Result<Figures, RestoreError> {
        let mut replay = Replay::new(&self.recording(0), config)?;
        let (mut ooms, mut avoids, mut last) = (Vec::new(), None, 0);
        for step in steps.iter().take_while(|step| step.record <= horizon.record) {
            let (step, failed_before, is_target) = wanted(step, horizon);
            last = last.max(step.record);
            let seen = replay.outcome().failures.len();
            replay.apply(&step);
            let failure = replay.outcome().failures.get(seen).filter(|failure| failure.error != MallocError::Empty);
            if is_target {
                avoids = Some(failure.is_none());
            }
            if let Some(failure) = failure {
                ooms.push(self.oom(&step, &failure.error, failed_before));
                if !failed_before || is_target {
                    break;
                }
            }
        }
        let replayed_to = self.event(last);
        let figures = Figures::of(replay.simulator(), self.initial_segments());
        Ok(Figures { ooms, avoids_recorded_oom: avoids, replayed_to, ..figures })
    }

    fn oom(&self, step: &Step, error: &MallocError, recorded: bool) -> OomFigure {
        let requested = if let StepKind::Malloc { size, .. } = step.kind { size } else { 0 };
        let (device_free, why) = match error {
            MallocError::OutOfMemory(report) => (Some(report.device_free), None),
            other => (None, Some(other.to_string())),
        };
        OomFigure { event: self.event(step.record), requested, device_free, recorded, why }
    }

    /// The failed requests among the first `entries` entries of the trace.
    pub fn recorded_ooms(&self, entries: usize) -> Vec<OomFigure> {
        let found = self.trace.iter().zip(&self.events).take(entries).filter(|(entry, _)| entry.action == Action::Oom);
        found
            .map(|(entry, event)| OomFigure {
                event: *event,
                requested: entry.size,
                device_free: Some(entry.addr),
                recorded: true,
                why: None,
            })
            .collect()
    }
}

/// The step as it is done here, whether it failed in the record, and whether it is the failure to be avoided. That one's
/// block is kept where it is served: the question is what is reserved with it.
fn wanted(step: &Step, horizon: Horizon) -> (Step, bool, bool) {
    let StepKind::Malloc { addr: None, size, stream, pool } = step.kind else { return (*step, false, false) };
    if !horizon.is_oom || step.record != horizon.record {
        return (*step, true, false);
    }
    let kind = StepKind::Malloc { addr: Some(NOWHERE), size, stream, pool };
    (Step { kind, ..*step }, true, true)
}

/// The parts of the reserved memory, by the definitions of [`Totals`].
pub fn totals(segments: &[SegmentState], rules: &AllocatorRules) -> Totals {
    let mut totals = Totals::default();
    let (mut rounding, mut free, mut releasable, mut idle, mut stranded, mut largest) = (0, 0, 0, 0, 0, 0);
    for segment in segments {
        totals.reserved += segment.total_size;
        totals.allocated += segment.allocated_size;
        totals.pending += segment.active_size - segment.allocated_size;
        totals.active += segment.active_size;
        totals.requested = totals.requested.saturating_add(segment.requested_size);
        rounding += segment.active_size.saturating_sub(segment.requested_size);
        let granule = rules.granule(segment.segment_type).max(1);
        for hole in segment.blocks.iter().filter(|block| block.state == BlockStatus::Inactive) {
            free += hole.size;
            largest = largest.max(hole.size);
            if segment.segment_pool_id.is_private() {
                idle += hole.size;
            } else if segment.is_expandable {
                let start = hole.address - segment.address;
                let end = (start + hole.size) / granule * granule;
                let whole = end.saturating_sub(start.div_ceil(granule) * granule);
                releasable += whole;
                stranded += hole.size - whole;
            } else if hole.size == segment.total_size {
                releasable += hole.size;
            } else {
                stranded += hole.size;
            }
        }
    }
    totals.rounding = Some(rounding);
    totals.free = Some(free);
    totals.releasable = Some(releasable);
    totals.pool_idle = Some(idle);
    totals.stranded = Some(stranded);
    totals.largest_free = Some(largest);
    totals
}
