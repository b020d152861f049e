//! The ranking of sites.

use super::moment_text;
use super::names::{shared_directory, without};
use crate::analysis::ranking::{Attribution, Ranking};
use crate::render::table::{Align, Table};
use crate::units::{bytes, count};

/// What the table of `ranking` shows, in one line.
pub fn heading(ranking: &Ranking) -> String {
    let inclusive = if ranking.attribution == Attribution::Inclusive { ", inclusive" } else { "" };
    format!(
        "device {}: {} live {}, by {}{inclusive}\n",
        ranking.device,
        bytes(ranking.total),
        moment_text(&ranking.at),
        ranking.by
    )
}

/// The first `limit` sites of `ranking`, and one line for the rest, under `title`.
pub fn top(ranking: &Ranking, title: &str, limit: usize, width: Option<usize>) -> String {
    if ranking.rows.is_empty() {
        return "  no block is live\n".to_owned();
    }
    let mut table = Table::new([
        (title, Align::Left),
        ("live", Align::Right),
        ("share", Align::Right),
        ("blocks", Align::Right),
        ("requested", Align::Right),
    ])
    .indent(2);
    let shown = ranking.rows.iter().take(limit);
    let shared = shared_directory(shown.clone().map(|row| row.site.as_str()));
    for row in shown {
        let site = without(&row.site, shared);
        let site = match &row.function {
            Some(function) => format!("{site}  {function}"),
            None => site.to_owned(),
        };
        table.row([site, bytes(row.bytes), percent(row.share), count(row.blocks), bytes(row.requested)]);
    }
    let rest = &ranking.rows[limit.min(ranking.rows.len())..];
    // Inclusive rows overlap, so that a sum of the rest would mean nothing.
    if !rest.is_empty() && ranking.attribution == Attribution::Own {
        let sum: u64 = rest.iter().map(|row| row.bytes).sum();
        let requested: u64 = rest.iter().map(|row| row.requested).sum();
        let blocks: u64 = rest.iter().map(|row| row.blocks).sum();
        let share = rest.iter().map(|row| row.share).sum();
        let name = format!("{} more", rest.len());
        table.row([name, bytes(sum), percent(share), count(blocks), bytes(requested)]);
    }
    table.render(width)
}

/// A share as a percentage with one decimal.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
