//! `pickle`: a snapshot as PyTorch writes it, for Python, its viewer and this program.
//!
//! The keys are those that the file had, whatever release wrote it. Frames, stacks and pool ids are written once and
//! referred to, whether or not the original shared them.

use std::collections::HashMap;
use std::io::Write;

use serde::Serialize;

use super::{DeviceExcerpt, Excerpt, Result, SnapshotFormat};
use crate::allocator::PoolKind;
use crate::pickle::write::{Handle, PickleWriter};
use crate::snapshot::{
    Action, Block, BlockState, Event, FrameId, HistoryRows, Keys, PoolId, Schema, Segment, Snapshot, StackId, StrId,
};

/// A pickle of protocol 4.
pub struct Pickle;

impl SnapshotFormat for Pickle {
    fn write(&self, excerpt: &Excerpt, out: &mut dyn Write) -> Result<()> {
        let snapshot = excerpt.snapshot;
        let mut writer = Writer {
            excerpt,
            snapshot,
            schema: Columns::new(&snapshot.schema),
            pickle: PickleWriter::new(out),
            stacks: vec![None; snapshot.stacks.len()],
            bare_stacks: HashMap::new(),
            forward_stacks: HashMap::new(),
            frames: vec![None; snapshot.frames.len()],
            bare_frames: HashMap::new(),
            pools: vec![None; snapshot.pools.len()],
        };
        match snapshot.schema.top {
            Some(keys) => writer.top(keys)?,
            None => writer.segments(excerpt.devices.iter())?,
        }
        writer.pickle.finish()?;
        Ok(())
    }
}

/// Which keys rows get. In the order of the fields of [`Schema`].
struct Columns {
    segment_stream: bool,
    segment_type: bool,
    segment_pool: bool,
    is_expandable: bool,
    segment_frames: bool,
    blocks: bool,
    block_address: bool,
    block_requested: bool,
    block_frames: bool,
    history: bool,
    history_frames: bool,
    event_device: bool,
    event_stream: bool,
    time_us: bool,
    compile_context: bool,
    user_metadata: bool,
    pool_id: bool,
    wide_pointers: bool,
}

impl Columns {
    fn new(schema: &Schema) -> Self {
        let Schema { segment, block, event, history, .. } = schema;
        Self {
            segment_stream: segment.has("stream"),
            segment_type: segment.has("segment_type"),
            segment_pool: segment.has("segment_pool_id"),
            is_expandable: segment.has("is_expandable"),
            segment_frames: segment.has("frames"),
            blocks: segment.has("blocks"),
            block_address: block.has("address"),
            block_requested: block.has("requested_size"),
            block_frames: block.has("frames"),
            history: block.has("history"),
            history_frames: history.has("frames") || history.has("cpp_frames"),
            event_device: event.has("device"),
            event_stream: event.has("stream"),
            time_us: event.has("time_us"),
            compile_context: event.has("compile_context"),
            user_metadata: event.has("user_metadata"),
            pool_id: event.has("pool_id"),
            // Where a file has both forms, the one that older viewers accept is as true.
            wide_pointers: schema.wide_pointers && !schema.negative_pointers,
        }
    }
}

/// A frame as the file has it.
#[derive(Serialize)]
struct FrameRecord<'a> {
    name: &'a str,
    filename: &'a str,
    line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    fx_node_op: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fx_node_name: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fx_node_target: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fx_original_trace: Option<Option<&'a str>>,
}

struct Writer<'e, 'a, W: Write> {
    excerpt: &'e Excerpt<'a>,
    snapshot: &'a Snapshot,
    schema: Columns,
    pickle: PickleWriter<W>,
    stacks: Vec<Option<Handle>>,
    /// Stacks of segments, which `torch.fx` does not speak of.
    bare_stacks: HashMap<StackId, Handle>,
    forward_stacks: HashMap<StackId, Handle>,
    frames: Vec<Option<Handle>>,
    bare_frames: HashMap<FrameId, Handle>,
    pools: Vec<Option<Handle>>,
}

