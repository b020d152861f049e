//! Python's pickle format: bytes to values, and values to bytes, without executing anything.
//!
//! [`Machine`] interprets the opcodes of protocols 0 to 5 that carry plain data and hands every value to a [`Builder`],
//! which decides what to keep. Opcodes that import, call or refer to objects outside the file are refused by name.
//! [`mod@write`] is the way back. Nothing here knows what a memory snapshot is.

mod builder;
mod error;
mod machine;
mod memo;
mod opcode;
mod text;
#[cfg(test)]
mod tree;
pub mod write;

pub use builder::{BuildError, Builder, Kind};
pub use error::PickleError;
pub use machine::{Limits, Machine, Progress};
#[cfg(test)]
pub(crate) use tree::{Tree, Value};
