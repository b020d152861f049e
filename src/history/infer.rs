//! Settings that the file does not record (torch 2.2 and older), inferred from what the allocator did.
//!
//! Two settings change which bytes a block occupies: `roundup_power2_divisions` and `max_split_size_mb`. Under the
//! right ones every block of the dump has the size that its request leads to, and no segment was asked of the device
//! while a free block would have served.

use super::lives::Lives;
use super::ranges::Ranges;
use super::{Health, scan, sizes};
use crate::allocator::{AllocatorRules, MIB};
use crate::snapshot::{Device, Snapshot};

/// Values that people set, ascending.
const DIVISIONS: [u64; 5] = [2, 4, 8, 16, 32];
const MAX_SPLIT_MIB: [u64; 8] = [32, 64, 100, 128, 200, 256, 512, 1024];
/// Blocks and ranges that are looked at for each event, at most, to find out whether a segment was needed: a job that asks
/// for segments all the time has long shown by then what its rules are.
const SEARCH: usize = 64;

/// The rules under which the trace makes sense, and the setting that makes the difference in words. `base` where no
/// setting tried is better than it.
pub(super) fn rules(
    snapshot: &Snapshot,
    device: &Device,
    base: &AllocatorRules,
    health: &mut Health,
) -> AllocatorRules {
    let misfits = |rules: &AllocatorRules| misfits(snapshot, device, rules);
    if misfits(base) == 0 {
        return base.clone();
    }
    let rounded = |divisions| AllocatorRules { roundup_power2_divisions: [divisions; 16], ..base.clone() };
    let unsplit = |mib| AllocatorRules { max_split_size: Some(mib * MIB), ..base.clone() };
    let fits = |rules: &AllocatorRules| misfits(rules) == 0;
    if let Some(&divisions) = DIVISIONS.iter().find(|&&divisions| fits(&rounded(divisions))) {
        health.inferred_setting = Some(format!("roundup_power2_divisions:{divisions}"));
        return rounded(divisions);
    }
    // Several limits may explain the same trace; block sizes are then the same under each.
    let limits: Vec<u64> = MAX_SPLIT_MIB.iter().copied().filter(|&mib| fits(&unsplit(mib))).collect();
    match limits[..] {
        [] => base.clone(),
        [only] => {
            health.inferred_setting = Some(format!("max_split_size_mb:{only}"));
            unsplit(only)
        }
        [lowest, .., highest] => {
            health.inferred_setting = Some(format!("max_split_size_mb between {lowest} and {highest}"));
            unsplit(lowest)
        }
    }
}

/// How often the trace contradicts `rules`.
fn misfits(snapshot: &Snapshot, device: &Device, rules: &AllocatorRules) -> u64 {
    let scanned = scan::scan(snapshot, device, rules);
    let mut health = Health::default();
    let mut lives: Lives = scanned.lives;
    let mut ranges = Ranges::new(snapshot, device, rules, &mut health);
    let search = SEARCH * device.events.len();
    sizes::fill(snapshot, device, rules, &mut lives, &mut ranges, &mut health, search);
    health.odd_sizes + health.needless_segments
}
