//! What grows from step to step.

use std::fmt::Write;

use maud::{Markup, html};

use super::cells::{counted, decimal, maybe, name, number, shown, site, size, table, text};
use crate::analysis::leaks::{Cause, Leak, Leaks};
use crate::history::Moment;
use crate::render::terminal::moment_text;
use crate::render::terminal::names::shared_directory;
use crate::units::{bytes, count};

/// Lines that are no leaks, and frames of a stack, that are listed.
const NO_LEAKS: usize = 12;
const FRAMES: usize = 12;
/// Points of a small chart.
const POINTS: usize = 60;

/// Whether there is anything to say of `leaks`.
pub fn has_any(leaks: &Leaks) -> bool {
    !(leaks.leaks.is_empty() && leaks.suspects.is_empty() && leaks.not_leaks.is_empty())
}

/// The section on `leaks`, on a page about the moment `at`.
pub fn leaks(leaks: &Leaks, at: &Moment, id: &str, limit: usize) -> Markup {
    html! {
        @if let Some(steps) = &leaks.steps {
            p.note {
                (count(steps.count as u64)) " steps, " (shown(&steps.source.to_string())) "; the memory between them was looked at " (count(steps.samples as u64)) " times."
                @if steps.at.state != at.state { " What is called live here is that " (moment_text(&steps.at)) ", not that " (moment_text(at)) "." }
            }
        }
        @if leaks.leaks.is_empty() {
            p { "No line leaks." }
        } @else {
            p {
                b { (bytes(leaks.bytes_per_step)) } " a step in all"
                @match leaks.full_in_steps {
                    Some(0) => { "; the device was full" },
                    Some(steps) => { "; at that rate the device is full in " (count(steps)) " steps" },
                    None => {},
                }
            }
            (causes(leaks, id, limit))
        }
        @if !leaks.suspects.is_empty() {
            h3 { "Suspects" }
            p.note { "Higher in each step than in the one before, but too few steps for a proof." }
            ul { @for leak in leaks.suspects.iter().take(NO_LEAKS) { li { (site(&leak.site, leak.function.as_deref(), 0, None)) ": " (bytes(leak.bytes_per_step)) " a step, " (bytes(leak.live_bytes)) " live" } } }
        }
        @if !leaks.not_leaks.is_empty() {
            details {
                summary { (count(leaks.not_leaks.len() as u64)) " lines look like a leak, but are none" }
                ul { @for line in leaks.not_leaks.iter().take(NO_LEAKS) { li { code { (name(&line.site)) } " " (bytes(line.bytes)) ": " (shown(&line.why)) } } }
            }
        }
    }
}

fn causes(leaks: &Leaks, id: &str, limit: usize) -> Markup {
    let shown_causes = &leaks.causes[..leaks.causes.len().min(limit)];
    let shared = shared_directory(shown_causes.iter().map(|cause| cause.line.as_str()));
    let rows = shown_causes.iter().map(|cause| {
        let lines: Vec<&Leak> = leaks.leaks.iter().filter(|leak| cause.sites.contains(&leak.site)).collect();
        vec![
            line(cause, &lines, shared).into(),
            html! { (cause.kind.text()) div.why { (cause.kind.remedy()) } }.into(),
            size(cause.bytes_per_step),
            decimal(cause.blocks_per_step),
            size(cause.live_bytes),
            counted(cause.since_step),
            maybe(cause.full_in_steps),
            chart(&lines).into(),
        ]
    });
    let columns = [
        text("line"),
        text("what it probably is"),
        number("a step", "bytes that it adds in a step"),
        number("blocks a step", ""),
        number("live", "at the failure, or at the end"),
        number("since step", ""),
        number("full in steps", "in how many further steps it fills the device alone"),
        text("over time"),
    ];
    let left_out = leaks.causes.len() - shown_causes.len();
    table(
        id,
        "Lines whose live memory grows with every step",
        &columns,
        rows.collect(),
        left_out,
        "oomscope leaks lists all.",
    )
}

/// The line, and what lies below it.
fn line(cause: &Cause, lines: &[&Leak], shared: usize) -> Markup {
    html! {
        (site(&cause.line, cause.function.as_deref(), shared, None))
        @if let Some(first) = lines.first() {
            details {
                summary { (count(lines.len() as u64)) @if lines.len() == 1 { " line allocates" } @else { " lines allocate" } }
                ul { @for leak in lines.iter().take(NO_LEAKS) { li { (site(&leak.site, leak.function.as_deref(), 0, None)) ": " (bytes(leak.bytes_per_step)) " a step" } } }
                div.why { "frames of the program on the stack that has kept most" }
                ol.stack { @for frame in first.own_stack.iter().take(FRAMES) { li { code { (name(frame)) } } } }
            }
        }
    }
}

/// The live bytes of all `lines` in each sample.
fn chart(lines: &[&Leak]) -> Markup {
    let samples = lines.iter().map(|leak| leak.levels.len()).max().unwrap_or(0);
    let sum =
        |at: usize| lines.iter().filter_map(|leak| leak.levels.get(at)).fold(0u64, |sum, n| sum.saturating_add(*n));
    let points = samples.min(POINTS);
    let levels: Vec<u64> = (0..points).map(|point| sum(point * samples / points)).collect();
    let most = levels.iter().copied().max().unwrap_or(0).max(1) as f64;
    let mut path = String::new();
    for (at, &level) in levels.iter().enumerate() {
        let x = 100.0 * at as f64 / (points.max(2) - 1) as f64;
        let _ = write!(path, "{x:.1},{:.1} ", 19.0 - 18.0 * level as f64 / most);
    }
    html! { svg.trend width="100" height="20" role="img" aria-label="live bytes over the steps" { polyline points=(path.trim_end()) {} } }
}
