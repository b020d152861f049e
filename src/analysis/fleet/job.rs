//! One verdict for the whole job: which rank failed first, and why it and not the others.

use serde::Serialize;

use super::groups::Group;
use super::rank::Rank;
use crate::oom::Verdict;
use crate::units::{bytes, duration};

/// A rank that recorded a failure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failed {
    /// The rank.
    pub rank: u32,
    /// Device ordinal.
    pub device: i64,
    /// Event number of its last failure.
    pub event: u32,
    /// Its time in microseconds since 1970, by the clock of the rank's node.
    pub time_us: Option<u64>,
    /// Events that follow: more than a few, and the failure was caught.
    pub events_after: u32,
    /// The verdict from the rank's own file.
    pub verdict: Option<Verdict>,
    /// See [`Starved`].
    pub starved: Option<Starved>,
}

impl Failed {
    /// The cause in a word: by comparison with the other ranks where they show it, else by the rank's own file.
    pub fn cause(&self) -> &'static str {
        match (&self.starved, self.verdict) {
            (Some(_), _) => Verdict::Outside.name(),
            (None, Some(verdict)) => verdict.name(),
            (None, None) => "unknown",
        }
    }
}

/// A rank that failed with less memory than ranks with the same code use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Starved {
    /// Bytes that it could have had: reserved and free at its failure.
    pub had: u64,
    /// The most that a rank of its group reserved without failing.
    pub others_reserved: u64,
}

/// What happened to the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Job {
    /// Failures, the first one first.
    pub failed: Vec<Failed>,
    /// The verdict in a sentence or two.
    pub headline: String,
}

/// The verdict on a job of `ranks` in `groups`.
pub fn job(ranks: &[Rank], groups: &[Group]) -> Job {
    let mut failed: Vec<Failed> =
        ranks.iter().enumerate().filter_map(|(at, rank)| failure(ranks, groups, at, rank)).collect();
    // Files without times come last, in the order of ranks.
    failed.sort_by_key(|failed| (failed.time_us.is_none(), failed.time_us, failed.rank));
    let headline = match failed.first() {
        None => format!("No rank recorded a failure ({}).", number(ranks.len(), "rank")),
        Some(first) => headline(ranks, first, &failed),
    };
    Job { failed, headline }
}

fn failure(ranks: &[Rank], groups: &[Group], at: usize, rank: &Rank) -> Option<Failed> {
    let last = rank.ooms.last()?;
    let group = groups.iter().find(|group| group.members.contains(&at));
    let others = group.into_iter().flat_map(|group| &group.members).map(|&other| &ranks[other]);
    let others_reserved = others.filter(|other| other.ooms.is_empty()).map(Rank::peak_reserved).max();
    let starved = rank.capacity.zip(others_reserved).map(|(had, others_reserved)| Starved { had, others_reserved });
    Some(Failed {
        rank: rank.rank,
        device: rank.device,
        event: last.event,
        time_us: last.time_us,
        events_after: last.events_after,
        verdict: rank.verdict,
        starved: starved.filter(|starved| starved.others_reserved > starved.had),
    })
}

fn headline(ranks: &[Rank], first: &Failed, failed: &[Failed]) -> String {
    let alone = match (failed.len(), failed.get(1).and_then(|second| second.time_us).zip(first.time_us)) {
        (1, _) if ranks.len() > 1 => ", and no other rank did".to_owned(),
        (1, _) => String::new(),
        (n, Some((second, time))) => {
            format!(", the next {} later, {n} of {} ranks in all", duration(second - time), ranks.len())
        }
        (n, None) => format!(", {n} of {} ranks in all", ranks.len()),
    };
    let order =
        if first.time_us.is_some() || failed.len() == 1 { "" } else { " (no times are recorded: the order is open)" };
    let caught = match first.events_after {
        0 => String::new(),
        n => format!(" It went on for {} after it.", number(n as usize, "event")),
    };
    let cause = match (&first.starved, ranks.iter().find(|rank| rank.rank == first.rank && rank.device == first.device))
    {
        (Some(starved), _) => format!(
            "It could have {}, but ranks with the same code reserved up to {}: if the cards are alike, something outside \
             this process held at least {} of this one.",
            bytes(starved.had),
            bytes(starved.others_reserved),
            bytes(starved.others_reserved - starved.had)
        ),
        (None, Some(rank)) => match (rank.verdict, rank.evidence.first()) {
            (Some(verdict), Some(evidence)) => format!("{}: {evidence}", verdict.title()),
            (Some(verdict), None) => format!("{}.", verdict.title()),
            (None, _) => String::new(),
        },
        (None, None) => String::new(),
    };
    format!("Rank {} ran out of memory first{alone}{order}.{caught} {cause}", first.rank).trim_end().to_owned()
}

fn number(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
