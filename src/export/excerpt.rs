//! The part of a snapshot that is exported.

use std::borrow::Cow;
use std::ops::Range;

use crate::history::History;
use crate::snapshot::{Block, Segment, Snapshot};

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
}

impl<'a> Excerpt<'a> {
    /// Everything about the devices of `histories`.
    pub fn new(snapshot: &'a Snapshot, histories: &[History<'a>]) -> Self {
        let mut devices: Vec<_> = histories
            .iter()
            .map(|history| DeviceExcerpt {
                ordinal: history.device.ordinal,
                events: history.device.events.clone(),
                segments: Cow::Borrowed(snapshot.segments_of(history.device)),
                blocks: Cow::Borrowed(&snapshot.blocks[..]),
            })
            .collect();
        devices.sort_by_key(|device| device.ordinal);
        Self { snapshot, devices }
    }
}
