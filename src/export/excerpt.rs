//! The part of a snapshot that is exported.

use std::borrow::Cow;
use std::ops::Range;

use super::Names;
use crate::history::History;
use crate::snapshot::{Block, Device, Segment, Snapshot};

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
    /// Everything about the devices of `histories`; pinned host memory when it is all of the file's.
    pub fn new(snapshot: &'a Snapshot, histories: &[History<'a>], names: Names<'a>) -> Self {
        let whole = |device: &'a Device| DeviceExcerpt {
            ordinal: device.ordinal,
            events: device.events.clone(),
            segments: Cow::Borrowed(snapshot.segments_of(device)),
            blocks: Cow::Borrowed(&snapshot.blocks[..]),
        };
        let mut devices: Vec<_> = histories.iter().map(|history| whole(history.device)).collect();
        devices.sort_by_key(|device| device.ordinal);
        let is_all = devices.len() == snapshot.devices.len();
        let host = snapshot.host.as_ref().filter(|_| is_all).map(whole);
        Self { snapshot, devices, host, times: None, names }
    }

    /// Whether something that happened at `time_us` is in it.
    pub fn has_time(&self, time_us: u64) -> bool {
        self.times.is_none_or(|(first, last)| (first..=last).contains(&time_us))
    }
}
