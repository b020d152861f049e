//! What still fits, what did not, and the sizes of free blocks.

use super::names::{shared_directory, without};
use super::pool_text;
use super::{number_of, paragraph};
use crate::analysis::failed_fits::{FailedFit, FailedFits};
use crate::analysis::fit::{Basis, Fit, How, OomFit};
use crate::analysis::holes::Holes;
use crate::analysis::segments::Segments;
use crate::render::sparkline::sparkline;
use crate::render::table::{Align, Table, WIDEST};
use crate::units::{bytes, bytes_short, count};

/// The requests that were tried; empty when none was.
pub fn fits(result: &Segments, limit: usize, width: Option<usize>) -> String {
    if result.fit.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new([("request", Align::Right), ("pool", Align::Left), ("stream", Align::Left), ("", Align::Prose)])
            .indent(2);
    for fit in result.fit.iter().take(limit) {
        table.row([bytes(fit.request), pool_text(fit.kind, fit.pool.as_deref()), fit.stream.clone(), answer(fit)]);
    }
    let mut out = table.render(width);
    if result.fit.len() > limit {
        out += &format!("  {} more: --limit {}\n", result.fit.len() - limit, result.fit.len());
    }
    if let Some(room) = result.room.filter(|_| result.fit.iter().any(|fit| fit.how != How::Hole)) {
        out += &match room.basis {
            Basis::Measured => format!("  The device had {} left, as PyTorch measured it.\n", bytes(room.bytes)),
            Basis::Computed => {
                format!("  The device had {} left: the capacity less what was reserved.\n", bytes(room.bytes))
            }
            Basis::AtMost => format!(
                "  A limit was hit that is not in the file; less than {} were left of it.\n",
                bytes_short(room.bytes + 1)
            ),
        };
    }
    out
}

/// The requests of the recorded failures, where they are not the ones shown already.
pub fn oom_fits(result: &Segments, width: Option<usize>) -> String {
    let at = result.fragmentation.at;
    let others: Vec<&OomFit> =
        result.oom_fits.iter().filter(|oom| at.what != "oom" || at.event != Some(oom.event)).collect();
    if others.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        ("event", Align::Right),
        ("request", Align::Right),
        ("stream", Align::Left),
        ("device had", Align::Right),
        ("a hole was there in", Align::Left),
    ])
    .indent(2);
    for oom in others {
        let holes = oom.fit.iter().filter(|fit| fit.how == How::Hole);
        let holes: Vec<String> =
            holes.map(|fit| format!("{} of stream {}", pool_text(fit.kind, fit.pool.as_deref()), fit.stream)).collect();
        table.row([
            count(oom.event.into()),
            oom.fit.first().map_or_else(String::new, |fit| bytes(fit.request)),
            oom.stream.clone(),
            match oom.room.basis {
                Basis::AtMost => format!("< {}", bytes_short(oom.room.bytes + 1)),
                _ => bytes(oom.room.bytes),
            },
            if holes.is_empty() { "no pool".to_owned() } else { holes.join(", ") },
        ]);
    }
    table.render(width)
}

fn answer(fit: &Fit) -> String {
    let segment = fit.new_segment.map_or_else(String::new, bytes_short);
    match fit.how {
        How::Hole => {
            let hole = fit.hole.unwrap_or(0);
            let whole = match fit.taken == Some(hole) && hole > fit.rounded {
                true => ", all of it, because the rest is too small to be split off",
                false => "",
            };
            format!("fits: the hole of {} at {:#x} serves it{whole}", bytes(hole), fit.hole_address.unwrap_or(0))
        }
        How::NewSegment => format!("no hole serves it; the device has the {segment} it needs"),
        How::AfterFlush => format!("no hole serves it; the {segment} it needs are there once idle cache is given back"),
        How::Fails => format!("does not fit: no hole serves it, and the device has not the {segment} it needs"),
        How::Unknown => {
            format!("no hole serves it; whether the device has the {segment} it needs is not known (--capacity)")
        }
    }
}

