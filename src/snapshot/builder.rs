//! Turns decoded values into rows as soon as their keys tell what they are.
//!
//! A dict is *sealed* when its items arrive: its keys say whether it is a frame, a trace entry, a block or a segment,
//! and it becomes one row of a column table. A list of frames becomes a [`StackId`] by content, a list of rows a range.
//! Only what has no known shape is kept as it came.

use std::collections::BTreeMap;
use std::ops::Range;

use super::events::{Action, Event, Events};
use super::ids::{FrameId, PoolId, StackId, StrId, StreamId};
use super::intern::{Frame, Stacks, Strings, Table};
use super::keys;
use super::segments::{Block, Segment};
use super::word::{Item, Wide, Word};
use crate::pickle::{BuildError, Builder, Kind};

/// What a dict's keys make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Shape {
    Frame,
    Event,
    Block,
    Segment,
    History,
    Annotation,
}

/// A dict as far as it is known.
#[derive(Clone, Copy)]
pub(super) enum DictSlot {
    /// No item yet.
    Fresh,
    /// One row of the table of this shape.
    Row(Shape, u32),
    /// Kept as pairs: a row of `SnapshotBuilder::pairs_of`.
    Pairs(u32),
}

/// A list as far as it is known.
#[derive(Clone, Copy)]
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

/// An entry of a block's `history` (torch 1.13 and 2.0): the most recent user of the block comes first.
#[derive(Clone, Copy)]
pub(super) struct History {
    pub(super) real_size: u64,
    pub(super) stack: StackId,
}

/// Start or end of an annotated region, as the file has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Annotation {
    /// Name of the region, e.g. `ProfilerStep#3`.
    pub name: StrId,
    /// Whether the region starts here; else it ends.
    pub starts: bool,
    /// Device ordinal.
    pub device: i64,
    /// Microseconds since 1970.
    pub time_us: u64,
}

/// A segment whose blocks are still a list.
pub(super) struct RawSegment {
    pub(super) segment: Segment,
    pub(super) blocks: Option<u32>,
}

/// Sizes above this are damage, not memory (16 TiB); they are cut to it and counted.
pub(super) const MAX_SIZE: u64 = 1 << 44;

/// The [`Builder`] of snapshots.
pub(super) struct SnapshotBuilder {
    pub(super) strings: Strings,
    pub(super) frames: Table<Frame>,
    pub(super) stacks: Stacks,
    pub(super) streams: Table<u64>,
    pub(super) pools: Table<(u64, u64)>,
    pub(super) events: Events,
    pub(super) blocks: Vec<Block>,
    pub(super) segments: Vec<RawSegment>,
    pub(super) histories: Vec<History>,
    pub(super) annotations: Vec<Annotation>,
    /// Ids of the action names met so far.
    pub(super) actions: Vec<(StrId, Action)>,
    /// Actions that are not in [`Action`], with their counts.
    pub(super) unknown_actions: BTreeMap<StrId, u64>,
    /// Keys of known shapes that the format does not name, with their counts.
    pub(super) unknown_keys: BTreeMap<(Shape, StrId), u64>,
    /// Which known keys occurred in a row, one bit each.
    pub(super) seen: u64,
    /// Sizes that were cut to [`MAX_SIZE`].
    pub(super) implausible_sizes: u64,
    /// Whether an empty container was filled with nothing, as only the C++ writer does.
    pub(super) empty_batches: bool,
    pub(super) dicts: Vec<DictSlot>,
    pub(super) lists: Vec<ListSlot>,
    pub(super) pairs_of: Vec<Vec<Word>>,
    pub(super) items_of: Vec<Vec<Word>>,
    pub(super) ranges: Vec<Range<u32>>,
    pub(super) pairs: Table<(Word, Word)>,
    pub(super) wides: Vec<Wide>,
    /// The stack being collected; kept to be reused.
    pub(super) scratch: Vec<FrameId>,
    /// Set when a table is full; reported at the next batch.
    overflow: Option<BuildError>,
}

