//! Dicts become rows: their keys say of which table.

use super::builder::{Annotation, RawSegment, Shape, SnapshotBuilder, row_number};
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
        const TOTAL: u32 = 2;
        const STATE: u32 = 4;
        const SIZE: u32 = 8;
        const NAME: u32 = 16;
        const FILENAME: u32 = 32;
        const REAL: u32 = 64;
        const STAGE: u32 = 128;
        const LINE: u32 = 256;
        let mut found = 0;
        for pair in pairs.chunks_exact(2) {
            let Item::Text(key) = pair[0].item() else { continue };
            found |= match key.0 {
                keys::ACTION => return Some(Shape::Event),
                keys::TOTAL_SIZE => TOTAL,
                keys::STATE => STATE,
                keys::SIZE => SIZE,
                keys::NAME => NAME,
                keys::FILENAME => FILENAME,
                keys::LINE => LINE,
                keys::REAL_SIZE => REAL,
                keys::STAGE => STAGE,
                _ => 0,
            };
        }
        let has = |bits| found & bits == bits;
        if has(NAME | FILENAME | LINE) {
            Some(Shape::Frame)
        } else if has(STATE | SIZE) {
            Some(Shape::Block)
        } else if has(TOTAL) {
            Some(Shape::Segment)
        } else if has(REAL) {
            Some(Shape::History)
        } else if has(STAGE | NAME) {
            Some(Shape::Annotation)
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
        let slot = self.new_row(shape, &pairs)?;
        self.dicts.set(dict, slot);
        let DictSlot::Row(shape, row) = slot else { return Ok(None) };
        Ok(Some((shape, row)))
    }
}
