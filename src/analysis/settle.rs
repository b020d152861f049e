//! Advice about allocator settings, held against an exact replay of the failed run.

use super::whatif::{ROUNDUP, Scenario, WhatIf, worst_end};
use crate::oom::remedies::by_id;
use crate::oom::{Advice, Class, Diagnosis, Verdict};
use crate::units::bytes;

const EXPANDABLE: &str = "expandable_segments:True";
const ROUNDUPS: &str = "roundup_power2_divisions:";

/// Remedies that a replay can judge, by id, and how the settings that each stands for begin.
const JUDGED: [(&str, &str); 4] = [
    ("expandable_segments", EXPANDABLE),
    ("drop_max_split", EXPANDABLE),
    ("roundup", ROUNDUPS),
    ("max_split_size", "max_split_size_mb:512"),
];

/// The remedy that says that no allocator setting can help.
const NONE_HELPS: &str = "no_allocator_option";
/// Remedies that speak of expandable segments already.
const SAID: [&str; 3] = ["expandable_segments", "drop_max_split", "no_expandable_with_sleep"];

/// Gives the remedies of `diagnosis` the figures of `replayed`, and withholds those that would have failed as well.
/// A replay that does not reproduce the record, or does not end at the failure, settles nothing.
pub fn settle(diagnosis: &mut Diagnosis, replayed: &WhatIf) {
    if !replayed.trusted || !replayed.until_oom {
        return;
    }
    let of = |id: &str| {
        let (_, settings) = JUDGED.iter().find(|(judged, _)| *judged == id)?;
        best(replayed, settings)
    };
    for advice in diagnosis.remedies.iter_mut().filter(|advice| advice.class != Class::No) {
        let Some(scenario) = of(advice.id) else { continue };
        fill(advice, scenario, replayed);
        if !scenario.advised {
            refuse(advice, format!("replayed: it {}", scenario.advice));
        }
    }
    unasked(diagnosis, replayed);
    if replayed.scenarios.iter().any(|scenario| scenario.advised) {
        diagnosis.remedies.retain(|advice| advice.id != NONE_HELPS);
    }
    // Of what does not help, what was tried says most.
    diagnosis.remedies.sort_by_key(|advice| (advice.class, advice.class == Class::No && advice.replayed.is_none()));
}

/// The scenario of `settings` that reserves least among those that pass; where none does, the usual one.
fn best<'w>(replayed: &'w WhatIf, settings: &str) -> Option<&'w Scenario> {
    let all = || replayed.scenarios.iter().filter(|scenario| scenario.settings.starts_with(settings));
    let passing = all().filter(|scenario| scenario.advised).min_by_key(|scenario| worst_end(scenario));
    passing.or_else(|| all().find(|scenario| scenario.settings == ROUNDUP)).or_else(|| all().next())
}

fn fill(advice: &mut Advice, scenario: &Scenario, replayed: &WhatIf) {
    advice.what = advice.what.replace(ROUNDUP, &scenario.settings);
    advice.replayed = Some(scenario.advice.clone());
    let is_only = replayed.scenarios.iter().filter(|other| other.settings.starts_with(ROUNDUPS)).count() == 1;
    if is_only && scenario.advised && scenario.settings.starts_with(ROUNDUPS) {
        advice.replayed = Some(format!("{}; `oomscope whatif` tries other divisions", scenario.advice));
    }
    let reserved = replayed.baseline.figures.end.reserved;
    advice.expected_bytes = reserved.checked_sub(scenario.figures.end.reserved).filter(|&won| won > 0);
}

fn refuse(advice: &mut Advice, why: String) {
    (advice.class, advice.expected_bytes, advice.why) = (Class::No, None, why);
}

/// Adds what the replay found of expandable segments where the figures alone did not suggest them.
fn unasked(diagnosis: &mut Diagnosis, replayed: &WhatIf) {
    let verdict = diagnosis.verdict;
    let is_about_size = matches!(verdict, Verdict::Capacity | Verdict::Accumulation);
    if !is_about_size || diagnosis.remedies.iter().any(|advice| SAID.contains(&advice.id)) {
        return;
    }
    let scenario = replayed.scenarios.iter().find(|scenario| scenario.settings == EXPANDABLE);
    let Some(scenario) = scenario.filter(|scenario| scenario.refusal.is_none()) else { return };
    let Some(mut advice) = by_id("expandable_segments", diagnosis.message.as_ref()) else { return };
    fill(&mut advice, scenario, replayed);
    let left = scenario.left.map(bytes);
    match (scenario.advised, &left) {
        (false, _) => refuse(&mut advice, format!("replayed: it {}", scenario.advice)),
        (true, Some(left)) if scenario.narrow => {
            refuse(&mut advice, format!("replayed: it passes this request with only {left} left: it buys little"));
        }
        (true, _) if verdict == Verdict::Accumulation => {
            let rest = left.map_or_else(|| "the rest".to_owned(), |left| format!("the {left} that are left"));
            refuse(&mut advice, format!("replayed: it passes this request, but what grows fills {rest} as well"));
        }
        (true, _) => {}
    }
    // What was tried says more than what is true of all settings.
    diagnosis.remedies.retain(|advice| advice.id != NONE_HELPS);
    diagnosis.remedies.push(advice);
}

/// Whether a remedy of `diagnosis` already tells what a replay found.
pub fn is_settled(diagnosis: &Diagnosis) -> bool {
    diagnosis.remedies.iter().any(|advice| advice.replayed.is_some())
}
