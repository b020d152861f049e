//! One reader over a mapped file and a stream alike.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use super::limits::Expansion;
use super::sniff::HEAD;
use super::{LoadError, read_all};

type Report<'a> = Option<&'a dyn Fn(u64, Option<u64>)>;

/// Bytes in memory, or bytes that arrive.
pub(super) enum Input<'a> {
    Slice {
        bytes: &'a [u8],
        at: usize,
        progress: Report<'a>,
    },
    Stream {
        reader: Box<dyn Read + 'a>,
        /// Bytes read and not yet consumed start at `at`.
        buffer: Vec<u8>,
        at: usize,
        ended: bool,
        /// Whether an error of the reader ends the stream like its end, once something was read.
        salvage: bool,
    },
}

impl<'a> Input<'a> {
    pub(super) fn slice(bytes: &'a [u8], progress: Report<'a>) -> Self {
        Self::Slice { bytes, at: 0, progress }
    }

    pub(super) fn stream(reader: Box<dyn Read + 'a>, salvage: bool) -> Self {
        Self::Stream { reader, buffer: Vec::new(), at: 0, ended: false, salvage }
    }

    /// The first bytes, enough to tell what they are.
    pub(super) fn peek(&mut self) -> Result<&[u8], LoadError> {
        let (head, _) = self.window(HEAD).map_err(LoadError::reading)?;
        if head.is_empty() { Err(LoadError::Empty) } else { Ok(head) }
    }

    /// The next `wanted` bytes, and whether nothing follows them. Fewer come only at the end.
    pub(super) fn window(&mut self, wanted: usize) -> io::Result<(&[u8], bool)> {
        match self {
            Self::Slice { bytes, at, progress } => {
                if let Some(report) = progress {
                    report(*at as u64, Some(bytes.len() as u64));
                }
                let end = at.saturating_add(wanted).min(bytes.len());
                Ok((&bytes[*at..end], end == bytes.len()))
            }
            Self::Stream { reader, buffer, at, ended, salvage } => {
                if *at > 0 {
                    buffer.drain(..*at);
                    *at = 0;
                }
                while buffer.len() < wanted && !*ended {
                    let missing = (wanted - buffer.len()) as u64;
                    let before = buffer.len();
                    match reader.by_ref().take(missing).read_to_end(buffer) {
                        Ok(_) => *ended = buffer.len() == before,
                        Err(error) if *salvage && !buffer.is_empty() && !Expansion::is_cause(&error) => *ended = true,
                        Err(error) => return Err(error),
                    }
                }
                Ok((buffer, *ended))
            }
        }
    }

    pub(super) fn consume(&mut self, count: usize) {
        match self {
            Self::Slice { at, .. } | Self::Stream { at, .. } => *at += count,
        }
    }

    /// Everything not yet consumed, as a buffered reader.
    pub(super) fn into_buffered(self) -> Box<dyn BufRead + 'a> {
        match self {
            Self::Slice { bytes, at, progress } => {
                let reader = CountingReader::new(&bytes[at..], progress, Some(bytes.len() as u64));
                Box::new(BufReader::with_capacity(1 << 16, reader))
            }
            Self::Stream { reader, mut buffer, at, .. } => {
                buffer.drain(..at);
                Box::new(BufReader::with_capacity(1 << 16, Cursor::new(buffer).chain(reader)))
            }
        }
    }

    /// Everything not yet consumed.
    pub(super) fn into_bytes(self) -> Result<Cow<'a, [u8]>, LoadError> {
        match self {
            Self::Slice { bytes, at, .. } => Ok(Cow::Borrowed(&bytes[at..])),
            stream => read_all(stream.into_buffered()).map(Cow::Owned).map_err(LoadError::reading),
        }
    }
}

/// Reports how many bytes passed through it.
pub(super) struct CountingReader<'a, R> {
    inner: R,
    count: u64,
    total: Option<u64>,
    progress: Report<'a>,
    /// The count, for others to see.
    seen: Option<&'a Cell<u64>>,
}

impl<'a, R> CountingReader<'a, R> {
    pub(super) fn new(inner: R, progress: Report<'a>, total: Option<u64>) -> Self {
        Self { inner, count: 0, total, progress, seen: None }
    }

    /// Keeps `seen` at the number of bytes that passed.
    pub(super) fn seen_by(self, seen: &'a Cell<u64>) -> Self {
        Self { seen: Some(seen), ..self }
    }
}

impl<R: Read> Read for CountingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count += read as u64;
        if let Some(seen) = self.seen {
            seen.set(self.count);
        }
        if let Some(report) = self.progress {
            report(self.count, self.total);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream and a slice hand out the same windows, whatever was consumed before.
    #[test]
    fn stream_equals_slice() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut slice = Input::slice(&bytes, None);
        let mut stream = Input::stream(Box::new(&bytes[..]), false);
        for (wanted, used) in [(10, 3), (10, 10), (50, 0), (80, 80), (200, 7), (5, 0)] {
            let expected = slice.window(wanted).unwrap().0.to_vec();
            assert_eq!(stream.window(wanted).unwrap().0, expected);
            slice.consume(used);
            stream.consume(used);
        }
    }

    /// Gives some bytes, then fails.
    struct Broken<'a>(&'a [u8]);

    impl Read for Broken<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() { Err(io::Error::other("broken")) } else { self.0.read(buffer) }
        }
    }

    #[test]
    fn what_came_before_an_error_is_salvaged() {
        let mut input = Input::stream(Box::new(Broken(b"abcdef")), true);
        assert_eq!(input.window(4).unwrap(), (&b"abcd"[..], false));
        input.consume(3);
        assert_eq!(input.window(100).unwrap(), (&b"def"[..], true));
        assert!(Input::stream(Box::new(Broken(b"abcdef")), false).window(100).is_err());
        assert!(Input::stream(Box::new(Broken(b"")), true).window(100).is_err());
    }
}
