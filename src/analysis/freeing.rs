//! What would have to go: for one segment, and for a number of bytes.

use std::collections::HashMap;

use serde::Serialize;

use super::pinning::Pinning;
use super::sites::{Site, Sites};
use crate::history::{History, LiveBlock, State};

/// Sets of sites that one step of the greedy search compares. Only reached when thousands of units are each shared by
/// sites of their own.
const MAX_CHOICES: usize = 2_000;
/// Blocks of a segment that are named.
const MAX_BLOCKS: usize = 50;

/// Sites whose blocks would have to go so that a number of bytes could be given back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Freeing {
    /// How many bytes were asked for.
    pub wanted: u64,
    /// Bytes that can be given back at once.
    pub releasable: u64,
    /// Bytes that can be given back after the steps, those included.
    pub freed: u64,
    /// Whether that is enough.
    pub enough: bool,
    /// Few sites, but perhaps not the fewest: each step takes those that free most for their number.
    pub steps: Vec<FreeStep>,
}

/// Sites that must all go together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FreeStep {
    /// Their names.
    pub sites: Vec<String>,
    /// Bytes of their live blocks.
    pub own: u64,
    /// Bytes of the units that only they still held.
    pub freed: u64,
    /// Number of those units that are segments.
    pub segments: u64,
    /// Number of those that are granules of expandable memory.
    pub granules: u64,
}

/// Greedily few sites whose blocks would have to go so that `wanted` bytes could be given back to the device.
pub fn freeing(pinning: &Pinning, wanted: u64) -> Freeing {
    let mut freeing =
        Freeing { wanted, releasable: pinning.releasable, freed: pinning.releasable, enough: false, steps: vec![] };
    // Units with the same sites count as one.
    let mut groups: HashMap<&[u32], Group> = HashMap::new();
    for unit in &pinning.units {
        let group =
            groups.entry(&unit.sites).or_insert_with(|| Group { missing: unit.sites.clone(), ..Group::default() });
        group.bytes += unit.bytes;
        if unit.granules > 0 { group.granules += unit.granules } else { group.segments += 1 }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    // The order decides between equals, and must not be that of a hash.
    groups.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.missing.cmp(&b.missing)));
    while freeing.freed < wanted {
        let Some(chosen) = best(&groups) else { break };
        let (done, rest): (Vec<Group>, Vec<Group>) =
            groups.into_iter().partition(|group| group.missing.iter().all(|site| chosen.contains(site)));
        groups = rest;
        for group in &mut groups {
            group.missing.retain(|site| !chosen.contains(site));
        }
        let step = FreeStep {
            sites: chosen.iter().map(|&site| pinning.site(site).site.clone()).collect(),
            own: chosen.iter().map(|&site| pinning.site(site).own).sum(),
            freed: done.iter().map(|group| group.bytes).sum(),
            segments: done.iter().map(|group| group.segments).sum(),
            granules: done.iter().map(|group| group.granules).sum(),
        };
        freeing.freed += step.freed;
        freeing.steps.push(step);
    }
    freeing.enough = freeing.freed >= wanted;
    freeing
}

/// Units held by the same sites.
#[derive(Default)]
struct Group {
    /// The sites that have not gone yet, ascending.
    missing: Vec<u32>,
    bytes: u64,
    segments: u64,
    granules: u64,
}

