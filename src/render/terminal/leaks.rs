//! What grows step by step, and what does not.

use super::names::{shared_directory, without};
use super::verdict::WIDTH;
use super::{moment_text, number_of, paragraph};
use crate::analysis::leaks::{Cause, Compared, Grown, Leak, Leaks};
use crate::history::Moment;
use crate::render::sparkline::sparkline;
use crate::render::table::{Align, Table};
use crate::text::printable;
use crate::units::{bytes, count};

/// Width of the small charts, in characters.
const CHART: usize = 24;
/// Leaking lines shown of one cause.
const LINES: usize = 6;
/// Lines that are no leaks shown.
const NO_LEAKS: usize = 8;
/// Frames of the program shown of a stack.
const FRAMES: usize = 5;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakOptions {
    /// Whole stacks, torch's frames included.
    pub whole_stacks: bool,
    /// Causes shown.
    pub limit: usize,
}

/// All of `leaks`, under the name of the file.
pub fn leaks(name: &str, result: &Leaks, options: LeakOptions, width: Option<usize>) -> String {
    let room = width.unwrap_or(WIDTH);
    let mut out = format!("{}   device {}\n", printable(name), result.device);
    if let Some(steps) = &result.steps {
        let noun = if steps.source.is_program() { "step" } else { "window" };
        let numbers = format!("({} to {})", count(steps.first), count(steps.last));
        let text = format!("{} {numbers}, {}", number_of(steps.count as u64, noun), steps.source);
        out += &paragraph("", &text, room);
    }
    if let Some(why) = &result.unknown {
        out += &paragraph("", &format!("{}.", capitalised(why)), room);
        out += &many_alike(result, width);
        return out;
    }
    if result.leaks.is_empty() {
        out += match result.steps.as_ref().is_some_and(|steps| steps.source.is_program()) {
            true => "\nNo line leaks.\n",
            false => "\nNo line grows. Windows are coarse: record more steps, or mark them, to be sure.\n",
        };
    } else {
        out += &format!("\nLEAKS   {} a step in all{}\n", bytes(result.bytes_per_step), full(result.full_in_steps));
        for cause in result.causes.iter().take(options.limit) {
            out += &one(cause, result, options, width);
        }
        let more = result.causes.len().saturating_sub(options.limit);
        if more > 0 {
            out += &format!("  {more} more: --limit {}\n", result.causes.len());
        }
    }
    if !result.suspects.is_empty() {
        out += "\nSUSPECTS   higher in each step than in the one before, but too few steps for a proof\n";
        out += &lines(result.suspects.iter(), result.suspects.len(), width);
    }
    out + &not_leaks(result, width)
}

/// The heading of live memory in a report of the moment `shown`: growth is looked at at its own moment.
pub(in crate::render) fn live_column(result: &Leaks, shown: &Moment) -> String {
    match &result.steps {
        Some(steps) if steps.at.state != shown.state => format!("live {}", moment_text(&steps.at)),
        _ => "live".to_owned(),
    }
}

