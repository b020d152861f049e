//! The replay under the recorded settings: which release fits, whether every entry comes out as recorded.

use serde::Serialize;

use super::cause::{cause, describe};
use super::recording::Recorded;
use super::run::{Figures, Horizon};
use crate::allocator::{
    AllocatorRules, Behaviour, BlockStatus, Divergence, Fidelity, Limits, OomStyle, RestoreError, SegmentState,
    SimulatorConfig, Step, TieBreak, TorchVersion,
};
use crate::history::History;
use crate::snapshot::BlockState;

/// The first release whose snapshots have a trace, and with it the oldest that is tried.
const OLDEST: TorchVersion = TorchVersion::new(2, 0);

/// Where a replay under the recorded settings leaves the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DivergenceText {
    /// Event number.
    pub event: u32,
    /// What the record has there.
    pub expected: String,
    /// What the simulator has there.
    pub got: String,
    /// The likely reason.
    pub likely_cause: String,
}

/// The device of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes that PyTorch could have of the device.
    pub capacity: Option<u64>,
    /// Limit of the memory fraction in bytes.
    pub allowed: Option<u64>,
}

impl Room {
    /// What the failed requests show. Of a limit's bounds the lower one is taken, which is known to be allowed.
    pub fn of(limits: &Limits) -> Self {
        Self { capacity: limits.capacity, allowed: limits.allowed.map(|(least, _)| least) }
    }

    /// A simulator's device. `total` only decides how much address space is reserved.
    pub fn config(self, rules: &AllocatorRules, version: TorchVersion, total: u64) -> SimulatorConfig {
        // A fraction in the settings is of a total that the file does not have; only the limit itself is of use.
        let rules = AllocatorRules { memory_fraction: None, ..rules.clone() };
        SimulatorConfig {
            behaviour: Behaviour::of(version),
            capacity: self.capacity.unwrap_or(UNLIMITED),
            allowed: self.allowed,
            ..SimulatorConfig::new(rules, total)
        }
    }
}

/// Totals to try, as percentages of what PyTorch could have. The file does not tell the total, but the address space that
/// an expandable segment reserves follows from it, and how much of that is left decides between free blocks.
const TOTALS: [u64; 4] = [100, 125, 150, 200];

/// More than any device has.
pub const UNLIMITED: u64 = 1 << 56;

/// The replay under the recorded settings.
pub struct Baseline {
    /// The release that was simulated.
    pub version: TorchVersion,
    /// Bytes that the device was taken to have in all.
    pub total: u64,
    /// What the program did.
    pub steps: Vec<Step>,
    /// The first difference.
    pub divergence: Option<DivergenceText>,
    /// Whether there is none up to the horizon.
    pub is_exact_to_horizon: bool,
    /// Counted up to the horizon.
    pub figures: Figures,
}

/// A replay of the whole trace under one release.
struct Attempt {
    /// Entry of the trace up to which it is exact.
    reached: usize,
    version: TorchVersion,
    total: u64,
    fidelity: Fidelity,
    divergence: Option<DivergenceText>,
}

/// The releases to try, the newest first, without those that behave like one before.
pub fn candidates(at_least: Option<TorchVersion>, below: Option<TorchVersion>) -> Vec<TorchVersion> {
    let low = at_least.unwrap_or(OLDEST).max(OLDEST);
    let newest = TorchVersion::NEWEST;
    let mut all = Vec::new();
    let mut seen: Vec<Behaviour> = Vec::new();
    for minor in (low.minor..=newest.minor).rev() {
        let version = TorchVersion::new(2, minor);
        if below.is_some_and(|below| version >= below) {
            continue;
        }
        // The wording of messages does not matter here, nor do counters.
        let behaviour = Behaviour { oom_style: OomStyle::of(newest), device_counters: true, ..Behaviour::of(version) };
        if !seen.contains(&behaviour) {
            seen.push(behaviour);
            all.push(version);
        }
    }
    if all.is_empty() {
        all.push(low.min(newest));
    }
    all
}

