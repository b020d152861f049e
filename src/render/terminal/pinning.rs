//! Who is in the way of free memory, and what would have to go.

use super::names::{shared_directory, without};
use super::verdict::WIDTH;
use super::{number_of, paragraph};
use crate::analysis::freeing::{Freeing, Holders};
use crate::analysis::pin::Lifetimes;
use crate::analysis::{pin::Pin, pinning::Pinning};
use crate::render::table::{Align, Table};
use crate::units::{bytes, count};

/// The sites that pin most under `title`, at most `limit`; empty when nothing is pinned.
pub fn pins(pinning: &Pinning, title: &str, limit: usize, width: Option<usize>) -> String {
    if pinning.pins.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        (title, Align::Left),
        ("live", Align::Right),
        ("blocks", Align::Right),
        ("keeps from being given back", Align::Right),
        ("", Align::Left),
    ])
    .indent(2);
    let shown = pinning.pins.iter().take(limit);
    let shared = shared_directory(shown.clone().map(|pin| pin.site.as_str()));
    for pin in shown.clone() {
        let site = without(&pin.site, shared);
        let site = match &pin.function {
            Some(function) => format!("{site}  {function}"),
            None => site.to_owned(),
        };
        table.row([site, bytes(pin.own), count(pin.blocks), bytes(pin.pinned), places(pin)]);
    }
    let rest = &pinning.pins[limit.min(pinning.pins.len())..];
    if !rest.is_empty() {
        let sum = |part: fn(&Pin) -> u64| rest.iter().map(part).sum::<u64>();
        table.row([
            format!("{} more", rest.len()),
            bytes(sum(|pin| pin.own)),
            count(sum(|pin| pin.blocks)),
            bytes(sum(|pin| pin.pinned)),
            String::new(),
        ]);
    }
    table.render(width)
}

/// `in 72 segments`
fn places(pin: &Pin) -> String {
    let parts = [(pin.segments, "segment"), (pin.granules, "granule")];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|&(n, noun)| number_of(n, noun));
    format!("in {}", parts.collect::<Vec<_>>().join(" and "))
}

/// The classic cause, with the figures that show it, when one of the first `limit` sites pins much by it; else empty.
pub fn classic_cause(pinning: &Pinning, limit: usize, width: Option<usize>) -> String {
    let shown = pinning.pins.iter().take(limit);
    let shared = shared_directory(shown.clone().map(|pin| pin.site.as_str()));
    let mut known = shown.filter_map(|pin| Some((pin, pin.lifetimes.as_ref()?)));
    match known.next() {
        Some((pin, lifetimes)) if lifetimes.is_classic && pin.pinned >= pinning.pinned / 4 => {
            paragraph("  ", &sentence(pin, lifetimes, shared), width.unwrap_or(WIDTH))
        }
        _ => String::new(),
    }
}

fn sentence(pin: &Pin, lifetimes: &Lifetimes, shared: usize) -> String {
    let site = without(&pin.site, shared);
    let when = match (lifetimes.first_event, lifetimes.last_event) {
        (Some(first), Some(last)) if first < last => {
            format!("{site} allocated them from event {} to {}", count(first.into()), count(last.into()))
        }
        (Some(first), _) => format!("{site} allocated them at event {}", count(first.into())),
        _ => format!("those of {site} were there before the recording"),
    };
    format!(
        "The classic cause: small blocks that live long (median {}, {}) among large ones that come and go (median {}, {}); \
         {when}.",
        bytes(lifetimes.median_bytes),
        number_of(lifetimes.median_age.into(), "event"),
        bytes(lifetimes.neighbours_median_bytes.unwrap_or(0)),
        number_of(lifetimes.neighbours_median_life.unwrap_or(0).into(), "event"),
    )
}

/// The sites that would have to go.
pub fn freeing(freeing: &Freeing, width: Option<usize>) -> String {
    let mut out = String::new();
    if freeing.releasable > 0 {
        out += &format!("  {} can be given back at once.\n", bytes(freeing.releasable));
    }
    let mut table =
        Table::new([("", Align::Right), ("site", Align::Left), ("live", Align::Right), ("frees", Align::Right)])
            .indent(2);
    let shared = shared_directory(freeing.steps.iter().flat_map(|step| &step.sites).map(String::as_str));
    for (at, step) in freeing.steps.iter().enumerate() {
        let sites: Vec<&str> = step.sites.iter().map(|site| without(site, shared)).collect();
        table.row([format!("{}", at + 1), sites.join(" and "), bytes(step.own), bytes(step.freed)]);
    }
    if !table.is_empty() {
        out += &table.render(width);
    }
    out += &match freeing.enough {
        true if freeing.steps.is_empty() => format!("  That is enough for {}.\n", bytes(freeing.wanted)),
        true => format!(
            "  Then {} could be given back, {} were asked for. Few lines, found greedily; perhaps not the fewest.\n",
            bytes(freeing.freed),
            bytes(freeing.wanted)
        ),
        false => format!(
            "  That is all: {} of the {} asked for. Private pools give nothing back as long as they live.\n",
            bytes(freeing.freed),
            bytes(freeing.wanted)
        ),
    };
    out
}

/// What is live in one segment.
pub fn holders(held: &Holders, limit: usize, width: Option<usize>) -> String {
    let mut out = format!("  {}, of it {} free", bytes(held.total), bytes(held.free));
    if held.sites.is_empty() {
        return out + "; nothing is live in it\n";
    }
    out += "; all of these must go before it can be given back:\n";
    let mut table = Table::new([("site", Align::Left), ("live", Align::Right), ("blocks", Align::Right)]).indent(2);
    let shared = shared_directory(held.sites.iter().map(|site| site.site.as_str()));
    for site in held.sites.iter().take(limit) {
        table.row([without(&site.site, shared).to_owned(), bytes(site.bytes), count(site.blocks)]);
    }
    out += &table.render(width);
    out += &format!("  {}, the smallest first:\n", number_of(held.blocks as u64, "block"));
    let mut table = Table::new([
        ("address", Align::Right),
        ("size", Align::Right),
        ("allocated at", Align::Right),
        ("site", Align::Left),
    ])
    .indent(2);
    for block in held.smallest.iter().take(limit) {
        let event =
            block.alloc_event.map_or_else(|| "before".to_owned(), |event| format!("event {}", count(event.into())));
        let pending = if block.pending { "  (pending)" } else { "" };
        table.row([
            format!("{:#x}", block.address),
            bytes(block.bytes),
            event,
            format!("{}{pending}", without(&block.site, shared)),
        ]);
    }
    out += &table.render(width);
    if held.sites.len() > limit {
        out += &format!("  {} more sites: --limit {}\n", held.sites.len() - limit, held.sites.len());
    }
    out
}
