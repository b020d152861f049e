//! Ranks that run the same code: pipeline stages, expert shards, or all of them.
//!
//! Two ranks are alike when the bytes that their lines allocated point the same way (cosine) and neither has much from
//! a line that the other lacks. A rank that is alike to no other, but close to a group, belongs to that group as an odd
//! one: a rank with one more line is no stage of its own.

use std::collections::HashMap;

use serde::Serialize;

use super::rank::{Rank, SiteBytes};
use super::spread::median;

/// Least cosine of two profiles of one group.
const ALIKE: f64 = 0.95;
/// Most that a line which the other rank lacks may have of all bytes, among ranks of one group.
const FOREIGN: f64 = 0.002;
/// Sites named for a group.
const NAMED: usize = 3;

/// Ranks with the same code.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// `A`, `B`, … in the order of their first ranks.
    pub name: String,
    /// Its ranks, ascending.
    pub ranks: Vec<u32>,
    /// Median of the ranks' peaks of live bytes (without history, of the bytes at the end).
    pub peak: u64,
    /// Median of the ranks' peaks of reserved bytes.
    pub reserved: u64,
    /// The lines that hold most at the peak of the group's first rank; first those that other groups have not.
    pub sites: Vec<GroupSite>,
    /// Positions of its ranks among all.
    #[serde(skip)]
    pub members: Vec<usize>,
}

/// A line that tells groups apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSite {
    /// What it holds at the peak of the group's first rank.
    #[serde(flatten)]
    pub held: SiteBytes,
    /// Whether no other group allocates there.
    pub only_here: bool,
}

/// The groups of `ranks`, which are in order.
pub fn groups(ranks: &[Rank]) -> Vec<Group> {
    let profiles: Vec<Profile> = ranks.iter().map(|rank| Profile::new(&rank.profile)).collect();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for at in 0..ranks.len() {
        match found.iter_mut().find(|group| profiles[group[0]].is_like(&profiles[at])) {
            Some(group) => group.push(at),
            None => found.push(vec![at]),
        }
    }
    let (mut whole, single): (Vec<_>, Vec<_>) = found.into_iter().partition(|group| group.len() > 1);
    for at in single.into_iter().flatten() {
        let closest = |group: &&mut Vec<usize>| (profiles[group[0]].cosine(&profiles[at]) * 1e9) as u64;
        match whole.iter_mut().filter(|group| group.len() > 1).max_by_key(closest) {
            Some(group) if profiles[group[0]].cosine(&profiles[at]) >= ALIKE => group.push(at),
            _ => whole.push(vec![at]),
        }
    }
    for group in &mut whole {
        group.sort_unstable();
    }
    whole.sort();
    let names: Vec<String> = (0..whole.len()).map(name).collect();
    whole
        .iter()
        .zip(names)
        .map(|(members, name)| {
            let others = whole.iter().filter(|other| *other != members).map(|other| &profiles[other[0]]);
            let others: Vec<&Profile> = others.collect();
            group(ranks, members, name, &others)
        })
        .collect()
}

fn group(ranks: &[Rank], members: &[usize], name: String, others: &[&Profile]) -> Group {
    let typical = &ranks[members[0]];
    let held = typical.at_peak.iter().map(|site| GroupSite {
        held: site.clone(),
        only_here: !others.is_empty() && others.iter().all(|other| !other.shares.contains_key(site.site.as_str())),
    });
    let mut sites: Vec<GroupSite> = held.collect();
    // Sites are sorted by bytes, and the sort is stable.
    sites.sort_by_key(|site| !site.only_here);
    sites.truncate(NAMED);
    Group {
        name,
        ranks: members.iter().map(|&at| ranks[at].rank).collect(),
        peak: median(members.iter().map(|&at| ranks[at].peak_live())),
        reserved: median(members.iter().map(|&at| ranks[at].peak_reserved())),
        sites,
        members: members.to_vec(),
    }
}

/// `A` to `Z`, then `AA`, `AB`, …
fn name(mut number: usize) -> String {
    let mut name = String::new();
    loop {
        name.insert(0, (b'A' + (number % 26) as u8) as char);
        match (number / 26).checked_sub(1) {
            Some(rest) => number = rest,
            None => return name,
        }
    }
}

/// The share of each line in what a rank allocated.
struct Profile<'a> {
    shares: HashMap<&'a str, f64>,
    /// Lines in order, for sums that do not depend on the map's.
    order: Vec<&'a str>,
    norm: f64,
}

impl<'a> Profile<'a> {
    fn new(sites: &'a [SiteBytes]) -> Self {
        let total: u64 = sites.iter().map(|site| site.bytes).sum();
        let share = |site: &SiteBytes| site.bytes as f64 / total.max(1) as f64;
        let norm = sites.iter().map(|site| share(site).powi(2)).sum::<f64>().sqrt();
        Self {
            shares: sites.iter().map(|site| (site.site.as_str(), share(site))).collect(),
            order: sites.iter().map(|site| site.site.as_str()).collect(),
            norm,
        }
    }

    fn cosine(&self, other: &Self) -> f64 {
        if self.norm == 0.0 || other.norm == 0.0 {
            return f64::from(u8::from(self.norm == other.norm));
        }
        let dot: f64 = self.order.iter().filter_map(|site| Some(self.shares[site] * other.shares.get(site)?)).sum();
        dot / (self.norm * other.norm)
    }

    fn is_like(&self, other: &Self) -> bool {
        self.cosine(other) >= ALIKE && self.lacks(other) <= FOREIGN && other.lacks(self) <= FOREIGN
    }

    /// The share of `other`'s lines that are not in this profile.
    fn lacks(&self, other: &Self) -> f64 {
        other.order.iter().filter(|site| !self.shares.contains_key(*site)).map(|site| other.shares[site]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(of: &[(&str, u64)]) -> Vec<SiteBytes> {
        of.iter().map(|&(site, bytes)| SiteBytes { site: site.to_owned(), bytes, ..SiteBytes::default() }).collect()
    }

    #[test]
    fn the_same_code_on_other_sizes_is_alike() {
        let (small, large) = (sites(&[("a", 10), ("b", 20)]), sites(&[("a", 1000), ("b", 2000)]));
        assert!(Profile::new(&small).is_like(&Profile::new(&large)));
        let other = sites(&[("a", 10), ("b", 20), ("c", 30)]);
        assert!(!Profile::new(&small).is_like(&Profile::new(&other)));
        assert!(Profile::new(&[]).is_like(&Profile::new(&[])));
    }

    #[test]
    fn names_go_on_behind_z() {
        assert_eq!([name(0), name(25), name(26), name(27), name(701), name(702)], ["A", "Z", "AA", "AB", "ZZ", "AAA"]);
    }
}
