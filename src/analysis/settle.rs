//! Advice about allocator settings, held against an exact replay of the failed run.

use super::whatif::{Scenario, WhatIf};
use crate::oom::{Class, Diagnosis};

/// Remedies that a replay can judge, by id, and the setting that each stands for.
const JUDGED: [(&str, &str); 4] = [
    ("expandable_segments", "expandable_segments:True"),
    ("drop_max_split", "expandable_segments:True"),
    ("roundup", "roundup_power2_divisions:4"),
    ("max_split_size", "max_split_size_mb:512"),
];

/// The remedy that says that no allocator setting can help.
const NONE_HELPS: &str = "no_allocator_option";

/// Gives the remedies of `diagnosis` the figures of `replayed`, and withholds those that would have failed as well.
/// A replay that does not reproduce the record, or does not end at the failure, settles nothing.
pub fn settle(diagnosis: &mut Diagnosis, replayed: &WhatIf) {
    if !replayed.trusted || !replayed.until_oom {
        return;
    }
    let of = |id: &str| {
        let (_, settings) = JUDGED.iter().find(|(judged, _)| *judged == id)?;
        replayed.scenarios.iter().find(|scenario| scenario.settings == *settings)
    };
    for advice in diagnosis.remedies.iter_mut().filter(|advice| advice.class != Class::No) {
        let Some(scenario) = of(advice.id) else { continue };
        advice.replayed = Some(scenario.advice.clone());
        let reserved = |scenario: &Scenario| scenario.figures.end.reserved;
        advice.expected_bytes = reserved(&replayed.baseline).checked_sub(reserved(scenario)).filter(|&won| won > 0);
        if !scenario.advised {
            (advice.class, advice.expected_bytes) = (Class::No, None);
            advice.why = format!("replayed: it {}", scenario.advice);
        }
    }
    if replayed.scenarios.iter().any(|scenario| scenario.advised) {
        diagnosis.remedies.retain(|advice| advice.id != NONE_HELPS);
    }
    diagnosis.remedies.sort_by_key(|advice| advice.class);
}

/// Whether a remedy of `diagnosis` already tells what a replay found.
pub fn is_settled(diagnosis: &Diagnosis) -> bool {
    diagnosis.remedies.iter().any(|advice| advice.replayed.is_some() && advice.class != Class::No)
}
