//! Reads the arguments of opcodes.

use super::Fault;

/// The piece of input being read.
pub(super) struct Cursor<'a> {
    pub(super) input: &'a [u8],
    /// Bytes used.
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Fault> {
        let byte = *self.input.get(self.at).ok_or(Fault::Incomplete)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let bytes = self.input.get(self.at..).and_then(|rest| rest.first_chunk::<N>()).ok_or(Fault::Incomplete)?;
        self.at += N;
        Ok(*bytes)
    }

    /// A little-endian integer of at most 8 bytes, when it can be read as a whole word; else nothing is used.
    #[inline]
    pub(super) fn signed(&mut self, length: usize) -> Option<i64> {
        let word = self.input.get(self.at..).and_then(|rest| rest.first_chunk::<8>())?;
        let unused = 64 - 8 * u32::try_from(length).ok().filter(|length| (1..=8).contains(length))?;
        self.at += length;
        Some((u64::from_le_bytes(*word) << unused) as i64 >> unused)
    }

    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(length).ok_or(Fault::Incomplete)?;
        let bytes = self.input.get(self.at..end).ok_or(Fault::Incomplete)?;
        self.at = end;
        Ok(bytes)
    }

    /// Bytes up to the next newline, which is used up but not returned.
    pub(super) fn line(&mut self) -> Result<&'a [u8], Fault> {
        let rest = &self.input[self.at..];
        let length = rest.iter().position(|&b| b == b'\n').ok_or(Fault::Incomplete)?;
        self.at += length + 1;
        Ok(&rest[..length])
    }
}