impl SnapshotBuilder {
    pub(super) fn new() -> Self {
        let mut strings = Strings::default();
        for (id, text) in keys::TEXTS.iter().enumerate() {
            let interned = strings.intern(text.as_bytes());
            debug_assert_eq!(interned, Ok(StrId(id as u32)));
        }
        let zero = Word::new(Item::Int(0));
        Self {
            strings,
            frames: Table::starting_with(Frame::default(), "frames"),
            stacks: Stacks::default(),
            streams: Table::starting_with(0, "streams"),
            pools: Table::starting_with((0, 0), "pools"),
            events: Events::default(),
            blocks: Vec::new(),
            segments: Vec::new(),
            histories: Vec::new(),
            annotations: Vec::new(),
            actions: Vec::new(),
            unknown_actions: BTreeMap::new(),
            unknown_keys: BTreeMap::new(),
            seen: 0,
            implausible_sizes: 0,
            empty_batches: false,
            dicts: Vec::new(),
            lists: Vec::new(),
            pairs_of: Vec::new(),
            items_of: Vec::new(),
            ranges: Vec::new(),
            pairs: Table::starting_with((zero, zero), "tuples"),
            wides: Vec::new(),
            scratch: Vec::new(),
            overflow: None,
        }
    }

    /// `id`, or 0 when the table is full: the error is then raised at the next batch.
    #[inline]
    fn or_overflow(&mut self, id: Result<u32, BuildError>) -> u32 {
        id.unwrap_or_else(|error| {
            self.overflow = Some(error);
            0
        })
    }

    fn wide(&mut self, value: Wide) -> Word {
        let row = row_number(self.wides.len(), "numbers");
        self.wides.push(value);
        let row = self.or_overflow(row);
        Word::new(Item::Wide(row))
    }

