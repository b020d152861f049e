//! A heap profile as `go tool pprof`, speedscope and Pyroscope read it: gzipped protocol buffers.
//!
//! The field numbers are those of `proto/profile.proto` in github.com/google/pprof. The top-level fields are written
//! one by one, so that only the tables of names are kept.

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::protobuf::Message;
use super::{Result, SeriesFormat};
use crate::analysis::folded::{Frames, kept};
use crate::analysis::profile::{Sample, profile};
use crate::analysis::sites::{By, Sites};
use crate::history::{At, History};
use crate::snapshot::{FrameId, Snapshot, StackId};

/// The pprof format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pprof {
    /// The moment whose live blocks are counted.
    pub at: At,
    /// Frames that are kept.
    pub frames: Frames,
}

/// Fields of `Profile`.
mod field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING_TABLE: u64 = 6;
    pub const TIME_NANOS: u64 = 9;
    pub const DURATION_NANOS: u64 = 10;
    pub const COMMENT: u64 = 13;
    pub const DEFAULT_SAMPLE_TYPE: u64 = 14;

    /// What a `Mapping` says of its locations.
    pub mod mapping {
        pub const FUNCTIONS: u64 = 7;
        pub const FILENAMES: u64 = 8;
        pub const LINE_NUMBERS: u64 = 9;
    }
}

/// The mapping that all locations belong to. Without one that is said to have names, pprof looks for a binary to take
/// them from, and reports that there is none.
const MAPPING: u64 = 1;

/// What each sample has a value of, in the order of [`values`].
const SAMPLE_TYPES: [(&str, &str); 4] =
    [("live_objects", "count"), ("live_space", "bytes"), ("alloc_objects", "count"), ("alloc_space", "bytes")];

fn values(sample: &Sample) -> [u64; 4] {
    [sample.live.blocks, sample.live.bytes, sample.allocated.blocks, sample.allocated.bytes]
}

impl SeriesFormat for Pprof {
    fn write(&self, histories: &[History], out: &mut dyn Write) -> Result<()> {
        let mut out = GzEncoder::new(out, Compression::default());
        if let Some(first) = histories.first() {
            Writer::new(first.snapshot, self.frames).profile(self.at, histories, &mut out)?;
        }
        out.finish()?;
        Ok(())
    }
}

/// The tables that samples refer to.
struct Writer<'a> {
    snapshot: &'a Snapshot,
    sites: Sites<'a>,
    frames: Frames,
    strings: Numbers<String>,
    /// Function, file.
    functions: Numbers<(u64, u64)>,
    /// Function, line.
    locations: Numbers<(u64, u64)>,
}

/// Distinct values, numbered in order of appearance.
struct Numbers<T> {
    first: u64,
    values: Vec<T>,
    known: HashMap<T, u64>,
}

impl<T: Clone + Eq + std::hash::Hash> Numbers<T> {
    fn starting_at(first: u64) -> Self {
        Self { first, values: Vec::new(), known: HashMap::new() }
    }

    fn of(&mut self, value: T) -> u64 {
        let next = self.first + self.values.len() as u64;
        let Self { values, known, .. } = self;
        *known.entry(value).or_insert_with_key(|value| {
            values.push(value.clone());
            next
        })
    }

    fn all(&self) -> impl Iterator<Item = (u64, &T)> {
        (self.first..).zip(&self.values)
    }
}

impl<'a> Writer<'a> {
    fn new(snapshot: &'a Snapshot, frames: Frames) -> Self {
        let mut strings = Numbers::starting_at(0);
        strings.of(String::new());
        Self {
            snapshot,
            sites: Sites::new(snapshot, By::Stack),
            frames,
            strings,
            functions: Numbers::starting_at(1),
            locations: Numbers::starting_at(1),
        }
    }

    fn text(&mut self, text: &str) -> u64 {
        self.strings.of(text.to_owned())
    }

