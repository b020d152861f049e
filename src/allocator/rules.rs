//! Sizes and the split rule of the caching allocator, with PyTorch's constants as defaults.

use serde::Serialize;

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;

/// Which of a stream's two pools serves a block: the small one up to [`AllocatorRules::small_limit`], else the large one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolKind {
    /// Blocks of at most [`AllocatorRules::small_limit`] bytes.
    Small,
    /// Everything bigger.
    Large,
}

/// The numbers that decide how requests become blocks and segments. All sizes in bytes.
///
/// Defaults are the constants of `c10/cuda/CUDACachingAllocator.cpp`, equal in every release from 1.12 to 2.15.
///
/// ```
/// use oomscope::allocator::{AllocatorRules, MIB, PoolKind};
///
/// let rules = AllocatorRules::default();
/// assert_eq!(rules.round_size(1200), 1536);
/// assert_eq!(rules.pool_kind(1536), PoolKind::Small);
/// assert_eq!(rules.segment_size(3 * MIB), 20 * MIB);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AllocatorRules {
    /// Rounding unit of requests, and the smallest remainder that is split off in the small pool.
    pub min_block: u64,
    /// Largest rounded size that the small pool serves.
    pub small_limit: u64,
    /// Size of a small segment, and the granule of expandable small memory.
    pub small_segment: u64,
    /// Size of the segment for large requests below `large_limit`, and the granule of expandable large memory (`large_segment_size_mb`).
    pub large_segment: u64,
    /// Rounded sizes from here on get a segment of their own size.
    pub large_limit: u64,
    /// Unit to which the segments of requests from `large_limit` on are rounded up.
    pub round_large: u64,
    /// `roundup_power2_divisions` for the intervals starting at 1 MiB, 2 MiB, 4 MiB … 32 GiB; 0 and 1 mean plain rounding.
    pub roundup_power2_divisions: [u64; 16],
    /// `max_split_size_mb` in bytes; `None` is unlimited.
    pub max_split_size: Option<u64>,
    /// `max_non_split_rounding_mb` in bytes: how much larger than the request an unsplit oversize block may be.
    pub max_non_split_rounding: u64,
    /// `expandable_segments`.
    pub expandable: bool,
    /// `garbage_collection_threshold`; 0 is off.
    pub gc_threshold: f64,
    /// `per_process_memory_fraction`, when it is known.
    pub memory_fraction: Option<f64>,
    /// `throw_on_cudamalloc_oom` (2.12): requests that would exceed the fraction fail at once, without a flush.
    pub reject_above_fraction: bool,
    /// `expandable_segments_reserve` (2.15): address space of an expandable segment, where it is not the default.
    pub expandable_reserve: Option<ExpandableReserve>,
}

/// How much address space an expandable segment reserves (2.15). The default, 9/8 of the device's memory, is the most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExpandableReserve {
    /// A fraction of the device's memory.
    Fraction(f64),
    /// Bytes.
    Bytes(u64),
}

impl Default for AllocatorRules {
    fn default() -> Self {
        Self {
            min_block: 512,
            small_limit: MIB,
            small_segment: 2 * MIB,
            large_segment: 20 * MIB,
            large_limit: 10 * MIB,
            round_large: 2 * MIB,
            roundup_power2_divisions: [0; 16],
            max_split_size: None,
            max_non_split_rounding: 20 * MIB,
            expandable: false,
            gc_threshold: 0.0,
            memory_fraction: None,
            reject_above_fraction: false,
            expandable_reserve: None,
        }
    }
}

impl AllocatorRules {
    /// Bytes that a request of `requested` bytes occupies before splitting rules apply.
    pub fn round_size(&self, requested: u64) -> u64 {
        if requested < self.min_block {
            return self.min_block;
        }
        let divisions = self.divisions(requested);
        if divisions > 1 && requested > self.min_block.saturating_mul(divisions) {
            round_power2(requested, divisions)
        } else {
            round_up(requested, self.min_block)
        }
    }