/// The causes in a few lines, for a report of the moment `shown`.
pub fn leaks_in_short(result: &Leaks, title: &str, limit: usize, shown: &Moment, width: Option<usize>) -> String {
    let live = live_column(result, shown);
    let columns = [
        (title, Align::Left),
        ("a step", Align::Right),
        ("blocks", Align::Right),
        (live.as_str(), Align::Right),
        ("since", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns).indent(2);
    let shared = shared_directory(result.causes.iter().map(|cause| cause.line.as_str()));
    for cause in result.causes.iter().take(limit) {
        table.row([
            titled(cause, shared),
            bytes(cause.bytes_per_step),
            blocks(cause.blocks_per_step),
            bytes(cause.live_bytes),
            format!("step {}", count(cause.since_step)),
            cause.kind.name().to_owned(),
        ]);
    }
    let rest = &result.causes[limit.min(result.causes.len())..];
    if !rest.is_empty() {
        let bytes_per_step = rest.iter().map(|cause| cause.bytes_per_step).sum();
        table.row([format!("{} more", rest.len()), bytes(bytes_per_step)]);
    }
    let mut out = table.render(Some(width.unwrap_or(WIDTH)));
    if let Some(steps) = &result.steps {
        let text = format!("{}, {}", number_of(steps.count as u64, "step"), steps.source);
        out += &paragraph("  ", &text, width.unwrap_or(WIDTH));
    }
    out
}

fn one(cause: &Cause, result: &Leaks, options: LeakOptions, width: Option<usize>) -> String {
    let room = width.unwrap_or(WIDTH);
    let of_cause = || result.leaks.iter().filter(|leak| cause.sites.contains(&leak.site));
    let Some(first) = of_cause().next() else { return String::new() };
    let mut out = format!("\n{}", paragraph("  ", &titled(cause, 0), room));
    let number = match cause.blocks_per_step > 0.0 {
        true => format!(" in {}", blocks_in_words(cause.blocks_per_step)),
        false => String::new(),
    };
    // What stays of a hole in a block can be a good part of it.
    let asked = match cause.live_bytes > cause.requested + cause.requested / 20 {
        true => format!(", of it {} asked for", bytes(cause.requested)),
        false => String::new(),
    };
    let rate = format!(
        "{}{number} a step since step {} · {} live{asked}",
        bytes(cause.bytes_per_step),
        count(cause.since_step),
        bytes(cause.live_bytes),
    );
    out += &paragraph("    ", &format!("{rate}{}", full(cause.full_in_steps.filter(|&steps| steps > 0))), room);
    let chart = sparkline(&first.levels, CHART.min(first.levels.len()));
    let (from, to) = (first.levels.first().copied().unwrap_or(0), first.levels.last().copied().unwrap_or(0));
    let proof = format!("over {} samples; {}", count(first.samples as u64), by_chance(first.p_value));
    out += &paragraph("    ", &format!("{chart}  {} to {} {proof}", bytes(from), bytes(to)), room);
    out += &paragraph("    probably ", cause.kind.text(), room);
    out += &paragraph("    try      ", cause.kind.remedy(), room);
    let freed = match &first.freed {
        None => "never, as long as the trace lasts".to_owned(),
        Some(freed) => {
            let place =
                freed.site.as_ref().map_or("in a thread without Python stack".to_owned(), |site| format!("at {site}"));
            format!("{} of this line, mostly {place}", number_of(freed.blocks, "other block"))
        }
    };
    out += &paragraph("    freed    ", &freed, room);
    if cause.sites.len() > 1 {
        out += &lines(of_cause(), LINES, width);
    }
    out + &stack(first, options, room)
}

/// Leaking lines, one a row.
fn lines<'a>(leaks: impl Iterator<Item = &'a Leak> + Clone, limit: usize, width: Option<usize>) -> String {
    let columns = [
        ("line", Align::Left),
        ("a step", Align::Right),
        ("blocks", Align::Right),
        ("live", Align::Right),
        ("samples", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns).indent(4);
    let shared = shared_directory(leaks.clone().map(|leak| leak.site.as_str()));
    for leak in leaks.clone().take(limit) {
        let site = without(&leak.site, shared);
        let site = leak.function.as_ref().map_or(site.to_owned(), |function| format!("{site}  {function}"));
        table.row([
            site,
            bytes(leak.bytes_per_step),
            blocks(leak.blocks_per_step),
            bytes(leak.live_bytes),
            count(leak.samples as u64),
            sparkline(&leak.levels, CHART.min(leak.levels.len())),
        ]);
    }
    let rest: Vec<&Leak> = leaks.skip(limit).collect();
    if !rest.is_empty() {
        let sum = |part: fn(&Leak) -> u64| rest.iter().map(|leak| part(leak)).sum::<u64>();
        let live = bytes(sum(|leak| leak.live_bytes));
        table.row([format!("{} more", rest.len()), bytes(sum(|leak| leak.bytes_per_step)), String::new(), live]);
    }
    table.render(Some(width.unwrap_or(WIDTH)))
}

/// The stack, innermost frame last as Python prints it.
fn stack(leak: &Leak, options: LeakOptions, room: usize) -> String {
    let shown: Vec<&String> = match options.whole_stacks {
        true => leak.stack.iter().rev().collect(),
        false => leak.own_stack.iter().take(FRAMES).rev().collect(),
    };
    if shown.is_empty() {
        return String::new();
    }
    let more = if leak.stacks > 1 { format!(", one of {} stacks", count(leak.stacks as u64)) } else { String::new() };
    let mut out = format!("    stack{more}, innermost last:\n");
    for frame in shown {
        out += &paragraph("      ", frame, room);
    }
    out
}

fn not_leaks(result: &Leaks, width: Option<usize>) -> String {
    if result.not_leaks.is_empty() {
        return String::new();
    }
    let mut table = Table::new([("NO LEAKS", Align::Left), ("live", Align::Right), ("why", Align::Prose)]).indent(2);
    let shown = result.not_leaks.iter().take(NO_LEAKS);
    let shared = shared_directory(shown.clone().map(|row| row.site.as_str()));
    for row in shown {
        table.row([without(&row.site, shared).to_owned(), bytes(row.bytes), row.why.clone()]);
    }
    let mut out = format!("\n{}", super::titled(&table.render(Some(width.unwrap_or(WIDTH))), "NO LEAKS"));
    let more = result.not_leaks.len().saturating_sub(NO_LEAKS);
    if more > 0 {
        out += &format!("  {more} more: --json\n");
    }
    out
}

/// What holds many equal blocks, where growth cannot be seen.
fn many_alike(result: &Leaks, width: Option<usize>) -> String {
    if result.many_alike.is_empty() {
        return String::new();
    }
    let mut table = Table::new([("line", Align::Left), ("live", Align::Right), ("", Align::Left)]).indent(2);
    let shown = result.many_alike.iter().take(NO_LEAKS);
    let shared = shared_directory(shown.clone().map(|row| row.site.as_str()));
    for row in shown {
        let blocks = format!("{} of {}", number_of(row.blocks, "block"), bytes(row.block_bytes));
        table.row([without(&row.site, shared).to_owned(), bytes(row.bytes), blocks]);
    }
    let room = width.unwrap_or(WIDTH);
    let mut out =
        String::from("\nMANY BLOCKS OF ONE SIZE, which a leak would leave behind, but layers of a model too\n");
    out += &table.render(Some(room));
    out + &paragraph(
        "  ",
        "To see growth, record several steps (`oomscope howto`); or give several snapshots of one job, oldest first: \
         oomscope leaks A B C",
        room,
    )
}

/// What grew from file to file.
pub fn compared(names: &[&str], result: &Compared, width: Option<usize>) -> String {
    let room = width.unwrap_or(WIDTH);
    let totals: Vec<String> = result.totals.iter().map(|&total| bytes(total)).collect();
    let mut out = format!("device {}: live memory in {}\n", result.device, number_of(names.len() as u64, "snapshot"));
    out += &paragraph("  ", &totals.join(" → "), room);
    if result.unrelated {
        out += "  No line of the first is in the last: these are not snapshots of one job.\n";
    }
    let sections = [
        ("LEAKS, by the same proof as in a trace", &result.leaks),
        ("SUSPECTS, higher in each than in the one before; six snapshots would be a proof", &result.suspects),
    ];
    for (title, grown) in sections {
        if !grown.is_empty() {
            out += &format!("\n{title}\n{}", grown_lines(grown, width));
        }
    }
    if result.leaks.is_empty() && result.suspects.is_empty() {
        out += "\nNo line grew from each snapshot to the next.\n";
    }
    out
}

fn grown_lines(grown: &[Grown], width: Option<usize>) -> String {
    let columns = [
        ("line", Align::Left),
        ("a snapshot", Align::Right),
        ("first", Align::Right),
        ("last", Align::Right),
        ("blocks", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns).indent(2);
    let shown = grown.iter().take(2 * NO_LEAKS);
    let shared = shared_directory(shown.clone().map(|row| row.site.as_str()));
    for row in shown {
        let (first, last) = (row.levels.first().copied().unwrap_or(0), row.levels.last().copied().unwrap_or(0));
        table.row([
            without(&row.site, shared).to_owned(),
            bytes(row.bytes_per_snapshot),
            bytes(first),
            bytes(last),
            count(row.blocks.last().copied().unwrap_or(0)),
            sparkline(&row.levels, CHART.min(row.levels.len())),
        ]);
    }
    table.render(Some(width.unwrap_or(WIDTH)))
}

/// How rare so steady a rise is without a leak.
fn by_chance(p_value: f64) -> String {
    let times = (1.0 / p_value).floor();
    match times < 1e6 {
        true => format!("chance gives so steady a rise once in {} cases", count(times as u64)),
        false => "chance gives so steady a rise in less than one of a million cases".to_owned(),
    }
}

/// The line of a cause, and the lines that leak below it.
fn titled(cause: &Cause, shared: usize) -> String {
    let line = without(&cause.line, shared);
    match (&cause.function, cause.sites.as_slice()) {
        (Some(function), [_]) => format!("{line}  {function}"),
        (_, [only]) if *only != cause.line => format!("{line}, calls {}", without(only, shared)),
        (_, [_]) => line.to_owned(),
        (_, sites) => format!("{line}, calls {} that grow", number_of(sites.len() as u64, "line")),
    }
}

fn full(steps: Option<u64>) -> String {
    match steps {
        None => String::new(),
        Some(0) => ", and the device is full".to_owned(),
        Some(steps) => format!(", full in {}", number_of(steps, "further step")),
    }
}

fn blocks(per_step: f64) -> String {
    if per_step.fract() == 0.0 { format!("{per_step:.0}") } else { format!("{per_step:.2}") }
}

fn blocks_in_words(per_step: f64) -> String {
    format!("{} block{}", blocks(per_step), if per_step == 1.0 { "" } else { "s" })
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
