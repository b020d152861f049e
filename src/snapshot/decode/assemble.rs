//! From the decoded top-level value to a [`Snapshot`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::builder::SnapshotBuilder;
use super::shape::Shape;
use super::slots::{DictSlot, ListSlot};
use super::used::Used;
use super::word::{Item, Wide, Word};
use crate::pickle::BuildError;
use crate::snapshot::format::{Evidence, Format, Writer, bracket};
use crate::snapshot::ids::StrId;
use crate::snapshot::keys;
use crate::snapshot::load::LoadError;
use crate::snapshot::schema::Keys;
use crate::snapshot::segments::{Block, Segment};
use crate::snapshot::settings::Settings;
use crate::snapshot::{Device, Snapshot, Warning};

/// Nesting to which a settings value is kept; the format nests two deep.
const SETTINGS_DEPTH: usize = 4;

/// Unknown keys and actions that a warning names.
const UNKNOWN_NAMES: usize = 20;

/// Characters of such a name that are shown.
const UNKNOWN_LENGTH: usize = 80;

/// Devices that a file may speak of; PyTorch is built for at most 120.
const MAX_DEVICES: usize = 128;

/// Values that are kept of all settings together; torch writes about 30. Dicts may be shared, so that a small file can
/// describe an immense tree.
const SETTINGS_VALUES: usize = 10_000;

impl SnapshotBuilder {
    /// The items of list number `list`, in order, as far as they were kept as items.
    pub(super) fn items_of_list(&self, list: u32) -> &[Word] {
        match self.lists.get(list) {
            ListSlot::Items(kept) => &self.items_of[kept as usize],
            _ => &[],
        }
    }

