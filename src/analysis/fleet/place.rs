//! Which rank a file is of, from its name.
//!
//! The names that training frameworks give: `iteration_10/rank0_memory_snapshot.pickle` (torchtitan),
//! `ep0-ba1-rank3.pickle` (composer), `snapshot_oom_rank-7.pickle` (Megatron), `actor_rank_2_1795978737.pickle` (verl),
//! `dp0_pp1_tp2.pickle` (vLLM), `HOST/local_rank_3.pickle`, and a directory for each rank or node.

use regex::Regex;

/// What the name of a file tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The global rank.
    pub rank: Option<u32>,
    /// The node, as the name spells it.
    pub node: Option<String>,
    /// Rank within the node.
    pub local_rank: Option<u32>,
    /// Coordinates in the parallel layout, outermost first: pipeline, data, context, expert, tensor.
    pub coordinates: Vec<u32>,
    /// The step or iteration.
    pub step: Option<u64>,
}

/// Why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// Not a regular expression.
    #[error("the rank pattern is no regular expression: {0}")]
    Syntax(#[from] regex::Error),
    /// No group to take the rank from.
    #[error("the rank pattern needs a group for the number: `worker-(\\d+)`, or named: `(?<node>\\w+)-(?<rank>\\d+)`")]
    NoGroup,
}

/// A user's own pattern for names.
#[derive(Clone, Debug)]
pub struct RankPattern(Regex);

impl RankPattern {
    /// A regular expression on the path, with a group `rank` (or any group), and perhaps `node` and `step`.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let regex = Regex::new(pattern)?;
        match regex.captures_len() {
            0 | 1 => Err(PatternError::NoGroup),
            _ => Ok(Self(regex)),
        }
    }

    /// The place of the file `path`.
    pub fn place(&self, path: &str) -> Place {
        let Some(found) = self.0.captures(path) else { return Place::default() };
        let rank = found.name("rank").or_else(|| found.get(1));
        Place {
            rank: rank.and_then(|rank| rank.as_str().parse().ok()),
            node: found.name("node").map(|node| node.as_str().to_owned()),
            step: found.name("step").and_then(|step| step.as_str().parse().ok()),
            ..Place::default()
        }
    }
}

/// Directories above the file that are looked at.
const DIRECTORIES: usize = 3;
/// Axes of a parallel layout in the order in which ranks are counted.
const AXES: [&str; 6] = ["pp", "dp", "cp", "sp", "ep", "tp"];

/// The place of the file `path`: what its own name says, else what the directories above it say.
pub fn place(path: &str) -> Place {
    let parts: Vec<String> = path.split(['/', '\\']).rev().take(1 + DIRECTORIES).map(str::to_ascii_lowercase).collect();
    let first = |keywords: &[&str]| {
        parts.iter().find_map(|part| keywords.iter().find_map(|keyword| number_after(part, keyword)))
    };
    let coordinates: Vec<u32> = parts
        .iter()
        .map(|part| AXES.iter().filter_map(|axis| number_after(part, axis)).filter_map(|n| n.try_into().ok()).collect())
        .find(|found: &Vec<u32>| found.len() > 1)
        .unwrap_or_default();
    Place {
        rank: first(&["global_rank", "global-rank", "rank", "rk"]).and_then(|rank| rank.try_into().ok()),
        node: parts.iter().find_map(|part| node(part)),
        local_rank: first(&["local_rank", "local-rank", "localrank", "lr"]).and_then(|rank| rank.try_into().ok()),
        coordinates,
        step: first(&["global_step", "iteration", "step", "iter", "ba"]),
    }
}

/// The number behind `keyword` in `text`, with at most one of `_ - = .` between them; `keyword` must start a word.
fn number_after(text: &str, keyword: &str) -> Option<u64> {
    let starts = text.match_indices(keyword).filter(|(at, _)| is_word_start(text, *at, keyword));
    starts.map(|(at, _)| &text[at + keyword.len()..]).find_map(|rest| {
        let rest = rest.strip_prefix(['_', '-', '=', '.']).unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok()
    })
}

