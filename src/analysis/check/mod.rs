//! Gates for continuous integration: has the peak grown, does memory leak, is it in pieces?
//!
//! In: the figures of a file, and of an earlier one. Out: [`Check`]: what passed, what failed and what cannot be judged.
//! What a trace does not cover is never taken for good: a peak that may lie before the trace passes no gate.

mod figures;
mod limits;

pub use figures::{
    BaselineError, DeviceFigures, NewFigures, PeakFigure, PeakFigures, TraceFigures, baseline, figures, is_baseline,
    new_figures,
};
pub use limits::{Growth, LimitError, Optional, Size, parse_share, share_text};

use serde::Serialize;

use super::leaks::Leaks;
use crate::units::{bytes, bytes_short};

/// What is allowed. A gate that is `None` is not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Growth of the peak of live memory over the base.
    pub peak_growth: Option<Growth>,
    /// Growth of the peak of reserved memory over the base.
    pub reserved_growth: Option<Growth>,
    /// The peak of live memory, in bytes.
    pub peak: Option<u64>,
    /// The peak of reserved memory, in bytes.
    pub reserved: Option<u64>,
    /// Bytes that all leaks add in a step.
    pub leak_per_step: Option<u64>,
    /// Stranded share of the reserved memory at its peak.
    pub fragmentation: Option<f64>,
    /// Whether more failures than in the base, or any without a base, are none of the gate's business.
    pub allow_oom: bool,
    /// Whether a trace that begins with memory in use is judged by what it covers.
    pub partial: bool,
}

/// What the gates said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Whether every gate passed.
    pub passed: bool,
    /// The same with the third case: `passed`, `failed` when any gate failed, `unknown` when none failed but one cannot
    /// be judged.
    pub verdict: Verdict,
    /// Every gate.
    pub gates: Vec<Gate>,
    /// The figures of the new file: what a later run compares with.
    pub figures: Figures,
}

/// The figures of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// One entry a device.
    pub devices: Vec<DeviceFigures>,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every gate passed.
    Passed,
    /// A gate failed.
    Failed,
    /// No gate failed, but not all could be judged.
    Unknown,
}

/// One gate of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// Which.
    pub name: &'static str,
    /// Device ordinal.
    pub device: i64,
    /// The most that `b` may be.
    pub limit: Option<Figure>,
    /// The limit as it was set: `+5 %`.
    pub rule: String,
    /// The figure of the base, where the gate compares.
    pub a: Option<Figure>,
    /// The figure of the new file.
    pub b: Option<Figure>,
    /// Whether it passed; `None` when it cannot be judged.
    pub passed: Option<bool>,
    /// Why it failed, or cannot be judged.
    pub why: Option<String>,
}

/// A figure of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// Bytes.
    Bytes(u64),
    /// A share, 0 to 1.
    Share(f64),
    /// A number of failures.
    Count(u64),
}

/// Holds `new` against `limits`, and against `base` where there is one.
pub fn check(new: &[(DeviceFigures, NewFigures)], base: Option<&[DeviceFigures]>, limits: &Limits) -> Check {
    let mut gates = Vec::new();
    // One device each is the same one, whatever its number.
    let is_single = new.len() == 1 && base.is_some_and(|base| base.len() == 1);
    for (figures, more) in new {
        let earlier = base.map(|base| base.iter().find(|other| is_single || other.device == figures.device));
        match earlier {
            Some(None) => gates.push(missing(figures.device, "the base has no such device")),
            Some(Some(earlier)) => growth_gates(&mut gates, figures, earlier, limits),
            None => {}
        }
        own_gates(&mut gates, figures, more, limits);
        if !limits.allow_oom {
            gates.push(oom_gate(figures, earlier.flatten(), base.is_some()));
        }
    }
    for earlier in base.unwrap_or_default() {
        if !is_single && !new.iter().any(|(figures, _)| figures.device == earlier.device) {
            gates.push(missing(earlier.device, "the new file has no such device"));
        }
    }
    if new.is_empty() {
        gates.push(missing(0, "the new file has no device with memory or a history"));
    }
    let failed = gates.iter().any(|gate| gate.passed == Some(false));
    let passed = gates.iter().all(|gate| gate.passed == Some(true));
    Check {
        passed,
        verdict: match (failed, passed) {
            (true, _) => Verdict::Failed,
            (false, true) => Verdict::Passed,
            (false, false) => Verdict::Unknown,
        },
        gates,
        figures: Figures { devices: new.iter().map(|(figures, _)| figures.clone()).collect() },
    }
}

