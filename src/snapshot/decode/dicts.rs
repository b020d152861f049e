//! Dicts become rows: their keys say of which table.

use super::builder::{Annotation, RawSegment, SnapshotBuilder, row_number};
use super::shape::Shape;
use super::slots::DictSlot;
use super::word::{Item, Word};
use crate::pickle::BuildError;
use crate::snapshot::events::Event;
use crate::snapshot::ids::{FrameId, StackId, StrId};
use crate::snapshot::intern::Frame;
use crate::snapshot::keys;
use crate::snapshot::schema::BlockHistory;

impl SnapshotBuilder {
    /// The shape that `pairs` make a dict, if any.
    #[inline]
    pub(super) fn shape(pairs: &[Word]) -> Option<Shape> {
        Self::shape_of_keys(pairs.iter().step_by(2))
    }

    /// The shape that these keys make a dict, if any.
    #[inline]
    pub(super) fn shape_of_keys<'a>(keys: impl Iterator<Item = &'a Word>) -> Option<Shape> {
        const fn bits<const N: usize>(keys: [u32; N]) -> u64 {
            let (mut bits, mut at) = (0, 0);
            while at < N {
                bits |= 1 << keys[at];
                at += 1;
            }
            bits
        }
        let mut found = 0;
        for key in keys {
            if let Item::Text(key) = key.item()
                && key.0 < keys::COUNT
            {
                found |= 1 << key.0;
            }
        }
        let has = |bits: u64| found & bits == bits;
        // An annotation carries the program's own keys as well, whatever they are called.
        if has(const { bits([keys::STAGE, keys::NAME]) }) {
            Some(Shape::Annotation)
        } else if has(const { bits([keys::ACTION]) }) {
            Some(Shape::Event)
        } else if has(const { bits([keys::NAME, keys::FILENAME, keys::LINE]) }) {
            Some(Shape::Frame)
        } else if has(const { bits([keys::STATE, keys::SIZE]) }) {
            Some(Shape::Block)
        } else if has(const { bits([keys::TOTAL_SIZE]) }) {
            Some(Shape::Segment)
        } else if has(const { bits([keys::REAL_SIZE]) }) {
            Some(Shape::History)
        } else {
            None
        }
    }

    /// Makes a new row of `shape` from `pairs`.
    pub(super) fn new_row(&mut self, shape: Shape, pairs: &[Word]) -> Result<DictSlot, BuildError> {
        let row = match shape {
            Shape::Frame => {
                let frame = self.frame(Frame::default(), pairs);
                let row = self.frames.intern(frame)?;
                self.fx(FrameId(row), pairs);
                row
            }
            Shape::Event => {
                let mut event = Event::default();
                self.event(&mut event, pairs)?;
                self.events.push(&event);
                row_number(self.events.len() - 1, "trace entries")?
            }
            Shape::Block => {
                let block = self.block(None, pairs)?;
                self.blocks.push(block);
                row_number(self.blocks.len() - 1, "blocks")?
            }
            Shape::Segment => {
                let segment = self.segment(None, pairs)?;
                self.segments.push(segment);
                row_number(self.segments.len() - 1, "segments")?
            }
            Shape::History => {
                let empty = BlockHistory { stack: StackId::EMPTY, ..BlockHistory::default() };
                let history = self.history(empty, pairs)?;
                self.extras.histories.push(history);
                row_number(self.extras.histories.len() - 1, "history entries")?
            }
            Shape::Annotation => {
                let annotation = Annotation { name: StrId::default(), starts: false, device: 0, time_us: 0 };
                let annotation = self.annotation(annotation, pairs);
                self.annotations.push(annotation);
                let row = row_number(self.annotations.len() - 1, "annotations")?;
                self.annotation_pairs(row, pairs);
                row
            }
        };
        Ok(DictSlot::Row(shape, row))
    }

    /// Sets further items in a dict that is a row already.
    pub(super) fn update_row(&mut self, shape: Shape, row: u32, pairs: &[Word]) -> Result<DictSlot, BuildError> {
        let at = row as usize;
        match shape {
            // Frames are shared by content: a changed one is another one.
            Shape::Frame => {
                self.frames_changed = true;
                let frame = self.frame(self.frames.rows[at], pairs);
                let row = self.frames.intern(frame)?;
                self.fx(FrameId(row), pairs);
                return Ok(DictSlot::Row(shape, row));
            }
            Shape::Event => {
                let mut event = self.events.get(at);
                self.event(&mut event, pairs)?;
                self.events.set(at, &event);
            }
            Shape::Block => self.blocks[at] = self.block(Some(self.blocks[at]), pairs)?,
            Shape::Segment => {
                let existing = std::mem::replace(&mut self.segments[at], RawSegment::empty());
                self.segments[at] = self.segment(Some(existing), pairs)?;
            }
            Shape::History => self.extras.histories[at] = self.history(self.extras.histories[at], pairs)?,
            Shape::Annotation => {
                self.annotations[at] = self.annotation(self.annotations[at], pairs);
                self.annotation_pairs(row, pairs);
            }
        }
        Ok(DictSlot::Row(shape, row))
    }

    /// The row that dict number `dict` is, sealing it if its keys are complete by now.
    pub(super) fn sealed(&mut self, dict: u32) -> Result<Option<(Shape, u32)>, BuildError> {
        let slot = self.dicts.get(dict);
        if let DictSlot::Row(shape, row) = slot {
            return Ok(Some((shape, row)));
        }
        let DictSlot::Pairs(kept) = slot else { return Ok(None) };
        let Some(shape) = Self::shape(&self.pairs_of[kept as usize]) else { return Ok(None) };
        let pairs = std::mem::take(&mut self.pairs_of[kept as usize]);
        self.kept_words -= pairs.len();
        let slot = self.new_row(shape, &pairs)?;
        self.dicts.set(dict, slot);
        let DictSlot::Row(shape, row) = slot else { return Ok(None) };
        Ok(Some((shape, row)))
    }
}
