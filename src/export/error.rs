//! What can go wrong while exporting.

use std::io;

use crate::analysis::window::WindowError;
use crate::pickle::write::WriteError;

/// Why an export could not be written. The text does not name the file: the caller knows it.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file or the output refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The pickle writer refused a value.
    #[error(transparent)]
    Pickle(#[from] WriteError),
    /// A value that JSON cannot hold.
    #[error("cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// There is no such window.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// Event numbers of several devices mean different times.
    #[error("events are numbered on each device: choose one with --device N, or name times (@MICROSECONDS) or steps")]
    ManyDevices,
    /// Nothing happened in the window.
    #[error("the window holds no event: its end lies before its start, or nothing was recorded in between")]
    EmptyWindow,
    /// The segments after the last event do not follow from the trace.
    #[error(
        "device {device}: which memory was mapped after event {event} does not follow from the trace, so that no \
         snapshot can be made of it: end the window at the dump (A..)"
    )]
    Layout {
        /// Device ordinal.
        device: i64,
        /// The last event of the window.
        event: u32,
    },
    /// The format describes one device.
    #[error("this format describes one device, but the file has {0}: choose one with --device N")]
    OneDevice(usize),
    /// The moment that was asked for does not exist on a device.
    #[error(transparent)]
    Moment(#[from] crate::history::MomentError),
    /// The Parquet library refused to write or read.
    #[error("Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A table of a later version.
    #[error("a table of version {0}, which is newer than this program: update oomscope")]
    NewerTable(u32),
    /// A Parquet file of something else.
    #[error("not a table `{0}` of oomscope: write it with `oomscope export --format parquet`")]
    NotATable(&'static str),
    /// A column is missing or holds something else.
    #[error("the table `{table}` has no column `{column}` of {kind}: export it again")]
    Column {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// What it should hold.
        kind: &'static str,
    },
    /// A rank that no job has.
    #[error("rank {0} is beyond what a job can have: the dataset was not written by oomscope")]
    Rank(u64),
}
