//! Which settings are tried, and which of them nobody should use.

use serde::Serialize;
use thiserror::Error;

use super::recording::Recorded;
use crate::allocator::{AllocatorRules, AllocatorSettings, MIB, SettingProblem, TorchVersion};

/// Traces longer than this are replayed under expandable segments on and off only.
pub const MANY_EVENTS: u32 = 3_000_000;

/// A setting to try.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The configuration string.
    pub conf: String,
    /// What it means.
    pub rules: AllocatorRules,
    /// Why it is not advised, whatever it wins.
    pub refusal: Option<Refusal>,
}

/// Why a setting is never advised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Whether it harms, or only does nothing.
    pub kind: RefusalKind,
    /// The reason.
    pub reason: String,
}

/// See [`Refusal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RefusalKind {
    /// PyTorch fails or corrupts memory with it.
    Forbidden,
    /// It has no effect.
    Useless,
}

/// A configuration string that PyTorch would not accept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// With the reasons.
    #[error("PyTorch {version} does not accept `{conf}`: {problems}")]
    Refused {
        /// The string.
        conf: String,
        /// The release.
        version: TorchVersion,
        /// Its problems.
        problems: String,
    },
    /// The driver's allocator.
    #[error("`{0}` leaves PyTorch's own allocator, and the driver's cannot be simulated: leave the backend out")]
    Backend(String),
}

/// What the refusals depend on.
pub struct Facts<'a> {
    /// The recorded program.
    pub recorded: &'a Recorded,
    /// The release that is simulated.
    pub version: TorchVersion,
    /// Whether a memory fraction is in force.
    pub has_limit: bool,
    /// Number of events.
    pub events: u32,
}

/// Traces longer than this are replayed in a report under one rounding only.
pub const MANY_FOR_A_REPORT: u32 = 300_000;

/// The rounding that is usually advised.
pub const ROUNDUP: &str = "roundup_power2_divisions:4";

/// Settings tried by default, and whether they are among the few that a report tries.
const TRIED: [(&str, bool); 10] = [
    ("expandable_segments:True", true),
    ("expandable_segments:False", true),
    ("max_split_size_mb:128", false),
    ("max_split_size_mb:256", false),
    ("max_split_size_mb:512", true),
    ("roundup_power2_divisions:2", true),
    ("roundup_power2_divisions:4", true),
    ("roundup_power2_divisions:8", true),
    ("garbage_collection_threshold:0.6", true),
    ("garbage_collection_threshold:0.8", false),
];

/// The settings tried by default: those that change anything against the record, or only the `few` of a report.
pub fn defaults(facts: &Facts, few: bool) -> Vec<Setting> {
    let in_time = |conf: &str| facts.events <= MANY_EVENTS || conf.starts_with("expandable_segments");
    let is_quick = |conf: &str| facts.events <= MANY_FOR_A_REPORT || !conf.starts_with("roundup") || conf == ROUNDUP;
    let confs = TRIED.iter().filter(|(conf, in_report)| in_time(conf) && (!few || *in_report && is_quick(conf)));
    let read = confs.filter_map(|(conf, _)| setting(facts, conf).ok());
    let settings: Vec<Setting> = read.filter(|setting| setting.rules != without_fraction(facts)).collect();
    // One line is enough to say that garbage collection needs a memory fraction.
    let collects = |setting: &Setting| setting.refusal.is_some() && setting.rules.gc_threshold > 0.0;
    let first = settings.iter().position(collects);
    let wanted = settings.iter().enumerate().filter(|(at, setting)| !collects(setting) || Some(*at) == first);
    wanted.map(|(_, setting)| setting.clone()).collect()
}

fn without_fraction(facts: &Facts) -> AllocatorRules {
    AllocatorRules { memory_fraction: None, ..facts.recorded.rules.clone() }
}

