//! Why a file could not be read, and what to do.

use std::io;

use super::limits::{Expansion, RATIO};
use crate::pickle::{BuildError, PickleError};

/// Why there is no snapshot. The text does not name the file: the caller knows it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// The file cannot be read to its end.
    #[error("cannot be read: {0}; if it is compressed, its copy may be incomplete: try --salvage")]
    Read(io::Error),
    /// A directory where a file is needed.
    #[error("is a directory: name one file in it")]
    Directory,
    /// Nothing in it.
    #[error(
        "is empty: the dump failed. Dump again with _record_memory_history(stacks=\"python\"), and check the disk space"
    )]
    Empty,
    /// Something else, named for what it is.
    #[error("{}; it needs the pickle that torch.cuda.memory._dump_snapshot writes", .0.text())]
    NotASnapshot(NotASnapshot),
    /// A pickle or JSON of something else.
    #[error(
        "holds no memory snapshot: neither `segments` nor `device_traces` is in it. \
         It needs the pickle that torch.cuda.memory._dump_snapshot writes"
    )]
    NoSegments,
    /// The pickle is damaged, cut off, or refused.
    #[error("{}", pickle_text(.0))]
    Pickle(PickleError),
    /// A table is full.
    #[error("is too large: {0}")]
    TooLarge(BuildError),
    /// Cut off before anything was complete.
    #[error("breaks off at byte {0}, before any segment or trace entry was complete: nothing can be salvaged")]
    NothingToSalvage(u64),
    /// Malformed JSON.
    #[error("is not valid JSON: {0}")]
    Json(serde_json::Error),
    /// A zip archive that cannot be used.
    #[error("{0}")]
    Archive(String),
    /// An HTML page without a snapshot in it.
    #[error(
        "is an HTML page without an embedded snapshot. Pages of _memory_viz.py trace_plot and segment_plot have one; \
         a saved copy of pytorch.org/memory_viz does not: use the pickle that was dropped on it"
    )]
    HtmlWithoutData,
    /// Its tables grow out of proportion.
    #[error(
        "needs {kept} bytes of memory for its first {read} bytes, more than any snapshot does: it is damaged, or made \
         to exhaust its reader"
    )]
    OutOfProportion {
        /// Bytes of memory.
        kept: usize,
        /// Bytes decoded.
        read: u64,
    },
    /// A small file that becomes a huge one.
    #[error(
        "unpacks to more than {RATIO} times its size, as no snapshot does: unpack it yourself, and read the result, \
         if you trust where it comes from"
    )]
    Expands,
    /// Compressed again and again.
    #[error("is packed more than four times over: unpack it first")]
    TooDeep,
}

// The texts contain their causes, so that none is named as a source: a chain would print it twice.
impl From<PickleError> for LoadError {
    fn from(error: PickleError) -> Self {
        Self::Pickle(error)
    }
}

impl From<BuildError> for LoadError {
    fn from(error: BuildError) -> Self {
        Self::TooLarge(error)
    }
}

impl From<serde_json::Error> for LoadError {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() { Self::reading(error.into()) } else { Self::Json(error) }
    }
}

impl LoadError {
    /// Why reading stopped.
    pub(super) fn reading(error: io::Error) -> Self {
        if Expansion::is_cause(&error) { Self::Expands } else { Self::Read(error) }
    }
}

fn pickle_text(error: &PickleError) -> String {
    match error {
        PickleError::Truncated { .. } => {
            format!("{error}. Copy it again, or use --salvage to read what is complete")
        }
        PickleError::Refused { .. } => {
            format!("{error}. No snapshot needs this opcode: do not load this file in Python either")
        }
        error => format!("{error}. Copy or dump it again"),
    }
}

/// Files that are often taken for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotASnapshot {
    /// A database.
    Sqlite,
    /// Columns.
    Parquet,
    /// A tar archive.
    Tar,
    /// xz, bzip2 or lz4.
    Compressed(&'static str),
    /// Output of `_memory_viz.py trace`, `stats` and the like, a log, an error message.
    Text,
    /// Anything else.
    Binary,
}

impl LoadError {
    /// Whether the file is plain text.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::NotASnapshot(NotASnapshot::Text))
    }
}

impl NotASnapshot {
    fn text(self) -> &'static str {
        match self {
            Self::Sqlite => "is an SQLite database, not a snapshot",
            Self::Parquet => "is a Parquet table, not a snapshot",
            Self::Tar => "is a tar archive: unpack it and name the snapshot in it",
            Self::Compressed(_) => {
                "is compressed in a way that is not read here (gzip, zstd and zip are): unpack it first"
            }
            Self::Text => "is plain text (a log, or the output of a viewer), not a snapshot",
            Self::Binary => "is not a pickle",
        }
    }
}