/// Whether a word starts at `at`. `rank` behind `local_` is another word.
fn is_word_start(text: &str, at: usize, keyword: &str) -> bool {
    let before = text[..at].trim_end_matches(['_', '-']);
    let letters = before.len() - before.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let word = &before[before.len() - letters..];
    let is_glued = before.len() == at && letters > 0;
    let is_partial = keyword == "rank" && matches!(word, "local" | "dp" | "tp" | "pp" | "ep" | "cp" | "sp");
    !is_glued && !is_partial
}

/// The name behind `node` or `host`: `node-gpu17` gives `gpu17`, `node3` gives `3`.
fn node(part: &str) -> Option<String> {
    for keyword in ["node", "host"] {
        for (at, _) in part.match_indices(keyword).filter(|(at, _)| is_word_start(part, *at, keyword)) {
            let rest = &part[at + keyword.len()..];
            let (is_separated, rest) = match rest.strip_prefix(['_', '-', '=', '.']) {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            let name = &rest[..rest.bytes().take_while(u8::is_ascii_alphanumeric).count()];
            let is_name = !name.is_empty() && name != "rank" && (is_separated || name.as_bytes()[0].is_ascii_digit());
            if is_name {
                return Some(name.to_owned());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_frameworks_give() {
        let rank = |path: &str| place(path).rank;
        assert_eq!(rank("out/iteration_10/rank0_memory_snapshot.pickle"), Some(0));
        assert_eq!(place("out/iteration_10_exit/rank0_memory_snapshot.pickle").step, Some(10));
        assert_eq!(rank("ep0-ba1-rank3.pickle"), Some(3));
        assert_eq!(place("ep0-ba17-rank3.pickle").step, Some(17));
        assert_eq!(rank("snapshot_oom_rank-7.pickle"), Some(7));
        assert_eq!(rank("actor_rank_2_1795978737.pickle"), Some(2));
        assert_eq!(rank("dumps/rank_12/snapshot.pickle"), Some(12));
        assert_eq!(rank("GLOBAL_RANK=4.pickle.gz"), Some(4));
        assert_eq!(rank("Rank15.pickle"), Some(15));
        assert_eq!(place("dp1_pp0_tp3.pickle").coordinates, [0, 1, 3]);
    }

    #[test]
    fn a_rank_within_something_is_not_the_global_one() {
        let found = place("node2/local_rank_3.pickle");
        assert_eq!((found.rank, found.local_rank, found.node.as_deref()), (None, Some(3), Some("2")));
        assert_eq!(place("tp_rank_3.pickle").rank, None);
        assert_eq!(place("tp_rank_3_global_rank_19.pickle").rank, Some(19));
        assert_eq!(place("frank3.pickle").rank, None);
        assert_eq!(place("node-gpu17_rank5.pickle").node.as_deref(), Some("gpu17"));
        assert_eq!(place("node_rank_1_rank5.pickle").node, None);
    }

    #[test]
    fn names_that_tell_nothing() {
        assert_eq!(place(""), Place::default());
        assert_eq!(place("snapshot.pickle"), Place::default());
        assert_eq!(place("rank.pickle"), Place::default());
        assert_eq!(place("rank99999999999999999999999.pickle").rank, None);
    }

    #[test]
    fn a_pattern_of_ones_own() {
        let pattern = RankPattern::new(r"(?<node>\w+)-w(?<rank>\d+)").unwrap();
        let found = pattern.place("gpu3-w17.pickle");
        assert_eq!((found.rank, found.node.as_deref()), (Some(17), Some("gpu3")));
        assert_eq!(RankPattern::new(r"w(\d+)").unwrap().place("w4.pickle").rank, Some(4));
        assert!(RankPattern::new("w").is_err() && RankPattern::new("(").is_err());
    }
}
