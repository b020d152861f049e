//! The verdict on a failure, and what to do about it.

use super::paragraph;
use crate::oom::phases::Chronology;
use crate::oom::reconcile::Reconciliation;
use crate::oom::remedies::{Advice, Class};
use crate::oom::{Diagnosis, Message, Verdict};
use crate::render::table::{Align, Table};
use crate::units::{bytes, count, duration};

/// Width of text where the terminal's is not known.
pub(super) const WIDTH: usize = 110;

/// The headline with its evidence.
pub fn verdict(diagnosis: &Diagnosis, width: Option<usize>) -> String {
    let width = width.unwrap_or(WIDTH);
    let mut evidence = diagnosis.evidence.iter();
    let headline = format!("{}. {}", diagnosis.verdict.title(), evidence.next().map_or("", String::as_str));
    let mut out = paragraph("VERDICT  ", &headline, width);
    for more in evidence {
        out += &paragraph("  also   ", more, width);
    }
    for contradiction in &diagnosis.contradictions {
        out += &paragraph("  but    ", contradiction, width);
    }
    if let Some(phase) = &diagnosis.phase {
        let number = phase.number.map_or_else(String::new, |number| format!(" {number}"));
        let ready = match (phase.was_ready, phase.phase.is_before_ready()) {
            (false, true) => "; it had never been ready, so no request of a user and no batch can be the cause",
            (true, _) => "; it had been ready before",
            (false, false) => "",
        };
        let text = format!("{}, by \"{}{number}\" of {}{ready}", phase.phase.describe(), phase.mark, phase.program);
        out += &paragraph("  phase  ", &text, width);
    }
    if let Some(why) = &diagnosis.beyond_settings {
        out += &paragraph("  note   ", &format!("No setting helps: {why}."), width);
    }
    out
}

/// What to do, cheapest first, and what would tell more: at most `most` remedies, JSON has all.
pub fn remedies(diagnosis: &Diagnosis, most: usize, with_reasons: bool, width: Option<usize>) -> String {
    let width = width.unwrap_or(WIDTH);
    let mut out = String::new();
    let (useful, useless): (Vec<&Advice>, Vec<&Advice>) =
        diagnosis.remedies.iter().partition(|advice| advice.class != Class::No);
    if !useful.is_empty() || !useless.is_empty() {
        out += "WHAT TO DO\n";
    }
    for (advice, number) in spread(&useful, most).into_iter().zip(1..) {
        let won = match (&advice.replayed, advice.expected_bytes) {
            (Some(replayed), _) => format!(": {replayed}"),
            (None, Some(won)) => format!(" (at most {})", bytes(won)),
            (None, None) => String::new(),
        };
        let why = if with_reasons { format!(" – {}", advice.why) } else { String::new() };
        let text = format!("{}{won}{why}", advice.what);
        out += &paragraph(&format!("  {number} {:<7} ", advice.class.name()), &text, width);
    }
    // A line that names one more has room for the reason.
    let reasons = if useless.len() == most / 3 + 1 { useless.len() } else { useless.len().min(most / 3) };
    for advice in &useless[..reasons] {
        out += &paragraph("    not     ", &format!("{} – {}", advice.what, advice.why), width);
    }
    let others = &useless[reasons..];
    if !others.is_empty() {
        out += &paragraph("    nor     ", &format!("{} (--json tells why)", names(others)), width);
    }
    for wanted in &diagnosis.wanted {
        out += &paragraph("    open    ", wanted, width);
    }
    out
}

/// What `remedies` do, without why.
pub(in crate::render) fn names(remedies: &[&Advice]) -> String {
    remedies.iter().map(|advice| advice.what.as_str()).collect::<Vec<_>>().join("; ")
}

/// The first remedies of each class, so that many free ones do not hide what always helps.
pub(in crate::render) fn spread<'a>(useful: &[&'a Advice], most: usize) -> Vec<&'a Advice> {
    let mut shown: Vec<&Advice> = Vec::new();
    let mut left: Vec<&Advice> = useful.to_vec();
    // Of each class in turn: what costs nothing may not apply to the program, what is slower nearly always helps.
    let turn = [Class::Free, Class::Slower, Class::Slower, Class::Free, Class::Result];
    let mut turns = turn.iter().cycle().take(5 * useful.len());
    while let (true, Some(class)) = (shown.len() < most, turns.next()) {
        if let Some(at) = left.iter().position(|advice| advice.class == *class) {
            shown.push(left.remove(at));
        }
    }
    shown.sort_by_key(|advice| advice.class);
    shown
}

