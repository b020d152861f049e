//! What another setting would have done: the recorded requests, replayed through the simulator.
//!
//! In: the past of one device and the settings to try. Out: a [`WhatIf`]. First comes the replay under the recorded
//! settings, compared entry by entry, because nothing else shows that the others can be trusted. What follows the last
//! recorded failure is not in the file, so every figure ends there.

mod advice;
mod baseline;
mod capacity;
mod cause;
mod recording;
mod run;
mod scenarios;

use rayon::prelude::*;
use serde::Serialize;
use thiserror::Error;

pub(in crate::analysis) use advice::worst_end;
pub use baseline::DivergenceText;
pub use recording::Recorded;
pub use run::{Figures, Horizon, OomFigure};
pub use scenarios::{MANY_EVENTS, ROUNDUP, Refusal, RefusalKind, Setting, SettingError};

use crate::allocator::{
    Action, AddressPolicy, AllocatorRules, Behaviour, MIB, RestoreError, SimulatorConfig, TieBreak, TorchVersion,
};
use crate::history::History;
use baseline::{Baseline, Room, baseline, candidates};
use scenarios::Facts;

/// What to try.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Configuration strings; empty tries the usual ones.
    pub settings: Vec<String>,
    /// Of the usual ones, try only the few that a report needs.
    pub few: bool,
    /// Bytes that PyTorch can have, instead of what the record shows.
    pub capacity: Option<u64>,
    /// The release to simulate, instead of the one that fits the file.
    pub torch: Option<TorchVersion>,
    /// The recorded failure at which the comparison ends, by event number; `None` is the last one.
    pub oom: Option<u32>,
    /// Search the smallest capacity that runs the trace.
    pub min_capacity: bool,
    /// Do without the scenarios if the recorded settings do not reproduce the record.
    pub only_if_exact: bool,
}

/// Why nothing could be replayed.
#[derive(Debug, Error)]
pub enum WhatIfError {
    /// No trace.
    #[error("there is no history to replay: call {recording} before the model is built, and dump again")]
    NoHistory {
        /// The call that records it.
        recording: &'static str,
    },
    /// The state at the start contradicts itself.
    #[error("the memory at the start of the trace cannot be rebuilt: {0}")]
    Start(#[from] RestoreError),
    /// A setting that PyTorch refuses.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// The recorded program under several settings. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// Device ordinal.
    pub device: i64,
    /// The release that was simulated.
    pub torch: String,
    /// What PyTorch can have of the device; `None` is no limit.
    pub capacity: Option<u64>,
    /// Limit of the memory fraction.
    pub limit: Option<u64>,
    /// Event number at which every replay ends.
    pub until: u32,
    /// Whether that is a recorded failure.
    pub until_oom: bool,
    /// Whether the recorded settings reproduce the record up to there.
    pub trusted: bool,
    /// What else has to be known to read the figures.
    pub notes: Vec<String>,
    /// The recorded settings.
    pub baseline: Scenario,
    /// The others.
    pub scenarios: Vec<Scenario>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// The configuration string.
    pub settings: String,
    /// For the recorded settings, whether every entry of the trace comes out as recorded.
    pub faithful: Option<bool>,
    /// The first entry that does not.
    pub first_divergence: Option<DivergenceText>,
    /// What the replay came to.
    #[serde(flatten)]
    pub figures: Figures,
    /// The same with other addresses of new segments, where that changes anything (torch 2.12 and older).
    pub other_addresses: Option<Figures>,
    /// Smallest capacity of those tried that runs the trace.
    pub min_capacity: Option<u64>,
    /// Why it is never advised.
    pub refusal: Option<Refusal>,
    /// Whether it wins something and can be advised.
    pub advised: bool,
    /// Bytes of the capacity that are left when the failed request is served.
    pub left: Option<u64>,
    /// Whether that is so little that the run may die at its next request.
    pub narrow: bool,
    /// What follows from it, in a sentence.
    pub advice: String,
}

/// Replays the past of `history`'s device.
pub fn whatif(history: &History, options: &Options) -> Result<WhatIf, WhatIfError> {
    let recorded = Recorded::new(history);
    let no_history = || WhatIfError::NoHistory { recording: history.snapshot.format.recording() };
    if recorded.trace.is_empty() || !history.health.recorded {
        return Err(no_history());
    }
    let horizon = horizon(&recorded, options.oom);
    let limits = recorded.recording(recorded.trace.len()).limits(&recorded.rules);
    let mut shown = Room::of(&limits);
    let format = &history.snapshot.format;
    let mut versions = candidates(format.torch_at_least, format.torch_below);
    if let Some(torch) = options.torch.filter(|torch| fits(*torch, format.torch_at_least, format.torch_below)) {
        versions = vec![torch];
    }
    let mut base = baseline(history, &recorded, &versions, shown, horizon)?.ok_or_else(no_history)?;
    if shown == Room::default()
        && !base.is_exact_to_horizon
        && let Some(capacity) = capacity::from_flushes(&recorded)
    {
        let room = Room { capacity: Some(capacity), allowed: None };
        if let Some(other) = baseline(history, &recorded, &versions, room, horizon)?
            && other.is_exact_to_horizon
        {
            (base, shown) = (other, room);
        }
    }
    let room = options.capacity.map_or(shown, |capacity| Room { capacity: Some(capacity), allowed: None });
    let version = options.torch.unwrap_or(base.version);
    let facts = Facts { recorded: &recorded, version, has_limit: room.allowed.is_some(), events: history.events() };
    let settings = match options.settings.is_empty() {
        true => scenarios::defaults(&facts, options.few),
        false => options.settings.iter().map(|conf| scenarios::setting(&facts, conf)).collect::<Result<_, _>>()?,
    };
    let bench = Bench { recorded: &recorded, base: &base, horizon, room, version };
    let mut baseline = bench.as_recorded(history, shown, options)?;
    let trusted = base.is_exact_to_horizon;
    let mut scenarios = Vec::new();
    if trusted || !options.only_if_exact {
        let found: Result<Vec<_>, _> = settings.par_iter().map(|setting| bench.scenario(setting, options)).collect();
        scenarios = found?;
    }
    advice::advise(&mut baseline, &mut scenarios, trusted, room.capacity.or(room.allowed));
    Ok(WhatIf {
        device: history.device.ordinal,
        torch: version.to_string(),
        capacity: room.capacity,
        limit: room.allowed,
        until: recorded.event(horizon.record),
        until_oom: horizon.is_oom,
        trusted,
        notes: capacity::notes(history, &bench, &limits, options),
        baseline,
        scenarios,
    })
}

/// The recorded failure asked for, else the last one, else the end.
fn horizon(recorded: &Recorded, oom: Option<u32>) -> Horizon {
    let is_oom = |record: &usize| recorded.trace[*record].action == Action::Oom;
    let mut ooms = (0..recorded.trace.len()).rev().filter(is_oom);
    let found = match oom {
        Some(event) => ooms.find(|record| recorded.event(*record) == event),
        None => ooms.next(),
    };
    match found {
        Some(record) => Horizon { record, is_oom: true },
        None => Horizon { record: recorded.trace.len().saturating_sub(1), is_oom: false },
    }
}

fn fits(version: TorchVersion, at_least: Option<TorchVersion>, below: Option<TorchVersion>) -> bool {
    at_least.is_none_or(|low| version >= low) && below.is_none_or(|high| version < high)
}

/// A usual size of a CUDA context in bytes.
const CONTEXT: u64 = 512 * MIB;

/// What every scenario shares.
struct Bench<'a> {
    recorded: &'a Recorded,
    base: &'a Baseline,
    horizon: Horizon,
    room: Room,
    version: TorchVersion,
}

