//! A job of many ranks as Markdown for a ticket or a chat.

use crate::analysis::fleet::Fleet;
use crate::render::markdown::{code, plain};
use crate::render::terminal::fleet::{spans, statements};
use crate::units::{bytes, count};

/// Ranks in the table: what is odd or failed comes first.
const RANKS: usize = 16;
const GROUPS: usize = 8;

/// All of `fleet`, at most 60 lines.
pub fn markdown(name: &str, fleet: &Fleet, notes: &[String], errors: usize) -> String {
    let mut lines = vec![
        format!("### {}", code(name)),
        String::new(),
        format!(
            "{} ranks · {} groups of code · {} failed",
            count(fleet.ranks.len() as u64),
            fleet.groups.len(),
            fleet.job.failed.len()
        ),
        String::new(),
        format!("**Verdict.** {}", plain(&fleet.job.headline)),
        String::new(),
    ];
    lines.extend(statements(fleet).iter().map(|statement| format!("- {}", plain(statement))));
    lines.extend(notes.iter().map(|note| format!("- note: {}", plain(note))));
    if errors > 0 {
        lines.push(format!("- {errors} files could not be read"));
    }
    lines.extend([
        "".to_owned(),
        "| group | ranks | peak live | peak reserved |".to_owned(),
        "|---|---|--:|--:|".to_owned(),
    ]);
    for group in fleet.groups.iter().take(GROUPS) {
        let ranks = plain(&spans(&group.ranks));
        lines.push(format!("| {} | {ranks} | {} | {} |", group.name, bytes(group.peak), bytes(group.reserved)));
    }
    let heading = "| rank | group | peak live | reserved | failure | top line |";
    lines.extend(["".to_owned(), heading.to_owned(), "|--:|---|--:|--:|---|---|".to_owned()]);
    let shown = fleet.noteworthy(RANKS);
    for &at in &shown {
        let row = &fleet.ranks[at];
        let rank = &row.rank;
        let failed = fleet.failure_of(row);
        lines.push(format!(
            "| {} | {}{} | {} | {} | {} | {} |",
            rank.rank,
            row.group,
            if row.outlier.is_some() && failed.is_none() { " (odd)" } else { "" },
            bytes(rank.peak_live()),
            bytes(rank.totals.reserved),
            failed.map_or("", |failed| failed.cause()),
            rank.top.first().map_or_else(String::new, |site| code(&site.site))
        ));
    }
    if shown.len() < fleet.ranks.len() {
        lines.extend([String::new(), format!("{} more ranks", count((fleet.ranks.len() - shown.len()) as u64))]);
    }
    lines.join("\n") + "\n"
}