/// Replays the record under each of `versions` until one is exact, else keeps the one that goes furthest.
pub fn baseline(
    history: &History,
    recorded: &Recorded,
    versions: &[TorchVersion],
    room: Room,
    horizon: Horizon,
) -> Result<Option<Baseline>, RestoreError> {
    let whole = recorded.recording(recorded.trace.len());
    let least = room.capacity.unwrap_or(0).max(recorded.peak_reserved).max(room.allowed.unwrap_or(0));
    let totals: &[u64] = if recorded.has_expandable() { &TOTALS } else { &TOTALS[..1] };
    let tries = totals.iter().flat_map(|percent| {
        let total = (u128::from(least) * u128::from(*percent) / 100).min(UNLIMITED.into()) as u64;
        versions.iter().map(move |version| (*version, total))
    });
    let mut best: Option<Attempt> = None;
    for (version, total) in tries {
        let fidelity = Fidelity::check(&whole, room.config(&recorded.rules, version, total))?;
        let (reached, divergence) = match &fidelity.divergence {
            Some(divergence) => (divergence.record, Some(text(history, recorded, version, divergence))),
            None => (recorded.trace.len(), final_difference(history, recorded, version, &fidelity)),
        };
        let is_exact = divergence.is_none();
        if best.as_ref().is_none_or(|best| reached > best.reached || is_exact) {
            best = Some(Attempt { reached, version, total, fidelity, divergence });
        }
        if is_exact {
            break;
        }
    }
    let Some(Attempt { reached, version, total, fidelity, divergence }) = best else { return Ok(None) };
    let entries = horizon.record + 1;
    let config = room.config(&recorded.rules, version, total);
    let part;
    let simulator = if entries < recorded.trace.len() {
        part = Fidelity::check(&recorded.recording(entries), config)?;
        part.replay.simulator()
    } else {
        fidelity.replay.simulator()
    };
    let figures = Figures {
        ooms: recorded.recorded_ooms(entries),
        avoids_recorded_oom: horizon.is_oom.then_some(false),
        replayed_to: recorded.event(horizon.record),
        ..Figures::of(simulator, recorded.initial_segments())
    };
    Ok(Some(Baseline {
        version,
        total,
        is_exact_to_horizon: divergence.is_none() || reached > horizon.record,
        steps: fidelity.steps,
        divergence,
        figures,
    }))
}

fn text(history: &History, recorded: &Recorded, version: TorchVersion, divergence: &Divergence) -> DivergenceText {
    DivergenceText {
        event: recorded.event(divergence.record),
        expected: divergence.recorded.as_ref().map_or_else(|| "nothing".to_owned(), describe),
        got: divergence.simulated.as_ref().map_or_else(|| "nothing".to_owned(), describe),
        likely_cause: cause(history, recorded, version, divergence),
    }
}

/// Compares the simulated end with the segments of the file.
fn final_difference(
    history: &History,
    recorded: &Recorded,
    version: TorchVersion,
    fidelity: &Fidelity,
) -> Option<DivergenceText> {
    let ours = layout(&fidelity.replay.simulator().segments());
    let snapshot = history.snapshot;
    let mut theirs = Vec::new();
    for segment in snapshot.segments_of(history.device) {
        theirs.push((segment.address, segment.total_size, None));
        for block in snapshot.blocks_of(segment) {
            let status = match block.state {
                BlockState::Allocated => BlockStatus::ActiveAllocated,
                BlockState::Pending => BlockStatus::ActivePendingFree,
                BlockState::Inactive => BlockStatus::Inactive,
            };
            theirs.push((block.address, block.size, Some(status)));
        }
    }
    if ours == theirs {
        return None;
    }
    let at = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
    let shown = |row: Option<&Row>| match row {
        Some((addr, size, None)) => format!("a segment of {size} B at {addr:#x}"),
        Some((addr, size, Some(status))) => format!("a block of {size} B at {addr:#x}, {}", status_name(*status)),
        None => "nothing more".to_owned(),
    };
    let old = Behaviour::of(version).tie_break == TieBreak::Address && recorded.has_private_pools;
    Some(DivergenceText {
        event: history.events(),
        expected: shown(theirs.get(at)),
        got: shown(ours.get(at)),
        likely_cause: match old {
            true => "the file names no pools in its trace, and private pools were in use".to_owned(),
            false if ours.len() > theirs.len() => "the file lists only some of the segments".to_owned(),
            false => "the final state holds something that the trace does not explain".to_owned(),
        },
    })
}

/// Address, bytes, and what a block does; segments come before their blocks.
type Row = (u64, u64, Option<BlockStatus>);

fn layout(segments: &[SegmentState]) -> Vec<Row> {
    let rows = segments.iter().flat_map(|segment| {
        let blocks = segment.blocks.iter().map(|block| (block.address, block.size, Some(block.state)));
        std::iter::once((segment.address, segment.total_size, None)).chain(blocks)
    });
    rows.collect()
}

fn status_name(status: BlockStatus) -> &'static str {
    match status {
        BlockStatus::ActiveAllocated => "live",
        BlockStatus::ActivePendingFree => "waiting for a stream",
        BlockStatus::Inactive => "free",
    }
}
