//! What the tables cost.

use std::ops::Range;

use super::builder::{Annotation, RawSegment, SnapshotBuilder};
use super::word::{Wide, Word};
use crate::snapshot::ids::{FrameId, StrId};
use crate::snapshot::schema::{BlockHistory, Fx};
use crate::snapshot::segments::Block;

impl SnapshotBuilder {
    /// Bytes of memory that the tables take.
    pub(in crate::snapshot) fn kept(&self) -> usize {
        let interned = self.strings.kept()
            + self.frames.kept()
            + self.stacks.kept()
            + self.streams.kept()
            + self.pools.kept()
            + self.pairs.kept();
        let rows = self.events.kept()
            + self.blocks.capacity() * size_of::<Block>()
            + self.segments.capacity() * size_of::<RawSegment>()
            + self.extras.histories.capacity() * size_of::<BlockHistory>()
            + self.extras.annotation_pairs.capacity() * size_of::<(u32, StrId, StrId)>()
            // A tree's nodes are half full at worst.
            + 2 * self.extras.fx.len() * size_of::<(FrameId, Fx)>()
            + self.annotations.capacity() * size_of::<Annotation>()
            + self.wides.capacity() * size_of::<Wide>();
        let containers = self.dicts.kept()
            + self.lists.kept()
            + self.ranges.capacity() * size_of::<Range<u32>>()
            + (self.pairs_of.capacity() + self.items_of.capacity()) * size_of::<Vec<Word>>()
            + self.kept_words * size_of::<Word>()
            + self.scratch.capacity() * size_of::<FrameId>();
        interned + rows + containers
    }
}