    /// The `roundup_power2_divisions` value of the interval that holds `requested`.
    pub(super) fn divisions(&self, requested: u64) -> u64 {
        let log2 = requested.max(1).ilog2();
        self.roundup_power2_divisions[log2.saturating_sub(20).min(15) as usize]
    }

    /// The pool that serves a block of `rounded` bytes.
    pub fn pool_kind(&self, rounded: u64) -> PoolKind {
        if rounded <= self.small_limit { PoolKind::Small } else { PoolKind::Large }
    }

    /// Bytes of the segment that a request of `rounded` bytes would need from the device.
    pub fn segment_size(&self, rounded: u64) -> u64 {
        if rounded <= self.small_limit {
            self.small_segment
        } else if rounded < self.large_limit {
            self.large_segment
        } else {
            round_up(rounded, self.round_large)
        }
    }

    /// Unit in which expandable memory of this kind is mapped and given back.
    pub fn granule(&self, kind: PoolKind) -> u64 {
        match kind {
            PoolKind::Small => self.small_segment,
            PoolKind::Large => self.large_segment,
        }
    }

    /// Whether taking `rounded` bytes from a free block that leaves `remaining` bytes splits the block.
    /// `expandable` is the setting at the time of the request, which need not be this value's.
    pub fn splits(&self, rounded: u64, remaining: u64, kind: PoolKind, expandable: bool) -> bool {
        match kind {
            PoolKind::Large if !expandable => {
                self.max_split_size.is_none_or(|max| rounded < max) && remaining > self.small_limit
            }
            _ => remaining >= self.min_block,
        }
    }
}

/// `n` rounded up to a multiple of `unit`; saturates instead of overflowing.
fn round_up(n: u64, unit: u64) -> u64 {
    if unit == 0 { n } else { n.div_ceil(unit).saturating_mul(unit) }
}

/// `n` rounded up to the next of `divisions` equal steps between two powers of two.
fn round_power2(n: u64, divisions: u64) -> u64 {
    if n.is_power_of_two() {
        return n;
    }
    let floor = 1 << n.ilog2();
    match floor >> divisions.ilog2() {
        0 => floor * 2,
        step => round_up(n, step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Request, then the size for 1, 2, 4, 8 and 16 divisions.
    #[test]
    fn rounding_follows_the_divisions() {
        let vectors = [
            (1, [512; 5]),
            (513, [1024; 5]),
            (1200, [1536; 5]),
            (2049, [2560, 3072, 2560, 2560, 2560]),
            (1048577, [1049088, 1572864, 1310720, 1179648, 1114112]),
            (1500000, [1500160, 1572864, 1572864, 1572864, 1507328]),
            (10485760, [10485760, 12582912, 10485760, 10485760, 10485760]),
            (10485761, [10486272, 12582912, 12582912, 11534336, 11010048]),
            (536870913, [536871424, 805306368, 671088640, 603979776, 570425344]),
        ];
        for (requested, expected) in vectors {
            for (divisions, size) in [1, 2, 4, 8, 16].into_iter().zip(expected) {
                let rules = AllocatorRules { roundup_power2_divisions: [divisions; 16], ..Default::default() };
                assert_eq!(rules.round_size(requested), size, "{requested} with {divisions} divisions");
            }
        }
    }

    #[test]
    fn segments_follow_the_three_size_classes() {
        let rules = AllocatorRules::default();
        assert_eq!(rules.segment_size(MIB), 2 * MIB);
        assert_eq!(rules.segment_size(MIB + 512), 20 * MIB);
        assert_eq!(rules.segment_size(10 * MIB), 10 * MIB);
        assert_eq!(rules.segment_size(10 * MIB + 512), 12 * MIB);
    }

    #[test]
    fn huge_requests_saturate() {
        let rules = AllocatorRules { roundup_power2_divisions: [4; 16], ..Default::default() };
        assert!(rules.round_size(u64::MAX) >= u64::MAX - 512);
        assert!(rules.segment_size(u64::MAX) >= u64::MAX - 2 * MIB);
    }
}
