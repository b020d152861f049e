//! Pickles: bytes to values and values to bytes. Nothing here knows of snapshots.

pub mod write;
