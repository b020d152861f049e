//! Who holds the memory, or moves it: blocks grouped by the code that allocated them, or by what else sets them apart.

mod groups;
mod metric;
mod stacks;
mod tree;

use std::collections::BTreeMap;

use serde::Serialize;

pub use groups::{Groups, LifeGroups, annotations, compile_regions, pools, streams};
pub(in crate::analysis) use metric::chunks;
pub use metric::{Measure, Metric, Tally, Unit};
pub use stacks::{StackFrame, StackRow};
pub use tree::{Branch, Tree, TreeDocument, tree};

use super::sites::{By, Site, Sites};
use super::window::Window;
use crate::history::{History, Moment};

/// How the bytes of a stack are attributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Attribution {
    /// To the stack's own site; the rows sum to the total.
    #[default]
    #[serde(rename = "self")]
    Own,
    /// To every distinct site on the stack, once each.
    Inclusive,
}

/// What is asked of [`rank`].
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// What is counted, and when.
    pub measure: Measure,
    /// How it is attributed.
    pub attribution: Attribution,
    /// Stacks that count, by [`StackId`](crate::snapshot::StackId); all when `None`.
    pub under: Option<&'q [bool]>,
    /// How many rows come with the whole stacks that they stand for.
    pub stacks: usize,
}

impl Question<'_> {
    /// Live memory at `moment`, each block under its own site.
    pub fn live(moment: Moment) -> Self {
        Self { measure: Measure::Live(moment), attribution: Attribution::Own, under: None, stacks: 0 }
    }
}

/// Memory of one device, by site or other group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// Device ordinal.
    pub device: i64,
    /// The moment; the end of the window for what is counted over one.
    pub at: Moment,
    /// Events over which was counted; `None` for what is live at one moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// What rows are.
    pub by: &'static str,
    /// How bytes are attributed.
    pub attribution: Attribution,
    /// What is counted.
    pub metric: &'static str,
    /// What [`Ranking::total`] and [`Row::value`] are in.
    pub unit: Unit,
    /// The metric of all blocks that count; for `live` the bytes of all live and pending blocks.
    pub total: u64,
    /// The metric of the blocks that `under` left out.
    pub left_out: u64,
    /// Sites, biggest first, then by name.
    pub rows: Vec<Row>,
    /// What is to be known about the grouping, e.g. that the file lacks what it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One site's memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the site.
    pub site: String,
    /// Function, where the site is a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The metric.
    pub value: u64,
    /// Bytes occupied by the blocks that count.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Share of the total, 0 to 1.
    pub share: f64,
    /// The frames, innermost first, where the site is a whole stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<String>>,
    /// The stacks that hold most of it, when they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackRow>,
    /// Why the blocks are in this group, when that was asked for; sums to the row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<Reason>,
}

/// A part of a row with one reason for being there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// The reason.
    pub reason: String,
    /// The metric.
    pub value: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// What a row stands for: equal keys are one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Site(Site),
    /// A number of [`LifeGroups`].
    Group(u32),
}

/// Live memory of `history`'s device at `moment`, by site.
///
/// ```no_run
/// use oomscope::analysis::{ranking, sites::{By, Sites}};
/// use oomscope::history::{At, History};
/// use oomscope::snapshot::{LoadOptions, Source, load};
///
/// let snapshot = load(&Source::Path("oom.pickle".into()), &LoadOptions::default())?;
/// let sites = Sites::new(&snapshot, By::Line);
/// for device in &snapshot.devices {
///     let history = History::new(&snapshot, device, &snapshot.settings.rules);
///     let moment = history.moment(At::Default)?;
///     let ranking = ranking::live(&history, moment, &sites, ranking::Attribution::Own);
///     println!("{} B, most of it from {}", ranking.total, ranking.rows[0].site);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn live(history: &History, moment: Moment, sites: &Sites, attribution: Attribution) -> Ranking {
    rank(history, &Groups::Sites(sites), &Question { attribution, ..Question::live(moment) })
}

