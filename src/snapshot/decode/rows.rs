//! The fields of each row, by key. Key order and unknown keys never matter.

use super::builder::{Annotation, MAX_SIZE, RawSegment, SnapshotBuilder, count_unknown};
use super::shape::Shape;
use super::slots::ListSlot;
use super::word::{Item, Wide, Word};
use crate::allocator::{AllocatorRules, PoolKind};
use crate::pickle::BuildError;
use crate::snapshot::events::{Action, Event};
use crate::snapshot::ids::{FrameId, PoolId, StackId, StrId, StreamId};
use crate::snapshot::intern::Frame;
use crate::snapshot::keys;
use crate::snapshot::schema::{BlockHistory, HistoryRows, Keys};
use crate::snapshot::segments::{Block, BlockState, Segment};

/// Key and value of each pair whose key is text.
#[inline]
pub(super) fn fields(pairs: &[Word]) -> impl Iterator<Item = (StrId, Word)> {
    pairs.chunks_exact(2).filter_map(|pair| match pair[0].item() {
        Item::Text(key) => Some((key, pair[1])),
        _ => None,
    })
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
    /// Remembers that `key` occurred in a row.
    #[inline]
    fn see(&mut self, key: u32) {
        self.seen |= 1 << key;
    }

    fn unknown_key(&mut self, shape: Shape, key: StrId) {
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
    fn pointer(&mut self, value: Word) -> u64 {
        match value.item() {
            Item::Int(value) => {
                self.schema.negative_pointers |= value < 0;
                value as u64
            }
            Item::Wide(row) => match self.wides[row as usize] {
                Wide::Signed(value) => {
                    self.schema.negative_pointers |= value < 0;
                    value as u64
                }
                Wide::Unsigned(value) => {
                    self.schema.wide_pointers = true;
                    value
                }
                Wide::Float(value) => value as u64,
            },
            _ => 0,
        }
    }

    /// A number of bytes.
    #[inline]
    fn bytes(&mut self, value: Word) -> u64 {
        let value = self.integer(value);
        match u64::try_from(value) {
            Ok(size) if size <= MAX_SIZE => size,
            Ok(_) => {
                self.implausible_sizes += 1;
                MAX_SIZE
            }
            Err(_) => {
                self.implausible_sizes += 1;
                0
            }
        }
    }

    fn text_id(&self, value: Word) -> StrId {
        match value.item() {
            Item::Text(id) => id,
            _ => StrId::default(),
        }
    }

    fn stack(&mut self, value: Word) -> Result<StackId, BuildError> {
        Ok(match value.item() {
            Item::List(list) => self.stack_of(list)?,
            _ => StackId::EMPTY,
        })
    }

    /// A pool id: a tuple, or the list that it becomes in JSON.
    fn pool_of(&mut self, value: Word) -> Result<PoolId, BuildError> {
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

    fn action(&mut self, value: Word) -> Action {
        let id = self.text_id(value);
        let name = self.strings.get(id);
        Action::ALL.into_iter().find(|action| *action != Action::Other && action.name() == name).unwrap_or_else(|| {
            count_unknown(&mut self.unknown_actions, id);
            Action::Other
        })
    }

    /// Filled in place: a copy of an event just written stalls the processor.
    #[inline]
    pub(super) fn event(
        &mut self,
        event: &mut Event,
        fields: impl Iterator<Item = (StrId, Word)>,
    ) -> Result<(), BuildError> {
        let mut seen = Keys::default();
        for (key, value) in fields {
            seen.insert(key);
            match key.0 {
                keys::ACTION => {
                    event.action = self.action_of(value);
                    event.other = match event.action {
                        Action::Other => self.text_id(value),
                        _ => StrId::default(),
                    };
                }
                keys::ADDR | keys::DEVICE_FREE => event.addr = self.pointer(value),
                keys::SIZE => event.size = self.bytes(value),
                keys::STREAM => {
                    let pointer = self.pointer(value);
                    event.stream = self.stream(pointer)?;
                }
                keys::FRAMES => event.stack = self.stack(value)?,
                keys::TIME_US => {
                    event.time_us = self.pointer(value);
                    self.see(keys::TIME_US);
                }
                keys::COMPILE_CONTEXT => {
                    event.compile_context = self.text_id(value);
                    self.see(keys::COMPILE_CONTEXT);
                }
                keys::USER_METADATA => {
                    event.user_metadata = self.text_id(value);
                    self.see(keys::USER_METADATA);
                }
                keys::POOL_ID => {
                    event.pool = self.pool_of(value)?;
                    self.see(keys::POOL_ID);
                }
                keys::INTERNAL_METADATA => {
                    event.internal_metadata = self.text_id(value);
                    self.see(keys::INTERNAL_METADATA);
                }
                keys::FORWARD_FRAMES => event.forward = self.stack(value)?,
                keys::CPP_FRAMES => {
                    // Torch 2.0 keeps C++ frames apart; they stand in where there are no Python frames.
                    let stack = self.stack(value)?;
                    if !event.stack.has_frames() {
                        event.stack = stack;
                    }
                }
                keys::CATEGORY => event.category = self.text_id(value),
                // The trace's own device is its place in the list.
                keys::DEVICE => {}
                _ => self.unknown_key(Shape::Event, key),
            }
        }
        self.schema.event.extend(seen);
        Ok(())
    }

    /// The action of a trace entry; the ids of actions seen before are remembered.
    fn action_of(&mut self, value: Word) -> Action {
        let id = self.text_id(value);
        if let Some(&(_, action)) = self.actions.iter().find(|(known, _)| *known == id) {
            return action;
        }
        let action = self.action(value);
        if action != Action::Other {
            self.actions.push((id, action));
        }
        action
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
                    self.see(keys::ADDRESS);
                }
                keys::SIZE => block.size = self.bytes(value),
                keys::REQUESTED_SIZE => {
                    block.stated = self.bytes(value);
                    stated = Some(block.stated);
                    self.see(keys::REQUESTED_SIZE);
                }
                keys::STATE => block.state = self.state(value),
                keys::FRAMES => block.stack = self.stack(value)?,
                keys::FORWARD_FRAMES => block.forward = self.stack(value)?,
                keys::HISTORY => {
                    self.see(keys::HISTORY);
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
                    self.see(keys::STREAM);
                    let pointer = self.pointer(value);
                    segment.stream = self.stream(pointer)?;
                }
                keys::SEGMENT_TYPE => {
                    let small = self.text_id(value).0 == keys::SMALL;
                    kind = Some(if small { PoolKind::Small } else { PoolKind::Large });
                }
                keys::SEGMENT_POOL_ID => {
                    self.see(keys::SEGMENT_POOL_ID);
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
