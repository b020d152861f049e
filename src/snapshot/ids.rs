//! Handles to interned values. Each is an index into one table of the [`Snapshot`](super::Snapshot).

/// Bits that are enough for the number of a row.
pub(super) const ROW_BITS: u32 = 28;

/// Numbers from here on are refused: rows of one table and distinct values of one kind are enough for a file of 16 GB.
pub(super) const MAX_ROWS: u32 = (1 << ROW_BITS) - 1;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in its table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A distinct string; 0 is the empty one.
    StrId
);
id!(
    /// A distinct (function, file, line).
    FrameId
);
id!(
    /// A distinct list of frames, innermost first; 0 is the empty one.
    StackId
);
id!(
    /// A distinct stream pointer; 0 is the default stream.
    StreamId
);
id!(
    /// A distinct pool id pair; 0 is the default pool, `(0, 0)`.
    PoolId
);

impl StackId {
    /// No stack was kept: the file has no `frames` key there (an empty list is [`StackId::EMPTY`]).
    pub const NONE: Self = Self(u32::MAX);
    /// An empty list of frames.
    pub const EMPTY: Self = Self(0);

    /// Whether there is at least one frame.
    pub fn has_frames(self) -> bool {
        self != Self::NONE && self != Self::EMPTY
    }
}

impl PoolId {
    /// The pool that serves everything outside CUDA graphs and `MemPool`s.
    pub const DEFAULT: Self = Self(0);
}
