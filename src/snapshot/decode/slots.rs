//! What is known of each dict and list, in four bytes: a file has millions of them.

use std::marker::PhantomData;

use super::shape::Shape;
use crate::snapshot::ids::{MAX_ROWS, ROW_BITS, StackId};

const SHAPES: [Shape; 6] =
    [Shape::Frame, Shape::Event, Shape::Block, Shape::Segment, Shape::History, Shape::Annotation];

/// A dict as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DictSlot {
    /// No item yet.
    Fresh,
    /// One row of the table of this shape.
    Row(Shape, u32),
    /// Kept as pairs: a row of `SnapshotBuilder::pairs_of`.
    Pairs(u32),
}

/// A list as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ListSlot {
    /// No item yet.
    Fresh,
    /// A stack, as far as it came in one batch.
    Stack(StackId),
    /// Was used as a stack: what comes later is ignored, so that a list cannot be copied again and again as it grows.
    Sealed(StackId),
    /// Consecutive rows of one table: a row of `SnapshotBuilder::ranges`.
    Rows(Shape, u32),
    /// Kept as items: a row of `SnapshotBuilder::items_of`.
    Items(u32),
}

/// Something with at most 16 variants, each with at most a row number.
pub(super) trait Slot: Copy {
    /// Tag and row.
    fn split(self) -> (u32, u32);
    /// The slot of a tag and a row.
    fn join(tag: u32, row: u32) -> Self;
}

impl Slot for DictSlot {
    #[inline]
    fn split(self) -> (u32, u32) {
        match self {
            Self::Fresh => (6, 0),
            Self::Pairs(row) => (7, row),
            Self::Row(shape, row) => (shape as u32, row),
        }
    }

    #[inline]
    fn join(tag: u32, row: u32) -> Self {
        match (tag, SHAPES.get(tag as usize)) {
            (_, Some(&shape)) => Self::Row(shape, row),
            (7, _) => Self::Pairs(row),
            _ => Self::Fresh,
        }
    }
}

impl Slot for ListSlot {
    #[inline]
    fn split(self) -> (u32, u32) {
        match self {
            Self::Fresh => (6, 0),
            Self::Items(row) => (7, row),
            Self::Stack(stack) => (8, stack.0),
            Self::Sealed(stack) => (9, stack.0),
            Self::Rows(shape, row) => (shape as u32, row),
        }
    }

    #[inline]
    fn join(tag: u32, row: u32) -> Self {
        match (tag, SHAPES.get(tag as usize)) {
            (_, Some(&shape)) => Self::Rows(shape, row),
            (7, _) => Self::Items(row),
            (8, _) => Self::Stack(StackId(row)),
            (9, _) => Self::Sealed(StackId(row)),
            _ => Self::Fresh,
        }
    }
}

/// A table of slots.
pub(super) struct Slots<S> {
    packed: Vec<u32>,
    of: PhantomData<S>,
}

impl<S: Slot> Slots<S> {
    pub(super) fn new() -> Self {
        Self { packed: Vec::new(), of: PhantomData }
    }

    #[inline]
    fn pack(slot: S) -> u32 {
        let (tag, row) = slot.split();
        // Rows beyond the limit are refused where they are numbered.
        tag << ROW_BITS | row.min(MAX_ROWS)
    }

    pub(super) fn len(&self) -> usize {
        self.packed.len()
    }

    /// Bytes of memory that the table takes.
    pub(super) fn kept(&self) -> usize {
        self.packed.capacity() * size_of::<u32>()
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> S {
        let packed = self.packed[at as usize];
        S::join(packed >> ROW_BITS, packed & MAX_ROWS)
    }

    #[inline]
    pub(super) fn set(&mut self, at: u32, slot: S) {
        self.packed[at as usize] = Self::pack(slot);
    }

    #[inline]
    pub(super) fn push(&mut self, slot: S) {
        self.packed.push(Self::pack(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_as_they_went_in() {
        let mut dicts = Slots::new();
        let mut lists = Slots::new();
        let rows = [0, 1, MAX_ROWS];
        let dict = |row| SHAPES.map(|shape| DictSlot::Row(shape, row)).into_iter().chain([DictSlot::Pairs(row)]);
        let expected: Vec<DictSlot> = rows.into_iter().flat_map(dict).chain([DictSlot::Fresh]).collect();
        expected.iter().for_each(|&slot| dicts.push(slot));
        assert!((0..).zip(&expected).all(|(at, slot)| dicts.get(at) == *slot));
        let list = |row| {
            let others = [ListSlot::Items(row), ListSlot::Stack(StackId(row)), ListSlot::Sealed(StackId(row))];
            SHAPES.map(|shape| ListSlot::Rows(shape, row)).into_iter().chain(others)
        };
        let expected: Vec<ListSlot> = rows.into_iter().flat_map(list).chain([ListSlot::Fresh]).collect();
        expected.iter().for_each(|&slot| lists.push(slot));
        assert!((0..).zip(&expected).all(|(at, slot)| lists.get(at) == *slot));
    }
}
