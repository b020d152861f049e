//! Many ranks as text.

use super::names::{shared_directory, without};
use super::{number_of, paragraph};
use crate::analysis::fleet::{Difference, Fleet, Group, RankRow, SharedLeak};
use crate::render::sparkline::sparkline_to;
use crate::render::table::{Align, Table};
use crate::text::printable;
use crate::units::{bytes, count};

/// Width of text where the terminal's is not known.
const WIDTH: usize = 118;
/// Width of a rank's memory over time.
const OVER_TIME: usize = 12;
/// Leaks that are told.
const LEAKS: usize = 4;
/// Odd ranks that are told.
const ODD: usize = 5;
/// An imbalance smaller than this part of the median is not worth a line: 1 / 20.
const EVEN: u64 = 20;

/// All of `fleet`, at most `limit` ranks in the table; `errors` files could not be read.
pub fn fleet(fleet: &Fleet, notes: &[String], errors: usize, limit: usize, width: Option<usize>) -> String {
    let names = Names::new(fleet);
    let wide = width.unwrap_or(WIDTH);
    let mut out = format!(
        "{} · {} of code · {} failed\n",
        number_of(fleet.ranks.len() as u64, "rank"),
        number_of(fleet.groups.len() as u64, "group"),
        count(fleet.job.failed.len() as u64)
    );
    if errors > 0 {
        out += &format!("{} could not be read and are missing below\n", number_of(errors as u64, "file"));
    }
    for note in notes {
        out += &paragraph("note  ", note, wide);
    }
    out += &format!("\n{}", paragraph("VERDICT  ", &fleet.job.headline, wide));
    for statement in statements(fleet) {
        out += &paragraph("  also   ", &statement, wide);
    }
    out += &format!("\n{}", groups(&fleet.groups, &names, width));
    out += &format!("\n{}", ranks(fleet, limit, &names, width));
    out
}

/// What is to be said beside the verdict: leaks, odd ranks, imbalance.
pub(in crate::render) fn statements(fleet: &Fleet) -> Vec<String> {
    let names = Names::new(fleet);
    let mut found: Vec<String> = fleet.leaks.iter().take(LEAKS).map(|leak| growing(leak, fleet, &names)).collect();
    let odd_ranks = fleet.ranks.iter().filter(|row| row.outlier.is_some() && row.rank.ooms.is_empty());
    let number = odd_ranks.clone().count();
    found.extend(odd_ranks.take(ODD).map(|row| odd(row, &names)));
    if number > ODD {
        found.push(format!("{} more ranks are odd: they are marked with ! below.", number - ODD));
    }
    found.extend(uneven(fleet, &names));
    found
}

/// Names of sites without the directories that all share.
struct Names(usize);

impl Names {
    fn new(fleet: &Fleet) -> Self {
        let tops = fleet.ranks.iter().flat_map(|row| &row.rank.top);
        Self(shared_directory(tops.map(|site| site.site.as_str())))
    }

