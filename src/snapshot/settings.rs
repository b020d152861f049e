//! The allocator's settings as recorded in the file.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::allocator::{AllocatorRules, AllocatorSettings, TorchVersion};

/// Allocator settings in force when the snapshot was taken (torch 2.3 on).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Settings {
    /// Whether the file has any; defaults are assumed otherwise.
    pub recorded: bool,
    /// The configuration string (`PYTORCH_CUDA_ALLOC_CONF` and its successors), empty when none was set.
    pub conf: String,
    /// `backend` of the string, `None` when it names none.
    pub backend: Option<String>,
    /// The rules that follow: what the file states, then what the string says, then torch's constants.
    pub rules: AllocatorRules,
    /// The settings that the file states, as it states them.
    pub stated: BTreeMap<String, serde_json::Value>,
}

impl Settings {
    /// Settings from what the file states. `version` is the oldest release that could have written it.
    /// Answers with the problems of the configuration string as well.
    pub(super) fn new(
        stated: BTreeMap<String, serde_json::Value>,
        version: Option<TorchVersion>,
    ) -> (Self, Vec<String>) {
        let conf = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"]
            .iter()
            .filter_map(|key| stated.get(*key)?.as_str())
            .find(|conf| !conf.is_empty())
            .unwrap_or_default()
            .to_owned();
        // The newest release knows every key, so an unknown upper bound costs no setting.
        let parsed = AllocatorSettings::parse(&conf, None);
        let mut rules = parsed.rules;
        if version.is_some_and(|version| version < TorchVersion::new(2, 6)) && rules.max_non_split_rounding == 0 {
            rules.max_non_split_rounding = AllocatorRules::default().max_non_split_rounding;
        }
        override_with(&mut rules, &stated);
        let problems = parsed.problems.iter().map(ToString::to_string).collect();
        (Self { recorded: !stated.is_empty(), conf, backend: parsed.backend, rules, stated }, problems)
    }
}

/// What the file states outright is what was in force, whatever the string says (it may have come too late).
fn override_with(rules: &mut AllocatorRules, stated: &BTreeMap<String, serde_json::Value>) {
    if let Some(max) = stated.get("max_split_size").and_then(|value| value.as_i64()) {
        // −1 is int64(SIZE_MAX): unlimited.
        rules.max_split_size = u64::try_from(max).ok().filter(|&max| max > 0);
    }
    if let Some(threshold) = stated.get("garbage_collection_threshold").and_then(|value| value.as_f64()) {
        rules.gc_threshold = threshold;
    }
    if let Some(expandable) = stated.get("expandable_segments").and_then(|value| value.as_bool()) {
        rules.expandable = expandable;
    }
    if let Some(divisions) = stated.get("roundup_power2_divisions").and_then(|value| value.as_object()) {
        for (mib, value) in divisions {
            let interval = mib.parse::<u64>().ok().filter(|mib| mib.is_power_of_two()).map(|mib| mib.ilog2() as usize);
            let value = value.as_u64().filter(|value| *value == 0 || value.is_power_of_two());
            if let (Some(slot), Some(value)) =
                (interval.and_then(|at| rules.roundup_power2_divisions.get_mut(at)), value)
            {
                *slot = value;
            }
        }
    }
}
