//! Decoded values on their way to a [`Snapshot`](super::Snapshot): sealed into rows as they come, then assembled.
//!
//! In: the calls of the pickle machine or of the JSON reader on [`SnapshotBuilder`]. Out: a snapshot.

mod assemble;
mod builder;
mod cost;
mod dicts;
mod event_keys;
mod events;
mod lists;
mod names;
mod rows;
mod shape;
mod slots;
mod used;
mod word;

pub use builder::Annotation;
pub(super) use builder::SnapshotBuilder;
pub(super) use word::Word;