/// The sites that free most bytes for their number.
fn best(groups: &[Group]) -> Option<Vec<u32>> {
    let mut alone: HashMap<u32, u64> = HashMap::new();
    let mut together: HashMap<&[u32], u64> = HashMap::new();
    for group in groups {
        match group.missing[..] {
            [site] => *alone.entry(site).or_default() += group.bytes,
            _ => *together.entry(&group.missing).or_default() += group.bytes,
        }
    }
    // Sets within a set go with it. Comparing all pairs is bounded by the number of sets looked at.
    let mut sets: Vec<(&[u32], u64)> = together.into_iter().collect();
    sets.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    sets.truncate(MAX_CHOICES);
    let is_within = |small: &[u32], large: &[u32]| small.iter().all(|site| large.binary_search(site).is_ok());
    let gain_of = |set: &[u32]| -> u64 {
        let single: u64 = set.iter().filter_map(|site| alone.get(site)).sum();
        let within = sets.iter().filter(|(other, _)| other.len() <= set.len() && is_within(other, set));
        single + within.map(|(_, bytes)| bytes).sum::<u64>()
    };
    let singles = alone.iter().map(|(&site, &bytes)| (vec![site], bytes));
    let several = sets.iter().map(|(set, _)| (set.to_vec(), gain_of(set)));
    let better = |(a, a_bytes): &(Vec<u32>, u64), (b, b_bytes): &(Vec<u32>, u64)| {
        let left = u128::from(*a_bytes) * b.len() as u128;
        let right = u128::from(*b_bytes) * a.len() as u128;
        left.cmp(&right).then(b.len().cmp(&a.len())).then_with(|| b.cmp(a))
    };
    singles.chain(several).max_by(better).map(|(sites, _)| sites)
}

/// Everything live in one segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Holders {
    /// Start address of the segment or mapped range.
    #[serde(serialize_with = "super::fragmentation::hex")]
    pub address: u64,
    /// Bytes.
    pub total: u64,
    /// Free bytes.
    pub free: u64,
    /// All of them must go before the segment can be given back; most bytes first.
    pub sites: Vec<Holder>,
    /// Number of live blocks.
    pub blocks: usize,
    /// The smallest of them.
    pub smallest: Vec<HeldBlock>,
}

/// One site's blocks in a segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Holder {
    /// Name of the site.
    pub site: String,
    /// Bytes.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// A live block in a segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldBlock {
    /// Start address.
    #[serde(serialize_with = "super::fragmentation::hex")]
    pub address: u64,
    /// Bytes occupied.
    pub bytes: u64,
    /// Whether it only waits for another stream.
    pub pending: bool,
    /// Name of the site.
    pub site: String,
    /// Event of its allocation; `None` when it was there before the recording.
    pub alloc_event: Option<u32>,
}

/// What is live in the segment of `state` that holds `address`.
pub fn holders(history: &History, state: &State, sites: &Sites, address: u64) -> Option<Holders> {
    let at = state.ranges.partition_point(|range| range.addr <= address).checked_sub(1)?;
    let range = state.ranges.get(at).filter(|range| address - range.addr < range.bytes)?;
    let mut blocks: Vec<_> = state.blocks_of(range).iter().collect();
    let site_of = |block: &LiveBlock| sites.of_life(history, block.life);
    let mut of_site: HashMap<Site, (u64, u64)> = HashMap::new();
    for block in &blocks {
        let (bytes, count) = of_site.entry(site_of(block)).or_default();
        (*bytes, *count) = (*bytes + block.bytes, *count + 1);
    }
    let mut rows: Vec<Holder> = of_site
        .into_iter()
        .map(|(site, (bytes, blocks))| Holder { site: sites.name(site).into_owned(), bytes, blocks })
        .collect();
    rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.site.cmp(&b.site)));
    let count = blocks.len();
    blocks.sort_by_key(|block| (block.bytes, block.addr));
    let smallest = blocks.iter().take(MAX_BLOCKS).map(|block| HeldBlock {
        address: block.addr,
        bytes: block.bytes,
        pending: block.is_pending,
        site: sites.name(site_of(block)).into_owned(),
        alloc_event: history.lives.alloc_event(block.life),
    });
    Some(Holders {
        address: range.addr,
        total: range.bytes,
        free: state.holes_of(range).map(|hole| hole.bytes).sum(),
        sites: rows,
        blocks: count,
        smallest: smallest.collect(),
    })
}