/// What each site allocated in the whole trace; `None` without history.
pub fn allocated(history: &History, sites: &Sites) -> Option<Ranking> {
    let whole = Window::whole(history).ok().filter(|_| history.health.recorded)?;
    let measure = Measure::Over(Metric::Allocated, whole);
    let question = Question { measure, attribution: Attribution::Own, under: None, stacks: 0 };
    Some(rank(history, &Groups::Sites(sites), &question))
}

/// Memory of `history`'s device by `groups`.
///
/// What was allocated in the first thousand events, by stream:
///
/// ```
/// use oomscope::analysis::ranking::{self, Attribution, Groups, Measure, Metric, Question};
/// use oomscope::analysis::window::WindowSpec;
/// use oomscope::history::History;
/// use oomscope::snapshot::{LoadOptions, Source, load};
///
/// let path = "testdata/rig/2.6.0/streams.pickle";
/// let snapshot = load(&Source::Path(path.into()), &LoadOptions::default())?;
/// let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
/// let window = "..999".parse::<WindowSpec>()?.resolve(&history)?;
/// let question = Question {
///     measure: Measure::Over(Metric::Allocated, window),
///     attribution: Attribution::Own,
///     under: None,
///     stacks: 0,
/// };
/// let ranking = ranking::rank(&history, &Groups::Lives(ranking::streams(&history)), &question);
/// assert_eq!(ranking.rows.iter().map(|row| row.value).sum::<u64>(), ranking.total);
/// assert_eq!(ranking.rows.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rank(history: &History, groups: &Groups, question: &Question) -> Ranking {
    let (tallies, left_out) = metric::by_slot(history, groups, question);
    let total: u64 = tallies.iter().fold(0, |sum, tally| sum.saturating_add(tally.value));
    let mut sums: BTreeMap<Key, Tally> = BTreeMap::new();
    for (slot, tally) in tallies.iter().enumerate().filter(|(_, tally)| tally.blocks > 0) {
        for key in groups.keys(slot, question.attribution) {
            *sums.entry(key).or_default() += *tally;
        }
    }
    let row = |(key, tally): (Key, Tally)| Row {
        site: groups.name(key),
        function: groups.function(key),
        value: tally.value,
        bytes: tally.bytes,
        requested: tally.requested,
        blocks: tally.blocks,
        share: if total == 0 { 0.0 } else { tally.value as f64 / total as f64 },
        stack: groups.frames(key),
        stacks: Vec::new(),
        why: Vec::new(),
    };
    let mut rows: Vec<(Key, Row)> = sums.into_iter().map(|entry| (entry.0, row(entry))).collect();
    rows.sort_by(|(a_key, a), (b_key, b)| {
        b.value.cmp(&a.value).then_with(|| a.site.cmp(&b.site)).then(a_key.cmp(b_key))
    });
    if question.stacks > 0 {
        let keys: Vec<Key> = rows.iter().take(question.stacks).map(|(key, _)| *key).collect();
        for ((_, row), stacks) in rows.iter_mut().zip(stacks::heaviest(groups, question.attribution, &tallies, &keys)) {
            row.stacks = stacks;
        }
    }
    let (at, window) = question.measure.span(history);
    Ranking {
        device: history.device.ordinal,
        at,
        window,
        by: groups.by(),
        attribution: question.attribution,
        metric: question.measure.name(),
        unit: question.measure.unit(history),
        total,
        left_out,
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        note: groups.note(),
    }
}

/// Whether `by` and `attribution` go together.
pub fn is_sensible(by: By, attribution: Attribution) -> bool {
    by != By::Stack || attribution == Attribution::Own
}

/// The JSON of the rankings of several devices: the first one's at the top level, and all of them in `devices`.
#[derive(Serialize)]
pub struct Document<'a> {
    /// The first device.
    #[serde(flatten)]
    pub first: Option<&'a Ranking>,
    /// One entry a device.
    pub devices: Vec<&'a Ranking>,
}

impl<'a> Document<'a> {
    /// `rankings` as one document.
    pub fn new(rankings: impl IntoIterator<Item = &'a Ranking>) -> Self {
        let devices: Vec<&Ranking> = rankings.into_iter().collect();
        Self { first: devices.first().copied(), devices }
    }
}
