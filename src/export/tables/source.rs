//! What tables are made from: a snapshot and the past of its devices.

use std::ops::Range;

use crate::analysis::sites::{By, Sites};
use crate::history::History;
use crate::snapshot::{Segment, Snapshot, StackId};

use super::record::TimeUs;

/// Everything that the tables of one file are made from.
pub struct Source<'a> {
    /// The file.
    pub(super) snapshot: &'a Snapshot,
    /// The past of each device, by ordinal.
    pub(super) histories: Vec<&'a History<'a>>,
    /// Devices whose segments and events are in the tables.
    pub(super) parts: Vec<Part<'a>>,
    /// Code by line.
    pub(super) sites: Sites<'a>,
    /// The name of the site of each slot.
    pub(super) names: Vec<String>,
}

/// One device's rows.
pub(super) struct Part<'a> {
    pub(super) device: i64,
    /// `None` for pinned host memory.
    pub(super) history: Option<&'a History<'a>>,
    pub(super) segments: Range<usize>,
    pub(super) events: Range<usize>,
}

impl<'a> Source<'a> {
    /// The tables of `snapshot` for the devices of `histories`. Pinned host memory is among the segments, blocks and
    /// events as device −1 when no device was left out.
    pub fn new(snapshot: &'a Snapshot, histories: &'a [History<'a>]) -> Self {
        let mut histories: Vec<&History> = histories.iter().collect();
        histories.sort_by_key(|history| history.device.ordinal);
        let host = snapshot.host.as_ref().filter(|_| histories.len() == snapshot.devices.len());
        let part = |device: &crate::snapshot::Device, history| Part {
            device: device.ordinal,
            history,
            segments: device.segments.clone(),
            events: device.events.clone(),
        };
        let mut parts: Vec<Part> = histories.iter().map(|&history| part(history.device, Some(history))).collect();
        parts.extend(host.map(|device| part(device, None)));
        let sites = Sites::new(snapshot, By::Line);
        let names = (0..sites.slots()).map(|slot| sites.name(sites.of_slot(slot)).into_owned()).collect();
        Self { snapshot, histories, parts, sites, names }
    }

    /// The segments of all devices: number, part, and the segment.
    pub(super) fn segments(&self) -> impl Iterator<Item = (usize, &Part<'a>, &'a Segment)> + '_ {
        let numbers = self.parts.iter().flat_map(|part| part.segments.clone().map(move |number| (number, part)));
        numbers.map(|(number, part)| (number, part, &self.snapshot.segments[number]))
    }

    /// The private pool of `id`, as two numbers; `None` for the default pool.
    pub(super) fn pool(&self, id: crate::snapshot::PoolId) -> Option<(u64, u64)> {
        (id != crate::snapshot::PoolId::DEFAULT).then(|| self.snapshot.pools[id.index()])
    }
}

/// The number of `stack` in the table of stacks; `None` without frames.
pub(super) fn stack_number(stack: StackId) -> Option<u64> {
    stack.has_frames().then_some(u64::from(stack.0))
}

/// A time of the file that may not be recorded.
pub(super) fn time(micros: Option<u64>) -> Option<TimeUs> {
    micros.and_then(TimeUs::new)
}
