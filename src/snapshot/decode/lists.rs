//! Lists become stacks by content, or ranges of rows.

use super::builder::{SnapshotBuilder, row_number};
use super::shape::Shape;
use super::slots::{DictSlot, ListSlot};
use super::word::{Item, Word};
use crate::pickle::BuildError;
use crate::snapshot::ids::{FrameId, StackId};
use crate::snapshot::intern::Frame;

impl SnapshotBuilder {
    /// Appends `items` to the rows `known` of a list, if they are the rows that follow.
    pub(super) fn extend_rows(
        &mut self,
        known: Option<(Shape, u32)>,
        items: &[Word],
    ) -> Result<Option<ListSlot>, BuildError> {
        let mut range = known.map(|(shape, at)| (shape, self.ranges[at as usize].clone()));
        for item in items {
            let Item::Dict(dict) = item.item() else { return Ok(None) };
            let (shape, row) = match self.dicts.get(dict) {
                DictSlot::Row(shape, row) => (shape, row),
                _ => match self.sealed(dict)? {
                    Some(sealed) => sealed,
                    None => return Ok(None),
                },
            };
            match &mut range {
                Some((same, rows)) if *same == shape && rows.end == row => rows.end += 1,
                // Frames make a stack, which is sealed when it is used if it grows item by item.
                None if shape != Shape::Frame => range = Some((shape, row..row + 1)),
                _ => return Ok(None),
            }
        }
        let Some((shape, rows)) = range else { return Ok(None) };
        let at = match known {
            Some((_, at)) => {
                self.ranges[at as usize] = rows;
                at
            }
            None => {
                let at = row_number(self.ranges.len(), "lists")?;
                self.ranges.push(rows);
                at
            }
        };
        Ok(Some(ListSlot::Rows(shape, at)))
    }

    /// `items` as a stack, if every one is a frame or a line of text.
    pub(super) fn collect_stack(&mut self, items: &[Word]) -> Result<bool, BuildError> {
        for item in items {
            let frame = match item.item() {
                Item::Dict(dict) => match self.dicts.get(dict) {
                    DictSlot::Row(Shape::Frame, row) => row,
                    _ => match self.sealed(dict)? {
                        Some((Shape::Frame, row)) => row,
                        _ => return Ok(false),
                    },
                },
                Item::Text(name) => self.frames.intern(Frame { name, ..Frame::default() })?,
                _ => return Ok(false),
            };
            self.scratch.push(FrameId(frame));
        }
        Ok(true)
    }

    /// The stack that list number `list` is; the empty one when it is something else.
    pub(super) fn stack_of(&mut self, list: u32) -> Result<StackId, BuildError> {
        let kept = match self.lists.get(list) {
            ListSlot::Fresh | ListSlot::Rows(..) => return Ok(StackId::EMPTY),
            ListSlot::Stack(stack) | ListSlot::Sealed(stack) => return Ok(stack),
            ListSlot::Items(kept) => kept,
        };
        let items = std::mem::take(&mut self.items_of[kept as usize]);
        self.kept_words -= items.len();
        self.scratch.clear();
        let stack = if self.collect_stack(&items)? { self.stacks.intern(&self.scratch)? } else { StackId::EMPTY };
        self.lists.set(list, ListSlot::Sealed(stack));
        Ok(stack)
    }

    /// Falls back to keeping the items of a list as they came.
    pub(super) fn keep_items(&mut self, slot: ListSlot, more: &[Word]) -> Result<ListSlot, BuildError> {
        let mut items: Vec<Word> = match slot {
            ListSlot::Fresh => Vec::new(),
            ListSlot::Sealed(_) => return Ok(slot),
            ListSlot::Items(kept) => {
                self.items_of[kept as usize].extend_from_slice(more);
                self.kept_words += more.len();
                return Ok(slot);
            }
            ListSlot::Rows(shape, at) => {
                let rows = self.ranges[at as usize].clone();
                let first = row_number(self.dicts.len(), "dicts")?;
                rows.clone().for_each(|row| self.dicts.push(DictSlot::Row(shape, row)));
                (first..first + rows.len() as u32).map(|dict| Word::new(Item::Dict(dict))).collect()
            }
            ListSlot::Stack(stack) => {
                let first = row_number(self.dicts.len(), "dicts")?;
                let frames = self.stacks.get(stack);
                frames.iter().for_each(|frame| self.dicts.push(DictSlot::Row(Shape::Frame, frame.0)));
                (first..first + frames.len() as u32).map(|dict| Word::new(Item::Dict(dict))).collect()
            }
        };
        items.extend_from_slice(more);
        let kept = row_number(self.items_of.len(), "lists")?;
        self.kept_words += items.len();
        self.items_of.push(items);
        Ok(ListSlot::Items(kept))
    }
}
