//! The name of one of the allocator's sets of free blocks.

use crate::allocator::PoolKind;
use crate::history::Range;
use crate::snapshot::{PoolId, Snapshot, StreamId};

/// Names a set of free blocks. Sorted with the default pool, the default stream and small blocks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolKey {
    /// Private pool, or the default one.
    pub pool: PoolId,
    /// Stream.
    pub stream: StreamId,
    /// Size class.
    pub kind: PoolKind,
}

impl From<&Range> for PoolKey {
    fn from(range: &Range) -> Self {
        Self { pool: range.pool, stream: range.stream, kind: range.kind }
    }
}

impl PoolKey {
    /// The stream's pointer as hexadecimal text.
    pub fn stream_text(&self, snapshot: &Snapshot) -> String {
        format!("{:#x}", snapshot.streams[self.stream.index()])
    }

    /// The private pool's id as `a,b`; `None` for the default pool.
    pub fn pool_text(&self, snapshot: &Snapshot) -> Option<String> {
        let (a, b) = snapshot.pools[self.pool.index()];
        (self.pool != PoolId::DEFAULT).then(|| format!("{a},{b}"))
    }
}
