//! What can go wrong while writing.

use std::io;

/// Why a pickle could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output refused bytes.
    #[error("cannot write the pickle: {0}")]
    Io(#[from] io::Error),
    /// A leaf value could not be serialised.
    #[error("cannot pickle a value: {0}; 128-bit integers have no pickled form here")]
    Leaf(#[from] serde_pickle::Error),
    /// A leaf value's pickle has an opcode that this writer does not pass on, such as one that imports or calls.
    #[error("cannot pickle a value of this kind (opcode {0:#04x}); use numbers, strings, lists and maps only")]
    Unsupported(u8),
    /// Calls came in an order that makes no pickle: a fault of the caller.
    #[error("pickle written out of order: {0}")]
    Misuse(&'static str),
    /// More objects than `LONG_BINGET` can name.
    #[error("too many shared objects for one pickle (2^32); write fewer events")]
    MemoFull,
}

/// Result of every call of this module.
pub type Result<T> = std::result::Result<T, WriteError>;