/// The account of the card.
pub fn account(account: &Reconciliation, width: Option<usize>) -> String {
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Prose)]).indent(2);
    for line in &account.lines {
        let figure = line.bytes.map_or_else(|| "unknown".to_owned(), bytes);
        table.row([line.name.to_owned(), figure, line.source.clone()]);
    }
    if let Some(rest) = account.unexplained {
        let sign = if rest < 0 { "−" } else { "" };
        let figure = format!("{sign}{}", bytes(rest.unsigned_abs()));
        table.row(["unexplained".to_owned(), figure, "card − all of the above".to_owned()]);
    }
    let mut out = format!("THE CARD\n{}", table.render(width));
    for note in &account.notes {
        out += &paragraph("  ", note, width.unwrap_or(WIDTH));
    }
    out
}

/// The phases before `until`, with the times between them.
pub fn chronology(chronology: &Chronology, until: usize, width: Option<usize>) -> String {
    let changes = chronology.changes(until);
    if changes.is_empty() {
        return String::new();
    }
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]).indent(2);
    let skipped = changes.len().saturating_sub(8);
    for entry in &changes[skipped..] {
        let after = entry.after_us.map_or_else(String::new, |gap| format!("+{}", duration(gap)));
        let number = entry.number.map_or_else(String::new, |number| format!(" {number}"));
        let source = entry.source.map_or_else(String::new, |source| format!(" ({source})"));
        table.row([
            entry.phase.describe().to_owned(),
            after,
            format!("{}: {}{number}{source}", entry.program, entry.text),
        ]);
    }
    let more = if skipped > 0 {
        format!(", the last {} of {}", changes.len() - skipped, changes.len())
    } else {
        String::new()
    };
    format!("PHASES{more}\n{}", table.render(width))
}

/// One line about where a message stands and what it says.
pub fn message(message: &Message) -> String {
    let mut parts = vec![format!("line {}", count(message.line))];
    parts.extend(message.source.map(|source| source.to_string()));
    parts.extend(message.device.map(|device| format!("device {device}")));
    if message.count > 1 {
        parts.push(format!("{} times", count(message.count)));
    }
    let mut figures = Vec::new();
    let mut figure = |name: &str, value: Option<u64>| {
        if let Some(value) = value {
            figures.push(format!("{name} {}", bytes(value)));
        }
    };
    figure("asked", message.tried);
    figure("card", message.total);
    figure("free", message.free);
    figure("allocated", message.live());
    figure("reserved", message.reserved_in_total());
    figure("allowed", message.allowed);
    if !figures.is_empty() {
        parts.push(figures.join(", "));
    }
    if !message.dropped.is_empty() {
        parts.push(format!("dropped a marker for \"unknown\": {}", message.dropped.join(", ")));
    }
    if message.is_cut {
        parts.push("cut short".to_owned());
    }
    parts.join(" · ")
}

/// A table of the other messages of a log, with their numbers.
pub fn others(rest: &[(usize, &Diagnosis)], width: Option<usize>) -> String {
    let columns = [
        ("no.", Align::Right),
        ("line", Align::Right),
        ("source", Align::Left),
        ("asked", Align::Right),
        ("verdict", Align::Left),
        ("", Align::Prose),
    ];
    let mut table = Table::new(columns).indent(2);
    for (number, other) in rest.iter().take(20) {
        let Some(message) = &other.message else { continue };
        table.row([
            number.to_string(),
            count(message.line),
            message.source.map_or_else(String::new, |source| source.to_string()),
            message.tried.map_or_else(String::new, bytes),
            other.verdict.title().to_owned(),
            if other.verdict == Verdict::NotOom { message.kind.describe().to_owned() } else { String::new() },
        ]);
    }
    let more = if rest.len() > 20 { format!(" ({} more are in --json)", rest.len() - 20) } else { String::new() };
    format!("OTHER MESSAGES, each told by --message{more}\n{}", table.render(width))
}