fn missing(device: i64, why: &str) -> Gate {
    Gate {
        name: "device",
        device,
        limit: None,
        rule: "in both".to_owned(),
        a: None,
        b: None,
        passed: None,
        why: Some(why.to_owned()),
    }
}

/// Which peak.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Live,
    Reserved,
}

/// The peak of `figures` to compare: of live memory what was allocated, or asked for when only that is exact. Names it,
/// and tells why there is none.
fn peak(figures: &DeviceFigures, of: Of, requested: bool) -> Result<PeakFigure, String> {
    let reasons = || match figures.trace.reasons.join("; ") {
        reasons if reasons.is_empty() => "the trace lacks it".to_owned(),
        reasons => reasons,
    };
    let peak = figures.peak.filter(|_| figures.trace.recorded).ok_or_else(reasons)?;
    let peak = match of {
        Of::Reserved => peak.reserved,
        Of::Live if requested => peak.requested,
        Of::Live => peak.allocated,
    };
    if peak.exact { Ok(peak) } else { Err(reasons()) }
}

/// Whether the peak of live memory is known in bytes asked for only.
fn is_requested_only(figures: &DeviceFigures) -> bool {
    !figures.peak.is_some_and(|peak| peak.allocated.exact)
}

fn growth_gates(gates: &mut Vec<Gate>, new: &DeviceFigures, base: &DeviceFigures, limits: &Limits) {
    let requested = is_requested_only(new) || is_requested_only(base);
    let live = if requested { "peak requested growth" } else { "peak growth" };
    for (name, of, growth) in
        [(live, Of::Live, limits.peak_growth), ("reserved growth", Of::Reserved, limits.reserved_growth)]
    {
        let Some(growth) = growth else { continue };
        let (before, after) = (peak(base, of, requested), peak(new, of, requested));
        let most = before.as_ref().ok().map(|peak| growth.most(peak.bytes));
        let (passed, why) = match (&before, &after) {
            (Err(why), _) => (None, Some(format!("the base does not tell: {why}"))),
            (_, Err(why)) => (None, Some(format!("the new file does not tell: {why}"))),
            (Ok(before), Ok(after)) => {
                let most = growth.most(before.bytes);
                match after.bytes <= most {
                    true if new.trace.starts_empty || limits.partial => (Some(true), None),
                    true => (None, Some(lost("the new file", "higher"))),
                    false if base.trace.starts_empty || limits.partial => {
                        (Some(false), Some(format!("{} more than allowed", bytes(after.bytes - most))))
                    }
                    false => (None, Some(lost("the base", "higher, and the limit with it"))),
                }
            }
        };
        gates.push(Gate {
            name,
            device: new.device,
            limit: most.map(Figure::Bytes),
            rule: growth.to_string(),
            a: before.ok().map(|peak| Figure::Bytes(peak.bytes)),
            b: after.ok().map(|peak| Figure::Bytes(peak.bytes)),
            passed,
            why,
        });
    }
}

/// What is said of a peak that may lie before the trace.
fn lost(file: &str, how: &str) -> String {
    format!(
        "memory was in use when the trace of {file} began, so its peak may have been {how} (--partial judges what was recorded)"
    )
}