    fn site<'a>(&self, site: &'a str) -> &'a str {
        without(site, self.0)
    }

    /// `pretrain.py:55 log_activations (16.5 MiB, there 0 B)`, of several lines.
    fn differences(&self, sites: &[Difference]) -> String {
        let words = sites.iter().map(|difference| {
            let function = difference.function.as_deref().map_or_else(String::new, |function| format!(" {function}"));
            format!(
                "{}{function} ({}, there {})",
                self.site(&difference.site),
                bytes(difference.bytes),
                bytes(difference.elsewhere)
            )
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

fn odd(row: &RankRow, names: &Names) -> String {
    let Some(outlier) = &row.outlier else { return String::new() };
    let (what, more) = (
        if outlier.metric == "peak" { "peaks at" } else { "reserves" },
        if outlier.bytes > outlier.median { "more" } else { "less" },
    );
    let mut text = format!(
        "Rank {} {what} {}, {} {more} than the median of group {}",
        row.rank.rank,
        bytes(outlier.bytes),
        bytes(outlier.bytes.abs_diff(outlier.median)),
        row.group
    );
    if !outlier.sites.is_empty() {
        text += &format!(": {}", names.differences(&outlier.sites));
    }
    text + "."
}

fn growing(leak: &SharedLeak, fleet: &Fleet, names: &Names) -> String {
    let function = leak.function.as_deref().map_or_else(String::new, |function| format!(" {function}"));
    let on = match (leak.ranks.as_slice(), leak.everywhere) {
        ([only], _) => format!("on rank {only} only"),
        (ranks, _) if ranks.len() == fleet.ranks.len() => "on every rank".to_owned(),
        (ranks, true) => format!("on ranks {}, all that allocate there", spans(ranks)),
        (ranks, false) => format!("on ranks {}, not on others that allocate there", spans(ranks)),
    };
    format!(
        "{}{function} grows {} a step {on}, {} live: {}.",
        names.site(&leak.site),
        bytes(leak.bytes_per_step),
        bytes(leak.live_bytes),
        leak.kind.replace('_', " ")
    )
}

fn uneven(fleet: &Fleet, names: &Names) -> Option<String> {
    let imbalance = fleet.imbalance.as_ref()?;
    if imbalance.above() <= imbalance.median / EVEN {
        return None;
    }
    let row = fleet.ranks.iter().find(|row| row.rank.rank == imbalance.rank)?;
    let group = fleet.groups.iter().find(|group| group.name == row.group)?;
    let who = match row.outlier.is_none() && group.ranks.len() > 1 && fleet.groups.len() > 1 {
        true => format!("group {} (ranks {}) peaks", group.name, spans(&group.ranks)),
        false => format!("rank {} peaks", imbalance.rank),
    };
    let mut text = format!(
        "Memory is shared unevenly: {who} at {}, {} above the median rank",
        bytes(imbalance.peak),
        bytes(imbalance.above())
    );
    if !imbalance.sites.is_empty() {
        text += &format!(": {}", names.differences(&imbalance.sites));
    }
    Some(text + ".")
}

fn groups(groups: &[Group], names: &Names, width: Option<usize>) -> String {
    let has_own = groups.iter().any(|group| group.sites.iter().any(|site| site.only_here));
    let mut table = Table::new([
        ("GROUP", Align::Left),
        ("ranks", Align::Left),
        ("peak live", Align::Right),
        ("peak reserved", Align::Right),
        (if has_own { "lines that only it has" } else { "lines that hold most" }, Align::Left),
    ]);
    for group in groups {
        let sites = group.sites.iter().filter(|site| site.only_here == has_own);
        let sites = sites.map(|site| format!("{} {}", names.site(&site.held.site), bytes(site.held.bytes)));
        table.row([
            group.name.clone(),
            spans(&group.ranks),
            bytes(group.peak),
            bytes(group.reserved),
            sites.collect::<Vec<_>>().join(", "),
        ]);
    }
    table.render(Some(width.unwrap_or(WIDTH)))
}

fn ranks(fleet: &Fleet, limit: usize, names: &Names, width: Option<usize>) -> String {
    let has_nodes = fleet.ranks.iter().any(|row| row.rank.node.is_some());
    let top = fleet.ranks.iter().map(|row| row.rank.peak_live()).max().unwrap_or(0);
    let mut columns = vec![("RANK", Align::Right)];
    if has_nodes {
        columns.push(("node", Align::Left));
    }
    columns.extend([
        ("", Align::Left),
        ("device", Align::Right),
        ("allocated", Align::Right),
        ("peak live", Align::Right),
        ("reserved", Align::Right),
        ("releasable", Align::Right),
        ("stranded", Align::Right),
        // Not to be shortened, as text is.
        ("over time", Align::Right),
    ]);
    let has_ooms = !fleet.job.failed.is_empty();
    if has_ooms {
        columns.push(("OOM", Align::Left));
    }
    columns.push(("top line", Align::Left));
    let mut table = Table::new(columns);
    let shown = fleet.noteworthy(limit);
    for &at in &shown {
        let row = &fleet.ranks[at];
        let rank = &row.rank;
        let mut cells = vec![rank.rank.to_string()];
        if has_nodes {
            cells.push(rank.node.clone().unwrap_or_default());
        }
        let known = |value: Option<u64>| value.map_or_else(|| "?".to_owned(), bytes);
        let mark = if row.outlier.is_some() && rank.ooms.is_empty() { "!" } else { "" };
        let line = rank.top.first().map(|site| names.site(&site.site).to_owned());
        cells.extend([
            format!("{}{mark}", row.group),
            rank.device.to_string(),
            bytes(rank.totals.allocated),
            bytes(rank.peak_live()),
            bytes(rank.totals.reserved),
            known(rank.totals.releasable),
            known(rank.totals.stranded),
            sparkline_to(&rank.live_over_time, OVER_TIME, top),
        ]);
        if has_ooms {
            let failed = fleet.failure_of(row);
            cells.push(failed.map_or_else(String::new, |failed| failed.cause().to_owned()));
        }
        cells.push(line.unwrap_or_default());
        table.row(cells);
    }
    let mut out = table.render(Some(width.unwrap_or(WIDTH)));
    out += "each rank at its OOM, else at its peak; releasable is idle cache, stranded is free next to live blocks\n";
    if shown.len() < fleet.ranks.len() {
        out += &format!("{} more ranks: --limit shows more, --json all\n", fleet.ranks.len() - shown.len());
    }
    out
}

/// Ranks as spans: `0–7, 12`.
pub(in crate::render) fn spans(ranks: &[u32]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < ranks.len() {
        let mut end = at;
        while end + 1 < ranks.len() && ranks[end + 1] == ranks[end] + 1 {
            end += 1;
        }
        if !text.is_empty() {
            text += ", ";
        }
        text += &match end - at {
            0 => ranks[at].to_string(),
            1 => format!("{}, {}", ranks[at], ranks[end]),
            _ => format!("{}–{}", ranks[at], ranks[end]),
        };
        at = end + 1;
    }
    printable(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_as_spans() {
        assert_eq!(spans(&[0, 1, 2, 3, 7, 9, 10]), "0–3, 7, 9, 10");
        assert_eq!(spans(&[]), "");
    }
}
