//! The post-mortem as Markdown for a ticket or a chat: at most 60 lines.

use std::borrow::Cow;

use super::terminal::names::{shared_directory, without};
use super::terminal::{facts, live_column, moment_text, percents, remedy_names, spread};
use crate::analysis::leaks::Cause;
use crate::analysis::pin::Pin;
use crate::analysis::ranking::Row;
use crate::analysis::report::{DeviceReport, Report};
use crate::oom::Diagnosis;
use crate::oom::remedies::{Advice, Class};
use crate::text::{printable, shorten};
use crate::units::{bytes, count};

/// Lines at most, whatever the file holds.
pub const LINES: usize = 60;
/// Devices that are described; the others have a row in a table.
const DEVICES: usize = 1;
/// Rows of that table, of a table of sites, of leaks, of pins; remedies; sentences of evidence; reasons.
const OTHERS: usize = 8;
const SITES: usize = 6;
const LEAKS: usize = 4;
const PINS: usize = 4;
const REMEDIES: usize = 4;
const SENTENCES: usize = 3;
/// Pins are left out when less than this part of the reserved memory is pinned.
const PINNED_SHARE: u64 = 20;
/// Columns of a name, and of a sentence.
const NAME: usize = 100;
const SENTENCE: usize = 500;

/// All of `report`; `name` is the file's, `salvaged` says that only a part of it could be used.
pub fn report(name: &str, salvaged: Option<&str>, report: &Report) -> String {
    let mut lines = vec![format!("### {}", code(name)), String::new(), plain(&facts(report)), String::new()];
    if let Some(salvaged) = salvaged {
        lines.extend([format!("> {}", plain(salvaged)), String::new()]);
    }
    if report.devices.is_empty() {
        lines.push("No memory is reserved and nothing was recorded.".to_owned());
    }
    for one in report.devices.iter().take(DEVICES) {
        device(&mut lines, one);
    }
    others(&mut lines, &report.devices[DEVICES.min(report.devices.len())..]);
    for info in report.info.devices.iter().take(DEVICES).filter(|info| !info.trace.complete) {
        for reason in info.trace.reasons.iter().take(SENTENCES) {
            lines.push(format!("- trace: {}", plain(reason)));
        }
    }
    lines.truncate(LINES);
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

fn device(lines: &mut Vec<String>, device: &DeviceReport) {
    if let Some(diagnosis) = &device.diagnosis {
        verdict(lines, diagnosis);
    }
    memory(lines, device);
    let top = &device.top;
    if !top.rows.is_empty() {
        let (first, rest) = top.rows.split_at(top.rows.len().min(SITES));
        let rest = rest.iter().map(|row| row.share).sum();
        let shares = percents(&first.iter().map(|row| row.share).chain([rest]).collect::<Vec<_>>());
        let figures = |at: usize, rows: &[Row]| {
            let sum = |part: fn(&Row) -> u64| rows.iter().map(part).sum();
            vec![bytes(sum(|row| row.bytes)), shares[at].clone(), count(sum(|row| row.blocks))]
        };
        let name = |row: &Row| (row.site.clone(), row.function.clone());
        table(lines, &["who holds it", "live", "share", "blocks"], &top.rows, SITES, name, figures);
    }
    let causes = &device.leaks.causes;
    if !causes.is_empty() {
        let figures = |_: usize, causes: &[Cause]| {
            let sum = |part: fn(&Cause) -> u64| causes.iter().map(part).sum();
            let since = causes.iter().map(|cause| cause.since_step).min().unwrap_or(0);
            let kind = if let [one] = causes { one.kind.name() } else { "" };
            vec![bytes(sum(|one| one.bytes_per_step)), bytes(sum(|one| one.live_bytes)), count(since), kind.to_owned()]
        };
        let name = |cause: &Cause| (cause.line.clone(), cause.function.clone());
        let live = live_column(&device.leaks, &device.at);
        table(lines, &["what grows", "a step", &live, "since step", "probably"], causes, LEAKS, name, figures);
    }
    let pinning = &device.segments.pinning;
    if pinning.pinned > device.segments.fragmentation.totals.reserved / PINNED_SHARE {
        let figures = |_: usize, pins: &[Pin]| {
            let sum = |part: fn(&Pin) -> u64| pins.iter().map(part).sum();
            vec![bytes(sum(|pin| pin.pinned)), bytes(sum(|pin| pin.own)), count(sum(|pin| pin.blocks))]
        };
        let name = |pin: &Pin| (pin.site.clone(), pin.function.clone());
        table(
            lines,
            &["what pins it", "keeps from being given back", "its own", "blocks"],
            &pinning.pins,
            PINS,
            name,
            figures,
        );
    }
    match &device.diagnosis {
        Some(diagnosis) => remedies(lines, diagnosis),
        None => next(lines, &device.next),
    }
}

fn verdict(lines: &mut Vec<String>, diagnosis: &Diagnosis) {
    let mut evidence = diagnosis.evidence.iter();
    let first = evidence.next().map_or("", String::as_str);
    lines.push(format!("**{}.** {}", plain(diagnosis.verdict.title()), plain(first)));
    lines.push(String::new());
    let before = lines.len();
    lines.extend(evidence.take(SENTENCES).map(|more| format!("- also: {}", plain(more))));
    lines.extend(diagnosis.contradictions.iter().take(SENTENCES).map(|but| format!("- but: {}", plain(but))));
    if let Some(why) = &diagnosis.beyond_settings {
        lines.push(format!("- No setting helps: {}.", plain(why)));
    }
    if lines.len() > before {
        lines.push(String::new());
    }
}

fn memory(lines: &mut Vec<String>, device: &DeviceReport) {
    let totals = &device.segments.fragmentation.totals;
    let mut parts =
        vec![format!("**{}** reserved", bytes(totals.reserved)), format!("{} live", bytes(totals.allocated))];
    let known = [
        (Some(totals.pending), "waiting for a stream"),
        (totals.stranded, "stranded next to live blocks"),
        (totals.pool_idle, "idle in private pools"),
        (totals.releasable, "releasable"),
    ];
    for (size, what) in known {
        match size {
            Some(0) => {}
            Some(size) => parts.push(format!("{} {what}", bytes(size))),
            None => parts.push(format!("{what}: unknown")),
        }
    }
    parts.extend(totals.largest_free.map(|largest| format!("largest hole {}", bytes(largest))));
    parts.extend(device.capacity.map(|capacity| format!("it could have {}", bytes(capacity))));
    if let Some(failure) = &device.failure {
        parts.push(format!("{} asked for", bytes(failure.rounded)));
        parts.push(format!("{} left on the device", bytes(failure.device_free)));
    }
    let ordinal = device.segments.fragmentation.device;
    lines.push(format!("Device {ordinal} {}: {}.", moment_text(&device.at), parts.join(" · ")));
    lines.push(String::new());
}

/// A table of the first `limit` of `rows`, with one row for the others; `figures` are those of
/// the line of that number, which is one row or several together.
fn table<T>(
    lines: &mut Vec<String>,
    heads: &[&str],
    rows: &[T],
    limit: usize,
    name: impl Fn(&T) -> (String, Option<String>),
    figures: impl Fn(usize, &[T]) -> Vec<String>,
) {
    let (shown, rest) = rows.split_at(rows.len().min(limit));
    let names: Vec<(String, Option<String>)> = shown.iter().map(name).collect();
    let shared = shared_directory(names.iter().map(|(site, _)| site.as_str()));
    lines.push(format!("| {} |", heads.join(" | ")));
    lines.push(format!("|---|{}", "---:|".repeat(heads.len() - 1)));
    for (at, ((site, function), row)) in names.iter().zip(shown).enumerate() {
        let function = function.as_ref().map_or_else(String::new, |function| format!(" {}", code(function)));
        let figures = figures(at, std::slice::from_ref(row)).join(" | ");
        lines.push(format!("| {}{function} | {figures} |", code(without(site, shared))));
    }
    if !rest.is_empty() {
        lines.push(format!("| {} more | {} |", count(rest.len() as u64), figures(shown.len(), rest).join(" | ")));
    }
    lines.push(String::new());
}

fn remedies(lines: &mut Vec<String>, diagnosis: &Diagnosis) {
    let (useful, useless): (Vec<&Advice>, Vec<&Advice>) =
        diagnosis.remedies.iter().partition(|advice| advice.class != Class::No);
    if useful.is_empty() && useless.is_empty() && diagnosis.wanted.is_empty() {
        return;
    }
    lines.push("**What to do**, cheapest first:".to_owned());
    lines.push(String::new());
    for (advice, number) in spread(&useful, REMEDIES).into_iter().zip(1..) {
        let won = match (&advice.replayed, advice.expected_bytes) {
            (Some(replayed), _) => format!(" – {}", prose(replayed)),
            (None, Some(won)) => format!(" (at most {})", bytes(won)),
            (None, None) => String::new(),
        };
        lines.push(format!("{number}. *{}*: {}{won}", advice.class.name(), prose(&advice.what)));
    }
    if let Some((first, others)) = useless.split_first() {
        lines.push(format!("- *not*: {} – {}", prose(&first.what), prose(&first.why)));
        if !others.is_empty() {
            lines.push(format!("- *nor*: {}", prose(&remedy_names(others))));
        }
    }
    lines.extend(diagnosis.wanted.iter().take(SENTENCES).map(|wanted| format!("- *open*: {}", prose(wanted))));
    lines.push(String::new());
}

/// What to do next where nothing failed.
fn next(lines: &mut Vec<String>, steps: &[String]) {
    if steps.is_empty() {
        return;
    }
    lines.extend(["**What to do**:".to_owned(), String::new()]);
    lines.extend(steps.iter().take(REMEDIES).map(|step| format!("- {}", prose(step))));
    lines.push(String::new());
}

/// The devices that are not described.
fn others(lines: &mut Vec<String>, devices: &[DeviceReport]) {
    if devices.is_empty() {
        return;
    }
    lines.push("| device | verdict | live | reserved |".to_owned());
    lines.push("|---|---|---:|---:|".to_owned());
    for device in devices.iter().take(OTHERS) {
        let totals = &device.segments.fragmentation.totals;
        let verdict = device.diagnosis.as_ref().map_or("no failure", |diagnosis| diagnosis.verdict.title());
        let ordinal = device.segments.fragmentation.device;
        let (live, reserved) = (bytes(totals.allocated), bytes(totals.reserved));
        lines.push(format!("| {ordinal}, {} | {} | {live} | {reserved} |", moment_text(&device.at), plain(verdict)));
    }
    if devices.len() > OTHERS {
        lines.push(format!("| {} more | | | |", devices.len() - OTHERS));
    }
    lines.push(String::new());
}

/// `text` as one line that Markdown takes for nothing but text: no markup, HTML, link, table cell or mention.
pub(super) fn plain(text: &str) -> String {
    let text = shorten(&printable(text), SENTENCE).into_owned();
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' | '#' | '!' => out.extend(['\\', c]),
            // Within a word it is none.
            '_' if before.is_alphanumeric() && rest.clone().next().is_some_and(char::is_alphanumeric) => out.push(c),
            '_' => out.push_str("\\_"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // Nobody is to be notified, and nothing linked: a character without width breaks the word.
            '@' => out.push_str("@\u{2060}"),
            c => out.push(c),
        }
        before = c;
    }
    out.replace("://", ":\u{2060}//")
}

/// `text` of our own, in which what stands between backticks is code.
fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { code(part) } else { plain(part) }).collect()
}

/// `text` as code, in which nothing is markup. A bar would still end a table's cell, and a backtick the code: what looks
/// like them takes their place.
pub(super) fn code(text: &str) -> String {
    let text = shorten(&printable(text), NAME).into_owned();
    let safe: String = text
        .chars()
        .map(|c| match c {
            '`' => 'ˋ',
            '|' => '¦',
            c => c,
        })
        .collect();
    let safe: Cow<str> = if safe.trim().is_empty() { Cow::Borrowed("(no name)") } else { Cow::Owned(safe) };
    format!("`{safe}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup() {
        assert_eq!(code("a|b`c`<img>@me"), "`a¦bˋcˋ<img>@me`");
        assert_eq!(code(" "), "`(no name)`");
        assert_eq!(
            plain("<b>*x*</b> | `y` [z](http://e) @all\n# h"),
            "&lt;b&gt;\\*x\\*&lt;/b&gt; \\| \\`y\\` \\[z\\](http:\u{2060}//e) @\u{2060}all␊\\# h"
        );
    }
}