fn own_gates(gates: &mut Vec<Gate>, new: &DeviceFigures, more: &NewFigures, limits: &Limits) {
    let gate = |name, limit, rule, b, (passed, why)| Gate {
        name,
        device: new.device,
        limit: Some(limit),
        rule,
        a: None,
        b,
        passed,
        why,
    };
    for (name, of, limit) in [("peak", Of::Live, limits.peak), ("reserved", Of::Reserved, limits.reserved)] {
        let Some(limit) = limit else { continue };
        let requested = of == Of::Live && is_requested_only(new);
        let found = peak(new, of, requested);
        let judged = match &found {
            Err(why) => (None, Some(why.clone())),
            Ok(peak) if peak.bytes > limit => {
                (Some(false), Some(format!("{} more than allowed", bytes(peak.bytes - limit))))
            }
            Ok(_) if limits.partial => (Some(true), None),
            Ok(_) if !new.trace.starts_empty => (None, Some(lost("the file", "higher"))),
            Ok(_) if requested => (
                None,
                Some(
                    "only what was asked for is known exactly; blocks are larger (--partial judges by that)".to_owned(),
                ),
            ),
            Ok(_) => (Some(true), None),
        };
        let b = found.ok().map(|peak| Figure::Bytes(peak.bytes));
        gates.push(gate(name, Figure::Bytes(limit), format!("at most {}", bytes_short(limit)), b, judged));
    }
    if let (Some(limit), Some(leaks)) = (limits.leak_per_step, &more.leaks) {
        let is_known = new.trace.recorded && leaks.unknown.is_none();
        let b = is_known.then_some(Figure::Bytes(leaks.bytes_per_step));
        let rule = format!("below {}", bytes_short(limit));
        let judged = match new.trace.recorded || leaks.unknown.is_some() {
            true => judge_leaks(leaks, limit),
            false => (None, Some(new.trace.reasons.join("; "))),
        };
        gates.push(gate("leak per step", Figure::Bytes(limit), rule, b, judged));
    }
    if let Some(limit) = limits.fragmentation {
        let judged = match more.fragmentation {
            _ if !new.trace.recorded => (None, Some(new.trace.reasons.join("; "))),
            None => (None, Some("how its memory divides is not known".to_owned())),
            Some(share) if share > limit => (Some(false), Some("at the peak of reserved memory".to_owned())),
            Some(_) if new.trace.starts_empty || limits.partial => (Some(true), None),
            Some(_) => (None, Some(lost("the file", "higher"))),
        };
        let b = more.fragmentation.filter(|_| new.trace.recorded).map(Figure::Share);
        gates.push(gate("fragmentation", Figure::Share(limit), format!("at most {}", share_text(limit)), b, judged));
    }
}

fn judge_leaks(leaks: &Leaks, limit: u64) -> (Option<bool>, Option<String>) {
    if let Some(why) = &leaks.unknown {
        return (None, Some(format!("{why} (--max-leak-per-step none leaves this gate out)")));
    }
    let line = leaks.causes.first().map(|cause| format!("most of it from {}", cause.line));
    if leaks.bytes_per_step > 0 && leaks.bytes_per_step >= limit {
        return (Some(false), line);
    }
    let suspected: u64 = leaks.suspects.iter().map(|leak| leak.bytes_per_step).sum();
    match leaks.suspects.first() {
        Some(first) if leaks.bytes_per_step + suspected >= limit => {
            (None, Some(format!("{} has grown in each step, but they are too few for a proof", first.site)))
        }
        _ => (Some(true), None),
    }
}

fn oom_gate(new: &DeviceFigures, base: Option<&DeviceFigures>, compares: bool) -> Gate {
    let allowed = base.map_or(0, |base| base.ooms);
    let (passed, why) = match new.ooms > allowed {
        // A failure counts even where the rest of the trace is missing.
        true => (Some(false), Some("the job ran out of memory".to_owned())),
        false if !new.trace.recorded => (None, Some(new.trace.reasons.join("; "))),
        false => (Some(true), None),
    };
    Gate {
        name: "failures",
        device: new.device,
        limit: Some(Figure::Count(allowed)),
        rule: if compares { "no more than before" } else { "none" }.to_owned(),
        a: base.map(|base| Figure::Count(base.ooms)),
        b: new.trace.recorded.then_some(Figure::Count(new.ooms)),
        passed,
        why,
    }
}
