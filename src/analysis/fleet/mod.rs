//! Many ranks of one job: who failed first, who is the odd one, who shares what.
//!
//! Each file becomes a [`Rank`] on its own, wherever it lies; [`fleet`] compares them.

mod assign;
mod groups;
mod imbalance;
mod job;
mod leaking;
mod outliers;
mod place;
mod rank;
mod spread;

use serde::Serialize;

pub use assign::{Assigned, assign};
pub use groups::{Group, GroupSite};
pub use imbalance::Imbalance;
pub use job::{Failed, Job, Starved};
pub use leaking::SharedLeak;
pub use outliers::{Difference, Outlier};
pub use place::{PatternError, Place, RankPattern, place};
pub use rank::{Rank, RankFile, RankLeak, SiteBytes, TOP, live_over_time, rank};

/// A job, explained.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fleet {
    /// What happened.
    pub job: Job,
    /// The ranks in order.
    pub ranks: Vec<RankRow>,
    /// Ranks with the same code.
    pub groups: Vec<Group>,
    /// Lines that grow, by the ranks on which they do.
    pub leaks: Vec<SharedLeak>,
    /// Whether memory is shared evenly; `None` of a single rank.
    pub imbalance: Option<Imbalance>,
}

/// A rank beside the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankRow {
    /// What its file says.
    #[serde(flatten)]
    pub rank: Rank,
    /// Name of its group.
    pub group: String,
    /// How it differs from its group, when it does.
    pub outlier: Option<Outlier>,
}

/// Compares `ranks`.
pub fn fleet(mut ranks: Vec<Rank>) -> Fleet {
    ranks.sort_by(|a, b| (a.rank, a.device, &a.file).cmp(&(b.rank, b.device, &b.file)));
    let groups = groups::groups(&ranks);
    let job = job::job(&ranks, &groups);
    let leaks = leaking::shared_leaks(&ranks);
    let imbalance = imbalance::imbalance(&ranks);
    let mut outliers = outliers::outliers(&ranks, &groups);
    let mut of_group = vec![String::new(); ranks.len()];
    for group in &groups {
        for &member in &group.members {
            of_group[member] = group.name.clone();
        }
    }
    let row = |(at, (rank, group))| {
        let outlier = outliers.iter().position(|(found, _)| *found == at).map(|found| outliers.swap_remove(found).1);
        RankRow { rank, group, outlier }
    };
    let ranks = ranks.into_iter().zip(of_group).enumerate().map(row).collect();
    Fleet { job, ranks, groups, leaks, imbalance }
}

impl Fleet {
    /// The failure of `row`, when it has one.
    pub fn failure_of(&self, row: &RankRow) -> Option<&Failed> {
        self.job.failed.iter().find(|failed| failed.rank == row.rank.rank && failed.device == row.rank.device)
    }

    /// At most `most` ranks that are worth showing, by position, in order: those that failed, then odd ones, then one
    /// of each group, then the others.
    pub fn noteworthy(&self, most: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.ranks.len()).collect();
        if shown.len() > most {
            shown.sort_by_key(|&at| {
                let row = &self.ranks[at];
                let is_first = self.groups.iter().any(|group| group.members[0] == at);
                (row.rank.ooms.is_empty(), row.outlier.is_none(), !is_first, at)
            });
            shown.truncate(most);
            shown.sort_unstable();
        }
        shown
    }
}
