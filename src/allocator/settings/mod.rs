//! The configuration string of the allocator (`PYTORCH_CUDA_ALLOC_CONF`) as [`AllocatorRules`].
//!
//! In: the string, the release that read it, and optionally the rules in force before (settings can be changed while
//! a program runs). Out: the rules, the backend, and a list of what could not be used. Strings come from files of
//! unknown origin, so nothing here fails: where PyTorch would stop with an error, the pair is ignored and reported.

mod apply;
mod grammar;
#[cfg(test)]
mod tests;

use serde::Serialize;
use thiserror::Error;

use super::{AllocatorRules, TorchVersion};

/// What a configuration string says.
///
/// ```
/// use oomscope::allocator::{AllocatorSettings, MIB, TorchVersion};
///
/// let settings = AllocatorSettings::parse("max_split_size_mb:64, expandable_segments:True", None);
/// assert_eq!(settings.rules.max_split_size, Some(64 * MIB));
/// assert!(settings.rules.expandable && settings.problems.is_empty());
///
/// let old = AllocatorSettings::parse("large_segment_size_mb:64", Some(TorchVersion::new(2, 6)));
/// assert_eq!(old.problems[0].to_string(), "`large_segment_size_mb` needs PyTorch 2.11 or newer");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AllocatorSettings {
    /// The numbers that the simulator works with.
    pub rules: AllocatorRules,
    /// `backend` as written; `None` where the string does not name one (PyTorch then uses `native`).
    pub backend: Option<String>,
    /// Keys that were understood, host-memory keys (`pinned_…`) included.
    pub accepted: Vec<String>,
    /// Everything that PyTorch would have refused, or that the simulator does not model.
    pub problems: Vec<SettingProblem>,
}

/// Something in a configuration string that was ignored, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SettingProblem {
    /// A key that no release knows.
    #[error("`{key}` is not an allocator setting")]
    UnknownKey {
        /// The key as written.
        key: String,
    },
    /// A key that the release in question does not know yet.
    #[error("`{key}` needs PyTorch {since} or newer")]
    NotInVersion {
        /// The key as written.
        key: String,
        /// First release with it, for example `2.11`.
        since: String,
    },
    /// A value outside the range that PyTorch accepts.
    #[error("`{key}:{value}`: {expected}")]
    BadValue {
        /// The key as written.
        key: String,
        /// The value as written.
        value: String,
        /// What the value has to be.
        expected: String,
    },
    /// Text that does not follow `key:value,key:[k:v,…]`.
    #[error("`{text}` is not of the form key:value")]
    Syntax {
        /// The piece that was skipped.
        text: String,
    },
    /// A valid setting whose effect is not simulated.
    #[error("`{key}` is understood, but its effect is not simulated")]
    NotSimulated {
        /// The key as written.
        key: String,
    },
}

impl AllocatorSettings {
    /// Reads `conf` as `version` does; `None` means the newest release known.
    pub fn parse(conf: &str, version: Option<TorchVersion>) -> Self {
        Self::parse_after(&AllocatorRules::default(), conf, version)
    }

    /// Reads `conf` while the rules `before` are in force.
    ///
    /// Each parse resets `max_split_size_mb`, `max_non_split_rounding_mb`, `garbage_collection_threshold` and
    /// `roundup_power2_divisions` where the string does not name them, and keeps the other settings (2.3 to 2.15).
    pub fn parse_after(before: &AllocatorRules, conf: &str, version: Option<TorchVersion>) -> Self {
        apply::parse(before, conf, version.unwrap_or(TorchVersion::NEWEST))
    }

    /// Whether the string selects PyTorch's own allocator rather than the driver's (`cudaMallocAsync`).
    pub fn is_native(&self) -> bool {
        self.backend.as_deref().is_none_or(|name| name == "native")
    }
}
