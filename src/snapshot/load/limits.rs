//! What a file may cost its reader, so that a small one cannot exhaust a machine.
//!
//! Memory is allowed in proportion to the bytes that were decoded, and unpacked bytes in proportion to the packed ones.

use std::cell::Cell;
use std::io::{self, Read};

/// Bytes that tables may take whatever the size of the file.
const ALLOWANCE: u64 = 24 << 20;

/// Bytes that tables may take for each byte of the pickle or JSON. Real files need 0.2 to 2.3, the most where nothing
/// but short trace entries without frames is recorded, and while a table doubles.
const PER_BYTE: u64 = 4;

/// Whether tables of `kept` bytes are in proportion to the `read` bytes that filled them.
pub(super) fn in_proportion(kept: usize, read: u64) -> bool {
    kept as u64 <= ALLOWANCE.saturating_add(PER_BYTE.saturating_mul(read))
}

/// Unpacked bytes that are read whatever the size of the packed file.
const UNPACKED: u64 = 64 << 20;

/// Unpacked bytes for each packed one. Real snapshots shrink to a tenth, the most uniform ones to a fortieth.
pub(super) const RATIO: u64 = 200;

/// The text of the error that an [`Expanding`] reader ends with.
#[derive(Debug, thiserror::Error)]
#[error("unpacks to more than {RATIO} times its size")]
pub(super) struct Expansion;

impl Expansion {
    /// Whether `error` comes from an [`Expanding`] reader, through whatever other readers.
    pub(super) fn is_cause(error: &io::Error) -> bool {
        let mut error: &(dyn std::error::Error + 'static) = match error.get_ref() {
            Some(inner) => inner,
            None => return false,
        };
        loop {
            if error.is::<Self>() {
                return true;
            }
            let inner = error.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
            match inner.map(|inner| inner as &(dyn std::error::Error + 'static)).or_else(|| error.source()) {
                Some(inner) => error = inner,
                None => return false,
            }
        }
    }
}

/// Unpacked bytes, until there are more than any real file unpacks to.
pub(super) struct Expanding<'a, R> {
    inner: R,
    unpacked: u64,
    /// Bytes of the outermost file, as far as it was read.
    packed: &'a Cell<u64>,
}

impl<'a, R> Expanding<'a, R> {
    pub(super) fn new(inner: R, packed: &'a Cell<u64>) -> Self {
        Self { inner, unpacked: 0, packed }
    }
}

impl<R: Read> Read for Expanding<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.unpacked += read as u64;
        if self.unpacked > UNPACKED.saturating_add(RATIO.saturating_mul(self.packed.get())) {
            return Err(io::Error::other(Expansion));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_is_told_from_other_errors() {
        let packed = Cell::new(1 << 20);
        let mut reader = Expanding::new(io::repeat(0), &packed);
        let error = io::copy(&mut reader, &mut io::sink()).unwrap_err();
        assert!(Expansion::is_cause(&error));
        assert!(Expansion::is_cause(&io::Error::other(error)));
        assert!(!Expansion::is_cause(&io::Error::other("broken")));
        assert!(!Expansion::is_cause(&io::Error::from(io::ErrorKind::UnexpectedEof)));
    }

    #[test]
    fn what_real_files_need_is_allowed() {
        assert!(in_proportion(20 << 20, 1000));
        assert!(in_proportion(250 << 20, 68 << 20));
        assert!(!in_proportion(64 << 20, 1 << 20));
    }
}
