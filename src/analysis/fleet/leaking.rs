//! Leaks that all ranks share, and those of one.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rank::Rank;
use super::spread::median;

/// A line that grows on one rank or more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharedLeak {
    /// Name of the site.
    pub site: String,
    /// Its function.
    pub function: Option<String>,
    /// The ranks on which it grows, ascending.
    pub ranks: Vec<u32>,
    /// Whether those are all ranks that allocate there at all, and more than one.
    pub everywhere: bool,
    /// Median of the bytes that it adds in a step.
    pub bytes_per_step: u64,
    /// The most that is live of it on one rank.
    pub live_bytes: u64,
    /// What it probably is, on the first of the ranks.
    pub kind: String,
}

/// The leaks of all ranks by site, the fastest first.
pub fn shared_leaks(ranks: &[Rank]) -> Vec<SharedLeak> {
    let mut by_site: BTreeMap<&str, Vec<&Rank>> = BTreeMap::new();
    for rank in ranks {
        for leak in &rank.leaks {
            by_site.entry(&leak.site).or_default().push(rank);
        }
    }
    let of_site = |(site, on): (&str, Vec<&Rank>)| {
        let leaks: Vec<_> = on.iter().flat_map(|rank| rank.leaks.iter().filter(|leak| leak.site == site)).collect();
        let first = leaks.first()?;
        let allocating = ranks.iter().filter(|rank| rank.profile.iter().any(|other| other.site == site)).count();
        Some(SharedLeak {
            site: site.to_owned(),
            function: first.function.clone(),
            ranks: on.iter().map(|rank| rank.rank).collect(),
            everywhere: on.len() > 1 && on.len() == allocating,
            bytes_per_step: median(leaks.iter().map(|leak| leak.bytes_per_step)),
            live_bytes: leaks.iter().map(|leak| leak.live_bytes).max().unwrap_or(0),
            kind: first.kind.clone(),
        })
    };
    let mut found: Vec<SharedLeak> = by_site.into_iter().filter_map(of_site).collect();
    found.sort_by(|a, b| b.bytes_per_step.cmp(&a.bytes_per_step).then_with(|| a.site.cmp(&b.site)));
    found
}