    fn profile(&mut self, at: At, histories: &[History], out: &mut dyn Write) -> Result<()> {
        let mut message = Message::default();
        for (name, unit) in SAMPLE_TYPES {
            let mut kind = Message::default();
            kind.number(1, self.text(name));
            kind.number(2, self.text(unit));
            message.message(field::SAMPLE_TYPE, &kind);
        }
        let default = self.text("live_space");
        message.number(field::DEFAULT_SAMPLE_TYPE, default);
        for history in histories {
            let moment = history.moment(at)?;
            // pprof's `-tagfocus` takes a bare number for a range of numbers, which no text is in.
            let device = format!("device {}", history.device.ordinal);
            let event = moment.event.map_or_else(String::new, |event| format!(", event {event}"));
            let comment = self.text(&format!("{device}: live memory at the moment `{}`{event}", moment.what));
            message.number(field::COMMENT, comment);
            for sample in profile(history, &self.sites, moment) {
                let sample = self.sample(&sample, &device);
                message.message(field::SAMPLE, &sample);
                out.write_all(message.encoded())?;
                message.clear();
            }
        }
        if let Some((first, last)) = histories.first().and_then(History::time_span) {
            message.number(field::TIME_NANOS, first.saturating_mul(1_000));
            message.number(field::DURATION_NANOS, last.saturating_sub(first).saturating_mul(1_000));
        }
        self.tables(&mut message);
        out.write_all(message.encoded())?;
        Ok(())
    }

    fn sample(&mut self, sample: &Sample, device: &str) -> Message {
        let mut stack: Vec<u64> = match sample.slot < self.snapshot.stacks.len() {
            true => {
                let frames = kept(self.snapshot, &self.sites, StackId(sample.slot as u32), self.frames);
                let frames: Vec<FrameId> = frames.collect();
                frames.into_iter().map(|frame| self.location(frame)).collect()
            }
            false => {
                let name = self.sites.name(self.sites.of_slot(sample.slot)).into_owned();
                let function = (self.text(&name), 0);
                let function = self.functions.of(function);
                vec![self.locations.of((function, 0))]
            }
        };
        // Innermost first.
        stack.reverse();
        let mut label = Message::default();
        label.number(1, self.text("device"));
        label.number(2, self.text(device));
        let mut message = Message::default();
        message.numbers(1, stack);
        message.numbers(2, values(sample));
        message.message(3, &label);
        message
    }

    fn location(&mut self, frame: FrameId) -> u64 {
        let frame = self.snapshot.frame(frame);
        let name = match self.snapshot.text(frame.name) {
            "" => "?",
            name => name,
        };
        let function = (self.text(name), self.text(self.snapshot.text(frame.filename)));
        let function = self.functions.of(function);
        self.locations.of((function, u64::from(frame.line)))
    }

    fn tables(&self, message: &mut Message) {
        let mut mapping = Message::default();
        mapping.number(1, MAPPING);
        for has in [field::mapping::FUNCTIONS, field::mapping::FILENAMES, field::mapping::LINE_NUMBERS] {
            mapping.number(has, 1);
        }
        message.message(field::MAPPING, &mapping);
        for (id, (function, line)) in self.locations.all() {
            let mut place = Message::default();
            place.number(1, *function);
            place.number(2, *line);
            let mut location = Message::default();
            location.number(1, id);
            location.number(2, MAPPING);
            location.message(4, &place);
            message.message(field::LOCATION, &location);
        }
        for (id, (name, file)) in self.functions.all() {
            let mut function = Message::default();
            function.number(1, id);
            // No system name: one that equals the name is taken for C++, and `<module>` cut out of it.
            function.number(2, *name);
            function.number(4, *file);
            message.message(field::FUNCTION, &function);
        }
        for (_, text) in self.strings.all() {
            message.bytes(field::STRING_TABLE, text.as_bytes());
        }
    }
}