impl<W: Write> Writer<'_, '_, W> {
    fn top(&mut self, keys: Keys) -> Result<()> {
        let excerpt = self.excerpt;
        self.pickle.begin_dict()?;
        if keys.has("segments") {
            self.pickle.key("segments")?;
            self.segments(excerpt.devices.iter())?;
        }
        if keys.has("device_traces") {
            self.pickle.key("device_traces")?;
            self.pickle.begin_list()?;
            for ordinal in 0..self.snapshot.visible_devices as i64 {
                let device = excerpt.devices.iter().find(|device| device.ordinal == ordinal);
                self.trace(device)?;
            }
            self.pickle.end()?;
        }
        if keys.has("allocator_settings") {
            self.pickle.key("allocator_settings")?;
            self.pickle.value(&*excerpt.names.settings())?;
        }
        if keys.has("external_annotations") {
            self.pickle.key("external_annotations")?;
            self.annotations()?;
        }
        if keys.has("host_segments") {
            self.pickle.key("host_segments")?;
            self.segments(excerpt.host.iter())?;
        }
        if keys.has("host_traces") {
            self.pickle.key("host_traces")?;
            self.trace(excerpt.host.as_ref())?;
        }
        self.pickle.end()?;
        Ok(())
    }

    fn segments<'d>(&mut self, devices: impl Iterator<Item = &'d DeviceExcerpt<'d>>) -> Result<()> {
        self.pickle.begin_list()?;
        for device in devices {
            for segment in device.segments.iter() {
                self.segment(segment, &device.blocks[segment.blocks.clone()])?;
            }
        }
        self.pickle.end()?;
        Ok(())
    }

    fn segment(&mut self, segment: &Segment, blocks: &[Block]) -> Result<()> {
        self.pickle.begin_dict()?;
        self.pickle.key("device")?;
        self.pickle.i64(segment.device)?;
        self.pointer("address", segment.address)?;
        self.size("total_size", segment.total_size)?;
        let sums = [
            ("allocated_size", segment.allocated_size),
            ("active_size", segment.active_size),
            ("requested_size", segment.requested_size),
        ];
        for (key, sum) in sums {
            if let Some(sum) = sum {
                self.size(key, sum)?;
            }
        }
        if self.schema.segment_stream {
            self.pointer("stream", self.snapshot.streams[segment.stream.index()])?;
        }
        if self.schema.segment_type {
            let kind = if segment.kind == PoolKind::Small { "small" } else { "large" };
            self.interned("segment_type", kind)?;
        }
        if self.schema.segment_pool {
            self.pool("segment_pool_id", segment.pool)?;
        }
        if self.schema.is_expandable {
            self.pickle.key("is_expandable")?;
            self.pickle.bool(segment.expandable)?;
        }
        if self.schema.segment_frames {
            self.pickle.key("frames")?;
            self.bare_stack(segment.stack)?;
        }
        self.forward(segment.forward)?;
        if self.schema.blocks {
            self.pickle.key("blocks")?;
            self.pickle.begin_list()?;
            for block in blocks {
                self.block(block)?;
            }
            self.pickle.end()?;
        }
        self.pickle.end()?;
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Result<()> {
        self.pickle.begin_dict()?;
        if self.schema.block_address {
            self.pointer("address", block.address)?;
        }
        self.size("size", block.size)?;
        if self.schema.block_requested {
            self.size("requested_size", block.stated)?;
        }
        let state = match block.state {
            BlockState::Allocated => "active_allocated",
            BlockState::Pending => "active_pending_free",
            BlockState::Inactive => "inactive",
        };
        self.interned("state", state)?;
        if self.schema.block_frames {
            self.pickle.key("frames")?;
            self.stack(block.stack)?;
        }
        self.forward(block.forward)?;
        if self.schema.history {
            self.history(block)?;
        }
        self.pickle.end()?;
        Ok(())
    }

    /// The users of a block. The key is absent where there is none, as torch 2.0 has it.
    fn history(&mut self, block: &Block) -> Result<()> {
        let HistoryRows { len, .. } = block.history;
        if len == 0 {
            return Ok(());
        }
        self.pickle.key("history")?;
        self.pickle.begin_list()?;
        for user in &self.snapshot.extras.histories[block.history.range()] {
            self.pickle.begin_dict()?;
            self.pointer("addr", user.addr)?;
            self.size("real_size", user.real_size)?;
            if self.schema.history_frames {
                self.pickle.key("frames")?;
                self.stack(user.stack)?;
            }
            self.pickle.end()?;
        }
        self.pickle.end()?;
        Ok(())
    }

    fn trace(&mut self, device: Option<&DeviceExcerpt>) -> Result<()> {
        self.pickle.begin_list()?;
        if let Some(device) = device {
            for row in device.events.clone() {
                self.event(&self.snapshot.events.get(row), device.ordinal)?;
            }
        }
        self.pickle.end()?;
        Ok(())
    }

    fn event(&mut self, event: &Event, device: i64) -> Result<()> {
        self.pickle.begin_dict()?;
        match event.action {
            Action::Other => self.text("action", event.other)?,
            action => self.interned("action", action.name())?,
        }
        self.pointer(if event.action == Action::Oom { "device_free" } else { "addr" }, event.addr)?;
        self.size("size", event.size)?;
        if self.schema.event_device {
            self.pickle.key("device")?;
            self.pickle.i64(device)?;
        }
        if self.schema.event_stream {
            self.pointer("stream", self.snapshot.streams[event.stream.index()])?;
        }
        if self.schema.time_us {
            self.size("time_us", event.time_us)?;
        }
        if self.schema.compile_context {
            self.text("compile_context", event.compile_context)?;
        }
        if self.schema.user_metadata {
            self.text("user_metadata", event.user_metadata)?;
        }
        if self.schema.pool_id {
            self.pool("pool_id", event.pool)?;
        }
        for (key, text) in [("internal_metadata", event.internal_metadata), ("category", event.category)] {
            if text != StrId::default() {
                self.text(key, text)?;
            }
        }
        if event.stack != StackId::NONE {
            self.pickle.key("frames")?;
            self.stack(event.stack)?;
        }
        self.forward(event.forward)?;
        self.pickle.end()?;
        Ok(())
    }

    fn annotations(&mut self) -> Result<()> {
        let pairs = &self.snapshot.extras.annotation_pairs;
        let excerpt = self.excerpt;
        self.pickle.begin_list()?;
        for (row, annotation) in (0..).zip(&self.snapshot.annotations) {
            if !excerpt.has_time(annotation.time_us) {
                continue;
            }
            self.pickle.begin_dict()?;
            self.text("name", annotation.name)?;
            self.interned("stage", if annotation.starts { "START" } else { "END" })?;
            self.pickle.key("device")?;
            self.pickle.i64(annotation.device)?;
            self.size("time_us", annotation.time_us)?;
            let first = pairs.partition_point(|(other, ..)| *other < row);
            for (_, key, value) in pairs[first..].iter().take_while(|(other, ..)| *other == row) {
                self.pickle.key(&excerpt.names.text(*key))?;
                self.pickle.interned(&excerpt.names.text(*value))?;
            }
            self.pickle.end()?;
        }
        self.pickle.end()?;
        Ok(())
    }

    fn stack(&mut self, id: StackId) -> Result<()> {
        if id == StackId::NONE {
            return self.stack(StackId::EMPTY);
        }
        if let Some(handle) = self.stacks[id.index()] {
            return Ok(self.pickle.refer(handle)?);
        }
        self.pickle.begin_list()?;
        self.stacks[id.index()] = Some(self.pickle.share()?);
        for &frame in self.snapshot.stacks.get(id) {
            self.frame(frame)?;
        }
        self.pickle.end()?;
        Ok(())
    }

    fn frame(&mut self, id: FrameId) -> Result<()> {
        if let Some(handle) = self.frames[id.index()] {
            return Ok(self.pickle.refer(handle)?);
        }
        let handle = self.new_frame(id, true)?;
        self.frames[id.index()] = Some(handle);
        Ok(())
    }

    /// The stack `id` as segments have it.
    fn bare_stack(&mut self, id: StackId) -> Result<()> {
        let frames = self.snapshot.stacks.get(id);
        let fx = &self.snapshot.extras.fx;
        if fx.is_empty() || !frames.iter().any(|frame| fx.contains_key(frame)) {
            return self.stack(id);
        }
        if let Some(&handle) = self.bare_stacks.get(&id) {
            return Ok(self.pickle.refer(handle)?);
        }
        self.pickle.begin_list()?;
        let handle = self.pickle.share()?;
        self.bare_stacks.insert(id, handle);
        for frame in frames {
            match self.bare_frames.get(frame) {
                Some(&handle) => self.pickle.refer(handle)?,
                None if !fx.contains_key(frame) => self.frame(*frame)?,
                None => {
                    let handle = self.new_frame(*frame, false)?;
                    self.bare_frames.insert(*frame, handle);
                }
            }
        }
        self.pickle.end()?;
        Ok(())
    }

    fn new_frame(&mut self, id: FrameId, with_fx: bool) -> Result<Handle> {
        let names = &self.excerpt.names;
        let fx = self.snapshot.extras.fx.get(&id).filter(|_| with_fx).copied().unwrap_or_default();
        let text = |value: Option<Option<StrId>>| value.map(|value| value.map(|id| names.text(id)));
        let [op, name, target, trace] = [text(fx.op), text(fx.name), text(fx.target), text(fx.original_trace)];
        self.pickle.value(&FrameRecord {
            name: &names.function(id),
            filename: &names.filename(id),
            line: self.snapshot.frame(id).line,
            fx_node_op: op.as_ref().map(Option::as_deref),
            fx_node_name: name.as_ref().map(Option::as_deref),
            fx_node_target: target.as_ref().map(Option::as_deref),
            fx_original_trace: trace.as_ref().map(Option::as_deref),
        })?;
        Ok(self.pickle.share()?)
    }

    /// The lines of a stack of the forward pass; nothing where there is none.
    fn forward(&mut self, id: StackId) -> Result<()> {
        if id == StackId::NONE {
            return Ok(());
        }
        self.pickle.key("forward_frames")?;
        if let Some(&handle) = self.forward_stacks.get(&id) {
            return Ok(self.pickle.refer(handle)?);
        }
        self.pickle.begin_list()?;
        let handle = self.pickle.share()?;
        self.forward_stacks.insert(id, handle);
        for &frame in self.snapshot.stacks.get(id) {
            self.pickle.interned(&self.excerpt.names.function(frame))?;
        }
        self.pickle.end()?;
        Ok(())
    }

    fn pool(&mut self, key: &str, id: PoolId) -> Result<()> {
        self.pickle.key(key)?;
        if let Some(handle) = self.pools[id.index()] {
            return Ok(self.pickle.refer(handle)?);
        }
        let (first, second) = self.snapshot.pools[id.index()];
        self.pickle.begin_tuple(2)?;
        self.put_pointer(first)?;
        self.put_pointer(second)?;
        self.pickle.end()?;
        self.pools[id.index()] = Some(self.pickle.share()?);
        Ok(())
    }

    fn size(&mut self, key: &str, value: u64) -> Result<()> {
        self.pickle.key(key)?;
        Ok(self.pickle.u64(value)?)
    }

    fn pointer(&mut self, key: &str, value: u64) -> Result<()> {
        self.pickle.key(key)?;
        self.put_pointer(value)
    }

    /// A pointer in the form that the file has.
    fn put_pointer(&mut self, value: u64) -> Result<()> {
        match self.schema.wide_pointers {
            true => self.pickle.u64(value)?,
            false => self.pickle.i64(value as i64)?,
        }
        Ok(())
    }

    fn interned(&mut self, key: &str, value: &str) -> Result<()> {
        self.pickle.key(key)?;
        Ok(self.pickle.interned(value)?)
    }

    fn text(&mut self, key: &str, value: StrId) -> Result<()> {
        let text = self.excerpt.names.text(value);
        self.interned(key, &text)
    }
}
