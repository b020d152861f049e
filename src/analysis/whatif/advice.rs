//! One sentence for each setting, and which of them can be advised.

use super::{Figures, RefusalKind, Scenario};
use crate::units::{bytes, count};

/// The share of the peak that a setting has to win where nothing failed.
const WORTH: f64 = 0.05;

/// Fills in the sentences.
pub fn advise(baseline: &mut Scenario, scenarios: &mut [Scenario], trusted: bool, capacity: Option<u64>) {
    baseline.advice = as_recorded(baseline);
    for scenario in scenarios {
        scenario.left = left(scenario, capacity);
        scenario.narrow = scenario.left.is_some_and(|left| (left as f64) < worst_end(scenario) as f64 * WORTH);
        let (wins, text) = judge(scenario, &baseline.figures, capacity);
        scenario.advised = wins && trusted && scenario.refusal.is_none();
        scenario.advice = match &scenario.refusal {
            Some(refusal) if refusal.kind == RefusalKind::Forbidden => format!("not to be used: {}", refusal.reason),
            Some(refusal) => refusal.reason.clone(),
            None => text,
        };
    }
}

fn as_recorded(baseline: &Scenario) -> String {
    let figures = &baseline.figures;
    match figures.ooms.iter().find(|oom| !oom.recorded) {
        Some(oom) => format!("fails at event {}", count(oom.event.into())),
        None if figures.avoids_recorded_oom == Some(true) => {
            format!("passes this request: reserved {}", bytes(figures.end.reserved))
        }
        None if figures.avoids_recorded_oom == Some(false) => {
            format!("fails with {} reserved", bytes(figures.end.reserved))
        }
        None => format!("peak reserved {}", bytes(figures.peak_reserved)),
    }
}

/// Whether a setting wins anything, and what in words.
fn judge(scenario: &Scenario, base: &Figures, capacity: Option<u64>) -> (bool, String) {
    let figures = &scenario.figures;
    if let Some(other) = &scenario.other_addresses
        && other.runs_through() != figures.runs_through()
    {
        return (false, "uncertain: it depends on the addresses that the device gives out".to_owned());
    }
    if let Some(oom) = figures.ooms.iter().find(|oom| !oom.recorded) {
        let why = oom.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        return (false, format!("fails earlier, at event {}{why}", count(oom.event.into())));
    }
    let fails_anyway = base.avoids_recorded_oom == Some(false);
    let peaks = (base.peak_reserved, worst_peak(scenario));
    match figures.avoids_recorded_oom {
        Some(true) if fails_anyway => {
            // The failed run had not yet served the request, so that what it had reserved is no measure.
            let of = capacity.map_or_else(String::new, |capacity| format!(" of {}", bytes(capacity)));
            let mut text = format!("passes this request: {}{of} then reserved", bytes(worst_end(scenario)));
            if let Some(left) = scenario.left.filter(|_| scenario.narrow) {
                text += &format!(", with only {} left", bytes(left));
            }
            (true, text)
        }
        Some(false) => {
            (false, format!("does not pass this request: {} reserved when it fails", bytes(figures.end.reserved)))
        }
        _ if same(figures, base) => (false, "changes nothing here".to_owned()),
        _ => {
            let wins = (peaks.1 as f64) < peaks.0 as f64 * (1.0 - WORTH);
            let (now, then) = (bytes(peaks.0), bytes(peaks.1));
            (
                wins,
                if now == then {
                    format!("peak reserved {now}, as now")
                } else {
                    format!("peak reserved {then} instead of {now}")
                },
            )
        }
    }
}

/// Reserved at the end, whatever addresses the device gives out.
pub(in crate::analysis) fn worst_end(scenario: &Scenario) -> u64 {
    let other = scenario.other_addresses.as_ref().map_or(0, |other| other.end.reserved);
    scenario.figures.end.reserved.max(other)
}

/// What is left of `capacity` with the failed request served.
fn left(scenario: &Scenario, capacity: Option<u64>) -> Option<u64> {
    capacity.filter(|_| scenario.figures.avoids_recorded_oom == Some(true))?.checked_sub(worst_end(scenario))
}

fn worst_peak(scenario: &Scenario) -> u64 {
    let other = scenario.other_addresses.as_ref().map_or(0, |other| other.peak_reserved);
    scenario.figures.peak_reserved.max(other)
}

fn same(a: &Figures, b: &Figures) -> bool {
    let key = |figures: &Figures| (figures.peak_reserved, figures.end, figures.segment_allocs, figures.segment_maps);
    key(a) == key(b)
}
