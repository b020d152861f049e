//! What other settings would have done.

use super::{number_of, paragraph};
use crate::allocator::WorkloadRun;
use crate::analysis::whatif::{Figures, Scenario, WhatIf};
use crate::render::table::{Align, Table, WIDEST};
use crate::text::printable;
use crate::units::{bytes, count};

/// Lines of settings that win, in a report.
const WINNERS: usize = 3;

/// All of `whatif`; `name` is the file's, `torch` the releases that fit it.
pub fn whatif(name: &str, torch: &str, result: &WhatIf, width: Option<usize>) -> String {
    let facts = format!("{torch}, simulated as {} · device {} · {}", result.torch, result.device, limit(result));
    let mut out = paragraph(&format!("{}   ", printable(name)), &facts, width.unwrap_or(WIDEST));
    out += "\nAS RECORDED\n";
    let room = width.unwrap_or(WIDEST);
    out += &fidelity(result, room);
    out += &paragraph("  ", &result.baseline.advice, room);
    out += &format!("\nUNDER OTHER SETTINGS, {}\n", until(result));
    out += &table(result, width);
    if !result.notes.is_empty() {
        out += "\nNOTES\n";
    }
    for note in &result.notes {
        out += &paragraph("  ", note, room);
    }
    if result.baseline.min_capacity.is_some() {
        const NEEDS: &str = "the smallest of the capacities tried; a smaller one that was not tried may do as well";
        out += &paragraph("  needs: ", NEEDS, room);
    }
    out
}

fn limit(result: &WhatIf) -> String {
    match (result.capacity, result.limit) {
        (_, Some(limit)) => format!("limit {}", bytes(limit)),
        (Some(capacity), None) => format!("capacity {}", bytes(capacity)),
        (None, None) => "capacity unknown".to_owned(),
    }
}

/// Where the replays end.
pub(in crate::render) fn until(result: &WhatIf) -> String {
    match result.until_oom {
        true => format!("up to the failed request, event {}", count(result.until.into())),
        false => format!("up to the end, event {}", count(result.until.into())),
    }
}

fn fidelity(result: &WhatIf, room: usize) -> String {
    let Some(first) = &result.baseline.first_divergence else {
        return "  exact: every segment, address and block comes out as recorded\n".to_owned();
    };
    let event = count(first.event.into());
    let differs = format!("not exact from event {event} on: recorded {}, simulated {}", first.expected, first.got);
    let so = match result.trusted {
        true => "up to the compared event it is exact, so that the figures below hold",
        false => "so the figures below are estimates, and nothing is advised",
    };
    let cause = format!("likely because {}", first.likely_cause);
    [differs.as_str(), cause.as_str(), so].into_iter().map(|line| paragraph("  ", line, room)).collect()
}

fn table(result: &WhatIf, width: Option<usize>) -> String {
    let searched = result.baseline.min_capacity.is_some();
    let mut columns = vec![
        ("setting", Align::Left),
        ("peak", Align::Right),
        ("reserved", Align::Right),
        ("free", Align::Right),
        ("cudaMalloc", Align::Right),
        ("map", Align::Right),
        ("flushes", Align::Right),
    ];
    if searched {
        columns.push(("needs", Align::Right));
    }
    columns.push(("", Align::Prose));
    let mut table = Table::new(columns).indent(2);
    let name = match result.baseline.settings.as_str() {
        "" => "(as recorded)".to_owned(),
        settings => format!("(as recorded) {settings}"),
    };
    for (name, scenario) in std::iter::once((name, &result.baseline))
        .chain(result.scenarios.iter().map(|scenario| (scenario.settings.clone(), scenario)))
    {
        let figures = &scenario.figures;
        let mut cells = vec![
            name,
            range(scenario, |figures| figures.peak_reserved),
            range(scenario, |figures| figures.end.reserved),
            range(scenario, |figures| figures.end.free.unwrap_or(0)),
            count(figures.segment_allocs),
            count(figures.segment_maps),
            count(figures.flushes),
        ];
        if searched {
            cells.push(scenario.min_capacity.map_or_else(|| "unknown".to_owned(), bytes));
        }
        cells.push(scenario.advice.clone());
        table.row(cells);
    }
    table.render(width)
}

