//! Turns decoded values into rows as soon as their keys tell what they are.
//!
//! A dict is *sealed* when its items arrive: its keys say whether it is a frame, a trace entry, a block or a segment,
//! and it becomes one row of a column table. A list of frames becomes a [`StackId`] by content, a list of rows a range.
//! Only what has no known shape is kept as it came.

use std::collections::BTreeMap;
use std::ops::Range;

use super::event_keys::EventKeys;
use super::shape::Shape;
use super::slots::{DictSlot, ListSlot, Slots};
use super::word::{Item, Short, Wide, Word};
use crate::pickle::{BuildError, Builder, Kind};
use crate::snapshot::events::Events;
use crate::snapshot::ids::{FrameId, MAX_ROWS, PoolId, StrId, StreamId};
use crate::snapshot::intern::{Frame, Stacks, Strings, Table};
use crate::snapshot::keys;
use crate::snapshot::schema::{Extras, Schema};
use crate::snapshot::segments::{Block, Segment};

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

/// Bytes of a string that are kept: the longest names, of C++ templates, have some thousand. Names are printed again and
/// again, so that a single one could fill a machine.
const MAX_TEXT: usize = 1 << 14;

/// Unknown names of which the number of times is kept.
const MAX_UNKNOWN: usize = 256;

/// Counts `name`, if it is among the first [`MAX_UNKNOWN`].
pub(super) fn count_unknown<K: Ord>(names: &mut BTreeMap<K, u64>, name: K) {
    if names.len() < MAX_UNKNOWN || names.contains_key(&name) {
        *names.entry(name).or_default() += 1;
    }
}

/// The [`Builder`] of snapshots.
pub(in crate::snapshot) struct SnapshotBuilder {
    pub(super) strings: Strings,
    pub(super) frames: Table<Frame>,
    pub(super) stacks: Stacks,
    pub(super) streams: Table<u64>,
    pub(super) pools: Table<(u64, u64)>,
    pub(super) events: Events,
    pub(super) blocks: Vec<Block>,
    pub(super) segments: Vec<RawSegment>,
    pub(super) extras: Extras,
    pub(super) schema: Schema,
    pub(super) annotations: Vec<Annotation>,
    /// Actions that are not in [`Action`], with their counts.
    pub(super) unknown_actions: BTreeMap<StrId, u64>,
    /// Keys of known shapes that the format does not name, with their counts.
    pub(super) unknown_keys: BTreeMap<(Shape, StrId), u64>,
    /// Strings that were cut to [`MAX_TEXT`].
    pub(super) cut_texts: u64,
    /// Sizes that were cut to [`MAX_SIZE`].
    pub(super) implausible_sizes: u64,
    /// Whether an empty container was filled with nothing, as only the C++ writer does.
    pub(super) empty_batches: bool,
    pub(super) dicts: Slots<DictSlot>,
    pub(super) lists: Slots<ListSlot>,
    pub(super) pairs_of: Vec<Vec<Word>>,
    pub(super) items_of: Vec<Vec<Word>>,
    /// Words in `pairs_of` and `items_of` together.
    pub(super) kept_words: usize,
    pub(super) ranges: Vec<Range<u32>>,
    pub(super) pairs: Table<(Word, Word)>,
    pub(super) wides: Vec<Wide>,
    /// Whether a frame was changed after it was complete, so that a stack seen before may be another one now.
    pub(super) frames_changed: bool,
    /// The stack being collected; kept to be reused.
    pub(super) scratch: Vec<FrameId>,
    /// Set when a table is full; reported at the next batch.
    overflow: Option<BuildError>,
}

