//! What is in a file.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use super::failures::{Failure, failures};
use super::totals::{Totals, totals};
use crate::history::{Health, History, Peaks};
use crate::snapshot::{BlockState, Format, Settings, Snapshot};

/// The contents of a snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Writer and releases.
    pub format: Format,
    /// Allocator settings.
    pub settings: Settings,
    /// One entry a device with memory or a trace.
    pub devices: Vec<DeviceInfo>,
    /// Devices that the process could see.
    pub visible_devices: usize,
    /// Pinned host memory, when the file has any.
    pub host: Option<HostInfo>,
    /// Starts and ends of annotated regions.
    pub annotations: usize,
}

/// One device's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceInfo {
    /// Ordinal.
    pub device: i64,
    /// Number of segments at the end.
    pub segments: usize,
    /// How many of them are expandable memory.
    pub expandable_segments: usize,
    /// Number of blocks at the end, free ones included.
    pub blocks: usize,
    /// Number of trace entries.
    pub events: u32,
    /// The memory at the end.
    pub totals: Totals,
    /// Trace entries by action.
    pub actions: BTreeMap<&'static str, u64>,
    /// Microseconds since 1970 of the first entry.
    pub first_time_us: Option<u64>,
    /// Of the last.
    pub last_time_us: Option<u64>,
    /// Share of the blocks live at the end that have a stack, 0 to 1; `None` without live blocks.
    pub blocks_with_stack: Option<f64>,
    /// Trace health.
    pub trace: Health,
    /// Peaks of the counters; `None` without history.
    pub peak: Option<Peaks>,
    /// Recorded failures.
    pub ooms: Vec<Failure>,
}

/// Pinned host memory (torch 2.14 on).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostInfo {
    /// Bytes held.
    pub reserved: u64,
    /// Bytes in use.
    pub allocated: u64,
    /// Number of blocks.
    pub blocks: usize,
    /// Number of trace entries.
    pub events: usize,
}

/// The contents of the file that `histories` were made from.
pub fn info(snapshot: &Snapshot, histories: &[History]) -> Info {
    Info {
        format: snapshot.format.clone(),
        settings: snapshot.settings.clone(),
        devices: histories.par_iter().map(device).collect(),
        visible_devices: snapshot.visible_devices,
        host: host(snapshot),
        annotations: snapshot.annotations.len(),
    }
}

fn device(history: &History) -> DeviceInfo {
    let snapshot = history.snapshot;
    let segments = snapshot.segments_of(history.device);
    let mut actions = BTreeMap::new();
    for action in &snapshot.events.action[history.device.events.clone()] {
        *actions.entry(action.name()).or_default() += 1;
    }
    let blocks = segments.iter().flat_map(|segment| snapshot.blocks_of(segment));
    let live = blocks.clone().filter(|block| block.is_active());
    let live_count = live.clone().count();
    let with_stack = live.filter(|block| block.stack.has_frames()).count();
    let span = history.time_span();
    DeviceInfo {
        device: history.device.ordinal,
        segments: segments.len(),
        expandable_segments: segments.iter().filter(|segment| segment.expandable).count(),
        blocks: blocks.count(),
        events: history.events(),
        totals: totals(history, &history.state(history.events())),
        actions,
        first_time_us: span.map(|(first, _)| first),
        last_time_us: span.map(|(_, last)| last),
        blocks_with_stack: (live_count > 0).then(|| with_stack as f64 / live_count as f64),
        trace: history.health.clone(),
        peak: history.peaks,
        ooms: failures(history),
    }
}

fn host(snapshot: &Snapshot) -> Option<HostInfo> {
    let host = snapshot.host.as_ref()?;
    let segments = snapshot.segments_of(host);
    let blocks = segments.iter().flat_map(|segment| snapshot.blocks_of(segment));
    let in_use = blocks.clone().filter(|block| block.state != BlockState::Inactive);
    Some(HostInfo {
        reserved: segments.iter().map(|segment| segment.total_size).sum(),
        allocated: in_use.map(|block| block.size).sum(),
        blocks: blocks.count(),
        events: host.events.len(),
    })
}