/// Free blocks by size, and the requests beside them.
pub fn holes(holes: &Holes, width: Option<usize>) -> String {
    if holes.rows.iter().all(|row| row.holes == 0) {
        return String::new();
    }
    let mut table = Table::new([
        ("size", Align::Right),
        ("pool", Align::Left),
        ("holes", Align::Right),
        ("free", Align::Right),
        ("asked for", Align::Right),
        ("could serve", Align::Left),
    ])
    .indent(2);
    for row in &holes.rows {
        let from = if row.from == 0 { "0 B".to_owned() } else { bytes_short(row.from) };
        let serves = match (row.smallest_serves, row.largest_serves) {
            _ if holes.requests == 0 => String::new(),
            (Some(low), Some(high)) if low == high => format!("{} requests", count(low)),
            (Some(low), Some(high)) => format!("{} to {} requests", count(low), count(high)),
            _ => String::new(),
        };
        let dash = |n: u64, text: String| if n == 0 { "–".to_owned() } else { text };
        table.row([
            format!("{from} – {}", bytes_short(row.below)),
            pool_text(row.kind, None),
            dash(row.holes, count(row.holes)),
            dash(row.holes, bytes(row.bytes)),
            dash(row.requests, count(row.requests)),
            serves,
        ]);
    }
    let mut out = table.render(width);
    if let (Some(useless), Some(number)) = (holes.useless, holes.useless_holes) {
        let served = match number {
            0 => "Every hole could serve one of them.".to_owned(),
            n => format!("{} with {} could serve none of them.", number_of(n, "hole"), bytes(useless)),
        };
        let text = format!("Requests are the last {} before the moment. {served}", count(holes.requests));
        out += &paragraph("  ", &text, width.unwrap_or(WIDEST));
    }
    out
}

/// The site that pins most of what was free.
fn pinned_by(fit: &FailedFit, shared: usize) -> String {
    match &fit.pins[..] {
        [] => String::new(),
        [pin] => without(&pin.site, shared).to_owned(),
        [pin, rest @ ..] => format!("{} and {} more", without(&pin.site, shared), rest.len()),
    }
}

/// Requests that found memory only in pieces.
pub fn failed_fits(found: &FailedFits, width: Option<usize>) -> String {
    if found.count == 0 {
        return String::new();
    }
    let taken = format!(
        "{} of {} took {} of new memory although as much was free in their pool, from event {} on.",
        number_of(found.count, "request"),
        bytes(found.bytes),
        bytes(found.new_memory),
        count(found.first_event.unwrap_or(0).into())
    );
    let mut out = paragraph("  ", &taken, width.unwrap_or(WIDEST));
    let windows: Vec<u64> = found.over_time.iter().map(|&n| n.into()).collect();
    out += &format!("  over the trace  {}\n", sparkline(&windows, windows.len()));
    let mut table = Table::new([
        ("event", Align::Right),
        ("request", Align::Right),
        ("of", Align::Left),
        ("free in pieces", Align::Right),
        ("largest", Align::Right),
        ("pinned by", Align::Left),
        ("", Align::Left),
    ])
    .indent(2);
    let names = |fit: &'_ FailedFit| fit.pins.first().map(|pin| pin.site.clone()).into_iter().chain([fit.site.clone()]);
    let all: Vec<String> = found.worst.iter().flat_map(names).collect();
    let shared = shared_directory(all.iter().map(String::as_str));
    for fit in &found.worst {
        table.row([
            count(fit.event.into()),
            bytes(fit.requested),
            without(&fit.site, shared).to_owned(),
            bytes(fit.free),
            bytes(fit.largest_free),
            pinned_by(fit, shared),
            if fit.is_oom { "OOM".to_owned() } else { String::new() },
        ]);
    }
    out += &table.render(width);
    out
}