impl SnapshotBuilder {
    pub(in crate::snapshot) fn new() -> Self {
        let mut strings = Strings::default();
        let actions = keys::ACTIONS.iter().map(|action| action.name());
        for (id, text) in keys::TEXTS.into_iter().chain(actions).enumerate() {
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
            extras: Extras::default(),
            schema: Schema::default(),
            annotations: Vec::new(),
            unknown_actions: BTreeMap::new(),
            unknown_keys: BTreeMap::new(),
            cut_texts: 0,
            implausible_sizes: 0,
            empty_batches: false,
            dicts: Slots::new(),
            lists: Slots::new(),
            pairs_of: Vec::new(),
            items_of: Vec::new(),
            kept_words: 0,
            ranges: Vec::new(),
            pairs: Table::starting_with((zero, zero), "tuples"),
            wides: Vec::new(),
            frames_changed: false,
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

    pub(super) fn stream(&mut self, pointer: u64) -> Result<StreamId, BuildError> {
        self.streams.intern(pointer).map(StreamId)
    }

    pub(super) fn pool(&mut self, ids: (u64, u64)) -> Result<PoolId, BuildError> {
        self.pools.intern(ids).map(PoolId)
    }
}

/// `len` as a row number.
pub(super) fn row_number(len: usize, what: &'static str) -> Result<u32, BuildError> {
    u32::try_from(len).ok().filter(|&row| row < MAX_ROWS).ok_or(BuildError::TooMany(what))
}

impl Builder for SnapshotBuilder {
    type Value = Word;
    type Kept = Short;
    type EntryKeys = EventKeys;

    #[inline]
    fn keep(&mut self, value: Word) -> Short {
        let short = value.short();
        if short.word() == value {
            return short;
        }
        // A large number, which no pickler memoizes.
        self.wide(Wide::Signed(self.integer(value))).short()
    }

    #[inline]
    fn recall(&self, kept: Short) -> Word {
        kept.word()
    }

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
        let value = match value.get(..MAX_TEXT) {
            Some(start) if start.len() < value.len() => {
                self.cut_texts += 1;
                start
            }
            _ => value,
        };
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
        let slot = self.lists.get(row);
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
        let slot = match new {
            Some(slot) => slot,
            None => self.keep_items(slot, items)?,
        };
        self.lists.set(row, slot);
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
        let slot = match self.dicts.get(at) {
            // A dict that comes pair by pair is judged when it is used: its first key may mean anything.
            DictSlot::Fresh => match Self::shape(pairs).filter(|_| pairs.len() > 2) {
                Some(shape) => self.new_row(shape, pairs)?,
                None => {
                    let kept = row_number(self.pairs_of.len(), "dicts")?;
                    self.pairs_of.push(pairs.to_vec());
                    self.kept_words += pairs.len();
                    DictSlot::Pairs(kept)
                }
            },
            DictSlot::Row(shape, row) => self.update_row(shape, row, pairs)?,
            slot @ DictSlot::Pairs(kept) => {
                self.pairs_of[kept as usize].extend_from_slice(pairs);
                self.kept_words += pairs.len();
                slot
            }
        };
        self.dicts.set(at, slot);
        Ok(())
    }

    fn entry_keys(&self, keys: &[Word]) -> Option<EventKeys> {
        (Self::shape_of_keys(keys.iter()) == Some(Shape::Event)).then(|| EventKeys::new(keys)).flatten()
    }

    #[inline]
    fn set_entry(&mut self, dict: Word, keys: &EventKeys, values: &[Word]) -> Result<(), BuildError> {
        if let Some(error) = self.overflow {
            return Err(error);
        }
        let Item::Dict(at) = dict.item() else { return Err(BuildError::NotADict) };
        let row = self.new_event(keys, values)?;
        self.dicts.set(at, DictSlot::Row(Shape::Event, row));
        Ok(())
    }

    #[inline]
    fn list_like(&mut self, list: Word) -> Option<Word> {
        let Item::List(row) = list.item() else { return None };
        let slot = self.lists.get(row);
        // Another slot may stand for a list that has grown since.
        if self.frames_changed || self.overflow.is_some() || !matches!(slot, ListSlot::Stack(_)) {
            return None;
        }
        let row = row_number(self.lists.len(), "lists").ok()?;
        self.lists.push(slot);
        Some(Word::new(Item::List(row)))
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