    /// The shape that `pairs` make a dict, if any.
    #[inline]
    fn shape(pairs: &[Word]) -> Option<Shape> {
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
    fn new_row(&mut self, shape: Shape, pairs: &[Word]) -> Result<DictSlot, BuildError> {
        let row = match shape {
            Shape::Frame => {
                let frame = self.frame(Frame::default(), pairs);
                self.frames.intern(frame)?
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
                let history = self.history(History { real_size: 0, stack: StackId::EMPTY }, pairs)?;
                self.histories.push(history);
                row_number(self.histories.len() - 1, "history entries")?
            }
            Shape::Annotation => {
                let annotation = Annotation { name: StrId::default(), starts: false, device: 0, time_us: 0 };
                let annotation = self.annotation(annotation, pairs);
                self.annotations.push(annotation);
                row_number(self.annotations.len() - 1, "annotations")?
            }
        };
        Ok(DictSlot::Row(shape, row))
    }

    /// Sets further items in a dict that is a row already.
    fn update_row(&mut self, shape: Shape, row: u32, pairs: &[Word]) -> Result<DictSlot, BuildError> {
        let at = row as usize;
        match shape {
            // Frames are shared by content: a changed one is another one.
            Shape::Frame => {
                let frame = self.frame(self.frames.rows[at], pairs);
                return Ok(DictSlot::Row(shape, self.frames.intern(frame)?));
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
            Shape::History => self.histories[at] = self.history(self.histories[at], pairs)?,
            Shape::Annotation => self.annotations[at] = self.annotation(self.annotations[at], pairs),
        }
        Ok(DictSlot::Row(shape, row))
    }

    /// The row that dict number `dict` is, sealing it if its keys are complete by now.
    pub(super) fn sealed(&mut self, dict: u32) -> Result<Option<(Shape, u32)>, BuildError> {
        let slot = self.dicts[dict as usize];
        if let DictSlot::Row(shape, row) = slot {
            return Ok(Some((shape, row)));
        }
        let DictSlot::Pairs(kept) = slot else { return Ok(None) };
        let Some(shape) = Self::shape(&self.pairs_of[kept as usize]) else { return Ok(None) };
        let pairs = std::mem::take(&mut self.pairs_of[kept as usize]);
        let slot = self.new_row(shape, &pairs)?;
        self.dicts[dict as usize] = slot;
        let DictSlot::Row(shape, row) = slot else { return Ok(None) };
        Ok(Some((shape, row)))
    }

    /// Appends `items` to the rows `known` of a list, if they are the rows that follow.
    fn extend_rows(&mut self, known: Option<(Shape, u32)>, items: &[Word]) -> Result<Option<ListSlot>, BuildError> {
        let mut range = known.map(|(shape, at)| (shape, self.ranges[at as usize].clone()));
        for item in items {
            let Item::Dict(dict) = item.item() else { return Ok(None) };
            let Some((shape, row)) = self.sealed(dict)? else { return Ok(None) };
            // Frames make a stack, which is sealed when it is used if it grows item by item.
            if shape == Shape::Frame {
                return Ok(None);
            }
            match &mut range {
                None => range = Some((shape, row..row + 1)),
                Some((same, rows)) if *same == shape && rows.end == row => rows.end += 1,
                Some(_) => return Ok(None),
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
    fn collect_stack(&mut self, items: &[Word]) -> Result<bool, BuildError> {
        for item in items {
            let frame = match item.item() {
                Item::Dict(dict) => match self.dicts[dict as usize] {
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
        let kept = match self.lists[list as usize] {
            ListSlot::Fresh | ListSlot::Rows(..) => return Ok(StackId::EMPTY),
            ListSlot::Stack(stack) | ListSlot::Sealed(stack) => return Ok(stack),
            ListSlot::Items(kept) => kept,
        };
        let items = std::mem::take(&mut self.items_of[kept as usize]);
        self.scratch.clear();
        let stack = if self.collect_stack(&items)? { self.stacks.intern(&self.scratch)? } else { StackId::EMPTY };
        self.lists[list as usize] = ListSlot::Sealed(stack);
        Ok(stack)
    }

    /// Falls back to keeping the items of a list as they came.
    fn keep_items(&mut self, slot: ListSlot, more: &[Word]) -> Result<ListSlot, BuildError> {
        let mut items: Vec<Word> = match slot {
            ListSlot::Fresh => Vec::new(),
            ListSlot::Sealed(_) => return Ok(slot),
            ListSlot::Items(kept) => {
                self.items_of[kept as usize].extend_from_slice(more);
                return Ok(slot);
            }
            ListSlot::Rows(shape, at) => {
                let rows = self.ranges[at as usize].clone();
                let first = row_number(self.dicts.len(), "dicts")?;
                self.dicts.extend(rows.clone().map(|row| DictSlot::Row(shape, row)));
                (first..first + rows.len() as u32).map(|dict| Word::new(Item::Dict(dict))).collect()
            }
            ListSlot::Stack(stack) => {
                let first = row_number(self.dicts.len(), "dicts")?;
                let frames = self.stacks.get(stack);
                self.dicts.extend(frames.iter().map(|frame| DictSlot::Row(Shape::Frame, frame.0)));
                (first..first + frames.len() as u32).map(|dict| Word::new(Item::Dict(dict))).collect()
            }
        };
        items.extend_from_slice(more);
        let kept = row_number(self.items_of.len(), "lists")?;
        self.items_of.push(items);
        Ok(ListSlot::Items(kept))
    }

    pub(super) fn stream(&mut self, pointer: u64) -> Result<StreamId, BuildError> {
        self.streams.intern(pointer).map(StreamId)
    }

    pub(super) fn pool(&mut self, ids: (u64, u64)) -> Result<PoolId, BuildError> {
        self.pools.intern(ids).map(PoolId)
    }
}

/// `len` as a row number.
fn row_number(len: usize, what: &'static str) -> Result<u32, BuildError> {
    u32::try_from(len).map_err(|_| BuildError::TooMany(what))
}

impl Builder for SnapshotBuilder {
    type Value = Word;

    fn none(&mut self) -> Word {
        Word::new(Item::None)
    }

    fn bool(&mut self, value: bool) -> Word {
        Word::new(Item::Bool(value))
    }

    #[inline]
    fn int(&mut self, value: i64) -> Word {
        match Word::int(value) {
            Some(word) => word,
            None => self.wide(Wide::Signed(value)),
        }
    }

    fn uint(&mut self, value: u64) -> Word {
        self.wide(Wide::Unsigned(value))
    }

    fn float(&mut self, value: f64) -> Word {
        self.wide(Wide::Float(value))
    }

    #[inline]
    fn text(&mut self, value: &[u8]) -> Word {
        let id = self.strings.intern(value).map(|id| id.0);
        let id = self.or_overflow(id);
        Word::new(Item::Text(StrId(id)))
    }

    #[inline]
    fn tuple(&mut self, items: &[Word]) -> Word {
        if let &[first, second] = items {
            let row = self.pairs.intern((first, second));
            let row = self.or_overflow(row);
            return Word::new(Item::Pair(row));
        }
        let list = self.list();
        if !items.is_empty()
            && let Err(error) = self.append(list, items, true)
        {
            self.overflow = Some(error);
        }
        list
    }

    #[inline]
    fn list(&mut self) -> Word {
        let row = row_number(self.lists.len(), "lists");
        self.lists.push(ListSlot::Fresh);
        let row = self.or_overflow(row);
        Word::new(Item::List(row))
    }

    fn append(&mut self, list: Word, items: &[Word], whole: bool) -> Result<(), BuildError> {
        if let Some(error) = self.overflow {
            return Err(error);
        }
        let Item::List(row) = list.item() else { return Err(BuildError::NotAList) };
        let Some(first) = items.first() else {
            self.empty_batches = true;
            return Ok(());
        };
        let slot = self.lists[row as usize];
        let rows = match (slot, first.item()) {
            (ListSlot::Fresh, Item::Dict(_)) => self.extend_rows(None, items)?,
            (ListSlot::Rows(shape, at), _) => self.extend_rows(Some((shape, at)), items)?,
            _ => None,
        };
        let mut new = rows;
        if new.is_none() && whole && matches!(slot, ListSlot::Fresh) && matches!(first.item(), Item::Dict(_)) {
            self.scratch.clear();
            if self.collect_stack(items)? {
                new = Some(ListSlot::Stack(self.stacks.intern(&self.scratch)?));
            }
        }
        self.lists[row as usize] = match new {
            Some(slot) => slot,
            None => self.keep_items(slot, items)?,
        };
        Ok(())
    }

    #[inline]
    fn dict(&mut self) -> Word {
        let row = row_number(self.dicts.len(), "dicts");
        self.dicts.push(DictSlot::Fresh);
        let row = self.or_overflow(row);
        Word::new(Item::Dict(row))
    }

    fn set_items(&mut self, dict: Word, pairs: &[Word]) -> Result<(), BuildError> {
        if let Some(error) = self.overflow {
            return Err(error);
        }
        let Item::Dict(at) = dict.item() else { return Err(BuildError::NotADict) };
        if pairs.is_empty() {
            self.empty_batches = true;
            return Ok(());
        }
        let at = at as usize;
        self.dicts[at] = match self.dicts[at] {
            DictSlot::Fresh => match Self::shape(pairs) {
                Some(shape) => self.new_row(shape, pairs)?,
                None => {
                    let kept = row_number(self.pairs_of.len(), "dicts")?;
                    self.pairs_of.push(pairs.to_vec());
                    DictSlot::Pairs(kept)
                }
            },
            DictSlot::Row(shape, row) => self.update_row(shape, row, pairs)?,
            slot @ DictSlot::Pairs(kept) => {
                self.pairs_of[kept as usize].extend_from_slice(pairs);
                slot
            }
        };
        Ok(())
    }

    fn kind(&self, value: Word) -> Kind {
        match value.item() {
            Item::List(_) => Kind::List,
            Item::Dict(_) => Kind::Dict,
            Item::Text(_) => Kind::Text,
            _ => Kind::Other,
        }
    }
}
