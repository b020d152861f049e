//! A memory snapshot as columns of interned values, and the loaders of every form in which snapshots exist.
//!
//! In: a file, or standard input. Out: a [`Snapshot`], with everything that looked wrong as [`Warning`]s.

mod check;
mod decode;
mod events;
mod format;
mod ids;
mod intern;
mod keys;
mod load;
mod schema;
mod segments;
mod settings;
mod warning;

use std::ops::Range;

pub use decode::Annotation;
pub use events::{Action, Column, Event, Events};
pub use format::{Format, Writer};
pub use ids::{FrameId, PoolId, StackId, StrId, StreamId};
pub use intern::{Frame, Stacks, Strings};
pub use load::{LoadError, LoadOptions, Source, is_compressed, is_pickle, load, load_bytes};
pub use schema::{BlockHistory, Extras, Fx, HistoryRows, Keys, Schema};
pub use segments::{Block, BlockState, Segment};
pub use settings::Settings;
pub use warning::Warning;

/// Everything that one file says.
pub struct Snapshot {
    /// Devices that have segments or trace entries, by ordinal.
    pub devices: Vec<Device>,
    /// Pinned host memory (torch 2.14 on), when the file has any.
    pub host: Option<Device>,
    /// Segments of all devices, by device and address; [`Device::segments`] are ranges of it.
    pub segments: Vec<Segment>,
    /// Blocks of all segments; [`Segment::blocks`] are ranges of it.
    pub blocks: Vec<Block>,
    /// Trace entries of all devices; [`Device::events`] are ranges of it.
    pub events: Events,
    /// Starts and ends of annotated regions, in the order of the file.
    pub annotations: Vec<Annotation>,
    /// The allocator's settings at the moment of the dump.
    pub settings: Settings,
    /// Which writer and releases the file fits.
    pub format: Format,
    /// Which keys the file has.
    pub schema: Schema,
    /// What it says beyond what is analysed.
    pub extras: Extras,
    /// Number of devices that the process could see, those without memory included.
    pub visible_devices: usize,
    /// What looked wrong, or could not be used.
    pub warnings: Vec<Warning>,
    /// Distinct strings.
    pub strings: Strings,
    /// Distinct frames by [`FrameId`].
    pub frames: Vec<Frame>,
    /// Distinct stacks.
    pub stacks: Stacks,
    /// Stream pointers by [`StreamId`].
    pub streams: Vec<u64>,
    /// Pool id pairs by [`PoolId`].
    pub pools: Vec<(u64, u64)>,
}

/// One device's part of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Ordinal as torch sees it; −1 for the host.
    pub ordinal: i64,
    /// Rows of [`Snapshot::segments`].
    pub segments: Range<usize>,
    /// Rows of [`Snapshot::events`], oldest first.
    pub events: Range<usize>,
    /// Whether blocks, segments and the file's own sums agree; figures that need the layout are unknown otherwise.
    pub consistent: bool,
    /// Whether the file breaks off before the end of the trace, or before its beginning: the events up to the dump are
    /// lost then.
    pub cut: bool,
}

impl Snapshot {
    /// The segments of `device`, by address.
    pub fn segments_of(&self, device: &Device) -> &[Segment] {
        &self.segments[device.segments.clone()]
    }

    /// The blocks of `segment`, by address.
    pub fn blocks_of(&self, segment: &Segment) -> &[Block] {
        &self.blocks[segment.blocks.clone()]
    }

    /// The frame of `id`.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames[id.index()]
    }

    /// The text of `id`.
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }
}
