//! Gates as a short table.

use super::{number_of, paragraph};
use crate::analysis::check::{Check, Figure, Gate, Verdict, share_text};
use crate::render::table::{Align, Table};
use crate::text::printable;
use crate::units::{bytes, bytes_change, count};

/// Columns of the longest line.
const WIDTH: usize = 108;

/// A figure in words.
pub fn figure_text(figure: Figure) -> String {
    match figure {
        Figure::Bytes(n) => bytes(n),
        Figure::Share(share) => share_text(share),
        Figure::Count(n) => count(n),
    }
}

/// What `check` says of the file `name`, compared with `base`.
pub fn check(name: &str, base: Option<&str>, check: &Check, width: Option<usize>) -> String {
    let verdict = match check.verdict {
        Verdict::Passed => "PASSED",
        Verdict::Failed => "FAILED",
        Verdict::Unknown => "CANNOT JUDGE",
    };
    let against = base.map_or_else(String::new, |base| format!(" against {}", printable(base)));
    let mut out =
        format!("{verdict}  {}{against} · {}\n", printable(name), number_of(check.gates.len() as u64, "gate"));
    let mut table = Table::new([
        ("gate", Align::Left),
        ("device", Align::Right),
        ("before", Align::Right),
        ("now", Align::Right),
        ("change", Align::Right),
        ("allowed", Align::Left),
        ("", Align::Left),
    ])
    .indent(2);
    for gate in &check.gates {
        let optional = |figure: Option<Figure>| figure.map_or_else(String::new, figure_text);
        table.row([
            gate.name.to_owned(),
            gate.device.to_string(),
            optional(gate.a),
            gate.b.map_or_else(|| "unknown".to_owned(), figure_text),
            change(gate),
            gate.rule.clone(),
            match gate.passed {
                Some(true) => "passed",
                Some(false) => "FAILED",
                None => "unknown",
            }
            .to_owned(),
        ]);
    }
    out += &table.render(width);
    let room = width.unwrap_or(WIDTH).min(WIDTH);
    for gate in &check.gates {
        if let Some(why) = &gate.why {
            let word = if gate.passed.is_none() { "unknown" } else { "failed" };
            out += &paragraph(&format!("  {} {word}: ", gate.name), why, room);
        }
    }
    out
}

/// How much more it is than before, in percent where that says something.
fn change(gate: &Gate) -> String {
    match (gate.a, gate.b) {
        (Some(Figure::Bytes(a)), Some(Figure::Bytes(b))) if a > 0 => {
            let share = (b as f64 - a as f64) / a as f64 * 100.0;
            match share.abs() < 0.05 {
                true => bytes_change(crate::analysis::diff::delta(a, b)),
                false => format!("{share:+.1} %").replace('-', "−"),
            }
        }
        _ => String::new(),
    }
}
