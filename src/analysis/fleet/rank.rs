//! One rank of a job: what its snapshot says, small enough to keep thousands of them.

use serde::Serialize;

use crate::analysis::failures::{self, Failure};
use crate::analysis::leaks::{Leak, leaks};
use crate::analysis::ranking::{self, Attribution, Ranking, live};
use crate::analysis::segments::{Questions, segments};
use crate::analysis::series::{SeriesOptions, series};
use crate::analysis::sites::Sites;
use crate::analysis::totals::Totals;
use crate::analysis::verdict::{Evidence, diagnosis};
use crate::history::{At, History, Moment, Peaks};
use crate::oom::Verdict;

/// Points of a rank's memory over time.
const POINTS: usize = 120;

/// One device of one rank's file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rank {
    /// The rank; a number by order where the name tells none.
    pub rank: u32,
    /// The node, where the name tells it.
    pub node: Option<String>,
    /// The file.
    pub file: String,
    /// Device ordinal.
    pub device: i64,
    /// Number of trace entries.
    pub events: u32,
    /// Whether the trace explains everything.
    pub complete: bool,
    /// Microseconds since 1970 of the last trace entry.
    pub last_time_us: Option<u64>,
    /// The moment of `totals` and `top`: the last OOM, else the peak, else the end.
    pub at: Moment,
    /// The memory at that moment.
    pub totals: Totals,
    /// Peaks of the counters; `None` without history.
    pub peak: Option<Peaks>,
    /// Recorded failures.
    pub ooms: Vec<Failure>,
    /// Bytes that the process could have had, as its failures show.
    pub capacity: Option<u64>,
    /// The lines that hold the memory at `at`, largest first.
    pub top: Vec<SiteBytes>,
    /// The verdict on the last failure.
    pub verdict: Option<Verdict>,
    /// The figures behind it, in sentences.
    pub evidence: Vec<String>,
    /// Lines that hold more after each step, the fastest first.
    pub leaks: Vec<RankLeak>,
    /// Every line that holds memory at the peak (without history, at the end).
    #[serde(skip)]
    pub at_peak: Vec<SiteBytes>,
    /// Every line that allocated in the trace, with what it allocated; without history, what it holds at the end.
    #[serde(skip)]
    pub profile: Vec<SiteBytes>,
    /// Highest live bytes in equal parts of the trace.
    pub live_over_time: Vec<u64>,
}

/// A line that grows on one rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankLeak {
    /// Name of the site.
    pub site: String,
    /// Its function.
    pub function: Option<String>,
    /// Bytes that it adds in a step.
    pub bytes_per_step: u64,
    /// Blocks that it adds in a step.
    pub blocks_per_step: f64,
    /// Bytes live at the failure, or at the end of the trace.
    pub live_bytes: u64,
    /// The step in which it began to grow.
    pub since_step: u64,
    /// How likely so steady a rise is, if it were none.
    pub p_value: f64,
    /// What it probably is.
    pub kind: String,
}

impl From<&Leak> for RankLeak {
    fn from(leak: &Leak) -> Self {
        Self {
            site: leak.site.clone(),
            function: leak.function.clone(),
            bytes_per_step: leak.bytes_per_step,
            blocks_per_step: leak.blocks_per_step,
            live_bytes: leak.live_bytes,
            since_step: leak.since_step,
            p_value: leak.p_value,
            kind: leak.kind.name().to_owned(),
        }
    }
}

/// What one site holds or allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteBytes {
    /// Name of the site.
    pub site: String,
    /// Its function, where the site is a line.
    pub function: Option<String>,
    /// Bytes occupied.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Rank {
    /// Highest live bytes: the peak of allocated memory when it is exact, else of requested; without history, what is
    /// allocated at the end.
    pub fn peak_live(&self) -> u64 {
        match self.peak {
            Some(peaks) if peaks.allocated.exact => peaks.allocated.bytes,
            Some(peaks) => peaks.requested.bytes,
            None => self.totals.allocated,
        }
    }

    /// Highest reserved bytes; without history, those at the end.
    pub fn peak_reserved(&self) -> u64 {
        self.peak.map_or(self.totals.reserved, |peaks| peaks.reserved.bytes)
    }
}

/// Sites kept in [`Rank::top`].
pub const TOP: usize = 10;

/// The file that a rank's figures come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFile {
    /// See [`Rank::rank`].
    pub rank: u32,
    /// See [`Rank::node`].
    pub node: Option<String>,
    /// See [`Rank::file`].
    pub file: String,
}

/// What `history` says of its device, which is one of `from`.
///
/// `card` is the card's size in bytes, when the caller knows it.
pub fn rank(from: &RankFile, history: &History, sites: &Sites, card: Option<u64>) -> Rank {
    let moment = moment(history, At::Default);
    let ooms = failures::failures(history);
    // By default a device is looked at when it failed last.
    let failure = ooms.last().filter(|_| moment.what == "oom");
    let questions = Questions { capacity: card, ..Questions::default() };
    let segments = segments(history, moment, sites, &questions);
    let leaks = leaks(history, sites, card);
    let diagnosis = diagnosis(history, sites, failure, &segments, &leaks, card, &Evidence::default());
    let at_peak = rows(live(history, moment_of_peak(history), sites, Attribution::Own));
    let mut top = rows(live(history, moment, sites, Attribution::Own));
    top.truncate(TOP);
    Rank {
        rank: from.rank,
        node: from.node.clone(),
        file: from.file.clone(),
        device: history.device.ordinal,
        events: history.events(),
        complete: history.health.complete,
        last_time_us: history.time_span().map(|(_, last)| last),
        at: moment,
        totals: segments.fragmentation.totals,
        peak: history.peaks,
        ooms,
        capacity: failures::capacity(history),
        top,
        verdict: diagnosis.as_ref().map(|diagnosis| diagnosis.verdict),
        evidence: diagnosis.map_or_else(Vec::new, |diagnosis| diagnosis.evidence),
        profile: ranking::allocated(history, sites).map_or_else(|| at_peak.clone(), rows),
        at_peak,
        leaks: leaks.leaks.iter().map(RankLeak::from).collect(),
        live_over_time: live_over_time(history, sites),
    }
}

/// Highest live bytes in equal parts of the trace; none without history.
pub fn live_over_time(history: &History, sites: &Sites) -> Vec<u64> {
    let options = SeriesOptions { columns: POINTS, bands: 0, ..SeriesOptions::default() };
    series(history, sites, &options).map_or_else(Vec::new, |series| series.active)
}

fn moment_of_peak(history: &History) -> Moment {
    moment(history, if history.peaks.is_some() { At::Peak(None) } else { At::End })
}

/// `at`, or the end where the device has no such moment.
fn moment(history: &History, at: At) -> Moment {
    let end = Moment { what: "end", event: history.events().checked_sub(1), time_us: None, state: history.events() };
    history.moment(at).unwrap_or(end)
}

fn rows(ranking: Ranking) -> Vec<SiteBytes> {
    let row = |row: crate::analysis::ranking::Row| SiteBytes {
        site: row.site,
        function: row.function,
        bytes: row.bytes,
        blocks: row.blocks,
    };
    ranking.rows.into_iter().map(row).collect()
}
