//! What can go wrong while exporting.

use std::io;

use crate::pickle::write::WriteError;

/// Why an export could not be written. The text does not name the file: the caller knows it.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The output refused bytes.
    #[error("cannot be written: {0}")]
    Io(#[from] io::Error),
    /// The pickle writer refused a value.
    #[error(transparent)]
    Pickle(#[from] WriteError),
    /// A value that JSON cannot hold.
    #[error("cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The format describes one device.
    #[error("this format describes one device, but the file has {0}: choose one with --device N")]
    OneDevice(usize),
}
