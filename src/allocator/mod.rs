//! The rules of PyTorch's native caching allocator: sizes, rounding, splitting, and the versions they belong to.
//!
//! Nothing here knows of snapshots. The rules are values, so that a caller can ask "what if" by changing one.

mod rules;
mod settings;
mod version;

pub use rules::{AllocatorRules, ExpandableReserve, GIB, KIB, MIB, PoolKind};
pub use settings::{AllocatorSettings, SettingProblem};
pub use version::{ParseVersionError, TorchVersion};