impl Bench<'_> {
    fn config(&self, rules: &AllocatorRules, room: Room, addresses: AddressPolicy) -> SimulatorConfig {
        // Without a limit the address space must hold whatever a setting wastes.
        let roomy = self.recorded.peak_reserved.saturating_mul(4).max(1 << 36);
        // A known capacity lacks the CUDA context, which the total has.
        let total = room.capacity.map_or(roomy, |capacity| capacity.saturating_add(CONTEXT).max(self.base.total));
        SimulatorConfig { addresses, ..room.config(rules, self.version, total) }
    }

    fn replay(&self, config: SimulatorConfig) -> Result<Figures, RestoreError> {
        self.recorded.replay(&self.base.steps, self.horizon, config)
    }

    /// The figures under both address policies, where addresses decide anything.
    fn both(&self, rules: &AllocatorRules) -> Result<(Figures, Option<Figures>), RestoreError> {
        let figures = |policy| self.replay(self.config(rules, self.room, policy));
        if Behaviour::of(self.version).tie_break == TieBreak::SegmentAge {
            return Ok((figures(AddressPolicy::FirstFit)?, None));
        }
        let (first, other) = rayon::join(|| figures(AddressPolicy::FirstFit), || figures(AddressPolicy::Increasing));
        let (first, other) = (first?, other?);
        let differ = first != other;
        Ok((first, differ.then_some(other)))
    }

    fn as_recorded(&self, history: &History, shown: Room, options: &Options) -> Result<Scenario, RestoreError> {
        let rules = &self.recorded.rules;
        let same = self.room == shown && self.version == self.base.version;
        let (figures, other_addresses) = match same {
            true => (self.base.figures.clone(), None),
            false => self.both(rules)?,
        };
        let min_capacity = options.min_capacity.then(|| capacity::smallest(self, rules)).transpose()?.flatten();
        let conf = &history.snapshot.settings.conf;
        let inferred = history.health.inferred_setting.as_ref().filter(|_| conf.is_empty());
        Ok(Scenario {
            settings: inferred.unwrap_or(conf).clone(),
            faithful: Some(self.base.divergence.is_none()),
            first_divergence: self.base.divergence.clone(),
            figures,
            other_addresses,
            min_capacity,
            refusal: None,
            advised: false,
            left: None,
            narrow: false,
            advice: String::new(),
        })
    }

    fn scenario(&self, setting: &Setting, options: &Options) -> Result<Scenario, RestoreError> {
        let (figures, other_addresses) = self.both(&setting.rules)?;
        let min_capacity =
            options.min_capacity.then(|| capacity::smallest(self, &setting.rules)).transpose()?.flatten();
        Ok(Scenario {
            settings: setting.conf.clone(),
            faithful: None,
            first_divergence: None,
            figures,
            other_addresses,
            min_capacity,
            refusal: setting.refusal.clone(),
            advised: false,
            left: None,
            narrow: false,
            advice: String::new(),
        })
    }
}
