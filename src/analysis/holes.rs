//! Free blocks by size, against the sizes that the program asks for.

use serde::Serialize;

use crate::allocator::PoolKind;
use crate::history::{History, Moment, State};

/// Requests that are looked at: the last ones before the moment.
const RECENT: usize = 10_000;

/// The free blocks of one device, and how many of the recent requests they could serve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Holes {
    /// How many of the last requests before the moment were looked at: at most 10 000.
    pub requests: u64,
    /// By size class and size; sizes double from row to row.
    pub rows: Vec<HoleRow>,
    /// Free bytes in blocks that could serve none of those requests; `None` without requests.
    pub useless: Option<u64>,
    /// Number of those blocks.
    pub useless_holes: Option<u64>,
}

/// Free blocks, and requests, of one size. Bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HoleRow {
    /// Size class: small requests only see small blocks, large ones only large blocks.
    pub kind: PoolKind,
    /// Smallest size in the row.
    pub from: u64,
    /// Sizes are below this.
    pub below: u64,
    /// Number of free blocks.
    pub holes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of recent requests of these sizes, rounded.
    pub requests: u64,
    /// How many of the recent requests of the size class the smallest of the row's blocks could serve.
    pub smallest_serves: Option<u64>,
    /// The same for the largest.
    pub largest_serves: Option<u64>,
}

/// The free blocks of `state`, which is that of `moment`.
pub fn holes(history: &History, state: &State, moment: Moment) -> Holes {
    let recent = Recent::new(history, moment.state);
    let mut sizes: Vec<(PoolKind, u64)> = state
        .ranges
        .iter()
        .flat_map(|range| state.holes_of(range).map(|hole| (range.range.kind, hole.bytes)))
        .collect();
    sizes.sort_unstable();
    let mut rows = Vec::new();
    for kind in [PoolKind::Small, PoolKind::Large] {
        for power in 9..64 {
            // The smallest row takes everything below it too: sizes under the minimum block only exist in odd files.
            let (from, below) =
                (if power == 9 { 0 } else { 1 << power }, 1u64.checked_shl(power + 1).unwrap_or(u64::MAX));
            let start = sizes.partition_point(|&size| size < (kind, from));
            let end = sizes.partition_point(|&size| size < (kind, below));
            let here = &sizes[start..end];
            let requests = recent.between(kind, from, below);
            if here.is_empty() && requests == 0 {
                continue;
            }
            let serves = |size: Option<&(PoolKind, u64)>| size.map(|&(_, size)| recent.between(kind, 0, size + 1));
            rows.push(HoleRow {
                kind,
                from,
                below,
                holes: here.len() as u64,
                bytes: here.iter().map(|(_, size)| size).sum(),
                requests,
                smallest_serves: serves(here.first()),
                largest_serves: serves(here.last()),
            });
        }
    }
    let useless = sizes.iter().filter(|(kind, size)| recent.between(*kind, 0, size + 1) == 0);
    let known = recent.count() > 0;
    Holes {
        requests: recent.count(),
        rows,
        useless: known.then(|| useless.clone().map(|(_, size)| size).sum()),
        useless_holes: known.then(|| useless.count() as u64),
    }
}

/// Rounded sizes of the last requests, ascending, by size class.
struct Recent {
    small: Vec<u64>,
    large: Vec<u64>,
}

impl Recent {
    fn new(history: &History, state: u32) -> Self {
        let lives = &history.lives;
        let mut recent = Self { small: Vec::new(), large: Vec::new() };
        let allocs = (0..state).rev().filter_map(|event| {
            let life = lives.of_event(event)?;
            (lives.alloc_event(life) == Some(event)).then(|| history.rules.round_size(lives.requested(life)))
        });
        for size in allocs.take(RECENT) {
            match history.rules.pool_kind(size) {
                PoolKind::Small => recent.small.push(size),
                PoolKind::Large => recent.large.push(size),
            }
        }
        recent.small.sort_unstable();
        recent.large.sort_unstable();
        recent
    }

    fn count(&self) -> u64 {
        (self.small.len() + self.large.len()) as u64
    }

    /// Requests of `kind` of at least `from` and below `below` bytes.
    fn between(&self, kind: PoolKind, from: u64, below: u64) -> u64 {
        let sizes = match kind {
            PoolKind::Small => &self.small,
            PoolKind::Large => &self.large,
        };
        let before = |limit: u64| sizes.partition_point(|&size| size < limit);
        before(below).saturating_sub(before(from)) as u64
    }
}
