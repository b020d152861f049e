//! The fields of each row, by key. Key order and unknown keys never matter.

use super::builder::{Annotation, MAX_SIZE, RawSegment, SnapshotBuilder, count_unknown};
use super::shape::Shape;
use super::slots::ListSlot;
use super::word::{Item, Wide, Word};
use crate::allocator::{AllocatorRules, PoolKind};
use crate::pickle::BuildError;
use crate::snapshot::ids::{FrameId, PoolId, StackId, StrId, StreamId};
use crate::snapshot::intern::Frame;
use crate::snapshot::keys;
use crate::snapshot::schema::{BlockHistory, HistoryRows};
use crate::snapshot::segments::{Block, BlockState, Segment};

/// Key and value of each pair whose key is text.
#[inline]
pub(super) fn fields(pairs: &[Word]) -> impl Iterator<Item = (StrId, Word)> {
    pairs.chunks_exact(2).filter_map(|pair| Some((pair[0].text()?, pair[1])))
}

impl RawSegment {
    pub(super) fn empty() -> Self {
        let segment = Segment {
            device: 0,
            address: 0,
            total_size: 0,
            allocated_size: None,
            active_size: None,
            requested_size: None,
            stream: StreamId::default(),
            kind: PoolKind::Large,
            pool: PoolId::DEFAULT,
            expandable: false,
            stack: StackId::EMPTY,
            forward: StackId::NONE,
            blocks: 0..0,
        };
        Self { segment, blocks: None }
    }
}

impl SnapshotBuilder {
    pub(super) fn unknown_key(&mut self, shape: Shape, key: StrId) {
        count_unknown(&mut self.unknown_keys, (shape, key));
    }

    /// An integer with its sign; floats (JSON conversions) are truncated, everything else is 0.
    #[inline]
    pub(super) fn integer(&self, value: Word) -> i64 {
        match value.item() {
            Item::Int(value) => value,
            Item::Bool(value) => i64::from(value),
            Item::Wide(row) => match self.wides[row as usize] {
                Wide::Signed(value) => value,
                Wide::Unsigned(value) => i64::try_from(value).unwrap_or(i64::MAX),
                Wide::Float(value) => value as i64,
            },
            _ => 0,
        }
    }

    /// A pointer: negative numbers are what the C++ writer makes of addresses from 2^63 on.
    #[inline]
    pub(super) fn pointer(&mut self, value: Word) -> u64 {
        match value.small() {
            Some(value) if value >= 0 => value as u64,
            _ => self.rare_pointer(value),
        }
    }

    fn rare_pointer(&mut self, value: Word) -> u64 {
        let signed = match value.item() {
            Item::Int(value) => value,
            Item::Wide(row) => match self.wides[row as usize] {
                Wide::Signed(value) => value,
                Wide::Unsigned(value) => {
                    self.schema.wide_pointers = true;
                    return value;
                }
                Wide::Float(value) => return value as u64,
            },
            _ => return 0,
        };
        self.schema.negative_pointers |= signed < 0;
        signed as u64
    }

    /// A number of bytes.
    #[inline]
    pub(super) fn bytes(&mut self, value: Word) -> u64 {
        match value.small() {
            Some(value) if (0..=MAX_SIZE as i64).contains(&value) => value as u64,
            _ => self.rare_bytes(value),
        }
    }

    fn rare_bytes(&mut self, value: Word) -> u64 {
        let value = self.integer(value);
        let size = value.clamp(0, MAX_SIZE as i64);
        self.implausible_sizes += u64::from(size != value);
        size as u64
    }

    #[inline]
    pub(super) fn text_id(&self, value: Word) -> StrId {
        value.text().unwrap_or_default()
    }

    #[inline]
    pub(super) fn stack(&mut self, value: Word) -> Result<StackId, BuildError> {
        let Some(list) = value.list() else { return Ok(StackId::EMPTY) };
        match self.lists.get(list) {
            ListSlot::Stack(stack) | ListSlot::Sealed(stack) => Ok(stack),
            _ => self.stack_of(list),
        }
    }

