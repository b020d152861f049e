//! The ranking of sites.

use super::figures::{figure, left_out, percent, what};
use super::names::{shared_directory, without};
use super::paragraph;
use super::stacks::stacks;
use crate::analysis::ranking::{Attribution, Ranking, Row, Unit};
use crate::render::table::{Align, Table, WIDEST};
use crate::text::{base_name, printable, shorten};
use crate::units::{bytes, count};

/// What the table of `ranking` shows, in one line; and what is to be known about it.
pub fn heading(ranking: &Ranking, width: Option<usize>) -> String {
    let inclusive = if ranking.attribution == Attribution::Inclusive { ", inclusive" } else { "" };
    let mut text = format!(
        "device {}: {} {}, by {}{inclusive}{}\n",
        ranking.device,
        figure(ranking.total, ranking.unit),
        what(ranking.metric, ranking.unit, &ranking.at, ranking.window),
        ranking.by,
        left_out(ranking.left_out, ranking.unit),
    );
    if let Some(note) = &ranking.note {
        text += &paragraph("  ", note, width.unwrap_or(WIDEST));
    }
    text
}

/// [`figure`] for a column whose heading or title has the unit.
fn short(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Allocations | Unit::Events => count(value),
        _ => figure(value, unit),
    }
}

/// The first `limit` sites of `ranking`, and one line for the rest, under `title`.
pub fn top(ranking: &Ranking, title: &str, limit: usize, width: Option<usize>) -> String {
    if ranking.rows.is_empty() {
        return match ranking.metric {
            "live" => "  no block is live\n".to_owned(),
            _ => "  nothing\n".to_owned(),
        };
    }
    let is_bytes = ranking.unit == Unit::Bytes;
    let mut columns =
        vec![(title, Align::Left), (ranking.metric, Align::Right), ("share", Align::Right), ("blocks", Align::Right)];
    columns.push(if is_bytes { ("requested", Align::Right) } else { ("bytes", Align::Right) });
    let mut table = Table::new(columns).indent(2);
    let shown = &ranking.rows[..limit.min(ranking.rows.len())];
    let rest = Rest::new(ranking, limit);
    // Only sites are paths: the names of regions and pools may have slashes too.
    let is_path = matches!(ranking.by, "line" | "function" | "file");
    let shared = if is_path { shared_directory(shown.iter().map(|row| row.site.as_str())) } else { 0 };
    let all = shown.iter().map(|row| row.share).chain(rest.as_ref().map(|rest| rest.share));
    // Inclusive rows overlap: nothing sums to 100.
    let shares = match ranking.attribution {
        Attribution::Own => percents(&all.collect::<Vec<_>>()),
        Attribution::Inclusive => all.map(percent).collect(),
    };
    let amount = |row_bytes, requested| bytes(if is_bytes { requested } else { row_bytes });
    for (row, share) in shown.iter().zip(&shares) {
        let cells = [short(row.value, ranking.unit), share.clone(), count(row.blocks)];
        let cells = std::iter::once(label(row, shared)).chain(cells);
        table.row(cells.chain([amount(row.bytes, row.requested)]));
        for why in &row.why {
            let cells =
                [format!("    {}", why.reason), short(why.value, ranking.unit), String::new(), count(why.blocks)];
            table.row(cells);
        }
    }
    if let (Some(rest), Some(share)) = (rest, shares.last()) {
        let name = format!("{} more", ranking.rows.len() - limit);
        let cells = [name, short(rest.value, ranking.unit), share.clone(), count(rest.blocks)];
        table.row(cells.into_iter().chain([amount(rest.bytes, rest.requested)]));
    }
    let mut text = table.render(width);
    for row in shown.iter().filter(|row| !row.stacks.is_empty()) {
        let name = printable(&label(row, shared)).into_owned();
        let name = shorten(&name, width.unwrap_or(WIDEST));
        text += &format!("\n{name}\n{}", stacks(&row.stacks, ranking.unit, width));
    }
    text
}

fn label(row: &Row, shared: usize) -> String {
    if row.stack.is_some() {
        // Directories and C++ frames would fill the screen.
        let is_python = |line: &&str| line.contains(".py:");
        let has_python = row.site.split(" < ").any(|line| is_python(&line));
        let lines = row.site.split(" < ").filter(|line| !has_python || is_python(line));
        return lines.map(base_name).collect::<Vec<_>>().join(" < ");
    }
    let site = without(&row.site, shared);
    match &row.function {
        Some(function) => format!("{site}  {function}"),
        None => site.to_owned(),
    }
}

/// The sum of the rows that are not shown.
struct Rest {
    value: u64,
    bytes: u64,
    requested: u64,
    blocks: u64,
    share: f64,
}

impl Rest {
    fn new(ranking: &Ranking, limit: usize) -> Option<Self> {
        let rows = &ranking.rows[limit.min(ranking.rows.len())..];
        if rows.is_empty() || ranking.attribution == Attribution::Inclusive {
            return None;
        }
        Some(Self {
            value: rows.iter().map(|row| row.value).sum(),
            bytes: rows.iter().map(|row| row.bytes).sum(),
            requested: rows.iter().map(|row| row.requested).sum(),
            blocks: rows.iter().map(|row| row.blocks).sum(),
            share: rows.iter().map(|row| row.share).sum(),
        })
    }
}

/// Shares as percentages with one decimal that sum to what the shares sum to: those cut most by rounding down are
/// rounded up.
pub(in crate::render) fn percents(shares: &[f64]) -> Vec<String> {
    let exact: Vec<f64> = shares.iter().map(|share| share * 1_000.0).collect();
    let mut tenths: Vec<i64> = exact.iter().map(|value| value.floor() as i64).collect();
    let sum = exact.iter().sum::<f64>().round() as i64;
    let missing = (sum - tenths.iter().sum::<i64>()).max(0) as usize;
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&a, &b| (exact[b] - exact[b].floor()).total_cmp(&(exact[a] - exact[a].floor())).then(a.cmp(&b)));
    for &at in order.iter().take(missing) {
        tenths[at] += 1;
    }
    tenths.into_iter().map(|tenth| format!("{}.{} %", tenth / 10, tenth % 10)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_sum_to_a_hundred() {
        assert_eq!(percents(&[1.0 / 3.0; 3]), ["33.4 %", "33.3 %", "33.3 %"]);
        assert_eq!(percents(&[0.9996, 0.0004]), ["100.0 %", "0.0 %"]);
        assert_eq!(percents(&[]), Vec::<String>::new());
    }
}
