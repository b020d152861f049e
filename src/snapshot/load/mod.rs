//! From a file or a stream, in whatever wrapping, to a [`Snapshot`].
//!
//! The wrapping is told by its first bytes, never by the name. Compressed and embedded pickles are decoded while they
//! are unpacked; a plain file is mapped. Should a mapped file be cut short by somebody else while it is read, the
//! operating system ends the process (SIGBUS): copy a file first that is still being written.

mod archive;
mod error;
mod html;
mod input;
mod json;
mod limits;
mod map;
mod sniff;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use error::LoadError;
use input::{CountingReader, Input};
use limits::{Expanding, Expansion};
use sniff::Kind;
pub use sniff::{is_compressed, is_pickle};

use super::decode::{SnapshotBuilder, Word};
use super::{Snapshot, Warning};
use crate::pickle::{Limits, Machine, PickleError, Progress};

/// Wrappings inside wrappings that are followed (a gzipped zip of a gzip …).
const MAX_DEPTH: usize = 4;

/// Bytes decoded between two reports of progress, and between two looks at what they cost.
const CHUNK: usize = 256 << 10;

/// Where a snapshot is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    Path(PathBuf),
    /// Standard input.
    Stdin,
}

impl Source {
    /// `-` is standard input, everything else a path.
    pub fn from_arg(arg: &Path) -> Self {
        if arg.as_os_str() == "-" { Self::Stdin } else { Self::Path(arg.to_owned()) }
    }
}

/// How to read.
#[derive(Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// Use what is complete of a file that breaks off, instead of failing.
    pub salvage: bool,
    /// Carry out every opcode by itself, also where a file repeats itself: the same result, slower. To compare with.
    pub without_shortcuts: bool,
    /// Called now and then with the bytes read so far, and the file's size when it is known.
    pub progress: Option<&'a dyn Fn(u64, Option<u64>)>,
}

/// Reads the snapshot in `source`.
pub fn load(source: &Source, options: &LoadOptions) -> Result<Snapshot, LoadError> {
    let packed = Cell::new(0);
    let loader = Loader { options, packed: &packed };
    match source {
        Source::Stdin => {
            let reader = CountingReader::new(io::stdin().lock(), options.progress, None).seen_by(&packed);
            loader.load(Input::stream(Box::new(reader), options.salvage), 0)
        }
        Source::Path(path) => {
            let file = File::open(path).map_err(LoadError::Open)?;
            let metadata = file.metadata().map_err(LoadError::Open)?;
            if metadata.is_dir() {
                return Err(LoadError::Directory);
            }
            // A pipe or a device cannot be mapped.
            if !metadata.is_file() {
                let reader = CountingReader::new(file, options.progress, None).seen_by(&packed);
                return loader.load(Input::stream(Box::new(reader), options.salvage), 0);
            }
            match map::map(&file).map_err(LoadError::Open)? {
                Some(map) => loader.load_bytes(&map),
                None => Err(LoadError::Empty),
            }
        }
    }
}

/// Reads the snapshot in `bytes`, which may be wrapped like a file.
pub fn load_bytes(bytes: &[u8], options: &LoadOptions) -> Result<Snapshot, LoadError> {
    Loader { options, packed: &Cell::new(0) }.load_bytes(bytes)
}

struct Loader<'o, 'p> {
    options: &'o LoadOptions<'p>,
    /// Bytes of the outermost file, as far as it was read.
    packed: &'o Cell<u64>,
}

impl Loader<'_, '_> {
    fn load_bytes(&self, bytes: &[u8]) -> Result<Snapshot, LoadError> {
        self.packed.set(bytes.len() as u64);
        self.load(Input::slice(bytes, self.options.progress), 0)
    }

