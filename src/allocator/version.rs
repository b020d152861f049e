//! PyTorch release numbers.

use std::fmt;

/// A PyTorch release, major and minor (`2.6`): patch releases do not change the allocator or the snapshot format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TorchVersion {
    /// 2 in "2.6".
    pub major: u16,
    /// 6 in "2.6".
    pub minor: u16,
}

impl TorchVersion {
    /// The release `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for TorchVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