    /// The rows of `shape` that list number `list` holds; items of another shape are skipped.
    fn list_rows(&mut self, list: u32, shape: Shape) -> Result<Vec<u32>, BuildError> {
        if let ListSlot::Rows(found, at) = self.lists.get(list)
            && found == shape
        {
            return Ok(self.ranges[at as usize].clone().collect());
        }
        let mut rows = Vec::new();
        for item in self.items_of_list(list).to_vec() {
            if let Item::Dict(dict) = item.item()
                && let Some((found, row)) = self.sealed(dict)?
                && found == shape
            {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// How many items list number `list` has.
    fn list_len(&self, list: u32) -> usize {
        match self.lists.get(list) {
            ListSlot::Fresh => 0,
            ListSlot::Stack(stack) | ListSlot::Sealed(stack) => self.stacks.get(stack).len(),
            ListSlot::Rows(_, at) => self.ranges[at as usize].len(),
            ListSlot::Items(kept) => self.items_of[kept as usize].len(),
        }
    }

    /// The pairs of a dict that was kept as it came.
    fn pairs(&self, value: Word) -> &[Word] {
        match value.item() {
            Item::Dict(dict) => match self.dicts.get(dict) {
                DictSlot::Pairs(kept) => &self.pairs_of[kept as usize],
                _ => &[],
            },
            _ => &[],
        }
    }

    /// A settings value as JSON. `budget` is the number of values still allowed.
    fn json(&self, value: Word, depth: usize, budget: &mut usize) -> serde_json::Value {
        *budget = budget.saturating_sub(1);
        match value.item() {
            Item::Bool(value) => value.into(),
            Item::Int(value) => value.into(),
            Item::Text(id) => self.strings.get(id).into(),
            Item::Wide(row) => match self.wides[row as usize] {
                Wide::Signed(value) => value.into(),
                Wide::Unsigned(value) => value.into(),
                Wide::Float(value) => value.into(),
            },
            Item::Dict(_) if depth > 0 => {
                let mut object = serde_json::Map::new();
                for pair in self.pairs(value).chunks_exact(2) {
                    if *budget == 0 {
                        break;
                    }
                    if let Item::Text(key) = pair[0].item() {
                        object.insert(self.strings.get(key).to_owned(), self.json(pair[1], depth - 1, budget));
                    }
                }
                object.into()
            }
            _ => serde_json::Value::Null,
        }
    }

    /// Builds the snapshot whose outermost value is `top`.
    pub(in crate::snapshot) fn assemble(self, top: Word, protocol: Option<u8>) -> Result<Snapshot, LoadError> {
        self.build(top, protocol, None).map(|(snapshot, _)| snapshot)
    }

    /// [`assemble`](Self::assemble) of a file that broke off while the containers `open` were being filled. Answers
    /// with what is missing, in words.
    pub(in crate::snapshot) fn assemble_open(
        self,
        top: Word,
        protocol: Option<u8>,
        open: &[Word],
    ) -> Result<(Snapshot, String), LoadError> {
        self.build(top, protocol, Some(open))
    }

    fn build(
        mut self,
        top: Word,
        protocol: Option<u8>,
        open: Option<&[Word]>,
    ) -> Result<(Snapshot, String), LoadError> {
        let mut parts = TopLevel::default();
        match top.item() {
            Item::List(list) => parts.segments = Some(list),
            Item::Dict(_) => self.read_top_level(top, &mut parts),
            _ => {}
        }
        if parts.segments.is_none() && parts.device_traces.is_none() {
            return Err(LoadError::NoSegments);
        }
        let mut warnings = self.unknown();
        let mut table = SegmentTable::new(self.blocks.len());
        if let Some(list) = parts.segments {
            self.segments_into(list, "segments", &mut table, &mut warnings)?;
            if table.segments.is_empty() && self.list_len(list) > 0 && parts.device_traces.is_none() {
                return Err(LoadError::NoSegments);
            }
        }
        let device_segments = table.segments.len();
        if let Some(list) = parts.host_segments {
            self.segments_into(list, "host_segments", &mut table, &mut warnings)?;
        }
        let mut traces = Vec::new();
        let mut used = Used::of(self.events.len());
        if let Some(list) = parts.device_traces {
            let items = self.items_of_list(list);
            if items.len() > MAX_DEVICES {
                let count = items.len() - MAX_DEVICES;
                warnings.push(Warning::DroppedItems { list: "device_traces", count });
            }
            let items: Vec<Word> = items.iter().copied().take(MAX_DEVICES).collect();
            for item in items {
                let trace = match item.item() {
                    Item::List(trace) => self.trace(trace, &mut used, &mut warnings)?,
                    _ => 0..0,
                };
                traces.push(trace);
            }
        }
        let host_trace = match parts.host_traces {
            Some(list) => self.trace(list, &mut used, &mut warnings)?,
            None => 0..0,
        };

        let evidence = Evidence {
            schema: &self.schema,
            top: parts.keys.as_deref(),
            settings: &parts.settings_keys,
            has_events: !self.events.is_empty(),
            has_blocks: !table.blocks.is_empty(),
        };
        let (torch_at_least, torch_below) = bracket(&evidence);
        let mut format = Format { protocol, torch_at_least, torch_below, writer: self.writer(protocol) };
        // Keys that are not there yet tell nothing of a file that breaks off.
        if format.writer == Writer::TorchNpu || open.is_some() {
            format.torch_below = None;
        }
        let lost = open.map(|open| self.lost(&parts, open));
        let (mut settings, problems) = Settings::new(parts.settings, torch_at_least);
        warnings.extend(problems.into_iter().map(Warning::Setting));
        // Before 2.3 the settings are not in the file, but what they did is.
        settings.rules.expandable |= !settings.recorded && table.segments.iter().any(|segment| segment.expandable);

        let mut devices = devices(&table.segments[..device_segments], &traces);
        let mut missing = String::new();
        if let Some(lost) = lost {
            for device in &mut devices {
                let trace = usize::try_from(device.ordinal).ok().and_then(|at| lost.traces.get(at));
                device.cut = *trace.unwrap_or(&lost.further_traces);
            }
            missing = lost.in_words(device_segments, &devices);
        }
        let host = Device {
            ordinal: -1,
            segments: device_segments..table.segments.len(),
            events: host_trace,
            consistent: true,
            cut: false,
        };
        self.schema.top = parts.keys.as_ref().map(|names| {
            let mut top = Keys::default();
            names.iter().for_each(|&name| top.insert(StrId(name)));
            top
        });
        self.schema.traces = traces.len();
        self.bound_names();
        if self.cut_texts > 0 {
            warnings.push(Warning::CutTexts(self.cut_texts));
        }
        let has_host = !host.segments.is_empty() || !host.events.is_empty();
        let mut snapshot = Snapshot {
            visible_devices: traces.len().max(devices.len()),
            devices,
            host: has_host.then_some(host),
            segments: table.segments,
            blocks: table.blocks,
            events: self.events,
            annotations: self.annotations,
            settings,
            format,
            warnings,
            schema: self.schema,
            extras: self.extras,
            strings: self.strings,
            frames: self.frames.rows,
            stacks: self.stacks,
            streams: self.streams.rows,
            pools: self.pools.rows,
        };
        snapshot.check();
        Ok((snapshot, missing))
    }

    /// Which of `parts` lack items, as the containers `open` were being filled.
    fn lost(&self, parts: &TopLevel, open: &[Word]) -> Lost {
        let is_open = |list: u32| open.contains(&Word::new(Item::List(list)));
        let traces = parts.device_traces.map_or(&[][..], |list| self.items_of_list(list));
        let list_of = |trace: &Word| match trace.item() {
            Item::List(list) => Some(list),
            _ => None,
        };
        Lost {
            segments: parts.segments.is_none_or(is_open),
            traces: traces.iter().map(|trace| list_of(trace).is_none_or(is_open)).collect(),
            further_traces: parts.device_traces.is_none_or(is_open),
        }
    }

    fn read_top_level(&mut self, top: Word, parts: &mut TopLevel) {
        let mut names = Vec::new();
        let mut budget = SETTINGS_VALUES;
        for pair in self.pairs(top).chunks_exact(2) {
            let Item::Text(key) = pair[0].item() else { continue };
            names.push(key.0);
            let list = match pair[1].item() {
                Item::List(list) => Some(list),
                _ => None,
            };
            match key.0 {
                keys::SEGMENTS => parts.segments = list,
                keys::DEVICE_TRACES => parts.device_traces = list,
                keys::HOST_SEGMENTS => parts.host_segments = list,
                keys::HOST_TRACES => parts.host_traces = list,
                keys::ALLOCATOR_SETTINGS => {
                    for setting in self.pairs(pair[1]).chunks_exact(2) {
                        let Item::Text(name) = setting[0].item() else { continue };
                        parts.settings_keys.push(name.0);
                        let value = self.json(setting[1], SETTINGS_DEPTH, &mut budget);
                        parts.settings.insert(self.strings.get(name).to_owned(), value);
                    }
                }
                _ => {}
            }
        }
        parts.keys = Some(names);
    }

    /// One warning for all keys and actions that have no meaning here.
    fn unknown(&self) -> Vec<Warning> {
        let mut names: BTreeMap<String, u64> = BTreeMap::new();
        let shown = |id| self.strings.get(id).chars().take(UNKNOWN_LENGTH).collect::<String>();
        for ((shape, key), count) in &self.unknown_keys {
            let row = match shape {
                Shape::Event => "trace entry",
                Shape::Frame => "frame",
                Shape::Block => "block",
                Shape::Segment => "segment",
                Shape::History => "history entry",
                Shape::Annotation => "annotation",
            };
            names.insert(format!("key `{}` of a {row}", shown(*key)), *count);
        }
        for (action, count) in &self.unknown_actions {
            names.insert(format!("action `{}`", shown(*action)), *count);
        }
        let mut warnings = Vec::new();
        if !names.is_empty() {
            let named = names.iter().take(UNKNOWN_NAMES);
            let mut list: Vec<_> = named.map(|(name, count)| format!("{name} ({count} times)")).collect();
            if names.len() > UNKNOWN_NAMES {
                list.push(format!("and {} more", names.len() - UNKNOWN_NAMES));
            }
            warnings.push(Warning::Unknown(list.join(", ")));
        }
        if self.implausible_sizes > 0 {
            warnings.push(Warning::ImplausibleSizes(self.implausible_sizes));
        }
        warnings
    }

    fn writer(&self, protocol: Option<u8>) -> Writer {
        let is_npu = |frame: &crate::snapshot::Frame| self.strings.get(frame.filename).contains("torch_npu");
        match protocol {
            None => Writer::Json,
            _ if self.frames.rows.iter().any(is_npu) => Writer::TorchNpu,
            Some(2) if self.empty_batches => Writer::Cpp,
            Some(_) => Writer::Python,
        }
    }

    /// Appends the segments of list number `list`, ordered by device and address.
    fn segments_into(
        &mut self,
        list: u32,
        name: &'static str,
        table: &mut SegmentTable,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), BuildError> {
        let mut rows = self.list_rows(list, Shape::Segment)?;
        rows.sort_by_key(|&row| {
            let segment = &self.segments[row as usize].segment;
            (segment.device, segment.address, row)
        });
        // The same dict, referred to again: genuine segments are written out each.
        rows.dedup();
        let known = -1..MAX_DEVICES as i64;
        rows.retain(|&row| known.contains(&self.segments[row as usize].segment.device));
        let dropped = self.list_len(list) - rows.len();
        if dropped > 0 {
            warnings.push(Warning::DroppedItems { list: name, count: dropped });
        }
        let has_addresses = self.schema.block.has_id(keys::ADDRESS);
        table.segments.reserve_exact(rows.len());
        let mut missing = 0;
        for row in rows {
            let raw = &self.segments[row as usize];
            let (mut segment, blocks) = (raw.segment.clone(), raw.blocks);
            let start = table.blocks.len();
            if let Some(list) = blocks {
                for block in self.list_rows(list, Shape::Block)? {
                    // A block belongs to one segment, once.
                    if table.used.take(block) {
                        table.blocks.push(self.blocks[block as usize]);
                    }
                }
                missing += self.list_len(list) - (table.blocks.len() - start);
            }
            let blocks = &mut table.blocks[start..];
            if has_addresses {
                blocks.sort_by_key(|block| block.address);
            } else {
                // Before torch 2.1 blocks have no address: they follow each other from the segment's start.
                let mut address = segment.address;
                for block in blocks {
                    block.address = address;
                    address = block.end();
                }
            }
            segment.blocks = start..table.blocks.len();
            table.segments.push(segment);
        }
        if missing > 0 {
            warnings.push(Warning::DroppedItems { list: "blocks", count: missing });
        }
        Ok(())
    }

    /// The rows of one device's trace. An entry belongs to one trace, once: what was `used` before is left out.
    fn trace(&mut self, list: u32, used: &mut Used, warnings: &mut Vec<Warning>) -> Result<Range<usize>, BuildError> {
        if let ListSlot::Rows(Shape::Event, at) = self.lists.get(list) {
            let rows = self.ranges[at as usize].clone();
            if used.take_all(rows.clone()) {
                return Ok(rows.start as usize..rows.end as usize);
            }
        }
        let mut rows = self.list_rows(list, Shape::Event)?;
        rows.retain(|&row| used.take(row));
        let dropped = self.list_len(list) - rows.len();
        if dropped > 0 {
            warnings.push(Warning::DroppedItems { list: "device_traces", count: dropped });
        }
        let start = self.events.len();
        for row in rows {
            let event = self.events.get(row as usize);
            self.events.push(&event);
        }
        Ok(start..self.events.len())
    }
}

/// What a file lacks that breaks off.
struct Lost {
    segments: bool,
    /// Whether the trace of each device that has one lacks entries.
    traces: Vec<bool>,
    /// Whether traces of further devices may be missing.
    further_traces: bool,
}

impl Lost {
    fn in_words(&self, segments: usize, devices: &[Device]) -> String {
        let mut words = Vec::new();
        if self.segments {
            words.push(format!("segments after the first {segments}, so that all totals are too low"));
        }
        for device in devices.iter().filter(|device| device.cut) {
            words.push(match device.events.len() {
                0 => format!("the trace of device {}", device.ordinal),
                count => format!("the trace of device {} after its first {count} entries", device.ordinal),
            });
        }
        if words.is_empty() {
            words.push("what follows the traces (settings, annotations)".to_owned());
        }
        words.join("; ")
    }
}

/// The values of the top-level keys.
#[derive(Default)]
struct TopLevel {
    keys: Option<Vec<u32>>,
    segments: Option<u32>,
    device_traces: Option<u32>,
    host_segments: Option<u32>,
    host_traces: Option<u32>,
    settings: BTreeMap<String, serde_json::Value>,
    settings_keys: Vec<u32>,
}

struct SegmentTable {
    segments: Vec<Segment>,
    blocks: Vec<Block>,
    /// The blocks of the builder that are in `blocks`.
    used: Used,
}

impl SegmentTable {
    /// An empty one, of at most `blocks` blocks.
    fn new(blocks: usize) -> Self {
        Self { segments: Vec::new(), blocks: Vec::with_capacity(blocks), used: Used::of(blocks) }
    }
}

/// Devices with memory or a trace: the n-th trace belongs to device n.
fn devices(segments: &[Segment], traces: &[Range<usize>]) -> Vec<Device> {
    let with_segments = segments.iter().map(|segment| segment.device);
    let with_trace = traces.iter().zip(0..).filter(|(trace, _)| !trace.is_empty()).map(|(_, ordinal)| ordinal);
    let ordinals: BTreeSet<i64> = with_segments.chain(with_trace).collect();
    let device = |ordinal: i64| {
        let start = segments.partition_point(|segment| segment.device < ordinal);
        let end = segments.partition_point(|segment| segment.device <= ordinal);
        let events = usize::try_from(ordinal).ok().and_then(|at| traces.get(at)).cloned().unwrap_or(0..0);
        Device { ordinal, segments: start..end, events, consistent: true, cut: false }
    };
    ordinals.into_iter().map(device).collect()
}