/// Reads `conf` as the whole configuration string of the job.
pub fn setting(facts: &Facts, conf: &str) -> Result<Setting, SettingError> {
    let settings = AllocatorSettings::parse(conf, Some(facts.version));
    if !settings.is_native() {
        return Err(SettingError::Backend(conf.to_owned()));
    }
    let wrong = settings.problems.iter().filter(|problem| !matches!(problem, SettingProblem::NotSimulated { .. }));
    let problems: Vec<String> = wrong.map(ToString::to_string).collect();
    if !problems.is_empty() {
        let problems = problems.join("; ");
        return Err(SettingError::Refused { conf: conf.to_owned(), version: facts.version, problems });
    }
    let refusal = refusal(facts, &settings);
    Ok(Setting { conf: conf.to_owned(), rules: settings.rules, refusal })
}

fn refusal(facts: &Facts, settings: &AllocatorSettings) -> Option<Refusal> {
    let rules = &settings.rules;
    let forbidden = |reason: &str| Some(Refusal { kind: RefusalKind::Forbidden, reason: reason.to_owned() });
    let useless = |reason: String| Some(Refusal { kind: RefusalKind::Useless, reason });
    let names = |key: &str| settings.accepted.iter().any(|name| name == key);
    if rules.expandable && rules.max_split_size.is_some() {
        return forbidden(
            "expandable_segments with max_split_size_mb stops with internal assertions (pytorch#119452, pytorch#134338)",
        );
    }
    if rules.gc_threshold > 0.0 && !facts.has_limit && rules.memory_fraction.is_none_or(|fraction| fraction >= 1.0) {
        return useless("no effect: no memory fraction was set".to_owned());
    }
    if let Some(max) = rules.max_split_size.filter(|max| facts.recorded.largest_segment(rules) < *max) {
        return useless(format!("no effect: no request reaches {} MiB", max / MIB));
    }
    if names("max_non_split_rounding_mb") && rules.max_split_size.is_none() {
        return useless("no effect: max_non_split_rounding_mb needs max_split_size_mb".to_owned());
    }
    let only_host = !settings.accepted.is_empty() && settings.accepted.iter().all(|key| key.starts_with("pinned_"));
    if only_host {
        return useless("no effect: it is about host memory".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(largest_request: u64) -> Recorded {
        Recorded {
            segments: Vec::new(),
            trace: Vec::new(),
            events: Vec::new(),
            rules: AllocatorRules::default(),
            peak_reserved: 0,
            largest_request,
            has_private_pools: false,
        }
    }

    fn kind(largest_request: u64, has_limit: bool, conf: &str) -> Option<RefusalKind> {
        let recorded = recorded(largest_request);
        let facts = Facts { recorded: &recorded, version: TorchVersion::new(2, 6), has_limit, events: 1 };
        setting(&facts, conf).unwrap().refusal.map(|refusal| refusal.kind)
    }

    /// A request a little below the limit gets a segment that reaches it, which smaller requests may not use then.
    #[test]
    fn the_segment_decides_whether_a_split_limit_matters() {
        assert_eq!(kind(255 * MIB + 1, false, "max_split_size_mb:256"), None);
        assert_eq!(kind(254 * MIB, false, "max_split_size_mb:256"), Some(RefusalKind::Useless));
    }

    #[test]
    fn combinations_are_judged() {
        let both = "expandable_segments:True,max_split_size_mb:64";
        assert_eq!(kind(MIB, true, both), Some(RefusalKind::Forbidden));
        assert_eq!(kind(MIB, false, "garbage_collection_threshold:0.6"), Some(RefusalKind::Useless));
        assert_eq!(kind(MIB, true, "garbage_collection_threshold:0.6"), None);
        assert_eq!(kind(MIB, true, "max_non_split_rounding_mb:64"), Some(RefusalKind::Useless));
        assert_eq!(kind(MIB, true, "pinned_num_register_threads:2"), Some(RefusalKind::Useless));
        assert_eq!(kind(MIB, true, "expandable_segments:True"), None);
    }

    #[test]
    fn long_traces_get_the_short_list() {
        let recorded = recorded(300 * MIB);
        let list = |events| {
            let facts = Facts { recorded: &recorded, version: TorchVersion::new(2, 6), has_limit: false, events };
            defaults(&facts, false).into_iter().map(|setting| setting.conf).collect::<Vec<_>>()
        };
        assert_eq!(list(MANY_EVENTS + 1), ["expandable_segments:True"]);
        assert_eq!(list(1).iter().filter(|conf| conf.starts_with("garbage")).count(), 1);
    }
}
