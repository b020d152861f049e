//! Ranks for all files of a job, from what their names tell.

use std::collections::{BTreeMap, BTreeSet};

use super::place::Place;

/// The ranks of a job's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    /// Rank and node of each file that is looked at, with its position, by position.
    pub files: Vec<(usize, u32, Option<String>)>,
    /// How ranks were found, where it is not obvious, and which files are left out.
    pub notes: Vec<String>,
}

/// Gives each of `places` a rank: the one in the name; else by node and local rank, by the coordinates of a parallel
/// layout, or by order. Of several files of one rank the one of the highest step counts, else the last one.
pub fn assign(places: &[Place]) -> Assigned {
    let mut notes = Vec::new();
    let all = |has: fn(&Place) -> bool| !places.is_empty() && places.iter().all(has);
    if all(|place| place.rank.is_some()) && !are_local(places) {
        let keys = places.iter().map(|place| place.rank.unwrap_or_default());
        return latest(places, keys.collect(), notes);
    }
    if all(|place| place.local_rank.or(place.rank).is_some() && place.node.is_some()) {
        notes.push("ranks are numbered by node and local rank".to_owned());
        let key = |place: &Place| {
            let node = place.node.clone().unwrap_or_default();
            (node.len(), node, place.local_rank.or(place.rank))
        };
        return latest(places, numbered(places, key), notes);
    }
    if all(|place| !place.coordinates.is_empty()) {
        notes.push("ranks are numbered by the coordinates in the names: pp, dp, cp, sp, ep, tp".to_owned());
        return latest(places, numbered(places, |place| place.coordinates.clone()), notes);
    }
    if places.len() > 1 {
        notes.push(
            "the names tell no ranks: files are numbered in their order (--rank-pattern tells how to read them)"
                .to_owned(),
        );
    }
    let files = (0u32..).zip(places).map(|(rank, place)| (rank as usize, rank, place.node.clone())).collect();
    Assigned { files, notes }
}

/// Whether the ranks in the names start again on each node.
fn are_local(places: &[Place]) -> bool {
    let mut nodes: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for place in places {
        if let (Some(rank), Some(node)) = (place.rank, &place.node) {
            nodes.entry(rank).or_default().insert(node);
        }
    }
    nodes.values().any(|nodes| nodes.len() > 1)
}

/// The rank of each place: equal keys are one rank, and ranks follow the order of keys.
fn numbered<K: Ord>(places: &[Place], key: impl Fn(&Place) -> K) -> Vec<u32> {
    let keys: Vec<K> = places.iter().map(key).collect();
    let order: BTreeMap<&K, u32> = keys.iter().collect::<BTreeSet<_>>().into_iter().zip(0..).collect();
    keys.iter().map(|key| order[key]).collect()
}

fn latest(places: &[Place], ranks: Vec<u32>, mut notes: Vec<String>) -> Assigned {
    let mut chosen: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, &rank) in ranks.iter().enumerate() {
        let before = chosen.entry(rank).or_insert(at);
        if places[at].step >= places[*before].step {
            *before = at;
        }
    }
    let left_out = places.len() - chosen.len();
    if left_out > 0 {
        let s = if left_out == 1 { " is" } else { "s are" };
        notes.push(format!("{left_out} older file{s} left out: of each rank the snapshot of the last step counts"));
    }
    let mut files: Vec<_> = chosen.into_iter().map(|(rank, at)| (at, rank, places[at].node.clone())).collect();
    files.sort_by_key(|(at, ..)| *at);
    Assigned { files, notes }
}

#[cfg(test)]
mod tests {
    use super::super::place::place;
    use super::*;

    fn ranks(names: &[&str]) -> Vec<(usize, u32)> {
        let places: Vec<Place> = names.iter().map(|name| place(name)).collect();
        assign(&places).files.into_iter().map(|(at, rank, _)| (at, rank)).collect()
    }

    #[test]
    fn ranks_come_from_names_when_all_tell() {
        assert_eq!(ranks(&["rank4.pickle", "rank2.pickle"]), [(0, 4), (1, 2)]);
        assert_eq!(ranks(&["rank4.pickle", "x.pickle"]), [(0, 0), (1, 1)]);
        assert_eq!(ranks(&[]), []);
    }

    #[test]
    fn ranks_that_start_again_on_each_node_are_local() {
        let names = ["node1/rank0.pickle", "node1/rank1.pickle", "node10/rank0.pickle", "node2/rank0.pickle"];
        assert_eq!(ranks(&names), [(0, 0), (1, 1), (2, 3), (3, 2)]);
    }

    #[test]
    fn coordinates_count_from_the_pipeline() {
        assert_eq!(ranks(&["tp1_pp0.pickle", "tp0_pp1.pickle", "tp0_pp0.pickle"]), [(0, 1), (1, 2), (2, 0)]);
    }

    #[test]
    fn the_last_step_of_a_rank_counts() {
        let names = ["iteration_20/rank0.pickle", "iteration_3/rank0.pickle", "iteration_3/rank1.pickle"];
        assert_eq!(ranks(&names), [(0, 0), (2, 1)]);
        let places: Vec<Place> = names.iter().map(|name| place(name)).collect();
        assert_eq!(assign(&places).notes.len(), 1);
    }
}
