//! Who holds the memory: live blocks grouped by the code that allocated them.

use rayon::prelude::*;
use serde::Serialize;

use super::sites::{By, Site, Sites};
use crate::history::{History, LifeId, Moment};

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

/// Live memory of one device at one moment, by site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// Device ordinal.
    pub device: i64,
    /// The moment.
    pub at: Moment,
    /// What rows are.
    pub by: &'static str,
    /// How bytes are attributed.
    pub attribution: Attribution,
    /// What is counted: `live`.
    pub metric: &'static str,
    /// Bytes of all live and pending blocks.
    pub total: u64,
    /// Sites, biggest first, then by name.
    pub rows: Vec<Row>,
}

/// One site's memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the site.
    pub site: String,
    /// Function, where the site is a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Bytes occupied.
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
    /// What the row stands for.
    #[serde(skip)]
    pub key: Site,
}

/// What was counted for one stack or site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Bytes occupied.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.requested += other.requested;
        self.blocks += other.blocks;
    }
}

/// Lives in one parallel piece of work.
const CHUNK: usize = 1 << 16;

/// Live memory in `state` by the slots of `sites`.
fn by_slot(history: &History, sites: &Sites, state: u32) -> Vec<Tally> {
    let lives = &history.lives;
    let slots = sites.slots();
    let tally = |chunk: std::ops::Range<LifeId>| {
        let mut tallies = vec![Tally::default(); slots];
        for life in chunk.filter(|&life| lives.is_alive(life, state)) {
            tallies[sites.slot(history, life)] +=
                Tally { bytes: lives.bytes(life), requested: lives.requested(life), blocks: 1 };
        }
        tallies
    };
    let ids = lives.ids();
    let chunks: Vec<_> = (ids.start..ids.end).step_by(CHUNK).map(|at| at..ids.end.min(at + CHUNK as u32)).collect();
    // Sums do not depend on the order in which the pieces are done.
    chunks.into_par_iter().map(tally).reduce(
        || vec![Tally::default(); slots],
        |mut left, right| {
            for (left, right) in left.iter_mut().zip(right) {
                *left += right;
            }
            left
        },
    )
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
    let tallies = by_slot(history, sites, moment.state);
    let total: u64 = tallies.iter().map(|tally| tally.bytes).sum();
    let mut groups: std::collections::BTreeMap<Site, Tally> = Default::default();
    for (slot, tally) in tallies.into_iter().enumerate().filter(|(_, tally)| tally.blocks > 0) {
        let found = match attribution {
            Attribution::Own => vec![sites.of_slot(slot)],
            Attribution::Inclusive => sites.on_slot(slot),
        };
        for site in found {
            *groups.entry(site).or_default() += tally;
        }
    }
    let mut rows: Vec<Row> = groups
        .into_iter()
        .map(|(key, tally)| Row {
            site: sites.name(key).into_owned(),
            function: sites.function(key).map(str::to_owned),
            bytes: tally.bytes,
            requested: tally.requested,
            blocks: tally.blocks,
            share: if total == 0 { 0.0 } else { tally.bytes as f64 / total as f64 },
            stack: match key {
                Site::Stack(stack) => Some(sites.frames(stack)),
                _ => None,
            },
            key,
        })
        .collect();
    rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.site.cmp(&b.site)).then(a.key.cmp(&b.key)));
    Ranking {
        device: history.device.ordinal,
        at: moment,
        by: sites.by().name(),
        attribution,
        metric: "live",
        total,
        rows,
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
