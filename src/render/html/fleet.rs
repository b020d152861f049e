//! A job of many ranks as a page.

use maud::{Markup, PreEscaped, html};

use super::cells::{Cell, Column, counted, known, name, number, shown, size, table, text};
use super::{data, document};
use crate::analysis::fleet::{Fleet, RankRow};
use crate::render::fleet::{heat_map, timelines};
use crate::render::terminal::fleet::{spans, statements};
use crate::render::terminal::names::{shared_directory, without};
use crate::units::count;

/// Ranks in the table.
const RANKS: usize = 1_000;

/// What a page of a job shows.
pub struct FleetInput<'a> {
    /// The job, or what was read.
    pub name: &'a str,
    /// The ranks, compared.
    pub fleet: &'a Fleet,
    /// How ranks were found, and what was left out.
    pub notes: &'a [String],
    /// Files that could not be read, with the reason.
    pub errors: &'a [(String, String)],
}

/// The page for `input`.
pub fn fleet_page(input: &FleetInput) -> String {
    let fleet = input.fleet;
    let title = format!("{} – oomscope", shown(input.name));
    let mut also = statements(fleet);
    let body = html! {
        header {
            div.brand { "oomscope" }
            h1 title=(shown(input.name)) { (shown(input.name)) }
            p.facts {
                (count(fleet.ranks.len() as u64)) " ranks · " (fleet.groups.len()) " groups of code · " (fleet.job.failed.len()) " failed"
            }
        }
        main #main {
            @for note in input.notes { p.note { (shown(note)) } }
            @for (file, error) in input.errors { p.alert role="note" { code { (name(file)) } ": " (shown(error)) } }
            section.card {
                div.verdict {
                    p.kicker { "Verdict" }
                    p.evidence { (shown(&fleet.job.headline)) }
                    ul.also { @for statement in also.drain(..) { li { b { "also " } (shown(&statement)) } } }
                }
            }
            section.card { h2 { "Groups of code" } (groups(fleet)) }
            section.card { h2 { "Who holds the memory at the peaks" } div.picture { (PreEscaped(heat_map(fleet))) } }
            section.card { h2 { "Memory over time" } div.picture { (PreEscaped(timelines(fleet))) } }
            section.card { h2 { "Ranks" } (ranks(fleet)) }
        }
    };
    document(&title, body, "the files", &data::Data::new(&[], &[]))
}

fn groups(fleet: &Fleet) -> Markup {
    const COLUMNS: [Column; 5] = [
        text("group"),
        text("ranks"),
        number("peak live", "median of the ranks"),
        number("peak reserved", "median of the ranks"),
        text("lines that hold most, first those that only it has"),
    ];
    let rows = fleet.groups.iter().map(|group| {
        let sites = group.sites.iter().map(|site| site.held.site.as_str());
        let shared = shared_directory(sites);
        let lines = html! {
            @for (at, site) in group.sites.iter().enumerate() {
                @if at > 0 { ", " }
                code title=(name(&site.held.site)) { (name(without(&site.held.site, shared))) }
                " " (crate::units::bytes(site.held.bytes))
                @if site.only_here { " (only here)" }
            }
        };
        let ranks = spans(&group.ranks);
        vec![group.name.clone().into(), ranks.into(), size(group.peak), size(group.reserved), lines.into()]
    });
    table("groups", "Ranks whose lines allocate the same shares of bytes", &COLUMNS, rows.collect(), 0, "")
}

fn ranks(fleet: &Fleet) -> Markup {
    const COLUMNS: [Column; 12] = [
        number("rank", ""),
        text("node"),
        text("group"),
        number("device", ""),
        number("allocated", "at the failure, else at the peak, else at the end"),
        number("peak live", "over the whole trace"),
        number("reserved", "at the same moment"),
        number("releasable", "idle cache"),
        number("stranded", "free, but next to live blocks"),
        number("largest hole", ""),
        text("failure"),
        text("top line"),
    ];
    let shown_ranks = fleet.noteworthy(RANKS);
    let tops = shown_ranks.iter().filter_map(|&at| fleet.ranks[at].rank.top.first());
    let shared = shared_directory(tops.map(|site| site.site.as_str()));
    let rows = shown_ranks.iter().map(|&at| row(fleet, &fleet.ranks[at], shared)).collect();
    let left_out = fleet.ranks.len() - shown_ranks.len();
    table("ranks", "The ranks, odd ones marked", &COLUMNS, rows, left_out, "fleet.json has all")
}

fn row(fleet: &Fleet, row: &RankRow, shared: usize) -> Vec<Cell> {
    let rank = &row.rank;
    let failed = fleet.failure_of(row);
    let odd = if row.outlier.is_some() && failed.is_none() { ", odd" } else { "" };
    let top = rank.top.first().map(|site| super::cells::site(&site.site, site.function.as_deref(), shared, None));
    vec![
        counted(rank.rank.into()),
        rank.node.as_deref().map(shown).unwrap_or_default().into(),
        format!("{}{odd}", row.group).into(),
        rank.device.to_string().into(),
        size(rank.totals.allocated),
        size(rank.peak_live()),
        size(rank.totals.reserved),
        known(rank.totals.releasable),
        known(rank.totals.stranded),
        known(rank.totals.largest_free),
        failed.map_or("", |failed| failed.cause()).into(),
        top.unwrap_or_default().into(),
    ]
}