    /// A pool id: a tuple, or the list that it becomes in JSON.
    pub(super) fn pool_of(&mut self, value: Word) -> Result<PoolId, BuildError> {
        let (first, second) = match value.item() {
            Item::Pair(row) => self.pairs.rows[row as usize],
            Item::List(list) => match *self.items_of_list(list) {
                [first, second] => (first, second),
                _ => return Ok(PoolId::DEFAULT),
            },
            _ => return Ok(PoolId::DEFAULT),
        };
        let ids = (self.pointer(first), self.pointer(second));
        self.pool(ids)
    }

    pub(super) fn frame(&mut self, mut frame: Frame, pairs: &[Word]) -> Frame {
        for (key, value) in fields(pairs) {
            match key.0 {
                keys::NAME => frame.name = self.text_id(value),
                keys::FILENAME => frame.filename = self.text_id(value),
                keys::LINE => frame.line = u32::try_from(self.integer(value)).unwrap_or(0),
                keys::FX_NODE_OP | keys::FX_NODE_NAME | keys::FX_NODE_TARGET | keys::FX_ORIGINAL_TRACE => {}
                _ => self.unknown_key(Shape::Frame, key),
            }
        }
        frame
    }

    /// Keeps what `torch.fx` says in `pairs` of `frame`.
    pub(super) fn fx(&mut self, frame: FrameId, pairs: &[Word]) {
        for (key, value) in fields(pairs) {
            if !matches!(key.0, keys::FX_NODE_OP..=keys::FX_ORIGINAL_TRACE) {
                continue;
            }
            let text = match value.item() {
                Item::Text(id) => Some(id),
                _ => None,
            };
            let fx = self.extras.fx.entry(frame).or_default();
            let slot = match key.0 {
                keys::FX_NODE_OP => &mut fx.op,
                keys::FX_NODE_NAME => &mut fx.name,
                keys::FX_NODE_TARGET => &mut fx.target,
                _ => &mut fx.original_trace,
            };
            slot.get_or_insert(text);
        }
    }

    pub(super) fn block(&mut self, block: Option<Block>, pairs: &[Word]) -> Result<Block, BuildError> {
        // What an earlier batch of keys said, then `requested_size`, then the history.
        let earlier = block.map(|block| block.requested).filter(|&requested| requested > 0);
        let (mut stated, mut recorded) = (None, None);
        let mut block = block.unwrap_or(Block {
            address: 0,
            size: 0,
            requested: 0,
            stated: 0,
            state: BlockState::Inactive,
            stack: StackId::EMPTY,
            forward: StackId::NONE,
            history: HistoryRows::default(),
        });
        for (key, value) in fields(pairs) {
            self.schema.block.insert(key);
            match key.0 {
                keys::ADDRESS => {
                    block.address = self.pointer(value);
                }
                keys::SIZE => block.size = self.bytes(value),
                keys::REQUESTED_SIZE => {
                    block.stated = self.bytes(value);
                    stated = Some(block.stated);
                }
                keys::STATE => block.state = self.state(value),
                keys::FRAMES => block.stack = self.stack(value)?,
                keys::FORWARD_FRAMES => block.forward = self.stack(value)?,
                keys::HISTORY => {
                    // Entry 0 is the most recent user; it describes the block only while that user holds it.
                    block.history = self.history_rows(value)?;
                    if let Some(newest) = self.extras.histories.get(block.history.range()).and_then(|rows| rows.first())
                    {
                        recorded = Some(newest.real_size);
                        block.stack = newest.stack;
                    }
                }
                _ => self.unknown_key(Shape::Block, key),
            }
        }
        if block.is_active() {
            block.requested = recorded.or(stated).or(earlier).unwrap_or(block.size);
        } else {
            (block.requested, block.stack) = (0, StackId::EMPTY);
        }
        Ok(block)
    }

    /// Any state that starts with `active_` but is not the plain one waits to be free.
    fn state(&self, value: Word) -> BlockState {
        match self.text_id(value).0 {
            keys::ACTIVE_ALLOCATED => BlockState::Allocated,
            keys::INACTIVE => BlockState::Inactive,
            id if self.strings.get(keys::id(id)).starts_with("active_") => BlockState::Pending,
            _ => BlockState::Inactive,
        }
    }

