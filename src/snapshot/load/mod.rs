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
mod map;
mod sniff;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use error::LoadError;
use input::{CountingReader, Input};
use sniff::Kind;

use super::decode::SnapshotBuilder;
use super::{Snapshot, Warning};
use crate::pickle::{Limits, Machine, PickleError, Progress};

/// Wrappings inside wrappings that are followed (a gzipped zip of a gzip …).
const MAX_DEPTH: usize = 4;

/// Bytes decoded between two reports of progress.
const CHUNK: usize = 8 << 20;

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
    match source {
        Source::Stdin => {
            let reader = CountingReader::new(io::stdin().lock(), options.progress, None);
            Loader { options }.load(Input::stream(Box::new(reader), options.salvage), 0)
        }
        Source::Path(path) => {
            let file = File::open(path).map_err(LoadError::Open)?;
            let metadata = file.metadata().map_err(LoadError::Open)?;
            if metadata.is_dir() {
                return Err(LoadError::Directory);
            }
            // A pipe or a device cannot be mapped.
            if !metadata.is_file() {
                let reader = CountingReader::new(file, options.progress, None);
                return Loader { options }.load(Input::stream(Box::new(reader), options.salvage), 0);
            }
            match map::map(&file).map_err(LoadError::Open)? {
                Some(map) => Loader { options }.load(Input::slice(&map, options.progress), 0),
                None => Err(LoadError::Empty),
            }
        }
    }
}

struct Loader<'o, 'p> {
    options: &'o LoadOptions<'p>,
}

impl Loader<'_, '_> {
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
                archive::with_snapshot(&bytes, |member| self.load(self.stream(member), depth + 1))
            }
            Kind::Html => {
                let bytes = input.into_bytes()?;
                let pickle = html::embedded(&bytes)?;
                self.load(self.stream(pickle), depth + 1)
            }
            Kind::Json => {
                let mut builder = SnapshotBuilder::new();
                let top = json::decode(input.into_bytes()?.as_ref(), &mut builder)?;
                builder.assemble(top, None)
            }
            Kind::Other(what) => Err(LoadError::NotASnapshot(what)),
        }
    }

    fn stream<'a>(&self, reader: Box<dyn Read + 'a>) -> Input<'a> {
        Input::stream(reader, self.options.salvage)
    }

    fn pickle(&self, mut input: Input) -> Result<Snapshot, LoadError> {
        let mut machine = Machine::new(SnapshotBuilder::new(), Limits::default());
        if self.options.without_shortcuts {
            machine = machine.without_shortcuts();
        }
        let broken_off = self.run(&mut input, &mut machine)?;
        let protocol = machine.protocol();
        let offset = machine.offset();
        let (builder, top) = if broken_off { machine.salvage() } else { machine.into_parts() };
        let top = top.ok_or(PickleError::Truncated { offset })?;
        let mut snapshot = builder.assemble(top, Some(protocol)).map_err(|error| match error {
            LoadError::NoSegments if broken_off => LoadError::NothingToSalvage(offset),
            error => error,
        })?;
        if broken_off {
            snapshot.warnings.insert(0, Warning::Salvaged { offset });
        }
        Ok(snapshot)
    }

    /// Feeds the whole input to `machine`. Answers whether it breaks off and is to be salvaged.
    fn run(&self, input: &mut Input, machine: &mut Machine<SnapshotBuilder>) -> Result<bool, LoadError> {
        let mut wanted = CHUNK;
        loop {
            let (window, is_last) = match input.window(wanted) {
                Ok(window) => window,
                // A compressed file that breaks off ends in an error of its decoder.
                Err(_) if self.options.salvage => return Ok(true),
                Err(error) => return Err(LoadError::Read(error)),
            };
            let available = window.len();
            match machine.feed(window)? {
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

/// Reads everything, for formats that cannot be decoded in passing.
fn read_all(mut reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    Ok(bytes)
}
