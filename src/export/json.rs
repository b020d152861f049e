//! `json`: the whole model, for `jq` and scripts.
//!
//! One row a line. Frames and stacks are tables of their own, and rows name them by number: a trace repeats few stacks
//! many times. Sizes are in bytes, times in microseconds since 1970.

use std::io::Write;

use serde::Serialize;

use super::{DeviceExcerpt, Excerpt, Result, Role, SnapshotFormat};
use crate::allocator::PoolKind;
use crate::snapshot::{Action, BlockState, Event, FrameId, PoolId, Snapshot, StackId, StrId};

/// The whole model as JSON.
pub struct Json;

#[derive(Serialize)]
struct FrameRow<'a> {
    name: &'a str,
    filename: &'a str,
    line: u32,
}

#[derive(Serialize)]
struct SegmentRow {
    address: u64,
    total_size: u64,
    kind: &'static str,
    stream: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<(u64, u64)>,
    expandable: bool,
    stack: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forward: Option<u32>,
}

#[derive(Serialize)]
struct BlockRow {
    address: u64,
    size: u64,
    requested: u64,
    state: BlockState,
    stack: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forward: Option<u32>,
}

#[derive(Serialize)]
struct EventRow<'a> {
    event: usize,
    action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    addr: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_free: Option<u64>,
    size: u64,
    stream: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_us: Option<u64>,
    stack: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<(u64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forward: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    compile_context: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    user_metadata: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    internal_metadata: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    category: &'a str,
}

#[derive(Serialize)]
struct AnnotationRow<'a> {
    name: &'a str,
    stage: &'static str,
    device: i64,
    time_us: u64,
}

impl SnapshotFormat for Json {
    fn write(&self, excerpt: &Excerpt, out: &mut dyn Write) -> Result<()> {
        let snapshot = excerpt.snapshot;
        writeln!(out, "{{\n\"format\": {},", serde_json::to_string(&snapshot.format)?)?;
        writeln!(out, "\"visible_devices\": {},", snapshot.visible_devices)?;
        writeln!(out, "\"settings\": {},", serde_json::to_string(excerpt.names.settings())?)?;
        let mut json = Rows { excerpt, snapshot, out };
        json.list("frames", 0..snapshot.frames.len(), Rows::frame)?;
        json.separate()?;
        json.list("stacks", 0..snapshot.stacks.len(), Rows::stack)?;
        json.separate()?;
        let annotations = &snapshot.annotations;
        let kept = (0..annotations.len()).filter(|&row| excerpt.has_time(annotations[row].time_us));
        json.list("annotations", kept, Rows::annotation)?;
        json.separate()?;
        json.list("devices", excerpt.devices.iter(), Rows::device)?;
        json.separate()?;
        write!(json.out, "\"host\": ")?;
        match &excerpt.host {
            Some(host) => json.device(host)?,
            None => write!(json.out, "null")?,
        }
        writeln!(json.out, "\n}}")?;
        Ok(())
    }
}

struct Rows<'e, 'a, 'w> {
    excerpt: &'e Excerpt<'a>,
    snapshot: &'a Snapshot,
    out: &'w mut dyn Write,
}