    fn load(&self, mut input: Input, depth: usize) -> Result<Snapshot, LoadError> {
        if depth > MAX_DEPTH {
            return Err(LoadError::TooDeep);
        }
        let kind = sniff::kind(input.peek()?);
        match kind {
            Kind::Pickle => self.pickle(input),
            Kind::Gzip => {
                let reader = flate2::bufread::MultiGzDecoder::new(input.into_buffered());
                self.load(self.stream(Box::new(reader)), depth + 1)
            }
            Kind::Zstd => {
                let reader =
                    zstd::stream::read::Decoder::with_buffer(input.into_buffered()).map_err(LoadError::Read)?;
                self.load(self.stream(Box::new(reader)), depth + 1)
            }
            Kind::Zip => {
                let bytes = input.into_bytes()?;
                archive::with_snapshot(&bytes, self.options.salvage, |member| self.load(self.stream(member), depth + 1))
            }
            Kind::Html => {
                let pickle = html::embedded(input.into_buffered())?;
                self.load(self.stream(pickle), depth + 1)
            }
            Kind::Json => {
                let mut builder = SnapshotBuilder::new();
                match json::decode(input, &mut builder, self.options.salvage)? {
                    json::Decoded::Whole(top) => builder.assemble(top, None),
                    json::Decoded::Part { top, open, offset } => salvaged(builder, top, &open, None, offset),
                }
            }
            Kind::Other(what) => Err(LoadError::NotASnapshot(what)),
        }
    }

    fn stream<'a>(&'a self, reader: Box<dyn Read + 'a>) -> Input<'a> {
        Input::stream(Box::new(Expanding::new(reader, self.packed)), self.options.salvage)
    }

    fn pickle(&self, mut input: Input) -> Result<Snapshot, LoadError> {
        let mut machine = Machine::new(SnapshotBuilder::new(), Limits::default());
        if self.options.without_shortcuts {
            machine = machine.without_shortcuts();
        }
        let broken_off = self.run(&mut input, &mut machine)?;
        let protocol = machine.protocol();
        let offset = machine.offset();
        if !broken_off {
            let (builder, top) = machine.into_parts();
            return builder.assemble(top.ok_or(PickleError::Truncated { offset })?, Some(protocol));
        }
        let (builder, top, open) = machine.salvage();
        salvaged(builder, top, &open, Some(protocol), offset)
    }

    /// Feeds the whole input to `machine`. Answers whether it breaks off and is to be salvaged.
    fn run(&self, input: &mut Input, machine: &mut Machine<SnapshotBuilder>) -> Result<bool, LoadError> {
        let mut wanted = CHUNK;
        loop {
            let (window, is_last) = match input.window(wanted) {
                Ok(window) => window,
                // A compressed file that breaks off ends in an error of its decoder.
                Err(error) if self.options.salvage && !Expansion::is_cause(&error) => return Ok(true),
                Err(error) => return Err(LoadError::reading(error)),
            };
            let available = window.len();
            let progress = machine.feed(window)?;
            let (kept, read) = (machine.kept() + machine.builder().kept(), machine.offset());
            if !limits::in_proportion(kept, read) {
                return Err(LoadError::OutOfProportion { kept, read });
            }
            match progress {
                Progress::Done(_) => return Ok(false),
                Progress::NeedMore(_) if is_last && self.options.salvage => return Ok(true),
                Progress::NeedMore(_) if is_last => {
                    return Err(PickleError::Truncated { offset: machine.offset() }.into());
                }
                Progress::NeedMore(used) => {
                    input.consume(used);
                    // One opcode longer than the window: a long string.
                    wanted = if used == 0 { available.saturating_mul(2).max(CHUNK) } else { CHUNK };
                }
            }
        }
    }
}

/// What `builder` has of a file that breaks off at `offset`, while the lists and dicts `open` were being filled.
fn salvaged(
    builder: SnapshotBuilder,
    top: Option<Word>,
    open: &[Word],
    protocol: Option<u8>,
    offset: u64,
) -> Result<Snapshot, LoadError> {
    let nothing = LoadError::NothingToSalvage(offset);
    let Some(top) = top else { return Err(nothing) };
    let (mut snapshot, missing) = match builder.assemble_open(top, protocol, open) {
        Err(LoadError::NoSegments) => return Err(nothing),
        result => result?,
    };
    if snapshot.segments.is_empty() && snapshot.events.is_empty() {
        return Err(nothing);
    }
    snapshot.warnings.insert(0, Warning::Salvaged { offset, missing });
    Ok(snapshot)
}

/// Reads everything, for formats that cannot be decoded in passing.
fn read_all(mut reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    Ok(bytes)
}
