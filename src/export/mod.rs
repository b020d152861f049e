//! Snapshots in the formats of other programs.
//!
//! In: a snapshot, its histories or a table of results. Out: bytes, written as they are made, so that a large file
//! needs no second copy in memory. One file a format; each implements the trait of the kind of input that it takes:
//! [`SnapshotFormat`] the file itself, [`SeriesFormat`] what happened over time, [`TableFormat`] rows of columns.

mod csv;
pub mod dataset;
mod error;
mod excerpt;
mod folded;
mod json;
mod names;
pub mod parquet;
mod perfetto;
mod pickle;
mod pprof;
mod protobuf;
pub mod ranks;
mod redact;
mod requests;
mod role;
pub mod tables;

use std::io::Write;

pub use self::parquet::Parquet;
pub use csv::Csv;
pub use error::ExportError;
pub use excerpt::{DeviceExcerpt, Excerpt};
pub use folded::Folded;
pub use json::Json;
pub use names::{NameOptions, Names};
pub use perfetto::Perfetto;
pub use pickle::Pickle;
pub use pprof::Pprof;
pub use requests::Requests;
pub use role::Role;

use crate::history::History;
use tables::Table;

/// Result of every export.
pub type Result<T> = std::result::Result<T, ExportError>;

/// A format for a whole snapshot or a part of one.
pub trait SnapshotFormat {
    /// Writes `excerpt` to `out`, which needs no buffer of its own to be flushed.
    fn write(&self, excerpt: &Excerpt, out: &mut dyn Write) -> Result<()>;
}

/// A format for what happened over time.
pub trait SeriesFormat {
    /// Writes the pasts of the devices to `out`.
    fn write(&self, histories: &[History], out: &mut dyn Write) -> Result<()>;
}

/// A format for a table.
pub trait TableFormat {
    /// Writes `table` to `out`.
    fn write(&self, table: &dyn Table, out: &mut dyn Write) -> Result<()>;
}
