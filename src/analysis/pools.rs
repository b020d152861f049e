//! The allocator's sets of free blocks: one a private pool, stream and size class. A request only looks into its own.

use std::collections::BTreeMap;

use serde::Serialize;

use super::pool_key::PoolKey;
use super::search::{FreeSet, free_sets};
use super::totals::{Totals, totals_of};
use crate::allocator::PoolKind;
use crate::history::{History, State, StateRange};

/// The memory of one pool, stream and size class. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolRow {
    /// Stream pointer.
    pub stream: String,
    /// Private pool id as `a,b`; `None` for the default pool.
    pub pool: Option<String>,
    /// Size class.
    pub kind: PoolKind,
    /// Number of cudaMalloc'd segments.
    pub segments: usize,
    /// Number of contiguous mapped ranges of expandable memory.
    pub ranges: usize,
    /// How its memory divides.
    pub totals: Totals,
    /// The largest request that it can serve without memory from the device; `None` when no request.
    pub largest_request: Option<u64>,
    /// What the row stands for.
    #[serde(skip)]
    pub key: PoolKey,
}

/// The pools of `state`; their totals sum to the device's.
pub fn pools(history: &History, state: &State) -> Vec<PoolRow> {
    let mut ranges_of: BTreeMap<PoolKey, Vec<&StateRange>> = BTreeMap::new();
    for range in &state.ranges {
        ranges_of.entry(PoolKey::from(&range.range)).or_default().push(range);
    }
    let sets = free_sets(state);
    let nothing = FreeSet::default();
    ranges_of
        .into_iter()
        .map(|(key, ranges)| {
            let expandable = ranges.iter().filter(|range| range.range.expandable).count();
            PoolRow {
                stream: key.stream_text(history.snapshot),
                pool: key.pool_text(history.snapshot),
                kind: key.kind,
                segments: ranges.len() - expandable,
                ranges: expandable,
                totals: totals_of(history, state, &ranges),
                largest_request: sets.get(&key).unwrap_or(&nothing).largest_request(key.kind, &history.rules),
                key,
            }
        })
        .collect()
}
