//! What happened, and what to do about it.

use maud::{Markup, html};

use super::cells::{prose, shown};
use crate::oom::Diagnosis;
use crate::oom::reconcile::Reconciliation;
use crate::oom::remedies::{Advice, Class};
use crate::units::bytes;

/// Remedies that are shown at once; the others can be opened.
const FIRST: usize = 4;

/// The verdict with its evidence.
pub fn verdict(diagnosis: &Diagnosis) -> Markup {
    let mut evidence = diagnosis.evidence.iter();
    html! {
        div.verdict {
            p.kicker { "Verdict" }
            h2 { (diagnosis.verdict.title()) }
            @if let Some(first) = evidence.next() { p.evidence { (shown(first)) } }
            ul.also {
                @for more in evidence { li { b { "also " } (shown(more)) } }
                @for contradiction in &diagnosis.contradictions { li.but { b { "but " } (shown(contradiction)) } }
                @if let Some(phase) = &diagnosis.phase {
                    li {
                        b { "phase " } (phase.phase.describe()) ", by “" (shown(&phase.mark))
                        @if let Some(number) = phase.number { " " (number) }
                        "” of " (shown(&phase.program))
                        @match (phase.was_ready, phase.phase.is_before_ready()) {
                            (false, true) => "; it had never been ready, so no request of a user and no batch can be the cause",
                            (true, _) => "; it had been ready before",
                            (false, false) => "",
                        }
                    }
                }
                @if let Some(why) = &diagnosis.beyond_settings { li { b { "note " } "No setting helps: " (shown(why)) "." } }
            }
        }
    }
}

/// Next steps, cheapest first.
pub fn remedies(diagnosis: &Diagnosis) -> Markup {
    let (useful, useless): (Vec<&Advice>, Vec<&Advice>) =
        diagnosis.remedies.iter().partition(|advice| advice.class != Class::No);
    let chosen = crate::render::terminal::spread(&useful, FIRST);
    let rest: Vec<&Advice> =
        useful.into_iter().filter(|advice| !chosen.iter().any(|one| one.id == advice.id)).collect();
    if chosen.is_empty() && useless.is_empty() && diagnosis.wanted.is_empty() {
        return html! {};
    }
    html! {
        div.steps {
            h3 { "What to do" }
            ol { @for advice in chosen { (step(advice)) } }
            @if !diagnosis.wanted.is_empty() {
                ul.wanted { @for wanted in &diagnosis.wanted { li { span.chip.open { "open" } " " (prose(wanted)) } } }
            }
            @if !rest.is_empty() || !useless.is_empty() {
                details {
                    summary {
                        @match (rest.len(), useless.len()) {
                            (more, 0) => { (more) " more" },
                            (0, _) => "What is often advised, but would not help",
                            (more, _) => { (more) " more, and what would not help" },
                        }
                    }
                    ul {
                        @for advice in rest { (step(advice)) }
                        @for advice in useless { (step(advice)) }
                    }
                }
            }
            @if crate::analysis::settle::is_settled(diagnosis) {
                p.note { "Replayed exactly up to the failed request; what would have followed is not in the file." }
            }
        }
    }
}

fn step(advice: &Advice) -> Markup {
    let (class, chip) = match advice.class {
        Class::Free => ("free", "free"),
        Class::Slower => ("slower", "slower"),
        Class::Result => ("result", "changes result"),
        Class::No => ("no", "does not help"),
    };
    html! {
        li {
            span.chip.(class) { (chip) }
            " " span.do { (prose(&advice.what)) }
            @match (&advice.replayed, advice.expected_bytes) {
                (Some(replayed), _) if advice.class != Class::No => { span.won { " – " (prose(replayed)) } }
                (_, Some(won)) => { span.won { " – at most " (bytes(won)) } }
                _ => {}
            }
            div.why { (prose(&advice.why)) }
        }
    }
}

/// The account of the card.
pub fn account(account: &Reconciliation) -> Markup {
    html! {
        section.card {
            h3 { "The card" }
            table.plain { tbody {
                @for line in &account.lines {
                    tr { th scope="row" { (line.name) } td.number { (line.bytes.map_or_else(|| "unknown".to_owned(), bytes)) } td { (shown(&line.source)) } }
                }
                @if let Some(rest) = account.unexplained {
                    tr {
                        th scope="row" { "unexplained" }
                        td.number { @if rest < 0 { "−" } (bytes(rest.unsigned_abs())) }
                        td { "card − all of the above" }
                    }
                }
            } }
            @for note in &account.notes { p.note { (shown(note)) } }
        }
    }
}
