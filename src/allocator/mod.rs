//! The rules of PyTorch's native caching allocator: sizes, rounding, splitting, and the versions they belong to.
//!
//! Nothing here knows of snapshots. The rules are values, so that a caller can ask "what if" by changing one.

mod rules;
mod version;

pub use rules::{AllocatorRules, GIB, KIB, MIB, PoolKind};
pub use version::TorchVersion;
