//! Whether the ranks of a job share its memory evenly.

use serde::Serialize;

use super::outliers::{Difference, differences};
use super::rank::Rank;
use super::spread::median;

/// The highest peak against the usual one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Imbalance {
    /// The rank with the highest peak of live bytes.
    pub rank: u32,
    /// That peak.
    pub peak: u64,
    /// The median of all ranks' peaks.
    pub median: u64,
    /// The lowest peak.
    pub lowest: u64,
    /// The lines that hold more there than on the median rank.
    pub sites: Vec<Difference>,
}

impl Imbalance {
    /// Bytes above the median.
    pub fn above(&self) -> u64 {
        self.peak - self.median
    }
}

/// The imbalance of `ranks`; `None` when there is only one.
pub fn imbalance(ranks: &[Rank]) -> Option<Imbalance> {
    if ranks.len() < 2 {
        return None;
    }
    let peaks: Vec<u64> = ranks.iter().map(Rank::peak_live).collect();
    let middle = median(peaks.iter().copied());
    let highest = (0..ranks.len()).max_by_key(|&at| (peaks[at], std::cmp::Reverse(at)))?;
    let usual = peaks.iter().position(|&peak| peak == middle)?;
    Some(Imbalance {
        rank: ranks[highest].rank,
        peak: peaks[highest],
        median: middle,
        lowest: peaks.iter().copied().min()?,
        sites: differences(&ranks[highest].at_peak, &ranks[usual].at_peak),
    })
}