impl Rows<'_, '_, '_> {
    /// `"key": [` and a line for each of `items`, which `row` writes.
    fn list<T>(
        &mut self,
        key: &str,
        items: impl Iterator<Item = T>,
        row: impl Fn(&mut Self, T) -> Result<()>,
    ) -> Result<()> {
        write!(self.out, "\"{key}\": [")?;
        for (at, item) in items.enumerate() {
            self.out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
            row(self, item)?;
        }
        self.out.write_all(b"]")?;
        Ok(())
    }

    fn separate(&mut self) -> Result<()> {
        Ok(self.out.write_all(b",\n")?)
    }

    fn put(&mut self, row: &impl Serialize) -> Result<()> {
        Ok(serde_json::to_writer(&mut *self.out, row)?)
    }

    fn frame(&mut self, row: usize) -> Result<()> {
        let id = FrameId(row as u32);
        let names = &self.excerpt.names;
        let (name, filename) = (names.function(id), names.filename(id));
        self.put(&FrameRow { name: &name, filename: &filename, line: self.snapshot.frame(id).line })
    }

    fn stack(&mut self, row: usize) -> Result<()> {
        let frames: Vec<u32> = self.snapshot.stacks.get(StackId(row as u32)).iter().map(|frame| frame.0).collect();
        self.put(&frames)
    }

    fn annotation(&mut self, row: usize) -> Result<()> {
        let annotation = self.snapshot.annotations[row];
        let name = self.excerpt.names.text(Role::Annotation, annotation.name);
        self.put(&AnnotationRow {
            name: &name,
            stage: if annotation.starts { "START" } else { "END" },
            device: annotation.device,
            time_us: annotation.time_us,
        })
    }

    fn device(&mut self, device: &DeviceExcerpt) -> Result<()> {
        write!(self.out, "{{\"device\": {}, ", device.ordinal)?;
        self.list("segments", device.segments.iter(), |json, segment| {
            let row = SegmentRow {
                address: segment.address,
                total_size: segment.total_size,
                kind: if segment.kind == PoolKind::Small { "small" } else { "large" },
                stream: json.snapshot.streams[segment.stream.index()],
                pool: json.pool(segment.pool),
                expandable: segment.expandable,
                stack: stack(segment.stack),
                forward: stack(segment.forward),
            };
            // The blocks stand on lines of their own in their segment.
            let text = serde_json::to_string(&row)?;
            write!(json.out, "{}, ", text.trim_end_matches('}'))?;
            json.list("blocks", device.blocks[segment.blocks.clone()].iter(), |json, block| {
                json.put(&BlockRow {
                    address: block.address,
                    size: block.size,
                    requested: block.requested,
                    state: block.state,
                    stack: stack(block.stack),
                    forward: stack(block.forward),
                })
            })?;
            Ok(json.out.write_all(b"}")?)
        })?;
        self.separate()?;
        let first = self.snapshot.devices.iter().chain(&self.snapshot.host);
        let first = first.map(|known| &known.events).find(|events| events.contains(&device.events.start));
        let first = first.map_or(device.events.start, |events| events.start);
        self.list("events", device.events.clone(), |json, row| {
            let event = json.snapshot.events.get(row);
            json.event(row - first, &event)
        })?;
        Ok(self.out.write_all(b"}")?)
    }

    fn event(&mut self, number: usize, event: &Event) -> Result<()> {
        let names = &self.excerpt.names;
        let text = |role, id: StrId| if id == StrId::default() { "".into() } else { names.text(role, id) };
        let [internal, category] = [event.internal_metadata, event.category].map(|id| text(Role::Internal, id));
        let other = text(Role::Action, event.other);
        let is_oom = event.action == Action::Oom;
        self.put(&EventRow {
            event: number,
            action: if event.action == Action::Other { &other } else { event.action.name() },
            addr: (!is_oom).then_some(event.addr),
            device_free: is_oom.then_some(event.addr),
            size: event.size,
            stream: self.snapshot.streams[event.stream.index()],
            time_us: self.snapshot.events.time_us.is_used().then_some(event.time_us),
            stack: stack(event.stack),
            pool: self.pool(event.pool),
            forward: stack(event.forward),
            compile_context: &text(Role::Context, event.compile_context),
            user_metadata: &text(Role::Metadata, event.user_metadata),
            internal_metadata: &internal,
            category: &category,
        })
    }

    fn pool(&self, id: PoolId) -> Option<(u64, u64)> {
        (id != PoolId::DEFAULT).then(|| self.snapshot.pools[id.index()])
    }
}

fn stack(id: StackId) -> Option<u32> {
    (id != StackId::NONE).then_some(id.0)
}