/// A figure, or both ends where it depends on the device's addresses.
fn range(scenario: &Scenario, figure: impl Fn(&Figures) -> u64) -> String {
    let one = figure(&scenario.figures);
    // What has no effect needs no second opinion.
    let other = scenario.other_addresses.as_ref().filter(|_| scenario.refusal.is_none()).map_or(one, figure);
    let (low, high) = (bytes(one.min(other)), bytes(one.max(other)));
    if low == high { low } else { format!("{low}–{high}") }
}

/// The section of a report: settings that can be advised, and why the others cannot.
pub fn winners(result: &WhatIf, width: Option<usize>) -> String {
    if !result.trusted {
        let first = result.baseline.first_divergence.as_ref();
        let event = first.map_or(0, |first| first.event);
        let cause = first.map_or("", |first| first.likely_cause.as_str());
        let event = count(event.into());
        let why = format!("the recorded settings do not reproduce the record from event {event} on; {cause}");
        return paragraph("  not tried: ", &why, width.unwrap_or(WIDEST));
    }
    let mut table = Table::new([("", Align::Left), ("", Align::Left), ("", Align::Prose)]).indent(2);
    let mut won: Vec<&Scenario> = result.scenarios.iter().filter(|scenario| scenario.advised).collect();
    // Expandable segments cost nothing else, so they stay first; the others follow by what they reserve.
    won.sort_by_key(|scenario| (!scenario.settings.contains("expandable"), scenario.figures.end.reserved));
    for scenario in won.iter().take(WINNERS) {
        table.row(["", scenario.settings.as_str(), scenario.advice.as_str()]);
    }
    let expandable = result.scenarios.iter().find(|scenario| scenario.settings == "expandable_segments:True");
    if let Some(scenario) = expandable.filter(|scenario| !scenario.advised) {
        table.row(["not", scenario.settings.as_str(), scenario.advice.as_str()]);
    }
    let garbage = result.scenarios.iter().find(|scenario| scenario.settings.starts_with("garbage"));
    // What could have no effect here is for `oomscope whatif` to tell.
    if let Some(scenario) = garbage.filter(|scenario| !scenario.advised && scenario.refusal.is_none()) {
        table.row(["not", "garbage_collection_threshold", scenario.advice.as_str()]);
    }
    let mut out = table.render(width);
    if !won.is_empty() && result.until_oom {
        const REPLAYED: &str = "replayed exactly up to the failed request; what would have followed is not in the file";
        out += &paragraph("  ", REPLAYED, width.unwrap_or(WIDEST));
    }
    out
}

/// What a list of requests came to.
pub fn requests(run: &WorkloadRun, operations: u64) -> String {
    let simulator = run.simulator();
    let stats = simulator.stats();
    let mut out = format!("{}\n", number_of(operations, "operation"));
    out += &format!(
        "  reserved {} (peak {}), allocated {} (peak {})\n",
        bytes(stats.reserved_bytes.all.current),
        bytes(stats.reserved_bytes.all.peak),
        bytes(stats.allocated_bytes.all.current),
        bytes(stats.allocated_bytes.all.peak)
    );
    out += &format!(
        "  {} from the device, {} back, {}\n",
        number_of(stats.num_device_alloc, "allocation"),
        count(stats.num_device_free),
        number_of(stats.num_sync_all_streams, "flush").replace("flushs", "flushes")
    );
    out += &format!("  {} failed\n", number_of(stats.num_ooms, "request"));
    if let Some(first) = run.failed().first() {
        out += &format!("  the first is operation {}: {}\n", count(first.op), printable(&first.text));
    }
    out
}