    /// The entries of the history that the list `value` is; only the newest where they do not follow each other, as no
    /// writer has them.
    fn history_rows(&mut self, value: Word) -> Result<HistoryRows, BuildError> {
        let Item::List(list) = value.item() else { return Ok(HistoryRows::default()) };
        if let ListSlot::Rows(Shape::History, at) = self.lists.get(list) {
            let rows = &self.ranges[at as usize];
            return Ok(HistoryRows { first: rows.start, len: rows.len() as u32 });
        }
        match self.items_of_list(list).first().map(|item| item.item()) {
            Some(Item::Dict(dict)) => match self.sealed(dict)? {
                Some((Shape::History, first)) => Ok(HistoryRows { first, len: 1 }),
                _ => Ok(HistoryRows::default()),
            },
            _ => Ok(HistoryRows::default()),
        }
    }

    pub(super) fn history(&mut self, mut history: BlockHistory, pairs: &[Word]) -> Result<BlockHistory, BuildError> {
        for (key, value) in fields(pairs) {
            self.schema.history.insert(key);
            match key.0 {
                keys::REAL_SIZE => history.real_size = self.bytes(value),
                keys::FRAMES => history.stack = self.stack(value)?,
                keys::CPP_FRAMES if !history.stack.has_frames() => history.stack = self.stack(value)?,
                keys::ADDR => history.addr = self.pointer(value),
                keys::CPP_FRAMES => {}
                _ => self.unknown_key(Shape::History, key),
            }
        }
        Ok(history)
    }

    pub(super) fn segment(&mut self, raw: Option<RawSegment>, pairs: &[Word]) -> Result<RawSegment, BuildError> {
        let mut kind = raw.as_ref().map(|raw| raw.segment.kind);
        let mut raw = raw.unwrap_or_else(RawSegment::empty);
        let segment = &mut raw.segment;
        for (key, value) in fields(pairs) {
            self.schema.segment.insert(key);
            match key.0 {
                keys::DEVICE => segment.device = self.integer(value),
                keys::ADDRESS => segment.address = self.pointer(value),
                keys::TOTAL_SIZE => segment.total_size = self.bytes(value),
                keys::ALLOCATED_SIZE => segment.allocated_size = Some(self.bytes(value)),
                keys::ACTIVE_SIZE => segment.active_size = Some(self.bytes(value)),
                keys::REQUESTED_SIZE => segment.requested_size = Some(self.bytes(value)),
                keys::STREAM => {
                    let pointer = self.pointer(value);
                    segment.stream = self.stream(pointer)?;
                }
                keys::SEGMENT_TYPE => {
                    let small = self.text_id(value).0 == keys::SMALL;
                    kind = Some(if small { PoolKind::Small } else { PoolKind::Large });
                }
                keys::SEGMENT_POOL_ID => {
                    segment.pool = self.pool_of(value)?;
                }
                keys::IS_EXPANDABLE => segment.expandable = value.item() == Item::Bool(true),
                keys::FRAMES => segment.stack = self.stack(value)?,
                keys::BLOCKS => {
                    if let Item::List(list) = value.item() {
                        raw.blocks = Some(list);
                    }
                }
                keys::FORWARD_FRAMES => segment.forward = self.stack(value)?,
                _ => self.unknown_key(Shape::Segment, key),
            }
        }
        let small_segment = AllocatorRules::default().small_segment;
        let by_size = if segment.total_size <= small_segment { PoolKind::Small } else { PoolKind::Large };
        segment.kind = kind.unwrap_or(by_size);
        Ok(raw)
    }

    pub(super) fn annotation(&mut self, mut annotation: Annotation, pairs: &[Word]) -> Annotation {
        for (key, value) in fields(pairs) {
            match key.0 {
                keys::NAME => annotation.name = self.text_id(value),
                keys::STAGE => annotation.starts = self.text_id(value).0 == keys::START,
                keys::DEVICE => annotation.device = self.integer(value),
                keys::TIME_US => annotation.time_us = self.pointer(value),
                _ => {}
            }
        }
        annotation
    }

    /// Keeps the pairs that the program itself gave the annotation in `row`.
    pub(super) fn annotation_pairs(&mut self, row: u32, pairs: &[Word]) {
        let own = fields(pairs).filter_map(|(key, value)| match (key.0, value.item()) {
            (keys::NAME | keys::STAGE | keys::DEVICE | keys::TIME_US, _) => None,
            (_, Item::Text(value)) => Some((row, key, value)),
            _ => None,
        });
        self.extras.annotation_pairs.extend(own);
    }
}
