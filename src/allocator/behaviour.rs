//! What changed between releases, one field a difference, so that no other file compares version numbers.

use serde::Serialize;

use super::oom_text::OomStyle;
use super::{AllocatorRules, TorchVersion};

/// How one release behaves where releases differ. `docs/allocator.md` has the table and what each row rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Behaviour {
    /// What decides between free blocks of one size.
    pub tie_break: TieBreak,
    /// A `roundup_power2_divisions` of 1 leaves sizes above 512 bytes as they are, without rounding (up to 2.3).
    pub single_division_keeps_size: bool,
    /// The partial flush of `max_split_size_mb` stops with an internal assertion when it meets expandable memory (up to 2.5).
    pub partial_flush_asserts: bool,
    /// Private pools may use expandable segments (2.5).
    pub expandable_private_pools: bool,
    /// When a request for the default pool may take memory of pools made with `use_on_oom` (2.8).
    pub pool_fallback: PoolFallback,
    /// Pools made with `no_split` are never split (2.10).
    pub no_split_pools: bool,
    /// Calling `set_per_process_memory_fraction(1.0)` sets a limit, and so enables garbage collection (up to 2.10).
    pub full_fraction_limits: bool,
    /// The limit of a memory fraction is rounded to the nearest byte instead of down (2.13).
    pub fraction_rounds: bool,
    /// Only a stream that is being captured counts as a capture; before 2.13 so did any active `use_mem_pool`.
    pub capture_by_stream: bool,
    /// Counters of device allocations, frees and synchronisations exist (2.2).
    pub device_counters: bool,
    /// `throw_on_cudamalloc_oom` and its counter exist (2.12).
    pub rejects_above_fraction: bool,
    /// A request larger than the address space of a new expandable segment fails before one is made (2.15).
    pub checks_reserve: bool,
    /// Search the pool again after a flush. No release does; PyTorch issue 189504 proposes it.
    pub search_after_flush: bool,
    /// The wording of the out-of-memory message.
    pub oom_style: OomStyle,
}

/// What decides between two free blocks of the same stream and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TieBreak {
    /// The lowest address (up to 2.12).
    Address,
    /// The oldest segment, then the lowest address (2.13).
    SegmentAge,
}

/// When pools made with `use_on_oom` are searched for a request that fits nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolFallback {
    /// Never (up to 2.7).
    Never,
    /// As the last step, after the cache was flushed (2.8 to 2.10).
    AfterFlush,
    /// After the first failing device allocation, before anything is flushed (2.11).
    BeforeFlush,
}

impl Behaviour {
    /// The behaviour of `version`. Releases that were not compared take the nearest known one.
    pub fn of(version: TorchVersion) -> Self {
        let since = |minor| version >= TorchVersion::new(2, minor);
        Self {
            tie_break: if since(13) { TieBreak::SegmentAge } else { TieBreak::Address },
            single_division_keeps_size: !since(4),
            partial_flush_asserts: !since(6),
            expandable_private_pools: since(5),
            pool_fallback: match () {
                () if since(11) => PoolFallback::BeforeFlush,
                () if since(8) => PoolFallback::AfterFlush,
                () => PoolFallback::Never,
            },
            no_split_pools: since(10),
            full_fraction_limits: !since(11),
            fraction_rounds: since(13),
            capture_by_stream: since(13),
            device_counters: since(2),
            rejects_above_fraction: since(12),
            checks_reserve: since(15),
            search_after_flush: false,
            oom_style: OomStyle::of(version),
        }
    }

    /// Bytes that a request of `requested` bytes occupies.
    pub fn round_size(&self, rules: &AllocatorRules, requested: u64) -> u64 {
        if self.single_division_keeps_size && requested > rules.min_block && rules.divisions(requested) == 1 {
            requested
        } else {
            rules.round_size(requested)
        }
    }

    /// Bytes that PyTorch may reserve on a device of `total` bytes after `set_per_process_memory_fraction(fraction)`;
    /// `None` is no limit.
    pub fn limit(&self, fraction: f64, total: u64) -> Option<u64> {
        let limit = fraction * total as f64;
        let limits = fraction < 1.0 || self.full_fraction_limits;
        // The conversion saturates, and a fraction that is no number gives 0.
        limits.then_some(if self.fraction_rounds { limit.round() as u64 } else { limit as u64 })
    }
}

impl Default for Behaviour {
    /// That of the newest release known.
    fn default() -> Self {
        Self::of(TorchVersion::NEWEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::MIB;

    #[test]
    fn the_fraction_limit_is_cut_before_and_rounded_since_2_13() {
        let limit = |minor, fraction| Behaviour::of(TorchVersion::new(2, minor)).limit(fraction, 200 * MIB);
        assert_eq!(limit(11, 0.29), Some(58 * MIB - 1));
        assert_eq!(limit(13, 0.29), Some(58 * MIB));
        assert_eq!(limit(9, 1.0), Some(200 * MIB));
        assert_eq!(limit(11, 1.0), None);
        assert_eq!(limit(11, f64::NAN), None);
    }

    #[test]
    fn one_division_skips_rounding_in_old_releases() {
        let rules = AllocatorRules { roundup_power2_divisions: [1; 16], ..Default::default() };
        assert_eq!(Behaviour::of(TorchVersion::new(2, 3)).round_size(&rules, 513), 513);
        assert_eq!(Behaviour::of(TorchVersion::new(2, 6)).round_size(&rules, 513), 1024);
        assert_eq!(Behaviour::of(TorchVersion::new(2, 3)).round_size(&rules, 511), 512);
    }
}
