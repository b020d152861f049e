//! Ranks that differ from those that run the same code, and the lines that make the difference.

use std::collections::HashMap;

use serde::Serialize;

use super::groups::Group;
use super::rank::{Rank, SiteBytes};
use super::spread::{OUTLYING, median, scores};

/// At most one rank in so many is odd.
const FEW: usize = 4;
/// Lines named for one difference, and how much less than the first the others may make: 1 / 3.
const SITES: usize = 3;
const NOTABLE: u64 = 3;

/// A rank whose memory differs from its group's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlier {
    /// What differs: `peak` (live bytes) or `reserved` (their peak).
    pub metric: &'static str,
    /// The rank's figure in bytes.
    pub bytes: u64,
    /// The group's median in bytes.
    pub median: u64,
    /// Modified z-score: how many usual deviations lie between them.
    pub score: f64,
    /// The lines that hold more, or less, at this rank's peak than at the median rank's, largest difference first.
    pub sites: Vec<Difference>,
}

/// A line that holds another amount than elsewhere, at the peaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The line.
    pub site: String,
    /// Its function.
    pub function: Option<String>,
    /// Bytes here.
    pub bytes: u64,
    /// Bytes there.
    pub elsewhere: u64,
}

impl Difference {
    /// Bytes here beyond those there.
    pub fn delta(&self) -> i64 {
        self.bytes as i64 - self.elsewhere as i64
    }
}

/// The outliers of all groups with their positions in `ranks`. Groups of fewer than three ranks have none: there is no
/// usual rank.
pub fn outliers(ranks: &[Rank], groups: &[Group]) -> Vec<(usize, Outlier)> {
    groups.iter().flat_map(|group| of_group(ranks, group)).collect()
}

fn of_group(ranks: &[Rank], group: &Group) -> Vec<(usize, Outlier)> {
    if group.members.len() < 3 {
        return Vec::new();
    }
    let members: Vec<&Rank> = group.members.iter().map(|&at| &ranks[at]).collect();
    let peaks: Vec<u64> = members.iter().map(|rank| rank.peak_live()).collect();
    let reserved: Vec<u64> = members.iter().map(|rank| rank.peak_reserved()).collect();
    let usual = usual(&members, &peaks);
    let (by_peak, by_reserved) = (scores(&peaks), scores(&reserved));
    let of = |metric, values: &[u64], scores: &[f64], at: usize| Outlier {
        metric,
        bytes: values[at],
        median: median(values.iter().copied()),
        score: scores[at],
        sites: differences(&members[at].at_peak, &usual.at_peak),
    };
    let found: Vec<(usize, Outlier)> = (0..members.len())
        .filter_map(|at| {
            // Reserved memory follows live memory: where both differ, the cause is told once.
            let outlier = if by_peak[at].abs() > OUTLYING {
                of("peak", &peaks, &by_peak, at)
            } else if by_reserved[at].abs() > OUTLYING {
                of("reserved", &reserved, &by_reserved, at)
            } else {
                return None;
            };
            Some((group.members[at], outlier))
        })
        .collect();
    // What many ranks have is not odd, as where two kinds of batches alternate.
    if found.len() > (members.len() / FEW).max(1) { Vec::new() } else { found }
}

/// The first rank with the median peak.
fn usual<'a>(members: &[&'a Rank], peaks: &[u64]) -> &'a Rank {
    let middle = median(peaks.iter().copied());
    let at = peaks.iter().position(|&peak| peak == middle).unwrap_or(0);
    members[at]
}

/// The lines that hold another amount `here` than `there`: those that push in the direction of the whole difference,
/// largest first.
pub fn differences(here: &[SiteBytes], there: &[SiteBytes]) -> Vec<Difference> {
    let bytes = |sites: &[SiteBytes]| sites.iter().map(|site| site.bytes as i64).sum::<i64>();
    let is_more = bytes(here) >= bytes(there);
    let elsewhere: HashMap<&str, u64> = there.iter().map(|site| (site.site.as_str(), site.bytes)).collect();
    let present: HashMap<&str, u64> = here.iter().map(|site| (site.site.as_str(), site.bytes)).collect();
    let ours = here.iter().map(|site| (site, site.bytes, elsewhere.get(site.site.as_str()).copied().unwrap_or(0)));
    let theirs = there.iter().filter(|site| !present.contains_key(site.site.as_str()));
    let mut found: Vec<Difference> = ours
        .chain(theirs.map(|site| (site, 0, site.bytes)))
        .map(|(site, bytes, elsewhere)| Difference {
            site: site.site.clone(),
            function: site.function.clone(),
            bytes,
            elsewhere,
        })
        .filter(|difference| if is_more { difference.delta() > 0 } else { difference.delta() < 0 })
        .collect();
    found.sort_by(|a, b| b.delta().abs().cmp(&a.delta().abs()).then_with(|| a.site.cmp(&b.site)));
    let largest = found.first().map_or(0, |first| first.delta().unsigned_abs());
    found.retain(|difference| difference.delta().unsigned_abs() > largest / NOTABLE);
    found.truncate(SITES);
    found
}
